/* Tests the calls of a producer, by means of a reader in the same process. */
#include "percore_config.h"

#include <grp.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/memory.h"
#include "region/view.h"
#include "region/writer.h"
#include "region_unit.h"
#include "temp_tree.h"

REGION_TEST(each_storage_counts_in_its_own_way) {
  percore_slot_t slot = unit_attach(region, 1);
  uint32_t ports = PORT;
  percore_table_t sessions = unit_owned_table(region, SESSION);
  uint32_t slow = SLOW;
  uint32_t shared_ports = PORT;
  uint32_t port = unit_row(region, PORT, "eth0");
  uint32_t session = unit_row_of_key(region, SESSION, 7);
  uint32_t request = unit_row(region, SLOW, "cli");
  percore_add(percore_row(percore_table(slot, ports), port), PACKETS, 3);
  percore_shared_add(percore_shared_row(region, shared_ports, port), PACKETS,
                     2);
  percore_add(percore_row(sessions, session), BYTES, 100);
  percore_shared_add(percore_shared_row(region, slow, request), 0, 5);
  percore_set(percore_shared_row(region, slow, request), 1, 1);
  assert_int_equal(unit_read(PORT, port, PACKETS), 5);
  assert_int_equal(unit_read(SESSION, session, PACKETS), 0);
  assert_int_equal(unit_read(SESSION, session, BYTES), 100);
  assert_int_equal(unit_read(SLOW, request, 0), 5);
  assert_int_equal(unit_read(SLOW, request, 1), 1);
}

REGION_TEST(an_up_down_counter_is_the_sum_over_cores_that_raise_and_lower_it) {
  uint32_t ports = PORT;
  uint32_t port = unit_row(region, PORT, "eth0");
  percore_slot_t in = unit_attach(region, 0);
  percore_slot_t out = unit_attach(region, 2);
  percore_add(percore_row(percore_table(in, ports), port), DEPTH, 10);
  percore_add(percore_row(percore_table(out, ports), port), DEPTH, -4);
  UNIT_READER(reader);
  assert_int_equal(unit_shown(reader, PORT, port, DEPTH), 6);
  assert_return_code(percore_detach(out), 0);
  assert_int_equal(unit_shown(reader, PORT, port, DEPTH), 6);
}

REGION_TEST(a_maximum_level_covers_all_used_slots) {
  uint32_t globals = GLOBALS;
  percore_slot_t one = unit_attach(region, 0);
  percore_slot_t two = unit_attach(region, 3);
  percore_set(percore_row(percore_table(one, globals), 0), 1, 9);
  percore_set(percore_row(percore_table(two, globals), 0), 1, 4);
  assert_int_equal(unit_read(GLOBALS, 0, 1), 9);
}

REGION_TEST(a_histogram_counts_each_value_once) {
  uint64_t values[64] = {0}, sum = 0;
  uint32_t ports = PORT;
  uint32_t port = unit_row(region, PORT, "eth0");
  percore_slot_t slot = unit_attach(region, 0);
  for (uint64_t value = 0; value < 5000; value++)
    percore_observe(percore_row(percore_table(slot, ports), port), LATENCY,
                    value);
  UNIT_READER(reader);
  unit_totals(reader, PORT, port, values);
  for (uint32_t b = 0; b < region_histogram_buckets(2, 10); b++)
    sum += values[LATENCY_COLUMN + b];
  assert_int_equal(sum, 5000);
}

/* ---------------------------------------------------------------------------
 * Slots
 */

REGION_TEST(two_threads_on_one_core_use_slots_with_its_label) {
  percore_slot_t slots[4];
  assert_return_code(attach_thread(region, "a", 1, &slots[0]), 0);
  assert_return_code(attach_thread(region, "b", 1, &slots[1]), 0);
  assert_return_code(attach_thread(region, "c", 1, &slots[2]), 0);
  assert_ptr_not_equal(slots[0].seat->head, slots[1].seat->head);
  UNIT_READER(reader);
  struct region_slot_view view;
  region_reader_slot(reader, 4, &view);
  assert_int_equal(view.core, 1);
  assert_string_equal(view.name, "b");
  /* Both extra slots are in use, so the fourth slot is a sink (counts in it are
   * lost), and the attempt counts as refused. */
  assert_fails(attach_thread(region, "d", 1, &slots[3]), ENOSPC);
  percore_poll(slots[3], 1, 0);
  struct region_refusals refusals;
  region_reader_refusals(reader, &refusals);
  assert_int_equal(refusals.attaches, 1);
  /* A thread of the same core takes the slot again. */
  assert_return_code(percore_detach(slots[2]), 0);
  assert_return_code(attach_thread(region, "e", 1, &slots[2]), 0);
  region_reader_slot(reader, 5, &view);
  assert_string_equal(view.name, "e");
}

