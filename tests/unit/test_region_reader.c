/* Readers: coming and going of producers, rows and resets. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "region/accounts.h"
#include "region_unit.h"

static void a_reader_may_come_before_the_producer(void **state) {
  (void)state;
  struct region_reader_options options = {.hello_wait_ms = 5000};
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_presence(reader), REGION_ABSENT);
  assert_int_equal(region_reader_errno(reader), ENOENT);
  assert_null(region_reader_directory(reader));
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  assert_string_equal(region_reader_error(reader), "");
  assert_int_equal(region_reader_pid(reader), getpid());
  assert_int_equal(region_reader_uid(reader), getuid());
  region_reader_close(reader);
  assert_return_code(percore_destroy(region), 0);
}

static void
the_last_values_of_a_producer_can_be_read_after_it_left(void **state) {
  (void)state;
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  percore_shared_table_t slow;
  uint32_t row;
  uint64_t values[2];
  assert_return_code(percore_shared_table(region, SLOW, &slow), 0);
  assert_return_code(percore_row_add(region, SLOW, "cli", &row), 0);
  struct region_reader *reader = unit_connect();
  percore_shared_add(percore_shared_row(slow, row), 0, 12);
  assert_return_code(percore_destroy(region), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_int_equal(region_reader_presence(reader), REGION_LEFT);
  unit_totals(reader, SLOW, row, values);
  assert_int_equal(values[0], 12);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_reset(reader, 1, 0, 10), -1);
  region = unit_create(PERCORE_SERVE_THREAD);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  assert_int_equal(region_reader_producer(reader), 2);
  assert_int_equal(region_reader_rows(reader, SLOW + 1), 0);
  region_reader_close(reader);
  assert_return_code(percore_destroy(region), 0);
}

static bool refuse_user(uid_t uid, void *argument) {
  return uid != *(uid_t *)argument;
}

static void a_producer_of_a_user_who_is_not_allowed_is_refused(void **state) {
  (void)state;
  uid_t refused = getuid();
  struct region_reader_options options = {
      .hello_wait_ms = 5000, .may_read = refuse_user, .argument = &refused};
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_errno(reader), EACCES);
  refused++;
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  region_reader_close(reader);
  assert_return_code(percore_destroy(region), 0);
}

/* ---------------------------------------------------------------------------
 * Producers that are none
 */

static int listen_as_unit(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s/unit.sock",
           getenv("PERCORE_RUNTIME_DIR"));
  unlink(address.sun_path);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_return_code(bind(fd, (void *)&address, sizeof(address)), errno);
  assert_return_code(listen(fd, 4), errno);
  return fd;
}

