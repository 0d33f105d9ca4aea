/* Tests the calls that a producer needs in addition to counting: slots for
 * cores that a thread's affinity excludes, slots in callbacks, reading the
 * process's own region, and percore_status. */
#include "percore_config.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/memory.h"
#include "region/writer.h"
#include "region_unit.h"

static struct percore_region_status status_of(struct percore_region *region) {
  struct percore_region_status status;
  assert_return_code(percore_status(region, &status), errno);
  return status;
}

static struct percore_region *create(const struct percore_table *table,
                                     const struct percore_options *given) {
  struct percore_options options = *given;
  struct percore_region *region;
  assert_return_code(
      create_region(&region, "author", table, table != NULL, &options), errno);
  return region;
}

/* Reads a row of a region of this process with percore_read_row. */
static void read_own(uint32_t table, int slot, uint64_t *values,
                     uint32_t count) {
  struct percore_reader *reader;
  assert_return_code(percore_open(&reader, "author", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  assert_return_code(
      percore_read_row(reader, table, 0, slot, NULL, 0, values, count), errno);
  percore_close(reader);
}

/* What was printed on stderr between begin_to_listen and end_listening. */
static char said[1024];

static int saved_stderr;

static FILE *begin_to_listen(void) {
  FILE *file = tmpfile();
  fflush(stderr);
  saved_stderr = dup(2);
  dup2(fileno(file), 2);
  return file;
}

static void end_listening(FILE *file) {
  fflush(stderr);
  dup2(saved_stderr, 2);
  close(saved_stderr);
  rewind(file);
  said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
  fclose(file);
}

static size_t lines_said(void) {
  size_t lines = 0;
  for (const char *c = said; *c != '\0'; c++)
    lines += *c == '\n';
  return lines;
}

/* ---------------------------------------------------------------------------
 * Cores that the affinity of a thread excludes
 */

static cpu_set_t all_cpus;

/* Finds the first two cores that this process may use. Returns false and prints
 * a message if it may use only one. */
static bool two_cores(int *first, int *second) {
  sched_getaffinity(0, sizeof(all_cpus), &all_cpus);
  *first = *second = -1;
  for (int core = 0; core < CPU_SETSIZE && *second < 0; core++)
    if (CPU_ISSET((size_t)core, &all_cpus))
      *(*first < 0 ? first : second) = core;
  if (*second < 0)
    print_message("skipped: this process has one core only\n");
  return *second >= 0;
}

static void pin(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)core, &one);
  assert_return_code(sched_setaffinity(0, sizeof(one), &one), errno);
}

static void end(void) {
  sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
  unit_remove_runtime_dir();
}

