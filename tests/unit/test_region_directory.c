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
      IN_HEADER(major, 1),
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

static int memory_with(const struct bytes *bytes) {
  int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0);
  assert_return_code(ftruncate(fd, (off_t)bytes->region_size), errno);
  assert_int_equal(pwrite(fd, bytes->start, bytes->size, 0), bytes->size);
  return fd;
}

/* The plugin advises to raise its own limit (MaxMemory) only for this error. */
TEST(exceeding_the_allowance_is_not_a_lack_of_memory) {
  struct bytes bytes = make_directory();
  struct region_pool pool = {.max = 1};
  struct region_allowance allowance = {.pool = &pool};
  struct region_view view;
  assert_int_equal(
      region_view_open(&view, memory_with(&bytes), &allowance, &fault), -1);
  assert_int_equal(fault.error, EDQUOT);
}

TEST(a_name_that_fills_its_label_ends_with_a_nul) {
  struct bytes bytes = make_directory();
  const struct region_table *port = table_of(&bytes, PORT + 1);
  struct region_reader reader = {.producer = 1};
  const uint64_t rows = 1, generation = region_next_object(0, REGION_LIVE);
  static const char label[] = "123456789012345678901234";
  char name[REGION_ROW_NAME_SIZE];
  int fd = memory_with(&bytes);
  assert_int_equal(pwrite(fd, &rows, 8, (off_t)port->live_offset), 8);
  assert_int_equal(pwrite(fd, &generation, 8, (off_t)port->generations_offset),
                   8);
  assert_int_equal(pwrite(fd, label, 24, (off_t)port->labels_offset), 24);
  assert_return_code(region_view_open(&reader.view, fd, NULL, &fault), 0);
  memset(name, 'x', sizeof(name));
  assert_true(region_reader_row_name(&reader, PORT + 1, 0, generation, name));
  assert_memory_equal(name, label, sizeof(label));
  region_view_close(&reader.view);
}

static int huge_memory_of(const struct bytes *bytes) {
  int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | 21U << 26);
  if (fd < 0)
    return -1;
  void *map = MAP_FAILED;
  if (ftruncate(fd, (off_t)bytes->region_size) == 0)
    map = mmap(NULL, bytes->region_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               0);
  if (map == MAP_FAILED) {
    close(fd);
    return -1;
  }
  memcpy(map, bytes->start, bytes->size);
  munmap(map, bytes->region_size);
  return fd;
}

TEST(holes_in_huge_pages_are_not_allocated) {
  struct bytes bytes = make_directory_in(REGION_HUGE_PAGE);
  struct region_view view;
  struct stat before, after;
  int fd = huge_memory_of(&bytes);
  if (fd < 0) {
    print_message("not tested: there are too few huge pages here\n");
    skip();
  }
  assert_return_code(fstat(fd, &before), errno);
  assert_true((uint64_t)before.st_blocks * 512 < bytes.region_size);
  assert_return_code(region_view_open(&view, fd, NULL, &fault), 0);
  uint64_t last = 1;
  region_view_load(&view, bytes.region_size - 8, 1, 0, &last);
  assert_int_equal(last, 0);
  assert_return_code(fstat(fd, &after), errno);
  assert_int_equal(before.st_blocks, after.st_blocks);
  region_view_close(&view);
}

/* Opens a view of memory whose first page was written with 0s, and whose third
 * page holds a word. The hole between them is read up to its last byte. */
static void open_sparse(struct region_view *view, struct bytes *bytes) {
  struct region_fault fault;
  long page = sysconf(_SC_PAGESIZE);
  const uint64_t word = 7, zero = 0;
  *bytes = make_directory();
  int fd = memory_with(bytes);
  off_t end = (off_t)bytes->region_size - 4 * page;
  assert_true(end > (off_t)bytes->size);
  assert_int_equal(pwrite(fd, &zero, 8, end), 8);
  assert_int_equal(pwrite(fd, &word, 8, end + 2 * page), 8);
  assert_return_code(region_view_open(view, fd, NULL, &fault), 0);
}

