#include "domains.h"

#include "base/array.h"
#include "perf_event.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY_MAX 256

static const struct pmu {
  const char *name;
  /* The parts of an event's name that are removed to form the name of its
   * figure. */
  const char *prefix, *suffix;
} pmus[] = {
    [DOMAIN_CORE_RESIDENCY] = {"cstate_core", "", "-residency"},
    [DOMAIN_PACKAGE_RESIDENCY] = {"cstate_pkg", "", "-residency"},
    [DOMAIN_POWER] = {"power", "energy-", ""},
};
#define KINDS (sizeof(pmus) / sizeof(pmus[0]))

/* One event, read through one core. */
struct counter {
  struct perf_event event;
  struct perf_group group;
  double joules; /* energy per count, in joules */
  bool has_reading;
  struct perf_reading reading;
  struct domain_figure figure; /* without its value */
};

struct domains {
  const struct engine *engine;
  const struct machine *machine;
  bool wanted[KINDS];
  bool reported; /* the journal has reported that counters are missing */
  /* The cores through which counters may be read. If the set changes, all
   * counters are reopened. */
  struct core_set cores;
  /* msr/tsc, because residencies are counted in cycles of the TSC */
  struct counter tsc;
  size_t len;
  struct counter *counters;
};

/* ---------------------------------------------------------------------------
 * Finding
 */

struct scan {
  struct domains *domains;
  enum domain_kind kind;
  struct core_set cores; /* the cores through which the PMU is read */
};

/* Writes the short form of an event's name, such as "c6" for "c6-residency".
 * Returns false if the file `event` does not describe an event of this PMU. */
static bool short_name(char *name, size_t size, const struct pmu *pmu,
                       const char *event) {
  size_t length = strlen(event), prefix = strlen(pmu->prefix),
         suffix = strlen(pmu->suffix);
  if (strchr(event, '.') != NULL || length <= prefix + suffix ||
      length - prefix - suffix >= size ||
      strncmp(event, pmu->prefix, prefix) != 0 ||
      strcmp(event + length - suffix, pmu->suffix) != 0)
    return false;
  snprintf(name, size, "%.*s", (int)(length - prefix - suffix), event + prefix);
  return true;
}

static double read_scale(const struct machine *machine, const char *event) {
  char path[320], text[64];
  snprintf(path, sizeof(path), PMU_FOLDER "/power/events/%s.scale", event);
  if (machine->read_file(machine->context, path, text, sizeof(text)) <= 0)
    return NAN;
  return strtod(text, NULL);
}

static void add_event(const char *name, void *argument) {
  const struct scan *scan = argument;
  struct domains *domains = scan->domains;
  const struct topology *topology = engine_topology(domains->engine);
  const struct pmu *pmu = &pmus[scan->kind];
  struct counter counter = {.joules = NAN, .figure.kind = scan->kind};
  struct domain_figure *figure = &counter.figure;
  char text[320], why[WHY_MAX];
  snprintf(text, sizeof(text), "%s/%s/", pmu->name, name);
  if (!short_name(figure->name, sizeof(figure->name), pmu, name) ||
      perf_event_parse(&counter.event, text, domains->machine, why,
                       sizeof(why)) != 0)
    return;
  if (scan->kind == DOMAIN_POWER)
    counter.joules = read_scale(domains->machine, name);
  core_set_for_each(core, &scan->cores) {
    figure->core = core;
    figure->package = core < topology->cores_len ? topology->package[core] : -1;
    if (!array_resize(&domains->counters, domains->len + 1, sizeof(counter)))
      return;
    domains->counters[domains->len++] = counter;
  }
}

static void find(struct domains *domains) {
  const struct machine *machine = domains->machine;
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct scan scan = {.domains = domains, .kind = (enum domain_kind)kind};
    char path[128];
    snprintf(path, sizeof(path), PMU_FOLDER "/%s/cpumask", pmus[kind].name);
    if (!domains->wanted[kind] ||
        machine_read_core_set(machine, path, &scan.cores) != 0)
      continue;
    core_set_intersect(&scan.cores, &domains->cores);
    snprintf(path, sizeof(path), PMU_FOLDER "/%s/events", pmus[kind].name);
    machine->list_directory(machine->context, path, add_event, &scan);
  }
}

/* ---------------------------------------------------------------------------
 * Opening
 */

/* Reports that figures are missing, and why, but only once. */
static void say_missing(struct domains *domains, int status) {
  char why[WHY_MAX];
  if (domains->reported)
    return;
  perf_explain(why, sizeof(why), status);
  journal_say(&engine_options(domains->engine)->journal, JOURNAL_WARNING,
              "some package counters are missing: %s", why);
  domains->reported = true;
}

