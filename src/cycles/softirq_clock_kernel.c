#include "softirq_clock_kernel.h"

#include <errno.h>

#ifdef PERCORE_BPF
#include "cycles/softirq_clock.lskel.h"

/* Pairs of tracepoints. In each pair, the tracepoint that ends spans is
 * attached first, so that no span stays open. */
static const struct {
  const char *end, *begin;
} hooks[] = {{"softirq_exit", "softirq_entry"},
             {"irq_handler_exit", "irq_handler_entry"},
#define PAIR(name) {#name "_exit", #name "_entry"},
             PROGRAMS_EACH_INTERRUPT(PAIR)};
#define HOOKS ((int)(sizeof(hooks) / sizeof(hooks[0])))
#define HOOK_SOFTIRQ 0
#define HOOK_DEVICE 1 /* this hook and those before it are required */
_Static_assert(2 * sizeof(hooks) / sizeof(hooks[0]) <= PROGRAMS_LINKS_MAX,
               "links[] has no room for all hooks");

static int attach_all(struct programs *programs,
                      const struct softirq_clock_bpf *loaded,
                      char why[PROGRAMS_WHY_SIZE]) {
  for (int i = 0; i < HOOKS; i++) {
    bool softirq = i == HOOK_SOFTIRQ;
    int end = softirq ? loaded->progs.on_softirq_exit.prog_fd
                      : loaded->progs.on_hard_exit.prog_fd;
    int begin = softirq ? loaded->progs.on_softirq_entry.prog_fd
                        : loaded->progs.on_hard_entry.prog_fd;
    int status = programs_attach(programs, 2 * i, hooks[i].end, end, why);
    if (status == 0)
      status = programs_attach(programs, 2 * i + 1, hooks[i].begin, begin, why);
    if (status != 0 && (status != -ENOENT || i <= HOOK_DEVICE))
      return status;
  }
  return 0;
}

int softirq_clock_kernel_load(struct programs *programs,
                              char why[PROGRAMS_WHY_SIZE]) {
  int status = programs_check_rights("", why);
  if (status != 0)
    return status;
  errno = 0;
  struct softirq_clock_bpf *loaded = softirq_clock_bpf__open_and_load();
  if (loaded == NULL)
    return programs_refused(errno, why);
  status =
      programs_keep(&programs->map, loaded->maps.softirq_clock.map_fd, why);
  if (status == 0)
    status = attach_all(programs, loaded, why);
  softirq_clock_bpf__destroy(loaded);
  if (status != 0)
    programs_close(programs);
  return status;
}
#else
int softirq_clock_kernel_load(struct programs *programs,
                              char why[PROGRAMS_WHY_SIZE]) {
  (void)programs;
  return programs_not_built(why);
}
#endif
