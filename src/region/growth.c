#include "growth.h"

#include "base/array.h"

bool region_growth_resize(struct region_growth *growth, uint32_t rows) {
  uint32_t before = growth->rows;
  if (!array_grow(&growth->incarnations, before, rows,
                  sizeof(*growth->incarnations)) ||
      !array_grow(&growth->last, before, rows,
                  (size_t)growth->copies * growth->width *
                      sizeof(*growth->last)))
    return false;
  growth->rows = rows;
  return true;
}

void region_growth_forget_copies(struct region_growth *growth) {
  size_t width = growth->width;
  for (uint32_t row = 1; row < growth->rows; row++)
    memmove(growth->last + row * width, region_growth_last(growth, row, 0),
            width * sizeof(*growth->last));
  growth->copies = 1;
}

void region_growth_free(struct region_growth *growth) {
  free(growth->incarnations);
  free(growth->last);
  *growth = (struct region_growth){0};
}
