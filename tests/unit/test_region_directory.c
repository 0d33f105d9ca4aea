/* Tests parsing and reading regions that consist of untrusted bytes. */
#include "percore_config.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/directory.h"
#include "region/memory.h"
#include "region/view.h"
#include "region_unit.h"

static struct region_fault fault; /* of the last that a test parsed or made */

struct bytes {
  unsigned char *start;
  size_t size;
  uint64_t region_size;
};

/* Returns the bytes of a plan. They are valid until seven more have been
 * made. */
static struct bytes bytes_of(const struct region_plan *plan) {
  static unsigned char *made[8];
  static unsigned next;
  struct bytes bytes = {.size = plan->header.directory_size,
                        .region_size = plan->header.region_size};
  unsigned char **start = &made[next++ % 8];
  free(*start);
  bytes.start = *start = calloc(1, bytes.size);
  assert_non_null(bytes.start);
  region_plan_write(plan, bytes.start);
  return bytes;
}

static struct bytes make_directory_in(uint64_t page_size) {
  struct percore_options options = {.extra_slots = 2, .instance = "a"};
  struct region_plan plan;
  struct region_fault fault;
  assert_int_equal(region_plan_make(&plan, "unit", unit_tables, TABLES,
                                    &options, 4, page_size, &fault),
                   0);
  struct bytes bytes = bytes_of(&plan);
  region_plan_free(&plan);
  return bytes;
}

static struct bytes make_directory(void) { return make_directory_in(4096); }

/* Parses a copy of the first `size` bytes, so that ASan detects reads beyond
 * them. */
static int parse(const struct bytes *bytes, size_t size) {
  struct region_fault fault;
  struct region_directory directory;
  unsigned char *copy = malloc(size + 1);
  assert_non_null(copy);
  memcpy(copy, bytes->start, size);
  int rc = region_directory_parse(&directory, copy, size, bytes->region_size,
                                  &fault);
  free(copy);
  if (rc == 0)
    region_directory_free(&directory);
  else
    assert_true(fault.text[0] != '\0' && fault.rule != REGION_NO_RULE);
  return rc;
}

/* Asserts that the bytes break `rule`, and returns the fault that is reported.
 */
static struct region_fault fault_of(const struct bytes *bytes,
                                    enum region_rule rule) {
  struct region_directory directory;
  struct region_fault fault;
  assert_int_equal(region_directory_parse(&directory, bytes->start, bytes->size,
                                          bytes->region_size, &fault),
                   -1);
  assert_int_equal(fault.rule, rule);
  assert_int_equal(fault.error, EPROTO);
  return fault;
}

TEST(a_directory_yields_the_producers_description) {
  struct bytes bytes = make_directory();
  struct region_directory directory;
  assert_return_code(region_directory_parse(&directory, bytes.start, bytes.size,
                                            bytes.region_size, &fault),
                     0);
  assert_string_equal(directory.name, "unit");
  assert_string_equal(directory.instance, "a");
  assert_int_equal(directory.header.directory_size,
                   directory.header.strings_offset +
                       directory.header.strings_size);
  assert_int_equal(directory.table_count, TABLES + 1);
  assert_string_equal(directory.described[0].name, "core");
  for (uint32_t t = 0; t < TABLES; t++) {
    const struct percore_table *is = &directory.described[t + 1];
    const struct percore_table *was = &unit_tables[t];
    assert_string_equal(is->name, was->name);
    assert_int_equal(is->storage, was->storage);
    assert_int_equal(is->max_rows, was->max_rows);
    assert_int_equal(is->row_name_size, was->row_name_size);
    assert_int_equal(is->flags, was->flags);
    assert_int_equal(is->field_count, was->field_count);
    for (uint32_t f = 0; f < was->field_count; f++) {
      assert_string_equal(is->fields[f].name, was->fields[f].name);
      assert_string_equal(is->fields[f].unit, was->fields[f].unit);
      assert_int_equal(is->fields[f].kind, was->fields[f].kind);
      assert_int_equal(is->fields[f].state_count, was->fields[f].state_count);
    }
  }
  assert_string_equal(directory.described[SLOW + 1].fields[1].states[1], "up");
  region_directory_free(&directory);
}

TEST(a_truncated_directory_is_refused) {
  struct bytes bytes = make_directory();
  for (size_t size = 0; size < bytes.size; size++)
    assert_int_equal(parse(&bytes, size), -1);
  assert_int_equal(parse(&bytes, bytes.size), 0);
}

