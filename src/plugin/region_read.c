#include "region_reading.h"

#include "utils/common/common.h"

/* A table of no more cells, or loads of all slots, is read at once, which takes
 * some milliseconds. */
#define AT_ONCE_CELLS 131072
#define AT_ONCE_LOADS (UINT64_C(16) * AT_ONCE_CELLS)
/* Of rows of many fields and cores a tile has a few. A thread that is to end
 * looks whether it is after each. */
#define TILE_ROWS 16

/* ---------------------------------------------------------------------------
 * One row
 */

static bool counted_any(const struct region_reading *reading,
                        const struct region_growth_look *look) {
  for (uint32_t g = 0; g < reading->sum->growing_len; g++)
    if (look->counted[g] != 0)
      return true;
  return false;
}

static struct region_part *part_of(const struct region_reading *reading,
                                   uint32_t tag) {
  return tag >= TAG_PARTS ? reading->table->parts[tag - TAG_PARTS] : NULL;
}

/* What the object before counted last goes to its name, if it was the only one;
 * what is not known to be wanted goes nowhere. */
static void add_earlier(struct region_reading *reading,
                        const struct region_growth_look *look) {
  struct region_part *part = part_of(reading, look->earlier_tag);
  bool wanted = !reading->chooses_rows ||
                (look->earlier_only && look->earlier_tag == TAG_WANTED);
  if (look->earlier != NULL && part != NULL && look->earlier_only)
    region_sum_add_late(reading->sum, part->row, look->earlier);
  else if (look->earlier != NULL && reading->sum->other != NULL && wanted)
    region_sum_add_to_other(reading->sum, look->earlier, NULL);
  if (part != NULL)
    region_part_free(reading->table, look->earlier_tag - TAG_PARTS);
}

/* False if it is another object by now. */
static bool choose(struct region_reading *reading, uint32_t row,
                   uint64_t generation, uint32_t *tag) {
  char name[REGION_ROW_NAME_SIZE];
  if (!region_reader_row_name(reading->instance->reader, reading->number, row,
                              generation, name))
    return false;
  *tag = region_config_wants_row(reading->sum->config, name) ? TAG_WANTED
                                                             : TAG_UNWANTED;
  region_growth_set_tag(reading->table->growth, row, generation, *tag);
  return true;
}

/* NULL unless another instance has named it. */
static struct region_part *look_name_up(struct region_reading *reading,
                                        uint32_t row, uint64_t generation) {
  char name[REGION_ROW_NAME_SIZE];
  struct region_sum_row *known = NULL;
  if (region_reader_row_name(reading->instance->reader, reading->number, row,
                             generation, name))
    known = region_sum_find(reading->sum, name);
  return known != NULL ? region_part_make(reading, row, generation, known)
                       : NULL;
}

/* Without Top as many rows are named as MaxValues lets through. */
static bool is_full(const struct region_sum *sum) {
  return sum->other == NULL &&
         sum->rows_shown + sum->rows_named >= sum->rows_most;
}

static void read_unnamed(struct region_reading *reading, uint32_t i,
                         const struct region_growth_look *look) {
  struct region_sum *sum = reading->sum;
  struct region_tile *tile = &reading->tile;
  uint32_t row = tile->first_row + i;
  uint64_t generation = tile->generations[i];
  struct region_part *part = NULL;
  if (sum->other == NULL) {
    if (look->removed && !(look->is_new && counted_any(reading, look)))
      return;
    if (!is_full(sum))
      part = region_part_make(reading, row, generation, NULL);
    if (part == NULL) {
      reading->left_out += !is_full(sum);
      sum->left_out++;
    }
  } else if (reading->looks_names_up && !look->removed) {
    part = look_name_up(reading, row, generation);
  }
  if (part != NULL)
    region_part_add(reading, part, i, look);
  else if (sum->other != NULL)
    region_candidates_offer_row(reading, i, look);
}

