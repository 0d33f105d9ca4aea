/* Tests reading all entries of a map. This file simulates bpf(2). */
#include "base/bpf.h"
#include "map/map.h"

#include "unit.h"

enum { ENTRIES_MAX = 200 };

static struct {
  uint32_t entries;
  uint32_t bucket;  /* a batch fails if it has room for fewer entries */
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

/* Replaces the function of the C library. */
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  int command = va_arg(list, int);
  union bpf_attr *attr = va_arg(list, union bpf_attr *);
  va_end(list);
  int error = command == BPF_MAP_LOOKUP_BATCH ? look_up_batch(attr) : EPERM;
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

TEST(a_pass_ends_when_its_reader_has_enough) {
  wanted_len = 5;
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
