#include "merge.h"

#include "base/array.h"
#include "base/clock.h"
#include "tool.h"
#include "values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* the message in top.c states this limit */
#define PAST_BYTES_MOST (UINT64_C(4) << 30)
#define LIVE_ONCE (UINT64_C(1) << 32 | REGION_LIVE)

/* ---------------------------------------------------------------------------
 * Parts
 */

static void forget(struct merge_part *part) {
  for (uint32_t t = 0; t < REGION_MAX_TABLES; t++)
    region_growth_free(&part->pasts[t].cells);
  memset(part->pasts, 0, sizeof(part->pasts));
  region_workers_forget(&part->workers);
}

static void end_part(struct merge_part *part) {
  forget(part);
  region_reader_close(part->reader);
}

void merge_close(struct merge *merge) {
  for (size_t p = 0; p < merge->len; p++)
    end_part(&merge->parts[p]);
  free(merge->parts);
  free(merge->names);
  free(merge->added);
  *merge = (struct merge){0};
}

/* Adds a part, which owns the reader. */
static int add_part(struct merge *merge, struct region_reader *reader,
                    const char *instance) {
  if (!array_grow(&merge->parts, merge->len, merge->len + 1,
                  sizeof(*merge->parts))) {
    region_reader_close(reader);
    return -ENOMEM;
  }
  struct merge_part *part = &merge->parts[merge->len++];
  part->reader = reader;
  part->bytes_most = PAST_BYTES_MOST;
  strcpy(part->instance, instance);
  return 0;
}

/* True for the files of merge->region: of all instances, unless it names one.
 */
static bool is_wanted(const struct merge *merge, const struct listed *listed) {
  return listed->is_valid && (strcmp(listed->name, merge->region) == 0 ||
                              strcmp(listed->title.region, merge->region) == 0);
}

static bool has_part(const struct merge *merge, const char *file) {
  for (size_t p = 0; p < merge->len; p++)
    if (strcmp(region_reader_file(merge->parts[p].reader), file) == 0)
      return true;
  return false;
}

/* Adds a part for a file, unless its producer is gone. */
static void find_part(struct merge *merge, const struct listed *listed) {
  const char *instance = listed->title.instance;
  char pid[PID_TEXT_SIZE];
  struct region_reader *reader;
  if (region_reader_open_file(&reader, listed->file, NULL) != 0)
    return;
  if (region_reader_refresh(reader) != REGION_CAME ||
      region_reader_refresh(reader) == REGION_WENT) {
    region_reader_close(reader);
    return;
  }
  const struct region_header *header = &region_reader_directory(reader)->header;
  snprintf(pid, sizeof(pid), "%d", (int)header->pid);
  if (add_part(merge, reader, instance[0] != '\0' ? instance : pid) == 0)
    merge->parts[merge->len - 1].is_new =
        header->start_boottime_ns >= merge->looked_boottime_ns;
}

/* Looks for parts that have come or gone. The first part is kept after its end,
 * because the tables are shown as it describes them. */
static void look(struct merge *merge) {
  uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);
  struct listing listing;
  size_t kept = 0;
  for (size_t p = 0; p < merge->len; p++) {
    struct merge_part *part = &merge->parts[p];
    part->is_over |= region_reader_refresh(part->reader) == REGION_AS_BEFORE &&
                     region_reader_presence(part->reader) == REGION_LEFT;
    if (part->is_over && kept > 0)
      end_part(part);
    else
      merge->parts[kept++] = *part;
  }
  merge->len = kept;
  listing_read(&listing);
  for (size_t i = 0; i < listing.len; i++)
    if (is_wanted(merge, &listing.listed[i]) &&
        !has_part(merge, listing.listed[i].file))
      find_part(merge, &listing.listed[i]);
  listing_free(&listing);
  merge->looked_boottime_ns = now_ns;
}

/* What was one region are several from now on. */
static enum region_event become_several(struct merge *merge) {
  struct merge several = {.each = merge->each, .region = merge->region};
  look(&several);
  if (several.len < 2) {
    merge_close(&several);
    return REGION_AS_BEFORE;
  }
  merge_close(merge);
  *merge = several;
  return REGION_CAME;
}

