/* directory.c: copies the records of a region that nobody trusts, turns them
 * into the application's description, and checks both. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "directory.h"

/* In bytes. Records of later minor versions may be larger than those of this
 * version. */
enum { MAX_RECORD_SIZE = 512, MAX_DIRECTORY = 16 << 20 };

/* Twice the largest row stride that the library chooses. */
enum { MAX_ROW_STRIDE = 2 * 8 * PERCORE_MAX_COLUMNS };

/* ---------------------------------------------------------------------------
 * Header
 */

static bool sizes_are_valid(const struct region_header *header,
                            uint64_t region_size, struct region_fault *fault) {
  const struct region_limit limits[] = {
      {REGION_RULE_RECORD_SIZES, "header size", header->header_size,
       sizeof(*header), MAX_RECORD_SIZE, 8, NULL},
      {REGION_RULE_RECORD_SIZES, "table record size", header->table_size,
       sizeof(struct region_table), MAX_RECORD_SIZE, 8, NULL},
      {REGION_RULE_RECORD_SIZES, "field record size", header->field_size,
       sizeof(struct region_field), MAX_RECORD_SIZE, 8, NULL},
      {REGION_RULE_RECORD_SIZES, "slot record size", header->slot_size,
       sizeof(struct region_slot), MAX_RECORD_SIZE, 8, NULL},
      {REGION_RULE_REGION_SIZE, "region size", header->region_size, region_size,
       region_size, 0, "the size of its memory"},
      REGION_LIMIT(DIRECTORY_SIZE, "directory size", header->directory_size,
                   header->header_size, MIN(region_size, MAX_DIRECTORY)),
      REGION_LIMITS_END};
  return region_within(limits, fault);
}

static bool header_is_valid(const struct region_header *header,
                            uint64_t region_size, struct region_fault *fault) {
  if (memcmp(header->magic, REGION_MAGIC, sizeof(header->magic)) != 0)
    return region_breaks(fault, REGION_RULE_MAGIC,
                         "bad magic: not a percore region");
  if (header->byte_order != REGION_BYTE_ORDER || header->word_size != 8)
    return region_breaks(fault, REGION_RULE_BYTE_ORDER,
                         "its byte order or word size differs from this "
                         "machine's");
  if (header->major != REGION_MAJOR)
    return region_breaks(
        fault, REGION_RULE_VERSION,
        "its format has major version %u; this reader needs %u", header->major,
        REGION_MAJOR);
  return sizes_are_valid(header, region_size, fault);
}

static bool counts_are_valid(const struct region_header *header,
                             struct region_fault *fault) {
  const struct region_limit limits[] = {
      REGION_LIMIT(COUNTS, "number of tables", header->table_count, 1,
                   REGION_MAX_TABLES),
      REGION_LIMIT(COUNTS, "number of fields", header->field_count, 1,
                   REGION_MAX_FIELDS),
      REGION_LIMIT(COUNTS, "number of slots", header->slot_count, 1,
                   REGION_MAX_SLOTS),
      REGION_LIMIT(COUNTS, "number of cores", header->core_count, 1,
                   header->slot_count),
      REGION_LIMIT(COUNTS, "size of strings", header->strings_size, 1,
                   REGION_MAX_STRINGS),
      REGION_LIMITS_END};
  return region_within(limits, fault);
}

/* ---------------------------------------------------------------------------
 * Converting records back to the application's description; schema.c then
 * checks the kinds and storages
 */

/* What a directory has been parsed up to. */
struct parser {
  struct region_directory *directory;
  struct region_fault *fault;
  size_t strings_left; /* how many bytes the remaining strings may occupy */
  uint32_t next_field; /* the first record after those of the last table */
  const char **states; /* for the names of the next field's states */
};

/* Sets *string to the string at an offset in the pool. Returns false and sets
 * *fault if the offset is invalid, or if all strings taken so far, each counted
 * once per use, exceed the size of the largest allowed pool. Producers write a
 * string once per use; if many uses could share a string, a small pool could
 * keep a reader busy for minutes. */
