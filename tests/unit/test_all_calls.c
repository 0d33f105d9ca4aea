/* Tests that public calls work beside one another: each thread below makes
 * calls of its own, in turns, while a timer interrupts all of them. */
#include "percore_config.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "board/publish.h"
#include "region_unit.h"

enum { TURNS = 150, TIMER_NS = 500000, HOUR_S = 3600 };

#ifdef __SANITIZE_THREAD__
/* The thread sanitizer ends a process that starts threads after fork(2). */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

struct caller {
  void (*turn)(struct caller *caller, int turn);
  const char *failed; /* the first condition that was false; NULL: none */
  int error, in_turn;
  pthread_t thread;
};

/* cmocka's assertions are for the main thread only. */
#define EXPECT(condition)                                                      \
  do {                                                                         \
    errno = 0;                                                                 \
    if (!(condition) && caller->failed == NULL) {                              \
      caller->failed = #condition;                                             \
      caller->error = errno;                                                   \
      caller->in_turn = turn;                                                  \
    }                                                                          \
  } while (0)

/* These exist all the time. In `inherited`, children of fork count. */
static struct percore_region *steady, *inherited;

static bool is_served(struct percore_region *region) {
  struct percore_region_status status;
  return percore_status(region, &status) == 0 && status.served &&
         status.reason[0] == '\0';
}

static bool create(struct percore_region **region, const char *instance,
                   bool inherit) {
  struct percore_options options = {
      .instance = instance, .cores = 4, .inherit = inherit};
  return create_region(region, "unit", unit_tables, TABLES, &options) == 0;
}

static void counts(struct caller *caller, int turn) {
  struct percore_region *region;
  percore_slot_t slot;
  uint32_t row;
  EXPECT(create(&region, "own", false));
  EXPECT(attach_thread(region, "worker", PERCORE_NO_CORE, &slot) == 0);
  EXPECT(make_row(region, PORT, "eth0", &row) == 0);
  percore_add(percore_row(percore_table(slot, PORT), row), PACKETS, 1);
  EXPECT(is_served(region));
  EXPECT(percore_detach(slot) == 0);
  EXPECT(percore_destroy(region) == 0);
}

static void inherits(struct caller *caller, int turn) {
  struct percore_region *region;
  EXPECT(create(&region, "shared", true));
  EXPECT(is_served(region));
  EXPECT(percore_destroy(region) == 0);
}

static void reads(struct caller *caller, int turn) {
  struct percore_reader *reader;
  uint64_t cells[8];
  EXPECT(percore_open(&reader, "unit", NULL) == 0);
  EXPECT(percore_refresh(reader) == 1);
  int rc;
  do /* another thread resets the row */
    rc = percore_read_row(reader, GLOBALS, 0, PERCORE_TOTAL, NULL, 0, cells, 8);
  while (rc < 0 && errno == EAGAIN);
  EXPECT(rc >= 0);
  EXPECT(percore_refresh(reader) == 0);
  percore_close(reader);
}

static void asks_for_loads(struct caller *caller, int turn) {
  struct percore_load_options options = {
      .size = sizeof(options), .from_board = 1, .board_interval_max = HOUR_S};
  struct percore_load *load = NULL;
  EXPECT(percore_load_open(&load, &options) == 0);
  if (load == NULL)
    return;
  EXPECT(percore_load_update(load) >= 0);
  EXPECT(percore_load_get(load, 0, NULL) == 0.5);
  percore_load_close(load);
}

static void changes_rows(struct caller *caller, int turn) {
  char name[16];
  uint32_t row;
  percore_slot_t slot;
  snprintf(name, sizeof(name), "row %d", turn);
  EXPECT(attach_thread(steady, "rows", PERCORE_NO_CORE, &slot) == 0);
  EXPECT(make_row(steady, SLOW, name, &row) == 0);
  EXPECT(percore_reset(steady, PERCORE_ALL_TABLES, PERCORE_ALL_ROWS) == 0);
  EXPECT(percore_row_remove(steady, SLOW, row, PERCORE_NO_UPDATE_IN_FLIGHT) ==
         0);
  percore_poll(slot, 1, 0);
  percore_sleep(slot);
  percore_wake(slot);
  EXPECT(percore_detach(slot) == 0);
}

