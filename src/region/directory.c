#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "directory.h"

/* The largest directory: records of a later minor version may be twice ours. */
enum { MAX_RECORD_SIZE = 512, MAX_DIRECTORY = 16 << 20 };

/* count parts of size bytes from offset on lie in [least, end). */
static bool lies_in(uint64_t offset, uint64_t count, uint64_t size,
                    uint64_t least, uint64_t end) {
  uint64_t bytes, last;
  return offset % 8 == 0 && offset >= least &&
         !__builtin_mul_overflow(count, size, &bytes) &&
         !__builtin_add_overflow(offset, bytes, &last) && last <= end;
}

/* ---------------------------------------------------------------------------
 * Header
 */

static bool record_size_is_valid(uint32_t size, size_t least) {
  return size >= least && size <= MAX_RECORD_SIZE && size % 8 == 0;
}

static const char *header_fault(const struct region_header *header,
                                uint64_t region_size, uint64_t max_size) {
  if (memcmp(header->magic, REGION_MAGIC, sizeof(header->magic)) != 0)
    return "it does not begin as a region";
  if (header->byte_order != REGION_BYTE_ORDER || header->word_size != 8)
    return "it is of another byte order or word size";
  if (header->major != REGION_MAJOR)
    return "its format is of another major version";
  if (!record_size_is_valid(header->header_size, sizeof(*header)) ||
      !record_size_is_valid(header->table_size, sizeof(struct region_table)) ||
      !record_size_is_valid(header->field_size, sizeof(struct region_field)) ||
      !record_size_is_valid(header->slot_size, sizeof(struct region_slot)))
    return "a size of its records is out of range";
  if (header->region_size != region_size)
    return "it is not as large as it claims";
  if (region_size > max_size)
    return "it is larger than allowed";
  if (header->directory_size < header->header_size ||
      header->directory_size > region_size ||
      header->directory_size > MAX_DIRECTORY)
    return "the size of its directory is out of range";
  return NULL;
}

size_t region_directory_size(const struct region_header *header,
                             uint64_t region_size, uint64_t max_size,
                             const char **why) {
  *why = header_fault(header, region_size, max_size);
  return *why == NULL ? header->directory_size : 0;
}

static const char *counts_fault(const struct region_header *header) {
  uint64_t first = header->header_size, end = header->directory_size;
  if (header->table_count == 0 || header->table_count > REGION_MAX_TABLES ||
      header->field_count == 0 || header->field_count > REGION_MAX_FIELDS ||
      header->slot_count == 0 || header->slot_count > REGION_MAX_SLOTS ||
      header->core_count == 0 || header->core_count > header->slot_count ||
      header->strings_size == 0 || header->strings_size > REGION_MAX_STRINGS)
    return "it counts too many or too few parts";
  if (!lies_in(header->tables_offset, header->table_count, header->table_size,
               first, end) ||
      !lies_in(header->fields_offset, header->field_count, header->field_size,
               first, end) ||
      !lies_in(header->strings_offset, header->strings_size, 1, first, end))
    return "a part of its directory lies outside";
  if (!lies_in(header->slots_offset, header->slot_count, header->slot_size, end,
               header->region_size) ||
      header->block_stride % 8 != 0 ||
      header->block_stride < sizeof(struct percore_slot_head) ||
      !lies_in(header->blocks_offset, header->slot_count, header->block_stride,
               end, header->region_size))
    return "its slots lie outside";
  return NULL;
}

/* ---------------------------------------------------------------------------
 * Records: taken apart into what the producer described
 */

/* A producer writes each string once for each use, so all uses together are no
 * longer than a pool may be. Where they share strings, a small pool could keep
 * a reader busy for minutes. */
static bool take_string(struct region_directory *directory, uint32_t offset,
                        const char **string) {
  if (offset >= directory->header.strings_size)
    return false;
  *string = directory->strings + offset;
  size_t length = strnlen(*string, directory->strings_left);
  if (length == directory->strings_left)
    return false;
  directory->strings_left -= length + 1;
  return true;
}

static bool take_optional_string(struct region_directory *directory,
                                 uint32_t offset, const char **string) {
  if (!take_string(directory, offset, string))
    return false;
  if ((*string)[0] == '\0')
    *string = NULL;
  return true;
}

/* states is where the names of this field's states go. */
static const char *take_field(struct region_directory *directory, uint32_t f,
                              const char **states) {
  const struct region_field *field = &directory->fields[f];
  struct percore_field *described = &directory->described_fields[f];
  if (!take_string(directory, field->name, &described->name) ||
      !take_optional_string(directory, field->unit, &described->unit) ||
      !take_optional_string(directory, field->help, &described->help))
    return "a string of a field lies outside, or its strings are too long";
  if (field->kind > PERCORE_HISTOGRAM || field->aggregation > PERCORE_NONE)
    return "a field is of an unknown kind";
  described->kind = (enum percore_kind)field->kind;
  described->aggregation = field->kind == PERCORE_STATE
                               ? PERCORE_SUM
                               : (enum percore_aggregation)field->aggregation;
  described->sub_bits = field->sub_bits;
  described->max_bits = field->max_bits;
  described->state_count = field->state_count;
  described->states = states;
  uint32_t at = field->states;
  for (uint32_t i = 0; i < field->state_count; i++) {
    if (!take_string(directory, at, &states[i]))
      return "the name of a state lies outside, or its strings are too long";
    at += (uint32_t)strlen(states[i]) + 1;
  }
  return NULL;
}

