/* Tests regions in which the children of fork(2) count: options.inherit. */
#include "percore_config.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/writer.h"
#include "region_unit.h"

static struct percore_region *create(const char *name) {
  const struct percore_options options = {
      .cores = 4, .extra_slots = 2, .inherit = 1};
  struct percore_region *region;
  assert_return_code(
      create_region(&region, name, unit_tables, TABLES, &options), errno);
  return region;
}

/* Defines a test of `region`, in which children count. */
#define INHERIT_TEST(sentence)                                                 \
  static void sentence##_of(struct percore_region *region);                    \
  TEST(sentence) {                                                             \
    struct percore_region *region = create("unit");                            \
    sentence##_of(region);                                                     \
    unit_end(region);                                                          \
  }                                                                            \
  static void sentence##_of(struct percore_region *region)

/* Runs a function in a child, which ends with what it returns. */
static pid_t start(int (*child)(struct percore_region *),
                   struct percore_region *region) {
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    alarm(60);
    _exit(child(region));
  }
  return pid;
}

static int await(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return status;
}

static void in_child(int (*child)(struct percore_region *),
                     struct percore_region *region) {
  assert_int_equal(await(start(child, region)), 0);
}

/* Adds n to a column of the only row of GLOBALS. */
static void count(percore_slot_t slot, uint64_t n) {
  percore_add(percore_row(percore_table(slot, GLOBALS), 0), 0, n);
}

static uint64_t counted(void) {
  struct percore_reader *reader;
  uint64_t value;
  assert_return_code(percore_open(&reader, "unit", NULL), errno);
  assert_int_equal(percore_refresh(reader), 1);
  assert_return_code(
      percore_read_row(reader, GLOBALS, 0, PERCORE_TOTAL, NULL, 0, &value, 1),
      errno);
  percore_close(reader);
  return value;
}

