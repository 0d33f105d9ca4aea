#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "growth.h"

/* Memory is taken for so much of a table at once. */
#define CHUNK_BYTES (1u << 20)
#define CHUNK_SHIFT_MOST 16
#define WAS_REMOVED 0x80000000u

struct mark {
  uint32_t incarnation; /* 0: nothing was here */
  uint32_t tag;         /* and WAS_REMOVED */
};

enum chunk_state {
  CHUNK_NONE,
  CHUNK_FOLLOWED,
  CHUNK_FIRST_REST, /* no memory for it, since this round */
  CHUNK_REST        /* and before */
};

struct region_growth_chunk {
  struct mark *marks; /* NULL until a row is looked at */
  uint64_t *cells;    /* [row][place] */
  enum chunk_state state;
  uint32_t passed; /* rows before this may have counted without a look */
};

/* ---------------------------------------------------------------------------
 * Memory
 */

static void *take(struct region_growth *growth, size_t count, size_t size) {
  size_t bytes = count * size;
  if (!region_allowance_take(growth->allowance, bytes))
    return NULL;
  void *memory = calloc(count > 0 ? count : 1, size);
  if (memory == NULL)
    region_allowance_give(growth->allowance, bytes);
  else
    growth->bytes += bytes;
  return memory;
}

static struct region_growth_chunk *chunk_of(const struct region_growth *growth,
                                            uint32_t row) {
  return &growth->chunks[row >> growth->chunk_shift];
}

static uint32_t place_of(const struct region_growth *growth, uint32_t row) {
  return row & ((1u << growth->chunk_shift) - 1);
}

static uint32_t chunk_count(const struct region_growth *growth) {
  return ((growth->max_rows - 1) >> growth->chunk_shift) + 1;
}

static bool make_chunk(struct region_growth *growth, uint32_t row) {
  struct region_growth_chunk *chunk = chunk_of(growth, row);
  uint32_t most = growth->max_rows - (row - place_of(growth, row));
  uint32_t rows = 1u << growth->chunk_shift;
  rows = rows < most ? rows : most;
  size_t cells_size = (size_t)rows * growth->columns_len * sizeof(uint64_t);
  unsigned char *memory =
      take(growth, 1, cells_size + rows * sizeof(struct mark));
  if (memory == NULL)
    return false;
  chunk->cells = (void *)memory;
  chunk->marks = (void *)(memory + cells_size);
  chunk->state = CHUNK_FOLLOWED;
  return true;
}

static bool find_columns(struct region_growth *growth,
                         const struct region_directory *directory,
                         const struct region_table *table,
                         const uint8_t *wanted) {
  growth->columns = take(growth, table->columns, sizeof(*growth->columns));
  if (growth->columns == NULL)
    return false;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field =
        &directory->fields[table->first_field + f];
    if (field->kind != PERCORE_COUNTER && field->kind != PERCORE_HISTOGRAM)
      continue;
    for (uint32_t c = field->column; c < field->column + field->cells; c++)
      if (wanted == NULL || wanted[c])
        growth->columns[growth->columns_len++] = c;
  }
  return true;
}

struct region_growth *
region_growth_new(const struct region_directory *directory, uint32_t table,
                  const uint8_t *wanted, uint32_t want,
                  struct region_allowance *allowance) {
  const struct region_table *record = &directory->tables[table];
  struct region_growth *growth = calloc(1, sizeof(*growth));
  errno = ENOMEM;
  if (growth == NULL)
    return NULL;
  growth->allowance = allowance;
  growth->max_rows = record->max_rows;
  growth->has_bases = record->birth_offset != 0;
  growth->core_count =
      want & REGION_GROWTH_CORES ? directory->header.core_count : 0;
  growth->sums_rest = (want & REGION_GROWTH_REST) != 0;
  bool complete = find_columns(growth, directory, record, wanted);
  uint32_t len = growth->columns_len;
  size_t row_size = sizeof(struct mark) + len * sizeof(uint64_t);
  growth->chunk_shift = CHUNK_SHIFT_MOST;
  while (growth->chunk_shift > 0 &&
         row_size << growth->chunk_shift > CHUNK_BYTES)
    growth->chunk_shift--;
  if (complete)
    growth->chunks = take(growth, chunk_count(growth), sizeof(*growth->chunks));
  complete = growth->chunks != NULL;
  uint64_t **const of_total[] = {&growth->rest, &growth->rest_last,
                                 &growth->rest_now, &growth->counted,
                                 &growth->earlier};
  uint64_t **const of_cores[] = {&growth->cores, &growth->cores_last,
                                 &growth->cores_now};
  for (size_t i = 0; complete && i < sizeof(of_total) / sizeof(*of_total); i++)
    complete = (*of_total[i] = take(growth, len, sizeof(uint64_t))) != NULL;
  for (size_t i = 0; complete && growth->core_count > 0 &&
                     i < sizeof(of_cores) / sizeof(*of_cores);
       i++)
    complete = (*of_cores[i] = take(growth, (size_t)len * growth->core_count,
                                    sizeof(uint64_t))) != NULL;
  if (complete)
    return growth;
  region_growth_free(growth);
  errno = ENOMEM;
  return NULL;
}