TEST(no_changed_byte_makes_the_parser_read_outside) {
  static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
  struct bytes bytes = make_directory();
  unsigned refused = 0;
  for (size_t at = 0; at < bytes.size; at++) {
    unsigned char was = bytes.start[at];
    for (size_t v = 0; v < COUNT_OF(values); v++) {
      bytes.start[at] = values[v];
      refused += parse(&bytes, bytes.size) != 0;
    }
    for (int bit = 0; bit < 8; bit++) {
      bytes.start[at] = was ^ (unsigned char)(1 << bit);
      refused += parse(&bytes, bytes.size) != 0;
    }
    bytes.start[at] = was;
  }
  /* If the parser refused nothing, the test must fail. */
  assert_true(refused > bytes.size);
}

struct lie {
  const char *what;
  size_t offset;
  uint64_t value;
  size_t size;
};

#define IN_HEADER(member, value)                                               \
  {                                                                            \
#member, offsetof(struct region_header, member), value,                    \
        sizeof(((struct region_header *)0)->member)                            \
  }

TEST(a_wrong_header_is_refused) {
  struct bytes bytes = make_directory();
  const struct lie lies[] = {
      IN_HEADER(magic, 0),
      IN_HEADER(byte_order, 0x04030201),
      IN_HEADER(major, 2),
      IN_HEADER(word_size, 4),
      IN_HEADER(header_size, 8),
      IN_HEADER(table_size, UINT32_MAX),
      IN_HEADER(region_size, bytes.region_size + 4096),
      IN_HEADER(directory_size, UINT64_MAX),
      IN_HEADER(table_count, UINT32_MAX),
      IN_HEADER(tables_offset, UINT64_MAX - 7),
      IN_HEADER(fields_offset, bytes.size),
      IN_HEADER(strings_size, UINT64_MAX),
      IN_HEADER(slot_count, UINT32_MAX),
      IN_HEADER(core_count, 0),
      IN_HEADER(blocks_offset, bytes.region_size - 8),
      IN_HEADER(block_stride, UINT64_MAX - 7),
      IN_HEADER(name, UINT32_MAX),
  };
  for (size_t i = 0; i < COUNT_OF(lies); i++) {
    unsigned char was[8];
    memcpy(was, bytes.start + lies[i].offset, lies[i].size);
    memcpy(bytes.start + lies[i].offset, &lies[i].value, lies[i].size);
    if (parse(&bytes, bytes.size) == 0)
      fail_msg("%s is not checked", lies[i].what);
    memcpy(bytes.start + lies[i].offset, was, lies[i].size);
  }
}