static int attach_and_count(struct percore_region *region) {
  percore_slot_t slot;
  if (attach_thread(region, "child", PERCORE_NO_CORE, &slot) != 0 ||
      percore_this_slot(region).seat->head != slot.seat->head)
    return 1;
  count(slot, 1000);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Slots
 */

INHERIT_TEST(a_child_counts_in_the_region_of_its_parent) {
  for (int i = 0; i < 20; i++) /* more than there are slots */
    in_child(attach_and_count, region);
  assert_int_equal(counted(), 20000);
  assert_int_equal(region->shared->attach_refused, 0);
}

static int fork_again(struct percore_region *region) {
  return attach_and_count(region) == 0 &&
                 await(start(attach_and_count, region)) == 0
             ? 0
             : 1;
}

INHERIT_TEST(a_grandchild_counts_too) {
  in_child(fork_again, region);
  assert_int_equal(counted(), 2000);
}

static percore_slot_t of_parent;
static percore_row_t row_of_parent;

static int use_slot_of_parent(struct percore_region *region) {
  percore_slot_t own;
  if (percore_this_slot(region).seat->head != region_sink_head)
    return 1;
  percore_add(row_of_parent, 0, 7);
  count(of_parent, 7);
  if (percore_detach(of_parent) == 0)
    return 2;
  /* The parent's slot is that of core 1. */
  if (attach_thread(region, "child", 1, &own) != 0 ||
      own.seat->head == of_parent.seat->head)
    return 3;
  count(own, 1000);
  return percore_detach(own);
}

INHERIT_TEST(a_slot_of_the_parent_is_a_sink_in_the_child) {
  of_parent = unit_attach(region, 1);
  row_of_parent = percore_row(percore_table(of_parent, GLOBALS), 0);
  count(of_parent, 1);
  in_child(use_slot_of_parent, region);
  count(of_parent, 1);
  assert_int_equal(counted(), 1002);
}

static int end_in_section(struct percore_region *region) {
  percore_slot_t slot;
  attach_thread(region, "killed", 2, &slot);
  begin_section(slot);
  count(slot, 5);
  raise(SIGKILL);
  return 0;
}

INHERIT_TEST(a_killed_child_leaves_its_slot_and_its_counts) {
  uint32_t globals = GLOBALS;
  assert_int_equal(await(start(end_in_section, region)), SIGKILL);
  assert_int_equal(region_attached_slots(region), 0);
  percore_slot_t heir = unit_attach(region, 2);
  assert_ptr_equal(heir.seat->head, region_block(region, 2));
  begin_section(heir);
  percore_add(percore_row(percore_table(heir, globals), 0), 0, 1);
  end_section(heir);
  assert_int_equal(counted(), 6);
  assert_return_code(percore_detach(heir), errno);
  /* Nobody takes the slot this time. */
  assert_int_equal(await(start(end_in_section, region)), SIGKILL);
  /* A reader sees that the process is gone. */
  UNIT_READER(reader);
  struct region_slot_view slot;
  region_reader_slot(reader, 2, &slot);
  assert_int_equal(slot.state, REGION_GONE);
  assert_int_equal(counted(), 11);
}

/* The tid of the only process in the namespace is 1. */
static int attach_in_own_namespace(struct percore_region *region) {
  return unshare(CLONE_NEWPID) == 0 &&
                 await(start(attach_and_count, region)) == 0
             ? 0
             : 1;
}

INHERIT_TEST(children_in_other_pid_namespaces_count) {
  if (geteuid() != 0) {
    print_message("skipped: only root makes pid namespaces\n");
    return;
  }
  in_child(attach_in_own_namespace, region);
  in_child(attach_in_own_namespace, region);
  assert_int_equal(counted(), 2000);
}

static int be_refused(struct percore_region *region) {
  percore_slot_t slot;
  return attach_thread(region, "one more", PERCORE_NO_CORE, &slot) == -1 &&
                 errno == ENOSPC
             ? 0
             : 1;
}

INHERIT_TEST(children_that_find_no_slot_are_counted_and_reported_once) {
  struct percore_region_status status;
  int saved = dup(2), heard[2];
  char lines[1024];
  assert_return_code(pipe(heard), errno);
  (void)unit_attach(region, PERCORE_NO_CORE);
  (void)unit_attach(region, PERCORE_NO_CORE);
  dup2(heard[1], 2);
  for (int i = 0; i < 5; i++)
    in_child(be_refused, region);
  dup2(saved, 2);
  close(saved);
  close(heard[1]);
  ssize_t length = read(heard[0], lines, sizeof(lines) - 1);
  assert_true(length > 0);
  lines[length] = '\0';
  assert_ptr_equal(strchr(lines, '\n'), lines + length - 1);
  close(heard[0]);
  assert_return_code(percore_status(region, &status), errno);
  assert_int_equal(status.attaches_refused, 5);
}

/* ---------------------------------------------------------------------------
 * Rows
 */

static bool is_refused(int result) { return result == -1 && errno == EPERM; }

static int look_rows_up(struct percore_region *region) {
  uint32_t row;
  if (make_row(region, PORT, "eth0", &row) == 0 || errno != EEXIST || row != 1)
    return 1;
  if (!is_refused(make_row(region, PORT, "eth9", &row)) || row != 0)
    return 2;
  if (make_row_key(region, FLOW, 5, &row) == 0 || errno != EEXIST || row != 1)
    return 3;
  return is_refused(percore_row_add_at(region, PORT, 2, "eth2", 0)) &&
                 is_refused(percore_row_remove(region, PORT, 1, 0)) &&
                 is_refused(percore_reserve(region, PORT, 2)) &&
                 is_refused(percore_reset(region, PORT, 1))
             ? 0
             : 4;
}

INHERIT_TEST(a_child_looks_rows_up_and_changes_none) {
  (void)unit_row(region, PORT, "eth0");
  (void)unit_row_of_key(region, FLOW, 5);
  in_child(look_rows_up, region);
}

INHERIT_TEST(the_parent_learns_of_rows_that_a_child_may_not_add) {
  struct percore_region_status status;
  (void)unit_row(region, PORT, "eth0");
  (void)unit_row_of_key(region, FLOW, 5);
  in_child(look_rows_up, region);
  assert_return_code(percore_status(region, &status), errno);
  assert_int_equal(status.adds_refused, 1);
  assert_non_null(strstr(status.reason, "a child of fork(2) adds no rows"));
}

static int count_without_attaching(struct percore_region *region) {
  struct percore_region_status status;
  percore_status(region, &status);
  if (status.reason[0] != '\0')
    return 1;
  percore_add(row_of_parent, 0, 7);
  percore_status(region, &status);
  if (strstr(status.reason, "counts of thread 'parent' are lost") == NULL)
    return 2;
  percore_slot_t own = percore_attach(region, "child", 1);
  count(own, 1);
  percore_status(region, &status);
  return status.reason[0] == '\0' ? 0 : 3;
}

INHERIT_TEST(a_child_that_counts_without_attaching_is_named) {
  of_parent = percore_attach(region, "parent", 0);
  row_of_parent = percore_row(percore_table(of_parent, GLOBALS), 0);
  percore_add(row_of_parent, 0, 1);
  in_child(count_without_attaching, region);
  assert_int_equal(counted(), 2);
}

static int go[2], done[2];

static void tell(const int *ends) {
  if (write(ends[1], "", 1) != 1)
    abort();
}

static void await_told(const int *ends) {
  char byte;
  if (read(ends[0], &byte, 1) != 1)
    abort();
}

static int look_new_rows_up(struct percore_region *region) {
  uint32_t row;
  percore_slot_t slot;
  uint32_t ports;
  ports = PORT;
  if (attach_thread(region, "child", 0, &slot) != 0)
    return 1;
  await_told(go);
  if (make_row(region, PORT, "later", &row) == 0 || errno != EEXIST)
    return 2;
  percore_add(percore_row(percore_table(slot, ports), row), PACKETS, 3);
  if (!is_refused(make_row(region, PORT, "gone", &row)))
    return 3;
  return 0;
}

INHERIT_TEST(a_child_finds_rows_that_the_parent_changed_after_the_fork) {
  assert_return_code(pipe(go), errno);
  uint32_t row = unit_row(region, PORT, "gone");
  pid_t child = start(look_new_rows_up, region);
  assert_return_code(
      percore_row_remove(region, PORT, row, PERCORE_NO_UPDATE_IN_FLIGHT),
      errno);
  row = unit_row(region, PORT, "later");
  tell(go);
  assert_int_equal(await(child), 0);
  const struct region_table *ports = &region->tables[PORT + 1];
  const uint64_t *cells =
      region_at(region, region_block_offset(region, 0) + ports->slot_offset +
                            row * ports->row_stride);
  assert_int_equal(cells[PACKETS], 3);
}

enum { LATE_ROW = 50000 };

static int look_for_memory(struct percore_region *region) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  percore_slot_t slot;
  unsigned char resident;
  await_told(go);
  if (attach_thread(region, "late", 1, &slot) != 0)
    return 1;
  uintptr_t cells =
      (uintptr_t)percore_row(percore_table(slot, 0), LATE_ROW).cells;
  return mincore((void *)(cells / page * page), 1, &resident) == 0 &&
                 (resident & 1) != 0
             ? 0
             : 2;
}

