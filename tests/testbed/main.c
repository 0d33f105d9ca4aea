/* The program that runs in a guest:
 *
 *   guest CHAPTER...         results on stdout
 *   guest burn CORE PATTERN  keeps a core busy until killed; prints every
 *                            second how busy the core was and how late the
 *                            burner's rounds were
 *   guest mark TEXT...       prints the time and a text
 *   guest smi COUNT          requests system management interrupts, 0.2 s apart
 */
#include "burner.h"
#include "chapters.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <sys/io.h>
#endif

static const struct {
  const char *name;
  void (*run)(void);
} chapters[] = {
    {"duty", chapter_duty},
    {"tsc", chapter_tsc},
    {"time-enabled", chapter_time_enabled},
    {"refusal", chapter_refusal},
    {"sharing", chapter_sharing},
    {"isolated", chapter_isolated},
    {"hotplug", chapter_hotplug},
    {"library", chapter_library},
    {"region", chapter_region},
    {"suspend", chapter_suspend},
    {"board", chapter_board},
    {"tick", chapter_tick},
#ifdef PERCORE_BPF
    {"clock", chapter_clock},
    {"bounds", chapter_bounds},
    {"bounds-long", chapter_bounds_long},
    {"hotplug-clock", chapter_hotplug_clock},
    {"wake-on", chapter_wake_on},
    {"wake-off", chapter_wake_off},
    {"wake-taken", chapter_wake_taken},
#endif
};

static int run(const char *name) {
  for (size_t i = 0; i < sizeof(chapters) / sizeof(chapters[0]); i++)
    if (strcmp(chapters[i].name, name) == 0) {
      chapters[i].run();
      return 0;
    }
  fprintf(stderr, "no chapter '%s'\n", name);
  return 1;
}

static double realtime(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void tell_truth(struct burner *burner) {
  double from = realtime();
  uint64_t busy = burner_busy_ns(burner), late = burner_late_ns(burner);
  for (;;) {
    sleep_ns((uint64_t)(1e9 * (floor(from) + 1 - from)));
    double to = realtime();
    uint64_t busy_to = burner_busy_ns(burner);
    uint64_t late_to = burner_late_ns(burner);
    printf("TRUTH %.3f %.2f %.2f\n", to,
           100 * 1e-9 * (double)(busy_to - busy) / (to - from),
           100 * 1e-9 * (double)(late_to - late) / (to - from));
    fflush(stdout);
    from = to;
    busy = busy_to;
    late = late_to;
  }
}

static int burn(int core, const char *name) {
  static const struct pattern patterns[] = {
      {"60", 12000000, 20000000, false, 0, false},
      {"hog", 3300000, 4000000, true, 250000, true},
  };
  struct burner burner;
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
    if (strcmp(patterns[i].name, name) == 0) {
      burner_start(&burner, core, &patterns[i]);
      tell_truth(&burner);
    }
  fprintf(stderr, "no pattern '%s'\n", name);
  return 1;
}

static int mark(int argc, char **argv) {
  printf("MARK %.3f", realtime());
  for (int i = 0; i < argc; i++)
    printf(" %s", argv[i]);
  putchar('\n');
  return 0;
}

/* On a PC, a byte that is written to the port APM_CNT requests one. */
static int request_smis(int count) {
#ifdef __x86_64__
  if (ioperm(0xb2, 1, 1) != 0)
    return 1;
  for (; count > 0; count--) {
    sleep_ns(200000000);
    outb(0, 0xb2);
  }
#endif
  return count;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "burn") == 0)
    return burn(atoi(argv[2]), argv[3]);
  if (argc > 1 && strcmp(argv[1], "mark") == 0)
    return mark(argc - 2, argv + 2);
  if (argc == 3 && strcmp(argv[1], "smi") == 0)
    return request_smis(atoi(argv[2]));
  int status = argc > 1 ? 0 : 1;
  for (int i = 1; i < argc; i++)
    status |= run(argv[i]);
  note("results: %d", results());
  return status;
}
