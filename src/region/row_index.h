/* row_index.h: which row has this name? A hash table of row numbers; the names
 * themselves stay in the region. */
#ifndef PERCORE_REGION_ROW_INDEX_H
#define PERCORE_REGION_ROW_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row_index {
  const unsigned char *names; /* of row 0 */
  size_t stride;              /* from name to name */
  size_t size;                /* bytes of a name, padding included */
  uint32_t *cells;            /* row + 1, 0 if empty */
  uint32_t mask;
  uint32_t count;
};

/* Names are compared as they lie in memory at names + row * stride. */
void row_index_init(struct row_index *index, const void *names, size_t stride,
                    size_t size);
void row_index_free(struct row_index *index);

/* true and the row, if a row with this padded name is in the index. */
bool row_index_find(const struct row_index *index, const void *name,
                    uint32_t *row);

/* Makes room for one more row. -1 with ENOMEM, and nothing changed. */
int row_index_reserve(struct row_index *index);

/* Adds a row whose name is in place; never fails after row_index_reserve. */
void row_index_add(struct row_index *index, uint32_t row);

/* Removes a row, before its name changes. Nothing if it is not in. */
void row_index_remove(struct row_index *index, uint32_t row);

#endif