/* Makes a region whose first field has a help text with `length` characters. */
static int make_with_help(struct region_plan *plan, size_t length) {
  struct percore_field fields[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  struct percore_table table = {
      .name = "t", .fields = fields, .field_count = COUNT_OF(fields)};
  struct percore_options options = {0};
  struct region_fault fault;
  char *help = malloc(length + 1);
  assert_non_null(help);
  memset(help, 'x', length);
  help[length] = '\0';
  fields[0].help = help;
  int rc = region_plan_make(plan, "unit", &table, 1, &options, 4, 4096, &fault);
  if (rc != 0)
    assert_int_equal(fault.rule, REGION_RULE_STRING_SUM);
  free(help);
  return rc;
}

/* Readers count a string each time it is used, even if it is empty. */
TEST(the_longest_strings_that_can_be_made_can_be_read) {
  size_t fits = 0, exceeds = REGION_MAX_STRINGS;
  struct region_plan plan;
  struct region_directory directory;
  while (exceeds - fits > 1) {
    size_t length = fits + (exceeds - fits) / 2;
    *(make_with_help(&plan, length) == 0 ? &fits : &exceeds) = length;
    region_plan_free(&plan);
  }
  assert_int_equal(make_with_help(&plan, fits), 0);
  size_t size = plan.header.directory_size;
  unsigned char *copy = calloc(1, size);
  assert_non_null(copy);
  region_plan_write(&plan, copy);
  assert_return_code(region_directory_parse(&directory, copy, size,
                                            plan.header.region_size, &fault),
                     0);
  region_directory_free(&directory);
  region_plan_free(&plan);
  free(copy);
}

/* If thousands of fields could share a help text that is as long as the pool,
 * checking them would take minutes. */
TEST(strings_that_share_their_bytes_are_refused) {
  enum { HELP = 1 << 20, FIELDS = 6 };
  struct percore_field fields[FIELDS];
  struct percore_table table = {.name = "t", .fields = fields};
  struct percore_options options = {0};
  struct region_plan plan;
  struct region_directory directory;
  char names[FIELDS][2], *help = calloc(1, HELP);
  assert_non_null(help);
  memset(help, 'x', HELP - 1);
  for (int f = 0; f < FIELDS; f++) {
    names[f][0] = (char)('a' + f);
    names[f][1] = '\0';
    fields[f] = (struct percore_field){.name = names[f]};
  }
  fields[0].help = help;
  table.field_count = FIELDS;
  assert_int_equal(
      region_plan_make(&plan, "unit", &table, 1, &options, 4, 4096, &fault), 0);
  size_t size = plan.header.directory_size;
  unsigned char *copy = calloc(1, size);
  assert_non_null(copy);
  for (int shared = 1; shared <= FIELDS; shared++) {
    uint32_t first = plan.tables[1].first_field;
    plan.fields[first + (uint32_t)shared - 1].help = plan.fields[first].help;
    region_plan_write(&plan, copy);
    int rc = region_directory_parse(&directory, copy, size,
                                    plan.header.region_size, &fault);
    if (rc == 0)
      region_directory_free(&directory);
    else
      assert_int_equal(fault.rule, REGION_RULE_STRING_SUM);
    assert_int_equal(rc, shared < 4 ? 0 : -1);
  }
  region_plan_free(&plan);
  free(copy);
  free(help);
}

TEST(records_of_a_later_minor_version_may_be_longer) {
  struct bytes bytes = make_directory();
  struct region_header header;
  memcpy(&header, bytes.start, sizeof(header));
  /* Each table record is longer by 8 bytes, and what follows them moves. */
  size_t longer = sizeof(struct region_table) + 8;
  size_t moved = header.table_count * 8;
  size_t size = bytes.size + moved;
  unsigned char *copy = calloc(1, size);
  assert_non_null(copy);
  for (uint32_t t = 0; t < header.table_count; t++)
    memcpy(copy + header.tables_offset + t * longer,
           bytes.start + header.tables_offset + t * sizeof(struct region_table),
           sizeof(struct region_table));
  memcpy(copy + header.fields_offset + moved,
         bytes.start + header.fields_offset, bytes.size - header.fields_offset);
  header.minor = 7;
  header.table_size = (uint32_t)longer;
  header.fields_offset += moved;
  header.strings_offset += moved;
  header.directory_size = size;
  assert_true(size < header.slots_offset);
  memcpy(copy, &header, sizeof(header));
  struct bytes later = {copy, size, bytes.region_size};
  assert_int_equal(parse(&later, size), 0);
  free(copy);
}

/* ---------------------------------------------------------------------------
 * Parts that overlap
 */

static struct region_table *table_of(const struct bytes *bytes, uint32_t t) {
  struct region_header header;
  memcpy(&header, bytes->start, sizeof(header));
  return (struct region_table *)(void *)(bytes->start + header.tables_offset +
                                         t * sizeof(struct region_table));
}

/* Asserts that this part is refused, because it begins before the end of the
 * part before. */
static void assert_misplaced(const struct bytes *bytes, const char *part) {
  struct region_fault fault = fault_of(bytes, REGION_RULE_PLACE);
  char text[REGION_FAULT_LINE];
  region_fault_text(&fault, text);
  if (strncmp(text, part, strlen(part)) != 0)
    fail_msg("%s is not blamed: %s", part, text);
}

/* All tables claim the rows of the first table. Together, they claim many times
 * the size of the region. */
TEST(a_hundred_tables_over_one_array_are_refused) {
  enum { OVER = 100 };
  char names[OVER][8];
  struct percore_field field = {.name = "packets"};
  struct percore_table tables[OVER];
  struct percore_options options = {0};
  struct region_plan plan;
  for (int t = 0; t < OVER; t++) {
    snprintf(names[t], sizeof(names[t]), "t%d", t);
    tables[t] = (struct percore_table){.name = names[t],
                                       .storage = PERCORE_OWNED,
                                       .fields = &field,
                                       .field_count = 1,
                                       .max_rows = 1000};
  }
  assert_int_equal(
      region_plan_make(&plan, "unit", tables, OVER, &options, 4, 4096, &fault),
      0);
  struct bytes bytes = bytes_of(&plan);
  assert_int_equal(parse(&bytes, bytes.size), 0);
  for (uint32_t t = 2; t <= OVER; t++)
    table_of(&bytes, t)->single_offset = plan.tables[1].single_offset;
  assert_misplaced(&bytes, "table t1: its single copies, 1001 times 8 bytes");
  region_plan_free(&plan);
}

TEST(parts_of_tables_that_overlap_are_named) {
  struct bytes bytes = make_directory();
  const struct region_table *port = table_of(&bytes, PORT + 1);
  struct region_table *session = table_of(&bytes, SESSION + 1), was = *session;
  session->birth_offset = port->generations_offset + 8;
  assert_misplaced(&bytes, "table session: its births, ");
  *session = was;
  session->reset_offset = session->single_offset - 8;
  assert_misplaced(&bytes, "table session: its single copies, ");
  *session = was;
  session->live_offset = table_of(&bytes, FLOW + 1)->live_offset;
  assert_misplaced(&bytes, "table session: its generations, ");
  *session = was;
  session->labels_offset += 4;
  assert_misplaced(&bytes, "table session: its labels, ");
  *session = was;
  session->labels_offset = session->birth_offset;
  assert_misplaced(&bytes, "table session: its births, ");
}

TEST(parts_of_tables_that_overlap_slots_are_named) {
  struct bytes bytes = make_directory();
  struct region_header header;
  memcpy(&header, bytes.start, sizeof(header));
  struct region_table *session = table_of(&bytes, SESSION + 1), was = *session;
  session->labels_offset = header.slots_offset;
  assert_misplaced(&bytes, "table session: its labels, ");
  *session = was;
  session->single_offset = header.blocks_offset + header.block_stride;
  assert_misplaced(&bytes, "table slow: its live words, ");
  *session = was;
  header.blocks_offset = header.slots_offset + 8;
  memcpy(bytes.start, &header, sizeof(header));
  assert_misplaced(&bytes, "its slot blocks, ");
}

TEST(rows_that_overlap_within_a_slot_block_are_named) {
  struct bytes bytes = make_directory();
  const struct region_table *globals = table_of(&bytes, GLOBALS + 1);
  struct region_table *port = table_of(&bytes, PORT + 1), was = *port;
  port->slot_offset = REGION_CORE_ROW_OFFSET + 40;
  assert_misplaced(&bytes, "table port: its rows in slot blocks, ");
  port->slot_offset = globals->slot_offset + 8;
  assert_misplaced(&bytes, "table port: its rows in slot blocks, ");
  port->slot_offset = UINT64_MAX - 7;
  assert_misplaced(&bytes, "table port: its rows in slot blocks, ");
  *port = was;
  assert_int_equal(parse(&bytes, bytes.size), 0);
}

TEST(columns_are_computed_whatever_the_producer_wrote) {
  struct bytes bytes = make_directory();
  struct region_header header;
  struct region_directory directory;
  memcpy(&header, bytes.start, sizeof(header));
  struct region_table *port = table_of(&bytes, PORT + 1);
  struct region_field *field =
      (struct region_field *)(void *)(bytes.start + header.fields_offset) +
      port->first_field + LATENCY;
  uint32_t columns = port->columns, cells = field->cells;
  port->columns = field->column = field->cells = UINT32_MAX;
  assert_return_code(region_directory_parse(&directory, bytes.start, bytes.size,
                                            bytes.region_size, &fault),
                     0);
  field = &directory.fields[directory.tables[PORT + 1].first_field + LATENCY];
  assert_int_equal(directory.tables[PORT + 1].columns, columns);
  assert_int_equal(field->column, LATENCY_COLUMN);
  assert_int_equal(field->cells, cells);
  region_directory_free(&directory);
}

TEST(texts_of_the_table_core_are_checked) {
  struct bytes bytes = make_directory();
  struct region_header header;
  memcpy(&header, bytes.start, sizeof(header));
  unsigned char *strings = bytes.start + header.strings_offset;
  unsigned char *help = strings + table_of(&bytes, 0)->help, was = *help;
  *help = '\a';
  struct region_fault fault = fault_of(&bytes, REGION_RULE_TEXT);
  assert_string_equal(fault.table, "core");
  *help = was;
  const struct region_field *fields =
      (void *)(bytes.start + header.fields_offset);
  strings[fields[1].unit] = '\a';
  fault = fault_of(&bytes, REGION_RULE_TEXT);
  assert_string_equal(fault.table, "core");
  assert_string_equal(fault.field, "busy_cycles");
}

TEST(a_table_without_births_is_refused) {
  struct bytes bytes = make_directory();
  table_of(&bytes, PORT + 1)->birth_offset = 0;
  assert_misplaced(&bytes, "table port: its births, ");
}

/* If 256 tables could share 1024 fields, checking them would take seconds. */
TEST(tables_that_share_their_fields_are_refused) {
  struct bytes bytes = make_directory();
  struct region_table *session = table_of(&bytes, SESSION + 1);
  session->first_field = table_of(&bytes, PORT + 1)->first_field;
  struct region_fault fault = fault_of(&bytes, REGION_RULE_TABLE_FIELDS);
  assert_string_equal(fault.table, "session");
}

TEST(a_broken_field_is_blamed_by_table_and_name) {
  struct bytes bytes = make_directory();
  struct region_header header;
  memcpy(&header, bytes.start, sizeof(header));
  struct region_field *fields = (void *)(bytes.start + header.fields_offset);
  uint32_t first = table_of(&bytes, PORT + 1)->first_field;
  fields[first + DEPTH].kind = 77;
  struct region_fault fault = fault_of(&bytes, REGION_RULE_KIND);
  assert_string_equal(fault.table, "port");
  assert_string_equal(fault.field, "depth");
  /* The name of the field is now also invalid, so the fault gives its index. */
  fields[first + DEPTH].name = UINT32_MAX;
  fault = fault_of(&bytes, REGION_RULE_STRING_PLACE);
  assert_string_equal(fault.table, "port");
  assert_int_equal(fault.field[0], '#');
}

/* ---------------------------------------------------------------------------
 * Regions in memory
 */

/* Makes a file of the runtime directory with these bytes. */
static const char *file_with(const struct bytes *bytes) {
  static const char name[] = "unit@a.0123456789abcdef";
  int dir = open(getenv("PERCORE_RUNTIME_DIR"), O_PATH | O_DIRECTORY);
  int fd = openat(dir, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_return_code(fd, errno);
  assert_return_code(ftruncate(fd, (off_t)bytes->region_size), errno);
  assert_int_equal(pwrite(fd, bytes->start, bytes->size, 0), bytes->size);
  close(fd);
  close(dir);
  return name;
}

static int open_view(struct region_view *view, const struct bytes *bytes,
                     struct region_allowance *allowance) {
  return region_view_open(view, getenv("PERCORE_RUNTIME_DIR"), file_with(bytes),
                          allowance, &fault);
}

static int rewrite(const struct region_view *view, const void *bytes,
                   size_t size, uint64_t offset) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", view->dir, view->name);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  assert_return_code(fd, errno);
  assert_int_equal(pwrite(fd, bytes, size, (off_t)offset), size);
  return close(fd);
}

/* The plugin advises to raise its own limit (MaxMemory) only for this error. */
TEST(exceeding_the_allowance_is_not_a_lack_of_memory) {
  struct bytes bytes = make_directory();
  struct region_pool pool = {.max = 1};
  struct region_allowance allowance = {.pool = &pool};
  struct region_view view;
  assert_int_equal(open_view(&view, &bytes, &allowance), -1);
  assert_int_equal(fault.error, EDQUOT);
}

TEST(a_name_that_fills_its_label_ends_with_a_nul) {
  struct bytes bytes = make_directory();
  const struct region_table *port = table_of(&bytes, PORT + 1);
  struct region_reader reader = {.pid = 0};
  const uint64_t rows = 1, generation = region_next_object(0, REGION_LIVE);
  static const char label[] = "123456789012345678901234";
  char name[REGION_ROW_NAME_SIZE];
  assert_return_code(open_view(&reader.view, &bytes, NULL), 0);
  rewrite(&reader.view, &rows, 8, port->live_offset);
  rewrite(&reader.view, &generation, 8, port->generations_offset);
  rewrite(&reader.view, label, 24, port->labels_offset);
  memset(name, 'x', sizeof(name));
  assert_true(region_reader_row_name(&reader, PORT + 1, 0, generation, name));
  assert_memory_equal(name, label, sizeof(label));
  region_view_close(&reader.view);
}

/* ---------------------------------------------------------------------------
 * The two ways to read
 */

static struct bytes make_populated(void) {
  struct bytes bytes = make_directory();
  struct region_header *header = (void *)bytes.start;
  header->flags = REGION_POPULATED;
  return bytes;
}

TEST(a_populated_file_of_the_own_user_is_mapped) {
  struct bytes bytes = make_populated();
  struct region_view view;
  assert_return_code(open_view(&view, &bytes, NULL), 0);
  assert_non_null(view.map);
  region_view_close(&view);
}

TEST(a_file_that_may_have_holes_is_not_mapped) {
  struct bytes bytes = make_directory();
  struct region_view view;
  assert_return_code(open_view(&view, &bytes, NULL), 0);
  assert_null(view.map);
  region_view_close(&view);
}

TEST(a_file_of_another_user_is_not_mapped) {
  struct bytes bytes = make_populated();
  struct region_view view;
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", getenv("PERCORE_RUNTIME_DIR"),
           file_with(&bytes));
  if (geteuid() != 0 || chown(path, 65534, (gid_t)-1) != 0) {
    print_message("not tested: only root can give a file away\n");
    skip();
  }
  assert_return_code(region_view_open(&view, getenv("PERCORE_RUNTIME_DIR"),
                                      strrchr(path, '/') + 1, NULL, &fault),
                     0);
  assert_int_equal(view.file.owner, 65534);
  assert_null(view.map);
  region_view_close(&view);
  unlink(path);
}

