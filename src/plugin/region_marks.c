/* The marks of a region_input: what is remembered about each row. */
#include "regions.h"

#include "utils/common/common.h"

#include <sys/mman.h>

size_t region_mark_size(const struct region_sum *sum) {
  const struct region_marks *marks = NULL;
  return sum->ranks_by == NULL && !sum->chooses_rows
             ? sizeof(*marks->incarnation)
             : sizeof(*marks->incarnation) + sizeof(*marks->candidate_in) +
                   sizeof(*marks->weighed);
}

/* Reserves address space for the marks of `rows` rows. */
static void reserve_marks(struct region_marks *marks, size_t rows) {
  size_t size = rows * (sizeof(*marks->weighed) + sizeof(*marks->incarnation) +
                        sizeof(*marks->candidate_in));
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return;
  marks->memory = memory;
  marks->size = size;
  marks->weighed = memory;
  marks->incarnation = (uint32_t *)(marks->weighed + rows);
  marks->candidate_in = marks->incarnation + rows;
}

void region_input_make_marks(struct region_input *input) {
  struct region_marks *marks = &input->marks;
  struct region_allowance *memory = &input->sum->budget->memory;
  struct region_reader *reader = input->instance->reader;
  size_t each = region_mark_size(input->sum);
  if (input->sum->single)
    return;
  if (marks->memory == NULL)
    reserve_marks(
        marks, region_reader_directory(reader)->tables[input->number].max_rows);
  if (marks->memory == NULL)
    return;
  size_t rows = region_reader_rows(reader, input->number);
  size_t most = marks->len + region_allowance_left(memory) / each;
  rows = MIN(rows, most / 8 * 7); /* leaves memory for names */
  size_t more = rows > marks->len ? rows - marks->len : 0;
  if (!region_allowance_take(memory, more * each))
    return;
  for (size_t row = marks->len; row < MIN(rows, input->rows_read); row++)
    marks->incarnation[row] = REGION_UNREAD; /* it was read without a mark */
  input->bytes += more * each;
  marks->len += (uint32_t)more;
}
