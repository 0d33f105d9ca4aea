/* fakeboard: tests a scheduler without loads. It publishes a board whose loads
 * you choose, which programs read that open percore_load with from_board.
 *
 *   cc -D_GNU_SOURCE fakeboard.c $(pkg-config --cflags --libs percore)
 *   PERCORE_RUNTIME_DIR=/tmp/test ./a.out 0.2 0.87 0.20  # each 0.2 s, two
 * cores
 *
 * The number of loads must be the number of cores of this machine. It ends when
 * its standard input ends. */
#include <percore.h>

#include <err.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

static const char *const sources[] = {"none",  "mperf", "ref-cycles",
                                      "event", "bpf",   "idle"};
static const char *const proofs[] = {"pending", "proven", "unproven",
                                     "tick-sampled", "refuted"};

/* The columns of the board; percore(3), The board, says what they mean. */
#define GAUGE(column, of)                                                      \
  { .name = column, .unit = of, .kind = PERCORE_GAUGE }
#define STATES(column, texts, count)                                           \
  {                                                                            \
    .name = column, .kind = PERCORE_STATE, .states = texts,                    \
    .state_count = count                                                       \
  }
static const struct percore_field fields[] = {
    GAUGE("load", "ppm"),       GAUGE("load_min", "ppm"),
    GAUGE("load_max", "ppm"),   GAUGE("load_low", "ppm"),
    GAUGE("load_high", "ppm"),  GAUGE("taken", "ppm"),
    GAUGE("steal", "ppm"),      GAUGE("frequency", "Hz"),
    GAUGE("node", "1"),         GAUGE("sibling", "1"),
    GAUGE("isolated", "1"),     STATES("source", sources, 6),
    STATES("proof", proofs, 5), GAUGE("time", "ns"),
    GAUGE("interval", "ns"),    GAUGE("average_60s", "ppm")};
enum { LOADS = 6, SIBLING = 9, SOURCE = 11, PROOF, TIME, INTERVAL, AVERAGE };

static void write_core(percore_owned_row_t row, uint32_t core, double load,
                       double interval_s, int64_t time_ns) {
  int64_t ppm = (int64_t)(load * 1e6);
  percore_row_begin(row);
  for (uint32_t i = 0; i < LOADS; i++)
    percore_set(row, i, ppm);
  percore_set(row, SIBLING, core);
  percore_set(row, SOURCE, 5);
  percore_set(row, PROOF, 1);
  percore_set(row, TIME, time_ns);
  percore_set(row, INTERVAL, (int64_t)(interval_s * 1e9));
  percore_set(row, AVERAGE, ppm);
  percore_row_end(row);
}

int main(int argc, char **argv) {
  if (argc < 3 || atof(argv[1]) <= 0)
    errx(2, "usage: fakeboard INTERVAL LOAD...");
  const struct percore_table tables[] = {
      {.name = "cores",
       .storage = PERCORE_OWNED,
       .fields = fields,
       .field_count = sizeof(fields) / sizeof(fields[0]),
       .max_rows = (uint32_t)argc - 2,
       .flags = PERCORE_CONSISTENT}};
  struct percore_region *region;
  percore_owned_table_t table;
  double interval_s = atof(argv[1]);
  uint32_t cores = (uint32_t)argc - 2;
  if (percore_create(&region, "board", tables, 1, NULL) != 0)
    err(1, "percore_create");
  percore_owned_table(region, 0, &table);
  for (uint32_t core = 0; core < cores; core++)
    percore_row_add_at(region, 0, core, NULL, core);
  struct pollfd end = {.fd = 0, .events = POLLIN};
  do { /* all cores have one time; core 0 is written last */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (uint32_t core = cores; core-- > 0;)
      write_core(percore_owned_row(table, core), core, atof(argv[2 + core]),
                 interval_s, now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
  } while (poll(&end, 1, (int)(interval_s * 1000)) == 0);
  return percore_destroy(region) == 0 ? 0 : 1;
}