/* Opens the same bytes in both ways. */
static void open_both(struct region_view *mapped, struct region_view *read,
                      struct bytes bytes) {
  assert_return_code(open_view(mapped, &bytes, NULL), 0);
  *read = *mapped;
  read->map = NULL;
  read->file.fd = -1;
}

TEST(both_ways_load_the_same_words_at_every_offset_and_length) {
  enum { MOST = 1100, TURNS = 3000 };
  struct bytes bytes = make_populated();
  struct region_view mapped, read;
  unsigned seed = 1;
  static uint64_t random[MOST], a[MOST], b[MOST];
  open_both(&mapped, &read, bytes);
  uint64_t start = (bytes.size + 7) / 8 * 8;
  for (uint64_t at = start; at < bytes.region_size; at += sizeof(random)) {
    for (size_t i = 0; i < MOST; i++)
      random[i] = (uint64_t)rand_r(&seed) << 32 | (unsigned)rand_r(&seed);
    uint64_t left = bytes.region_size - at;
    rewrite(&mapped, random, left < sizeof(random) ? left : sizeof(random), at);
  }
  for (int i = 0; i < TURNS; i++) {
    size_t count = 1 + (size_t)rand_r(&seed) % MOST;
    uint64_t words = bytes.region_size / 8;
    uint64_t at = 8 * ((uint64_t)rand_r(&seed) % (words - count + 1));
    region_view_load(&mapped, at, count, at, a);
    region_view_load(&read, at, count, at, b);
    assert_memory_equal(a, b, 8 * count);
  }
  assert_false(read.is_cut);
  region_file_close(&read.file);
  region_view_close(&mapped);
}

