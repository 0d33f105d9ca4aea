/* Tests what percore.h promises of every public call, one after another: none
 * is a cancellation point, and none takes more stack than it says. */
#include "percore_config.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "board/load.h"
#include "region/memory.h"
#include "region_unit.h"

/* The calls of the table below run in its order. */
static struct percore_region *region, *taken, *refused;
static struct percore_reader *reader;
static struct percore_load *load;
static uint32_t row;
static uint64_t values[PERCORE_MAX_COLUMNS];
static int last_core;

enum { BIG = 5, ALL_TABLES };
/* The tables of region_unit.h, and one with as many cells in a row as can be,
 * in each slot. */
static const struct percore_field big_fields[] = {
    {.name = "sizes", .kind = PERCORE_HISTOGRAM, .sub_bits = 6, .max_bits = 64},
};

static int create_with(struct percore_region **made, const char *name,
                       bool inherit) {
  struct percore_table tables[ALL_TABLES];
  struct percore_options options = {
      .cores = 4, .extra_slots = 2, .inherit = inherit};
  memcpy(tables, unit_tables, sizeof(unit_tables));
  tables[BIG] = (struct percore_table){
      .name = "big", .fields = big_fields, .field_count = 1, .max_rows = 2};
  return create_region(made, name, tables, ALL_TABLES, &options);
}

