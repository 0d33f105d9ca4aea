/* Tests with producers and readers in separate processes: counts are exact to
 * the last packet, even if producers are killed, restarted, forked, or run as
 * another user.
 *
 * Larger values of the environment variables PERCORE_TEST_KILLS and
 * PERCORE_TEST_SECONDS make the tests longer. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/region_unit.h"

enum { FRAME = 64, NOBODY = 65534 };

/* How long an operation may take: much longer than usual, because the machine
 * may be busy. */
enum { AT_LAST_MS = 30000 };
#define AT_LAST_NS (AT_LAST_MS * UINT64_C(1000000))

static unsigned setting(const char *name, unsigned usual) {
  const char *text = getenv(name);
  return text != NULL ? (unsigned)atoi(text) : usual;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_ms(unsigned ms) {
  struct timespec pause = {.tv_sec = ms / 1000,
                           .tv_nsec = (long)(ms % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

/* Makes the calling child process die when the test ends for any reason. */
static void die_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

/* ---------------------------------------------------------------------------
 * A producer: two threads count packets and bytes of port eth0 in sections
 */

struct producer {
  pid_t pid;
  /* The child writes a byte here when it runs, and finally its total. */
  int said;
  int asked; /* the child stops counting when this pipe is closed */
};

struct worker {
  struct percore_region *region;
  int core;
  bool *stop;
  uint64_t counted;
};

/* The work between two packets, about 100 ns. */
static void handle_packet(void) {
  for (volatile int i = 0; i < 100; i++)
    ;
}

static void *work(void *argument) {
  struct worker *worker = argument;
  percore_slot_t slot;
  uint32_t ports;
  ports = PORT;
  attach_thread(worker->region, "worker", worker->core, &slot);
  percore_row_t row = percore_row(percore_table(slot, ports), 1);
  while (!__atomic_load_n(worker->stop, __ATOMIC_RELAXED)) {
    for (int i = 0; i < 1000; i++) {
      begin_section(slot);
      percore_add(row, PACKETS, 1);
      percore_add(row, BYTES, FRAME);
      end_section(slot);
      handle_packet();
    }
    worker->counted += 1000;
    percore_poll(slot, 1000, 0);
  }
  percore_detach(slot);
  return NULL;
}

static void produce(int say, int ask, const struct percore_table *tables,
                    uint32_t count) {
  struct percore_options options = {.cores = 4, .extra_slots = 2};
  struct percore_region *region;
  uint32_t row;
  bool stop = false;
  die_with_parent();
  if (create_region(&region, "unit", tables, count, &options) != 0)
    _exit(2);
  if (make_row(region, PORT, "eth0", &row) != 0 || row != 1)
    _exit(3);
  struct worker workers[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    workers[i] = (struct worker){.region = region, .core = i, .stop = &stop};
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  if (write(say, "r", 1) != 1)
    _exit(4);
  char byte;
  while (read(ask, &byte, 1) > 0)
    ;
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  uint64_t total = workers[0].counted + workers[1].counted;
  if (write(say, &total, sizeof(total)) != sizeof(total))
    _exit(5);
  pause_ms(60000); /* waits until it is killed */
  _exit(0);
}

/* The pid of the running producer, which may belong to a test that failed, or
 * 0. */
static pid_t running;

/* Starts a producer process, which calls first() unless it is NULL. */
static struct producer start_producer_after(void (*first)(void),
                                            const struct percore_table *tables,
                                            uint32_t count) {
  int say[2], ask[2];
  char byte;
  if (running != 0) {
    kill(running, SIGKILL);
    waitpid(running, NULL, 0);
  }
  assert_return_code(pipe2(say, O_CLOEXEC), errno);
  assert_return_code(pipe2(ask, O_CLOEXEC), errno);
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    close(say[0]);
    close(ask[1]);
    if (first != NULL)
      first();
    produce(say[1], ask[0], tables, count);
  }
  running = pid;
  close(say[1]);
  close(ask[0]);
  assert_int_equal(read(say[0], &byte, 1), 1);
  return (struct producer){.pid = pid, .said = say[0], .asked = ask[1]};
}

static struct producer start_producer(void) {
  return start_producer_after(NULL, unit_tables, TABLES);
}

static void kill_producer(struct producer *producer) {
  kill(producer->pid, SIGKILL);
  waitpid(producer->pid, NULL, 0);
  running = 0;
  close(producer->said);
  if (producer->asked >= 0)
    close(producer->asked);
}

/* Makes the producer stop counting, and returns how many packets it counted. */
static uint64_t stop_counting(struct producer *producer) {
  uint64_t total;
  close(producer->asked);
  producer->asked = -1;
  assert_int_equal(read(producer->said, &total, sizeof(total)), sizeof(total));
  return total;
}

/* ---------------------------------------------------------------------------
 * A reader that checks everything
 */

struct watcher {
  struct region_reader *reader;
  uint64_t counted; /* packets of the current producer */
  uint64_t total;   /* packets of all producers */
  uint64_t last, last_ns, looks, torn, producers;
};

static struct watcher start_watching(void) {
  struct region_reader_options options = {0};
  struct watcher watcher = {.last_ns = now_ns()};
  assert_return_code(
      region_reader_open(&watcher.reader, "unit", NULL, &options), 0);
  return watcher;
}

static void stop_watching(struct watcher *watcher) {
  region_reader_close(watcher->reader);
}

/* More packets than a core can count in a second. */
#define MOST_PER_SECOND 4e9

static void check_account(struct watcher *watcher, uint64_t packets) {
  uint64_t now = now_ns();
  assert_true(packets >= watcher->last);
  double seconds = (double)(now - watcher->last_ns) / 1e9 + 1;
  assert_true((double)(packets - watcher->last) < MOST_PER_SECOND * seconds);
  watcher->last = packets;
  watcher->last_ns = now;
}

/* Checks that packets and bytes of one core are from the same moment, unless
 * the read was reported as torn. */
static void check_consistency(struct watcher *watcher,
                              const struct region_tile *tile) {
  watcher->torn += tile->torn[0];
  for (uint32_t core = 0; core < tile->core_count && !tile->torn[0]; core++) {
    const uint64_t *cells =
        tile->cores + (size_t)core * tile->capacity * tile->columns;
    assert_int_equal(cells[BYTES], cells[PACKETS] * FRAME);
  }
}

static void look(struct watcher *watcher) {
  struct region_tile tile;
  if (region_reader_directory(watcher->reader) == NULL)
    return;
  assert_return_code(region_tile_init(&tile, watcher->reader, PORT + 1, 1,
                                      REGION_WANT_BIRTHS | REGION_WANT_CORES),
                     0);
  region_tile_read(watcher->reader, &tile, 1);
  if (tile.rows == 1 && region_state(tile.generations[0]) == REGION_LIVE) {
    watcher->looks++;
    check_consistency(watcher, &tile);
    assert_true(tile.totals[PACKETS] >= watcher->counted);
    watcher->total += tile.totals[PACKETS] - watcher->counted;
    watcher->counted = tile.totals[PACKETS];
    check_account(watcher, watcher->total);
  }
  region_tile_free(&tile);
}

static enum region_event refresh(struct watcher *watcher) {
  enum region_event event = region_reader_refresh(watcher->reader);
  if (event == REGION_CAME) {
    watcher->counted = 0;
    watcher->producers++;
  }
  return event;
}

static void refresh_and_look(struct watcher *watcher) {
  enum region_event event = refresh(watcher);
  look(watcher);
  if (event == REGION_WENT) {
    (void)refresh(watcher);
    look(watcher);
  }
}

/* ---------------------------------------------------------------------------
 * Tests
 */

TEST(two_writers_and_a_reader_agree_to_the_last_count) {
  struct producer producer = start_producer();
  struct watcher watcher = start_watching();
  uint64_t end =
      now_ns() + setting("PERCORE_TEST_SECONDS", 2) * UINT64_C(1000000000);
  uint64_t at_last = end + AT_LAST_NS;
  /* On a busy machine, many reads are torn, because writers are preempted
   * inside a section. Continue until enough reads are not torn. */
  while (now_ns() < end ||
         (watcher.looks - watcher.torn <= 1000 && now_ns() < at_last))
    refresh_and_look(&watcher);
  uint64_t counted = stop_counting(&producer);
  refresh_and_look(&watcher);
  assert_int_equal(watcher.last, counted);
  assert_true(watcher.looks - watcher.torn > 1000);
  print_message("%lu counted, %lu looks, %lu torn\n", counted, watcher.looks,
                watcher.torn);
  kill_producer(&producer);
  stop_watching(&watcher);
}

TEST(a_kill_at_any_point_makes_no_count_decrease_or_jump) {
  struct watcher watcher = start_watching();
  unsigned kills = setting("PERCORE_TEST_KILLS", 40), seed = 1;
  for (unsigned i = 0; i < kills; i++) {
    struct producer producer = start_producer();
    uint64_t end = now_ns() + (uint64_t)(rand_r(&seed) % 15000) * 1000;
    do
      refresh_and_look(&watcher);
    while (now_ns() < end);
    kill_producer(&producer);
    refresh_and_look(&watcher);
  }
  assert_int_equal(watcher.producers, kills);
  assert_int_equal(region_reader_presence(watcher.reader), REGION_LEFT);
  assert_false(region_reader_ended(watcher.reader));
  print_message("%u producers killed, %lu looks\n", kills, watcher.looks);
  stop_watching(&watcher);
}

/* How many packets a child has begun to count, and how many it has counted. */
struct noted {
  uint64_t begun, done;
};

/* A child that counts packets in a row of its own and in the row of all, until
 * it is killed. */
static pid_t start_child(struct percore_region *region, uint32_t row,
                         struct noted *noted) {
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid != 0)
    return pid;
  percore_slot_t slot;
  uint32_t ports;
  die_with_parent();
  ports = 0;
  if (attach_thread(region, "child", PERCORE_NO_CORE, &slot) != 0)
    _exit(1);
  percore_row_t own = percore_row(percore_table(slot, ports), row);
  percore_row_t all = percore_row(percore_table(slot, ports), 1);
  for (;;) {
    __atomic_store_n(&noted->begun, noted->begun + 1, __ATOMIC_SEQ_CST);
    begin_section(slot);
    percore_add(own, 0, 1);
    percore_add(all, 0, 1);
    end_section(slot);
    __atomic_store_n(&noted->done, noted->begun, __ATOMIC_SEQ_CST);
    handle_packet();
  }
}

static uint64_t packets_of(struct percore_reader *reader, uint32_t row) {
  uint64_t packets;
  assert_true(percore_read_row(reader, 0, row, PERCORE_TOTAL, NULL, 0, &packets,
                               1) >= 0);
  return packets;
}

TEST(a_child_that_is_killed_has_counted_all_but_the_packet_in_progress) {
  enum { AT_ONCE = 6 };
  unsigned kills = setting("PERCORE_TEST_KILLS", 60), seed = 3;
  static const struct percore_field packets[] = {{.name = "packets"}};
  const struct percore_table port = {.name = "port",
                                     .fields = packets,
                                     .field_count = 1,
                                     .max_rows = kills + 1,
                                     .row_name_size = 24};
  const struct percore_options options = {.extra_slots = AT_ONCE + 1,
                                          .inherit = 1};
  struct percore_region *region;
  struct percore_region_status status;
  uint64_t sum = 0, before = 0;
  struct noted *noted =
      mmap(NULL, kills * sizeof(*noted), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t children[AT_ONCE] = {0};
  assert_ptr_not_equal(noted, MAP_FAILED);
  assert_return_code(create_region(&region, "unit", &port, 1, &options), errno);
  struct percore_reader *reader;
  assert_return_code(percore_open(&reader, "unit", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  for (unsigned i = 0; i <= kills; i++) {
    char name[24];
    snprintf(name, sizeof(name), "%u", i);
    assert_int_equal(unit_row(region, 0, name), i + 1);
  }
  for (unsigned i = 0; i < kills + AT_ONCE; i++) {
    pid_t *child = &children[i % AT_ONCE];
    int how = SIGKILL;
    if (*child != 0) {
      pause_ms(rand_r(&seed) % 3);
      kill(*child, SIGKILL);
      assert_int_equal(waitpid(*child, &how, 0), *child);
    }
    assert_int_equal(how, SIGKILL);
    *child = i < kills ? start_child(region, i + 2, &noted[i]) : 0;
    assert_true(packets_of(reader, 1) >= before);
    before = packets_of(reader, 1);
  }
  for (unsigned i = 0; i < kills; i++) {
    assert_in_range(packets_of(reader, i + 2), noted[i].done, noted[i].begun);
    assert_in_range(noted[i].begun - noted[i].done, 0, 1);
    sum += packets_of(reader, i + 2);
  }
  assert_in_range(sum - packets_of(reader, 1), 0, kills);
  assert_return_code(percore_status(region, &status), errno);
  assert_int_equal(status.attaches_refused, 0);
  assert_int_equal(status.slots_attached, 0);
  print_message("%u children killed, %lu packets\n", kills, sum);
  percore_close(reader);
  munmap(noted, kills * sizeof(*noted));
  assert_return_code(percore_destroy(region), errno);
}

TEST(a_producer_that_is_killed_while_it_starts_harms_no_reader) {
  struct watcher watcher = start_watching();
  unsigned kills = setting("PERCORE_TEST_KILLS", 40), seed = 7;
  for (unsigned i = 0; i < kills; i++) {
    pid_t pid = fork();
    assert_return_code(pid, errno);
    if (pid == 0) {
      int fds[4];
      if (pipe(fds) == 0 && pipe(fds + 2) == 0)
        produce(fds[1], fds[2], unit_tables, TABLES);
      _exit(1);
    }
    uint64_t end = now_ns() + (uint64_t)(rand_r(&seed) % 4000) * 1000;
    while (now_ns() < end)
      refresh_and_look(&watcher);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    refresh_and_look(&watcher);
  }
  stop_watching(&watcher);
}

TEST(a_restart_with_another_schema_is_read_anew) {
  struct percore_table changed[TABLES];
  struct percore_field fields[] = {{.name = "packets"},
                                   {.name = "bytes"},
                                   {.name = "drops"},
                                   {.name = "errors"}};
  memcpy(changed, unit_tables, sizeof(changed));
  changed[PORT].fields = fields;
  changed[PORT].field_count = COUNT_OF(fields);
  struct watcher watcher = start_watching();
  for (int i = 0; i < 6; i++) {
    struct producer producer =
        start_producer_after(NULL, i % 2 == 0 ? unit_tables : changed, TABLES);
    watcher.last = 0; /* the new producer counts from 0 */
    for (int k = 0; k < 50; k++)
      refresh_and_look(&watcher);
    const struct region_directory *directory =
        region_reader_directory(watcher.reader);
    assert_non_null(directory);
    assert_string_equal(directory->described[PORT + 1].fields[2].name,
                        i % 2 == 0 ? "depth" : "drops");
    kill_producer(&producer);
    watcher.last = 0;
    refresh_and_look(&watcher);
  }
  stop_watching(&watcher);
}

TEST(two_readers_see_the_same) {
  struct producer producer = start_producer();
  struct watcher one = start_watching(), two = start_watching();
  for (int i = 0; i < 1000; i++) {
    refresh_and_look(&one);
    refresh_and_look(&two);
    assert_true(two.last >= one.last);
  }
  uint64_t counted = stop_counting(&producer);
  refresh_and_look(&one);
  refresh_and_look(&two);
  assert_int_equal(one.last, counted);
  assert_int_equal(two.last, counted);
  kill_producer(&producer);
  stop_watching(&one);
  stop_watching(&two);
}

struct resetter {
  struct region_reader *reader;
  pthread_t thread;
  bool stop;
  unsigned done, failed;
};

/* The number of looks at the displayed values between resets, and of errors in
 * them. Errors are asserted only after the resetting threads have ended. */
struct shown {
  unsigned looks, more, apart;
};

/* Runs in a forked child of the producer: counts with handles from before the
 * fork, and calls functions of the library. Nothing may have an effect. */
static void misuse_in_child(struct percore_region *region, percore_slot_t slot,
                            uint32_t ports) {
  percore_slot_t another;
  uint32_t row;
  percore_add(percore_row(percore_table(slot, ports), 1), PACKETS, 1000000);
  percore_poll(slot, 1, 0);
  if (attach_thread(region, NULL, 1, &another) != -1 || errno != ENODEV)
    _exit(1);
  percore_add(percore_row(percore_table(another, ports), 1), PACKETS, 1000000);
  if (make_row(region, PORT, "child", &row) != -1)
    _exit(2);
  percore_add(percore_row(percore_table(another, ports), row), PACKETS,
              1000000);
  if (percore_destroy(region) != 0)
    _exit(3);
}

TEST(a_forked_child_cannot_count_or_hide_its_parents_end) {
  int say[2], ask[2];
  assert_return_code(pipe2(say, O_CLOEXEC), errno);
  assert_return_code(pipe2(ask, O_CLOEXEC), errno);
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    char connected;
    die_with_parent();
    struct percore_region *region = unit_create();
    percore_slot_t slot;
    uint32_t ports;
    uint32_t row;
    ports = PORT;
    make_row(region, PORT, "eth0", &row);
    attach_thread(region, NULL, 0, &slot);
    percore_add(percore_row(percore_table(slot, ports), row), PACKETS, 3);
    if (write(say[1], "r", 1) != 1)
      _exit(1);
    if (read(ask[0], &connected, 1) != 1)
      _exit(1);
    pid_t child = fork();
    if (child == 0) {
      misuse_in_child(region, slot, ports);
      pid_t self = getpid();
      if (write(say[1], &self, sizeof(self)) != sizeof(self))
        _exit(1);
      pause_ms(60000);
      _exit(0);
    }
    pause_ms(60000);
    _exit(0);
  }
  char byte;
  pid_t child = 0;
  assert_int_equal(read(say[0], &byte, 1), 1);
  struct region_reader *reader = unit_connect();
  assert_int_equal(write(ask[1], "c", 1), 1);
  assert_int_equal(read(say[0], &child, sizeof(child)), sizeof(child));
  uint64_t values[64];
  unit_totals(reader, PORT, 1, values);
  assert_int_equal(values[PACKETS], 3);
  assert_int_equal(region_reader_rows(reader, PORT + 1), 2);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  assert_int_equal(kill(child, 0), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_false(region_reader_ended(reader));
  kill(child, SIGKILL);
  region_reader_close(reader);
  for (int end = 0; end < 2; end++) {
    close(say[end]);
    close(ask[end]);
  }
}

/* ---------------------------------------------------------------------------
 * Producers of other users, and in other namespaces
 */

/* Calls what() in a child process. Returns the child's exit status, or 100 if
 * the child was killed. */
static int in_child(void (*what)(void)) {
  int status;
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    what();
    _exit(0);
  }
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static bool has_namespaces(void) {
  int status;
  pid_t pid = fork();
  if (pid == 0)
    _exit(unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 ? 0 : 1);
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  print_message("skipped: no user and pid namespaces here\n");
  return false;
}

static void read_from_namespace(void) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
    _exit(77);
  int status;
  pid_t pid = fork();
  if (pid != 0) {
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
  }
  struct region_reader_options options = {0};
  struct region_reader *reader;
  struct region_tile tile;
  if (region_reader_open(&reader, "unit", NULL, &options) != 0)
    _exit(1);
  if (region_reader_refresh(reader) != REGION_CAME)
    _exit(2);
  if (region_reader_pid(reader) != 0) /* this namespace hides the pid */
    _exit(3);
  if (region_tile_init(&tile, reader, SLOW + 1, 1, 0) != 0)
    _exit(4);
  region_tile_read(reader, &tile, 1);
  if (tile.totals[0] != 5)
    _exit(5);
}

TEST(a_reader_in_other_namespaces_reads_the_region) {
  if (!has_namespaces())
    skip();
  struct percore_region *region = unit_create();
  uint32_t slow = SLOW;
  uint32_t row = unit_row(region, SLOW, "cli");
  percore_shared_add(percore_shared_row(region, slow, row), 0, 5);
  assert_int_equal(in_child(read_from_namespace), 0);
  assert_return_code(percore_destroy(region), 0);
}

static void begin(void) { alarm(900); /* ends a test that hangs */ }

const struct unit_fixtures unit_fixtures = {
    .before_all = begin,
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
