/* Tests readers while producers and rows come and go, and while rows are reset.
 */
#include "percore_config.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/memory.h"
#include "region/view.h"
#include "region/writer.h"
#include "region_unit.h"

TEST(a_reader_may_be_opened_before_its_producer) {
  struct region_reader_options options = {0};
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_presence(reader), REGION_ABSENT);
  assert_int_equal(region_reader_fault(reader)->error, ENOENT);
  assert_int_equal(region_reader_uid(reader), (uid_t)-1);
  assert_null(region_reader_directory(reader));
  UNIT_REGION(region);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  assert_string_equal(region_reader_error(reader), "");
  assert_int_equal(region_reader_pid(reader), getpid());
  assert_int_equal(region_reader_uid(reader), getuid());
  region_reader_close(reader);
}

TEST(the_last_values_can_be_read_while_the_successor_is_refused) {
  struct percore_options larger = {.cores = 1, .extra_slots = 8000};
  struct region_pool pool = {.own = 1 << 20};
  struct region_allowance allowance = {.pool = &pool};
  struct region_reader_options reading = {.allowance = &allowance};
  struct region_reader *reader;
  struct percore_region *region = unit_create();
  uint64_t values[2];
  uint32_t slow = SLOW;
  uint32_t row = unit_row(region, SLOW, "cli");
  percore_shared_add(percore_shared_row(region, slow, row), 0, 12);
  assert_return_code(region_reader_open(&reader, "unit", NULL, &reading), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  pool.own = allowance.used;
  assert_return_code(percore_destroy(region), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_return_code(
      create_region(&region, "unit", unit_tables, TABLES, &larger), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_non_null(strstr(region_reader_error(reader), "reading it takes"));
  assert_int_equal(allowance.used, pool.own);
  unit_totals(reader, SLOW, row, values);
  assert_int_equal(values[0], 12);
  region_reader_close(reader);
  assert_return_code(percore_destroy(region), 0);
}

REGION_TEST(cells_of_a_row_that_is_changing_are_in_its_tile) {
  const struct region_table *table = &region->tables[FLOW + 1];
  struct region_tile tile;
  percore_table_t flows = unit_owned_table(region, FLOW);
  uint32_t row = unit_row_of_key(region, FLOW, 1);
  percore_add(percore_row(flows, row), PACKETS, 9);
  uint64_t *generation = region_generation(region, table, row);
  *generation = region_next_object(*generation, REGION_CHANGING);
  UNIT_READER(reader);
  assert_return_code(
      region_tile_init(&tile, reader, FLOW + 1, 1, REGION_WANT_BIRTHS), errno);
  region_tile_read(reader, &tile, row);
  assert_int_equal(tile.rows, 1);
  assert_int_equal(tile.generations[0], REGION_CHANGING);
  assert_int_equal(tile.totals[PACKETS], 9);
  region_tile_free(&tile);
}

/* Called once, when the reader first loads words from this offset on, and below
 * `end` unless it is 0. */
static struct {
  void (*call)(void);
  struct percore_region *region;
  const struct region_reader *reader;
  uint64_t offset, end;
  percore_row_t row;
} meanwhile;

void __real_region_load_cells(const uint64_t *cells, size_t count,
                              const uint64_t *end, uint64_t *values);
void __wrap_region_load_cells(const uint64_t *cells, size_t count,
                              const uint64_t *end, uint64_t *values);
void __wrap_region_load_cells(const uint64_t *cells, size_t count,
                              const uint64_t *end, uint64_t *values) {
  const struct region_reader *reader = meanwhile.reader;
  void (*call)(void) = meanwhile.call;
  uint64_t at =
      call != NULL ? (uint64_t)((const unsigned char *)cells - reader->view.map)
                   : 0;
  if (call != NULL && at >= meanwhile.offset &&
      (meanwhile.end == 0 || at < meanwhile.end)) {
    meanwhile.call = NULL; /* the writer loads cells, too */
    call();
  }
  __real_region_load_cells(cells, count, end, values);
}

static void count_and_reset(void) {
  percore_add(meanwhile.row, 0, 3);
  assert_return_code(percore_reset(meanwhile.region, 0, 2), errno);
}

/* Returns false and prints a message if the reader may ask for no pages. */
static bool was_called(void) {
  if (meanwhile.call == NULL)
    return true;
  assert_int_not_equal(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 0);
  print_message("skipped: a filter may forbid mincore(2)\n");
  meanwhile.call = NULL;
  return false;
}

/* The parts of the table are so large that the reader does not ask for pages of
 * two parts at once. */
TEST(a_row_that_is_reset_while_its_tile_is_read_counts_once_on_each_core) {
  enum { CORES = 2, ROWS = 2, COLUMNS = 2, CELLS = ROWS * COLUMNS };
  static const struct percore_field fields[COLUMNS] = {{.name = "packets"},
                                                       {.name = "bytes"}};
  static const struct percore_table table = {.name = "flow",
                                             .fields = fields,
                                             .field_count = COLUMNS,
                                             .max_rows = 65536};
  static const uint64_t cores[CORES * CELLS] = {1, 0, 8, 0, 1, 0, 5, 0};
  const struct percore_options options = {.cores = CORES};
  struct percore_region *region;
  struct region_tile tile;
  assert_return_code(create_region(&region, "unit", &table, 1, &options), 0);
  uint32_t flows = 0;
  for (uint32_t key = 0; key < ROWS; key++)
    assert_int_equal(unit_row_of_key(region, 0, key), key + 1);
  for (int core = CORES - 1; core >= 0; core--) {
    percore_slot_t slot = unit_attach(region, core);
    percore_add(percore_row(percore_table(slot, flows), 1), 0, 1);
    meanwhile.row = percore_row(percore_table(slot, flows), 2);
    percore_add(meanwhile.row, 0, 5);
  }
  UNIT_READER(reader);
  assert_return_code(region_tile_init(&tile, reader, 1, ROWS,
                                      REGION_WANT_RESETS | REGION_WANT_BIRTHS |
                                          REGION_WANT_CORES),
                     errno);
  meanwhile.region = region;
  meanwhile.reader = reader;
  meanwhile.offset = region_block_offset(region, 1);
  meanwhile.call = count_and_reset;
  region_tile_read(reader, &tile, 1);
  if (was_called()) {
    assert_int_equal(tile.rows, ROWS);
    assert_int_equal(region_state(tile.generations[1]), REGION_LIVE);
    assert_memory_equal(tile.cores, cores, sizeof(cores));
    assert_int_equal(tile.totals[COLUMNS], 13);
    assert_int_equal(
        region_row_shown(region_reader_directory(reader), &tile, 1, 0), 0);
  }
  region_tile_free(&tile);
  unit_end(region);
}

static void remove_second_row(void) {
  assert_return_code(percore_row_remove(meanwhile.region, 0, 2, 0), errno);
}

TEST(a_row_that_is_torn_when_it_is_read_again_is_known_to_be) {
  static const struct percore_field field = {.name = "packets"};
  static const struct percore_table table = {.name = "flow",
                                             .storage = PERCORE_OWNED,
                                             .fields = &field,
                                             .field_count = 1,
                                             .max_rows = 65536,
                                             .flags = PERCORE_CONSISTENT};
  struct region_tile tile;
  assert_return_code(create_region(&meanwhile.region, "unit", &table, 1, NULL),
                     errno);
  percore_table_t flows = unit_owned_table(meanwhile.region, 0);
  for (uint32_t key = 0; key < 2; key++)
    assert_int_equal(unit_row_of_key(meanwhile.region, 0, key), key + 1);
  percore_begin(percore_row(flows, 2));
  UNIT_READER(reader);
  assert_return_code(region_tile_init(&tile, reader, 1, 2, 0), errno);
  meanwhile.reader = reader;
  meanwhile.offset = meanwhile.region->tables[1].single_offset;
  meanwhile.call = remove_second_row;
  region_tile_read(reader, &tile, 1);
  if (was_called()) {
    assert_int_equal(region_state(tile.generations[1]), REGION_GONE);
    assert_int_equal(tile.torn[0], 0);
    assert_int_equal(tile.torn[1], 1);
  }
  region_tile_free(&tile);
  unit_end(meanwhile.region);
}

REGION_TEST(a_table_that_is_not_per_core_has_no_values_of_cores) {
  UNIT_READER(reader);
  struct region_tile tile;
  assert_return_code(
      region_tile_init(&tile, reader, SESSION + 1, 1, REGION_WANT_CORES),
      errno);
  region_tile_read(reader, &tile, 0);
  assert_null(tile.cores);
  assert_fails(region_reader_slot_row(reader, SESSION + 1, 0, 0, tile.totals),
               EINVAL);
  region_tile_free(&tile);
}

TEST(a_row_of_a_slot_has_all_buckets_of_a_long_histogram) {
  static const struct percore_field fields[] = {{.name = "packets"},
                                                {.name = "bytes"},
                                                {.name = "latency",
                                                 .kind = PERCORE_HISTOGRAM,
                                                 .sub_bits = 4,
                                                 .max_bits = 12}};
  static const struct percore_table table = {
      .name = "port", .fields = fields, .field_count = 3};
  enum { COLUMNS = 2 + (9 << 4) };
  struct percore_region *region;
  uint64_t values[COLUMNS];
  assert_return_code(create_region(&region, "unit", &table, 1, NULL), errno);
  percore_slot_t slot = unit_attach(region, 0);
  percore_row_t row = percore_row(percore_table(slot, 0), 0);
  for (uint64_t c = 0; c < COLUMNS; c++)
    row.cells[c] = 7 * c;
  UNIT_READER(reader);
  assert_int_equal(region_reader_slot_row(reader, 1, 0, 0, values), 0);
  for (uint64_t c = 0; c < COLUMNS; c++)
    assert_int_equal(values[c], 7 * c);
  unit_end(region);
}

REGION_TEST(a_tile_that_is_used_again_keeps_its_memory) {
  UNIT_READER(reader);
  struct region_tile tile;
  assert_return_code(region_tile_init(&tile, reader, PORT + 1, 4, 0), errno);
  void *memory = tile.memory;
  for (int i = 0; i < 2; i++) {
    assert_return_code(region_tile_reuse(&tile, reader, SESSION + 1, 2, 0),
                       errno);
    assert_ptr_equal(tile.memory, memory);
  }
  region_tile_free(&tile);
}

/* ---------------------------------------------------------------------------
 * Accounts
 */

/* An account counts the packets of all objects with the same name, whatever row
 * and producer they belong to. */
struct ledger {
  struct region_reader *reader;
  uint32_t incarnations[PORT_ROWS];
  bool gone[PORT_ROWS]; /* was gone at the last update of the accounts */
  uint64_t last[PORT_ROWS], cores_last[4];
  struct account {
    char name[REGION_ROW_NAME_SIZE];
    uint64_t packets;
    bool shown;
  } accounts[8];
  uint64_t cores[4]; /* the packets of all rows, for each core */
};

static struct account *account_of(struct ledger *ledger, uint32_t row,
                                  uint64_t generation) {
  char name[REGION_ROW_NAME_SIZE];
  struct account *account = ledger->accounts;
  assert_true(
      region_reader_row_name(ledger->reader, PORT + 1, row, generation, name));
  while (account->name[0] != '\0' && strcmp(account->name, name) != 0)
    account++;
  strcpy(account->name, name);
  return account;
}

static void follow_producer(struct ledger *ledger) {
  assert_int_equal(region_reader_refresh(ledger->reader), REGION_CAME);
  memset(ledger->incarnations, 0, sizeof(ledger->incarnations));
  memset(ledger->cores_last, 0, sizeof(ledger->cores_last));
}

/* Returns what the object in a row has counted since the last update of the
 * accounts, or since its birth if the object is newer. */
static uint64_t growth_of(struct ledger *ledger, const struct region_tile *tile,
                          uint32_t i) {
  size_t at = (size_t)i * tile->columns + PACKETS;
  uint32_t incarnation = region_incarnation(tile->generations[i]);
  if (ledger->incarnations[i] != incarnation)
    ledger->last[i] = tile->births[at];
  uint64_t growth = tile->totals[at] - ledger->last[i];
  assert_true((int64_t)growth >= 0);
  ledger->incarnations[i] = incarnation;
  ledger->last[i] = tile->totals[at];
  return growth;
}

static void add_cores(struct ledger *ledger, const struct region_tile *tile) {
  for (uint32_t core = 0; core < COUNT_OF(ledger->cores); core++) {
    uint64_t now = 0;
    for (uint32_t i = 0; i < tile->rows; i++)
      now += tile->cores[((size_t)core * tile->capacity + i) * tile->columns +
                         PACKETS];
    assert_true(now >= ledger->cores_last[core]);
    ledger->cores[core] += now - ledger->cores_last[core];
    ledger->cores_last[core] = now;
  }
}

static void look(struct ledger *ledger) {
  struct region_tile tile;
  for (size_t a = 0; a < COUNT_OF(ledger->accounts); a++)
    ledger->accounts[a].shown = false;
  assert_return_code(region_tile_init(&tile, ledger->reader, PORT + 1,
                                      PORT_ROWS,
                                      REGION_WANT_BIRTHS | REGION_WANT_CORES),
                     0);
  region_tile_read(ledger->reader, &tile, 0);
  for (uint32_t i = 0; i < tile.rows; i++) {
    if (tile.generations[i] == 0)
      continue;
    bool is_gone = region_state(tile.generations[i]) == REGION_GONE;
    bool was_gone = ledger->gone[i];
    struct account *account = account_of(ledger, i, tile.generations[i]);
    account->packets += growth_of(ledger, &tile, i);
    account->shown |= !is_gone || !was_gone;
    ledger->gone[i] = is_gone;
  }
  add_cores(ledger, &tile);
  region_tile_free(&tile);
}

/* Updates the accounts. Returns the packets in the account of a port, or
 * UINT64_MAX if the port is not shown. */
static uint64_t balance(struct ledger *ledger, const char *name) {
  look(ledger);
  for (size_t a = 0; a < COUNT_OF(ledger->accounts); a++)
    if (strcmp(ledger->accounts[a].name, name) == 0 &&
        ledger->accounts[a].shown)
      return ledger->accounts[a].packets;
  return UINT64_MAX;
}

struct counting {
  struct percore_region *region;
  percore_slot_t slot;
  uint32_t ports;
};

static struct counting start_counting(int core) {
  struct counting counting = {.region = unit_create()};
  counting.ports = PORT;
  assert_return_code(attach_thread(counting.region, NULL, core, &counting.slot),
                     0);
  return counting;
}

static void stop_counting(struct counting *counting) {
  assert_return_code(percore_detach(counting->slot), 0);
  assert_return_code(percore_destroy(counting->region), 0);
}

static void count(struct counting *counting, uint32_t row, uint64_t n) {
  percore_add(percore_row(percore_table(counting->slot, counting->ports), row),
              PACKETS, n);
}

static struct ledger open_ledger(void) {
  return (struct ledger){.reader = unit_connect()};
}

static void close_ledger(struct ledger *ledger) {
  region_reader_close(ledger->reader);
}

TEST(an_account_continues_over_a_reset) {
  struct counting counting = start_counting(1);
  struct ledger ledger = open_ledger();
  uint32_t row = unit_row(counting.region, PORT, "eth0");
  count(&counting, row, 10);
  assert_int_equal(balance(&ledger, "eth0"), 10);
  count(&counting, row, 4);
  assert_return_code(percore_reset(counting.region, PORT, row), 0);
  count(&counting, row, 1);
  assert_int_equal(balance(&ledger, "eth0"), 15);
  assert_int_equal(ledger.cores[1], 15);
  assert_int_equal(ledger.cores[2], 0);
  close_ledger(&ledger);
  stop_counting(&counting);
}

TEST(an_account_continues_when_its_row_is_added_again) {
  struct counting counting = start_counting(0);
  struct ledger ledger = open_ledger();
  uint32_t row = unit_row(counting.region, PORT, "eth0");
  count(&counting, row, 10);
  assert_int_equal(balance(&ledger, "eth0"), 10);
  count(&counting, row, 5); /* the reader next sees the row after its removal */
  assert_return_code(percore_row_remove(counting.region, PORT, row, 0), 0);
  percore_quiescent(counting.slot);
  uint32_t other = unit_row(counting.region, PORT, "eth0");
  assert_int_not_equal(other, row);
  count(&counting, other, 2);
  assert_int_equal(balance(&ledger, "eth0"), 17);
  count(&counting, other, 1);
  assert_int_equal(balance(&ledger, "eth0"), 18);
  assert_int_equal(ledger.cores[0], 18);
  close_ledger(&ledger);
  stop_counting(&counting);
}

TEST(a_reused_row_begins_a_new_account) {
  struct counting counting = start_counting(0);
  struct ledger ledger = open_ledger();
  uint32_t rows[PORT_ROWS], row;
  char name[16];
  for (int i = 0; i < PORT_ROWS; i++) {
    snprintf(name, sizeof(name), "eth%d", i);
    rows[i] = unit_row(counting.region, PORT, name);
    count(&counting, rows[i], 1000);
  }
  assert_int_equal(balance(&ledger, "eth2"), 1000);
  assert_return_code(percore_row_remove(counting.region, PORT, rows[2], 0), 0);
  count(&counting, rows[2], 7); /* the worker still uses the removed row */
  /* The removed row is shown once more, with its last counts, and then never
   * again. */
  assert_int_equal(balance(&ledger, "eth2"), 1007);
  assert_int_equal(balance(&ledger, "eth2"), UINT64_MAX);
  percore_quiescent(counting.slot);
  row = unit_row(counting.region, PORT, "new");
  assert_int_equal(row, rows[2]);
  count(&counting, row, 3);
  assert_int_equal(balance(&ledger, "new"), 3);
  assert_int_equal(balance(&ledger, "eth2"), UINT64_MAX);
  close_ledger(&ledger);
  stop_counting(&counting);
}

TEST(an_account_continues_with_the_next_producer) {
  struct counting counting = start_counting(3);
  struct ledger ledger = open_ledger();
  uint32_t row = unit_row(counting.region, PORT, "eth0");
  count(&counting, row, 100);
  assert_int_equal(balance(&ledger, "eth0"), 100);
  count(&counting, row, 11);
  stop_counting(&counting);
  assert_int_equal(region_reader_refresh(ledger.reader), REGION_WENT);
  assert_int_equal(balance(&ledger, "eth0"), 111);
  counting = start_counting(3);
  follow_producer(&ledger);
  row = unit_row(counting.region, PORT, "x");
  row = unit_row(counting.region, PORT, "eth0");
  count(&counting, row, 4);
  assert_int_equal(balance(&ledger, "eth0"), 115);
  assert_int_equal(ledger.cores[3], 115);
  close_ledger(&ledger);
  stop_counting(&counting);
}

TEST(a_region_is_gone_when_another_answers_in_its_place) {
  struct percore_region *region = unit_create();
  UNIT_READER(reader);
  assert_return_code(percore_destroy(region), 0);
  region = unit_create();
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_int_equal(region_reader_presence(reader), REGION_LEFT);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  assert_int_equal(region_reader_presence(reader), REGION_ALIVE);
  assert_string_equal(region_reader_error(reader), "");
  assert_return_code(percore_destroy(region), 0);
}

TEST(a_reader_says_that_the_producer_has_ended) {
  struct percore_region *region = unit_create();
  UNIT_READER(reader);
  assert_return_code(percore_destroy(region), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_fault(reader)->error, ENOENT);
  assert_non_null(strstr(region_reader_error(reader), "producer has ended"));
}

REGION_TEST(each_slot_that_is_used_adds_to_the_total) {
  enum { CORES = 4, SLOTS = 6 };
  percore_slot_t slots[SLOTS];
  struct region_slot_view view;
  uint64_t values[64], counted = 0;
  uint32_t ports = PORT;
  uint32_t row = unit_row(region, PORT, "eth0");
  struct region_reader *reader = unit_connect();
  for (uint32_t s = 0; s <= SLOTS; s++) {
    unit_totals(reader, PORT, row, values);
    assert_int_equal(values[PACKETS], counted);
    if (s == SLOTS)
      break;
    region_reader_slot(reader, s, &view);
    assert_int_equal(view.state, REGION_FREE);
    assert_return_code(attach_another(region, (int)(s % CORES), &slots[s]), 0);
    percore_add(percore_row(percore_table(slots[s], ports), row), PACKETS,
                1u << s);
    counted += 1u << s;
    region_reader_slot(reader, s, &view);
    assert_int_equal(view.state, REGION_LIVE);
    assert_int_equal(view.core, s % CORES);
  }
  assert_int_equal(counted, (1 << SLOTS) - 1);
  region_reader_close(reader);
  for (uint32_t s = 0; s < SLOTS; s++)
    assert_return_code(percore_detach(slots[s]), 0);
}

enum { CORES = 16, SLOTS = 21, EMPTY = 3, ROWS = 100, COLUMNS = 40 };

/* A region with one table, which has `columns` columns. In the slot EMPTY, no
 * memory backs the rows. */
struct wide {
  struct percore_region *region;
  percore_slot_t slots[SLOTS];
  uint32_t columns;
  uint64_t counted[CORES][ROWS][COLUMNS];
};

TEST(live_rows_of_a_large_table_are_counted) {
  enum { MANY = 1100 };
  struct percore_field field = {.name = "a"};
  struct percore_table table = {.name = "flow",
                                .storage = PERCORE_OWNED,
                                .fields = &field,
                                .field_count = 1,
                                .max_rows = MANY};
  struct percore_region *region;
  assert_return_code(create_region(&region, "unit", &table, 1, NULL), errno);
  for (uint32_t row = 1; row <= MANY; row++)
    assert_return_code(percore_row_add_at(region, 0, row, NULL, row), errno);
  assert_return_code(
      percore_row_remove(region, 0, MANY, PERCORE_NO_UPDATE_IN_FLIGHT), errno);
  struct region_reader *reader = unit_connect();
  assert_int_equal(region_reader_live_rows(reader, 1), MANY - 1);
  region_reader_close(reader);
  assert_return_code(percore_destroy(region), errno);
}

REGION_TEST(the_maximum_of_a_core_covers_all_its_slots) {
  enum { QUEUE = 1, CORE = 2 }; /* the aggregation of QUEUE is the maximum */
  percore_slot_t slots[2];
  struct region_tile tile;
  uint32_t globals = GLOBALS;
  for (uint64_t s = 0; s < 2; s++) {
    assert_return_code(attach_another(region, CORE, &slots[s]), errno);
    percore_set(percore_row(percore_table(slots[s], globals), 0), QUEUE,
                5 - 2 * s);
  }
  struct region_reader *reader = unit_connect();
  assert_return_code(
      region_tile_init(&tile, reader, GLOBALS + 1, 1, REGION_WANT_CORES),
      errno);
  region_tile_read(reader, &tile, 0);
  assert_int_equal(tile.totals[QUEUE], 5);
  assert_int_equal(tile.cores[CORE * tile.columns + QUEUE], 5);
  region_tile_free(&tile);
  region_reader_close(reader);
  for (int s = 0; s < 2; s++)
    assert_return_code(percore_detach(slots[s]), errno);
}

/* ---------------------------------------------------------------------------
 * Allowances, and percore_open
 */

TEST(states_that_many_fields_share_are_charged_to_the_allowance) {
  enum { FIELDS = 1000, STATES = 256 };
  static struct percore_field fields[FIELDS];
  static char names[FIELDS][8];
  static const char *states[STATES];
  static char state_names[STATES][4];
  struct percore_table table = {
      .name = "state", .fields = fields, .field_count = FIELDS};
  struct region_pool pool = {.own = 100 << 20};
  struct region_allowance allowance = {.pool = &pool};
  struct region_reader_options reading = {.allowance = &allowance};
  struct percore_region *region;
  struct region_reader *reader;
  for (int i = 0; i < STATES; i++) {
    snprintf(state_names[i], sizeof(state_names[i]), "%x", i);
    states[i] = state_names[i];
  }
  for (int f = 0; f < FIELDS; f++) {
    snprintf(names[f], sizeof(names[f]), "f%d", f);
    fields[f] = (struct percore_field){.name = names[f],
                                       .kind = PERCORE_STATE,
                                       .states = states,
                                       .state_count = STATES};
  }
  assert_return_code(create_region(&region, "unit", &table, 1, NULL), errno);
  assert_return_code(region_reader_open(&reader, "unit", NULL, &reading),
                     errno);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  assert_true(allowance.used >
              FIELDS * STATES * sizeof(char *) +
                  2 * region_reader_directory(reader)->header.directory_size);
  region_reader_close(reader);
  assert_int_equal(allowance.used, 0);
  assert_return_code(percore_destroy(region), errno);
}

/* The user of the producer and root may open the memory again. */
REGION_TEST(a_reader_cannot_write_to_a_region) {
  UNIT_READER(reader);
  char path[32];
  int fd = reader->view.file.fd;
  uid_t user = geteuid();
  assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
  assert_fails(fallocate(fd, 0, 0, 4096), EBADF);
  assert_fails((int)write(fd, "x", 1), EBADF);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  if (user == 0) {
    assert_return_code(seteuid(65534), errno);
    assert_fails(open(path, O_RDWR), EACCES);
    assert_return_code(seteuid(user), errno);
  } else {
    print_message("not tested: opening it again as another user needs root\n");
  }
}

REGION_TEST(a_reader_that_is_closed_leaves_no_mapping) {
  struct region_reader *reader = unit_connect();
  void *map = (void *)(uintptr_t)reader->view.map;
  assert_return_code(msync(map, 1, MS_ASYNC), errno);
  region_reader_close(reader);
  assert_fails(msync(map, 1, MS_ASYNC), ENOMEM);
}

REGION_TEST(an_application_tells_the_objects_of_a_row_apart) {
  struct percore_reader *reader;
  uint32_t row = unit_row(region, PORT, "eth0");
  assert_return_code(percore_open(&reader, "unit", NULL), 0);
  assert_int_equal(percore_refresh(reader), 1);
  assert_int_equal(percore_reader_incarnation(reader, PORT, row), 1);
  assert_return_code(
      percore_row_remove(region, PORT, row, PERCORE_NO_UPDATE_IN_FLIGHT),
      errno);
  assert_int_equal(percore_reader_incarnation(reader, PORT, row), 0);
  assert_return_code(percore_row_add_at(region, PORT, row, "again", 0), errno);
  assert_int_equal(percore_reader_incarnation(reader, PORT, row), 2);
  assert_int_equal(percore_reader_incarnation(reader, PORT, 1000), 0);
  assert_int_equal(percore_reader_incarnation(reader, 99, 0), 0);
  percore_close(reader);
}

REGION_TEST(a_row_that_is_being_changed_is_not_said_to_be_missing) {
  struct percore_reader *reader;
  uint64_t value,
      *generation = region_generation(region, &region->tables[GLOBALS + 1], 0);
  assert_return_code(percore_open(&reader, "unit", NULL), 0);
  assert_int_equal(percore_refresh(reader), 1);
  *generation = region_changed(*generation, REGION_CHANGING);
  assert_fails(
      percore_read_row(reader, GLOBALS, 0, PERCORE_TOTAL, NULL, 0, &value, 1),
      EAGAIN);
  *generation = region_changed(*generation, REGION_LIVE);
  assert_int_equal(
      percore_read_row(reader, GLOBALS, 0, PERCORE_TOTAL, NULL, 0, &value, 1),
      0);
  percore_close(reader);
}

static uint32_t replaced;

static void replace(void) {
  assert_return_code(percore_row_remove(meanwhile.region, PORT, replaced,
                                        PERCORE_NO_UPDATE_IN_FLIGHT),
                     errno);
  assert_return_code(
      percore_row_add_at(meanwhile.region, PORT, replaced, "another", 0),
      errno);
}

REGION_TEST(a_row_that_is_replaced_meanwhile_is_not_said_to_be_missing) {
  struct percore_reader *reader;
  uint64_t value;
  char name[64];
  const struct region_table *table = &region->tables[PORT + 1];
  replaced = unit_row(region, PORT, "eth0");
  assert_return_code(percore_open(&reader, "unit", NULL), 0);
  assert_int_equal(percore_refresh(reader), 1);
  memset(&meanwhile, 0, sizeof(meanwhile));
  meanwhile.call = replace;
  meanwhile.region = region;
  meanwhile.reader = *(struct region_reader **)reader; /* its first member */
  meanwhile.offset = table->labels_offset + replaced * region_label_size(table);
  meanwhile.end = meanwhile.offset + 8;
  assert_fails(percore_read_row(reader, PORT, replaced, PERCORE_TOTAL, name,
                                sizeof(name), &value, 1),
               EAGAIN);
  assert_null(meanwhile.call);
  meanwhile.end = 0;
  assert_int_equal(percore_read_row(reader, PORT, replaced, PERCORE_TOTAL, name,
                                    sizeof(name), &value, 1),
                   0);
  assert_string_equal(name, "another");
  percore_close(reader);
}

REGION_TEST(an_application_reads_quantiles_and_bounds_of_buckets) {
  struct percore_reader *reader;
  uint64_t values[256];
  uint32_t row = unit_row(region, PORT, "eth0");
  percore_slot_t slot = unit_attach(region, 1);
  for (int i = 0; i < 100; i++)
    percore_observe(percore_row(percore_table(slot, PORT), row), LATENCY,
                    i < 90 ? 1 : 100);
  assert_return_code(percore_open(&reader, "unit", NULL), 0);
  assert_int_equal(percore_refresh(reader), 1);
  assert_int_equal(percore_read_row(reader, PORT, row, PERCORE_TOTAL, NULL, 0,
                                    values, COUNT_OF(values)),
                   0);
  assert_true(percore_reader_quantile(reader, PORT, LATENCY, values, 0.5) == 1);
  double p99 = percore_reader_quantile(reader, PORT, LATENCY, values, 0.99);
  uint32_t bucket = 0, column = percore_reader_column(reader, PORT, LATENCY);
  while (bucket < 200 && values[column + bucket] != 10)
    bucket++;
  uint64_t least = percore_reader_bucket(reader, PORT, LATENCY, bucket);
  uint64_t next = percore_reader_bucket(reader, PORT, LATENCY, bucket + 1);
  assert_in_range(100, least, next - 1);
  assert_true(p99 >= (double)least && p99 < (double)next);
  assert_int_equal(percore_reader_bucket(reader, PORT, BYTES, 1), 0);
  assert_true(percore_reader_quantile(reader, PORT, BYTES, values, 0.5) == -1);
  percore_close(reader);
}

TEST(a_region_of_16_gib_is_read) {
  static const struct percore_field field = {.name = "rx"};
  static const struct percore_table table = {.name = "flow",
                                             .storage = PERCORE_OWNED,
                                             .fields = &field,
                                             .field_count = 1,
                                             .max_rows = 1u << 29};
  const struct percore_options options = {0};
  struct region_pool pool = {.own = 16 << 20};
  struct region_allowance allowance = {.pool = &pool};
  struct region_reader_options reading = {.allowance = &allowance};
  struct percore_region *region;
  struct percore_reader *reader;
  struct region_reader *charged;
  uint64_t value = 0;
  assert_return_code(create_region(&region, "unit", &table, 1, &options),
                     errno);
  assert_true(region->size > UINT64_C(16) << 30);
  percore_table_t flows = unit_owned_table(region, 0);
  uint32_t row = unit_row_of_key(region, 0, 1);
  percore_add(percore_row(flows, row), 0, 7);
  assert_return_code(percore_open(&reader, "unit", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  assert_return_code(
      percore_read_row(reader, 0, row, PERCORE_TOTAL, NULL, 0, &value, 1),
      errno);
  assert_int_equal(value, 7);
  percore_close(reader);
  assert_return_code(region_reader_open(&charged, "unit", NULL, &reading), 0);
  assert_int_equal(region_reader_refresh(charged), REGION_CAME);
  /* nothing in proportion to the size */
  assert_in_range(allowance.used, 1, 1 << 20);
  region_reader_close(charged);
  unit_end(region);
}

TEST(a_region_is_kept_from_children_if_the_reader_wants_it) {
  UNIT_REGION(region);
  for (int keep = 0; keep < 2; keep++) {
    const struct region_reader_options reading = {.keep_from_children = keep};
    struct region_reader *reader;
    int status;
    assert_return_code(region_reader_open(&reader, "unit", NULL, &reading), 0);
    assert_int_equal(region_reader_refresh(reader), REGION_CAME);
    pid_t pid = fork();
    if (pid == 0) /* ENOMEM: it is not mapped */
      _exit(msync((void *)(uintptr_t)reader->view.map, 1, MS_ASYNC) != 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, keep << 8);
    region_reader_close(reader);
  }
}

TEST(a_producer_that_is_stopped_is_known_to_be) {
  int ready[2], status;
  char byte = 0;
  assert_return_code(pipe(ready), errno);
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)unit_create();
    if (write(ready[1], &byte, 1) == 1)
      pause();
    _exit(1);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  UNIT_READER(reader);
  assert_false(region_reader_is_stopped(reader));
  assert_return_code(kill(pid, SIGSTOP), errno);
  assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
  assert_true(region_reader_is_stopped(reader));
  assert_return_code(kill(pid, SIGKILL), errno);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_false(region_reader_is_stopped(reader));
  close(ready[0]);
  close(ready[1]);
}

TEST(applications_read_regions_by_percore_open) {
  struct counting counting = start_counting(2);
  struct percore_reader *reader;
  uint64_t values[64];
  char name[32];
  uint32_t row = unit_row(counting.region, PORT, "eth0");
  count(&counting, row, 6);
  assert_fails(percore_open(&reader, "../unit", NULL), EINVAL);
  assert_null(reader);
  assert_return_code(percore_open(&reader, "unit", NULL), 0);
  assert_int_equal(percore_reader_state(reader, NULL), PERCORE_ABSENT);
  assert_int_equal(percore_refresh(reader), 1);
  assert_int_equal(percore_refresh(reader), 0);
  assert_string_equal(percore_reader_table(reader, PORT)->name, "port");
  assert_null(percore_reader_table(reader, TABLES));
  assert_null(percore_reader_table(reader, UINT32_MAX));
  assert_string_equal(percore_reader_table(reader, PERCORE_TABLE_CORE)->name,
                      "core");
  assert_int_equal(percore_reader_rows(reader, PORT), 2);
  assert_int_equal(percore_reader_column(reader, PORT, LATENCY),
                   LATENCY_COLUMN);
  assert_true((size_t)percore_reader_column(reader, PORT, 4) <
              COUNT_OF(values));
  assert_int_equal(percore_read_row(reader, PORT, row, PERCORE_TOTAL, name,
                                    sizeof(name), values, 64),
                   0);
  assert_string_equal(name, "eth0");
  assert_int_equal(values[PACKETS], 6);
  assert_int_equal(
      percore_read_row(reader, PORT, row, PERCORE_TOTAL, name, 3, values, 0),
      0);
  assert_string_equal(name, "et");
  assert_int_equal(name[3], '0');
  assert_int_equal(percore_reader_column(reader, TABLES, 0), 0);
  assert_int_equal(percore_reader_find(reader, PERCORE_FIND_TABLE, 0, "port"),
                   PORT);
  assert_true(percore_reader_find(reader, PERCORE_FIND_TABLE, 0, "core") ==
              PERCORE_TABLE_CORE);
  assert_int_equal(percore_reader_find(reader, PERCORE_FIND_TABLE, 0, "none"),
                   -1);
  assert_int_equal(
      percore_reader_find(reader, PERCORE_FIND_FIELD, PORT, "latency"),
      LATENCY);
  assert_int_equal(
      percore_reader_find(reader, PERCORE_FIND_FIELD, PORT, "packets"),
      PACKETS);
  assert_int_equal(
      percore_reader_find(reader, PERCORE_FIND_FIELD, PORT, "none"), -1);
  assert_int_equal(
      percore_reader_find(reader, PERCORE_FIND_FIELD, 99, "latency"), -1);
  assert_int_equal(percore_reader_find(reader, PERCORE_FIND_ROW, PORT, "eth0"),
                   row);
  assert_int_equal(percore_reader_find(reader, PERCORE_FIND_ROW, PORT, "eth1"),
                   -1);
  assert_int_equal(percore_reader_find(reader, PERCORE_FIND_ROW, 99, "eth0"),
                   -1);
  assert_int_equal(percore_read_row(reader, PORT, row, 2, NULL, 0, values, 1),
                   0);
  assert_int_equal(values[PACKETS], 6);
  assert_int_equal(percore_reader_slot_core(reader, 2), 2);
  assert_int_equal(percore_reader_slot_core(reader, 1), -1);
  assert_int_equal(percore_read_row(reader, PORT, row, 1, NULL, 0, values, 1),
                   -1);
  assert_int_equal(
      percore_read_row(reader, PORT, 3, PERCORE_TOTAL, NULL, 0, values, 1), -1);
  assert_int_equal(errno, ENOENT);
  stop_counting(&counting);
  assert_int_equal(percore_refresh(reader), -1);
  assert_int_equal(percore_reader_state(reader, NULL), PERCORE_GONE);
  assert_int_equal(percore_read_row(reader, PORT, row, PERCORE_TOTAL, name,
                                    sizeof(name), values, 64),
                   0);
  percore_close(reader);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
