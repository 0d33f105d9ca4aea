/* plan.c: makes the records of a region from the application's description of
 * its tables. layout.c then places the parts. */
#include "percore_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

static const struct percore_field core_fields[REGION_CORE_COLUMNS] = {
    {.name = "total_cycles",
     .unit = "cycles",
     .help = "time of the slot's threads, up to their last poll"},
    {.name = "busy_cycles",
     .unit = "cycles",
     .help = "time of poll rounds that handled something"},
    {.name = "sleep_cycles",
     .unit = "cycles",
     .help = "time between percore_sleep and percore_wake"},
    {.name = "polls", .unit = "operations", .help = "poll rounds"},
    {.name = "empty_polls",
     .unit = "operations",
     .help = "poll rounds that handled nothing"},
    {.name = "items",
     .unit = "operations",
     .help = "items that poll rounds handled: packets, events, jobs"},
    {.name = "absent_cycles",
     .unit = "cycles",
     .help = "time of long poll rounds without the CPU"},
};

static const struct percore_table core_table = {
    .name = "core",
    .help = "how the threads of the slots spend their time",
    .storage = PERCORE_PER_CORE,
    .fields = core_fields,
    .field_count = REGION_CORE_COLUMNS,
};

/* The string pool. It begins with the empty string, which also stands for NULL.
 */
struct strings {
  FILE *pool;
  size_t used; /* each use counts, also of the empty string */
};

/* Adds a string to the pool. Returns its offset there. */
static uint32_t add_string(struct strings *strings, const char *string) {
  size_t size = string != NULL ? strlen(string) + 1 : 1;
  strings->used += size;
  if (size == 1)
    return 0;
  uint32_t at = (uint32_t)ftell(strings->pool);
  fwrite(string, size, 1, strings->pool);
  return at;
}

/* ---------------------------------------------------------------------------
 * Records
 */

static void describe_field(struct region_plan *plan,
                           const struct percore_field *field,
                           struct strings *strings) {
  struct region_field *record = &plan->fields[plan->header.field_count++];
  record->name = add_string(strings, field->name);
  record->unit = add_string(strings, field->unit);
  record->help = add_string(strings, field->help);
  record->kind = field->kind;
  record->aggregation =
      field->kind == PERCORE_STATE ? PERCORE_NONE : field->aggregation;
  record->sub_bits = field->sub_bits;
  record->max_bits = field->max_bits;
  record->state_count = field->state_count;
  for (uint32_t i = 0; i < field->state_count; i++) {
    uint32_t at = add_string(strings, field->states[i]);
    if (i == 0)
      record->states = at;
  }
}

static void describe_table(struct region_plan *plan,
                           const struct percore_table *table,
                           struct strings *strings) {
  struct region_table *record = &plan->tables[plan->header.table_count++];
  bool consistent = (table->flags & PERCORE_CONSISTENT) != 0;
  record->name = add_string(strings, table->name);
  record->help = add_string(strings, table->help);
  record->storage = table->storage;
  record->flags = (consistent ? REGION_TABLE_CONSISTENT : 0) |
                  (table->max_rows == 0 ? REGION_TABLE_SINGLE : 0);
  record->first_field = plan->header.field_count;
  record->field_count = table->field_count;
  for (uint32_t f = 0; f < table->field_count; f++)
    describe_field(plan, &table->fields[f], strings);
  region_place_columns(record, &plan->fields[record->first_field]);
  record->row_stride =
      region_row_stride(record->columns, consistent, table->row_align);
  record->max_rows = table->max_rows + 1;
  record->row_name_size = table->row_name_size;
  record->key = table->key;
  /* Its place is chosen later. 0: there are no resets. */
  record->reset_offset = (table->flags & PERCORE_NO_RESET) == 0;
}

