#include "publish.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct board {
  enum board_readers readers;
  struct journal journal;
  struct percore_region *region; /* NULL: there was no picture yet */
  percore_owned_table_t rows;
};

struct board *board_open(enum board_readers readers,
                         const struct journal *journal) {
  struct board *board = calloc(1, sizeof(*board));
  if (board == NULL)
    return NULL;
  board->readers = readers;
  board->journal = *journal;
  return board;
}

void board_close(struct board *board) {
  if (board == NULL)
    return;
  if (board->region != NULL)
    percore_destroy(board->region);
  free(board);
}

static struct percore_region_status status_of(const struct board *board) {
  struct percore_region_status status = {.size = sizeof(status)};
  if (board->region != NULL)
    percore_status(board->region, &status);
  return status;
}

bool board_is_published(const struct board *board) {
  return status_of(board).served != 0;
}

/* ---------------------------------------------------------------------------
 * Publishing
 */

static void create(struct board *board, const struct snapshot *snapshot,
                   uint32_t cores) {
  const char *sources[SOURCES + 1], *proofs[PROOF_REFUTED + 1];
  char names[FIGURES_PERIODS_MAX][BOARD_NAME_SIZE];
  struct percore_field fields[BOARD_COLUMNS];
  const struct percore_table table = {
      .name = "cores",
      .help = "The load of each core",
      .storage = PERCORE_OWNED,
      .fields = fields,
      .field_count = (uint32_t)(BOARD_AVERAGE + snapshot->periods_len),
      .max_rows = cores,
      .flags = PERCORE_CONSISTENT};
  const struct percore_options options = {.size = sizeof(options), .quiet = 1};
  for (int i = 0; i <= SOURCES; i++)
    sources[i] = source_name((enum source_kind)(SOURCE_NONE + i));
  for (int i = 0; i <= PROOF_REFUTED; i++)
    proofs[i] = proof_name((enum proof)i);
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    fields[i] = board_column(i)->field;
  fields[BOARD_COLUMN(source)].states = sources;
  fields[BOARD_COLUMN(proof)].states = proofs;
  for (size_t i = 0; i < snapshot->periods_len; i++) {
    snprintf(names[i], sizeof(names[i]), BOARD_AVERAGE_NAME,
             snapshot->period_s[i]);
    fields[BOARD_AVERAGE + i].name = names[i];
  }
  if (percore_create(&board->region, BOARD_NAME, &table, 1, &options) != 0) {
    struct percore_region_status status = status_of(board);
    journal_say(&board->journal,
                status.error == ENOENT ? JOURNAL_INFO : JOURNAL_WARNING,
                "the board is not published: %s",
                status.error == EADDRINUSE ? "another process publishes it"
                                           : status.reason);
  }
  percore_owned_table(board->region, 0, &board->rows);
}

/* The library gives the socket to the group; it may also have made it anew. Who
 * may remove it can put a link in its place, or keep others from looking for a
 * name that is gone. */
static void open_to_all(void) {
  char path[4096];
  const char *folder = getenv("PERCORE_RUNTIME_DIR");
  snprintf(path, sizeof(path), "%s/" BOARD_NAME ".sock",
           folder != NULL ? folder : "/run/percore");
  int file = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0)
    return;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  (void)chmod(path, 0666);
  close(file);
}

/* ---------------------------------------------------------------------------
 * Pictures
 */

static void write_core(struct board *board, const struct snapshot *snapshot,
                       const struct topology *topology,
                       const struct core_figures *core, uint64_t now_ns) {
  uint32_t number = (uint32_t)core->core;
  int sibling = topology->sibling[number];
  struct board_core row = {.node = fmax(0, topology->node[number]),
                           .sibling = sibling < 0 ? core->core : sibling,
                           .time_ns = (double)now_ns,
                           .interval_ns = (double)snapshot->interval_ns};
  if (core->online && !isnan(core->busy)) {
    row.load = core->busy;
    row.load_min = board_or(core->busy_min, core->busy);
    row.load_max = board_or(core->busy_max, core->busy);
    row.load_low = board_or(core->busy_low, core->busy);
    row.load_high = board_or(core->busy_high, core->busy);
    row.taken = board_or(core->taken, core->busy);
    row.steal = board_or(core->steal, 0);
    row.frequency_hz = board_or(core->frequency_hz, 0);
    row.isolated = core->isolated;
    row.source = core->source - SOURCE_NONE;
    row.proof = core->proof;
    for (size_t i = 0; i < snapshot->periods_len; i++)
      row.average[i] = board_or(core->load_average[i], core->busy);
  }
  if (percore_row_add_at(board->region, 0, number, NULL, number) != 0 &&
      errno != EEXIST)
    return;
  percore_owned_row_t handle = percore_owned_row(board->rows, number);
  percore_row_begin(handle);
  for (uint32_t i = 0; i < BOARD_AVERAGE + snapshot->periods_len; i++)
    percore_set(handle, i,
                llround(board_figure(&row, i) * board_column(i)->scale));
  percore_row_end(handle);
}

void board_publish(struct board *board, const struct snapshot *snapshot,
                   const struct topology *topology) {
  static const struct core_figures not_measured = {.core = 0};
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  if (board->region == NULL)
    create(board, snapshot, (uint32_t)topology->cores_len);
  if (board->readers == BOARD_ALL)
    open_to_all();
  for (size_t i = snapshot->cores_len; i-- > 0;)
    if (snapshot->cores[i].core < topology->cores_len)
      write_core(board, snapshot, topology, &snapshot->cores[i], now_ns);
  if (snapshot->cores_len == 0 || snapshot->cores[0].core != 0)
    write_core(board, snapshot, topology, &not_measured, now_ns);
}