TEST(a_child_that_attaches_has_memory_for_rows_that_came_after_the_fork) {
  static const struct percore_field field = {.name = "packets"};
  static const struct percore_table table = {.name = "flow",
                                             .fields = &field,
                                             .field_count = 1,
                                             .max_rows = LATE_ROW + 1};
  const struct percore_options options = {.cores = 2, .inherit = 1};
  struct percore_region *region;
  assert_return_code(create_region(&region, "unit", &table, 1, &options),
                     errno);
  assert_return_code(pipe(go), errno);
  pid_t child = start(look_for_memory, region);
  assert_return_code(percore_row_add_at(region, 0, LATE_ROW, NULL, 1), errno);
  tell(go);
  assert_int_equal(await(child), 0);
  unit_end(region);
}

static int pass_quiescent_point(struct percore_region *region) {
  percore_slot_t slot;
  if (attach_thread(region, "awake", 0, &slot) != 0)
    return 1;
  tell(done);
  await_told(go);
  percore_quiescent(slot);
  tell(done);
  await_told(go);
  return 0;
}

INHERIT_TEST(a_removed_row_waits_for_the_children) {
  uint32_t row;
  assert_return_code(pipe(go), errno);
  assert_return_code(pipe(done), errno);
  uint32_t old = unit_row_of_key(region, FLOW, 1);
  (void)unit_row_of_key(region, FLOW, 2);
  pid_t child = start(pass_quiescent_point, region);
  await_told(done);
  assert_return_code(percore_row_remove(region, FLOW, old, 0), errno);
  assert_fails(make_row_key(region, FLOW, 3, &row), EAGAIN);
  tell(go);
  await_told(done);
  assert_return_code(make_row_key(region, FLOW, 3, &row), errno);
  tell(go);
  assert_int_equal(await(child), 0);
}