static bool take_string(struct parser *parser, uint32_t offset,
                        const char **string) {
  const struct region_directory *directory = parser->directory;
  if (offset >= directory->header.strings_size)
    return region_breaks(parser->fault, REGION_RULE_STRING_PLACE,
                         "a string at %u lies outside the string pool", offset);
  *string = directory->strings + offset;
  size_t length = strnlen(*string, parser->strings_left);
  if (length == parser->strings_left)
    return region_breaks(parser->fault, REGION_RULE_STRING_SUM,
                         "all strings, each counted once per use, are longer "
                         "than %u bytes in total",
                         REGION_MAX_STRINGS);
  parser->strings_left -= length + 1;
  return true;
}

static bool take_optional_string(struct parser *parser, uint32_t offset,
                                 const char **string) {
  if (!take_string(parser, offset, string))
    return false;
  if ((*string)[0] == '\0')
    *string = NULL;
  return true;
}

static bool take_states(struct parser *parser,
                        const struct region_field *field) {
  uint32_t at = field->states;
  if (field->state_count > REGION_MAX_STATES)
    return true; /* schema.c refuses it */
  for (uint32_t i = 0; i < field->state_count; i++) {
    if (!take_string(parser, at, parser->states))
      return false;
    at += (uint32_t)strlen(*parser->states++) + 1;
  }
  return true;
}

static bool take_field(struct parser *parser, const struct region_field *field,
                       struct percore_field *described) {
  described->kind = (enum percore_kind)field->kind;
  described->aggregation = field->kind == PERCORE_STATE
                               ? PERCORE_SUM
                               : (enum percore_aggregation)field->aggregation;
  described->sub_bits = field->sub_bits;
  described->max_bits = field->max_bits;
  described->state_count = field->state_count;
  described->states = parser->states;
  return take_string(parser, field->name, &described->name) &&
         take_optional_string(parser, field->unit, &described->unit) &&
         take_optional_string(parser, field->help, &described->help) &&
         take_states(parser, field);
}

static bool take_fields(struct parser *parser, const struct region_table *table,
                        const struct percore_field **fields) {
  const struct region_directory *directory = parser->directory;
  uint32_t first = table->first_field, count = table->field_count;
  if (first < parser->next_field || first > directory->field_count ||
      count > directory->field_count - first)
    return region_breaks(parser->fault, REGION_RULE_TABLE_FIELDS,
                         "its %u fields begin at record %u; they must lie "
                         "between record %u, where the previous table ends, "
                         "and %u",
                         count, first, parser->next_field,
                         directory->field_count);
  parser->next_field = first + count;
  *fields = &directory->described_fields[first];
  for (uint32_t f = first; f < parser->next_field; f++) {
    struct percore_field *described = &directory->described_fields[f];
    if (!take_field(parser, &directory->fields[f], described))
      return region_blame(parser->fault->field, described->name, f - first);
  }
  return true;
}

static bool take_table(struct parser *parser, const struct region_table *table,
                       struct percore_table *described) {
  described->storage = (enum percore_storage)table->storage;
  described->key = (enum percore_key)table->key;
  described->field_count = table->field_count;
  described->max_rows = table->max_rows - 1;
  described->row_name_size = table->row_name_size;
  if (table->flags & REGION_TABLE_CONSISTENT)
    described->flags |= PERCORE_CONSISTENT;
  if (table->reset_offset == 0)
    described->flags |= PERCORE_NO_RESET;
  return take_string(parser, table->name, &described->name) &&
         take_optional_string(parser, table->help, &described->help) &&
         take_fields(parser, table, &described->fields);
}

/* The names of states that are too many are not taken. */
static bool make_states(struct region_directory *directory,
                        struct region_fault *fault) {
  uint64_t count = 1;
  for (uint32_t f = 0; f < directory->field_count; f++)
    count += MIN(directory->fields[f].state_count, REGION_MAX_STATES);
  directory->states = calloc(count, sizeof(*directory->states));
  return directory->states != NULL || region_fails(fault, ENOMEM, "");
}

