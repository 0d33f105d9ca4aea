#include "publish.h"

#include "base/clock.h"
#include "percore.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define RETRY_NS (10 * NS_PER_S)
#define EVERYBODY 0666
#define DEFAULT_RUNTIME_DIR "/run/percore"

struct board {
  enum board_readers readers;
  struct journal journal;
  struct percore_region *region; /* NULL: not published */
  atomic_bool is_published;
  bool said; /* why it is not published */
  uint64_t retry_ns;
  percore_owned_table_t handles[BOARD_TABLES];
  struct board_field fields[BOARD_TABLES][BOARD_FIELDS_MAX];
  size_t fields_len[BOARD_TABLES];
  bool has_row[CORES_MAX];
  double useful[CORES_MAX];
};

struct board *board_open(enum board_readers readers,
                         const struct journal *journal) {
  struct board *board = calloc(1, sizeof(*board));
  if (board == NULL)
    return NULL;
  board->readers = readers;
  board->journal = *journal;
  for (int core = 0; core < CORES_MAX; core++)
    board->useful[core] = NAN;
  return board;
}

void board_close(struct board *board) {
  if (board == NULL)
    return;
  if (board->region != NULL)
    percore_destroy(board->region);
  free(board);
}

bool board_is_published(const struct board *board) {
  return atomic_load(&board->is_published);
}

void board_set_useful(struct board *board, int core, double load) {
  if (core >= 0 && core < CORES_MAX)
    board->useful[core] = load;
}

/* ---------------------------------------------------------------------------
 * Publishing
 */

static int create(struct board *board, uint32_t cores) {
  struct percore_field fields[BOARD_TABLES][BOARD_FIELDS_MAX] = {0};
  struct percore_table tables[BOARD_TABLES];
  const struct percore_options options = {.size = sizeof(options), .quiet = 1};
  for (int t = 0; t < BOARD_TABLES; t++) {
    tables[t] = (struct percore_table){
        .name = board_table_name((enum board_table)t),
        .help = t == BOARD_PICTURE ? "The loads of all cores"
                                   : "The load of each core",
        .storage = PERCORE_OWNED,
        .fields = fields[t],
        .field_count = (uint32_t)board->fields_len[t],
        .max_rows = t == BOARD_PICTURE ? 0 : cores,
        .flags = PERCORE_CONSISTENT};
    for (size_t f = 0; f < board->fields_len[t]; f++) {
      const struct board_field *field = &board->fields[t][f];
      fields[t][f] = (struct percore_field){
          .name = field->name,
          .unit = field->unit,
          .help = field->help,
          .kind = field->states == NULL ? PERCORE_GAUGE : PERCORE_STATE,
          .states = field->states,
          .state_count = field->states_len};
    }
  }
  int status = percore_create(&board->region, BOARD_NAME, tables, BOARD_TABLES,
                              &options);
  for (uint32_t t = 0; status == 0 && t < BOARD_TABLES; t++)
    status = percore_owned_table(board->region, t, &board->handles[t]);
  return status;
}

static void say(struct board *board) {
  struct percore_region_status status = {.size = sizeof(status)};
  percore_status(board->region, &status);
  if (!board->said)
    journal_say(&board->journal,
                status.error == ENOENT ? JOURNAL_INFO : JOURNAL_WARNING,
                "the board is not published: %s", status.reason);
  board->said = true;
}

/* Returns false if the board cannot be published now. */
static bool is_ready(struct board *board, const struct snapshot *snapshot,
                     uint32_t cores, uint64_t now_ns) {
  if (board->region != NULL)
    return true;
  if (now_ns < board->retry_ns)
    return false;
  for (int t = 0; t < BOARD_TABLES; t++)
    board->fields_len[t] =
        board_fields(board->fields[t], (enum board_table)t, snapshot->period_s,
                     snapshot->periods_len);
  if (create(board, cores) == 0) {
    atomic_store(&board->is_published, true);
    return true;
  }
  say(board);
  percore_destroy(board->region);
  board->region = NULL;
  board->retry_ns = now_ns + RETRY_NS;
  return false;
}

/* The library gives the socket to the group; it may also have made it anew. */
static void open_to_all(void) {
  char path[4096];
  const char *folder = getenv("PERCORE_RUNTIME_DIR");
  snprintf(path, sizeof(path), "%s/" BOARD_NAME ".sock",
           folder != NULL ? folder : DEFAULT_RUNTIME_DIR);
  (void)chmod(path, EVERYBODY);
}

/* ---------------------------------------------------------------------------
 * Pictures
 */

static void write_row(struct board *board, enum board_table table,
                      uint32_t number, void *row) {
  percore_owned_row_t handle = percore_owned_row(board->handles[table], number);
  percore_row_begin(handle);
  for (uint32_t f = 0; f < board->fields_len[table]; f++) {
    const struct board_field *field = &board->fields[table][f];
    double value = *board_value(row, field);
    percore_set(handle, f, llround(value * field->scale));
  }
  percore_row_end(handle);
}

static double or_else(double value, double otherwise) {
  return isnan(value) ? otherwise : value;
}

static void write_core(struct board *board, const struct snapshot *snapshot,
                       const struct core_figures *core,
                       const struct topology *topology, double time_ns) {
  int number = core->core;
  bool has_place = number < topology->cores_len;
  bool is_known = core->online && !isnan(core->busy);
  double load = is_known ? core->busy : 0;
  struct board_core row = {
      .load = load,
      .load_min = or_else(core->busy_min, load),
      .load_max = or_else(core->busy_max, load),
      .load_low = or_else(core->busy_low, load),
      .load_high = or_else(core->busy_high, load),
      .useful = fmin(1, or_else(board->useful[number], load)),
      .steal = or_else(core->steal, 0),
      .frequency_hz = or_else(core->frequency_hz, 0),
      .node = has_place ? fmax(0, topology->node[number]) : 0,
      .sibling = has_place && topology->sibling[number] >= 0
                     ? topology->sibling[number]
                     : number,
      .isolated = core->isolated,
      .source = (is_known ? core->source : SOURCE_NONE) - SOURCE_NONE,
      .proof = core->proof,
      .time_ns = time_ns};
  for (size_t i = 0; i < snapshot->periods_len; i++)
    row.average[i] = or_else(core->load_average[i], load);
  if (!board->has_row[number])
    board->has_row[number] =
        percore_row_add_at(board->region, BOARD_CORES, (uint32_t)number, NULL,
                           (uint64_t)number) == 0;
  if (board->has_row[number])
    write_row(board, BOARD_CORES, (uint32_t)number, &row);
}

void board_publish(void *context, const struct snapshot *snapshot,
                   const struct topology *topology) {
  struct board *board = context;
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  if (!is_ready(board, snapshot, (uint32_t)topology->cores_len, now_ns))
    return;
  if (board->readers == BOARD_ALL)
    open_to_all();
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (snapshot->cores[i].core < CORES_MAX)
      write_core(board, snapshot, &snapshot->cores[i], topology,
                 (double)now_ns);
  struct board_picture picture = {.time_ns = (double)now_ns,
                                  .interval_ns = (double)snapshot->interval_ns,
                                  .cores = topology->cores_len};
  write_row(board, BOARD_PICTURE, 0, &picture);
}
