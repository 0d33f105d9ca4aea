/* Tests the conversation with programs that poll, and how their threads are
 * counted. The programs are threads of this one, which listen at given sockets;
 * the clock of their cycles is that of this machine. */
#include "region_unit.h"
#include "unit.h"

#include "poller/poller.h"
#include "region/worker.h"
#include "region/writer.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PROGRAMS = 2, LCORE = 7 };
enum dialect { POLLER_DPDK, POLLER_OVS };

struct program {
  char path[64];
  int listener, type;
  pthread_t thread;
  /* Writes what is sent instead of the n-th answer, from 0. */
  void (*_Atomic answer)(struct program *program, int fd, unsigned n);
  const char *greeting;
  char question[256]; /* the last of all connections */
  _Atomic unsigned questions;
  uint64_t since_tsc, total;
  int core;
};

static struct program programs[PROGRAMS];
static struct pollers *pollers;
static char directory[32];
static char told[4096]; /* to the journal */
static uint64_t tsc_hz; /* of count() */

/* ---------------------------------------------------------------------------
 * Programs
 */

static void put(int fd, const char *format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  int length = vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  (void)!send(fd, text, (size_t)length, MSG_NOSIGNAL);
}

static void put_core(const struct program *program, int fd) {
  put(fd, "{\"/eal/lcore/info\":{\"lcore_id\":%d,\"cpuset\":[%d]}}", LCORE,
      program->core);
}

static void put_cycles(int fd, uint64_t busy, uint64_t total) {
  put(fd,
      "{\"/eal/lcore/usage\":{\"lcore_ids\":[%d],\"busy_cycles\":[%lu],"
      "\"total_cycles\":[%lu]}}",
      LCORE, busy, total);
}

static bool is_about_core(const struct program *program) {
  return strncmp(program->question, "/eal/lcore/info", 15) == 0;
}

/* It is busy for a quarter. Its cycles grow less than the clock however late
 * the answer is read. */
static void answer_well(struct program *program, int fd, unsigned n) {
  if (is_about_core(program))
    put_core(program, fd);
  else
    put_cycles(fd, n, 4 * n);
}

/* It polls, and is never switched out. */
static void answer_as_the_clock(struct program *program, int fd, unsigned n) {
  (void)n;
  if (is_about_core(program))
    put_core(program, fd);
  else
    put_cycles(fd, percore_tsc() / 4, percore_tsc());
}

static void *serve(void *argument) {
  struct program *program = argument;
  for (int fd; (fd = accept(program->listener, NULL, NULL)) >= 0; close(fd)) {
    if (program->greeting != NULL)
      put(fd, "%s", program->greeting);
    while (recv(fd, program->question, sizeof(program->question), 0) > 0)
      program->answer(program, fd, program->questions++);
  }
  return NULL;
}

static void start(struct program *program, enum dialect dialect,
                  void (*answer)(struct program *, int, unsigned)) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t number = (size_t)(program - programs);
  bool is_dpdk = dialect == POLLER_DPDK;
  snprintf(program->path, sizeof(program->path), "%s/%zu%s", directory, number,
           is_dpdk ? "" : ".ctl");
  strcpy(address.sun_path, program->path);
  program->answer = answer;
  program->greeting =
      is_dpdk ? "{\"version\":\"DPDK 24.11\",\"max_output_len\":16384}" : NULL;
  program->listener = socket(
      AF_UNIX, (is_dpdk ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0);
  assert_return_code(bind(program->listener, (void *)&address, sizeof(address)),
                     errno);
  assert_return_code(listen(program->listener, 1), errno);
  pthread_create(&program->thread, NULL, serve, program);
  static const char *paths[PROGRAMS];
  struct names *sockets = &pollers->options.sockets;
  sockets->list = paths;
  sockets->list[sockets->len++] = program->path;
}

/* ---------------------------------------------------------------------------
 * Pollers without their thread, and a thread that polls
 */

static void hear(void *context, enum journal_level level, const char *line) {
  (void)context;
  (void)level;
  snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s\n", line);
}