TEST(words_beyond_the_end_of_a_truncated_file_are_0_and_the_view_is_cut) {
  struct bytes bytes = make_directory();
  struct region_view view;
  uint64_t words[2] = {1, 1};
  char path[512];
  assert_return_code(open_view(&view, &bytes, NULL), 0);
  snprintf(path, sizeof(path), "%s/%s", view.dir, view.name);
  assert_return_code(truncate(path, (off_t)bytes.size), errno);
  region_view_load(&view, 0, 1, 0, words);
  assert_int_equal(words[0], *(uint64_t *)(void *)bytes.start);
  assert_false(view.is_cut);
  region_view_load(&view, bytes.region_size - 16, 2, 0, words);
  assert_int_equal(words[0], 0);
  assert_int_equal(words[1], 0);
  assert_true(view.is_cut);
  region_view_close(&view);
}

TEST(a_closed_file_is_opened_again_and_another_in_its_place_is_not) {
  struct bytes bytes = make_directory();
  struct region_view view;
  uint64_t word = 0;
  char path[512];
  assert_return_code(open_view(&view, &bytes, NULL), 0);
  region_file_close(&view.file);
  region_view_load(&view, 0, 1, 0, &word);
  assert_int_equal(word, *(uint64_t *)(void *)bytes.start);
  snprintf(path, sizeof(path), "%s/%s", view.dir, view.name);
  int fd = open(path, O_RDONLY); /* keeps the number of the inode */
  assert_return_code(unlink(path), errno);
  region_file_close(&view.file);
  (void)file_with(&bytes);
  region_view_load(&view, 0, 1, 0, &word);
  assert_int_equal(word, 0);
  assert_true(view.is_cut);
  close(fd);
  region_view_close(&view);
}

