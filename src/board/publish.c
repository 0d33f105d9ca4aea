#include "publish.h"

#include "base/clock.h"
#include "cycles/sampling_thread.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CREATE_MS 100 /* how long the first picture waits for the board */

struct board {
  enum board_readers readers;
  struct journal journal;
  uint32_t cores_len;
  bool begun; /* the creator was started */
  struct sampling_thread creator;
  atomic_bool is_created;
  /* The creator's until then. */
  struct percore_region *region; /* NULL: there was no picture yet */
  percore_table_t rows;
  bool *has_row; /* of each core */
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
  sampling_thread_stop(&board->creator, UINT64_MAX);
  if (board->region != NULL)
    percore_destroy(board->region);
  free(board->has_row);
  free(board);
}

static struct percore_region_status status_of(const struct board *board) {
  struct percore_region_status status;
  percore_status(board->region, &status);
  return status;
}

bool board_is_published(const struct board *board) {
  return atomic_load(&board->is_created) && status_of(board).served != 0;
}

/* ---------------------------------------------------------------------------
 * Publishing
 */

static void *create(void *argument) {
  struct board *board = argument;
  const char *sources[SOURCES + 1], *proofs[PROOF_REFUTED + 1];
  struct percore_field fields[BOARD_COLUMNS];
  const struct percore_table table = {.name = "cores",
                                      .help = "The load of each core",
                                      .storage = PERCORE_OWNED,
                                      .fields = fields,
                                      .field_count = BOARD_COLUMNS,
                                      .max_rows = board->cores_len,
                                      .flags = PERCORE_CONSISTENT};
  const struct percore_options options = {
      .quiet = 1, .all_users = board->readers == BOARD_ALL};
  for (int i = 0; i <= SOURCES; i++)
    sources[i] = source_name((enum source_kind)(SOURCE_NONE + i));
  for (int i = 0; i <= PROOF_REFUTED; i++)
    proofs[i] = proof_name((enum proof)i);
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    fields[i] = board_columns[i].field;
  fields[BOARD_COLUMN(source)].states = sources;
  fields[BOARD_COLUMN(proof)].states = proofs;
  board->region = percore_create(BOARD_NAME, &table, 1, &options);
  if (errno != 0) {
    struct percore_region_status status = status_of(board);
    journal_say(&board->journal,
                status.error == ENOENT ? JOURNAL_INFO : JOURNAL_WARNING,
                "the board is not published: %s", status.reason);
  }
  board->rows = percore_table(percore_this_slot(board->region), 0);
  atomic_store(&board->is_created, true);
  return NULL;
}

/* A thread of its own creates the board, because creating a region waits for
 * the lock of its directory, which must not delay loads. */
static bool begin(struct board *board, uint32_t cores) {
  board->cores_len = cores;
  if (board->has_row == NULL)
    board->has_row = calloc(cores, sizeof(*board->has_row));
  return board->has_row != NULL &&
         sampling_thread_start(&board->creator, create, board) == 0;
}

/* True if the board exists. It usually does after a moment. */
static bool is_created(struct board *board, uint32_t cores) {
  struct timespec moment = {.tv_nsec = 1000000};
  if (board->begun)
    return atomic_load(&board->is_created);
  board->begun = begin(board, cores);
  for (int i = 0;
       board->begun && i < CREATE_MS && !atomic_load(&board->is_created); i++)
    nanosleep(&moment, NULL);
  return atomic_load(&board->is_created);
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
  if (core->online && !isnan(core->load)) {
    row.load = core->load;
    row.load_trough = board_or(core->load_trough, core->load);
    row.load_peak = board_or(core->load_peak, core->load);
    row.load_low = board_or(core->load_low, core->load);
    row.load_high = board_or(core->load_high, core->load);
    row.room = board_or(core->room, 1 - core->load);
    row.steal = board_or(core->steal, 0);
    row.frequency_hz = board_or(core->frequency_hz, 0);
    row.isolated = core->isolated;
    row.source = core->source - SOURCE_NONE;
    row.proof = core->proof;
    for (int i = 0; i < LOADAVG_PERIODS; i++)
      row.average[i] = board_or(core->load_average[i], core->load);
  }
  board->has_row[number] =
      board->has_row[number] ||
      percore_row_add_at(board->region, 0, number + 1, NULL, number) == 0;
  if (!board->has_row[number])
    return;
  percore_row_t handle = percore_row(board->rows, number + 1);
  percore_begin(handle);
  for (uint32_t i = 0; i < BOARD_COLUMNS; i++)
    percore_set(handle, i,
                llround(board_figure(&row, i) * board_columns[i].scale));
  percore_end(handle);
}

void board_publish(struct board *board, const struct snapshot *snapshot,
                   const struct topology *topology) {
  static const struct core_figures not_measured = {.core = 0};
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  if (!is_created(board, (uint32_t)topology->cores_len))
    return;
  for (size_t i = snapshot->cores_len; i-- > 0;)
    if (snapshot->cores[i].core < (int)board->cores_len) /* at its start */
      write_core(board, snapshot, topology, &snapshot->cores[i], now_ns);
  if (snapshot->cores_len == 0 || snapshot->cores[0].core != 0)
    write_core(board, snapshot, topology, &not_measured, now_ns);
}