TEST(a_thread_whose_affinity_excludes_a_core_gets_an_extra_slot) {
  int here, elsewhere;
  if (!two_cores(&here, &elsewhere))
    skip();
  struct percore_region *region = create(NULL, &(struct percore_options){0});
  pin(here);
  FILE *file = begin_to_listen();
  percore_slot_t early;
  assert_return_code(attach_thread(region, "early", elsewhere, &early), errno);
  percore_slot_t late = unit_attach(region, elsewhere);
  end_listening(file);
  assert_int_equal(lines_said(), 1);
  assert_non_null(strstr(said, "thread 'early' attaches for core"));
  assert_ptr_not_equal(early.seat->head,
                       region_block(region, (uint32_t)elsewhere));
  assert_return_code(percore_detach(late), errno);
  pin(elsewhere);
  assert_return_code(attach_thread(region, "late", elsewhere, &late), errno);
  assert_ptr_equal(late.seat->head, region_block(region, (uint32_t)elsewhere));
  percore_slot_t other = unit_attach(region, here);
  assert_ptr_not_equal(other.seat->head, region_block(region, (uint32_t)here));
  struct percore_reader *reader;
  assert_return_code(percore_open(&reader, "author", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  int labelled = 0;
  for (uint32_t s = 0; percore_reader_slot_core(reader, s) != PERCORE_NO_SLOT;
       s++)
    labelled += percore_reader_slot_core(reader, s) == elsewhere;
  assert_int_equal(labelled, 3); /* one of them is the released slot */
  percore_close(reader);
  unit_end(region);
}

TEST(without_extra_slots_such_a_thread_gets_the_cores_slot) {
  int here, elsewhere;
  if (!two_cores(&here, &elsewhere))
    skip();
  struct percore_region *region =
      create(NULL, &(struct percore_options){.extra_slots = 1, .quiet = 1});
  percore_slot_t slots[2];
  pin(here);
  FILE *file = begin_to_listen();
  for (int i = 0; i < 2; i++)
    assert_return_code(attach_another(region, elsewhere, &slots[i]), errno);
  end_listening(file);
  assert_string_equal(said, "");
  assert_ptr_equal(slots[1].seat->head,
                   region_block(region, (uint32_t)elsewhere));
  unit_end(region);
}

TEST(a_thread_that_is_not_pinned_takes_any_free_slot_before_it_is_refused) {
  int here, elsewhere;
  if (!two_cores(&here, &elsewhere))
    skip();
  struct percore_region *region =
      create(NULL, &(struct percore_options){.extra_slots = 1});
  uint32_t cores = region_possible_cores();
  percore_slot_t slot;
  FILE *file = begin_to_listen();
  for (uint32_t s = 0; s < cores + 1; s++)
    assert_return_code(attach_another(region, elsewhere, &slot), errno);
  for (int i = 0; i < 2; i++)
    assert_fails(attach_thread(region, "one more", elsewhere, &slot), ENOSPC);
  end_listening(file);
  assert_int_equal(lines_said(), 1);
  assert_non_null(strstr(said, "the counts of thread 'one more' are lost"));
  assert_non_null(strstr(said, "extra_slots"));
  unit_end(region);
}

TEST(an_extra_slot_is_taken_before_that_of_another_core) {
  int here, elsewhere;
  if (!two_cores(&here, &elsewhere))
    skip();
  struct percore_region *region =
      create(NULL, &(struct percore_options){.extra_slots = 2});
  (void)unit_attach(region, here);
  (void)unit_attach(region, here);
  percore_slot_t extra = unit_attach(region, PERCORE_NO_CORE);
  struct percore_slot_head *head = extra.seat->head;
  assert_return_code(percore_detach(extra), errno);
  assert_ptr_equal(unit_attach(region, here).seat->head, head);
  unit_end(region);
}

static void *wait_for_byte(void *argument) {
  char byte;
  assert_int_equal(read(*(int *)argument, &byte, 1), 0);
  return NULL;
}

TEST(there_are_as_many_extra_slots_as_threads) {
  enum { THREADS = 20 };
  pthread_t threads[THREADS];
  int ends[2];
  assert_return_code(pipe(ends), errno);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, wait_for_byte, &ends[0]);
  uint32_t cores = region_possible_cores();
  struct percore_region *region = create(NULL, &(struct percore_options){0});
  assert_int_equal(status_of(region).slots, cores + unit_count_threads());
  close(ends[1]);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  close(ends[0]);
  unit_end(region);
}

/* ---------------------------------------------------------------------------
 * The slot of the calling thread
 */

struct callback {
  struct percore_region *region;
  percore_slot_t got;
};

static void *call_back(void *argument) {
  struct callback *callback = argument;
  callback->got = percore_this_slot(callback->region);
  return NULL;
}

TEST(a_callback_finds_the_slot_that_its_thread_attached) {
  struct percore_region *first =
      create(NULL, &(struct percore_options){.cores = 2});
  struct percore_region *second =
      create(NULL, &(struct percore_options){.cores = 2, .instance = "2"});
  percore_slot_t in_first = unit_attach(first, 0);
  percore_slot_t in_second = unit_attach(second, 0);
  for (int i = 0; i < 2; i++) {
    assert_ptr_equal(percore_this_slot(first).seat->head, in_first.seat->head);
    assert_ptr_equal(percore_this_slot(second).seat->head,
                     in_second.seat->head);
  }
  assert_return_code(percore_detach(in_first), errno);
  assert_ptr_equal(percore_this_slot(first).seat->head, region_sink_head);
  assert_ptr_equal(percore_this_slot(second).seat->head, in_second.seat->head);
  assert_return_code(percore_detach(in_second), errno);
  assert_return_code(percore_destroy(first), errno);
  assert_return_code(percore_destroy(second), errno);
}

TEST(a_thread_without_a_slot_gets_a_sink) {
  struct percore_region *region =
      create(NULL, &(struct percore_options){.cores = 2});
  struct callback callback = {.region = region};
  pthread_t thread;
  (void)unit_attach(region, 0);
  pthread_create(&thread, NULL, call_back, &callback);
  pthread_join(thread, NULL);
  assert_ptr_equal(callback.got.seat->head, region_sink_head);
  assert_ptr_equal(percore_this_slot(NULL).seat->head, region_sink_head);
  unit_end(region);
}

/* ---------------------------------------------------------------------------
 * Reading the process's own region
 */

TEST(a_producer_reads_its_own_region_without_serving_it) {
  struct percore_region *region =
      create(NULL, &(struct percore_options){.cores = 2});
  uint64_t values[6];
  percore_slot_t slot = unit_attach(region, 1);
  percore_poll(slot, 7, percore_polled_(slot.seat->head) + 10);
  read_own(PERCORE_TABLE_CORE, 1, values, 6);
  assert_int_equal(values[0], 10);
  assert_int_equal(values[5], 7);
  unit_end(region);
}

TEST(a_reader_in_the_producer_follows_the_next_region) {
  struct percore_options options = {.cores = 2};
  struct percore_region *region = create(NULL, &options);
  struct percore_reader *reader;
  assert_return_code(percore_open(&reader, "author", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  assert_int_equal(percore_refresh(reader), 0);
  assert_int_equal(percore_reader_state(reader, NULL), PERCORE_ALIVE);
  assert_return_code(percore_destroy(region), errno);
  assert_fails(percore_refresh(reader), ENOENT);
  assert_int_equal(percore_reader_state(reader, NULL), PERCORE_GONE);
  assert_string_not_equal(reader_error(reader), "");
  region = create(NULL, &options);
  assert_int_equal(percore_refresh(reader), 1);
  assert_string_equal(reader_error(reader), "");
  percore_close(reader);
  assert_return_code(percore_destroy(region), errno);
}

static const struct percore_field gauge_fields[] = {
    {.name = "least", .kind = PERCORE_GAUGE, .aggregation = PERCORE_MIN},
    {.name = "each", .kind = PERCORE_GAUGE, .aggregation = PERCORE_NONE},
    {.name = "count"},
};
static const struct percore_table gauges = {
    .name = "gauges", .fields = gauge_fields, .field_count = 3};

TEST(a_reader_sees_each_slot_the_minimum_and_the_sum) {
  struct percore_region *region =
      create(&gauges, &(struct percore_options){.cores = 2});
  percore_slot_t slots[2];
  uint64_t values[3];
  uint32_t table = 0;
  uint32_t shared = 0;
  for (int s = 0; s < 2; s++) {
    assert_return_code(attach_thread(region, "a", s, &slots[s]), errno);
    percore_row_t row = percore_row(percore_table(slots[s], table), 0);
    percore_set(row, 0, 9 - s);
    percore_set(row, 1, 20 + s);
    percore_add(row, 2, 1);
  }
  percore_shared_add(percore_shared_row(region, shared, 0), 2, 5);
  read_own(0, PERCORE_TOTAL, values, 3);
  assert_int_equal(values[0], 8);
  assert_int_equal(values[2], 7);
  for (int s = 0; s < 2; s++) {
    read_own(0, s, values, 3);
    assert_int_equal(values[1], 20 + s);
    assert_return_code(percore_detach(slots[s]), errno);
  }
  assert_return_code(percore_destroy(region), errno);
}

static const struct percore_field signed_fields[] = {
    {.name = "least", .kind = PERCORE_GAUGE, .aggregation = PERCORE_MIN},
    {.name = "most", .kind = PERCORE_GAUGE, .aggregation = PERCORE_MAX},
    {.name = "sum", .kind = PERCORE_GAUGE},
};
static const struct percore_table signed_table = {
    .name = "signed", .fields = signed_fields, .field_count = 3};

TEST(negative_gauges_are_less_than_others) {
  struct percore_region *region =
      create(&signed_table, &(struct percore_options){.cores = 2});
  static const int64_t of_core[2] = {3, -5};
  percore_slot_t slots[2];
  uint64_t values[3];
  uint32_t table = 0;
  for (int s = 0; s < 2; s++) {
    assert_return_code(attach_thread(region, "a", s, &slots[s]), errno);
    for (uint32_t column = 0; column < 3; column++)
      percore_set(percore_row(percore_table(slots[s], table), 0), column,
                  of_core[s]);
  }
  read_own(0, PERCORE_TOTAL, values, 3);
  assert_int_equal((int64_t)values[0], -5);
  assert_int_equal((int64_t)values[1], 3);
  assert_int_equal((int64_t)values[2], -2);
  for (int s = 0; s < 2; s++)
    assert_return_code(percore_detach(slots[s]), errno);
  assert_return_code(percore_destroy(region), errno);
}

static const struct percore_field one_field[] = {{.name = "packets"}};
static const struct percore_table stations = {.name = "station",
                                              .storage = PERCORE_OWNED,
                                              .fields = one_field,
                                              .field_count = 1,
                                              .max_rows = 2};

TEST(a_key_is_shown_in_the_format_of_its_table) {
  static const struct {
    uint32_t format;
    uint64_t key;
    const char *name;
  } cases[] = {
      {PERCORE_KEY_DECIMAL, UINT64_MAX, "18446744073709551615"},
      {PERCORE_KEY_HEX, 0xabcdef, "0000000000abcdef"},
      {PERCORE_KEY_IPV4, 0xc0000201, "192.0.2.1"},
      {PERCORE_KEY_MAC, 0x0200fedc010a, "02:00:fe:dc:01:0a"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct percore_table table = stations;
    table.key = cases[i].format;
    struct percore_region *region =
        create(&table, &(struct percore_options){.cores = 2});
    struct percore_reader *reader;
    uint64_t value;
    char name[32];
    uint32_t row = unit_row_of_key(region, 0, cases[i].key);
    assert_return_code(percore_open(&reader, "author", NULL), errno);
    assert_int_equal(percore_refresh(reader), 1);
    assert_return_code(percore_read_row(reader, 0, row, PERCORE_TOTAL, name,
                                        sizeof(name), &value, 1),
                       errno);
    assert_string_equal(name, cases[i].name);
    percore_close(reader);
    assert_return_code(percore_destroy(region), errno);
  }
}

/* ---------------------------------------------------------------------------
 * percore_status
 */

TEST(the_status_reports_slots_and_refused_calls) {
  struct percore_region *region = create(
      &stations, &(struct percore_options){.cores = 1, .extra_slots = 1});
  percore_slot_t slots[3];
  uint32_t row;
  for (int s = 0; s < 3; s++)
    attach_another(region, 0, &slots[s]);
  for (uint64_t key = 0; key < 5; key++)
    make_row_key(region, 0, key, &row);
  struct percore_region_status status = status_of(region);
  assert_int_equal(status.served, 1);
  assert_int_equal(status.error, 0);
  assert_non_null(strstr(status.reason, "failed calls of percore_attach: 1"));
  assert_non_null(strstr(status.reason, "extra_slots to at least 2"));
  assert_int_equal(status.slots, 2);
  assert_int_equal(status.slots_attached, 2);
  assert_int_equal(status.attaches_refused, 1);
  assert_int_equal(status.adds_refused, 3);
  percore_detach(slots[0]);
  percore_detach(slots[1]);
  assert_int_equal(status_of(region).slots_attached, 0);
  assert_return_code(percore_destroy(region), errno);
}

REGION_TEST(only_an_attach_that_finds_no_slot_is_counted_as_refused) {
  percore_slot_t slot;
  FILE *file = begin_to_listen();
  for (int tries = 0; tries < 3; tries++)
    assert_fails(
        attach_thread(region, "a", (int)region->header.core_count, &slot),
        EINVAL);
  end_listening(file);
  assert_int_equal(lines_said(), 1);
  assert_non_null(strstr(said, "the counts of thread 'a' are lost"));
  assert_int_equal(status_of(region).attaches_refused, 0);
  assert_string_equal(status_of(region).reason, "");
}

REGION_TEST(a_long_name_of_a_thread_makes_no_long_line) {
  char name[1000];
  percore_slot_t slot;
  memset(name, 'x', sizeof(name));
  name[sizeof(name) - 1] = '\0';
  FILE *file = begin_to_listen();
  assert_fails(attach_thread(region, name, -3, &slot), EINVAL);
  end_listening(file);
  assert_int_equal(lines_said(), 1);
  assert_in_range(strlen(said), 100, 512);
}

REGION_TEST(a_long_name_of_a_thread_is_cut_to_39_bytes) {
  static const char name[] = "abcdefghijklmnopqrstuvwxyz-0123456789-012345";
  struct region_slot_view view;
  percore_slot_t slot;
  assert_return_code(attach_thread(region, name, 1, &slot), errno);
  UNIT_READER(reader);
  region_reader_slot(reader, 1, &view);
  assert_string_equal(view.name, "abcdefghijklmnopqrstuvwxyz-0123456789-0");
  assert_return_code(percore_detach(slot), errno);
}

TEST(a_sink_prints_its_reason_once) {
  struct percore_options options = {0};
  struct percore_region *region;
  FILE *file = begin_to_listen();
  for (int tries = 0; tries < 20; tries++)
    assert_fails(create_region(&region, "Author", NULL, 0, &options), EINVAL);
  end_listening(file);
  assert_int_equal(lines_said(), 1);
}

TEST(a_region_that_is_not_served_prints_its_reason_once) {
  struct percore_options options = {.runtime_dir = "/nonexistent"};
  struct percore_region *region;
  FILE *file = begin_to_listen();
  for (int tries = 0; tries < 20; tries++) {
    assert_fails(create_region(&region, "author", NULL, 0, &options), ENOENT);
  }
  end_listening(file);
  assert_int_equal(lines_said(), 1);
  assert_non_null(strstr(said,
                         "region 'author' cannot be made in /nonexistent: "
                         "No such file or directory"));
  struct percore_region_status status = status_of(region);
  assert_int_equal(status.served, 0);
  assert_int_equal(status.error, ENOENT);
  assert_non_null(strstr(said, status.reason));
  assert_return_code(percore_destroy(region), errno);
}

TEST(names_of_rows_without_max_rows_are_refused) {
  static const struct percore_field field = {.name = "rx"};
  static const struct percore_table table = {
      .name = "port", .fields = &field, .field_count = 1, .row_name_size = 24};
  const struct percore_options options = {.quiet = 1};
  struct percore_region *region;
  assert_int_equal(create_region(&region, "author", &table, 1, &options), -1);
  assert_int_equal(status_of(region).error, EINVAL);
  assert_non_null(strstr(status_of(region).reason, "but max_rows is 0"));
  assert_return_code(percore_destroy(region), errno);
}

TEST(a_quiet_sink_prints_nothing_and_keeps_its_reason) {
  struct percore_options options = {.quiet = 1};
  struct percore_region *region;
  FILE *file = begin_to_listen();
  assert_int_equal(create_region(&region, "no such name", NULL, 0, &options),
                   -1);
  end_listening(file);
  assert_string_equal(said, "");
  assert_int_equal(status_of(region).error, EINVAL);
  assert_return_code(percore_destroy(region), errno);
}

TEST(the_reason_names_the_rule_that_a_description_breaks) {
  static const struct percore_field good = {.name = "rx"};
  static const struct percore_field bad_name = {.name = "RX"};
  static const struct percore_field no_buckets = {
      .name = "delay", .kind = PERCORE_HISTOGRAM, .sub_bits = 9};
  static const struct {
    const char *name, *instance, *table;
    const struct percore_field *field;
    uint32_t extra_slots;
    const char *reason;
  } cases[] = {
      {"author", NULL, "port", &bad_name, 0,
       "region 'author' is refused: table port, field #0: its name must be "},
      {"author", NULL, "port", &no_buckets, 0,
       "table port, field delay: its sub_bits is 9; it must be 0 to 8"},
      {"author", NULL, "host", &good, 0, "table host: its name must be "},
      {"Author", NULL, "port", &good, 0, "the region's name must be "},
      {"author", ".", "port", &good, 0, "the instance's name must be "},
      {"author", NULL, "port", &good, 20000, "(cores and extra slots) is 2"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct percore_table table = {
        .name = cases[i].table, .fields = cases[i].field, .field_count = 1};
    struct percore_options options = {.instance = cases[i].instance,
                                      .extra_slots = cases[i].extra_slots};
    struct percore_region *region;
    FILE *file = begin_to_listen();
    int status = create_region(&region, cases[i].name, &table, 1, &options);
    int error = errno;
    end_listening(file);
    assert_int_equal(status, -1);
    assert_int_equal(error, EINVAL);
    if (strstr(status_of(region).reason, cases[i].reason) == NULL)
      fail_msg("%s does not say: %s", status_of(region).reason,
               cases[i].reason);
    assert_non_null(strstr(said, status_of(region).reason));
  }
}

TEST(tables_that_are_not_given_are_not_said_to_be_too_many) {
  const struct percore_options options = {.quiet = 1};
  struct percore_region *region;
  assert_fails(create_region(&region, "author", NULL, 3, &options), EINVAL);
  assert_non_null(strstr(status_of(region).reason, "tables is NULL"));
}

TEST(the_reason_says_how_to_create_a_missing_directory) {
  struct percore_options options = {.runtime_dir = "/nonexistent", .quiet = 1};
  struct percore_region *region;
  assert_int_equal(create_region(&region, "author", NULL, 0, &options), -1);
  assert_non_null(strstr(status_of(region).reason, "systemd-sysusers;"));
  assert_non_null(strstr(status_of(region).reason,
                         "systemd-tmpfiles --create --prefix=/run/percore"));
}

TEST(a_forked_child_learns_that_its_region_is_a_sink) {
  struct percore_region *region =
      create(NULL, &(struct percore_options){.cores = 2});
  percore_slot_t slot = unit_attach(region, 0);
  pid_t child = fork();
  if (child == 0) {
    struct percore_region_status status;
    percore_status(region, &status);
    percore_slot_t mine = percore_this_slot(region);
    percore_poll(mine, 1, 0);
    _exit(status.served == 0 && status.error == ENODEV &&
                  mine.seat->head != slot.seat->head
              ? 0
              : 1);
  }
  int left;
  assert_int_equal(waitpid(child, &left, 0), child);
  assert_int_equal(left, 0);
  unit_end(region);
}

/* Asserts that a child lives, and counts in a sink, where no more of a resource
 * is allowed when it is forked. */
static void fork_at_limit(struct percore_region *region, int resource,
                          rlim_t most) {
  percore_table_t flows = unit_owned_table(region, FLOW);
  uint32_t row = unit_row_of_key(region, FLOW, 7);
  struct rlimit before, limit = {.rlim_cur = most};
  int status;
  assert_return_code(getrlimit(resource, &before), errno);
  limit.rlim_max = before.rlim_max;
  assert_return_code(setrlimit(resource, &limit), errno);
  pid_t child = fork();
  if (child == 0) {
    percore_add(percore_row(flows, row), PACKETS, 5);
    _exit(9);
  }
  assert_return_code(setrlimit(resource, &before), errno);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 9 << 8);
  assert_int_equal(unit_read(FLOW, row, PACKETS), 0);
}

/* Of a limit of 0, the kernel asks only the maximum. */
TEST(a_forked_child_lives_where_no_private_memory_is_allowed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  print_message("skipped: the sanitizer takes private memory\n");
  skip();
#endif
  UNIT_REGION(region);
  fork_at_limit(region, RLIMIT_DATA, 1);
}

REGION_TEST(a_forked_child_lives_where_no_descriptor_may_be_opened) {
  fork_at_limit(region, RLIMIT_NOFILE, 0);
}

TEST(a_status_of_an_older_size_is_filled_up_to_its_size) {
  struct percore_region *region =
      create(NULL, &(struct percore_options){.cores = 2});
  struct percore_region_status status = {.slots = 77};
  assert_fails(percore_status_(region, &status, SIZE_MAX), EINVAL);
  assert_return_code(
      percore_status_(region, &status,
                      offsetof(struct percore_region_status, slots)),
      errno);
  assert_int_equal(status.served, 1);
  assert_int_equal(status.slots, 77);
  assert_return_code(percore_destroy(region), errno);
}

/* ---------------------------------------------------------------------------
 * Programs that were compiled with a newer percore.h
 */

struct newer_options {
  struct percore_options options;
  uint64_t newer;
};
TEST(a_member_that_the_library_does_not_know_must_be_0) {
  struct newer_options given = {.options = {.cores = 2, .quiet = 1}};
  struct percore_region *region =
      percore_create_("author", NULL, 0, &given.options, sizeof(given));
  assert_int_equal(errno, 0);
  assert_return_code(percore_destroy(region), errno);
  given.newer = 1;
  region = percore_create_("author", NULL, 0, &given.options, sizeof(given));
  assert_int_equal(errno, EINVAL);
  assert_non_null(strstr(status_of(region).reason, "install a newer one"));
}

TEST(what_the_library_does_not_know_of_a_status_is_0) {
  struct {
    struct percore_region_status status;
    uint64_t newer;
  } newer = {.newer = 5};
  struct percore_region *region =
      create(NULL, &(struct percore_options){.cores = 2});
  assert_return_code(percore_status_(region, &newer.status, sizeof(newer)),
                     errno);
  assert_int_equal(newer.status.served, 1);
  assert_int_equal(newer.newer, 0);
  assert_return_code(percore_destroy(region), errno);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = end,
};