/* Rows for which there is no memory stand in the rest, if it is known that they
 * are wanted; growth has what they counted. */
static void read_unfollowed(struct region_reading *reading, uint32_t i) {
  struct region_sum *sum = reading->sum;
  size_t at = (size_t)i * reading->tile.columns;
  if (region_state(reading->tile.generations[i]) != REGION_LIVE)
    return;
  if (sum->other == NULL || reading->chooses_rows) {
    reading->left_out++;
    sum->left_out++;
    return;
  }
  if (sum->standing_len == 0)
    return;
  region_part_take_standing(reading, reading->tile.totals + at,
                            reading->tile.births + at);
  region_sum_add_to_other(sum, NULL, reading->standing);
}

static void read_row(struct region_reading *reading, uint32_t i) {
  struct region_sum *sum = reading->sum;
  struct region_tile *tile = &reading->tile;
  uint32_t row = tile->first_row + i;
  struct region_growth *growth = reading->table->growth;
  struct region_growth_look look;
  if (is_full(sum) && region_growth_pass(growth, tile, i)) {
    sum->left_out += region_state(tile->generations[i]) == REGION_LIVE;
    return;
  }
  if (!region_growth_look(growth, tile, i, reading->count, &look)) {
    read_unfollowed(reading, i);
    return;
  }
  reading->watch->rows_torn += tile->torn[i];
  if (look.is_new)
    add_earlier(reading, &look);
  if (look.tag == TAG_UNKNOWN && reading->chooses_rows &&
      !choose(reading, row, tile->generations[i], &look.tag))
    return;
  struct region_part *part = part_of(reading, look.tag);
  if (part != NULL) {
    if (sum->other != NULL && !look.removed)
      region_candidates_offer_part(reading, part, i, &look);
    region_part_add(reading, part, i, &look);
  } else if (look.tag != TAG_UNWANTED) {
    read_unnamed(reading, i, &look);
  }
}

/* ---------------------------------------------------------------------------
 * A table
 */

/* Removed rows first: what they counted last comes before a later object of the
 * same name. */
static void read_tile(struct region_reading *reading) {
  struct region_tile *tile = &reading->tile;
  for (uint32_t i = 0; i < tile->rows; i++)
    if (region_state(tile->generations[i]) == REGION_GONE)
      read_row(reading, i);
  for (uint32_t i = 0; i < tile->rows; i++)
    if (region_state(tile->generations[i]) != REGION_GONE)
      read_row(reading, i);
  region_growth_add_cores(reading->table->growth, tile, reading->count);
  region_sum_use_cores(reading->sum, tile->core_used);
}

#define MEBIBYTE (UINT64_C(1) << 20)

/* What MaxMemory would have to be for so many rows more. Rows are followed by
 * the mebibyte; one region gets half of it, and its rows seven eighths of that.
 */
static uint64_t memory_for(const struct region_sum *sum, uint64_t rows,
                           bool named) {
  uint64_t each = (1 + sum->growing_len) * sizeof(uint64_t);
  if (named)
    each += region_sum_row_size(sum);
  uint64_t bytes = 2 * (sum->allowance->used + rows * each + MEBIBYTE) / 7 * 8;
  return (bytes / MEBIBYTE + 1) * MEBIBYTE;
}

static void tell_left_out(const struct region_reading *reading) {
  WARNING("percore: region %s: table %s is left out: %s.",
          reading->instance->region, reading->sum->table,
          errno == EFBIG ? "a row of all cores takes more than 16 MiB; "
                           "ReportPerCore false would do"
                         : "MaxMemory leaves too little for it");
}

