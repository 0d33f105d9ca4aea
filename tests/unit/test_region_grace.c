/* Tests the reuse of rows while workers may still use the removed rows: every
 * count must go to the object for which it was counted. */
#include "percore_config.h"

#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/writer.h"
#include "region_unit.h"

enum { WORKERS = 2, NAMES = 1000, BETWEEN_QUIESCENT = 50 };

struct stage {
  struct percore_region *region;
  pthread_barrier_t attached;
  uint64_t current; /* name and row for which the workers now count */
  bool stop;
  uint64_t counted[WORKERS][NAMES]; /* counts of each worker for each name */
};

struct worker {
  struct stage *stage;
  int number;
};

static void *count_for_current(void *argument) {
  struct worker *worker = argument;
  struct stage *stage = worker->stage;
  percore_slot_t slot;
  attach_thread(stage->region, NULL, worker->number, &slot);
  pthread_barrier_wait(&stage->attached);
  while (!__atomic_load_n(&stage->stop, __ATOMIC_ACQUIRE)) {
    /* Looks the row up once and then updates it many times. The row may be
     * removed during these updates. */
    uint64_t current = __atomic_load_n(&stage->current, __ATOMIC_RELAXED);
    percore_row_t row =
        percore_row(percore_table(slot, PORT), (uint32_t)current);
    for (int i = 0; i < BETWEEN_QUIESCENT; i++)
      percore_add(row, PACKETS, 1);
    stage->counted[worker->number][current >> 32] += BETWEEN_QUIESCENT;
    percore_quiescent(slot);
  }
  percore_detach(slot);
  return NULL;
}

/* Adds a row for a name, as soon as a row is free. Returns its number. */
static uint32_t add_name(struct stage *stage, unsigned name, unsigned *waits) {
  uint32_t row;
  char text[16];
  snprintf(text, sizeof(text), "n%u", name);
  while (make_row(stage->region, PORT, text, &row) != 0) {
    assert_int_equal(errno, EAGAIN);
    ++*waits;
    sched_yield();
  }
  return row;
}

static uint64_t birth_of(const struct percore_region *region, uint32_t row) {
  const struct region_table *table = &region->tables[PORT + 1];
  return region_base(region, table, table->birth_offset, row)[PACKETS];
}

/* Returns the sum of the raw packets of all rows of `port`, whatever state the
 * rows are in. */
static uint64_t raw_sum(struct region_reader *reader) {
  struct region_tile tile;
  uint64_t sum = 0;
  assert_return_code(
      region_tile_init(&tile, reader, PORT + 1, PORT_ROWS + 1, 0), errno);
  region_tile_read(reader, &tile, 0);
  for (uint32_t i = 0; i < tile.rows; i++)
    sum += tile.totals[i * tile.columns + PACKETS];
  region_tile_free(&tile);
  return sum;
}

TEST(no_count_of_a_removed_row_goes_to_the_next) {
  static struct stage stage;
  static uint64_t kept[NAMES]; /* what the region counted for each name */
  struct worker workers[WORKERS];
  pthread_t threads[WORKERS];
  unsigned holder[PORT_ROWS + 1] = {0}, waits = 0;
  uint64_t births[PORT_ROWS + 1] = {0};
  stage.region = unit_create();
  uint32_t before = add_name(&stage, 0, &waits);
  __atomic_store_n(&stage.current, before, __ATOMIC_RELAXED);
  pthread_barrier_init(&stage.attached, NULL, WORKERS + 1);
  for (int w = 0; w < WORKERS; w++) {
    workers[w] = (struct worker){&stage, w};
    pthread_create(&threads[w], NULL, count_for_current, &workers[w]);
  }
  pthread_barrier_wait(&stage.attached);
  struct region_reader *reader = unit_connect();
  uint64_t sum = 0;
  for (unsigned name = 1; name < NAMES; name++) {
    uint32_t row = add_name(&stage, name, &waits);
    /* The birth of the new object is the sum of the counts of all earlier
     * objects in this row. */
    kept[holder[row]] = birth_of(stage.region, row) - births[row];
    births[row] = birth_of(stage.region, row);
    holder[row] = name;
    __atomic_store_n(&stage.current, (uint64_t)name << 32 | row,
                     __ATOMIC_RELEASE);
    assert_return_code(percore_row_remove(stage.region, PORT, before, 0),
                       errno);
    before = row;
    uint64_t now = raw_sum(reader);
    assert_true(now >= sum); /* the sum never decreases */
    sum = now;
    usleep(50); /* so that workers may be between a look-up and its updates */
  }
  __atomic_store_n(&stage.stop, true, __ATOMIC_RELEASE);
  for (int w = 0; w < WORKERS; w++)
    pthread_join(threads[w], NULL);
  unsigned held[NAMES] = {0}, counted = 0;
  uint64_t all = 0;
  for (int r = 1; r <= PORT_ROWS; r++)
    held[holder[r]] = 1; /* not reused, so no later birth shows its count */
  for (unsigned name = 1; name < NAMES; name++) {
    uint64_t total = stage.counted[0][name] + stage.counted[1][name];
    if (!held[name])
      assert_int_equal(kept[name], total);
    counted += total > 0;
    all += total;
  }
  all += stage.counted[0][0] + stage.counted[1][0];
  assert_int_equal(raw_sum(reader), all);
  region_reader_close(reader);
  print_message("%u of %d names have counts, %u waits\n", counted, NAMES,
                waits);
  assert_true(counted > NAMES / 100);
  assert_return_code(percore_destroy(stage.region), errno);
}

