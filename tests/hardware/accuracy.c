/* Compares loads from this machine's counters with known duty cycles, and
 * prints a table of the results. On a machine without counters, prints one line
 * that says so. */
#include "testbed/duty_cycles.h"
#include "testbed/report.h"
#include "testbed/watch.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

static const struct {
  enum source_kind source;
  const char *how;
} ways[] = {
    {SOURCE_MPERF, "mperf"},
    {SOURCE_REF_CYCLES, "ref-cycles"},
};

static void name_machine(void) {
  char line[256], cpu[256] = "unknown processor";
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL)
    if (sscanf(line, "model name : %255[^\n]", cpu) == 1)
      break;
  if (file != NULL)
    fclose(file);
  struct utsname name;
  uname(&name);
  note("%s, Linux %s, %g ms a tick", cpu, name.release,
       1e-6 * (double)tick_ns());
}

static int cores_for_us(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Returns the number of the highest core that this process may use. Other work
 * is least likely to disturb that core. */
static int last_core(void) {
  cpu_set_t set;
  int core = 0;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; i++)
      if (CPU_ISSET(i, &set))
        core = i;
  return core;
}

/* Measures the load of the core with one source, for busy
 * shares that are known. Returns false if the core cannot use that source. */
static bool measure(size_t way, int core) {
  struct watch watch;
  int status = watch_open(&watch, (struct engine_options){
                                      .hardware = true,
                                      .source = ways[way].source,
                                      .isolated_cores = ISOLATED_CORES_HARDWARE,
                                  });
  const struct core *seen = NULL;
  if (status == 0) {
    engine_sample(watch.engine, false);
    seen = watch_core(&watch, core);
  }
  bool serves = seen != NULL && seen->source == ways[way].source;
  if (serves)
    duty_cycles_measure(
        &watch, &(struct duty_terms){.core = core, .how = ways[way].how});
  else
    skipped(ways[way].how, "%s",
            status != 0 ? strerror(-status)
                        : engine_source_reason(watch.engine, ways[way].source));
  watch_close(&watch);
  return serves;
}

int main(void) {
  bool any = false;
  name_machine();
  if (cores_for_us() < 2) {
    skipped("loads from this machine's own counters", "%s",
            "the burner needs a core of its own, and there is only one core");
    printf("1..%d\n", results());
    return 77;
  }
  /* Without this call, the kernel may delay the timers of this thread by 50
   * us. */
  prctl(PR_SET_TIMERSLACK, 1);
  for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
    any |= measure(way, last_core());
  printf("1..%d\n", results());
  if (!any)
    return 77;
  return results_failed() > 0 ? 1 : 0;
}