/* ---------------------------------------------------------------------------
 * The life of the region
 */

static int leave(struct percore_region *region) {
  percore_slot_t slot;
  struct percore_region_status status;
  if (percore_status(region, &status) != 0 || !status.served ||
      status.slots_attached != 1)
    return 2;
  if (attach_thread(region, "leaves", 0, &slot) != 0)
    return 3;
  count(slot, 4);
  return percore_destroy(region) == 0 ? 0 : 4;
}

INHERIT_TEST(a_child_only_leaves_the_region_when_it_destroys_it) {
  (void)unit_attach(region, 1);
  in_child(leave, region);
  assert_int_equal(region->shared->ended, 0);
  assert_int_equal(counted(), 4);
}

static bool daemon_is_killed;

/* Ends by exit(3), as the first process of a daemon does, while its child goes
 * on, and counts when it is told to. */
static int leave_a_daemon(struct percore_region *of_test) {
  (void)of_test;
  struct percore_region *region = create("unit");
  if (fork() != 0)
    exit(0);
  alarm(60);
  await_told(go);
  int status = attach_and_count(region);
  tell(done);
  await_told(go);
  if (daemon_is_killed)
    raise(SIGKILL);
  exit(status);
}

/* Returns whether its readers learn that the region has ended cleanly. */
static bool daemon_ends_cleanly(void) {
  assert_return_code(pipe(go), errno);
  assert_return_code(pipe(done), errno);
  assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  in_child(leave_a_daemon, NULL);
  UNIT_READER(reader);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  tell(go);
  await_told(done);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(counted(), 1000);
  tell(go);
  assert_true(wait(NULL) > 0);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  return region_reader_ended(reader);
}

TEST(a_region_goes_on_in_a_child_when_its_creator_exits) {
  daemon_is_killed = false;
  assert_true(daemon_ends_cleanly());
}

TEST(a_killed_child_whose_parent_has_exited_has_not_ended_cleanly) {
  daemon_is_killed = true;
  assert_false(daemon_ends_cleanly());
}

static void *attach_and_end(void *region) {
  percore_slot_t slot;
  return attach_thread(region, "ends", 0, &slot) == 0 ? NULL : region;
}

/* A thread of the child leaves the slot of core 0, which the parent takes. */
static bool leave_a_slot(struct percore_region *region) {
  pthread_t thread;
  void *failed;
  if (pthread_create(&thread, NULL, attach_and_end, region) != 0 ||
      pthread_join(thread, &failed) != 0 || failed != NULL)
    return false;
  tell(done);
  await_told(go);
  return true;
}

static void take_the_slot_of(pid_t child, struct percore_region *region) {
  await_told(done);
  percore_slot_t slot = unit_attach(region, 0);
  assert_ptr_equal(slot.seat->head, region_block(region, 0));
  tell(go);
  await_told(done);
  assert_return_code(percore_detach(slot), errno);
  tell(go);
  assert_int_equal(await(child), 0);
}

static int leave_after_a_thread(struct percore_region *region) {
  int status = leave_a_slot(region) ? percore_destroy(region) : 1;
  tell(done);
  await_told(go);
  return status;
}

INHERIT_TEST(a_child_leaves_the_region_after_others_took_its_threads_slots) {
  assert_return_code(pipe(go), errno);
  assert_return_code(pipe(done), errno);
  take_the_slot_of(start(leave_after_a_thread, region), region);
}

