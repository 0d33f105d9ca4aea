/* The tracked objects of an instance. */
#include "region_instance.h"

#include "utils/common/common.h"

static size_t size_of_object(const struct region_sum *sum, uint32_t copies) {
  return sizeof(struct region_object) + sizeof(struct region_object *) +
         (size_t)copies * sum->shape.columns * sizeof(uint64_t);
}

static void tie(struct region_sum *sum, struct region_object *object,
                struct region_sum_row *row) {
  object->row = row;
  if (row == NULL)
    return;
  row->used = sum->round;
  sum->rows.tracked += row->objects++ == 0;
  sum->rows.waiting -= row->waits;
  row->waits = false;
}

static void untie(struct region_sum *sum, struct region_object *object) {
  if (object->row != NULL)
    sum->rows.tracked -= --object->row->objects == 0;
  object->row = NULL;
}

void region_object_show(struct region_sum *sum, struct region_object *object,
                        struct region_sum_row *row) {
  untie(sum, object);
  tie(sum, object, row);
}

/* Under Row the object stays tracked, because there is no other count of wanted
 * rows. */
void region_object_let_go(struct region_sum *sum,
                          struct region_object *object) {
  object->hidden = true;
  object->ended = !sum->shape.chooses_rows;
}

static bool make_room(struct region_instance_table *table) {
  if (table->objects_len < table->objects_capacity)
    return true;
  uint32_t capacity =
      table->objects_capacity > 0 ? 2 * table->objects_capacity : 16;
  struct region_object **objects =
      realloc(table->objects, capacity * sizeof(struct region_object *));
  if (objects == NULL)
    return false;
  table->objects = objects;
  table->objects_capacity = capacity;
  return true;
}

/* Sets the values from which counting begins. Births are not known per core:
 * only a row's first object is known to have begun at 0. */
static void begin_object(const struct region_reading *reading,
                         struct region_object *object, uint32_t i,
                         bool from_birth) {
  const struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  const uint64_t *total = from_birth ? tile->births : tile->totals;
  memcpy(object->last, total + (size_t)i * tile->columns,
         sum->shape.columns * sizeof(*object->last));
  for (uint32_t copy = 1; copy < sum->copies; copy++)
    for (uint32_t c = 0; c < sum->shape.columns; c++) {
      bool at_0 = object->incarnation <= 1 &&
                  (from_birth || !region_sum_is_counter(sum->shape.kinds[c]));
      object->last[(size_t)copy * sum->shape.columns + c] =
          at_0 ? 0 : region_tile_cells(tile, copy, i)[c];
    }
}

struct region_object *region_object_track(struct region_reading *reading,
                                          uint32_t i,
                                          struct region_sum_row *row,
                                          bool from_birth) {
  struct region_instance_table *table = reading->table;
  struct region_sum *sum = reading->sum;
  size_t size = size_of_object(sum, sum->copies);
  struct region_object *object =
      make_room(table) ? region_claim(table->allowance, size) : NULL;
  if (object == NULL) {
    sum->memory_short = true;
    return NULL;
  }
  object->copies = sum->copies;
  object->number = reading->tile.first_row + i;
  object->incarnation = region_incarnation(reading->tile.generations[i]);
  begin_object(reading, object, i, from_birth);
  tie(sum, object, row);
  table->objects[table->objects_len++] = object;
  return object;
}

static int compare_objects(const void *a, const void *b) {
  const struct region_object *x = *(struct region_object *const *)a;
  const struct region_object *y = *(struct region_object *const *)b;
  return (x->number > y->number) - (x->number < y->number);
}

void region_objects_tidy(struct region_instance_table *table) {
  struct region_sum *sum = table->sum;
  uint32_t kept = 0;
  bool sorted = true;
  for (uint32_t p = 0; p < table->objects_len; p++) {
    struct region_object *object = table->objects[p];
    if (object->ended || object->hidden)
      untie(sum, object);
    object->hidden = false;
    if (object->ended) {
      region_allowance_give(table->allowance,
                            size_of_object(sum, object->copies));
      free(object);
      continue;
    }
    sorted &= kept == 0 || table->objects[kept - 1]->number < object->number;
    table->objects[kept++] = object;
  }
  table->objects_len = kept;
  if (!sorted)
    qsort(table->objects, kept, sizeof(struct region_object *),
          compare_objects);
}