static const char *take_fields(struct region_directory *directory) {
  uint64_t count = 0;
  for (uint32_t f = 0; f < directory->field_count; f++) {
    if (directory->fields[f].state_count > REGION_MAX_STATES)
      return "a field has too many states";
    count += directory->fields[f].state_count;
  }
  directory->states = calloc(count + 1, sizeof(*directory->states));
  if (directory->states == NULL)
    return "";
  const char **states = directory->states;
  for (uint32_t f = 0; f < directory->field_count; f++) {
    const char *fault = take_field(directory, f, states);
    if (fault != NULL)
      return fault;
    states += directory->fields[f].state_count;
  }
  return NULL;
}

static const char *take_table(struct region_directory *directory, uint32_t t) {
  const struct region_table *table = &directory->tables[t];
  struct percore_table *described = &directory->described[t];
  if (!take_string(directory, table->name, &described->name) ||
      !take_optional_string(directory, table->help, &described->help))
    return "a string of a table lies outside, or its strings are too long";
  if (table->storage > PERCORE_SHARED || table->key > PERCORE_KEY_MAC)
    return "a table is of an unknown kind";
  if (table->first_field > directory->field_count ||
      table->field_count > directory->field_count - table->first_field)
    return "the fields of a table lie outside";
  bool single = (table->flags & REGION_TABLE_SINGLE) != 0;
  described->storage = (enum percore_storage)table->storage;
  described->key = (enum percore_key)table->key;
  described->fields = &directory->described_fields[table->first_field];
  described->field_count = table->field_count;
  described->max_rows = single ? 0 : table->max_rows;
  described->row_name_size = table->row_name_size;
  if (table->flags & REGION_TABLE_CONSISTENT)
    described->flags |= PERCORE_CONSISTENT;
  if (table->reset_offset == 0)
    described->flags |= PERCORE_NO_RESET;
  return NULL;
}

/* ---------------------------------------------------------------------------
 * Geometry
 */

static const char *columns_fault(const struct region_directory *directory,
                                 const struct region_table *table) {
  uint64_t column = 0;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field =
        &directory->fields[table->first_field + f];
    uint32_t cells =
        field->kind == PERCORE_HISTOGRAM
            ? region_histogram_buckets(field->sub_bits, field->max_bits)
            : 1;
    if (field->column != column || field->cells != cells)
      return "the columns of a table do not follow each other";
    column += cells;
  }
  if (table->columns != column || column > PERCORE_MAX_COLUMNS)
    return "the columns of a table do not add up";
  return NULL;
}

static bool base_lies_in(const struct region_table *table, uint64_t offset,
                         uint64_t first, uint64_t end) {
  return offset == 0 ||
         lies_in(offset, table->max_rows, 8ull * table->columns, first, end);
}

static const char *table_fault(const struct region_directory *directory,
                               uint32_t t) {
  const struct region_table *table = &directory->tables[t];
  uint64_t first = directory->header.directory_size;
  uint64_t end = directory->header.region_size;
  uint64_t rows = table->max_rows;
  bool consistent = (table->flags & REGION_TABLE_CONSISTENT) != 0;
  const char *fault = columns_fault(directory, table);
  if (fault != NULL)
    return fault;
  if (rows == 0 || rows > REGION_MAX_ROWS ||
      ((table->flags & REGION_TABLE_SINGLE) && rows != 1))
    return "a table has too many or too few rows";
  if (table->row_stride % 8 != 0 ||
      table->row_stride / 8 < table->columns + (consistent ? 1u : 0u) ||
      table->row_stride > 2 * 8 * PERCORE_MAX_COLUMNS)
    return "the rows of a table overlap";
  if (table->label_stride % 8 != 0 ||
      table->label_stride < region_label_size(table) ||
      table->label_stride > MAX_RECORD_SIZE)
    return "the names of a table overlap";
  if (!lies_in(table->live_offset, 1, sizeof(struct region_table_live), first,
               end) ||
      !lies_in(table->generations_offset, rows, 8, first, end) ||
      !lies_in(table->labels_offset, rows, table->label_stride, first, end) ||
      !lies_in(table->single_offset, rows, table->row_stride, first, end))
    return "a part of a table lies outside";
  if (table->birth_offset == 0 && table->reset_offset != 0)
    return "a table has resets and no births";
  if (!base_lies_in(table, table->birth_offset, first, end) ||
      !base_lies_in(table, table->reset_offset, first, end))
    return "the births or resets of a table lie outside";
  if (table->storage == PERCORE_PER_CORE &&
      !lies_in(table->slot_offset, rows, table->row_stride,
               REGION_CORE_ROW_OFFSET, directory->header.block_stride))
    return "the rows of a table lie outside the slots";
  return NULL;
}