/* Returns 0 if the child of fork can use a region of its own and that in which
 * children count, and its parent's is a sink. Under a sanitizer, the child of a
 * process with threads must neither allocate memory nor start threads. */
static int in_child(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  percore_slot_t slot;
  return attach_thread(steady, NULL, PERCORE_NO_CORE, &slot) != 0 ? 0 : 1;
#else
  struct percore_region *region;
  percore_slot_t slot;
  char instance[16];
  uint32_t row;
  if (attach_thread(inherited, "child", PERCORE_NO_CORE, &slot) != 0 ||
      make_row(inherited, SLOW, "row", &row) == 0 || errno != EEXIST ||
      percore_detach(slot) != 0)
    return 2;
  snprintf(instance, sizeof(instance), "c%d", (int)getpid());
  return make_row(steady, SLOW, "child", &row) != 0 &&
                 create(&region, instance, false) && is_served(region) &&
                 percore_destroy(region) == 0
             ? 0
             : 1;
#endif
}

static void forks(struct caller *caller, int turn) {
  int status = -1;
  pid_t child = fork();
  if (child == 0)
    _exit(in_child());
  EXPECT(child > 0);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  EXPECT(status == 0);
}

static void *run(void *argument) {
  struct caller *caller = argument;
  for (int turn = 0; turn < TURNS; turn++)
    caller->turn(caller, turn);
  return NULL;
}

static atomic_int signals;
static void count_signal(int number) {
  (void)number;
  signals++;
}

static timer_t interrupt(void) {
  struct sigaction act = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                           .sigev_signo = SIGUSR1};
  struct itimerspec often = {.it_value.tv_nsec = TIMER_NS,
                             .it_interval.tv_nsec = TIMER_NS};
  timer_t timer;
  assert_return_code(sigaction(SIGUSR1, &act, NULL), errno);
  assert_return_code(timer_create(CLOCK_MONOTONIC, &event, &timer), errno);
  assert_return_code(timer_settime(timer, 0, &often, NULL), errno);
  return timer;
}

static struct board *publish_board(void) {
  const struct journal silent = {.write = NULL};
  struct machine *machine = machine_linux("/");
  struct core_figures core = {.online = true,
                              .source = SOURCE_IDLE,
                              .proof = PROOF_PROVEN,
                              .load = 0.5,
                              .load_low = 0.5,
                              .load_high = 0.5,
                              .load_trough = 0.5,
                              .load_peak = 0.5,
                              .room = 0.5};
  struct snapshot snapshot = {.interval_ns = HOUR_S * UINT64_C(1000000000),
                              .cores = &core,
                              .cores_len = 1};
  struct topology topology;
  struct board *board = board_open(BOARD_GROUP, &silent);
  assert_int_equal(topology_read(&topology, machine), 0);
  while (!board_is_published(board))
    board_publish(board, &snapshot, &topology);
  topology_free(&topology);
  machine_linux_close(machine);
  return board;
}

TEST(calls_of_many_threads_succeed_beside_forks_and_signals) {
  struct caller callers[] = {
      {.turn = counts},         {.turn = inherits},     {.turn = reads},
      {.turn = asks_for_loads}, {.turn = changes_rows}, {.turn = forks},
  };
  steady = unit_create();
  assert_true(create(&inherited, "inherited", true));
  (void)unit_row(inherited, SLOW, "row");
  struct board *board = publish_board();
  timer_t timer = interrupt();
  for (size_t i = 0; i < COUNT_OF(callers); i++)
    assert_int_equal(pthread_create(&callers[i].thread, NULL, run, &callers[i]),
                     0);
  for (size_t i = 0; i < COUNT_OF(callers); i++)
    assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
  assert_return_code(timer_delete(timer), errno);
  for (size_t i = 0; i < COUNT_OF(callers); i++)
    if (callers[i].failed != NULL)
      fail_msg("in turn %d: %s: %s", callers[i].in_turn, callers[i].failed,
               strerror(callers[i].error));
  assert_true(signals > 0);
  assert_true(is_served(steady));
  board_close(board);
  assert_return_code(percore_destroy(inherited), errno);
  assert_return_code(percore_destroy(steady), errno);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