TEST(reading_holes_allocates_nothing) {
  struct bytes bytes = make_directory();
  struct region_view view;
  struct stat before, after;
  assert_return_code(open_view(&view, &bytes, NULL), 0);
  assert_return_code(fstat(view.file.fd, &before), errno);
  for (uint64_t at = 0; at < bytes.region_size; at += 512) {
    uint64_t word;
    region_view_load(&view, at, 1, 0, &word);
  }
  assert_return_code(fstat(view.file.fd, &after), errno);
  assert_int_equal(before.st_blocks, after.st_blocks);
  region_view_close(&view);
}

TEST(a_torn_word_is_read_again_and_a_counter_that_grows_is_not) {
  const uint64_t grows[] = {10, 11, 12}, gauge[] = {7, 3, 3},
                 torn[] = {0x1ffffffff, 0x2ffffffff, 0x200000000};
  assert_true(region_view_settles(&grows[0], &grows[1], &grows[2], 1));
  assert_true(region_view_settles(&gauge[0], &gauge[1], &gauge[2], 1));
  assert_false(region_view_settles(&torn[0], &torn[1], &torn[2], 1));
}

/* Makes each call fatal that takes the lock of a file's inode, which its user
 * may hold for ever. */
static void forbid_locks(void) {
  static const int calls[] = {SYS_lseek, SYS_fallocate, SYS_flock,
                              SYS_write, SYS_ftruncate, SYS_unlinkat};
  struct sock_filter filter[2 * COUNT_OF(calls) + 2] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short n = 1;
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                               (unsigned)calls[i], 0, 1);
    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  filter[n++] =
      (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = n, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(77); /* an emulator without seccomp(2) */
}

