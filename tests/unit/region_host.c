#include "region_host.h"

#include <stdlib.h>

#include "base/clock.h"
#include "region/writer.h"

struct region_snapshot *snapshot;
struct percore_region *served[4];
size_t host_memory_max;
size_t host_values_max;
size_t host_room;
bool host_memory_may_be_short;
uint64_t (*host_now_ns)(void *);
uint64_t began_ns;
uint64_t host_dispatched;
uint64_t host_before_it;

static struct config config;
static struct region_watch *watch;
static struct region_watch_options options;
static struct region_moment now;

/* ---------------------------------------------------------------------------
 * A host
 */

static bool serve_all(void *argument, uint64_t ns) {
  (void)argument;
  (void)ns;
  for (size_t i = 0; i < COUNT_OF(served); i++)
    if (served[i] != NULL)
      percore_serve(served[i]);
  return true;
}

static bool is_wanted(void *argument) {
  (void)argument;
  return true;
}

static struct region_outlet outlet(void *argument) {
  (void)argument;
  uint64_t newest = snapshot != NULL ? snapshot->number : 0;
  return (struct region_outlet){
      .dispatched = host_dispatched < newest ? host_dispatched : newest,
      .before_it = host_before_it,
      .room = host_room > 0 ? host_room : options.values_max};
}

uint64_t boottime_ns(void) { return clock_now_ns(CLOCK_BOOTTIME); }

void start_watch(const char *lines) {
  oconfig_item_t *block = fake_config(lines);
  assert_int_equal(config_read(&config, block), 0);
  fake_config_free(block);
  options = (struct region_watch_options){
      .configs = &config.regions,
      .cores = config_cores(&config.cores),
      .interval_ns = 1,
      .values_max = host_values_max > 0 ? host_values_max : 10000,
      .memory_max = host_memory_max > 0 ? host_memory_max : (size_t)1 << 30,
      .wait = serve_all,
      .is_wanted = is_wanted,
      .now_ns = host_now_ns,
      .outlet = outlet};
  now = (struct region_moment){.stamp_ns = 1000 * SECOND,
                               .monotonic_ns = 50 * SECOND,
                               .boottime_ns = began_ns};
  watch = region_watch_new(&options, &now);
  assert_non_null(watch);
}

void play_round(uint64_t after_ns) {
  now.boottime_ns = boottime_ns();
  play_round_begun_before(after_ns);
}

void begin_watch(const char *lines) {
  start_watch(lines);
  play_round(SECOND);
}

void play_round_begun_before(uint64_t after_ns) {
  struct region_snapshot *before = snapshot;
  now.stamp_ns += after_ns;
  now.monotonic_ns += after_ns;
  snapshot = region_watch_round(watch, &now);
  region_snapshot_free(before);
  assert_non_null(snapshot);
  assert_true(host_memory_may_be_short || !snapshot->memory_short);
}

int set_up(void **state) {
  (void)state;
  fake_reset();
  began_ns = boottime_ns();
  config_init(&config);
  memset(served, 0, sizeof(served));
  snapshot = NULL;
  watch = NULL;
  host_memory_max = host_values_max = host_room = 0;
  host_memory_may_be_short = false;
  host_dispatched = host_before_it = UINT64_MAX;
  host_now_ns = NULL;
  return 0;
}

void end_producer(unsigned place) {
  if (served[place] != NULL)
    assert_int_equal(percore_destroy(served[place]), 0);
  served[place] = NULL;
}

void abandon_producer(unsigned place) {
  struct server *server = served[place]->server;
  region_server_abandon(served[place]);
  free(server);
}

int tear_down(void **state) {
  (void)state;
  region_snapshot_free(snapshot);
  region_watch_free(watch);
  for (unsigned i = 0; i < COUNT_OF(served); i++)
    end_producer(i);
  config_free(&config);
  fake_reset();
  return 0;
}

struct percore_region *create(unsigned place, const char *instance,
                              const struct percore_table *tables,
                              uint32_t len) {
  struct percore_options create = {.size = sizeof(create),
                                   .serving = PERCORE_SERVE_POLLED,
                                   .instance = instance,
                                   .cores = 4,
                                   .extra_slots = 2};
  assert_return_code(
      percore_create(&served[place], "unit", tables, len, &create), 0);
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
  if (percore_row_add(region, table, name, &row) != 0)
    assert_int_equal(errno, EEXIST);
  return row;
}

/* Adds to a row of `port` on a core, and detaches again so that the region can
 * be destroyed. */
void add(struct percore_region *region, const char *name, int core,
         unsigned column, uint64_t n) {
  percore_core_table_t port;
  percore_slot_t slot;
  uint32_t row = row_of(region, PORT, name);
  assert_int_equal(percore_core_table(region, PORT, &port), 0);
  assert_int_equal(percore_attach(region, "unit", core, &slot), 0);
  percore_add(percore_core_row(slot, port, row), column, n);
  assert_int_equal(percore_detach(region, slot), 0);
}

void add_slow(struct percore_region *region, const char *name, unsigned column,
              uint64_t n) {
  percore_shared_table_t slow;
  uint32_t row = row_of(region, SLOW, name);
  assert_int_equal(percore_shared_table(region, SLOW, &slow), 0);
  percore_shared_add(percore_shared_row(slow, row), column, n);
}

const struct region_value *find(const char *plugin, const char *instance,
                                const char *row) {
  for (int rank = 0; rank < REGION_RANKS; rank++)
    for (size_t i = 0; i < snapshot->values[rank].len; i++) {
      const struct region_value *value = &snapshot->values[rank].list[i];
      if (strcmp(value->plugin, plugin) == 0 &&
          strcmp(value->plugin_instance, instance) == 0 &&
          strcmp(value->type_instance, row) == 0)
        return value;
    }
  return NULL;
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
  for (size_t i = 0; i < snapshot->events_len; i++)
    if (strstr(snapshot->events[i].text, text) != NULL)
      return true;
  return false;
}
