/* Tests how changes between snapshots become notifications. */
#include "fake_collectd.h"

#include "plugin/notify.h"

#include <semaphore.h>
#include <unistd.h>

#include "unit.h"

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)

static struct notify notify;
static bool sending;

static int threads_before;

/* Notifications are sent by threads. Waits until these have ended. */
static size_t sent(void) {
  while (unit_count_threads() > threads_before)
    usleep(100);
  return fake.notifications_len;
}

static const notification_t *find_sent(const char *text) {
  for (size_t i = 0; i < sent(); i++)
    if (strstr(fake.notifications[i].message, text) != NULL)
      return &fake.notifications[i];
  fail_msg("not sent: %s", text);
  return NULL;
}

static void set_up(void) {
  threads_before = unit_count_threads();
#ifdef __SANITIZE_THREAD__
  threads_before = 2; /* it starts one of its own with the first thread */
#endif
  fake_reset();
  memset(&notify, 0, sizeof(notify));
  sending = true;
}

static void tear_down(void) { fake_reset(); }

/* Makes snapshot number n. The source of core i is sources[i]. */
static struct snapshot *make_snapshot(const enum source_kind *sources,
                                      size_t len, unsigned n) {
  struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
  assert_non_null(snapshot);
  snapshot->time_ns = START + n * 10 * SECOND;
  snapshot->cores_len = len;
  snapshot->cores = calloc(len, sizeof(*snapshot->cores));
  assert_non_null(snapshot->cores);
  for (size_t i = 0; i < len; i++)
    snapshot->cores[i] = (struct core_figures){
        .core = (int)i, .online = true, .source = sources[i]};
  return snapshot;
}

static void free_snapshot(struct snapshot *snapshot) {
  free(snapshot->cores);
  free(snapshot);
}

static void notify_sources(const enum source_kind *sources, size_t len,
                           unsigned n) {
  struct snapshot *snapshot = make_snapshot(sources, len, n);
  notify_snapshot(&notify, snapshot, sending);
  free_snapshot(snapshot);
}

/* ---------------------------------------------------------------------------
 */

TEST(a_change_of_source_is_notified_once_for_all_its_cores) {
  enum source_kind before[8], after[8];
  for (int i = 0; i < 8; i++) {
    before[i] = SOURCE_REF_CYCLES;
    after[i] = i < 6 ? SOURCE_IDLE : SOURCE_NONE;
  }
  notify_sources(before, 8, 0);
  assert_int_equal(sent(), 0);
  notify_sources(after, 8, 1);
  notify_sources(after, 8, 2);
  assert_int_equal(sent(), 2);
  const notification_t *worse = find_sent("from ref-cycles to idle: cores 0-5");
  const notification_t *lost = find_sent("from ref-cycles to none: cores 6-7");
  assert_int_equal(lost->severity, NOTIF_FAILURE);
  assert_int_equal(worse->severity, NOTIF_WARNING);
  assert_string_equal(worse->host, "host");
  assert_string_equal(worse->plugin, "percore_host");
  assert_string_equal(worse->plugin_instance, "self");
  assert_true(worse->time == NS_TO_CDTIME_T(START + 10 * SECOND));
  notify_sources(before, 8, 3);
  assert_int_equal(sent(), 4);
  assert_int_equal(fake.notifications[2].severity, NOTIF_OKAY);
  assert_int_equal(fake.notifications[3].severity, NOTIF_OKAY);
}

static sem_t may_go_on;

static void block(const notification_t *note) {
  (void)note;
  sem_wait(&may_go_on);
}

TEST(a_notification_plugin_that_blocks_does_not_delay_loads) {
  sem_init(&may_go_on, 0, 0);
  fake.notified = block;
  notify_sources((enum source_kind[]){SOURCE_MPERF}, 1, 0);
  notify_sources((enum source_kind[]){SOURCE_IDLE}, 1, 1);
  notify_sources((enum source_kind[]){SOURCE_MPERF}, 1, 2);
  sem_post(&may_go_on);
  sem_post(&may_go_on);
  assert_int_equal(sent(), 2);
  fake.notified = NULL;
}

TEST(a_first_source_and_hotplug_are_not_changes) {
  notify_sources((enum source_kind[]){SOURCE_NONE, SOURCE_IDLE}, 2, 0);
  notify_sources((enum source_kind[]){SOURCE_IDLE, SOURCE_IDLE}, 2, 1);
  const enum source_kind same[] = {SOURCE_IDLE, SOURCE_IDLE};
  struct snapshot *snapshot = make_snapshot(same, 2, 2);
  snapshot->cores[1].online = false;
  snapshot->cores[1].source = SOURCE_NONE;
  notify_snapshot(&notify, snapshot, true);
  free_snapshot(snapshot);
  notify_sources((enum source_kind[]){SOURCE_IDLE, SOURCE_IDLE}, 2, 3);
  assert_int_equal(sent(), 0);
}

TEST(a_change_of_source_is_logged_with_both_loads) {
  static const enum source_kind sources[2][3] = {
      {SOURCE_IDLE, SOURCE_IDLE, SOURCE_IDLE},
      {SOURCE_BPF, SOURCE_BPF, SOURCE_IDLE}};
  static const double loads[2][3] = {{.25, .35, .9}, {.50, .61, .9}};
  for (unsigned n = 0; n < 2; n++) {
    struct snapshot *snapshot = make_snapshot(sources[n], 3, n);
    for (int core = 0; core < 3; core++)
      snapshot->cores[core].load = loads[n][core];
    notify_snapshot(&notify, snapshot, false);
    free_snapshot(snapshot);
  }
  assert_non_null(fake_logged(
      LOG_NOTICE, "changed from idle to bpf: cores 0-1; their mean load was "
                  "30.0 %, and is now 55.5 %."));
}

TEST(without_send_notifications_changes_are_only_remembered) {
  sending = false;
  notify_sources((enum source_kind[]){SOURCE_MPERF}, 1, 0);
  notify_sources((enum source_kind[]){SOURCE_IDLE}, 1, 1);
  sending = true;
  notify_sources((enum source_kind[]){SOURCE_IDLE}, 1, 2);
  assert_int_equal(sent(), 0);
}

TEST(a_list_of_cores_that_is_too_long_ends_after_a_whole_range) {
  enum source_kind before[256], after[256];
  for (int i = 0; i < 256; i++) {
    before[i] = SOURCE_MPERF;
    after[i] = i % 2 == 0 ? SOURCE_IDLE : SOURCE_MPERF;
  }
  notify_sources(before, 256, 0);
  notify_sources(after, 256, 1);
  assert_int_equal(sent(), 1);
  const char *message = fake.notifications[0].message;
  assert_non_null(strstr(message, "of 128 cores"));
  assert_non_null(strstr(message, " and more; their mean load "));
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