static bool take_all(struct region_directory *directory,
                     struct region_fault *fault) {
  const struct region_header *header = &directory->header;
  struct parser parser = {.directory = directory,
                          .fault = fault,
                          .strings_left = REGION_MAX_STRINGS,
                          .states = directory->states};
  if (!take_string(&parser, header->name, &directory->name) ||
      !take_optional_string(&parser, header->instance, &directory->instance))
    return false;
  for (uint32_t t = 0; t < directory->table_count; t++)
    if (!take_table(&parser, &directory->tables[t], &directory->described[t]))
      return region_blame(fault->table, directory->described[t].name, t);
  return true;
}

/* ---------------------------------------------------------------------------
 * The table `core`, which every region has and which the rules for tables do
 * not cover
 */

static bool core_is_valid(const struct region_directory *directory,
                          struct region_fault *fault) {
  const struct region_table *table = &directory->tables[0];
  const struct percore_table *core = &directory->described[0];
  if (strcmp(core->name, "core") != 0 || core->storage != PERCORE_PER_CORE ||
      table->slot_offset != REGION_CORE_ROW_OFFSET ||
      table->flags != REGION_TABLE_SINGLE || table->row_name_size != 0 ||
      core->field_count < REGION_CORE_LEAST_COLUMNS ||
      core->field_count > REGION_CORE_MAX_COLUMNS ||
      table->key > PERCORE_KEY_MAC)
    return region_breaks(fault, REGION_RULE_CORE_TABLE,
                         "the first table must be 'core': PER_CORE, with one "
                         "row, %u to %u fields and slot offset %zu",
                         REGION_CORE_LEAST_COLUMNS, REGION_CORE_MAX_COLUMNS,
                         REGION_CORE_ROW_OFFSET);
  for (uint32_t f = 0; f < core->field_count; f++)
    if (core->fields[f].kind != PERCORE_COUNTER) {
      region_breaks(fault, REGION_RULE_CORE_FIELDS,
                    "every field of table core must be a counter");
      return region_blame(fault->field, core->fields[f].name, f);
    }
  return region_fields_are_valid(core, fault);
}

/* ---------------------------------------------------------------------------
 * Shapes and places of the parts
 */

static bool shape_is_valid(const struct region_table *table,
                           struct region_fault *fault) {
  bool consistent = (table->flags & REGION_TABLE_CONSISTENT) != 0,
       single = (table->flags & REGION_TABLE_SINGLE) != 0;
  const struct region_limit limits[] = {
      REGION_LIMIT(MAX_ROWS, "maximum number of rows", table->max_rows,
                   single ? 1 : 2, single ? 1 : REGION_MAX_ROWS + 1),
      {REGION_RULE_ROW_STRIDE, "row stride", table->row_stride,
       8 * (table->columns + consistent), MAX_ROW_STRIDE, 8, NULL},
      REGION_LIMITS_END};
  return region_within(limits, fault);
}

static bool shapes_are_valid(const struct region_directory *directory,
                             struct region_fault *fault) {
  for (uint32_t t = 0; t < directory->table_count; t++) {
    struct region_table *table = &directory->tables[t];
    region_place_columns(table, &directory->fields[table->first_field]);
    if (!shape_is_valid(table, fault))
      return region_blame(fault->table, directory->described[t].name, t);
  }
  return true;
}

/* Each part lies after the part before, so no two parts overlap, and together
 * they are no larger than the region. */