static int core;      /* to which the thread that polls is bound */
static struct bound { /* a thread that is bound to it */
  sem_t begins, works, has_worked;
  pthread_t thread;
  int tid;
} poller, other;

static double cpu_s(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Uses more processor time than all other threads, and some more. */
static void work(void) {
  double end_s = cpu_s(CLOCK_THREAD_CPUTIME_ID) + 0.05;
  while (cpu_s(CLOCK_THREAD_CPUTIME_ID) < end_s ||
         2 * cpu_s(CLOCK_THREAD_CPUTIME_ID) <
             cpu_s(CLOCK_PROCESS_CPUTIME_ID) + 0.05)
    ;
}

static void *poll_on(void *argument) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)core, &set);
  sched_setaffinity(0, sizeof(set), &set);
  struct bound *bound = argument;
  bound->tid = gettid();
  sem_post(&bound->begins);
  for (;;) {
    sem_wait(&bound->works);
    work();
    sem_post(&bound->has_worked);
  }
  return NULL;
}

static void begin_bound(struct bound *bound) {
  sem_init(&bound->begins, 0, 0);
  sem_init(&bound->works, 0, 0);
  sem_init(&bound->has_worked, 0, 0);
  pthread_create(&bound->thread, NULL, poll_on, bound);
  sem_wait(&bound->begins);
}

static void end_bound(struct bound *bound) {
  pthread_cancel(bound->thread);
  pthread_join(bound->thread, NULL);
}

static void let_work(struct bound *bound) {
  sem_post(&bound->works);
  sem_wait(&bound->has_worked);
}

static void begin(void) {
  cpu_set_t set;
  unit_make_runtime_dir();
  memset(programs, 0, sizeof(programs));
  told[0] = '\0';
  tsc_hz = 1000000000;
  strcpy(directory, "/tmp/percore-unit-XXXXXX");
  assert_non_null(mkdtemp(directory));
  /* Only the threads that poll are bound, even if the test was. */
  memset(&set, 0xff, sizeof(set));
  sched_setaffinity(0, sizeof(set), &set);
  sched_getaffinity(0, sizeof(set), &set);
  for (core = 0; !CPU_ISSET((size_t)core, &set);)
    core++;
  begin_bound(&poller);
  pollers = calloc(1, sizeof(*pollers));
  pollers->options.journal.write = hear;
  pollers->options.wanted = true;
  pollers->answer_ns = 60 * NS_PER_S;
  pollers->most = POLLER_SERVERS_MAX;
}

static void end(void) {
  pollers_close(pollers);
  pollers = NULL;
  for (int i = 0; i < PROGRAMS; i++)
    if (programs[i].listener > 0) {
      shutdown(programs[i].listener, SHUT_RDWR);
      pthread_join(programs[i].thread, NULL);
      close(programs[i].listener);
      unlink(programs[i].path);
    }
  end_bound(&poller);
  rmdir(directory);
  unit_remove_runtime_dir();
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};

/* Only the given sockets are asked. */
static struct poller_server *ask(void) {
  if (pollers->len == 0)
    pollers_find(pollers);
  pollers_ask(pollers);
  return pollers->servers[0];
}

static struct poller_server *start_dpdk(void (*answer)(struct program *, int,
                                                       unsigned)) {
  programs[0].core = core;
  start(&programs[0], POLLER_DPDK, answer);
  return ask();
}

/* ---------------------------------------------------------------------------
 */

TEST(a_thread_is_known_from_its_second_answer_on) {
  struct poller_server *server = start_dpdk(answer_well);
  assert_int_equal(server->len, 1);
  assert_int_equal(server->threads[0].core, core);
  assert_nan(server->threads[0].share);
  assert_false(server->threads[0].is_attached);
  ask();
  assert_near(server->threads[0].share, 0.25, 0.01);
  assert_true(server->threads[0].is_attached);
  assert_int_equal(programs[0].questions, 3); /* and one for its core */
  assert_non_null(strstr(told, ": its useful load is read"));
}

TEST(the_only_thread_that_is_bound_to_the_core_is_joined) {
  let_work(&poller);
  struct poller_server *server = start_dpdk(answer_well);
  assert_int_equal(server->threads[0].tid, poller.tid);
}

