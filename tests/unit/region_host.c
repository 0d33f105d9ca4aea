#include "region_host.h"
#include "calls.h"

#include "base/clock.h"
#include "plugin/regions.h"
#include "plugin_unit.h"
#include "region/writer.h"

#include <sys/mman.h>
#include <unistd.h>

static struct host_round last;
struct host_round *snapshot;
struct percore_region *served[4];
size_t host_memory_max;
size_t host_values_max;
uint32_t host_cores;
uint64_t (*host_now_ns)(void *);
unsigned host_looks;
uint64_t began_ns;
bool host_settles;

static struct region_watch *watch;
static struct region_watch_options options;
static struct region_moment now;

/* ---------------------------------------------------------------------------
 * A host
 */

uint64_t time_passes(void *argument) {
  static uint64_t now_ns;
  (void)argument;
  return now_ns += SECOND / 1000 / host_looks;
}

static bool is_wanted(void *argument) {
  (void)argument;
  return true;
}

static struct empty_polls polls;

uint64_t boottime_ns(void) { return clock_now_ns(CLOCK_BOOTTIME); }

void start_watch(const char *lines) {
  oconfig_item_t *block = fake_config(lines);
  assert_int_equal(config_read(&config, block), 0);
  fake_config_free(block);
  config.sys_root = strdup(TEST_FIXTURES "/two-cores");
  config.max_values = host_values_max > 0 ? (int)host_values_max : 20000;
  if (host_memory_max > 0)
    config.max_memory = (double)host_memory_max;
  options = (struct region_watch_options){.config = &config,
                                          .interval_ns = 1,
                                          .empty_polls = &polls,
                                          .is_wanted = is_wanted,
                                          .now_ns = host_now_ns};
  now = (struct region_moment){.stamp_ns = 1000 * SECOND,
                               .monotonic_ns = 5000 * SECOND};
  watch = region_watch_new(&options, began_ns);
  assert_non_null(watch);
}

void play_round(uint64_t after_ns) {
  now.boottime_ns = boottime_ns();
  play_round_begun_before(after_ns);
}

double room_of_core(int core, double load) {
  struct core_figures figures = {.core = core, .load = load, .room = 1 - load};
  empty_polls_add(&polls, &(struct snapshot){.time_ns = now.stamp_ns,
                                             .cores_len = 1,
                                             .cores = &figures});
  return figures.room;
}

void begin_watch(const char *lines) {
  start_watch(lines);
  play_round(SECOND);
}

static bool owes(void) {
  for (struct region_budget *b = watch->budgets; b != NULL; b = b->next)
    for (struct region_sum *sum = b->sums; sum != NULL; sum = sum->next)
      if (region_sum_owes(sum))
        return true;
  return false;
}

static bool is_partial(void) {
  for (struct region_producer *p = watch->producers; p != NULL; p = p->next)
    if (p->next_table < p->input_count)
      return true;
  return false;
}

static void describe_round(void) {
  last = (struct host_round){.time_ns = now.stamp_ns,
                             .regions = watch->regions,
                             .regions_silent = watch->silent,
                             .regions_stale = watch->stale,
                             .workers_stuck = watch->stuck,
                             .partial = is_partial(),
                             .events_len = fake.notifications_len};
  for (size_t i = 0; i < fake.values_len; i++)
    last.host_len +=
        strncmp(fake.values[i].list.plugin, "percore_host_", 13) == 0;
  snapshot = &last;
}

void play_round_begun_before(uint64_t after_ns) {
  fake.values_len = fake.notifications_len = 0;
  now.stamp_ns += after_ns;
  now.monotonic_ns += after_ns;
  region_watch_round(watch, &now);
  describe_round();
  if (!host_settles || !owes())
    return;
  now.stamp_ns += SECOND / 1000;
  region_watch_round(watch, &now);
}

void play_round_set_back(void) {
  struct region_moment before = now;
  now.stamp_ns = watch->put_ns;
  now.boottime_ns = boottime_ns();
  fake.values_len = fake.notifications_len = 0;
  region_watch_round(watch, &now);
  describe_round();
  assert_int_equal(fake.values_len, 0);
  now = before;
}

void set_up(void) {
  unit_make_runtime_dir();
  fake_reset();
  began_ns = boottime_ns();
  config_init(&config);
  memset(served, 0, sizeof(served));
  snapshot = NULL;
  watch = NULL;
  host_memory_max = host_values_max = 0;
  host_cores = 4;
  host_settles = true;
  host_now_ns = NULL;
  host_looks = 128;
}

void end_producer(unsigned place) {
  if (served[place] != NULL)
    assert_int_equal(percore_destroy(served[place]), 0);
  served[place] = NULL;
}

void fill_log(void) {
  for (int line = 0; line < REGION_LOG_LINES; line++)
    (void)region_log_takes((struct region_about){.log = &watch->log});
}

