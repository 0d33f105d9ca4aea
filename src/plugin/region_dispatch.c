#include "region_dispatch.h"

#include "globals.h"
#include "utils/common/common.h"

#include <time.h>

#define PLUGIN_HOST "percore_host"

/* Copies a name, which always fits, into a part of an identifier. */
static void set(char *part, const char *name) {
  size_t length = strnlen(name, DATA_MAX_NAME_LEN - 1);
  memcpy(part, name, length);
  part[length] = '\0';
}

/* ---------------------------------------------------------------------------
 * Values
 */

static const char *const types[] = {
    [REGION_DERIVE] = "derive",
    [REGION_GAUGE] = "gauge",
    [REGION_PERCENT] = "percent",
};

/* Consecutive values usually differ only in the row, so the other parts of the
 * identifier are copied only if their pointers change. */
static void put_values(value_list_t *list, const struct region_value *values,
                       size_t len) {
  const struct region_value *before = NULL;
  for (size_t i = 0; i < len; i++) {
    const struct region_value *value = &values[i];
    if (before == NULL || before->plugin != value->plugin)
      set(list->plugin, value->plugin);
    if (before == NULL || before->plugin_instance != value->plugin_instance)
      set(list->plugin_instance, value->plugin_instance);
    if (before == NULL || before->type != value->type)
      set(list->type, types[value->type]);
    set(list->type_instance, value->type_instance);
    value_t number = {.gauge = value->gauge};
    if (value->type == REGION_DERIVE)
      number.derive = value->derive;
    list->values = &number;
    list->values_len = 1;
    plugin_dispatch_values(list);
    before = value;
  }
}

/* Dispatches a 0, with its earlier timestamp, for each value that is the first
 * point of a series, because a time-series store cannot show what was counted
 * before a first point. All zeros must be dispatched before all points. Returns
 * the number of zeros. */
static size_t put_zeros(const struct region_dispatch *dispatch,
                        value_list_t *list, const struct region_value *values,
                        size_t len) {
  cdtime_t time = list->time;
  size_t zeros = 0;
  for (size_t i = 0; i < len; i++) {
    struct region_value zero = values[i];
    if (zero.type != REGION_DERIVE || zero.first.zero_ns == 0 ||
        zero.first.snapshot <= dispatch->last_number)
      continue;
    list->time = NS_TO_CDTIME_T(zero.first.zero_ns);
    zero.derive = 0;
    put_values(list, &zero, 1);
    zeros++;
  }
  list->time = time;
  return zeros;
}

/* Waits until the zeros have probably been written. collectd's write threads
 * (five by default) take values in order but write them concurrently. Without a
 * pause, a value could overtake its 0, and collectd would drop the 0. */
static void let_zeros_pass(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* Dispatches at most `values_max` values, the most important ranks first.
 * Returns true if all values of the host were dispatched. */
static bool put_all(struct region_dispatch *dispatch, value_list_t *list,
                    const struct region_snapshot *snapshot, size_t values_max) {
  size_t wanted = 0, room = values_max, zeros = 0, len[REGION_RANKS];
  dispatch->values_dropped = 0;
  for (int rank = 0; rank < REGION_RANKS; rank++) {
    const struct region_values *values = &snapshot->values[rank];
    len[rank] = MIN(values->len, room);
    room -= len[rank];
    wanted += values->len + values->cut;
    dispatch->values_dropped += values->len - len[rank] + values->cut;
    zeros += put_zeros(dispatch, list, values->list, len[rank]);
  }
  if (zeros > 0)
    let_zeros_pass();
  for (int rank = 0; rank < REGION_RANKS; rank++)
    put_values(list, snapshot->values[rank].list, len[rank]);
  bool complete =
      len[REGION_RANK_HOST] == snapshot->values[REGION_RANK_HOST].len;
  if (dispatch->values_dropped == 0 && snapshot->partial)
    return complete; /* the values of tables that are still being read may
                        exceed MaxValues */
  if (dispatch->values_dropped == 0)
    c_release(LOG_INFO, &dispatch->too_many,
              "percore: all values of the regions fit into MaxValues %d again.",
              dispatch->config->max_values);
  else
    c_complain_once(LOG_WARNING, &dispatch->too_many,
                    "percore: some values of regions are left out, those of "
                    "single cores first: one interval has %zu of them, and "
                    "MaxValues %d leaves room for %zu; raise MaxValues, or "
                    "choose values with Field, Row and Top in <Table>.",
                    wanted, dispatch->config->max_values, values_max);
  return complete;
}

/* ---------------------------------------------------------------------------
 * Events
 */

static void tell(const struct region_dispatch *dispatch,
                 const struct region_notice *event, cdtime_t time) {
  static const struct {
    int log, notification;
  } severities[] = {
      [REGION_OKAY] = {LOG_NOTICE, NOTIF_OKAY},
      [REGION_WARNING] = {LOG_WARNING, NOTIF_WARNING},
      [REGION_FAILURE] = {LOG_WARNING, NOTIF_FAILURE},
  };
  plugin_log(severities[event->severity].log, "percore: %s", event->text);
  if (!dispatch->config->send_notifications)
    return;
  notification_t note = {.severity = severities[event->severity].notification,
                         .time = time};
  sstrncpy(note.message, event->text, sizeof(note.message));
  sstrncpy(note.host, hostname_g, sizeof(note.host));
  sstrncpy(note.plugin, PLUGIN_HOST, sizeof(note.plugin));
  sstrncpy(note.plugin_instance, event->region, sizeof(note.plugin_instance));
  sstrncpy(note.type, "gauge", sizeof(note.type));
  sstrncpy(note.type_instance, "regions", sizeof(note.type_instance));
  plugin_dispatch_notification(&note);
}

void region_dispatch_snapshot(struct region_dispatch *dispatch,
                              const struct region_snapshot *snapshot,
                              size_t values_max) {
  cdtime_t time = NS_TO_CDTIME_T(snapshot->time_ns);
  for (size_t i = 0; i < snapshot->events_len; i++)
    tell(dispatch, &snapshot->events[i], time);
  if (snapshot->memory_short)
    c_complain_once(LOG_ERR, &dispatch->memory_short,
                    "percore: out of memory; values of regions are missing.");
  else
    c_release(LOG_INFO, &dispatch->memory_short,
              "percore: memory is available for the values of regions again.");
  dispatch->values_dropped = 0;
  if (time <= dispatch->last)
    return; /* the clock was set back, which is logged with the loads */
  dispatch->last = time;
  value_list_t list = {.time = time, .interval = dispatch->interval};
  bool complete = put_all(dispatch, &list, snapshot, values_max);
  uint64_t gap = snapshot->number - dispatch->last_number;
  dispatch->before_it = gap < 64 ? dispatch->before_it << gap : 0;
  dispatch->before_it |= complete;
  dispatch->last_number = snapshot->number;
}