/* The table every producer has, which the schema's rules leave out. */
static const char *core_fault(const struct region_directory *directory) {
  const struct region_table *table = &directory->tables[0];
  const struct percore_table *core = &directory->described[0];
  if (strcmp(core->name, "core") != 0 || core->storage != PERCORE_PER_CORE ||
      table->slot_offset != REGION_CORE_ROW_OFFSET ||
      table->flags != REGION_TABLE_SINGLE || table->row_name_size != 0 ||
      table->columns < REGION_CORE_COLUMNS ||
      table->columns > REGION_CORE_MAX_COLUMNS)
    return "its first table is not `core`";
  for (uint32_t f = 0; f < core->field_count; f++)
    if (core->fields[f].kind != PERCORE_COUNTER ||
        !region_name_is_valid(core->fields[f].name, true) ||
        !region_text_is_valid(core->fields[f].unit) ||
        !region_text_is_valid(core->help) ||
        !region_text_is_valid(core->fields[f].help))
      return "its table `core` is not allowed";
  return NULL;
}

/* ---------------------------------------------------------------------------
 * All of it
 */

/* Records of our version, whatever their size in the region. */
static void *copy_records(const unsigned char *copy, uint64_t offset,
                          uint32_t count, uint32_t stride, size_t size) {
  unsigned char *records = calloc(count, size);
  for (uint32_t i = 0; records != NULL && i < count; i++)
    memcpy(records + i * size, copy + offset + (uint64_t)i * stride, size);
  return records;
}

/* NULL, a reason, or "" for lack of memory. */
static const char *parse(struct region_directory *directory,
                         const unsigned char *copy) {
  const struct region_header *header = &directory->header;
  const char *fault = counts_fault(header);
  if (fault != NULL)
    return fault;
  directory->table_count = header->table_count;
  directory->field_count = header->field_count;
  directory->tables =
      copy_records(copy, header->tables_offset, header->table_count,
                   header->table_size, sizeof(struct region_table));
  directory->fields =
      copy_records(copy, header->fields_offset, header->field_count,
                   header->field_size, sizeof(struct region_field));
  directory->strings = malloc(header->strings_size);
  directory->described =
      calloc(header->table_count, sizeof(*directory->described));
  directory->described_fields =
      calloc(header->field_count, sizeof(*directory->described_fields));
  if (!directory->tables || !directory->fields || !directory->strings ||
      !directory->described || !directory->described_fields)
    return "";
  memcpy(directory->strings, copy + header->strings_offset,
         header->strings_size);
  if (directory->strings[header->strings_size - 1] != '\0')
    return "its last string does not end";
  directory->strings_left = REGION_MAX_STRINGS;
  if (!take_string(directory, header->name, &directory->name) ||
      !take_optional_string(directory, header->instance,
                            &directory->instance) ||
      (directory->instance != NULL &&
       !region_instance_is_valid(directory->instance)))
    return "its name is not allowed";
  fault = take_fields(directory);
  for (uint32_t t = 0; fault == NULL && t < header->table_count; t++)
    fault = take_table(directory, t);
  if (fault == NULL)
    fault = core_fault(directory);
  if (fault == NULL &&
      region_schema_check(directory->name, directory->described + 1,
                          header->table_count - 1) != 0)
    fault = "its tables are not allowed";
  for (uint32_t t = 0; fault == NULL && t < header->table_count; t++)
    fault = table_fault(directory, t);
  return fault;
}

int region_directory_parse(struct region_directory *directory,
                           const unsigned char *copy, size_t size,
                           uint64_t region_size, uint64_t max_size,
                           const char **why) {
  *directory = (struct region_directory){0};
  *why = "it is too short for a header";
  errno = EPROTO;
  if (size < sizeof(directory->header))
    return -1;
  memcpy(&directory->header, copy, sizeof(directory->header));
  *why = header_fault(&directory->header, region_size, max_size);
  if (*why == NULL && directory->header.directory_size > size)
    *why = "its directory is cut off";
  if (*why != NULL)
    return -1;
  *why = parse(directory, copy);
  if (*why == NULL)
    return 0;
  region_directory_free(directory);
  errno = (*why)[0] != '\0' ? EPROTO : ENOMEM;
  return -1;
}

void region_directory_free(struct region_directory *directory) {
  free(directory->tables);
  free(directory->fields);
  free(directory->described);
  free(directory->described_fields);
  free(directory->states);
  free(directory->strings);
  *directory = (struct region_directory){0};
}