TEST(
    of_several_bound_threads_the_one_that_ran_most_since_the_last_look_is_joined) {
  begin_bound(&other);
  let_work(&other);
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  int first = thread->tid;
  bool is_said = strstr(told, "in part") != NULL;
  let_work(&poller);
  ask();
  end_bound(&other);
  assert_false(is_said);
  assert_int_equal(first, 0); /* nobody knows yet */
  assert_int_equal(thread->tid, poller.tid);
}

TEST(a_thread_that_does_not_run_while_another_does_is_joined_no_longer) {
  begin_bound(&other);
  struct poller_thread *thread = &start_dpdk(answer_as_the_clock)->threads[0];
  let_work(&other);
  ask();
  int first = thread->tid;
  ask();
  for (int i = 0; i < 20 && thread->tid != poller.tid; i++) {
    let_work(&poller);
    ask();
  }
  end_bound(&other);
  assert_int_equal(first, other.tid);
  assert_int_equal(thread->tid, poller.tid);
}

static uint64_t ran_ns(int tid) {
  char path[64];
  unsigned long ran;
  snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
  FILE *file = fopen(path, "r");
  assert_int_equal(fscanf(file, "%lu", &ran), 1);
  fclose(file);
  return ran;
}

TEST(the_cpu_time_of_a_thread_is_the_kernels) {
  let_work(&poller);
  const struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  uint64_t before = ran_ns(thread->tid);
  ask();
  assert_in_range(thread->cpu.ran_ns, before, ran_ns(thread->tid));
}

static void answer_for_two(struct program *program, int fd, unsigned n) {
  if (n > 0)
    put(fd, "{\"/eal/lcore/info\":{\"lcore_id\":%u,\"cpuset\":[%d]}}",
        LCORE + n - 1, program->core);
  else
    put(fd, "{\"/eal/lcore/usage\":{\"lcore_ids\":[7,8],\"busy_cycles\":[1,1],"
            "\"total_cycles\":[2,2]}}");
}

TEST(two_lcores_are_not_the_same_thread) {
  const struct poller_server *server = start_dpdk(answer_for_two);
  assert_int_equal(server->len, 2);
  assert_int_equal(server->threads[1].core, core);
  assert_int_not_equal(server->threads[0].tid, server->threads[1].tid);
}

/* Afterwards there is another lcore on the core. */
static void answer_for_one_of_two(struct program *program, int fd, unsigned n) {
  if (n < 4)
    answer_well(program, fd, n);
  else
    put(fd, "{\"/eal/lcore/usage\":{\"lcore_ids\":[8],\"busy_cycles\":[1],"
            "\"total_cycles\":[2]}}");
}

TEST(an_lcore_that_is_told_no_longer_counts_nothing) {
  struct poller_server *server = start_dpdk(answer_for_one_of_two);
  ask();
  ask();
  assert_true(server->threads[0].is_attached);
  ask();
  assert_int_equal(server->len, 2);
  assert_false(server->threads[0].is_attached);
}

TEST(an_lcore_whose_thread_is_not_bound_counts_nothing_and_is_told) {
  programs[0].core = 8000;
  start(&programs[0], POLLER_DPDK, answer_well);
  ask();
  assert_non_null(strstr(told, "in part: some threads may run on several"));
  ask();
  assert_int_equal(pollers->servers[0]->threads[0].core, 8000);
  assert_null(pollers->region);
}

/* ---------------------------------------------------------------------------
 * Cycles that cannot be right
 */

static uint64_t busy, total; /* of the next answer */

static void answer_these(struct program *program, int fd, unsigned n) {
  (void)n;
  if (is_about_core(program))
    put_core(program, fd);
  else
    put_cycles(fd, busy, total);
}

static double tell(uint64_t more_busy, uint64_t more_total) {
  busy += more_busy;
  total += more_total;
  return ask()->threads[0].share;
}

static const struct poller_thread *start_told(void) {
  busy = total = UINT64_C(1) << 40;
  start(&programs[0], POLLER_DPDK, answer_these);
  programs[0].core = core;
  ask();
  return &pollers->servers[0]->threads[0];
}