REGION_TEST(counts_of_threads_without_a_core_are_in_the_total_and_on_no_core) {
  uint32_t ports = PORT;
  uint32_t port = unit_row(region, PORT, "eth0");
  percore_slot_t slots[3], pinned = unit_attach(region, 0);
  struct region_tile tile;
  struct region_slot_view view;
  percore_add(percore_row(percore_table(pinned, ports), port), PACKETS, 1);
  for (int i = 0; i < 2; i++) {
    assert_return_code(attach_another(region, PERCORE_NO_CORE, &slots[i]), 0);
    percore_add(percore_row(percore_table(slots[i], ports), port), PACKETS, 10);
  }
  /* Only extra slots count for no core, and they are in use. */
  assert_fails(attach_another(region, PERCORE_NO_CORE, &slots[2]), ENOSPC);
  UNIT_READER(reader);
  region_reader_slot(reader, 4, &view);
  assert_int_equal(view.state, REGION_LIVE);
  assert_int_equal(view.core, PERCORE_NO_CORE);
  assert_int_equal(unit_shown(reader, PORT, port, PACKETS), 21);
  assert_return_code(
      region_tile_init(&tile, reader, PORT + 1, PORT_ROWS, REGION_WANT_CORES),
      0);
  region_tile_read(reader, &tile, 1);
  uint64_t on_cores = 0;
  for (size_t core = 0; core < tile.core_count; core++)
    on_cores += tile.cores[core * tile.capacity * tile.columns + PACKETS];
  assert_int_equal(on_cores, 1);
  region_tile_free(&tile);
}

static pthread_key_t late_key;
static struct percore_region *late_region;
static int late_error;

/* Attaches after the library has given the slots of the thread back. Sanitizers
 * leave no later round of destructors. */
static void attach_late(void *rounds_left) {
  uintptr_t left = (uintptr_t)rounds_left;
  percore_slot_t slot;
  if (left > 1)
    pthread_setspecific(late_key, (void *)(left - 1));
  else
    late_error = attach_thread(late_region, "late", 1, &slot) == 0 ? 0 : errno;
}

static void *attach_and_end(void *argument) {
  (void)argument;
  (void)unit_attach(late_region, 0);
  pthread_setspecific(late_key, (void *)(PTHREAD_DESTRUCTOR_ITERATIONS - 1));
  return NULL;
}

TEST(a_thread_that_ends_gives_its_slots_back_and_gets_no_more) {
  pthread_t thread;
  late_region = unit_create();
  assert_int_equal(pthread_key_create(&late_key, attach_late), 0);
  assert_int_equal(pthread_create(&thread, NULL, attach_and_end, NULL), 0);
  pthread_join(thread, NULL);
  assert_int_equal(late_error, ECANCELED);
  assert_int_equal(region_attached_slots(late_region), 0);
  pthread_key_delete(late_key);
  unit_end(late_region);
}

struct doomed {
  struct percore_region *region;
  struct percore_slot_head *head;
};

/* Counts, and ends its thread between percore_begin and percore_end. */
static void *count_and_die(void *argument) {
  struct doomed *doomed = argument;
  percore_slot_t slot = percore_attach(doomed->region, "doomed", 2);
  doomed->head = slot.seat->head;
  begin_section(slot);
  percore_add(percore_row(percore_table(slot, GLOBALS), 0), 0, 11);
  return NULL;
}

TEST(the_slot_of_a_dead_thread_is_taken_over_with_its_counts) {
  struct doomed doomed = {.region = unit_create()};
  struct percore_region *region = doomed.region;
  percore_slot_t slot;
  pthread_t thread;
  uint64_t values[2];
  assert_int_equal(pthread_create(&thread, NULL, count_and_die, &doomed), 0);
  pthread_join(thread, NULL);
  /* The kernel may still list the thread for a moment after pthread_join. */
  do {
    assert_return_code(attach_thread(region, "heir", 2, &slot), 0);
    if (slot.seat->head != doomed.head)
      assert_return_code(percore_detach(slot), 0);
  } while (slot.seat->head != doomed.head);
  uint32_t globals = GLOBALS;
  begin_section(slot);
  percore_add(percore_row(percore_table(slot, globals), 0), 0, 2);
  end_section(slot);
  UNIT_READER(reader);
  struct region_tile tile;
  assert_return_code(region_tile_init(&tile, reader, GLOBALS + 1, 1, 0), 0);
  region_tile_read(reader, &tile, 0);
  assert_int_equal(tile.torn[0], 0);
  region_tile_free(&tile);
  unit_totals(reader, GLOBALS, 0, values);
  assert_int_equal(values[0], 13);
  unit_end(region);
}

static void *try_to_destroy(void *region) {
  percore_slot_t slot = unit_attach(region, 1);
  assert_fails(percore_destroy(region), EBUSY);
  assert_fails(percore_detach(slot), EINVAL);
  return NULL;
}

TEST(a_region_to_which_other_threads_are_attached_is_not_destroyed) {
  struct percore_region *region = unit_create();
  pthread_t thread;
  (void)unit_attach(region, 0);
  assert_int_equal(pthread_create(&thread, NULL, try_to_destroy, region), 0);
  pthread_join(thread, NULL);
  assert_return_code(percore_destroy(region), errno);
}