void region_growth_free(struct region_growth *growth) {
  if (growth == NULL)
    return;
  region_allowance_give(growth->allowance, growth->bytes);
  for (uint32_t c = 0; growth->chunks != NULL && c < chunk_count(growth); c++)
    free(growth->chunks[c].cells);
  free(growth->chunks);
  free(growth->columns);
  free(growth->rest);
  free(growth->rest_last);
  free(growth->rest_now);
  free(growth->cores);
  free(growth->cores_last);
  free(growth->cores_now);
  free(growth->counted);
  free(growth->earlier);
  free(growth);
}

/* ---------------------------------------------------------------------------
 * What the caller says of a row
 */

void region_growth_set_tag(struct region_growth *growth, uint32_t row,
                           uint64_t generation, uint32_t tag) {
  struct mark *mark = &chunk_of(growth, row)->marks[place_of(growth, row)];
  if (mark->incarnation == region_incarnation(generation))
    mark->tag = tag | (mark->tag & WAS_REMOVED);
}

/* ---------------------------------------------------------------------------
 * Looking
 */

void region_growth_begin(struct region_growth *growth) {
  growth->rows_unfollowed = 0;
  memset(growth->rest_now, 0, growth->columns_len * sizeof(uint64_t));
  if (growth->core_count > 0)
    memset(growth->cores_now, 0,
           (size_t)growth->core_count * growth->columns_len * sizeof(uint64_t));
}

/* Cells only grow, whatever object they belong to; so does their sum. */
static void look_at_rest(struct region_growth *growth,
                         const struct region_tile *tile, uint32_t i, bool count,
                         enum chunk_state state) {
  size_t at = (size_t)i * tile->columns;
  const uint64_t *from = count ? tile->births + at : tile->totals + at;
  for (uint32_t p = 0; p < growth->columns_len; p++) {
    growth->rest_now[p] += tile->totals[at + growth->columns[p]];
    if (state == CHUNK_FIRST_REST)
      growth->rest_last[p] += from[growth->columns[p]];
  }
  growth->rows_unfollowed += region_state(tile->generations[i]) == REGION_LIVE;
}

/* Another object is in the row: last becomes where it begins. */
static void begin_object(struct region_growth *growth, const uint64_t *totals,
                         const uint64_t *births, uint64_t *last, bool first,
                         struct region_growth_look *look) {
  for (uint32_t p = 0; p < growth->columns_len; p++) {
    uint32_t c = growth->columns[p];
    uint64_t before = births[c] - last[p];
    if (!first && growth->has_bases && (int64_t)before > 0) {
      if (look->earlier == NULL)
        memset(growth->earlier, 0, growth->columns_len * sizeof(uint64_t));
      growth->earlier[p] = before;
      look->earlier = growth->earlier;
    }
    last[p] = look->from_birth ? births[c] : totals[c];
  }
}

static void follow(struct region_growth *growth, const uint64_t *totals,
                   uint64_t *last, struct region_growth_look *look) {
  for (uint32_t p = 0; p < growth->columns_len; p++) {
    uint64_t now = totals[growth->columns[p]], grown = now - last[p];
    if ((int64_t)grown < 0) {
      growth->steps_back++;
      grown = 0;
    }
    last[p] = now;
    growth->counted[p] = grown;
  }
  look->counted = growth->counted;
}

static void pass(struct region_growth *growth, uint32_t row) {
  struct region_growth_chunk *chunk = chunk_of(growth, row);
  uint32_t place = place_of(growth, row);
  if (chunk->passed <= place)
    chunk->passed = place + 1;
}

