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
  /* Around the names of its events; not part of the figures' names. */
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
};

struct domains {
  const struct engine *engine;
  const struct machine *machine;
  bool wanted[KINDS];
  bool reported; /* already reported that something cannot be opened */
  /* The cores through which counters may be read. If the set changes, counters
   * are reopened. */
  struct core_set cores;
  struct counter tsc; /* residencies are counted in cycles of the TSC */
  size_t len;
  struct counter *counters;
  struct domain_figure *figures; /* one figure per counter */
};

/* ---------------------------------------------------------------------------
 * Finding
 */

struct scan {
  struct domains *domains;
  enum domain_kind kind;
  struct core_set cores; /* through which the PMU is read */
};

/* Shortens "c6-residency" to "c6". Returns false if the file is not an event.
 */
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

static bool add_counter(struct domains *domains, const struct counter *counter,
                        const struct domain_figure *figure) {
  size_t len = domains->len;
  if (!array_resize(&domains->counters, len + 1, sizeof(*counter)) ||
      !array_resize(&domains->figures, len + 1, sizeof(*figure)))
    return false;
  domains->counters[len] = *counter;
  domains->figures[len] = *figure;
  domains->len++;
  return true;
}

static void add_event(const char *name, void *argument) {
  const struct scan *scan = argument;
  struct domains *domains = scan->domains;
  const struct topology *topology = engine_topology(domains->engine);
  const struct pmu *pmu = &pmus[scan->kind];
  struct domain_figure figure = {.kind = scan->kind};
  struct counter counter = {.joules = NAN};
  char text[320], why[WHY_MAX];
  snprintf(text, sizeof(text), "%s/%s/", pmu->name, name);
  if (!short_name(figure.name, sizeof(figure.name), pmu, name) ||
      perf_event_parse(&counter.event, text, domains->machine, why,
                       sizeof(why)) != 0)
    return;
  if (scan->kind == DOMAIN_POWER)
    counter.joules = read_scale(domains->machine, name);
  core_set_for_each(core, &scan->cores) {
    figure.core = core;
    figure.package = core < topology->cores_len ? topology->package[core] : -1;
    if (!add_counter(domains, &counter, &figure))
      return;
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

static void say(struct domains *domains, const char *why) {
  if (!domains->reported)
    journal_say(&engine_options(domains->engine)->journal, JOURNAL_WARNING,
                "some package counters are missing: %s", why);
  domains->reported = true;
}

static void open_counter(struct domains *domains, struct counter *counter,
                         int core) {
  int status = perf_group_open(&counter->group, domains->machine, core,
                               &counter->event, 1, false);
  if (status == 0)
    return;
  char why[WHY_MAX];
  perf_explain(why, sizeof(why), status);
  say(domains, why);
}

static bool has_room(struct domains *domains) {
  const struct machine *machine = domains->machine;
  long wanted = (long)domains->len + 1;
  if (machine->perf_room == NULL ||
      machine->perf_room(machine->context, wanted,
                         engine_options(domains->engine)->raise_limit) >=
          wanted)
    return true;
  char why[WHY_MAX];
  perf_explain(why, sizeof(why), -EMFILE);
  say(domains, why);
  return false;
}

static void open_all(struct domains *domains) {
  char why[WHY_MAX];
  find(domains);
  if (domains->len == 0 || !has_room(domains))
    return;
  for (size_t i = 0; i < domains->len; i++)
    open_counter(domains, &domains->counters[i], domains->figures[i].core);
  if (domains->wanted[DOMAIN_CORE_RESIDENCY] &&
      perf_event_parse(&domains->tsc.event, "msr/tsc/", domains->machine, why,
                       sizeof(why)) == 0)
    open_counter(domains, &domains->tsc, core_set_next(&domains->cores, -1));
}

static void close_all(struct domains *domains) {
  for (size_t i = 0; i < domains->len; i++)
    perf_group_close(&domains->counters[i].group, domains->machine);
  perf_group_close(&domains->tsc.group, domains->machine);
  free(domains->counters);
  free(domains->figures);
  domains->counters = NULL;
  domains->figures = NULL;
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

/* Returns counts per nanosecond since the last reading; NAN if unknown. */
static double rate(struct counter *counter, const struct machine *machine) {
  struct perf_reading now;
  if (counter->group.events_len == 0)
    return NAN;
  bool good = perf_group_read(&counter->group, machine, &now) == 0;
  double rate = NAN;
  if (good && counter->has_reading &&
      now.time_enabled_ns > counter->reading.time_enabled_ns)
    rate = (double)(now.value[0] - counter->reading.value[0]) /
           (double)(now.time_enabled_ns - counter->reading.time_enabled_ns);
  counter->has_reading = good;
  if (good)
    counter->reading = now;
  return rate;
}

/* Merges a figure into an earlier figure of the same package, because a package
 * with several dies has a figure for each die. Energies are added; of
 * residencies, the smallest is kept. Returns true if there was an earlier
 * figure. */
static bool join(struct domain_figure *figures, size_t at) {
  struct domain_figure *figure = &figures[at];
  for (size_t i = 0; i < at; i++) {
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

const struct domain_figure *domains_read(struct domains *domains, size_t *len) {
  *len = 0;
  if (domains == NULL)
    return NULL;
  const struct topology *topology = engine_topology(domains->engine);
  struct core_set cores = topology->online;
  core_set_subtract(&cores, &topology->isolated);
  if (!core_set_equal(&cores, &domains->cores)) {
    close_all(domains);
    domains->cores = cores;
    open_all(domains);
  }
  double tsc = rate(&domains->tsc, domains->machine);
  for (size_t i = 0; i < domains->len; i++) {
    struct counter *counter = &domains->counters[i];
    double count = rate(counter, domains->machine);
    domains->figures[i].value = domains->figures[i].kind == DOMAIN_POWER
                                    ? 1e9 * count * counter->joules
                                    : count / tsc;
    if (join(domains->figures, i))
      /* It was merged into an earlier figure. */
      domains->figures[i].value = NAN;
  }
  *len = domains->len;
  return domains->figures;
}