/* ---------------------------------------------------------------------------
 * How long a removed row waits before it is reused
 */

/* Two slots of the test's thread, which stand for two workers. */
struct pair {
  struct percore_region *region;
  percore_slot_t a, b;
};

static struct pair begin_pair(void) {
  struct pair pair = {.region = unit_create()};
  assert_return_code(attach_thread(pair.region, "a", 0, &pair.a), errno);
  assert_return_code(attach_thread(pair.region, "b", 1, &pair.b), errno);
  for (uint32_t row = 1; row <= PORT_ROWS; row++)
    assert_return_code(percore_row_add_at(pair.region, PORT, row, "n", 0),
                       errno);
  return pair;
}

static void end_pair(struct pair *pair) {
  assert_return_code(percore_detach(pair->a), errno);
  assert_return_code(percore_detach(pair->b), errno);
  assert_return_code(percore_destroy(pair->region), errno);
}

static void remove_port(struct pair *pair, uint32_t row) {
  assert_return_code(percore_row_remove(pair->region, PORT, row, 0), errno);
}

static bool is_added(struct pair *pair, uint32_t row) {
  if (percore_row_add_at(pair->region, PORT, row, "n", 0) == 0)
    return true;
  assert_int_equal(errno, EAGAIN);
  return false;
}

TEST(a_second_try_after_quiescent_points_always_adds) {
  struct pair pair = begin_pair();
  for (int i = 0; i < 5000; i++) {
    uint32_t row = 1 + (uint32_t)i % PORT_ROWS;
    remove_port(&pair, row);
    percore_quiescent(pair.a);
    percore_quiescent(pair.b);
    if (is_added(&pair, row))
      continue;
    percore_quiescent(pair.a);
    percore_quiescent(pair.b);
    assert_true(is_added(&pair, row));
  }
  end_pair(&pair);
}

TEST(a_waiting_row_does_not_hold_up_a_later_row) {
  struct pair pair = begin_pair();
  remove_port(&pair, 1);
  assert_false(is_added(&pair, 1));
  percore_quiescent(pair.a);
  remove_port(&pair, 2);
  assert_false(is_added(&pair, 2));
  percore_quiescent(pair.b);
  /* Since the first removal, both workers have passed a quiescent point. */
  assert_true(is_added(&pair, 1));
  assert_false(is_added(&pair, 2));
  percore_quiescent(pair.a);
  assert_true(is_added(&pair, 2));
  end_pair(&pair);
}

TEST(constant_removals_do_not_hold_up_reuse) {
  struct pair pair = begin_pair();
  remove_port(&pair, 1);
  assert_false(is_added(&pair, 1));
  for (uint32_t row = 2; row <= PORT_ROWS; row++) {
    remove_port(&pair, row);
    assert_false(is_added(&pair, row));
    percore_quiescent(row & 1 ? pair.a : pair.b);
  }
  assert_true(is_added(&pair, 1));
  end_pair(&pair);
}

/* The first removal in a region begins a period at once. */
TEST(tries_to_add_a_row_whose_period_has_begun_begin_no_other) {
  struct pair pair = begin_pair();
  remove_port(&pair, 1);
  for (int i = 0; i < 2; i++)
    assert_false(is_added(&pair, 1));
  assert_int_equal(pair.region->grace.begun, 1);
  end_pair(&pair);
}

TEST(removals_begin_at_most_one_period_per_millisecond) {
  struct pair pair = begin_pair();
  const struct grace *grace = &pair.region->grace;
  for (int i = 0; i < 20; i++) {
    uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC), begun = grace->begun;
    for (uint32_t row = 1; row <= PORT_ROWS; row++)
      remove_port(&pair, row);
    uint64_t taken_ns = clock_now_ns(CLOCK_MONOTONIC) - begin_ns;
    assert_in_range(grace->begun - begun, 0, 1 + taken_ns / 1000000);
    for (uint32_t row = 1; row <= PORT_ROWS; row++)
      while (!is_added(&pair, row)) {
        percore_quiescent(pair.a);
        percore_quiescent(pair.b);
      }
  }
  end_pair(&pair);
}

void __real_region_pause(void);
void __wrap_region_pause(void);

static atomic_int pauses;

void __wrap_region_pause(void) {
  pauses++;
  __real_region_pause();
}

/* Returns how many milliseconds the first removal waits. */
static int wait_of_removal(void) {
  struct pair pair = begin_pair();
  pauses = 0;
  remove_port(&pair, 1);
  int waited = pauses;
  end_pair(&pair);
  return waited;
}

static void refuse_membarrier(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = COUNT_OF(filter), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(77); /* an emulator without seccomp(2) */
}

TEST(only_without_membarrier_a_removal_waits_a_millisecond) {
  int status;
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) > 0)
    assert_int_equal(wait_of_removal(), 0);
  pid_t child = fork();
  assert_return_code(child, errno);
  if (child == 0) {
    refuse_membarrier();
    _exit(wait_of_removal());
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) {
    print_message("skipped: no seccomp filter can be set\n");
    skip();
  }
  assert_int_equal(WEXITSTATUS(status), 1);
}

TEST(a_worker_that_moves_on_twice_does_not_count_for_another_worker) {
  struct pair pair = begin_pair();
  remove_port(&pair, 1);
  for (int i = 0; i < 10; i++) {
    assert_false(is_added(&pair, 1));
    percore_quiescent(pair.a);
  }
  percore_quiescent(pair.b);
  assert_true(is_added(&pair, 1));
  end_pair(&pair);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
