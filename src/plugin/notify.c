#include "notify.h"

#include "cycles/sampling_thread.h"
#include "put.h"

#include "utils/common/common.h"

#include <math.h>

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

/* Writes the mean loads of the cores before and after the change. Writes
 * nothing if one of them is unknown. */
static void format_loads(char *text, size_t size, double before, double after) {
  text[0] = '\0';
  if (!isnan(before) && !isnan(after))
    snprintf(text, size, "; their mean load was %.1f %%, and is now %.1f %%",
             before * 100, after * 100);
}

static bool has_changed(const struct notify *notify,
                        const struct core_figures *core) {
  uint8_t last = notify->last[core->core];
  return core->online && last != 0 && last != code_of(core->source);
}

static void *send_notification(void *note) {
  put_notification(note, INSTANCE_SELF, "source");
  free(note);
  return NULL;
}

/* A thread of its own sends it, because a notification plugin may block for
 * minutes. */
static void send_aside(const notification_t *note) {
  pthread_t thread;
  notification_t *copy = malloc(sizeof(*copy));
  if (copy == NULL)
    return;
  *copy = *note;
  if (thread_start(&thread, send_notification, copy) == 0)
    pthread_detach(thread);
  else
    free(copy);
}

/* Reports the change of one core together with all equal changes, and remembers
 * them. */
static void report_change(struct notify *notify,
                          const struct snapshot *snapshot,
                          const struct core_figures *changed, bool send) {
  uint8_t code = notify->last[changed->core];
  enum source_kind from = (enum source_kind)(code + SOURCE_AUTO);
  enum source_kind to = changed->source;
  double before = 0, after = 0;
  struct core_set cores;
  core_set_clear(&cores);
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    if (!core->online || core->source != to || notify->last[core->core] != code)
      continue;
    notify->last[core->core] = code_of(to);
    core_set_add(&cores, core->core);
    before += notify->load[core->core];
    after += core->load;
  }
  char list[96], loads[80];
  int count = core_set_count(&cores);
  const char *more = format_cores(&cores, list, sizeof(list));
  format_loads(loads, sizeof(loads), before / count, after / count);
  notification_t note = {.severity = severity_of(from, to),
                         .time = NS_TO_CDTIME_T(snapshot->time_ns)};
  snprintf(note.message, sizeof(note.message),
           "The source of the load of %d core%s changed from %s to %s: "
           "core%s %s%s%s.",
           count, count == 1 ? "" : "s", source_name(from), source_name(to),
           count == 1 ? "" : "s", list, more, loads);
  NOTICE("percore: %s", note.message);
  if (send)
    send_aside(&note);
}

void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send) {
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (has_changed(notify, &snapshot->cores[i]))
      report_change(notify, snapshot, &snapshot->cores[i], send);

  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    bool first = notify->last[core->core] == 0;
    if (core->online && !(first && core->source == SOURCE_NONE)) {
      notify->last[core->core] = code_of(core->source);
      notify->load[core->core] = core->load;
    }
  }
}
