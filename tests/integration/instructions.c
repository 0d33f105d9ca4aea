/* Runs each path that users pay for often, a known number of times, in a
 * function whose name begins with `path_`; test_instructions.py counts the
 * instructions of these functions. The argument is the root of a played machine
 * (sysroot.py). Prints the steps of each path: their number is what the
 * instructions are divided by. */
#include <sys/time.h>

#include "../unit/calls.h"
#include "plugin_unit.h"

#include "plugin/dispatch.h"
#include "region_host.h"

#include "cycles/engine.h"
#include "cycles/figures.h"

enum { STEPS = 1000, ROUNDS = 4, ROWS = 5000, COLUMNS = 4, PUT_ROWS = 500 };

/* Replaces the fake collectd, whose records would be counted. */
static uint64_t dispatched;
int __wrap_plugin_dispatch_values(const value_list_t *list);
int __wrap_plugin_dispatch_values(const value_list_t *list) {
  (void)list;
  dispatched++;
  return 0;
}

#define PATH static __attribute__((noinline)) uint64_t

/* ---------------------------------------------------------------------------
 * Updates. Each returns its steps.
 */

static percore_slot_t slot;
static percore_row_t row;
static percore_shared_row_t shared;

PATH path_add(void) {
  percore_row_t mine = row;
  for (uint64_t i = 0; i < STEPS; i++)
    percore_add(mine, PACKETS, i);
  return STEPS;
}

PATH path_shared_add(void) {
  percore_shared_row_t mine = shared;
  for (uint64_t i = 0; i < STEPS; i++)
    percore_shared_add(mine, PACKETS, i);
  return STEPS;
}

PATH path_section(void) {
  percore_row_t mine = row;
  for (uint64_t i = 0; i < STEPS; i++) {
    percore_begin(mine);
    percore_add(mine, PACKETS, 1);
    percore_add(mine, BYTES, i);
    percore_end(mine);
  }
  return STEPS;
}

PATH path_hist_add(void) {
  percore_row_t mine = row;
  for (uint64_t i = 0; i < STEPS; i++)
    percore_observe(mine, LATENCY, i);
  return STEPS;
}

/* percore_poll without its reading of the clock, which is different each time.
 */
PATH path_poll(void) {
  percore_slot_t own = slot;
  uint64_t tsc = percore_polled_(own.seat->head);
  for (uint64_t i = 0; i < STEPS; i++)
    percore_poll(own, i & 1, tsc + i);
  return STEPS;
}

/* ---------------------------------------------------------------------------
 * Loads
 */

static struct engine *engine;
static struct figures *figures;
static size_t cores_len;

static uint64_t now_ns;

static uint64_t played_clock_ns(void *context, clockid_t clock) {
  (void)context;
  (void)clock;
  return now_ns;
}

static void open_engine(const char *root) {
  static struct figures_options options;
  struct machine *machine = machine_linux(root);
  struct engine_options chosen = {.machine = machine, .source = SOURCE_IDLE};
  machine->clock_ns = played_clock_ns;
  if (engine_open(&engine, &chosen) != 0)
    fail_msg("no engine");
  figures = figures_open(&options, engine);
  engine_cores(engine, &cores_len);
}

static void sample(void) {
  for (int i = 0; i < ROUNDS; i++) {
    now_ns += SECOND;
    engine_sample(engine, false);
    figures_load_average(figures);
  }
}

PATH path_sample(void) {
  sample();
  return ROUNDS * cores_len;
}

/* Of what the plugin reports by default. */
PATH path_dispatch(void) {
  static struct dispatch dispatch = {.config = &config};
  static struct core_figures cores[64];
  struct snapshot snapshot = {
      .time_ns = SECOND, .cores_len = COUNT_OF(cores), .cores = cores};
  for (size_t i = 0; i < COUNT_OF(cores); i++)
    cores[i] = (struct core_figures){.core = (int)i,
                                     .online = true,
                                     .source = SOURCE_IDLE,
                                     .proof = PROOF_PROVEN,
                                     .load = 0.5,
                                     .load_average = {1, 2, 3}};
  dispatched = 0;
  dispatch_snapshot(&dispatch, &snapshot);
  return dispatched;
}

/* ---------------------------------------------------------------------------
 * Rounds of the plugin over regions
 */

static percore_table_t rows_of_table;

static void open_rows(uint32_t rows, const char *options) {
  static const struct percore_field fields[COLUMNS] = {{.name = "packets"},
                                                       {.name = "bytes"},
                                                       {.name = "drops"},
                                                       {.name = "errors"}};
  const struct percore_table table = {.name = "session",
                                      .storage = PERCORE_OWNED,
                                      .fields = fields,
                                      .field_count = COLUMNS,
                                      .max_rows = rows,
                                      .key = PERCORE_KEY_DECIMAL};
  struct percore_region *region = create(0, NULL, &table, 1);
  rows_of_table = unit_owned_table(region, 0);
  for (uint32_t i = 0; i < rows; i++)
    unit_row_of_key(region, 0, i);
  /* The plugin looks again into a directory that has changed within a second.
   */
  utimes(getenv("PERCORE_RUNTIME_DIR"),
         (struct timeval[2]){{.tv_sec = 1}, {.tv_sec = 1}});
  start_watch(options);
  host_settles = false;
  play_round(SECOND);
  play_round(SECOND);
}

static void count(uint32_t rows) {
  for (uint32_t i = 0; i < rows; i++)
    for (unsigned column = 0; column < COLUMNS; column++)
      percore_add(percore_row(rows_of_table, i + 1), column, i + 1);
}

PATH path_scan(void) {
  for (int i = 0; i < ROUNDS; i++)
    play_round(SECOND);
  return ROUNDS * ROWS * COLUMNS;
}

PATH path_scan_of_growth(void) {
  play_round(SECOND);
  return ROWS * COLUMNS;
}

PATH path_put(void) {
  dispatched = 0;
  play_round(SECOND);
  return dispatched;
}

/* ---------------------------------------------------------------------------
 * Running
 */

#define RUN(path) printf("%s %llu\n", #path, (unsigned long long)path())

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  set_up();
  struct percore_region *region = create_usual(0, NULL);
  slot = unit_attach(region, 0);
  row = percore_row(percore_table(slot, PORT), unit_row(region, PORT, "eth0"));
  shared = percore_shared_row(region, SLOW, unit_row(region, SLOW, "eth0"));
  RUN(path_add);
  RUN(path_shared_add);
  RUN(path_section);
  RUN(path_hist_add);
  RUN(path_poll);
  percore_detach(slot);
  tear_down();

  set_up();
  open_engine(argv[1]);
  sample();
  RUN(path_sample);
  RUN(path_dispatch);
  tear_down();

  set_up();
  open_rows(ROWS, "<Region \"*\">\n<Table \"session\">\nTop 10 \"packets\"\n"
                  "</Table>\n</Region>\n");
  RUN(path_scan);
  count(ROWS);
  play_round(SECOND);
  count(ROWS);
  RUN(path_scan_of_growth);
  tear_down();

  set_up();
  open_rows(PUT_ROWS, "<Region \"*\">\n</Region>\n");
  count(PUT_ROWS);
  RUN(path_put);
  tear_down();
  return 0;
}