enum region_event merge_refresh(struct merge *merge) {
  if (!merge->is_one) {
    look(merge);
    return REGION_AS_BEFORE;
  }
  enum region_event event = region_reader_refresh(merge->parts[0].reader);
  if (event == REGION_CAME)
    forget(&merge->parts[0]);
  return event != REGION_AS_BEFORE ? event : become_several(merge);
}

struct merge_part *merge_next(const struct merge *merge,
                              const struct merge_part *part) {
  size_t p = part == NULL ? 0 : (size_t)(part - merge->parts) + 1;
  while (p < merge->len && !merge->is_one &&
         (merge->parts[p].is_over ||
          region_reader_uid(merge->parts[p].reader) !=
              region_reader_uid(merge->parts[0].reader)))
    p++;
  return p < merge->len ? &merge->parts[p] : NULL;
}

size_t merge_count(const struct merge *merge) {
  size_t count = 0;
  for (struct merge_part *part = NULL;
       (part = merge_next(merge, part)) != NULL;)
    count++;
  return count;
}

int merge_open(struct merge *merge, const char *command, const char *region,
               bool each) {
  *merge = (struct merge){.each = each, .region = region};
  look(merge);
  if (merge->len > 1 ||
      (merge->len == 1 && merge_directory(merge)->instance != NULL &&
       strchr(region, '@') == NULL))
    return TOOL_OK;
  merge_close(merge);
  *merge = (struct merge){.each = each, .region = region, .is_one = true};
  struct region_reader *reader;
  int status = target_open(command, region, &reader);
  if (status == TOOL_OK && add_part(merge, reader, "") != 0)
    return say_failure(command, "%s", strerror(ENOMEM));
  return status;
}

/* ---------------------------------------------------------------------------
 * Tables
 */

bool merge_has_field(const struct merge *merge, uint32_t table, uint32_t f) {
  const struct region_field *field =
      field_of(merge_directory(merge), table, f).layout;
  return merge->is_one || merge->each ||
         (field->kind != PERCORE_STATE &&
          (field->kind != PERCORE_GAUGE || field->aggregation != PERCORE_NONE));
}

static bool is_same(struct field_ref a, struct field_ref b) {
  size_t size = offsetof(struct region_field, states) -
                offsetof(struct region_field, kind);
  return strcmp(a.described->name, b.described->name) == 0 &&
         strcmp(field_unit(a), field_unit(b)) == 0 &&
         memcmp(&a.layout->kind, &b.layout->kind, size) == 0;
}

/* Returns the number that table t of the first part has in another part, or -1
 * if that has no such table with the same fields. */
static int table_of(const struct merge *merge, const struct merge_part *part,
                    uint32_t t) {
  const struct region_directory *first = merge_directory(merge),
                                *other = region_reader_directory(part->reader);
  int found = target_table(other, first->described[t].name);
  uint32_t fields = first->tables[t].field_count;
  bool same = found >= 0 && other->tables[found].field_count == fields &&
              other->tables[found].storage == first->tables[t].storage &&
              other->header.core_count == first->header.core_count;
  for (uint32_t f = 0; same && f < fields; f++)
    same = is_same(field_of(first, t, f), field_of(other, (uint32_t)found, f));
  return same ? found : -1;
}

/* ---------------------------------------------------------------------------
 * Sums of rows
 */

static uint64_t combine(const struct region_field *field, uint64_t a,
                        uint64_t b) {
  if (field->kind == PERCORE_GAUGE || field->kind == PERCORE_STATE)
    return region_combine_gauges(field->aggregation, a, b);
  bool is_unknown = field->kind != PERCORE_UPDOWN && /* any value is a count */
                    (a == MERGE_UNKNOWN || b == MERGE_UNKNOWN);
  return is_unknown ? MERGE_UNKNOWN : a + b;
}

static void add_cells(const struct region_directory *directory, uint32_t t,
                      uint64_t *into, const uint64_t *cells, bool is_first) {
  for (uint32_t f = 0; f < directory->tables[t].field_count; f++) {
    const struct region_field *field = field_of(directory, t, f).layout;
    for (uint32_t c = field->column; c < field->column + field->cells; c++)
      into[c] = is_first ? cells[c] : combine(field, into[c], cells[c]);
  }
}

static const char *name_of(const void *names, uint32_t row) {
  return ((const char(*)[MERGE_ROW_SIZE])names)[row];
}