TEST(each_counter_may_be_set_back_alone) {
  const struct poller_thread *thread = start_told();
  assert_near(tell(10, 40), 0.25, 1e-9);
  assert_nan(tell(-busy, 40)); /* testpmd's start, and clear fwd stats */
  assert_false(thread->is_attached);
  assert_near(tell(30, 40), 0.75, 1e-9);
  assert_true(thread->is_attached);
  assert_nan(tell(10, -total / 2));
  assert_near(tell(10, 40), 0.25, 1e-9);
  assert_nan(tell(-busy, -total)); /* pmd-stats-clear */
  assert_near(tell(10, 40), 0.25, 1e-9);
}

TEST(a_thread_that_does_not_poll_has_no_useful_load) {
  start_told();
  assert_nan(tell(0, 0));
}

/* As if the last answer were of a second before. */
static double tell_after_a_second(double busy_s, double total_s) {
  const double hz = (double)region_tsc_hz();
  struct poller_server *server = pollers->servers[0];
  struct poller_thread *thread = &server->threads[0];
  thread->told_ns = clock_now_ns(CLOCK_MONOTONIC) - NS_PER_S;
  thread->told_tsc = percore_tsc() - (uint64_t)hz;
  poller_thread_tell(server, LCORE, thread->busy + (uint64_t)(busy_s * hz),
                     thread->total + (uint64_t)(total_s * hz));
  return thread->share;
}

TEST(a_thread_whose_busy_cycles_are_read_a_little_late_is_always_busy) {
  start_told();
  assert_near(tell_after_a_second(0.9009, 0.9), 1, 1e-9);
  assert_near(tell_after_a_second(0.000008, 0.000001), 1, 1e-9);
  assert_near(tell_after_a_second(0.3, 0.9), 1.0 / 3, 1e-3);
}

TEST(busy_cycles_beyond_the_total_are_not_believed) {
  start_told();
  assert_nan(tell_after_a_second(0.902, 0.9));
  assert_nan(tell_after_a_second(0.00002, 0.000001));
}

TEST(more_cycles_than_the_clock_are_not_believed) {
  start_told();
  assert_nan(tell(10, percore_tsc()));
  assert_nan(tell(0, UINT64_MAX));
}

/* ---------------------------------------------------------------------------
 * What is counted
 */

static struct region_workers workers;

static const struct region_worker *read_worker(struct region_reader *reader,
                                               uint64_t now_tsc) {
  assert_int_equal(region_workers_read(&workers, reader, 1, now_tsc, 0), 0);
  return &workers.list[core];
}

/* Counts a second in which the thread ran and waited for parts of the time. */
static void count(struct poller_thread *thread, double ran, double waited,
                  uint64_t slices) {
  struct poller_cpu_time last = thread->cpu;
  thread->cpu.at_ns += 1000000000;
  thread->cpu.at_tsc += tsc_hz;
  thread->cpu.ran_ns += (uint64_t)(ran * 1e9);
  thread->cpu.waited_ns += (uint64_t)(waited * 1e9);
  thread->cpu.slices += slices;
  poller_thread_join(pollers->servers[0], thread, &last);
}