static void open_counter(struct domains *domains, struct counter *counter) {
  int status = perf_group_open(&counter->group, domains->machine,
                               counter->figure.core, &counter->event, 1, false);
  if (status != 0)
    say_missing(domains, status);
}

static bool has_room(struct domains *domains) {
  const struct machine *machine = domains->machine;
  long wanted = (long)domains->len + 1;
  bool room = machine->perf_room(
                  machine->context, wanted,
                  engine_options(domains->engine)->raise_limit) >= wanted;
  if (!room)
    say_missing(domains, -EMFILE);
  return room;
}

static void open_all(struct domains *domains) {
  char why[WHY_MAX];
  find(domains);
  if (domains->len == 0 || !has_room(domains))
    return;
  for (size_t i = 0; i < domains->len; i++)
    open_counter(domains, &domains->counters[i]);
  domains->tsc.figure.core = core_set_next(&domains->cores, -1);
  if (domains->wanted[DOMAIN_CORE_RESIDENCY] &&
      perf_event_parse(&domains->tsc.event, "msr/tsc/", domains->machine, why,
                       sizeof(why)) == 0)
    open_counter(domains, &domains->tsc);
}

static void close_all(struct domains *domains) {
  for (size_t i = 0; i < domains->len; i++)
    perf_group_close(&domains->counters[i].group);
  perf_group_close(&domains->tsc.group);
  free(domains->counters);
  domains->counters = NULL;
  domains->len = 0;
  domains->tsc = (struct counter){0};
}

struct domains *domains_open(const struct engine *engine, bool residency,
                             bool power) {
  if (!(residency || power) || !engine_options(engine)->hardware)
    return NULL;
  struct domains *domains = calloc(1, sizeof(*domains));
  if (domains == NULL)
    return NULL;
  domains->engine = engine;
  domains->machine = engine_machine(engine);
  domains->wanted[DOMAIN_CORE_RESIDENCY] = residency;
  domains->wanted[DOMAIN_PACKAGE_RESIDENCY] = residency;
  domains->wanted[DOMAIN_POWER] = power;
  return domains;
}

void domains_close(struct domains *domains) {
  if (domains == NULL)
    return;
  close_all(domains);
  free(domains);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

/* Reads the counter, and returns its counts per nanosecond since its last
 * reading; NAN if unknown. */
static double rate(struct counter *counter) {
  struct perf_reading now;
  if (counter->group.events_len == 0)
    return NAN;
  bool good = perf_group_read(&counter->group, &now) == 0;
  double rate =
      good && counter->has_reading ? perf_rate(&counter->reading, &now) : NAN;
  counter->has_reading = good;
  if (good)
    counter->reading = now;
  return rate;
}

/* Merges a package's figure into an earlier figure with the same name of the
 * same package, because a package with several dies is measured once per die.
 * Powers are added; of residencies, the smallest is kept. Returns false if
 * there is no earlier figure. */
static bool join(struct domain_figure *figures, size_t len,
                 const struct domain_figure *figure) {
  for (size_t i = 0; i < len; i++) {
    if (figure->kind == DOMAIN_CORE_RESIDENCY ||
        figures[i].kind != figure->kind ||
        figures[i].package != figure->package ||
        strcmp(figures[i].name, figure->name) != 0)
      continue;
    figures[i].value = figure->kind == DOMAIN_POWER
                           ? figures[i].value + figure->value
                           : fmin(figures[i].value, figure->value);
    return true;
  }
  return false;
}

/* If the set of usable cores has changed, reopens all counters. */
static void update_cores(struct domains *domains) {
  const struct topology *topology = engine_topology(domains->engine);
  struct core_set cores = topology->online;
  core_set_subtract(&cores, &topology->isolated);
  if (core_set_equal(&cores, &domains->cores))
    return;
  close_all(domains);
  domains->cores = cores;
  open_all(domains);
}

int domains_read(struct domains *domains, struct domain_figure **figures,
                 size_t *len) {
  *len = 0;
  *figures = NULL;
  if (domains == NULL)
    return 0;
  update_cores(domains);
  if (domains->len == 0)
    return 0;
  *figures = calloc(domains->len, sizeof(**figures));
  if (*figures == NULL)
    return -ENOMEM;
  double tsc = rate(&domains->tsc);
  for (size_t i = 0; i < domains->len; i++) {
    struct counter *counter = &domains->counters[i];
    struct domain_figure figure = counter->figure;
    double count = rate(counter);
    figure.value = figure.kind == DOMAIN_POWER ? 1e9 * count * counter->joules
                                               : count / tsc;
    if (!join(*figures, *len, &figure))
      (*figures)[(*len)++] = figure;
  }
  return 0;
}
