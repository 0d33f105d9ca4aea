#include "notify.h"

#include "put.h"

#include "globals.h"
#include "utils/common/common.h"

static uint8_t code_of(enum source_kind source) {
  return (uint8_t)(source - SOURCE_AUTO);
}

/* Returns the severity of a change of source. Better sources have smaller
 * numbers. */
static int severity_of(enum source_kind from, enum source_kind to) {
  if (to == SOURCE_NONE)
    return NOTIF_FAILURE;
  if (from == SOURCE_NONE || to < from)
    return NOTIF_OKAY;
  return NOTIF_WARNING;
}

/* Writes the list of cores, and cuts it if it does not fit. Returns the text
 * that must follow the list, which is empty unless the list was cut. */
static const char *format_cores(const struct core_set *cores, char *list,
                                size_t size) {
  struct core_set written;
  core_set_format(cores, list, size);
  bool whole =
      core_set_parse(&written, list) == 0 && core_set_equal(&written, cores);
  return whole ? "" : " and more";
}

static void send_change(const struct core_set *cores, enum source_kind from,
                        enum source_kind to, cdtime_t time) {
  char list[96];
  const char *more = format_cores(cores, list, sizeof(list));
  int count = core_set_count(cores);

  notification_t note = {.severity = severity_of(from, to), .time = time};
  snprintf(note.message, sizeof(note.message),
           "The source of the load of %d core%s changed from %s to %s: "
           "core%s %s%s.",
           count, count == 1 ? "" : "s", source_name(from), source_name(to),
           count == 1 ? "" : "s", list, more);
  sstrncpy(note.host, hostname_g, sizeof(note.host));
  sstrncpy(note.plugin, PLUGIN_HOST, sizeof(note.plugin));
  sstrncpy(note.plugin_instance, INSTANCE_SELF, sizeof(note.plugin_instance));
  sstrncpy(note.type, "gauge", sizeof(note.type));
  sstrncpy(note.type_instance, "source", sizeof(note.type_instance));
  plugin_dispatch_notification(&note);
}

/* Sends one notification for all cores whose source changed from `from` to
 * `to`. Does nothing if there are none. */
static void notify_change(const struct notify *notify,
                          const struct snapshot *snapshot,
                          enum source_kind from, enum source_kind to) {
  struct core_set cores;
  core_set_clear(&cores);
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    if (core->online && core->source == to &&
        notify->last[core->core] == code_of(from))
      core_set_add(&cores, core->core);
  }
  if (core_set_count(&cores) > 0)
    send_change(&cores, from, to, NS_TO_CDTIME_T(snapshot->time_ns));
}

void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send) {
  for (int from = SOURCE_NONE; send && from < SOURCES; from++)
    for (int to = SOURCE_NONE; to < SOURCES; to++)
      if (from != to)
        notify_change(notify, snapshot, from, to);

  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    bool first = notify->last[core->core] == 0;
    if (core->online && !(first && core->source == SOURCE_NONE))
      notify->last[core->core] = code_of(core->source);
  }
}