static bool places_are_valid(struct region_directory *directory,
                             struct region_fault *fault) {
  struct region_header *header = &directory->header;
  const struct region_limit limits[] = {
      {REGION_RULE_PLACE, "block stride", header->block_stride,
       sizeof(struct percore_slot_head), UINT64_MAX, 8, NULL},
      REGION_LIMITS_END};
  struct region_places places = {.next = header->directory_size,
                                 .end = header->region_size,
                                 .fault = fault};
  uint32_t t;
  if (!region_within(limits, fault))
    return false;
  if (region_place_all(&places, header, directory->tables, &t))
    return true;
  return t < directory->table_count &&
         region_blame(fault->table, directory->described[t].name, t);
}

static bool directory_places_are_valid(struct region_header *header,
                                       struct region_fault *fault) {
  struct region_places places = {.end = header->directory_size, .fault = fault};
  return region_place_directory(&places, header);
}

/* ---------------------------------------------------------------------------
 * The whole directory
 */

/* Converts records of any valid size to records of this version. Returns a new
 * array, or NULL if there is too little memory. */
static void *copy_records(const unsigned char *copy, uint64_t offset,
                          uint32_t count, uint32_t stride, size_t size) {
  unsigned char *records = calloc(count, size);
  for (uint32_t i = 0; records != NULL && i < count; i++)
    memcpy(records + i * size, copy + offset + (uint64_t)i * stride, size);
  return records;
}

static bool copy_directory(struct region_directory *directory,
                           const unsigned char *copy,
                           struct region_fault *fault) {
  const struct region_header *header = &directory->header;
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
    return region_fails(fault, ENOMEM, "");
  memcpy(directory->strings, copy + header->strings_offset,
         header->strings_size);
  return directory->strings[header->strings_size - 1] == '\0' ||
         region_breaks(fault, REGION_RULE_STRING_PLACE,
                       "the string pool does not end with a NUL");
}

static bool parse(struct region_directory *directory, const unsigned char *copy,
                  struct region_fault *fault) {
  struct region_header *header = &directory->header;
  if (!counts_are_valid(header, fault) ||
      !directory_places_are_valid(header, fault) ||
      !copy_directory(directory, copy, fault) ||
      !make_states(directory, fault) || !take_all(directory, fault))
    return false;
  if (!core_is_valid(directory, fault))
    return region_blame(fault->table, "core", 0);
  return region_schema_is_valid(directory->name, directory->instance,
                                directory->described + 1,
                                header->table_count - 1, fault) &&
         shapes_are_valid(directory, fault) &&
         places_are_valid(directory, fault);
}

int region_directory_parse(struct region_directory *directory,
                           const unsigned char *copy, size_t size,
                           uint64_t region_size, struct region_fault *fault) {
  *directory = (struct region_directory){0};
  if (size < sizeof(directory->header)) {
    region_breaks(fault, REGION_RULE_REGION_SIZE,
                  "it is too short for a header");
    return -1;
  }
  memcpy(&directory->header, copy, sizeof(directory->header));
  if (!header_is_valid(&directory->header, region_size, fault))
    return -1;
  if (directory->header.directory_size > size) {
    region_breaks(fault, REGION_RULE_DIRECTORY_SIZE,
                  "its directory is cut off");
    return -1;
  }
  if (parse(directory, copy, fault))
    return 0;
  region_directory_free(directory);
  return -1;
}

int region_directory_read(struct region_directory *directory, int fd,
                          uint64_t region_size, struct region_fault *fault) {
  struct region_header header;
  unsigned char *copy = NULL;
  ssize_t size = pread(fd, &header, sizeof(header), 0);
  if (size >= 0 && (size < (ssize_t)sizeof(header) ||
                    !header_is_valid(&header, region_size, fault)))
    return region_directory_parse(directory, (const unsigned char *)&header,
                                  (size_t)size, region_size, fault);
  if (size > 0 && (copy = malloc(header.directory_size)) != NULL)
    size = pread(fd, copy, header.directory_size, 0);
  int status = -1;
  if (copy == NULL || size < 0)
    region_fails(fault, errno, "");
  else
    status = region_directory_parse(directory, copy, (size_t)size, region_size,
                                    fault);
  free(copy);
  return status;
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