/* Finds the row of the sums that has the name names[tile->rows], or adds one
 * with this name. Returns false if memory is short. */
static bool find_row(struct merge *merge, struct region_tile *tile,
                     uint32_t *row) {
  if (key_index_find(&merge->index, merge->names[tile->rows], row))
    return true;
  if (!key_index_reserve(&merge->index))
    return false;
  *row = tile->rows++;
  tile->generations[*row] = LIVE_ONCE;
  key_index_add(&merge->index, *row);
  return true;
}

/* Adds row i of a part's tile. Returns false if out of memory. */
static bool add_row(struct merge *merge, struct region_tile *tile,
                    const struct merge_part *part,
                    const struct region_tile *from, uint32_t i) {
  char *name = merge->names[tile->rows];
  uint32_t row;
  if (region_state(from->generations[i]) != REGION_LIVE ||
      tile->rows == tile->capacity ||
      !region_reader_row_name(part->reader, from->table, from->first_row + i,
                              from->generations[i], name))
    return true;
  if (merge->each)
    strcat(strcat(name, "@"), part->instance);
  if (!find_row(merge, tile, &row))
    return false;
  tile->torn[row] |= from->torn[i];
  for (uint32_t copy = 0; copy < tile_copies(tile); copy++) {
    bool *added = &merge->added[(size_t)copy * tile->capacity + row];
    if (copy > 0 && !from->core_used[copy - 1])
      continue;
    add_cells(merge_directory(merge), tile->table, tile_cells(tile, row, copy),
              tile_cells(from, i, copy), !*added);
    *added = true;
  }
  return true;
}

static int add_rows(struct merge *merge, struct region_tile *tile,
                    struct merge_part *part, merge_take *take) {
  struct region_tile from;
  int t = table_of(merge, part, tile->table), status = 0;
  if (t < 0)
    return 0;
  if (region_tile_init(&from, part->reader, (uint32_t)t, TILE_ROWS,
                       tile->want) != 0)
    return -errno;
  do {
    region_tile_read(part->reader, &from, from.first_row + from.rows);
    status = take(part, &from);
    for (uint32_t i = 0; i < from.rows && status == 0; i++)
      status = add_row(merge, tile, part, &from, i) ? 0 : -ENOMEM;
    for (uint32_t core = 0; core < from.core_count; core++)
      tile->core_used[core] |= from.core_used[core];
  } while (status == 0 && from.rows > 0);
  region_tile_free(&from);
  return status;
}

/* Makes room for the rows of all parts. Returns false if out of memory. */
static bool make_room(struct merge *merge, struct region_tile *tile) {
  uint64_t rows = 1;
  for (struct merge_part *part = NULL;
       (part = merge_next(merge, part)) != NULL;) {
    int t = table_of(merge, part, tile->table);
    rows += t < 0 ? 0 : region_reader_rows(part->reader, (uint32_t)t);
  }
  free(merge->names);
  free(merge->added);
  merge->names = calloc(rows, sizeof(*merge->names));
  merge->added = calloc(rows * tile_copies(tile), sizeof(*merge->added));
  key_index_init_names(&merge->index, merge->names, name_of);
  return merge->names != NULL && merge->added != NULL && rows < UINT32_MAX &&
         region_tile_resize(tile, (uint32_t)rows);
}

int merge_read(struct merge *merge, struct region_tile *tile,
               uint32_t first_row, merge_take *take) {
  struct merge_part *part = NULL;
  if (merge->is_one) {
    region_tile_read(merge->parts[0].reader, tile, first_row);
    return take(&merge->parts[0], tile);
  }
  tile->rows = 0;
  if (first_row > 0)
    return 0;
  int status = make_room(merge, tile) ? 0 : -ENOMEM;
  while (status == 0 && (part = merge_next(merge, part)) != NULL)
    status = add_rows(merge, tile, part, take);
  key_index_free(&merge->index);
  return status;
}

bool merge_row_name(const struct merge *merge, const struct region_tile *tile,
                    uint32_t i, char name[MERGE_ROW_SIZE]) {
  if (merge->is_one)
    return region_state(tile->generations[i]) == REGION_LIVE &&
           region_reader_row_name(merge->parts[0].reader, tile->table,
                                  tile->first_row + i, tile->generations[i],
                                  name);
  strcpy(name, merge->names[i]);
  return true;
}