static struct region_reader *connect_reader(void) {
  struct region_reader_options options = {0};
  struct region_reader *reader;
  assert_return_code(
      region_reader_open(&reader, POLLERS_REGION, NULL, &options), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  return reader;
}

TEST(useful_is_the_busy_share_of_the_cpu_time) {
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  thread->share = 0.5;
  count(thread, 0.4, 0.5, 3);
  struct region_reader *reader = connect_reader();
  tsc_hz = region_reader_directory(reader)->header.tsc_hz;
  read_worker(reader, thread->cpu.at_tsc);
  count(thread, 0.4, 0.5, 3);
  const struct region_worker *worker = read_worker(reader, thread->cpu.at_tsc);
  assert_near(worker->useful, 0.2, 1e-6);
  assert_near(worker->polled_empty, 0.2, 1e-6);
  assert_near(worker->slept, 0.1, 1e-6);
  assert_true(worker->polls);
  assert_int_equal(worker->growth[REGION_CORE_POLLS], 0);
  assert_non_null(strstr(worker->slot.name, "/7"));
  region_workers_forget(&workers);
  region_reader_close(reader);
}

static double useful(struct poller_thread *thread, double ran,
                     uint64_t slices) {
  uint64_t before = thread->slot.seat->head->busy_cycles;
  count(thread, ran, 0, slices);
  return (double)(thread->slot.seat->head->busy_cycles - before) /
         (double)tsc_hz;
}

/* Cycles of Open vSwitch do not go on while its thread sleeps; its percents are
 * of all time. */
TEST(a_thread_that_sleeps_is_as_useful_by_percents_as_by_cycles) {
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  thread->share = 0.75;
  count(thread, 0.4, 0, 3);
  assert_near(useful(thread, 0.4, 3), 0.3, 1e-6);
  pollers->servers[0]->is_percent = true;
  thread->share = 0.3;
  assert_near(useful(thread, 0.4, 3), 0.3, 1e-6);
  assert_near(useful(thread, 0.2, 3), 0.2, 1e-6); /* of another time */
  assert_near(useful(thread, 0, 3), 0, 1e-6);
}

TEST(cleared_counters_make_no_value_that_is_too_large) {
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  const double shares[] = {0.5, 0.5, NAN, 0.5, 0.5, 0.5};
  struct region_reader *reader = NULL;
  for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
    thread->share = shares[i];
    count(thread, 0.6, 0, 1);
    if (reader == NULL) {
      reader = connect_reader();
      tsc_hz = region_reader_directory(reader)->header.tsc_hz;
    }
    /* Regions are read half a second after programs are asked. */
    const struct region_worker *worker =
        read_worker(reader, thread->cpu.at_tsc + tsc_hz / 2);
    if (i == 1 || i > 3)
      assert_near(worker->useful, 0.3, 1e-6);
    else
      assert_nan(worker->useful);
  }
  region_workers_forget(&workers);
  region_reader_close(reader);
}

TEST(a_thread_is_not_stuck_between_two_questions) {
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  thread->share = 0.5;
  count(thread, 1, 0, 1);
  struct region_reader *reader = connect_reader();
  tsc_hz = region_reader_directory(reader)->header.tsc_hz;
  for (uint64_t s = 100; s < 120; s += 5) {
    region_workers_read(&workers, reader, s * 1000000000,
                        thread->cpu.at_tsc + (s - 99) * tsc_hz, 0);
    assert_true(workers.list[core].still_ns == 0);
  }
  region_workers_forget(&workers);
  region_reader_close(reader);
}

/* The kernel's two times do not end at the same moment. */
TEST(the_region_ends_with_the_thread) {
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  thread->share = 0.5;
  count(thread, 1, 0, 1);
  struct region_reader *reader = connect_reader();
  pollers_close(pollers);
  pollers = NULL;
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  region_reader_close(reader);
}

TEST(a_thread_waited_for_no_longer_than_it_did_not_run) {
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  thread->share = 0.5;
  count(thread, 0.4, 0.9, 3);
  const struct percore_slot_head *head = thread->slot.seat->head;
  assert_near((double)head->absent_cycles / (double)tsc_hz, 0.6, 1e-6);
  assert_true(head->sleep_cycles == 0);
}

TEST(a_thread_that_was_never_switched_out_has_run_all_the_time) {
  struct poller_thread *thread = &start_dpdk(answer_well)->threads[0];
  thread->share = 1;
  count(thread, 1, 0, 0);
  assert_near(useful(thread, 0.995, 0), 1, 1e-6); /* less than a tick lacks */
  assert_near(useful(thread, 0.995, 1), 0.995, 1e-6);
  assert_near(useful(thread, 0.6, 0), 0.6, 1e-6); /* it does not run now */
  assert_near(useful(thread, 1.004, 1), 1, 1e-6);
}

/* ---------------------------------------------------------------------------
 * Servers that do not answer as they should
 */

static void answer_nothing(struct program *program, int fd, unsigned n) {
  (void)program, (void)fd, (void)n;
}