/* Answers one connection with a HELLO that carries so many copies of passed. */
static void say_hello(int listener, int passed, int copies) {
  int fd = accept(listener, NULL, NULL);
  assert_true(fd >= 0);
  struct region_message hello = {.magic = REGION_MESSAGE_MAGIC,
                                 .version = REGION_MESSAGE_VERSION,
                                 .type = REGION_HELLO,
                                 .length = sizeof(hello)};
  struct iovec part = {&hello, sizeof(hello)};
  char control[CMSG_SPACE(4 * sizeof(int))] = {0};
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
  if (copies > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE((size_t)copies * sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN((size_t)copies * sizeof(int));
    for (int i = 0; i < copies; i++)
      memcpy(CMSG_DATA(rights) + (size_t)i * sizeof(int), &passed, sizeof(int));
  }
  assert_int_equal(sendmsg(fd, &header, 0), sizeof(hello));
  close(fd);
}

static int sealed_memory(const char *text, size_t size, int seals) {
  int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_return_code(ftruncate(fd, (off_t)size), errno);
  assert_true(pwrite(fd, text, strlen(text), 0) >= 0);
  if (seals != 0)
    assert_return_code(fcntl(fd, F_ADD_SEALS, seals), errno);
  return fd;
}

static unsigned count_descriptors(void) {
  unsigned count = 0;
  for (int fd = 0; fd < 256; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static void what_is_no_region_is_refused_with_a_reason(void **state) {
  (void)state;
  enum { ALL = F_SEAL_SHRINK | F_SEAL_GROW | 0x10 | F_SEAL_SEAL };
  static const struct {
    const char *text;
    size_t size;
    int seals, copies;
    const char *why;
  } cases[] = {
      {"", 4096, ALL, 0, "without a descriptor"},
      {"PERCORE1", 4096, 0, 1, "not sealed"},
      {"PERCORE1", 4096, F_SEAL_SHRINK | F_SEAL_GROW, 1, "not sealed"},
      {"", 0, ALL, 1, "no size"},
      {"PERCORE1", 100, ALL, 1, "too short"},
      {"VARNISH4", 4096, ALL, 1, "does not begin as a region"},
      {"PERCORE1", 4096, ALL, 4, "byte order"},
      {"", (size_t)1 << 40, ALL, 1, "larger than allowed"},
  };
  struct region_reader_options options = {.hello_wait_ms = 100};
  struct region_reader *reader;
  int listener = listen_as_unit();
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  unsigned before = count_descriptors();
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    int fd = sealed_memory(cases[i].text, cases[i].size, cases[i].seals);
    options.hello_wait_ms = 0;
    region_reader_refresh(reader); /* connects, and waits for HELLO in vain */
    say_hello(listener, fd, cases[i].copies);
    close(fd);
    assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
    if (strstr(region_reader_error(reader), cases[i].why) == NULL)
      fail_msg("\"%s\" has no \"%s\"", region_reader_error(reader),
               cases[i].why);
    assert_int_equal(region_reader_errno(reader), EPROTO);
    assert_int_equal(count_descriptors(), before);
  }
  region_reader_close(reader);
  close(listener);
}

/* ---------------------------------------------------------------------------
 * Accounts
 */

struct ledger {
  struct region_reader *reader;
  struct region_accounts *accounts;
  uint64_t round;
};

/* The account of a port by name, one column: over all cores, or of one. */
static uint64_t balance(struct ledger *ledger, const char *name, int core) {
  struct region_tile tile;
  const struct region_account *found[PORT_ROWS];
  uint64_t value = UINT64_MAX;
  assert_return_code(region_tile_init(&tile, ledger->reader, PORT + 1,
                                      PORT_ROWS,
                                      REGION_WANT_BIRTHS | REGION_WANT_CORES),
                     0);
  region_tile_read(ledger->reader, &tile, 0);
  assert_return_code(region_accounts_take(ledger->accounts, ledger->reader,
                                          &tile, ++ledger->round, found),
                     0);
  for (uint32_t i = 0; i < tile.rows; i++)
    if (found[i] != NULL && strcmp(found[i]->name, name) == 0)
      value = core < 0
                  ? found[i]->totals[PACKETS]
                  : found[i]->cores[(uint32_t)core * tile.columns + PACKETS];
  region_tile_free(&tile);
  return value;
}

struct counting {
  struct percore_region *region;
  percore_slot_t slot;
  percore_core_table_t ports;
};

static struct counting start_counting(int core) {
  struct counting counting = {.region = unit_create(PERCORE_SERVE_THREAD)};
  assert_return_code(percore_core_table(counting.region, PORT, &counting.ports),
                     0);
  assert_return_code(
      percore_attach(counting.region, NULL, core, &counting.slot), 0);
  return counting;
}

static void stop_counting(struct counting *counting) {
  assert_return_code(percore_detach(counting->region, counting->slot), 0);
  assert_return_code(percore_destroy(counting->region), 0);
}

static void count(struct counting *counting, uint32_t row, uint64_t n) {
  percore_add(percore_core_row(counting->slot, counting->ports, row), PACKETS,
              n);
}

static struct ledger open_ledger(void) {
  struct ledger ledger = {.reader = unit_connect(),
                          .accounts = region_accounts_new(REGION_WANT_CORES)};
  assert_non_null(ledger.accounts);
  return ledger;
}

static void close_ledger(struct ledger *ledger) {
  assert_int_equal(region_accounts_steps_back(ledger->accounts), 0);
  region_accounts_free(ledger->accounts);
  region_reader_close(ledger->reader);
}

static void an_account_goes_on_over_a_reset(void **state) {
  (void)state;
  struct counting counting = start_counting(1);
  struct ledger ledger = open_ledger();
  uint32_t row;
  assert_return_code(percore_row_add(counting.region, PORT, "eth0", &row), 0);
  count(&counting, row, 10);
  assert_int_equal(balance(&ledger, "eth0", -1), 10);
  count(&counting, row, 4);
  assert_return_code(percore_reset(counting.region, PORT, row), 0);
  count(&counting, row, 1);
  assert_int_equal(balance(&ledger, "eth0", -1), 15);
  assert_int_equal(balance(&ledger, "eth0", 1), 15);
  assert_int_equal(balance(&ledger, "eth0", 2), 0);
  close_ledger(&ledger);
  stop_counting(&counting);
}

static void an_account_goes_on_when_its_row_comes_again(void **state) {
  (void)state;
  struct counting counting = start_counting(0);
  struct ledger ledger = open_ledger();
  uint32_t row, other;
  assert_return_code(percore_row_add(counting.region, PORT, "eth0", &row), 0);
  count(&counting, row, 10);
  assert_int_equal(balance(&ledger, "eth0", -1), 10);
  count(&counting, row, 5); /* seen only as a removed row */
  assert_return_code(percore_row_remove(counting.region, PORT, row, 0), 0);
  percore_quiescent(counting.slot);
  assert_return_code(percore_row_add(counting.region, PORT, "eth0", &other), 0);
  assert_int_not_equal(other, row);
  count(&counting, other, 2);
  assert_int_equal(balance(&ledger, "eth0", -1), 17);
  count(&counting, other, 1);
  assert_int_equal(balance(&ledger, "eth0", -1), 18);
  assert_int_equal(balance(&ledger, "eth0", 0), 18);
  close_ledger(&ledger);
  stop_counting(&counting);
}

static void a_row_used_again_begins_an_account_of_its_own(void **state) {
  (void)state;
  struct counting counting = start_counting(0);
  struct ledger ledger = open_ledger();
  uint32_t rows[PORT_ROWS], row;
  char name[8];
  for (int i = 0; i < PORT_ROWS; i++) {
    snprintf(name, sizeof(name), "eth%d", i);
    assert_return_code(percore_row_add(counting.region, PORT, name, &rows[i]),
                       0);
    count(&counting, rows[i], 1000);
  }
  assert_int_equal(balance(&ledger, "eth2", -1), 1000);
  assert_return_code(percore_row_remove(counting.region, PORT, rows[2], 0), 0);
  count(&counting, rows[2], 7); /* the worker still holds the old row */
  /* shown once more with its last counts, then no longer */
  assert_int_equal(balance(&ledger, "eth2", -1), 1007);
  assert_int_equal(balance(&ledger, "eth2", -1), UINT64_MAX);
  percore_quiescent(counting.slot);
  assert_return_code(percore_row_add(counting.region, PORT, "new", &row), 0);
  assert_int_equal(row, rows[2]);
  count(&counting, row, 3);
  assert_int_equal(balance(&ledger, "new", -1), 3);
  /* the counts of one core before the first look cannot be told apart */
  assert_int_equal(balance(&ledger, "new", 0), 0);
  count(&counting, row, 2);
  assert_int_equal(balance(&ledger, "new", 0), 2);
  assert_int_equal(balance(&ledger, "eth2", -1), UINT64_MAX);
  close_ledger(&ledger);
  stop_counting(&counting);
}

static void an_account_goes_on_with_the_next_producer(void **state) {
  (void)state;
  struct counting counting = start_counting(3);
  struct ledger ledger = open_ledger();
  uint32_t row;
  assert_return_code(percore_row_add(counting.region, PORT, "eth0", &row), 0);
  count(&counting, row, 100);
  assert_int_equal(balance(&ledger, "eth0", 3), 100);
  count(&counting, row, 11);
  stop_counting(&counting);
  assert_int_equal(region_reader_refresh(ledger.reader), REGION_WENT);
  assert_int_equal(balance(&ledger, "eth0", -1), 111);
  counting = start_counting(3);
  assert_int_equal(region_reader_refresh(ledger.reader), REGION_CAME);
  assert_return_code(percore_row_add(counting.region, PORT, "x", &row), 0);
  assert_return_code(percore_row_add(counting.region, PORT, "eth0", &row), 0);
  count(&counting, row, 4);
  assert_int_equal(balance(&ledger, "eth0", -1), 115);
  assert_int_equal(balance(&ledger, "eth0", 3), 115);
  close_ledger(&ledger);
  stop_counting(&counting);
}

static void names_not_seen_for_long_are_forgotten(void **state) {
  (void)state;
  struct counting counting = start_counting(0);
  struct ledger ledger = open_ledger();
  uint32_t row;
  assert_return_code(percore_row_add(counting.region, PORT, "eth0", &row), 0);
  count(&counting, row, 10);
  assert_int_equal(balance(&ledger, "eth0", -1), 10);
  region_accounts_forget(ledger.accounts, ledger.round);
  count(&counting, row, 1);
  assert_int_equal(balance(&ledger, "eth0", -1), 11);
  assert_return_code(percore_row_remove(counting.region, PORT, row, 0), 0);
  balance(&ledger, "eth0", -1);
  region_accounts_forget(ledger.accounts, ledger.round + 1);
  assert_int_equal(balance(&ledger, "nobody", -1), UINT64_MAX);
  close_ledger(&ledger);
  stop_counting(&counting);
}

/* ---------------------------------------------------------------------------
 * The public face
 */

static void applications_read_regions_by_percore_open(void **state) {
  (void)state;
  struct counting counting = start_counting(2);
  struct percore_reader *reader;
  uint32_t row;
  uint64_t values[64];
  char name[32];
  assert_return_code(percore_row_add(counting.region, PORT, "eth0", &row), 0);
  count(&counting, row, 6);
  assert_return_code(percore_open(&reader, "unit", NULL), 0);
  assert_int_equal(percore_reader_state(reader), PERCORE_ABSENT);
  assert_int_equal(percore_refresh(reader), 1);
  assert_int_equal(percore_refresh(reader), 0);
  assert_string_equal(percore_reader_table(reader, PORT + 1)->name, "port");
  assert_null(percore_reader_table(reader, TABLES + 1));
  assert_int_equal(percore_reader_rows(reader, PORT + 1), 1);
  assert_int_equal(percore_reader_column(reader, PORT + 1, LATENCY),
                   LATENCY_COLUMN);
  assert_true(percore_reader_columns(reader, PORT + 1) < COUNT_OF(values));
  assert_int_equal(percore_read_row(reader, PORT + 1, row, PERCORE_TOTAL, name,
                                    sizeof(name), values, 64),
                   0);
  assert_string_equal(name, "eth0");
  assert_int_equal(values[PACKETS], 6);
  assert_int_equal(
      percore_read_row(reader, PORT + 1, row, 2, NULL, 0, values, 1), 0);
  assert_int_equal(values[PACKETS], 6);
  assert_int_equal(percore_reader_slot_core(reader, 2), 2);
  assert_int_equal(percore_reader_slot_core(reader, 1), -1);
  assert_int_equal(
      percore_read_row(reader, PORT + 1, row, 1, NULL, 0, values, 1), -1);
  assert_int_equal(
      percore_read_row(reader, PORT + 1, 3, PERCORE_TOTAL, NULL, 0, values, 1),
      -1);
  assert_int_equal(errno, ENOENT);
  stop_counting(&counting);
  assert_int_equal(percore_refresh(reader), -1);
  assert_int_equal(percore_reader_state(reader), PERCORE_GONE);
  assert_int_equal(percore_read_row(reader, PORT + 1, row, PERCORE_TOTAL, name,
                                    sizeof(name), values, 64),
                   0);
  percore_close(reader);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reader_may_come_before_the_producer),
      cmocka_unit_test(the_last_values_of_a_producer_can_be_read_after_it_left),
      cmocka_unit_test(a_producer_of_a_user_who_is_not_allowed_is_refused),
      cmocka_unit_test(what_is_no_region_is_refused_with_a_reason),
      cmocka_unit_test(an_account_goes_on_over_a_reset),
      cmocka_unit_test(an_account_goes_on_when_its_row_comes_again),
      cmocka_unit_test(a_row_used_again_begins_an_account_of_its_own),
      cmocka_unit_test(an_account_goes_on_with_the_next_producer),
      cmocka_unit_test(names_not_seen_for_long_are_forgotten),
      cmocka_unit_test(applications_read_regions_by_percore_open),
  };
  return cmocka_run_group_tests(tests, unit_make_runtime_dir,
                                unit_remove_runtime_dir);
}
