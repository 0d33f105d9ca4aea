/* Tests public calls that run beside one another in threads, and in a process
 * that receives signals. The linker replaces the functions below: another
 * thread can act in the middle of a call, and each other wait can end early, as
 * it does when a signal arrives. */
#include "percore_config.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "region_unit.h"

static struct percore_region *create(const char *instance,
                                     enum percore_serving serving) {
  struct percore_options options = {
      .instance = instance, .serving = serving, .cores = 4};
  struct percore_region *region;
  assert_return_code(
      create_region(&region, "unit", unit_tables, TABLES, &options), errno);
  return region;
}

static struct percore_reader *open_reader(const char *instance) {
  struct percore_reader *reader;
  assert_return_code(percore_open(&reader, "unit", instance), errno);
  return reader;
}

static void destroy(struct percore_region *region) {
  struct percore_region_status status;
  assert_return_code(percore_status(region, &status), errno);
  assert_int_equal(status.error, 0);
  assert_true(status.served);
  assert_return_code(percore_destroy(region), errno);
}

/* ---------------------------------------------------------------------------
 * In the middle of a call
 */

/* Another thread calls this once, in the next epoll_ctl. */
static void *(*_Atomic meanwhile)(void *);

int __real_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event) {
  void *(*act)(void *) = meanwhile;
  pthread_t thread;
  meanwhile = NULL;
  if (act != NULL) {
    assert_int_equal(pthread_create(&thread, NULL, act, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
  return __real_epoll_ctl(epoll, operation, fd, event);
}

static void *refresh_polled(void *result) {
  struct percore_reader *reader = open_reader("polled");
  assert_int_equal(percore_refresh(reader), 1);
  percore_close(reader);
  return result;
}

static void create_beside_refresh(enum percore_serving serving) {
  struct percore_region *polled = create("polled", PERCORE_SERVE_POLLED);
  meanwhile = refresh_polled;
  struct percore_region *region = create("new", serving);
  assert_null(meanwhile);
  destroy(region);
  destroy(polled);
}

TEST(a_refresh_serves_no_region_that_another_thread_still_creates) {
  create_beside_refresh(PERCORE_SERVE_POLLED);
}

TEST(a_refresh_serves_no_region_that_will_have_a_thread) {
  create_beside_refresh(PERCORE_SERVE_THREAD);
}

/* ---------------------------------------------------------------------------
 * Signals
 */

static atomic_bool signals;
static atomic_int waits;

/* True if a signal ends this wait: each other one. The kernel looks at the
 * descriptors first, so what does not wait is not interrupted. */
static bool is_interrupted(int wait_ms) {
  if (!signals || wait_ms == 0 || ++waits % 2 == 0)
    return false;
  errno = EINTR;
  return true;
}

static atomic_int pause_ms; /* the last wait for a descriptor */

int __real_poll(struct pollfd *fds, nfds_t len, int wait_ms);
int __wrap_poll(struct pollfd *fds, nfds_t len, int wait_ms);
int __wrap_poll(struct pollfd *fds, nfds_t len, int wait_ms) {
  if (wait_ms > 0)
    pause_ms = wait_ms;
  return is_interrupted(wait_ms) ? -1 : __real_poll(fds, len, wait_ms);
}

static atomic_int turn_ms;     /* the last wait for events */
static atomic_bool time_stops; /* at 4.567 s after a multiple of ten seconds */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  int rc = __real_clock_gettime(clock, now);
  if (time_stops && clock == CLOCK_REALTIME)
    *now = (struct timespec){.tv_sec = 1200004, .tv_nsec = 567999999};
  return rc;
}

int __real_epoll_wait(int epoll, struct epoll_event *events, int len,
                      int wait_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int len,
                      int wait_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int len,
                      int wait_ms) {
  turn_ms = wait_ms;
  return is_interrupted(wait_ms)
             ? -1
             : __real_epoll_wait(epoll, events, len, wait_ms);
}

static void use_beside_signals(enum percore_serving serving) {
  signals = true;
  for (int i = 0; i < 4; i++) {
    waits = i;
    struct percore_region *region = create(NULL, serving);
    struct percore_reader *reader = open_reader(NULL);
    assert_int_equal(percore_refresh(reader), 1);
    assert_int_equal(percore_refresh(reader), 0);
    destroy(region);
    assert_int_equal(percore_refresh(reader), -1);
    assert_int_equal(percore_reader_state(reader, NULL), PERCORE_GONE);
    percore_close(reader);
  }
  signals = false;
}

TEST(signals_change_no_result_of_a_region_with_a_thread) {
  use_beside_signals(PERCORE_SERVE_THREAD);
}

TEST(signals_change_no_result_of_a_polled_region) {
  use_beside_signals(PERCORE_SERVE_POLLED);
}

/* ---------------------------------------------------------------------------
 * How often the serving thread wakes
 */

/* Creates a region of which percore_create returns this, and returns how long
 * its thread first waits for an event. */
static int first_turn_ms(int returns) {
  struct percore_options options = {.quiet = 1};
  struct percore_region *region;
  int turn = turn_ms = 0;
  time_stops = true;
  assert_int_equal(
      create_region(&region, "unit", unit_tables, TABLES, &options), returns);
  while ((turn = turn_ms) == 0)
    sched_yield();
  time_stops = false;
  assert_return_code(percore_destroy(region), errno);
  return turn;
}

TEST(an_idle_thread_wakes_when_ten_seconds_of_the_clock_are_over) {
  assert_int_equal(first_turn_ms(0), 10000 - 4567);
}

TEST(a_thread_whose_name_is_taken_tries_again_after_two_seconds) {
  struct percore_region *first = create(NULL, PERCORE_SERVE_POLLED);
  assert_int_equal(first_turn_ms(-1), 2000);
  destroy(first);
}

/* ---------------------------------------------------------------------------
 * Limits
 */

static int connect_late(struct sockaddr_un *address) {
  address->sun_family = AF_UNIX;
  snprintf(address->sun_path, sizeof(address->sun_path), "%s/unit.sock",
           getenv("PERCORE_RUNTIME_DIR"));
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_return_code(fd, errno);
  return fd;
}

TEST(a_thread_that_may_not_accept_pauses_for_a_tenth_of_a_second) {
  struct percore_region *region = create(NULL, PERCORE_SERVE_THREAD);
  struct sockaddr_un address;
  int reader = connect_late(&address), unused = dup(reader);
  struct rlimit before, limit;
  assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
  limit = (struct rlimit){(rlim_t)unused, before.rlim_max};
  close(unused);
  assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
  pause_ms = 0;
  assert_return_code(connect(reader, (void *)&address, sizeof(address)), errno);
  int paused;
  while ((paused = pause_ms) == 0)
    sched_yield();
  assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
  assert_int_equal(paused, 100);
  close(reader);
  destroy(region);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
