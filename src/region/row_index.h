/* row_index.h: a hash table that finds rows by name. It holds row numbers; the
 * names themselves stay in the region. */
#ifndef PERCORE_REGION_ROW_INDEX_H
#define PERCORE_REGION_ROW_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row_index {
  const unsigned char *names; /* address of row 0's name */
  size_t size;     /* size of a name with its padding, a multiple of 8 */
  uint32_t *cells; /* row + 1; 0 if empty */
  uint32_t mask;
  uint32_t count;
};

void row_index_init(struct row_index *index, const void *names, size_t size);
void row_index_free(struct row_index *index);

/* Finds the row with this padded name. Returns false if no row has it. */
bool row_index_find(const struct row_index *index, const void *name,
                    uint32_t *row);

/* Makes room for one more row. Returns 0, or -1 with ENOMEM. */
int row_index_reserve(struct row_index *index);

/* Adds a row whose name is already in the region. Call row_index_reserve first.
 */
void row_index_add(struct row_index *index, uint32_t row);

/* Removes a row; call this before the row's name changes. Does nothing if the
 * row is not in the index. */
void row_index_remove(struct row_index *index, uint32_t row);

#endif