static bool describe_all(struct region_plan *plan, const char *name,
                         const struct percore_table *tables,
                         uint32_t table_count,
                         const struct percore_options *options,
                         struct region_fault *fault) {
  size_t fields = REGION_CORE_COLUMNS, size = 0;
  for (uint32_t t = 0; t < table_count; t++)
    fields += tables[t].field_count;
  plan->tables = calloc(table_count + 1, sizeof(*plan->tables));
  plan->fields = calloc(fields, sizeof(*plan->fields));
  struct strings strings = {.pool = open_memstream(&plan->strings, &size),
                            .used = 1};
  if (strings.pool == NULL)
    return region_fails(fault, ENOMEM, "");
  bool whole = plan->tables != NULL && plan->fields != NULL;
  fputc('\0', strings.pool);
  plan->header.name = add_string(&strings, name);
  plan->header.instance = add_string(&strings, options->instance);
  for (uint32_t t = 0; t <= table_count && whole; t++)
    describe_table(plan, t == 0 ? &core_table : &tables[t - 1], &strings);
  whole &= ferror(strings.pool) == 0;
  whole &= fclose(strings.pool) == 0;
  if (!whole)
    return region_fails(fault, ENOMEM, "");
  plan->header.strings_size = size;
  return strings.used <= REGION_MAX_STRINGS ||
         region_breaks(fault, REGION_RULE_STRING_SUM,
                       "all strings together are longer than %u bytes",
                       REGION_MAX_STRINGS);
}

static bool place_all(struct region_plan *plan, uint64_t page,
                      struct region_fault *fault) {
  struct region_header *header = &plan->header;
  struct region_places places = {
      .end = INT64_MAX, .page = page, .fault = fault};
  uint32_t ignored;
  if (!region_place_directory(&places, header))
    return false;
  header->directory_size = places.next;
  plan->tables[0].slot_offset = REGION_CORE_ROW_OFFSET;
  if (!region_place_all(&places, header, plan->tables, &ignored))
    return false;
  header->region_size = places.next; /* slot blocks are whole pages */
  return true;
}

static bool make(struct region_plan *plan, const char *name,
                 const struct percore_table *tables, uint32_t table_count,
                 const struct percore_options *options, uint32_t cores,
                 uint64_t page_size, struct region_fault *fault) {
  uint64_t slots = (uint64_t)cores + options->extra_slots;
  const struct region_limit limits[] = {
      REGION_LIMIT(COUNTS, "number of slots (cores and extra slots)", slots, 1,
                   REGION_MAX_SLOTS),
      REGION_LIMITS_END};
  if (!region_schema_is_valid(name, options->instance, tables, table_count,
                              fault) ||
      !region_within(limits, fault) ||
      !describe_all(plan, name, tables, table_count, options, fault))
    return false;
  struct region_header *header = &plan->header;
  memcpy(header->magic, REGION_MAGIC, sizeof(header->magic));
  header->byte_order = REGION_BYTE_ORDER;
  header->major = REGION_MAJOR;
  header->minor = REGION_MINOR;
  header->header_size = sizeof(struct region_header);
  header->table_size = sizeof(struct region_table);
  header->field_size = sizeof(struct region_field);
  header->slot_size = sizeof(struct region_slot);
  header->word_size = sizeof(uint64_t);
  header->page_size = page_size;
  header->core_count = cores;
  header->slot_count = cores + options->extra_slots;
  return place_all(plan, page_size, fault);
}

/* A reader reports a broken rule as EPROTO. Here, the application has described
 * the region, so the broken rule is reported as a wrong argument. */
int region_plan_make(struct region_plan *plan, const char *name,
                     const struct percore_table *tables, uint32_t table_count,
                     const struct percore_options *options, uint32_t cores,
                     uint64_t page_size, struct region_fault *fault) {
  *plan = (struct region_plan){0};
  if (make(plan, name, tables, table_count, options, cores, page_size, fault))
    return 0;
  if (fault->rule == REGION_RULE_PLACE)
    region_fails(fault, ENOMEM,
                 "the region is too large to address: declare fewer rows or "
                 "cores");
  else if (fault->rule == REGION_RULE_IDENTIFIER)
    fault->error = ENAMETOOLONG;
  else if (fault->rule != REGION_NO_RULE)
    fault->error = EINVAL;
  return -1;
}

void region_plan_free(struct region_plan *plan) {
  int saved = errno;
  free(plan->tables);
  free(plan->fields);
  free(plan->strings);
  errno = saved;
}

void region_plan_write(const struct region_plan *plan, void *region) {
  const struct region_header *header = &plan->header;
  unsigned char *start = region;
  memcpy(start, header, sizeof(*header));
  memcpy(start + header->tables_offset, plan->tables,
         header->table_count * sizeof(*plan->tables));
  memcpy(start + header->fields_offset, plan->fields,
         header->field_count * sizeof(*plan->fields));
  memcpy(start + header->strings_offset, plan->strings, header->strings_size);
}