bool region_growth_pass(struct region_growth *growth,
                        const struct region_tile *tile, uint32_t i) {
  uint32_t row = tile->first_row + i;
  if (chunk_of(growth, row)->state != CHUNK_NONE)
    return false;
  if (region_state(tile->generations[i]) != REGION_FREE)
    pass(growth, row);
  return true;
}

/* No memory for an object. */
static void do_without(struct region_growth *growth, uint32_t row) {
  if (growth->sums_rest)
    chunk_of(growth, row)->state = CHUNK_FIRST_REST;
  else
    pass(growth, row);
}

bool region_growth_look(struct region_growth *growth,
                        const struct region_tile *tile, uint32_t i, bool count,
                        struct region_growth_look *look) {
  uint32_t row = tile->first_row + i;
  uint64_t generation = tile->generations[i];
  struct region_growth_chunk *chunk = chunk_of(growth, row);
  bool is_object = region_state(generation) != REGION_FREE;
  if (chunk->state == CHUNK_NONE && is_object && !make_chunk(growth, row))
    do_without(growth, row);
  if (chunk->state >= CHUNK_FIRST_REST)
    look_at_rest(growth, tile, i, count, chunk->state);
  if (chunk->state != CHUNK_FOLLOWED || !is_object)
    return false;
  uint32_t place = place_of(growth, row);
  struct mark *mark = &chunk->marks[place];
  uint64_t *last = chunk->cells + (size_t)place * growth->columns_len;
  const uint64_t *totals = tile->totals + (size_t)i * tile->columns;
  uint32_t incarnation = region_incarnation(generation);
  *look = (struct region_growth_look){.removed = region_state(generation) ==
                                                 REGION_GONE};
  if (mark->incarnation != incarnation) {
    look->is_new = true;
    look->earlier_tag = mark->tag & ~WAS_REMOVED;
    look->earlier_only = incarnation == mark->incarnation + 1;
    bool first = mark->incarnation == 0;
    look->from_birth = !first || (count && place >= chunk->passed);
    begin_object(growth, totals, tile->births + (size_t)i * tile->columns, last,
                 first, look);
    *mark = (struct mark){.incarnation = incarnation};
  }
  follow(growth, totals, last, look);
  look->was_removed = (mark->tag & WAS_REMOVED) != 0;
  look->tag = mark->tag & ~WAS_REMOVED;
  mark->tag = look->tag | (look->removed ? WAS_REMOVED : 0);
  return true;
}

/* ---------------------------------------------------------------------------
 * Sums
 */

/* Single cores have no birth; only the first object in a row began with 0. */
void region_growth_add_cores(struct region_growth *growth,
                             const struct region_tile *tile, bool count) {
  uint32_t len = growth->columns_len;
  for (uint32_t core = 0; core < growth->core_count; core++) {
    uint64_t *now = growth->cores_now + (size_t)core * len;
    uint64_t *last = growth->cores_last + (size_t)core * len;
    for (uint32_t i = 0; i < tile->rows; i++) {
      const uint64_t *cells =
          tile->cores + ((size_t)core * tile->capacity + i) * tile->columns;
      bool begins = !growth->cores_known &&
                    (!count || region_incarnation(tile->generations[i]) > 1);
      for (uint32_t p = 0; p < len; p++) {
        now[p] += cells[growth->columns[p]];
        if (begins)
          last[p] += cells[growth->columns[p]];
      }
    }
  }
}

static void end_sums(struct region_growth *growth, const uint64_t *now,
                     uint64_t *last, uint64_t *grown, size_t len) {
  for (size_t i = 0; i < len; i++) {
    grown[i] = now[i] - last[i];
    if ((int64_t)grown[i] < 0) {
      growth->steps_back += growth->has_bases; /* else cells begin anew at 0 */
      grown[i] = 0;
    }
    last[i] = now[i];
  }
}

void region_growth_end(struct region_growth *growth) {
  uint32_t len = growth->columns_len;
  end_sums(growth, growth->rest_now, growth->rest_last, growth->rest, len);
  if (growth->core_count > 0)
    end_sums(growth, growth->cores_now, growth->cores_last, growth->cores,
             (size_t)growth->core_count * len);
  growth->cores_known = true;
  for (uint32_t c = 0; c < chunk_count(growth); c++)
    if (growth->chunks[c].state == CHUNK_FIRST_REST)
      growth->chunks[c].state = CHUNK_REST;
}
