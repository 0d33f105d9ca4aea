#include "watch.h"

#include "report.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_journal(void *context, enum journal_level level,
                          const char *line) {
  struct watch *watch = context;
  size_t length = strlen(line);
  char *longer = realloc(watch->said, watch->said_len + length + 2);
  if (longer == NULL)
    abort();
  memcpy(longer + watch->said_len, line, length);
  memcpy(longer + watch->said_len + length, "\n", 2);
  watch->said = longer;
  watch->said_len += length + 1;
  (void)level;
  note("journal: %s", line);
}

int watch_open(struct watch *watch, struct engine_options options) {
  *watch = (struct watch){0};
  if (options.machine == NULL) {
    watch->machine = machine_linux("/");
    if (watch->machine == NULL)
      abort();
    options.machine = watch->machine;
  }
  options.journal = (struct journal){.write = write_journal, .context = watch};
  int status = engine_open(&watch->engine, &options);
  if (status != 0) {
    note("engine_open: %s", strerror(-status));
    watch->engine = NULL;
    return status;
  }
  engine_sample(watch->engine, false);
  while (engine_proof_due(watch->engine))
    engine_prove(watch->engine);
  return 0;
}

void watch_close(struct watch *watch) {
  if (watch->engine != NULL)
    engine_close(watch->engine);
  machine_linux_close(watch->machine);
  free(watch->said);
}

static bool has_words(const char *line, const char *const words[]) {
  for (; *words != NULL; words++)
    if (strstr(line, *words) == NULL)
      return false;
  return true;
}

bool watch_said(const struct watch *watch, const char *const words[]) {
  char *copy = watch->said != NULL ? strdup(watch->said) : NULL;
  bool found = false;
  char *rest = copy;
  for (char *line; !found && (line = strsep(&rest, "\n")) != NULL;)
    found = has_words(line, words);
  free(copy);
  return found;
}

const struct core *watch_core(const struct watch *watch, int core) {
  size_t len;
  const struct core *cores = engine_cores(watch->engine, &len);
  for (size_t i = 0; i < len; i++)
    if (cores[i].number == core)
      return &cores[i];
  return NULL;
}

struct core_totals watch_total(struct watch *watch, int core) {
  uint64_t begin = now_ns();
  engine_sample(watch->engine, false);
  uint64_t took_ns = now_ns() - begin;
  if (took_ns > watch->slowest_ns)
    watch->slowest_ns = took_ns;
  const struct core *found = watch_core(watch, core);
  return found != NULL ? found->total : (struct core_totals){0};
}

/* One end of a window. It is unknown when exactly the sample read the counter,
 * so the burner's record is read before and after the sample, and the mean of
 * both is used. width_ns is the time between these two reads of the record,
 * which is long if the guest was halted during the sample. */
struct edge {
  struct core_totals total;
  double time_ns, width_ns, busy_ns, late_ns;
};

static struct edge take_edge(struct watch *watch, int core,
                             struct burner *burner) {
  struct edge edge;
  uint64_t begin = now_ns();
  uint64_t busy = burner != NULL ? burner_busy_ns(burner) : 0;
  edge.total = watch_total(watch, core);
  busy += burner != NULL ? burner_busy_ns(burner) : 0;
  uint64_t end = now_ns();
  edge.time_ns = (double)(begin + end) / 2;
  edge.width_ns = (double)(end - begin);
  edge.busy_ns = (double)busy / 2;
  edge.late_ns = burner != NULL ? (double)burner_late_ns(burner) : 0;
  return edge;
}

static struct window between(const struct edge *from, const struct edge *to) {
  const struct core_totals *a = &from->total, *b = &to->total;
  double wall = b->stat_wall - a->stat_wall;
  double length_ns = to->time_ns - from->time_ns;
  double edges = (from->width_ns + to->width_ns) / length_ns;
  return (struct window){
      .load = engine_load(a, b),
      .truth = (to->busy_ns - from->busy_ns) / length_ns,
      .edges = edges,
      .late = (to->late_ns - from->late_ns) / length_ns + edges,
      .busy_columns = (b->stat_busy - a->stat_busy) / wall,
      .idle_columns = (b->stat_idle - a->stat_idle) / wall,
      .sum_columns = (core_stat_sum(b) - core_stat_sum(a)) / wall,
  };
}

struct window watch_window(struct watch *watch, int core, struct burner *burner,
                           uint64_t length_ns) {
  struct edge from = take_edge(watch, core, burner);
  sleep_ns(length_ns);
  struct edge to = take_edge(watch, core, burner);
  return between(&from, &to);
}

struct window watch_window_at_rest(struct watch *watch, int core,
                                   struct burner *burner, uint64_t length_ns) {
  burner_wait_for_rest(burner);
  struct edge from = take_edge(watch, core, burner);
  sleep_ns(length_ns);
  burner_wait_for_rest(burner);
  struct edge to = take_edge(watch, core, burner);
  return between(&from, &to);
}

struct window watch_pattern(struct watch *watch, int core,
                            const struct pattern *pattern, uint64_t length_ns) {
  struct burner burner;
  burner_start(&burner, core, pattern);
  sleep_ns(2 * pattern->period_ns);
  struct window window = watch_window_at_rest(watch, core, &burner, length_ns);
  burner_stop(&burner);
  return window;
}

int descriptors_open(void) {
  DIR *directory = opendir("/proc/self/fd");
  if (directory == NULL)
    return -1;
  int len = 0;
  while (readdir(directory) != NULL)
    len++;
  closedir(directory);
  return len;
}
