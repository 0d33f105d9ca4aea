#include "proctext.h"

#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static void set_unknown(double *ns, int cores_len) {
  for (int core = 0; core < cores_len; core++)
    ns[core] = NAN;
}

static int known(const double *ns, int cores_len) {
  for (int core = 0; core < cores_len; core++)
    if (!isnan(ns[core]))
      return 0;
  return -EINVAL;
}

/* Returns the text after `key` if the line begins with `key`, otherwise NULL.
 */
static const char *after(const char *line, const char *key) {
  size_t length = strlen(key);
  return strncmp(line, key, length) == 0 ? line + length : NULL;
}

/* Returns the line after `line`, or NULL if `line` is the last. Ignores a last
 * line without a newline, because a number in that line may have been cut. */
static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end != NULL && strchr(end + 1, '\n') != NULL ? end + 1 : NULL;
}

static const char *first_line(const char *text) {
  return strchr(text, '\n') != NULL ? text : NULL;
}

/* ---------------------------------------------------------------------------
 * /proc/timer_list
 */

/* The lines that are read for each core. */
enum timer_list_field {
  TICK_STOPPED,
  IDLE_ENTRYTIME,
  IDLE_SLEEPTIME,
  IOWAIT_SLEEPTIME,
  TIMER_LIST_FIELDS,
};

static const char *const timer_list_names[TIMER_LIST_FIELDS] = {
    ".tick_stopped", ".idle_entrytime", ".idle_sleeptime", ".iowait_sleeptime"};

struct timer_list_core {
  bool has[TIMER_LIST_FIELDS];
  uint64_t value[TIMER_LIST_FIELDS];
};

static double timer_list_idle(const struct timer_list_core *core,
                              uint64_t now_ns) {
  if (!core->has[TICK_STOPPED] || !core->has[IDLE_ENTRYTIME] ||
      !core->has[IDLE_SLEEPTIME])
    return NAN;
  double idle_ns = (double)core->value[IDLE_SLEEPTIME];
  if (core->has[IOWAIT_SLEEPTIME])
    idle_ns += (double)core->value[IOWAIT_SLEEPTIME];
  /* The sums do not include the current idle period, so add it. */
  if (core->value[TICK_STOPPED] != 0 && now_ns > core->value[IDLE_ENTRYTIME])
    idle_ns += (double)(now_ns - core->value[IDLE_ENTRYTIME]);
  return idle_ns;
}

/* Parses " .idle_sleeptime : 4711 nsecs". */
static void parse_timer_list_field(const char *line,
                                   struct timer_list_core *core) {
  while (*line == ' ')
    line++;
  for (int field = 0; field < TIMER_LIST_FIELDS; field++) {
    const char *rest = after(line, timer_list_names[field]);
    if (rest == NULL)
      continue;
    while (*rest == ' ')
      rest++;
    if (*rest++ == ':')
      core->has[field] = number_next(&rest, &core->value[field]);
  }
}

int timer_list_parse(const char *text, double *idle_ns, int cores_len,
                     double *now_ns) {
  uint64_t now = 0, number;
  bool has_now = false;
  struct timer_list_core part = {0};
  int core = -1;
  set_unknown(idle_ns, cores_len);
  for (const char *line = first_line(text); line != NULL;
       line = next_line(line)) {
    const char *rest = after(line, "now at ");
    if (rest != NULL && !has_now)
      has_now = number_next(&rest, &now);
    rest = after(line, "cpu: ");
    if (rest != NULL) {
      core = number_next(&rest, &number) && number < (uint64_t)cores_len
                 ? (int)number
                 : -1;
      part = (struct timer_list_core){0};
    }
    /* The tick devices, which follow the cores in the file, have none of these
     * lines, so they do not change the values of the last core. */
    parse_timer_list_field(line, &part);
    if (core >= 0 && has_now)
      idle_ns[core] = timer_list_idle(&part, now);
  }
  *now_ns = (double)now;
  return known(idle_ns, cores_len);
}

/* ---------------------------------------------------------------------------
 * cpuacct.usage_percpu
 */

int cpuacct_parse(const char *text, const struct core_set *possible,
                  double *run_ns, int cores_len) {
  set_unknown(run_ns, cores_len);
  if (first_line(text) == NULL)
    return -EINVAL;
  core_set_for_each(core, possible) {
    uint64_t value;
    if (!number_next(&text, &value))
      break;
    if (core < cores_len)
      run_ns[core] = (double)value;
  }
  return known(run_ns, cores_len);
}
