/* Tests the rules for names, the shapes of tables and the places of their
 * arrays: src/region/name.c, schema.c, plan.c, layout.c. */
#include "percore_config.h"

#include "region/directory.h"
#include "region/layout.h"
#include "region/memory.h"
#include "region_unit.h"

TEST(a_row_up_to_64_bytes_never_straddles_a_line) {
  for (uint32_t columns = 1; columns <= 8; columns++) {
    uint32_t stride = region_row_stride(columns, false, 0);
    for (uint32_t row = 0; row < 64; row++)
      assert_int_equal(row * stride / 64,
                       (row * stride + columns * 8 - 1) / 64);
  }
}

TEST(rows_of_different_owners_can_have_their_own_cache_lines) {
  assert_int_equal(region_row_stride(2, false, 128), 128);
  assert_int_equal(region_row_stride(17, true, 128), 256);
  assert_int_equal(region_row_stride(2, false, 96), 0);
}

TEST(rows_of_128_bytes_begin_at_a_multiple_of_128) {
  static const struct percore_field field = {.name = "rx"};
  struct percore_table tables[] = {{.name = "before",
                                    .storage = PERCORE_OWNED,
                                    .fields = &field,
                                    .field_count = 1},
                                   {.name = "port",
                                    .storage = PERCORE_OWNED,
                                    .fields = &field,
                                    .field_count = 1,
                                    .max_rows = 3,
                                    .row_align = 128}};
  const struct percore_options options = {.extra_slots = 1};
  struct region_fault fault;
  for (uint32_t rows = 1; rows <= 16; rows++) {
    struct region_plan plan;
    tables[0].max_rows = rows;
    assert_int_equal(
        region_plan_make(&plan, "unit", tables, 2, &options, 1, 4096, &fault),
        0);
    assert_int_equal(plan.tables[2].single_offset % 128, 0);
    region_plan_free(&plan);
  }
}

TEST(every_value_is_counted_in_the_bucket_that_holds_it) {
  uint32_t buckets = region_histogram_buckets(3, 20);
  assert_int_equal(region_histogram_buckets(9, 20), 0);
  for (uint64_t value = 0; value < 1u << 20; value++) {
    uint32_t bucket = percore_bucket_(3, buckets, value);
    assert_true(bucket < buckets);
    assert_true(region_bucket_least(3, bucket) <= value);
    assert_true(bucket + 1 == buckets ||
                value < region_bucket_least(3, bucket + 1));
  }
}

TEST(values_beyond_the_last_bucket_are_counted_in_it) {
  uint32_t buckets = region_histogram_buckets(2, 10);
  assert_int_equal(percore_bucket_(2, buckets, 1u << 10), buckets - 1);
  assert_int_equal(percore_bucket_(2, buckets, UINT64_MAX), buckets - 1);
  uint32_t all = region_histogram_buckets(8, 64);
  assert_int_equal(percore_bucket_(8, all, UINT64_MAX), all - 1);
}

TEST(quantiles_match_the_counted_values) {
  uint64_t counts[36] = {0};
  assert_true(region_histogram_quantile(2, counts, 36, 0.5) < 0);
  counts[percore_bucket_(2, 36, 3)] = 90;
  counts[percore_bucket_(2, 36, 100)] = 10;
  assert_float_equal(region_histogram_quantile(2, counts, 36, 0.5), 3, 0);
  assert_float_equal(region_histogram_quantile(2, counts, 36, 0.9), 3, 0);
  /* The value 100 is in the bucket of 96 to 111, whose middle is 103.5. */
  assert_float_equal(region_histogram_quantile(2, counts, 36, 0.91), 103.5, 0);
}

struct refused {
  const char *what;
  struct percore_field field;
  uint32_t max_rows, name_size, flags, align;
  enum percore_storage storage;
};