/* As if the process had died: nobody can write to the file any more. */
void abandon_producer(unsigned place) {
  if (munmap(served[place]->map, served[place]->size) != 0 ||
      mmap(served[place]->map, served[place]->size, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    abort();
}

/* The plugin never frees its watch. */
static void free_watch(void) {
  struct region_sum *sum;
  if (watch == NULL)
    return;
  for (struct region_producer *p = watch->producers; p != NULL; p = p->next) {
    region_producer_forget(p);
    p->met = false;
  }
  for (struct region_instance *i = watch->instances; i != NULL; i = i->next)
    i->served_ns = 0;
  watch->now.monotonic_ns = UINT64_MAX;
  region_list_forget(watch);
  assert_null(watch->instances);
  while (watch->budgets != NULL) {
    struct region_budget *budget = watch->budgets;
    watch->budgets = budget->next;
    while ((sum = budget->sums) != NULL) {
      budget->sums = sum->next;
      region_sum_free(sum);
    }
    assert_int_equal(budget->memory.used, 0);
    assert_int_equal(budget->instances, 0);
    free(budget);
  }
  region_tile_free(&watch->tile);
  if (watch->notices >= 0)
    close(watch->notices);
  if (watch->machine != NULL) {
    topology_free(&watch->topology);
    machine_linux_close(watch->machine);
  }
  free(watch);
  watch = NULL;
}

void tear_down(void) {
  free_watch();
  for (unsigned i = 0; i < COUNT_OF(served); i++)
    end_producer(i);
  forget_config();
  fake_reset();
  unit_remove_runtime_dir();
}

struct percore_region *create(unsigned place, const char *instance,
                              const struct percore_table *tables,
                              uint32_t len) {
  struct percore_options create = {
      .instance = instance, .cores = host_cores, .extra_slots = 2};
  assert_return_code(
      create_region(&served[place], "unit", tables, len, &create), errno);
  return served[place];
}

struct percore_region *create_usual(unsigned place, const char *instance) {
  return create(place, instance, unit_tables, TABLES);
}

/* ---------------------------------------------------------------------------
 * Updates and values
 */

uint32_t row_of(struct percore_region *region, unsigned table,
                const char *name) {
  uint32_t row;
  if (make_row(region, table, name, &row) != 0)
    assert_int_equal(errno, EEXIST);
  return row;
}

/* Adds to a row of `port` on a core, and detaches again so that the region can
 * be destroyed. */
void add(struct percore_region *region, const char *name, int core,
         unsigned column, uint64_t n) {
  percore_slot_t slot;
  uint32_t row = row_of(region, PORT, name);
  uint32_t port = PORT;
  assert_int_equal(attach_thread(region, "unit", core, &slot), 0);
  percore_add(percore_row(percore_table(slot, port), row), column, n);
  assert_int_equal(percore_detach(slot), 0);
}

void add_slow(struct percore_region *region, const char *name, unsigned column,
              uint64_t n) {
  uint32_t row = row_of(region, SLOW, name);
  uint32_t slow = SLOW;
  percore_shared_add(percore_shared_row(region, slow, row), column, n);
}

const struct region_value *find(const char *plugin, const char *instance,
                                const char *row) {
  static struct region_value found[4];
  static unsigned next;
  struct region_value *value = &found[next++ % COUNT_OF(found)];
  bool any = false;
  for (size_t i = 0; i < fake.values_len; i++) {
    const value_list_t *list = &fake.values[i].list;
    const value_t *number = fake.values[i].values;
    if (strcmp(list->type_instance, row) != 0 ||
        strcmp(list->plugin, plugin) != 0 ||
        strcmp(list->plugin_instance, instance) != 0)
      continue;
    bool derive = strcmp(list->type, "derive") == 0;
    value->type = derive ? REGION_DERIVE : REGION_GAUGE;
    value->derive = derive ? number->derive : 0;
    value->gauge = derive ? 0 : number->gauge;
    if (!any) {
      value->first_ns = CDTIME_T_TO_NS(list->time);
      value->first = value->derive;
    }
    any = true;
  }
  return any ? value : NULL;
}

void assert_count(const char *plugin, const char *instance, const char *row,
                  int64_t expected) {
  const struct region_value *value = find(plugin, instance, row);
  if (value == NULL)
    fail_msg("no %s-%s/%s", plugin, instance, row);
  assert_int_equal(value->type, REGION_DERIVE);
  if (value->derive != expected)
    fail_msg("%s-%s/%s is %lld, not %lld", plugin, instance, row,
             (long long)value->derive, (long long)expected);
}

void assert_none(const char *plugin, const char *instance, const char *row) {
  if (find(plugin, instance, row) != NULL)
    fail_msg("unexpected %s-%s/%s", plugin, instance, row);
}

double gauge(const char *plugin, const char *instance, const char *row) {
  const struct region_value *value = find(plugin, instance, row);
  if (value == NULL)
    fail_msg("no %s-%s/%s", plugin, instance, row);
  assert_int_not_equal(value->type, REGION_DERIVE);
  return value->gauge;
}

bool told(const char *text) {
  for (size_t i = 0; i < fake.notifications_len; i++)
    if (strstr(fake.notifications[i].message, text) != NULL)
      return true;
  return false;
}
