/* board: publishes loads that you choose, to test a scheduler without loads.
 *
 *   cc board.c $(pkg-config --cflags --libs percore) -o board
 *   export PERCORE_RUNTIME_DIR=$(mktemp -d)    # not beside collectd's board
 *   ./board 60 0.2 .87 .20 & percore pick      # 60 s, every 0.2 s: core 1
 *
 * Programs that open their loads with `from_board` (percore_load.h) then have
 * core 0 at 87 % and core 1 at 20 %, as if collectd had measured them. */
#include <percore_tune.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define GAUGE(called, in)                                                      \
  { .name = called, .unit = in, .kind = PERCORE_GAUGE }
static const char *const sources[] = {"none",  "mperf", "ref-cycles",
                                      "event", "bpf",   "idle"};
static const char *const proofs[] = {"proven", "unproven", "pending",
                                     "tick-sampled"};
enum { LOADS = 5, ROOM = 5, SIBLING = 9, SOURCE = 11, TIME = 13, INTERVAL };
enum { AVERAGES = 15, COLUMNS = 18 };
static const struct percore_field fields[] = {
    GAUGE("load", "ppm"),
    GAUGE("load_trough", "ppm"),
    GAUGE("load_peak", "ppm"),
    GAUGE("load_low", "ppm"),
    GAUGE("load_high", "ppm"),
    GAUGE("room", "ppm"),
    GAUGE("steal", "ppm"),
    GAUGE("frequency", "Hz"),
    GAUGE("node", "1"),
    GAUGE("sibling", "1"),
    GAUGE("isolated", "1"),
    {.name = "source",
     .kind = PERCORE_STATE,
     .states = sources,
     .state_count = 6},
    {.name = "proof",
     .kind = PERCORE_STATE,
     .states = proofs,
     .state_count = 4},
    GAUGE("time", "ns"),
    GAUGE("interval", "ns"),
    GAUGE("load_1m", "ppm"),
    GAUGE("load_5m", "ppm"),
    GAUGE("load_15m", "ppm"),
};

int main(int argc, char **argv) {
  struct percore_table cores = {.name = "cores",
                                .storage = PERCORE_OWNED,
                                .fields = fields,
                                .field_count = sizeof(fields) / sizeof(*fields),
                                .flags = PERCORE_CONSISTENT};
  struct timespec now;
  if (argc < 4)
    return fprintf(stderr, "usage: %s SECONDS INTERVAL LOAD ...\n", argv[0]), 2;
  double seconds = atof(argv[1]), interval = atof(argv[2]);
  cores.max_rows = (uint32_t)argc - 3;
  struct percore_region *region = percore_create("board", &cores, 1, NULL);
  percore_table_t table = percore_table(percore_this_slot(region), 0);
  for (uint32_t core = 0; core < cores.max_rows; core++)
    percore_row_add_at(region, 0, core + 1, NULL, core);
  for (double left = seconds; left > 0; left -= interval) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    /* Readers look at the first row to learn whether the picture is new. */
    for (uint32_t core = cores.max_rows; core-- > 0;) {
      percore_row_t row = percore_row(table, core + 1);
      long ppm = (long)(atof(argv[3 + core]) * 1e6);
      percore_begin(row);
      for (uint32_t i = 0; i < LOADS; i++)
        percore_set(row, i, ppm);
      percore_set(row, ROOM, 1000000 - ppm);
      percore_set(row, SIBLING, core);
      percore_set(row, SOURCE, 5);
      percore_set(row, TIME, now.tv_sec * 1000000000LL + now.tv_nsec);
      percore_set(row, INTERVAL, (long)(interval * 1e9));
      for (uint32_t i = AVERAGES; i < COLUMNS; i++)
        percore_set(row, i, ppm);
      percore_end(row);
    }
    struct timespec pause = {
        .tv_sec = (time_t)interval,
        .tv_nsec = (long)((interval - (double)(time_t)interval) * 1e9)};
    nanosleep(&pause, NULL);
  }
  return 0;
}
