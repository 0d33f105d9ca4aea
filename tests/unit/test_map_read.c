/* Tests reading all entries of a map. This file simulates bpf(2). */
#include "base/bpf.h"
#include "map/map.h"

#include "unit.h"

enum { NO_BATCH = 524, ENTRIES_MAX = 20000 };

static struct {
  uint32_t entries;
  uint32_t bucket;  /* a batch fails if it has room for fewer entries */
  uint32_t removed; /* this entry is deleted before it is looked up; 0: none */
  uint32_t claimed; /* entries that a batch claims; 0: the true number */
  int batch_error;
  int batches, refused;
} kernel;

static uint32_t got[ENTRIES_MAX];
static uint32_t got_len, wanted_len;
static char why[WHY_SIZE];

static void put(uint64_t address, uint32_t index, uint32_t number) {
  memcpy((char *)(uintptr_t)address + index * sizeof(number), &number,
         sizeof(number));
}

static uint32_t take(uint64_t address) {
  uint32_t number;
  memcpy(&number, (char *)(uintptr_t)address, sizeof(number));
  return number;
}

/* Simulates BPF_MAP_LOOKUP_BATCH. The cursor is the number of entries that have
 * been read. */
static int look_up_batch(union bpf_attr *attr) {
  uint32_t room = attr->batch.count;
  uint32_t from = attr->batch.in_batch != 0 ? take(attr->batch.in_batch) : 0;
  kernel.batches++;
  attr->batch.count = 0;
  if (kernel.batch_error != 0)
    return kernel.batch_error;
  if (room < kernel.bucket) {
    kernel.refused++;
    return ENOSPC;
  }
  for (; from < kernel.entries && attr->batch.count < room; from++) {
    put(attr->batch.keys, attr->batch.count, from);
    put(attr->batch.values, attr->batch.count++, from * 3);
  }
  put(attr->batch.out_batch, 0, from);
  if (kernel.claimed != 0)
    attr->batch.count = kernel.claimed;
  return from == kernel.entries ? ENOENT : 0;
}

static int next_key(const union bpf_attr *attr) {
  uint32_t next = attr->key != 0 ? take(attr->key) + 1 : 0;
  if (next >= kernel.entries)
    return ENOENT;
  put(attr->next_key, 0, next);
  return 0;
}

static int look_up(const union bpf_attr *attr) {
  uint32_t key = take(attr->key);
  if (key == kernel.removed && key != 0)
    return ENOENT;
  put(attr->value, 0, key * 3);
  return 0;
}

/* Replaces the function of the C library. */
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  int command = va_arg(list, int);
  union bpf_attr *attr = va_arg(list, union bpf_attr *);
  va_end(list);
  int error = command == BPF_MAP_LOOKUP_BATCH   ? look_up_batch(attr)
              : command == BPF_MAP_GET_NEXT_KEY ? next_key(attr)
              : command == BPF_MAP_LOOKUP_ELEM  ? look_up(attr)
                                                : EPERM;
  errno = error;
  return error != 0 ? -1 : 0;
}

static bool note(void *context, const void *key, const void *values) {
  (void)context;
  uint32_t number = take((uintptr_t)key);
  assert_int_equal(take((uintptr_t)values), number * 3);
  got[got_len++] = number;
  return got_len < wanted_len;
}

static int read_entries(uint32_t entries) {
  struct map map = {.info = {.key_size = sizeof(uint32_t),
                             .value_size = sizeof(uint32_t),
                             .max_entries = 10},
                    .copies = 1,
                    .stride = sizeof(uint32_t)};
  kernel.entries = entries;
  return map_read(&map, note, NULL, why);
}

static void assert_got(uint32_t entries) {
  assert_int_equal(got_len, entries);
  for (uint32_t i = 0; i < entries; i++)
    assert_int_equal(got[i], i);
}

static void begin(void) {
  memset(&kernel, 0, sizeof(kernel));
  got_len = 0;
  wanted_len = UINT32_MAX;
  why[0] = '\0';
}

TEST(every_entry_is_read_once_in_batches) {
  for (uint32_t entries = 0; entries < 35; entries++) {
    begin();
    assert_int_equal(read_entries(entries), 0);
    assert_got(entries);
    assert_in_range(kernel.batches, 1, 4);
  }
}

TEST(a_bucket_that_does_not_fit_doubles_the_batch) {
  kernel.bucket = 33;
  assert_int_equal(read_entries(100), 0);
  assert_got(100);
  assert_int_equal(kernel.refused, 2); /* 10, 20; then 40 */
}

TEST(a_batch_does_not_grow_for_ever) {
  kernel.bucket = UINT32_MAX;
  assert_int_equal(read_entries(100), -ENOSPC);
  assert_non_null(strstr(why, "No space left"));
  assert_in_range(kernel.refused, 10, 40);
}

TEST(without_batches_entries_are_read_one_by_one) {
  static const int errors[] = {NO_BATCH, EINVAL, EOPNOTSUPP};
  for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
    begin();
    kernel.batch_error = errors[e];
    assert_int_equal(read_entries(50), 0);
    assert_got(50);
  }
}

TEST(an_entry_that_is_deleted_meanwhile_is_left_out) {
  kernel.batch_error = NO_BATCH;
  kernel.removed = 7;
  assert_int_equal(read_entries(50), 0);
  assert_int_equal(got_len, 49);
  assert_int_equal(got[7], 8);
}

TEST(at_most_ten_thousand_entries_are_read_one_by_one) {
  kernel.batch_error = NO_BATCH;
  assert_int_equal(read_entries(10000), 0);
  assert_got(10000);
  begin();
  kernel.batch_error = NO_BATCH;
  assert_int_equal(read_entries(10001), 1);
  assert_got(10000);
}

TEST(a_pass_ends_when_its_reader_has_enough) {
  wanted_len = 5;
  assert_int_equal(read_entries(50), 1);
  assert_got(5);
  begin();
  wanted_len = 5;
  kernel.batch_error = NO_BATCH;
  assert_int_equal(read_entries(50), 1);
  assert_got(5);
}

TEST(a_batch_that_claims_too_much_is_refused) {
  kernel.claimed = 11;
  assert_int_equal(read_entries(50), -EIO);
  assert_int_equal(got_len, 0);
}

TEST(other_errors_are_said) {
  kernel.batch_error = EPERM;
  assert_int_equal(read_entries(50), -EPERM);
  assert_non_null(strstr(why, "cannot read its entries: Operation not"));
}

const struct unit_fixtures unit_fixtures = {.before_each = begin};
