/* Lets each call of the C library fail once while the plugin starts and meets a
 * region, and checks that the process goes on and that no count is lost. Every
 * seventh call, unless PERCORE_TEST_LONG is set. */
#include "fake_collectd.h"

#include "utils/common/common.h"

#include "region_unit.h"

#include "faults.h"

#define INTERVAL_NS 10000000
#define COUNTS "percore_host_unit_port_packets-all/derive-"

enum { FAULTY_READS = 5, READS_MAX = 2000, ADDED = 5 };

/* Makes the interval pass. Every second of collectd's clock is one read, so
 * that what is tried again after seconds is tried soon. */
static void read_once(void) {
  user_data_t none = {.data = NULL};
  nanosleep(&(struct timespec){.tv_nsec = INTERVAL_NS}, NULL);
  fake.now += TIME_T_TO_CDTIME_T_STATIC(1);
  if (fake.read != NULL)
    fake.read(&none);
}

/* Returns how many counts were dispatched. What has no row, for lack of memory,
 * is in the row `other`. */
static derive_t dispatched(void) {
  const struct fake_value *row = fake_find(COUNTS "eth0"),
                          *other = fake_find(COUNTS "other");
  return (row != NULL ? row->values[0].derive : 0) +
         (other != NULL ? other->values[0].derive : 0);
}

static void count_more(percore_slot_t slot, uint32_t row) {
  percore_add(percore_row(percore_table(slot, PORT), row), PACKETS, ADDED);
}

/* Starts the plugin and then a producer. Returns how many counts were not
 * dispatched. */
static int play(void) {
  char dir[] = "/tmp/percore-faults-XXXXXX";
  assert_non_null(mkdtemp(dir));
  assert_return_code(chmod(dir, 03770), errno);
  setenv("PERCORE_RUNTIME_DIR", dir, 1);
  fake.read = NULL;
  fake.interval = NS_TO_CDTIME_T(INTERVAL_NS);
  fake.now = TIME_T_TO_CDTIME_T_STATIC(1000);
  oconfig_item_t *block =
      fake_config("<Map \"/sys/none/pin\">\nRegion \"none\"\n</Map>\n"
                  "<Load>\nSource \"idle\"\n</Load>\n");
  module_register();
  faults_on = true;
  /* If the configuration fails, collectd does not start. */
  bool configured = fake.config(block) == 0;
  fake_config_free(block);
  if (!configured || fake.init() != 0)
    return 0;
  thread_is_exempt = true;
  for (int i = 0; i < 2; i++)
    read_once();
  struct percore_region *region = unit_create();
  percore_slot_t slot = unit_attach(region, 0);
  uint32_t row = unit_row(region, PORT, "eth0");
  int counted = 0;
  thread_is_exempt = false;
  for (int i = 0; i < FAULTY_READS; i++, counted += ADDED) {
    count_more(slot, row);
    read_once();
  }
  faults_on = false;
  for (int i = 0; i < READS_MAX && dispatched() != counted; i++)
    read_once();
  int missing = counted - (int)dispatched();
  fake.shutdown();
  unit_end(region);
  rmdir(dir);
  return missing;
}

TEST(a_call_that_fails_once_at_the_start_of_the_plugin_loses_no_count) {
  fail_each_call(play, getenv("PERCORE_TEST_LONG") != NULL ? 1 : 7);
}