static void answer_half(struct program *program, int fd, unsigned n) {
  (void)program, (void)n;
  put(fd, "{\"result\":\"pmd thread numa_id 0 core_id 1:\\n");
}

static void answer_at_length(struct program *program, int fd, unsigned n) {
  (void)program, (void)n;
  for (int i = 0; i < 1100; i++)
    put(fd, "{%1000s", "");
}

static void answer_the_end(struct program *program, int fd, unsigned n) {
  (void)program, (void)n;
  shutdown(fd, SHUT_RDWR);
}

static void check_refused(enum dialect dialect,
                          void (*answer)(struct program *, int, unsigned),
                          const char *why) {
  start(&programs[0], dialect, answer);
  const struct poller_server *server = ask();
  assert_int_equal(server->told, 0);
  assert_int_equal(server->fd, -1);
  assert_non_null(strstr(told, why));
}

TEST(a_program_that_does_not_answer_is_not_waited_for) {
  pollers->answer_ns = NS_PER_S / 5;
  check_refused(POLLER_DPDK, answer_nothing, "does not answer within 200 ms");
}

TEST(half_an_answer_is_none) {
  pollers->answer_ns = NS_PER_S / 5;
  check_refused(POLLER_OVS, answer_half, "does not answer within 200 ms");
}

TEST(an_answer_of_more_than_1_mib_is_refused) {
  check_refused(POLLER_OVS, answer_at_length, "longer than 1 MiB");
}

TEST(a_program_that_ends_the_connection_is_refused) {
  check_refused(POLLER_OVS, answer_the_end, "ends the connection");
}

TEST(a_program_that_is_not_there_is_refused) {
  start(&programs[0], POLLER_DPDK, answer_well);
  unlink(programs[0].path);
  ask();
  assert_non_null(strstr(told, "No such file or directory"));
}

TEST(after_three_misses_a_program_is_left_alone) {
  const struct poller_server *server = start_dpdk(answer_the_end);
  for (int i = 0; i < 5; i++)
    ask();
  assert_int_equal(programs[0].questions, 3);
  assert_true(server->due_ns > server->asked_ns);
  assert_non_null(strstr(told, "ends the connection"));
  assert_null(strstr(strstr(told, "ends the connection") + 1, "pid"));
}

TEST(a_miss_or_two_are_not_told) {
  struct poller_server *server = start_dpdk(answer_well);
  told[0] = '\0';
  programs[0].answer = answer_the_end;
  ask();
  ask();
  programs[0].answer = answer_well;
  ask();
  ask();
  assert_string_equal(told, "");
  assert_false(isnan(server->threads[0].share));
}

TEST(
    a_thread_is_as_useful_as_before_while_its_program_misses_a_question_or_two) {
  struct poller_server *server = start_dpdk(answer_well);
  ask();
  programs[0].answer = answer_the_end;
  for (int misses = 1; misses <= 3; misses++) {
    uint64_t before = server->threads[0].cpu.at_tsc;
    ask();
    assert_int_equal(server->threads[0].is_attached, misses < 3);
    if (misses < 3) {
      assert_near(server->threads[0].share, 0.25, 0.01);
      assert_true(server->threads[0].cpu.at_tsc > before);
    }
  }
}

TEST(a_thread_counts_nothing_once_its_program_may_not_or_cannot_be_asked) {
  struct poller_server *server = start_dpdk(answer_well);
  ask();
  programs[0].answer = answer_the_end;
  ask();
  assert_true(server->threads[0].is_attached);
  unlink(programs[0].path);
  ask();
  assert_false(server->threads[0].is_attached);
}

/* As if its thread were bound and released all the time. */
TEST(a_program_that_is_read_has_news_once_a_minute_at_most) {
  struct poller_server *server = start_dpdk(answer_well);
  for (int i = 0; i < 5; i++) {
    poller_thread_forget(&server->threads[0]);
    server->threads[0].core = i % 2 == 0 ? 8000 : core;
    ask();
  }
  assert_null(strstr(told, "in part"));
  assert_true(server->say_ns - server->asked_ns >= UINT64_C(50000000000));
  server->say_ns = 0;
  ask();
  assert_non_null(strstr(told, "in part"));
}