TEST(reading_takes_no_lock_of_the_file) {
  struct bytes bytes = make_directory();
  file_with(&bytes);
  struct region_reader *reader;
  int status;
  assert_return_code(region_reader_open(&reader, "unit", "a", NULL), errno);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    forbid_locks();
    if (region_reader_refresh(reader) != REGION_CAME)
      _exit(3);
    for (uint32_t t = 0; t <= TABLES; t++)
      (void)region_reader_live_rows(reader, t);
    (void)region_reader_refresh(reader);
    region_reader_give_back(reader);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  region_reader_close(reader);
  if (status == 77 << 8) {
    print_message("skipped: no seccomp filter can be set\n");
    skip();
  }
  assert_int_equal(status, 0);
}

TEST(a_reader_survives_garbage_in_every_byte) {
  struct bytes bytes = make_directory();
  for (unsigned seed = 1; seed <= 50; seed++) {
    struct region_reader reader = {.pid = 0};
    assert_return_code(open_view(&reader.view, &bytes, NULL), 0);
    size_t size = bytes.region_size - bytes.size;
    unsigned char *garbage = malloc(size);
    assert_non_null(garbage);
    for (size_t i = 0; i < size; i++)
      garbage[i] = (unsigned char)rand_r(&seed);
    rewrite(&reader.view, garbage, size, bytes.size);
    free(garbage);
    for (uint32_t t = 0; t <= TABLES; t++) {
      struct region_tile tile;
      assert_return_code(region_tile_init(&tile, &reader, t, 64,
                                          REGION_WANT_BIRTHS |
                                              REGION_WANT_RESETS |
                                              REGION_WANT_CORES),
                         0);
      region_tile_read(&reader, &tile, 0);
      for (uint32_t i = 0; i < tile.rows; i++) {
        char name[REGION_ROW_NAME_SIZE];
        memset(name, 'x', sizeof(name));
        region_reader_row_name(&reader, t, i, tile.generations[i], name);
        assert_in_range(strnlen(name, sizeof(name)), 0, 120);
      }
      region_tile_free(&tile);
    }
    region_view_close(&reader.view);
  }
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