static int attach_later(struct percore_region *region) {
  percore_slot_t slot;
  tell(done);
  await_told(go);
  return attach_thread(region, "late", 0, &slot) == 0 &&
                 slot.seat->head == region_block(region, 0)
             ? 0
             : 1;
}

static int fork_after_a_thread(struct percore_region *region) {
  return leave_a_slot(region) && await(start(attach_later, region)) == 0 ? 0
                                                                         : 1;
}

INHERIT_TEST(a_grandchild_takes_any_slot_that_is_free) {
  assert_return_code(pipe(go), errno);
  assert_return_code(pipe(done), errno);
  take_the_slot_of(start(fork_after_a_thread, region), region);
}

static int create_own(struct percore_region *region) {
  struct percore_region *own = create("own");
  int status = own != region ? attach_and_count(own) : 1;
  while (percore_detach(percore_this_slot(own)) == 0)
    ;
  return status != 0 ? status : percore_destroy(own);
}

INHERIT_TEST(a_child_may_have_a_region_of_its_own) {
  in_child(create_own, region);
  assert_int_equal(counted(), 0);
}

INHERIT_TEST(without_a_number_of_extra_slots_there_are_many) {
  const struct percore_options options = {.cores = 4, .inherit = 1};
  struct percore_region *other;
  (void)region;
  assert_return_code(create_region(&other, "other", NULL, 0, &options), errno);
  assert_int_equal(other->header.slot_count, 4 + 256);
  assert_return_code(percore_destroy(other), errno);
}

/* ---------------------------------------------------------------------------
 * A worker that is another user's
 */

static volatile uint64_t private_words[64];

/* Overwrites all that processes share, but cells, with garbage: small numbers,
 * random ones, and addresses of the master's memory. */
static __attribute__((noreturn)) int
write_garbage(struct percore_region *region) {
  const struct region_header *header = &region->header;
  uint64_t directory = header->slots_offset / 8 + 8ull * header->slot_count;
  uint64_t x = 88172645463325252u;
  for (unsigned k = 0;; k++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    uint64_t value = k % 3 == 0   ? x
                     : k % 3 == 1 ? (uintptr_t)&private_words[k % 64]
                                  : x & 3;
    const struct region_table *table = &region->tables[k % header->table_count];
    struct region_part parts[REGION_TABLE_PARTS];
    region_table_parts(table, parts);
    const struct region_part *part = &parts[x % 3];
    if (k % 4 == 0)
      region->owners[x % header->slot_count] = value;
    else if (k % 4 == 1)
      ((uint64_t *)(void *)region->map)[x % directory] = value;
    else
      *(uint64_t *)region_at(region, part->offset) = value;
  }
}

static void use_every_call(struct percore_region *region, unsigned n) {
  struct percore_region_status status;
  percore_slot_t slot;
  uint32_t row;
  char name[16];
  if (attach_thread(region, "master", n % 3 ? 0 : PERCORE_NO_CORE, &slot) == 0)
    (void)percore_detach(slot);
  snprintf(name, sizeof(name), "row%u", n % 7);
  (void)make_row(region, PORT, name, &row);
  (void)percore_row_remove(region, SESSION, n % SESSION_ROWS, 0);
  (void)make_row_key(region, SESSION, n, &row);
  if (n % 16 == 0)
    (void)percore_reset(region, PERCORE_ALL_TABLES, PERCORE_ALL_ROWS);
  (void)percore_status(region, &status);
}

/* It may take slots and refuse rows, but nobody follows what it wrote. */
TEST(a_worker_that_writes_garbage_harms_nobody) {
  struct percore_options options = {
      .cores = 4, .extra_slots = 2, .inherit = 1, .quiet = 1};
  struct percore_region *region;
  assert_return_code(
      create_region(&region, "unit", unit_tables, TABLES, &options), errno);
  pid_t worker = start(write_garbage, region);
  for (unsigned n = 0; n < 2000; n++)
    use_every_call(region, n);
  kill(worker, SIGKILL);
  (void)await(worker);
  for (size_t i = 0; i < COUNT_OF(private_words); i++)
    assert_int_equal(private_words[i], 0);
  assert_return_code(percore_destroy(region), errno);
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir, .after_all = unit_remove_runtime_dir};