static void tell_short(const struct region_reading *reading) {
  const struct region_sum *sum = reading->sum;
  uint64_t rows = reading->unfollowed + reading->left_out;
  const char *what =
      reading->unfollowed > 0 ? "counted in `other` alone" : "left out";
  bool named = sum->other == NULL;
  if (rows == 0 && sum->other != NULL) { /* all are followed */
    rows = sum->config->top;
    what = "to be shown by themselves";
    named = true;
  }
  WARNING(
      "percore: region %s: table %s: MaxMemory leaves no memory for %" PRIu64
      " of its rows, which are %s. MaxMemory %" PRIu64 " would do.",
      reading->instance->region, sum->table, rows, what,
      memory_for(sum, rows, named));
}

/* Once for a table, with what would help. */
static void tell(const struct region_reading *reading, bool is_read) {
  if (!reading->sum->memory_told && is_read)
    tell_short(reading);
  else if (!reading->sum->memory_told)
    tell_left_out(reading);
  reading->sum->memory_told = true;
}

static uint32_t rows_at_once(const struct region_instance *instance,
                             const struct region_sum *sum) {
  uint64_t slots = sum->per_core ? region_reader_slots(instance->reader) : 1;
  uint64_t rows = AT_ONCE_CELLS / ((uint64_t)sum->columns * sum->copies);
  rows = MIN(rows, AT_ONCE_LOADS / (sum->columns * slots));
  return (uint32_t)MAX(1, MIN(rows, sum->max_rows));
}

static uint32_t tile_rows(const struct region_instance *instance,
                          const struct region_sum *sum) {
  uint64_t cells =
      sum->per_core ? REGION_TILE_CELLS_PER_CORE : REGION_TILE_CELLS;
  uint64_t rows = cells / ((uint64_t)sum->columns * sum->copies);
  return (uint32_t)MIN(MAX(rows, TILE_ROWS), rows_at_once(instance, sum));
}

bool region_read_is_large(const struct region_instance *instance, uint32_t t) {
  const struct region_instance_table *table = &instance->tables[t];
  return table->reading != NULL || region_reader_rows(instance->reader, t) >
                                       rows_at_once(instance, table->sum);
}

static bool make_growth(struct region_reading *reading, uint32_t t) {
  struct region_sum *sum = reading->sum;
  uint32_t want = 0;
  if (sum->other != NULL && !reading->chooses_rows)
    want |= REGION_GROWTH_REST;
  if (sum->other != NULL && sum->other_cores && region_sum_want(sum))
    want |= REGION_GROWTH_CORES;
  if (reading->table->growth == NULL)
    reading->table->growth = region_growth_new(
        region_reader_directory(reading->instance->reader), t, sum->followed,
        want, &reading->instance->allowance->rows);
  return reading->table->growth != NULL;
}

void region_read_stop(struct region_instance_table *table) {
  struct region_reading *reading = table->reading;
  if (reading == NULL)
    return;
  table->reading = NULL;
  table->sum->open--;
  region_candidates_free(reading);
  free(reading->standing);
  free(reading->counted);
  free(reading);
}

/* False if there is no memory, or no more to be read in this round: others add
 * to the sum, and are not done yet. */
static bool begin(struct region_watch *watch, struct region_instance *instance,
                  uint32_t t, bool ended) {
  struct region_instance_table *table = &instance->tables[t];
  struct region_sum *sum = table->sum;
  region_sum_begin(sum, watch->round);
  if (table->round == sum->round && !ended)
    return false;
  if (table->round == sum->round || table->round_before == sum->round) {
    if (region_instance_shares(watch, sum, instance))
      sum->other_twice = true;
    else
      region_sum_begin_again(sum);
  }
  struct region_reading *reading = calloc(1, sizeof(*reading));
  if (reading == NULL)
    return false;
  table->round = sum->round;
  table->reading = reading;
  sum->open++;
  reading->watch = watch;
  reading->instance = instance;
  reading->table = table;
  reading->number = t;
  reading->sum = sum;
  reading->count = table->joined;
  reading->chooses_rows =
      !sum->single && sum->config != NULL && sum->config->rows_len > 0;
  reading->looks_names_up = table->names_seen != sum->names &&
                            region_instance_shares(watch, sum, instance);
  reading->names = sum->names;
  reading->standing = malloc((sum->columns + 1) * sizeof(uint64_t));
  reading->counted = malloc((sum->columns + 1) * sizeof(uint64_t));
  errno = ENOMEM;
  if (reading->standing != NULL && reading->counted != NULL &&
      make_growth(reading, t) &&
      (sum->other == NULL || region_candidates_make(reading))) {
    region_growth_begin(table->growth);
    return true;
  }
  tell(reading, false);
  table->joined &= table->growth != NULL;
  region_read_stop(table);
  return false;
}