/* ---------------------------------------------------------------------------
 * No memory for more rows
 */

/* Returns the policy for the memory of a slot; -1 if the kernel has none. */
static int policy_of(const struct percore_region *region, uint32_t slot) {
  int policy;
  return syscall(SYS_get_mempolicy, &policy, NULL, 0ul,
                 region_block(region, slot), (long)MPOL_F_ADDR) == 0
             ? policy
             : -1;
}

REGION_TEST(memory_of_a_slot_comes_from_the_node_of_its_thread) {
  if (policy_of(region, 1) < 0) {
    print_message("skipped: get_mempolicy: %s\n", strerror(errno));
    return;
  }
  (void)unit_attach(region, 1);
  assert_int_equal(policy_of(region, 1), MPOL_PREFERRED);
  assert_int_equal(policy_of(region, 2), MPOL_DEFAULT);
}

/* ---------------------------------------------------------------------------
 * Rows whose thread has ended inside a section
 */

static percore_row_t leave_section_open(struct percore_region *region,
                                        uint32_t row) {
  percore_row_t session = percore_row(unit_owned_table(region, SESSION), row);
  percore_begin(session);
  percore_add(session, PACKETS, 1);
  return session;
}

static int read_session(struct percore_reader *reader, uint32_t row,
                        uint64_t values[2]) {
  return percore_read_row(reader, SESSION, row, PERCORE_TOTAL, NULL, 0, values,
                          2);
}