static void pin_to_first(void) {
  cpu_set_t cpus;
  size_t core = 0;
  sched_getaffinity(0, sizeof(cpus), &cpus);
  while (!CPU_ISSET(core, &cpus))
    core++;
  CPU_ZERO(&cpus);
  CPU_SET(core, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

static bool succeeds(int result) { return result >= 0; }

static bool fails_with(int error, int result) {
  return result == -1 && errno == error;
}

static bool remove_and_wait(void) {
  uint32_t other;
  percore_slot_t slot;
  return succeeds(attach_thread(region, "awake", 3, &slot)) &&
         succeeds(make_row_key(region, FLOW, 1, &row)) &&
         succeeds(make_row_key(region, FLOW, 2, &other)) &&
         succeeds(percore_row_remove(region, FLOW, row, 0)) &&
         fails_with(EAGAIN, make_row_key(region, FLOW, 3, &other)) &&
         succeeds(percore_detach(slot));
}

static bool reset_in_section(void) {
  percore_slot_t slot;
  if (attach_thread(region, "inside", 2, &slot) != 0)
    return false;
  begin_section(slot);
  bool waited =
      fails_with(EAGAIN, percore_reset(region, PORT, PERCORE_ALL_ROWS));
  end_section(slot);
  return waited && succeeds(percore_detach(slot));
}

static bool attach(void) {
  percore_slot_t slot;
  return percore_this_slot(region).seat->head != NULL &&
         succeeds(attach_thread(region, "a", 1, &slot)) &&
         percore_this_slot(region).seat->head == slot.seat->head &&
         succeeds(percore_detach(slot)) &&
         fails_with(EINVAL, percore_detach(slot));
}

static bool attach_for_other_core(void) {
  struct percore_options options = {.instance = "2"};
  struct percore_region *own;
  percore_slot_t other;
  pin_to_first();
  return succeeds(create_region(&own, "unit", NULL, 0, &options)) &&
         succeeds(attach_thread(own, "other", last_core, &other)) &&
         succeeds(percore_detach(other)) && succeeds(percore_destroy(own));
}

static bool attach_until_refused(void) {
  percore_slot_t slots[7];
  int count = 0;
  while (attach_another(taken, 0, &slots[count]) == 0)
    count++;
  bool refused_one = errno == ENOSPC && count >= 3;
  while (count > 0)
    refused_one &= succeeds(percore_detach(slots[--count]));
  return refused_one;
}

static bool status_of(struct percore_region *any) {
  struct percore_region_status status;
  return succeeds(percore_status(any, &status));
}

static bool handles(void) {
  percore_table_t owned;
  errno = 0;
  return percore_shared_row(region, SLOW, 1).shared_cells != NULL &&
         succeeds(errno) && succeeds(open_table(region, FLOW, &owned));
}

static bool describe(void) {
  char name[24];
  return percore_reader_table(reader, BIG) != NULL &&
         percore_reader_rows(reader, PORT) > 0 &&
         percore_reader_column(reader, BIG, 1) > 0 &&
         percore_reader_column(reader, PORT, LATENCY) == LATENCY_COLUMN &&
         percore_reader_find(reader, PERCORE_FIND_TABLE, 0, "port") == PORT &&
         percore_reader_find(reader, PERCORE_FIND_FIELD, PORT, "bytes") ==
             BYTES &&
         percore_reader_find(reader, PERCORE_FIND_ROW, PORT, "eth0") >= 0 &&
         percore_reader_incarnation(reader, PORT, 1) > 0 &&
         percore_reader_bucket(reader, PORT, LATENCY, 1) > 0 &&
         percore_reader_slot_core(reader, 0) >= -2 &&
         percore_read_row(reader, PORT, 1, PERCORE_TOTAL, name, sizeof(name),
                          values, 4) >= 0 &&
         percore_reader_quantile(reader, PORT, LATENCY, values, 0.5) >= -1;
}

/* No source of loads may work here; test_load.c then says why. */
static bool open_load(void) {
  return percore_load_open(&load, NULL) == 0 || errno == ENOTSUP;
}

static bool use_load(void) {
  int core;
  if (load == NULL)
    return true;
  load->due_ns = 0; /* the window is long enough */
  return percore_load_update(load) >= 0 &&
         percore_load_get(load, 0, NULL) <= 1 &&
         load_details(load, 0).low <= 1 && load_details(load, 0).high <= 1 &&
         load_window(load, 0, NULL) >= -1 &&
         load_details(load, 0).sibling <= 1 &&
         load_details(load, 0).source != NULL &&
         load_details(load, 0).proof != NULL &&
         load_details(load, 0).frequency >= -1 &&
         load_details(load, 0).from_board == 0 &&
         percore_load_best(load, NULL, &core, 1) >= 0;
}

/* Each ends with true if it did what it should. */
#define CALLS(CALL)                                                            \
  CALL(create, create_with(&region, "unit", false) == 0)                       \
  CALL(create_inherit, create_with(&taken, "taken", true) == 0)                \
  CALL(create_refused, fails_with(EINVAL, create_with(&refused, "?", 0)))      \
  CALL(status, status_of(region))                                              \
  CALL(status_unserved, status_of(refused))                                    \
  CALL(handles, handles())                                                     \
  CALL(attach, attach())                                                       \
  CALL(attach_for_other_core, attach_for_other_core())                         \
  CALL(attach_until_refused, attach_until_refused())                           \
  CALL(row_add, succeeds(make_row(region, PORT, "eth0", &row)))                \
  CALL(row_add_at, succeeds(percore_row_add_at(region, BIG, 1, NULL, 7)))      \
  CALL(reserve, succeeds(percore_reserve(region, PORT, PORT_ROWS)))            \
  CALL(remove_and_wait, remove_and_wait())                                     \
  CALL(reset_in_section, reset_in_section())                                   \
  CALL(open, succeeds(percore_open(&reader, "unit", NULL)))                    \
  CALL(refresh, percore_refresh(reader) == 1)                                  \
  CALL(refresh_again, percore_refresh(reader) == 0)                            \
  CALL(describe, describe())                                                   \
  CALL(read_row,                                                               \
       succeeds(percore_read_row(reader, BIG, 1, PERCORE_TOTAL, NULL, 0,       \
                                 values, PERCORE_MAX_COLUMNS)))                \
  CALL(read_slot, succeeds(percore_read_row(reader, BIG, 1, 1, NULL, 0,        \
                                            values, PERCORE_MAX_COLUMNS)))     \
  CALL(close, (percore_close(reader), true))                                   \
  CALL(destroy_unserved, succeeds(percore_destroy(refused)))                   \
  CALL(destroy_polled, succeeds(percore_destroy(taken)))                       \
  CALL(destroy, succeeds(percore_destroy(region)))                             \
  CALL(load_open, open_load())                                                 \
  CALL(load_use, use_load())                                                   \
  CALL(load_close, (percore_load_close(load), true))

#define DEFINE(name, outcome)                                                  \
  static bool call_##name(void) { return outcome; }
CALLS(DEFINE)
#define LIST(name, outcome) {#name, call_##name},
static const struct call {
  const char *name;
  bool (*does)(void);
} calls[] = {CALLS(LIST)};

/* ---------------------------------------------------------------------------
 * Running each call in a thread of its own
 */

enum { STACK = 2 << 20, PAINT = 0xa5 };

struct run {
  bool (*does)(void);
  bool is_cancelled, did, has_returned;
};

static void *run(void *argument) {
  struct run *thread = argument;
  if (thread->is_cancelled)
    pthread_cancel(pthread_self());
  thread->did = thread->does();
  thread->has_returned = true;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  return NULL;
}

/* Returns how many bytes of its stack the thread has written. */
static size_t run_in_thread(struct run *thread) {
  pthread_attr_t attributes;
  pthread_t id;
  unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(stack, MAP_FAILED);
  memset(stack, PAINT, STACK);
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, STACK);
  assert_int_equal(pthread_create(&id, &attributes, run, thread), 0);
  assert_int_equal(pthread_join(id, NULL), 0);
  pthread_attr_destroy(&attributes);
  size_t unused = 0;
  while (unused < STACK && stack[unused] == PAINT)
    unused++;
  munmap(stack, STACK);
  return STACK - unused;
}

static bool do_nothing(void) { return true; }

/* Runs all calls. Fails if one takes more than `most` bytes of stack. */
static void run_all(bool is_cancelled, size_t most) {
  struct run nothing = {.does = do_nothing};
  size_t least = run_in_thread(&nothing);
  last_core = (int)region_possible_cores() - 1;
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    struct run thread = {.does = calls[i].does, .is_cancelled = is_cancelled};
    size_t bytes = run_in_thread(&thread);
    if (!thread.has_returned)
      fail_msg("%s ends its thread", calls[i].name);
    if (!thread.did)
      fail_msg("%s does not do what it should: %s", calls[i].name,
               strerror(errno));
    if (bytes > least + most)
      fail_msg("%s takes %zu bytes of stack", calls[i].name, bytes - least);
  }
}

/* The sanitizers take more stack. */
TEST(no_call_takes_more_than_8_KiB_of_stack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  print_message("skipped: compiled with a sanitizer\n");
  skip();
#endif
  run_all(false, 8192);
}

TEST(no_call_is_a_cancellation_point) { run_all(true, STACK); }

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir, .after_all = unit_remove_runtime_dir};