TEST(names_that_make_no_valid_metric_are_refused) {
  static const char *const names[] = {"",      "Port", "1port", "port_a",
                                      "port ", "host", "core"};
  struct percore_field field = {.name = "packets", .unit = "packets"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    struct percore_table table = {
        .name = names[i], .fields = &field, .field_count = 1};
    struct percore_region *region;
    assert_fails(create_region(&region, "unit", &table, 1, NULL), EINVAL);
  }
}

TEST(meaningless_shapes_are_refused) {
  static const char *const names[] = {"up", ""};
  static const struct refused cases[] = {
      {"a field in capitals", .field = {.name = "RX"}},
      {"control characters", .field = {.name = "rx", .unit = "a\nb"}},
      {"invalid UTF-8", .field = {.name = "rx", .help = "\xff"}},
      {"a state without names", .field = {.name = "rx", .kind = PERCORE_STATE}},
      {"a state with an empty name", .field = {.name = "rx",
                                               .kind = PERCORE_STATE,
                                               .states = names,
                                               .state_count = 2}},
      {"a counter with names",
       .field = {.name = "rx", .states = names, .state_count = 1}},
      {"a histogram without a shape",
       .field = {.name = "rx", .kind = PERCORE_HISTOGRAM}},
      {"two fields of one name", .field = {.name = "packets"}},
      {"more buckets than a row has columns",
       .field = {.name = "rx",
                 .kind = PERCORE_HISTOGRAM,
                 .sub_bits = 8,
                 .max_bits = 64}},
      {"an aggregation of a counter",
       .field = {.name = "rx", .aggregation = PERCORE_MAX}},
      {"consistent rows without an owner", .field = {.name = "rx"},
       .flags = PERCORE_CONSISTENT},
      {"unknown flags", .field = {.name = "rx"}, .flags = 64},
      {"a name size of its own", .field = {.name = "rx"}, .max_rows = 2,
       .name_size = 32},
      {"an alignment that is not a power of two", .field = {.name = "rx"},
       .align = 96},
  };
  struct region_fault fault;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    const struct refused *refused = &cases[i];
    const struct percore_field fields[] = {{.name = "packets"}, refused->field};
    struct percore_table table = {.name = "port",
                                  .fields = fields,
                                  .field_count = 2,
                                  .storage = refused->storage,
                                  .max_rows = refused->max_rows,
                                  .row_name_size = refused->name_size,
                                  .row_align = refused->align,
                                  .flags = refused->flags};
    if (region_schema_is_valid("unit", NULL, &table, 1, &fault))
      fail_msg("%s was accepted", refused->what);
  }
}