/* As many rows as are read at once, unless they are not wanted any more.
 * Whether that was the last of them. */
static bool read_piece(struct region_reading *reading) {
  struct region_tile *tile = &reading->tile;
  const struct region_watch_options *options = &reading->watch->options;
  uint32_t left = rows_at_once(reading->instance, reading->sum);
  do {
    region_tile_read(reading->instance->reader, tile, reading->next_row);
    read_tile(reading);
    reading->next_row += tile->rows;
    left -= MIN(left, tile->rows);
    if (tile->rows < tile->capacity)
      return true;
  } while (left > 0 && options->is_wanted(options->argument));
  return false;
}

/* At least one piece. Whether these were all rows. */
static bool read_pieces(struct region_reading *reading, uint64_t until_ns) {
  const struct region_watch_options *options = &reading->watch->options;
  bool is_last;
  do
    is_last = read_piece(reading);
  while (!is_last && options->is_wanted(options->argument) &&
         (until_ns == UINT64_MAX ||
          options->now_ns(options->argument) < until_ns));
  return is_last;
}

static void finish(struct region_reading *reading) {
  struct region_instance_table *table = reading->table;
  struct region_growth *growth = table->growth;
  struct region_sum *sum = reading->sum;
  region_growth_end(growth);
  if (sum->other != NULL) {
    region_sum_add_to_other(sum, growth->rest, NULL);
    for (uint32_t core = 0; growth->cores != NULL && core + 1 < sum->copies;
         core++)
      region_sum_add_core_to_other(
          sum, core, growth->cores + (size_t)core * growth->columns_len);
    region_candidates_name(reading);
  }
  table->joined = true;
  reading->unfollowed = growth->rows_unfollowed;
  /* Names that others gave meanwhile are looked up the next time. */
  bool are_own = sum->names == reading->names + reading->named;
  table->names_seen = are_own ? sum->names : reading->names;
  if (sum->memory_short || reading->unfollowed > 0 || reading->left_out > 0)
    tell(reading, true);
  region_read_stop(table);
}

static void go_on(struct region_watch *watch, struct region_instance *instance,
                  uint32_t t, uint64_t until_ns) {
  struct region_instance_table *table = &instance->tables[t];
  struct region_reading *reading = table->reading;
  if (region_tile_init(&reading->tile, instance->reader, t,
                       tile_rows(instance, table->sum),
                       REGION_WANT_BIRTHS | region_sum_want(table->sum)) != 0) {
    tell(reading, false);
    table->joined = false;
    region_read_leave(table);
    return;
  }
  uint64_t steps_back = table->growth->steps_back;
  bool is_complete = read_pieces(reading, until_ns);
  region_tile_free(&reading->tile);
  if (is_complete)
    finish(reading);
  watch->cells_back += table->growth->steps_back - steps_back;
}

void region_read_table(struct region_watch *watch,
                       struct region_instance *instance, uint32_t t,
                       uint64_t until_ns, bool ended) {
  struct region_instance_table *table = &instance->tables[t];
  bool is_amid = table->reading != NULL;
  if (is_amid || begin(watch, instance, t, ended))
    go_on(watch, instance, t, until_ns);
  /* The first rows counted on while the last ones were waited for. */
  if (is_amid && ended && begin(watch, instance, t, true))
    go_on(watch, instance, t, until_ns);
}