REGION_TEST(the_next_section_of_a_row_is_whole) {
  struct percore_reader *reader;
  uint64_t values[2];
  assert_return_code(percore_open(&reader, "unit", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  uint32_t row = unit_row_of_key(region, SESSION, 1);
  percore_row_t session = leave_section_open(region, row);
  assert_int_equal(read_session(reader, row, values), 1);
  percore_begin(session);
  percore_add(session, PACKETS, 1);
  assert_int_equal(read_session(reader, row, values), 1);
  percore_add(session, BYTES, 100);
  percore_end(session);
  assert_int_equal(read_session(reader, row, values), 0);
  assert_int_equal(values[0], 2);
  percore_close(reader);
}

REGION_TEST(a_section_tears_no_other_row) {
  struct percore_reader *reader;
  uint64_t values[2];
  assert_return_code(percore_open(&reader, "unit", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  uint32_t first = unit_row_of_key(region, SESSION, 1);
  uint32_t second = unit_row_of_key(region, SESSION, 2);
  percore_row_t open = leave_section_open(region, second);
  assert_int_equal(read_session(reader, first, values), 0);
  assert_int_equal(read_session(reader, second, values), 1);
  percore_end(open);
  percore_close(reader);
}

REGION_TEST(the_next_object_of_a_row_is_whole) {
  struct percore_reader *reader;
  uint64_t values[2];
  assert_return_code(percore_open(&reader, "unit", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  uint32_t row = unit_row_of_key(region, SESSION, 1);
  (void)leave_section_open(region, row);
  assert_return_code(
      percore_row_remove(region, SESSION, row, PERCORE_NO_UPDATE_IN_FLIGHT),
      errno);
  assert_return_code(percore_row_add_at(region, SESSION, row, NULL, 2), errno);
  assert_int_equal(read_session(reader, row, values), 0);
  assert_int_equal(values[0], 0);
  percore_close(reader);
}

/* ---------------------------------------------------------------------------
 * Rows
 */

/* Fills the table `port` with rows named eth0, eth1, ... Stores their numbers
 * in rows[]. */
static void add_ports(struct percore_region *region, uint32_t rows[PORT_ROWS]) {
  for (int i = 0; i < PORT_ROWS; i++) {
    char name[8];
    snprintf(name, sizeof(name), "eth%d", i);
    rows[i] = unit_row(region, PORT, name);
  }
}

REGION_TEST(a_row_that_is_added_changes_no_count_of_another) {
  percore_table_t flows = unit_owned_table(region, FLOW);
  uint32_t row = unit_row_of_key(region, FLOW, 1);
  percore_add(percore_row(flows, row), BYTES, 7);
  (void)unit_row_of_key(region, FLOW, 2);
  assert_int_equal(percore_row(flows, row).cells[BYTES], 7);
}

REGION_TEST(a_live_name_is_not_added_twice) {
  uint32_t row = unit_row(region, PORT, "eth0"), again;
  assert_fails(make_row(region, PORT, "eth0", &again), EEXIST);
  assert_int_equal(again, row);
  assert_return_code(percore_row_remove(region, PORT, row, 0), 0);
  (void)unit_row(region, PORT, "eth0");
}

REGION_TEST(a_removed_row_is_free_only_after_a_quiescent_point) {
  uint32_t rows[PORT_ROWS], row;
  uint32_t ports = PORT;
  percore_slot_t slot = unit_attach(region, 0);
  add_ports(region, rows);
  assert_fails(make_row(region, PORT, "eth9", &row), ENOSPC);
  percore_add(percore_row(percore_table(slot, ports), rows[1]), PACKETS, 7);
  assert_return_code(percore_row_remove(region, PORT, rows[1], 0), 0);
  /* The worker may still use the row eth1 and count in it. */
  assert_fails(make_row(region, PORT, "eth9", &row), EAGAIN);
  percore_add(percore_row(percore_table(slot, ports), rows[1]), PACKETS, 5);
  percore_quiescent(slot);
  row = unit_row(region, PORT, "eth9");
  assert_int_equal(row, rows[1]);
  percore_add(percore_row(percore_table(slot, ports), row), PACKETS, 1);
  UNIT_READER(reader);
  assert_int_equal(unit_shown(reader, PORT, row, PACKETS), 1);
}

REGION_TEST(a_full_table_says_how_many_rows_were_not_added) {
  struct percore_region_status status;
  uint32_t row;
  unit_row_of_key(region, FLOW, 1);
  unit_row_of_key(region, FLOW, 2);
  assert_return_code(percore_status(region, &status), 0);
  assert_string_equal(status.reason, "");
  assert_fails(make_row_key(region, FLOW, 3, &row), ENOSPC);
  assert_return_code(percore_status(region, &status), 0);
  assert_non_null(strstr(status.reason, "not added to table 'flow': 1"));
  assert_non_null(strstr(status.reason, "room for 2"));
}

REGION_TEST(an_add_that_has_to_wait_is_refused_and_names_the_thread) {
  struct percore_region_status status;
  uint32_t row, rows[2];
  percore_slot_t slot = unit_attach(region, 0);
  rows[0] = unit_row_of_key(region, FLOW, 1);
  rows[1] = unit_row_of_key(region, FLOW, 2);
  assert_fails(percore_row_remove(region, FLOW, rows[0], 2), EINVAL);
  assert_return_code(percore_row_remove(region, FLOW, rows[0], 0), 0);
  assert_fails(make_row_key(region, FLOW, 3, &row), EAGAIN);
  assert_return_code(percore_status(region, &status), 0);
  assert_int_equal(status.adds_refused, 1);
  assert_int_equal(status.adds_postponed, 1);
  char reason[80];
  snprintf(reason, sizeof(reason),
           "rows that were not added: 1, because thread %d 'another", gettid());
  assert_non_null(strstr(status.reason, reason));
  struct region_reader *reader = unit_connect();
  struct region_refusals refusals;
  region_reader_refusals(reader, &refusals);
  assert_int_equal(refusals.adds_postponed, 1);
  assert_int_equal(refusals.tid, gettid());
  assert_memory_equal(refusals.name, "another", 7);
  region_reader_close(reader);
  percore_quiescent(slot);
  row = unit_row_of_key(region, FLOW, 3);
  assert_fails(make_row_key(region, FLOW, 4, &row), ENOSPC);
  assert_return_code(percore_status(region, &status), 0);
  assert_int_equal(status.adds_refused, 2);
  assert_int_equal(status.adds_postponed, 1);
}

REGION_TEST(a_sleeping_worker_does_not_delay_reuse) {
  uint32_t rows[2];
  percore_slot_t slot = unit_attach(region, 0);
  rows[0] = unit_row_of_key(region, FLOW, 1);
  rows[1] = unit_row_of_key(region, FLOW, 2);
  percore_sleep(slot);
  assert_return_code(percore_row_remove(region, FLOW, rows[0], 0), 0);
  uint32_t row = unit_row_of_key(region, FLOW, 3);
  percore_wake(slot);
  assert_return_code(percore_row_remove(region, FLOW, rows[1], 0), 0);
  assert_fails(make_row_key(region, FLOW, 4, &row), EAGAIN);
  assert_return_code(percore_detach(slot), 0);
  row = unit_row_of_key(region, FLOW, 4);
}

REGION_TEST(the_caller_may_say_that_no_update_is_in_flight) {
  uint32_t rows[2];
  (void)unit_attach(region, 0);
  rows[0] = unit_row_of_key(region, FLOW, 1);
  rows[1] = unit_row_of_key(region, FLOW, 2);
  assert_return_code(percore_row_remove(region, FLOW, rows[0], 0), 0);
  assert_return_code(
      percore_row_remove(region, FLOW, rows[1], PERCORE_NO_UPDATE_IN_FLIGHT),
      0);
  uint32_t row = unit_row_of_key(region, FLOW, 3);
  assert_int_equal(row, rows[1]);
  assert_int_equal(make_row_key(region, FLOW, 4, &row), -1);
}

static void check_order(struct percore_region *region, uint32_t flags) {
  uint32_t rows[PORT_ROWS];
  add_ports(region, rows);
  static const int order[] = {2, 0, 3};
  for (size_t i = 0; i < COUNT_OF(order); i++)
    assert_return_code(percore_row_remove(region, PORT, rows[order[i]], flags),
                       0);
  /* percore_row_add_at takes the row in the middle of the list of removed rows.
   */
  assert_return_code(percore_row_add_at(region, PORT, rows[0], "by", 0), 0);
  uint32_t row = unit_row(region, PORT, "first");
  assert_int_equal(row, rows[2]);
  row = unit_row(region, PORT, "second");
  assert_int_equal(row, rows[3]);
  assert_fails(make_row(region, PORT, "third", &row), ENOSPC);
}

REGION_TEST(the_oldest_removed_row_is_used_first) { check_order(region, 0); }

REGION_TEST(the_oldest_row_removed_without_updates_in_flight_is_used_first) {
  check_order(region, PERCORE_NO_UPDATE_IN_FLIGHT);
}

REGION_TEST(rows_that_were_added_by_number_are_skipped) {
  for (uint32_t row = 1; row < 3; row++)
    assert_return_code(percore_row_add_at(region, SESSION, row, NULL, row), 0);
  assert_int_equal(unit_row_of_key(region, SESSION, 5), 3);
}

REGION_TEST(a_live_row_number_is_not_added_twice) {
  assert_return_code(percore_row_add_at(region, FLOW, 1, NULL, 5), 0);
  assert_fails(percore_row_add_at(region, FLOW, 1, NULL, 6), EEXIST);
}

/* Fields for tables of every storage, with and without PERCORE_NO_RESET. */
static const struct percore_field churn_fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "depth", .unit = "packets", .kind = PERCORE_UPDOWN},
    {.name = "size",
     .unit = "bytes",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 0,
     .max_bits = 2},
};
enum { CHURN_DEPTH = 1, CHURN_SIZE = 2, CHURN_COLUMNS = 5 };

#define CHURN(called, stored, flag)                                            \
  {                                                                            \
    .name = called, .storage = stored, .fields = churn_fields,                 \
    .field_count = COUNT_OF(churn_fields), .max_rows = 1, .flags = flag        \
  }

static const struct percore_table churn_tables[] = {
    CHURN("core0", PERCORE_PER_CORE, 0),
    CHURN("core1", PERCORE_PER_CORE, PERCORE_NO_RESET),
    CHURN("owned0", PERCORE_OWNED, 0),
    CHURN("owned1", PERCORE_OWNED, PERCORE_NO_RESET),
    CHURN("shared0", PERCORE_SHARED, 0),
    CHURN("shared1", PERCORE_SHARED, PERCORE_NO_RESET),
};

static void count_churn(struct percore_region *region, uint32_t t,
                        percore_slot_t slot, uint32_t row, uint64_t n) {
  for (uint32_t c = 0; c < CHURN_COLUMNS; c++)
    switch (churn_tables[t].storage) {
    case PERCORE_PER_CORE:
      percore_add(percore_row(percore_table(slot, t), row), c, n - 1);
      percore_shared_add(percore_shared_row(region, t, row), c, 1);
      break;
    case PERCORE_OWNED:
      percore_add(percore_row(percore_table(slot, t), row), c, n);
      break;
    default:
      percore_shared_add(percore_shared_row(region, t, row), c, n);
    }
}

TEST(a_row_that_is_used_again_shows_zero_and_keeps_its_cells) {
  struct percore_region *region;
  uint64_t values[CHURN_COLUMNS];
  assert_return_code(create_region(&region, "unit", churn_tables,
                                   COUNT_OF(churn_tables), NULL),
                     errno);
  percore_slot_t slot = unit_attach(region, 0);
  UNIT_READER(reader);
  for (uint32_t t = 0; t < COUNT_OF(churn_tables); t++) {
    bool resets = (churn_tables[t].flags & PERCORE_NO_RESET) == 0;
    uint32_t row = unit_row_of_key(region, t, 1);
    count_churn(region, t, slot, row, 5);
    assert_return_code(
        percore_row_remove(region, t, row, PERCORE_NO_UPDATE_IN_FLIGHT), errno);
    row = unit_row_of_key(region, t, 2);
    for (uint32_t c = 0; c < CHURN_COLUMNS; c++)
      assert_int_equal(unit_shown(reader, t, row, c), 0);
    count_churn(region, t, slot, row, 2);
    unit_totals(reader, t, row, values);
    for (uint32_t c = 0; c < CHURN_COLUMNS; c++) {
      assert_int_equal(values[c], 7);
      assert_int_equal(unit_shown(reader, t, row, c), 2);
    }
    assert_int_equal(percore_reset(region, t, row), resets ? 0 : -1);
    assert_true(resets || errno == ENOTSUP);
    assert_int_equal(unit_shown(reader, t, row, PACKETS), resets ? 0 : 2);
    assert_int_equal(unit_shown(reader, t, row, CHURN_SIZE), resets ? 0 : 2);
    assert_int_equal(unit_shown(reader, t, row, CHURN_DEPTH), 2);
  }
  unit_end(region);
}

REGION_TEST(a_state_begins_at_zero_with_its_row) {
  uint32_t slow = SLOW;
  uint32_t row = unit_row(region, SLOW, "cli");
  percore_set(percore_shared_row(region, slow, row), 1, 1);
  assert_return_code(percore_row_remove(region, SLOW, row, 0), errno);
  assert_return_code(percore_row_add_at(region, SLOW, row, "gui", 0), errno);
  assert_int_equal(unit_read(SLOW, row, 1), 0);
}

TEST(rows_with_levels_per_core_are_added_and_never_removed) {
  static const struct percore_field fields[] = {
      {.name = "jobs"}, {.name = "queue", .kind = PERCORE_GAUGE}};
  static const struct percore_table tables[] = {
      {.name = "queue", .fields = fields, .field_count = 2, .max_rows = 2}};
  struct percore_region *region;
  assert_return_code(create_region(&region, "unit", tables, 1, NULL), errno);
  percore_slot_t slot = unit_attach(region, 0);
  uint32_t queues = 0;
  uint32_t row = unit_row_of_key(region, 0, 1);
  percore_set(percore_row(percore_table(slot, queues), row), 1, 9);
  assert_fails(percore_row_remove(region, 0, row, 0), ENOTSUP);
  assert_int_equal(unit_read(0, row, 1), 9);
  unit_end(region);
}

REGION_TEST(a_reset_shows_zero_and_leaves_up_down_counters_and_cells) {
  uint64_t values[64];
  uint32_t ports = PORT;
  percore_slot_t slot = unit_attach(region, 0);
  uint32_t port = unit_row(region, PORT, "eth0");
  percore_row_t row = percore_row(percore_table(slot, ports), port);
  percore_add(row, PACKETS, 40);
  percore_add(row, DEPTH, 3);
  assert_return_code(percore_reset(region, PORT, port), 0);
  percore_add(row, PACKETS, 2);
  UNIT_READER(reader);
  assert_int_equal(unit_shown(reader, PORT, port, PACKETS), 2);
  assert_int_equal(unit_shown(reader, PORT, port, DEPTH), 3);
  unit_totals(reader, PORT, port, values);
  assert_int_equal(values[PACKETS], 42);
}

REGION_TEST(a_reset_of_no_row_resets_nothing) {
  assert_fails(percore_reset(region, PORT, 0), ENOENT);
}

REGION_TEST(a_reset_inside_a_section_changes_nothing) {
  uint32_t ports = PORT;
  percore_slot_t slot = unit_attach(region, 0);
  uint32_t port = unit_row(region, PORT, "eth0");
  percore_row_t row = percore_row(percore_table(slot, ports), port);
  percore_add(row, PACKETS, 1);
  percore_add(row, BYTES, 64);
  begin_section(slot);
  percore_add(row, PACKETS, 1); /* the bytes have not been added yet */
  assert_fails(percore_reset(region, PORT, port), EAGAIN);
  percore_add(row, BYTES, 64);
  end_section(slot);
  UNIT_READER(reader);
  assert_int_equal(unit_shown(reader, PORT, port, PACKETS), 2);
  assert_return_code(percore_reset(region, PORT, port), 0);
  assert_int_equal(unit_shown(reader, PORT, port, PACKETS), 0);
  assert_int_equal(unit_shown(reader, PORT, port, BYTES), 0);
}

/* ---------------------------------------------------------------------------
 * Failures are sinks
 */

/* Uses handles of every kind from a region that is a sink (it discards counts).
 */
static void use_sinks(struct percore_region *region) {
  percore_slot_t slot;
  percore_table_t owned;
  uint32_t row;
  assert_int_equal(attach_thread(region, "w", 0, &slot), -1);
  percore_table_t core = percore_table(slot, PORT);
  assert_int_equal(errno, ENODEV);
  assert_int_equal(open_table(region, SESSION, &owned), -1);
  percore_shared_row_t shared = percore_shared_row(region, SLOW, 1);
  assert_int_equal(errno, ENODEV);
  assert_fails(make_row(region, PORT, "eth0", &row), ENODEV);
  begin_section(slot);
  percore_add(percore_row(core, row), PERCORE_MAX_COLUMNS - 1, 1);
  percore_observe(percore_row(core, row), LATENCY, 5);
  end_section(slot);
  percore_begin(percore_row(owned, 1000000));
  percore_add(percore_row(owned, 1000000), PERCORE_MAX_COLUMNS - 1, 1);
  percore_end(percore_row(owned, 1000000));
  percore_shared_add(shared, 0, 1);
  percore_poll(slot, 1, 0);
  assert_int_equal(percore_detach(slot), -1);
  assert_int_equal(percore_row_remove(region, PORT, row, 0), -1);
  assert_int_equal(percore_reset(region, PORT, row), -1);
  assert_int_equal(percore_reserve(region, PORT, 1), -1);
}

TEST(a_region_that_cannot_be_made_is_a_sink) {
  struct percore_region *region;
  assert_fails(create_region(&region, "host", unit_tables, TABLES, NULL),
               EINVAL);
  use_sinks(region);
  assert_return_code(percore_destroy(region), 0);
}

TEST(a_region_that_is_off_is_a_sink) {
  struct percore_region *region;
  struct percore_options options = {.off = 1};
  struct percore_region_status status;
  assert_return_code(
      create_region(&region, "unit", unit_tables, TABLES, &options), errno);
  use_sinks(region);
  assert_return_code(percore_status(region, &status), errno);
  assert_int_equal(status.served, 0);
  assert_int_equal(status.error, 0);
  assert_string_equal(status.reason, "");
  assert_return_code(percore_destroy(region), 0);
}

TEST(the_second_region_of_a_name_may_have_an_instance) {
  struct percore_region *first = unit_create(), *second;
  struct percore_options options = {.instance = "1"};
  assert_return_code(
      create_region(&second, "unit", unit_tables, TABLES, &options), 0);
  assert_return_code(percore_destroy(second), 0);
  assert_return_code(percore_destroy(first), 0);
}

REGION_TEST(a_missing_row_or_table_is_a_sink) {
  uint32_t row;
  uint64_t values[64], *before;
  percore_slot_t slot = unit_attach(region, 0);
  uint32_t ports = PORT;
  (void)unit_row(region, PORT, "eth0");
  assert_fails(percore_row_add_at(region, PORT, 0, "p", 0), EINVAL);
  assert_fails(percore_row_add_at(region, PORT, PORT_ROWS + 1, "p", 0), EINVAL);
  assert_fails(make_row(region, PORT, "", &row), EINVAL);
  before = percore_row(percore_table(slot, ports), row).cells;
  percore_add(percore_row(percore_table(slot, ports), row), PACKETS, 9);
  assert_int_equal(before[PACKETS], 9);
  static const uint32_t wrong[] = {SLOW, 77};
  for (int i = 0; i < 2; i++) {
    percore_table_t none = percore_table(slot, wrong[i]);
    assert_int_equal(errno, EINVAL);
    percore_add(percore_row(none, 5), PERCORE_MAX_COLUMNS - 1, 9);
    assert_ptr_equal(percore_row(none, 5).cells, percore_row(none, 0).cells);
  }
  UNIT_READER(reader);
  for (uint32_t r = 1; r < region_reader_rows(reader, PORT + 1); r++) {
    unit_totals(reader, PORT, r, values);
    assert_int_equal(values[PACKETS], 0);
  }
  unit_totals(reader, GLOBALS, 0, values);
  assert_int_equal(values[0], 0);
}

/* ---------------------------------------------------------------------------
 * Memory
 */

static struct temp_tree memory_root;

static void write_meminfo(unsigned long available_kb) {
  char text[64];
  snprintf(text, sizeof(text), "MemAvailable: %lu kB\n", available_kb);
  temp_tree_write(&memory_root, "/proc/meminfo", text);
}

static void make_memory_root(void) {
  unit_make_runtime_dir();
  temp_tree_make(&memory_root);
  region_memory_root = memory_root.root;
}

static void remove_memory_root(void) {
  unit_remove_runtime_dir();
  region_memory_root = "";
  temp_tree_remove(&memory_root);
}

TEST_BETWEEN(make_memory_root, remove_memory_root,
             too_little_memory_at_attach_and_reserve_is_enomem) {
  struct percore_region *region;
  struct percore_field field = {.name = "rx"};
  struct percore_table table = {.name = "big",
                                .fields = &field,
                                .field_count = 1,
                                .max_rows = 4000000,
                                .row_name_size = 24};
  struct percore_options options = {.cores = 2};
  percore_slot_t slot;
  uint32_t row;
  write_meminfo(1000000);
  assert_return_code(create_region(&region, "big", &table, 1, &options), 0);
  write_meminfo(100);
  assert_fails(percore_reserve(region, 0, 1000000), ENOMEM);
  assert_fails(make_row(region, 0, "a", &row), ENOMEM);
  write_meminfo(1);
  assert_fails(attach_thread(region, NULL, 0, &slot), ENOMEM);
  percore_poll(slot, 1, 0);
  write_meminfo(1000000);
  slot = unit_attach(region, 0);
  (void)unit_row(region, 0, "a");
  unit_end(region);
}

TEST(a_file_size_limit_sets_an_errno_and_sends_no_signal) {
  struct rlimit before, limit;
  struct percore_region *region;
  assert_return_code(getrlimit(RLIMIT_FSIZE, &before), errno);
  limit = before;
  limit.rlim_cur = 32768;
  assert_return_code(setrlimit(RLIMIT_FSIZE, &limit), errno);
  int rc = create_region(&region, "unit", unit_tables, TABLES, NULL);
  int error = errno;
  assert_return_code(setrlimit(RLIMIT_FSIZE, &before), errno);
  assert_int_equal(rc, -1);
  assert_int_equal(error, EFBIG);
}

/* Returns the number that follows a key in a file below /proc. */
static unsigned long number_in(const char *path, const char *key) {
  char line[256];
  unsigned long number = 0;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file) != NULL)
    if (strncmp(line, key, strlen(key)) == 0)
      number = strtoul(line + strlen(key), NULL, 10);
  fclose(file);
  return number;
}

static unsigned long resident_kb(void) {
  return number_in("/proc/self/status", "RssShmem:");
}

TEST(mlockall_does_not_fill_a_sparse_region) {
  struct percore_region *region;
  struct percore_field field = {.name = "rx"};
  struct percore_table table = {.name = "big",
                                .storage = PERCORE_OWNED,
                                .fields = &field,
                                .field_count = 1,
                                .max_rows = 20000000};
  if (mlockall(MCL_FUTURE) != 0) {
    print_message("skipped: mlockall: %s\n", strerror(errno));
    skip();
  }
  unsigned long before = resident_kb();
  int rc = create_region(&region, "big", &table, 1, NULL);
  munlockall();
  assert_return_code(rc, 0);
  assert_true(region->size > 400u << 20);
  assert_true(resident_kb() - before < 4096);
  assert_return_code(percore_destroy(region), 0);
}

/* Returns the size in kB that smaps shows on one line of the mapping that
 * begins at `start`. */
static uint64_t mapped_kb(const void *start, const char *what) {
  char line[512], key[64];
  uint64_t kb = 0;
  uintptr_t from = 0, number;
  FILE *file = fopen("/proc/self/smaps", "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file) != NULL) {
    if (sscanf(line, "%63[A-Za-z_]: %lu kB", key, &number) == 2) {
      if (from == (uintptr_t)start && strcmp(key, what) == 0)
        kb = number;
    } else
      (void)sscanf(line, "%lx-", &from);
  }
  fclose(file);
  return kb;
}

/* Returns true if the kernel makes huge pages of shared memory only on request.
 */
static bool must_ask_for_huge_pages(void) {
  char line[128] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "r");
  if (file != NULL && fgets(line, sizeof(line), file) == NULL)
    line[0] = '\0';
  if (file != NULL)
    fclose(file);
  return strstr(line, "[never]") != NULL;
}

enum { MADV_COLLAPSE_ = 25 };

/* Makes `arrays` arrays of in_each huge pages each. Returns how many huge pages
 * the kernel makes of them. There is one request per array, because the kernel
 * stops at the first failure if free memory is fragmented. */
static uint64_t huge_pages_of_arrays(uint64_t arrays, uint64_t in_each) {
  uint64_t length = in_each * REGION_HUGE_PAGE, all = arrays * length;
  int fd = memfd_create("unit", MFD_CLOEXEC);
  unsigned char *map = region_memory_map(fd, all, PROT_READ | PROT_WRITE);
  assert_non_null(map);
  assert_return_code(ftruncate(fd, (off_t)all), errno);
  memset(map, 1, all);
  for (uint64_t a = 0; a < arrays; a++)
    (void)madvise(map + a * length, length, MADV_COLLAPSE_);
  uint64_t pages = mapped_kb(map, "ShmemPmdMapped") / 2048;
  munmap(map, all);
  close(fd);
  return pages;
}

TEST(reserved_rows_of_a_large_table_lie_in_huge_pages) {
  /* The arrays of births and of cells take 8 huge pages each. The arrays of
   * generation words and of keys take 4 huge pages each. */
  enum { MANY = 1 << 20, ARRAYS = 3, IN_EACH = 8, SOME = 4 };
  struct percore_field fields[] = {{.name = "a"}, {.name = "b"}};
  struct percore_table table = {.name = "big",
                                .storage = PERCORE_OWNED,
                                .fields = fields,
                                .field_count = 2,
                                .max_rows = MANY,
                                .flags = PERCORE_NO_RESET};
  struct percore_region *region;
  assert_return_code(create_region(&region, "unit", &table, 1, NULL), errno);
  assert_int_equal((uintptr_t)region->map % REGION_HUGE_PAGE, 0);
  if (huge_pages_of_arrays(1, 1) == 0) {
    percore_destroy(region);
    print_message("skipped: this kernel makes no huge pages of shared memory "
                  "when asked (MADV_COLLAPSE, Linux 6.1)\n");
    skip();
  }
  assert_return_code(percore_row_add_at(region, 0, 1, NULL, 1), errno);
  /* Adding a row does not wait until the kernel has made huge pages. */
  if (must_ask_for_huge_pages())
    assert_int_equal(mapped_kb(region->map, "ShmemPmdMapped"), 0);
  assert_return_code(percore_reserve(region, 0, MANY), errno);
  uint64_t pages = mapped_kb(region->map, "ShmemPmdMapped") / 2048;
  uint64_t most = ARRAYS * IN_EACH;
  if (pages + SOME < most) {
    most = huge_pages_of_arrays(ARRAYS, IN_EACH);
    print_message("%d huge pages; on request the kernel now makes %d of %d\n",
                  (int)pages, (int)most, ARRAYS * IN_EACH);
  }
  assert_true(pages <= ARRAYS * IN_EACH && pages + SOME >= most);
  percore_table_t rows = unit_owned_table(region, 0);
  percore_add(percore_row(rows, 1), 1, 7);
  assert_int_equal(unit_read(0, 1, 1), 7);
  assert_return_code(percore_destroy(region), errno);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