static void answer_in_pieces(struct program *program, int fd, unsigned n) {
  (void)program, (void)n;
  put(fd, "{\"id\":0,\"result\":\"pmd thread numa_id 0 core_id 3:\\n  idle ");
  put(fd, "cycles: 60 (60.00%%)\\n  processing cycles: 4");
  put(fd, "0 (40.00%%)\\n\"}");
}

TEST(a_program_that_does_not_answer_delays_no_other) {
  pollers->answer_ns = 2 * NS_PER_S;
  start(&programs[0], POLLER_DPDK, answer_nothing);
  start(&programs[1], POLLER_OVS, answer_in_pieces);
  pollers_find(pollers);
  pollers->servers[0]->misses = POLLER_MISSES; /* both are this process */
  ask();
  for (size_t i = 0; i < pollers->len; i++)
    assert_int_equal(pollers->servers[i]->told, !pollers->servers[i]->is_dpdk);
  assert_int_equal(programs[0].questions, 1);
}

static atomic_ullong ahead_ns; /* of all clocks */
static uint64_t connect_ns;    /* to look for a socket takes so long */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  int status = __real_clock_gettime(clock, now);
  uint64_t ns = (uint64_t)now->tv_nsec + ahead_ns;
  now->tv_sec += (time_t)(ns / NS_PER_S);
  now->tv_nsec = (long)(ns % NS_PER_S);
  return status;
}

bool __real_poller_connect(struct poller_server *server);
bool __wrap_poller_connect(struct poller_server *server);
bool __wrap_poller_connect(struct poller_server *server) {
  ahead_ns += connect_ns;
  return __real_poller_connect(server);
}

TEST(a_long_search_for_sockets_takes_nothing_from_the_time_for_answers) {
  connect_ns = 100 * NS_PER_S;
  start_dpdk(answer_well);
  connect_ns = 0;
  assert_int_equal(pollers->servers[0]->told, 1);
}

/* ---------------------------------------------------------------------------
 * The thread, which sleeps in no time
 */

enum { SLEEPS = 70 };
static struct {
  uint64_t at_ns;
  unsigned looks;
} sleeps[SLEEPS];
static unsigned looks;

void __real_pollers_find(struct pollers *of);
void __wrap_pollers_find(struct pollers *of);
void __wrap_pollers_find(struct pollers *of) {
  looks++;
  __real_pollers_find(of);
}

static size_t sleeps_len;
static sem_t has_slept;

bool __wrap_sampling_thread_sleep_to_grid(struct sampling_thread *sampling,
                                          uint64_t interval_ns,
                                          uint64_t lead_ns);
bool __wrap_sampling_thread_sleep_to_grid(struct sampling_thread *sampling,
                                          uint64_t interval_ns,
                                          uint64_t lead_ns) {
  sleeps[sleeps_len].at_ns = clock_now_ns(CLOCK_MONOTONIC);
  sleeps[sleeps_len].looks = looks;
  ahead_ns +=
      interval_ns - (clock_now_ns(CLOCK_REALTIME) + lead_ns) % interval_ns;
  if (++sleeps_len < SLEEPS)
    return true;
  sem_post(&has_slept);
  return sampling_thread_sleep(sampling, UINT64_MAX);
}

static void run_the_thread(void) {
  struct pollers_options options = pollers->options;
  options.interval_ns = NS_PER_S;
  pollers_close(pollers);
  sleeps_len = looks = 0;
  sem_init(&has_slept, 0, 0);
  assert_int_equal(pollers_start(&pollers, &options), 0);
  sem_wait(&has_slept);
}

TEST(without_a_program_to_look_for_there_is_no_thread) {
  const struct pollers_options options = {.interval_ns = NS_PER_S};
  struct pollers *none = pollers;
  assert_int_equal(pollers_start(&none, &options), 0);
  assert_null(none);
  pollers_close(none);
}