static void assert_sparse(struct region_view *view, uint64_t region_size) {
  size_t words = (size_t)sysconf(_SC_PAGESIZE) / 8;
  uint64_t *values = calloc(4 * words, sizeof(*values));
  struct stat before, after;
  assert_non_null(values);
  memset(values, 0xff, 32 * words);
  assert_return_code(fstat(view->memfd, &before), errno);
  region_view_load(view, region_size - 32 * words, 4 * words, 0, values);
  for (size_t i = 0; i < 4 * words; i++)
    assert_int_equal(values[i], i == 2 * words ? 7 : 0);
  assert_return_code(fstat(view->memfd, &after), errno);
  assert_int_equal(before.st_blocks, after.st_blocks);
  free(values);
}

TEST(a_load_over_holes_allocates_nothing_and_skips_no_value) {
  struct bytes bytes;
  struct region_view view;
  open_sparse(&view, &bytes);
  assert_true(view.may_ask);
  assert_sparse(&view, bytes.region_size);
  region_view_close(&view);
}

/* To users without rights on the memory, mincore(2) says that each page is
 * resident. */
TEST(a_reader_that_may_not_ask_for_pages_reads_the_same) {
  struct bytes bytes;
  struct region_view view;
  open_sparse(&view, &bytes);
  view.may_ask = false;
  assert_sparse(&view, bytes.region_size);
  const uint64_t word = 7;
  uint64_t value;
  off_t at = (off_t)bytes.region_size - 8;
  assert_int_equal(pwrite(view.memfd, &word, 8, at), 8);
  region_view_forget(&view);
  region_view_load(&view, (uint64_t)at, 1, 0, &value);
  assert_int_equal(value, 7);
  region_view_close(&view);
}

/* Makes each call fatal that takes a lock of a file, of its position or of its
 * inode: a producer may hold such a lock for ever. */
static void forbid_locks(void) {
  static const int calls[] = {SYS_lseek,    SYS_fallocate, SYS_fstatfs,
                              SYS_statfs,   SYS_flock,     SYS_write,
                              SYS_ftruncate};
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
    _exit(2);
}

TEST(reading_takes_no_lock_of_the_memory) {
  struct bytes bytes;
  struct region_view view;
  open_sparse(&view, &bytes);
  int fd = dup(view.memfd), status;
  region_view_close(&view);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct region_fault fault;
    uint64_t word;
    forbid_locks();
    if (region_view_open(&view, fd, NULL, &fault) != 0)
      _exit(3);
    for (uint64_t at = 0; at < bytes.region_size; at += 512)
      region_view_load(&view, at, 1, 0, &word);
    _exit(0);
  }
  close(fd);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

TEST(reading_a_region_of_holes_allocates_nothing) {
  struct bytes bytes = make_directory();
  int fd = memory_with(&bytes);
  /* The header claims more rows in use than were ever written. */
  struct region_directory directory;
  assert_return_code(region_directory_parse(&directory, bytes.start, bytes.size,
                                            bytes.region_size, &fault),
                     0);
  uint64_t rows = PORT_ROWS;
  assert_int_equal(
      pwrite(fd, &rows, 8, (off_t)directory.tables[PORT + 1].live_offset), 8);
  off_t first_slot = (off_t)directory.header.blocks_offset;
  region_directory_free(&directory);
  struct region_reader reader = {.producer = 1};
  assert_return_code(region_view_open(&reader.view, fd, NULL, &fault), 0);
  struct region_tile tile;
  assert_return_code(region_tile_init(&tile, &reader, PORT + 1, PORT_ROWS,
                                      REGION_WANT_BIRTHS | REGION_WANT_CORES),
                     0);
  region_tile_read(&reader, &tile, 0);
  for (uint32_t i = 0; i < tile.rows; i++)
    assert_int_equal(tile.generations[i], 0);
  off_t hole = lseek(fd, first_slot, SEEK_DATA);
  assert_true(hole < 0 && errno == ENXIO);
  region_tile_free(&tile);
  region_view_close(&reader.view);
}

TEST(a_reader_survives_garbage_in_every_byte) {
  struct bytes bytes = make_directory();
  for (unsigned seed = 1; seed <= 50; seed++) {
    int fd = memory_with(&bytes);
    unsigned char *map = mmap(NULL, bytes.region_size, PROT_READ | PROT_WRITE,
                              MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    for (size_t i = bytes.size; i < bytes.region_size; i++)
      map[i] = (unsigned char)rand_r(&seed);
    munmap(map, bytes.region_size);
    struct region_reader reader = {.producer = 1};
    assert_return_code(region_view_open(&reader.view, fd, NULL, &fault), 0);
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