TEST(a_refused_number_says_which_are_possible) {
  static const struct {
    struct percore_field field;
    uint32_t row_name_size, row_align, flags;
    const char *text;
  } cases[] = {
      {.row_name_size = 32,
       .text = "its row name size is 32; it must be 24, 56 or 120, or 0 for "
               "rows with a key"},
      {.row_align = 96,
       .text = "its row alignment is 96; it must be 0 or a power of two up to "
               "4096"},
      {.flags = PERCORE_CONSISTENT,
       .text = "its flag PERCORE_CONSISTENT is 1; it must be 0 unless the "
               "table is OWNED"},
      {.flags = 64, .text = "its sum of unknown flags is 64; it must be 0"},
      {.field = {.aggregation = PERCORE_MAX},
       .text = "its aggregation is 2; it must be 0 (sum) unless the field is a "
               "gauge"},
      {.field = {.kind = PERCORE_GAUGE, .aggregation = 9},
       .text = "its aggregation is 9; it must be 0 to 3"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct percore_field field = cases[i].field;
    field.name = "rx";
    const struct percore_table table = {.name = "port",
                                        .fields = &field,
                                        .field_count = 1,
                                        .max_rows = 2,
                                        .row_name_size = cases[i].row_name_size,
                                        .row_align = cases[i].row_align,
                                        .flags = cases[i].flags};
    struct region_fault fault;
    assert_false(region_schema_is_valid("unit", NULL, &table, 1, &fault));
    assert_string_equal(fault.text, cases[i].text);
  }
}

TEST(tables_have_at_most_16384_fields_with_those_of_the_table_core) {
  enum { FIELDS = 1024, MOST = 16 };
  static char names[FIELDS][8];
  struct percore_field fields[FIELDS] = {{0}};
  struct percore_table tables[MOST];
  struct region_fault fault;
  for (size_t i = 0; i < FIELDS; i++) {
    snprintf(names[i], sizeof(names[i]), "f%zu", i);
    fields[i].name = names[i];
  }
  for (size_t i = 0; i < MOST; i++)
    tables[i] = (struct percore_table){
        .name = names[i], .fields = fields, .field_count = FIELDS};
  tables[0].field_count = FIELDS - REGION_CORE_COLUMNS;
  assert_true(region_schema_is_valid("unit", NULL, tables, MOST, &fault));
  tables[0].field_count++;
  assert_false(region_schema_is_valid("unit", NULL, tables, MOST, &fault));
  assert_int_equal(fault.rule, REGION_RULE_COUNTS);
}

TEST(rows_have_names_of_three_sizes_and_alignments_up_to_a_page) {
  static const struct percore_field field = {.name = "rx"};
  struct percore_table table = {
      .name = "port", .fields = &field, .field_count = 1, .max_rows = 2};
  struct region_fault fault;
  int sizes = 0, alignments = 0;
  for (uint32_t n = 1; n <= 8192; n++) {
    table.row_name_size = n;
    table.row_align = 0;
    sizes += region_schema_is_valid("unit", NULL, &table, 1, &fault);
    table.row_name_size = 0;
    table.row_align = n;
    alignments += region_schema_is_valid("unit", NULL, &table, 1, &fault);
  }
  assert_int_equal(sizes, 3);
  assert_int_equal(alignments, 13);
  table.row_align = 4096;
  table.row_name_size = 120;
  assert_true(region_schema_is_valid("unit", NULL, &table, 1, &fault));
}

TEST(a_state_has_at_most_256_names) {
  const char *names[REGION_MAX_STATES + 1];
  struct percore_field field = {.name = "link",
                                .kind = PERCORE_STATE,
                                .states = names,
                                .state_count = COUNT_OF(names)};
  struct percore_table table = {
      .name = "port", .fields = &field, .field_count = 1};
  struct region_fault fault;
  for (size_t i = 0; i < COUNT_OF(names); i++)
    names[i] = "up";
  assert_int_equal(COUNT_OF(names), 257);
  assert_false(region_schema_is_valid("unit", NULL, &table, 1, &fault));
  assert_int_equal(fault.rule, REGION_RULE_STATES);
  field.state_count--;
  assert_true(region_schema_is_valid("unit", NULL, &table, 1, &fault));
}

/* Returns one of an array of strings or numbers. */
#define ANY_OF(seed, array) (array)[rand_r(seed) % COUNT_OF(array)]

static struct percore_field any_field(unsigned *seed) {
  static const char *const names[] = {"rx", "tx",   "a_1", "RX",
                                      "",   "\xff", NULL};
  static const char *const texts[] = {NULL, "", "bytes", "a\nb", "\xc3\xa9"};
  static const char *const states[] = {"up", "down", "", "\x1b"};
  static const uint32_t bits[] = {0, 0, 0, 1, 3, 8, 9, 64, 65};
  static const uint32_t counts[] = {0, 0, 0, 1, 2, 3, 4};
  return (struct percore_field){.name = ANY_OF(seed, names),
                                .unit = ANY_OF(seed, texts),
                                .help = ANY_OF(seed, texts),
                                .kind = (enum percore_kind)(rand_r(seed) % 6),
                                .aggregation = (enum percore_aggregation)(
                                    rand_r(seed) % 4 * (rand_r(seed) % 6)),
                                .sub_bits = ANY_OF(seed, bits),
                                .max_bits = ANY_OF(seed, bits),
                                .states = states,
                                .state_count = ANY_OF(seed, counts)};
}

static struct percore_table any_table(unsigned *seed,
                                      const struct percore_field *fields,
                                      uint32_t field_count) {
  static const char *const names[] = {"port", "flow", "host", "core", "Port"};
  static const uint32_t rows[] = {0, 1, 70, REGION_MAX_ROWS},
                        sizes[] = {0, 0, 24, 56, 120, 121},
                        aligns[] = {0, 0, 64, 4096, 48, 8192},
                        flags[] = {0, 0, PERCORE_CONSISTENT, PERCORE_NO_RESET,
                                   8};
  return (struct percore_table){
      .name = ANY_OF(seed, names),
      .storage = (enum percore_storage)(rand_r(seed) % 4),
      .key = (enum percore_key)(rand_r(seed) % 5),
      .fields = fields,
      .field_count = (uint32_t)rand_r(seed) % (field_count + 1),
      .max_rows = ANY_OF(seed, rows),
      .row_name_size = ANY_OF(seed, sizes),
      .row_align = ANY_OF(seed, aligns),
      .flags = ANY_OF(seed, flags)};
}

/* Returns 1 if a description is accepted; fails if a reader refuses it. */
static int try_description(unsigned *seed) {
  static const char *const names[] = {"unit", "unit", "host", "U", "a_b"},
                           *const instances[] = {NULL, NULL, "a", ".", ""};
  struct percore_field fields[3];
  struct percore_table tables[2];
  for (size_t f = 0; f < COUNT_OF(fields); f++)
    fields[f] = any_field(seed);
  for (size_t t = 0; t < COUNT_OF(tables); t++)
    tables[t] = any_table(seed, fields, COUNT_OF(fields));
  struct percore_options options = {.instance = ANY_OF(seed, instances),
                                    .extra_slots = 1};
  struct region_plan plan;
  struct region_directory directory;
  struct region_fault fault;
  int made =
      region_plan_make(&plan, ANY_OF(seed, names), tables,
                       (uint32_t)rand_r(seed) % 3, &options, 2, 4096, &fault);
  if (made == 0) {
    unsigned char *bytes = calloc(1, plan.header.directory_size);
    assert_non_null(bytes);
    region_plan_write(&plan, bytes);
    if (region_directory_parse(&directory, bytes, plan.header.directory_size,
                               plan.header.region_size, &fault) != 0)
      fail_msg("percore_create accepts what a reader refuses: %s", fault.text);
    region_directory_free(&directory);
    free(bytes);
  }
  region_plan_free(&plan);
  return made == 0;
}

TEST(a_description_that_a_writer_accepts_is_read) {
  enum { DESCRIPTIONS = 200000 };
  unsigned seed = 1;
  int accepted = 0;
  for (int i = 0; i < DESCRIPTIONS; i++)
    accepted += try_description(&seed);
  assert_in_range(accepted, DESCRIPTIONS / 100, DESCRIPTIONS / 2);
}

TEST(scalars_after_a_histogram_are_refused) {
  struct percore_field fields[] = {
      {.name = "a", .kind = PERCORE_HISTOGRAM, .sub_bits = 1, .max_bits = 8},
      {.name = "b"}};
  struct percore_table table = {
      .name = "port", .fields = fields, .field_count = 2};
  struct region_fault fault;
  assert_false(region_schema_is_valid("unit", NULL, &table, 1, &fault));
  assert_int_equal(fault.rule, REGION_RULE_HISTOGRAM);
  table.fields = &fields[1];
  table.field_count = 1;
  assert_true(region_schema_is_valid("unit", NULL, &table, 1, &fault));
}

TEST(a_value_name_in_collectd_is_at_most_120_bytes) {
  char name[121];
  memset(name, 'x', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  struct percore_field field = {.name = "rx"};
  struct percore_table table = {
      .name = name, .fields = &field, .field_count = 1};
  struct region_fault fault;
  assert_false(region_schema_is_valid("unit", NULL, &table, 1, &fault));
  assert_int_equal(fault.rule, REGION_RULE_IDENTIFIER);
  name[120 - 15 - 4 - 2] = '\0';
  assert_true(region_schema_is_valid("unit", NULL, &table, 1, &fault));
}

TEST(parts_that_fill_several_huge_pages_begin_on_a_huge_page) {
  struct percore_options options = {.extra_slots = 1};
  struct percore_field field = {.name = "a"};
  const struct percore_table tables[] = {
      {.name = "one", .fields = &field, .field_count = 1},
      {.name = "many", .fields = &field, .field_count = 1, .max_rows = 1 << 21},
      {.name = "few", .fields = &field, .field_count = 1, .max_rows = 100},
      {.name = "flow",
       .storage = PERCORE_OWNED,
       .fields = &field,
       .field_count = 1,
       .max_rows = 1100000},
      {.name = "small",
       .storage = PERCORE_OWNED,
       .fields = &field,
       .field_count = 1,
       .max_rows = 300000},
  };
  struct region_plan plan;
  struct region_fault fault;
  assert_int_equal(region_plan_make(&plan, "unit", tables, COUNT_OF(tables),
                                    &options, 3, 4096, &fault),
                   0);
  const struct region_header *header = &plan.header;
  const struct region_table *many = &plan.tables[2], *flow = &plan.tables[4];
  const uint64_t places[] = {
      many->generations_offset, many->labels_offset, many->birth_offset,
      many->reset_offset,       many->single_offset, header->blocks_offset,
      header->block_stride,     many->slot_offset,   flow->generations_offset,
      flow->labels_offset,      flow->birth_offset,  flow->reset_offset,
      flow->single_offset};
  for (size_t i = 0; i < COUNT_OF(places); i++)
    assert_int_equal(places[i] % REGION_HUGE_PAGE, 0);
  /* An array of 2.3 MiB would not fill several huge pages, so it is not placed
   * in huge pages of its own. */
  const struct region_table *small = &plan.tables[5];
  assert_true(small->single_offset - small->reset_offset < 300000 * 8 + 4096);
  assert_true(plan.tables[1].single_offset < 65536);
  assert_true(plan.tables[3].slot_offset <
              65536 + many->slot_offset +
                  (uint64_t)many->row_stride * (many->max_rows + 1));
  assert_int_equal(header->region_size % 4096, 0);
  assert_int_equal(header->region_size,
                   header->blocks_offset +
                       header->slot_count * header->block_stride);
  region_plan_free(&plan);
}

TEST(a_region_too_large_to_address_is_refused) {
  enum { HUGE_TABLES = 12 };
  static const char *const names[HUGE_TABLES] = {"a", "b", "c", "d", "e", "f",
                                                 "g", "h", "i", "j", "k", "l"};
  struct percore_options options = {.extra_slots = 16000};
  struct percore_field field = {
      .name = "a", .kind = PERCORE_HISTOGRAM, .sub_bits = 6, .max_bits = 63};
  struct percore_table tables[HUGE_TABLES];
  struct region_plan plan;
  for (int t = 0; t < HUGE_TABLES; t++)
    tables[t] = (struct percore_table){.name = names[t],
                                       .fields = &field,
                                       .field_count = 1,
                                       .max_rows = 1u << 31};
  struct region_fault fault;
  assert_int_equal(region_plan_make(&plan, "unit", tables, HUGE_TABLES,
                                    &options, 300, 4096, &fault),
                   -1);
  assert_int_equal(fault.error, ENOMEM);
  region_plan_free(&plan);
}