TEST(new_programs_are_looked_for_every_30_s) {
  start(&programs[0], POLLER_DPDK, answer_well);
  run_the_thread();
  for (size_t i = 0; i < SLEEPS; i++) {
    uint64_t passed_ns = sleeps[i].at_ns - sleeps[0].at_ns;
    assert_in_range(sleeps[i].looks, 1 + passed_ns / (31 * NS_PER_S),
                    1 + passed_ns / (29 * NS_PER_S));
  }
  assert_true(programs[0].questions >= SLEEPS);
}

/* ---------------------------------------------------------------------------
 * Open vSwitch
 */

TEST(the_pieces_of_an_answer_are_put_together) {
  start(&programs[0], POLLER_OVS, answer_in_pieces);
  const struct poller_server *server = ask();
  assert_int_equal(server->told, 1);
  assert_int_equal(server->threads[0].core, 3);
  assert_true(server->threads[0].total == 100);
}

TEST(open_vswitch_is_asked_every_5_s_at_most) {
  start(&programs[0], POLLER_OVS, answer_in_pieces);
  const struct poller_server *server = ask();
  ask();
  ask();
  assert_int_equal(programs[0].questions, 1);
  assert_true(server->due_ns - server->asked_ns >= UINT64_C(4500000000));
}

static void answer_as_4(struct program *program, int fd, unsigned n) {
  put(fd,
      n == 0 ? "{\"result\":\"pmd thread numa_id 0 core_id %d:\\n\\n  "
               "Iterations: 7\\n\"}"
             : "{\"result\":\"pmd thread numa_id 0 core_id %d:\\n  port: p  "
               "queue-id: 0 (enabled)   pmd usage: 40 %%\\n  overhead: 2 "
               "%%\\n\"}",
      program->core);
}

TEST(open_vswitch_4_is_asked_for_percents_and_for_cycles_only_once) {
  programs[0].core = core;
  start(&programs[0], POLLER_OVS, answer_as_4);
  struct poller_server *server = ask();
  assert_int_equal(programs[0].questions, 2);
  server->due_ns = 0;
  ask();
  assert_int_equal(programs[0].questions, 3);
  assert_near(server->threads[0].share, 0.42, 1e-9);
  assert_non_null(strstr(told, "in whole percents"));
}

static void answer_no_threads(struct program *program, int fd, unsigned n) {
  (void)program, (void)n;
  put(fd, "{\"id\":0,\"result\":null,\"error\":\"no datapath\"}");
}

TEST(an_open_vswitch_whose_threads_do_not_poll_is_left_alone) {
  start(&programs[0], POLLER_OVS, answer_no_threads);
  const struct poller_server *server = ask();
  assert_non_null(strstr(told, "none of its threads polls"));
  assert_true(server->due_ns - server->asked_ns >= UINT64_C(59000000000));
}

/* ---------------------------------------------------------------------------
 * DPDK
 */

static void answer_null(struct program *program, int fd, unsigned n) {
  (void)program, (void)n;
  put(fd, "{\"/eal/lcore/usage\":null}");
}

TEST(a_dpdk_that_tells_nothing_is_left_alone_with_advice) {
  const struct poller_server *server = start_dpdk(answer_null);
  assert_non_null(strstr(told, "; "));
  assert_non_null(strstr(told, "rte_lcore_register_usage_cb"));
  assert_int_equal(server->fd, -1); /* it serves few connections */
}

TEST(the_connection_to_a_dpdk_that_tells_cycles_is_kept) {
  const struct poller_server *server = start_dpdk(answer_well);
  int fd = server->fd;
  assert_true(fd >= 0);
  ask();
  assert_int_equal(server->fd, fd);
}

TEST(a_program_is_asked_once_although_two_sockets_are_given) {
  start(&programs[0], POLLER_DPDK, answer_well);
  start(&programs[1], POLLER_DPDK, answer_well);
  ask();
  assert_int_equal(programs[1].questions, 0);
  assert_non_null(strstr(told, "it is asked at "));
}

TEST(a_socket_at_which_nobody_listens_is_told_by_its_path) {
  start(&programs[0], POLLER_DPDK, answer_well);
  unlink(programs[0].path);
  ask();
  assert_non_null(strstr(told, "/0: No such file or directory"));
}
