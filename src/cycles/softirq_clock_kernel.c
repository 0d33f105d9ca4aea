#include "softirq_clock_kernel.h"

#include "base/bpf.h"
#include "programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef PERCORE_BPF
#include "cycles/softirq_clock.lskel.h"
#endif

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

void softirq_clock_kernel_init(struct softirq_clock_kernel *clock) {
  clock->map = -1;
  memset(clock->links, -1, sizeof(clock->links));
}

void softirq_clock_kernel_close(struct softirq_clock_kernel *clock) {
  close_fd(&clock->map);
  for (int i = 0; i < SOFTIRQ_CLOCK_LINKS_MAX; i++)
    close_fd(&clock->links[i]);
}

#ifdef PERCORE_BPF
/* The end of each span is attached before its beginning, so that no span stays
 * open. */
static const struct {
  const char *end, *begin;
} hooks[] = {{"softirq_exit", "softirq_entry"},
             {"irq_handler_exit", "irq_handler_entry"},
#define PAIR(name) {#name "_exit", #name "_entry"},
             PROGRAMS_EACH_INTERRUPT(PAIR)};
#define HOOKS ((int)(sizeof(hooks) / sizeof(hooks[0])))
#define HOOK_SOFTIRQ 0
#define HOOK_DEVICE 1 /* this hook and those before it are indispensable */
_Static_assert(2 * sizeof(hooks) / sizeof(hooks[0]) <= SOFTIRQ_CLOCK_LINKS_MAX,
               "links[] has no room for all hooks");

static int attach_all(struct softirq_clock_kernel *clock,
                      const struct softirq_clock_bpf *loaded, char *why,
                      size_t why_size) {
  int *link = clock->links;
  for (int i = 0; i < HOOKS; i++) {
    bool softirq = i == HOOK_SOFTIRQ;
    int end = softirq ? loaded->progs.on_softirq_exit.prog_fd
                      : loaded->progs.on_hard_exit.prog_fd;
    int begin = softirq ? loaded->progs.on_softirq_entry.prog_fd
                        : loaded->progs.on_hard_entry.prog_fd;
    int status = programs_attach(link++, hooks[i].end, end);
    if (status == 0)
      status = programs_attach(link++, hooks[i].begin, begin);
    if (status != 0 && (status != -ENOENT || i <= HOOK_DEVICE)) {
      snprintf(why, why_size, "cannot attach to the tracepoint %s: %s",
               hooks[i].begin, strerror(-status));
      return status;
    }
  }
  return 0;
}

int softirq_clock_kernel_load(struct softirq_clock_kernel *clock, char *why,
                              size_t why_size) {
  if (bpf_missing_capability() != NULL) {
    snprintf(why, why_size,
             "loading its programs needs CAP_BPF and CAP_PERFMON: grant both");
    return -EPERM;
  }
  errno = 0;
  struct softirq_clock_bpf *loaded = softirq_clock_bpf__open_and_load();
  if (loaded == NULL) {
    int status = errno != 0 ? -errno : -ENOMEM;
    snprintf(why, why_size,
             "the kernel refused its programs: %s (they need Linux 5.14 or "
             "later with CONFIG_BPF_SYSCALL)",
             strerror(-status));
    return status;
  }
  int status = attach_all(clock, loaded, why, why_size);
  clock->map = fcntl(loaded->maps.softirq_clock.map_fd, F_DUPFD_CLOEXEC, 3);
  if (status == 0 && clock->map < 0) {
    status = -errno;
    snprintf(why, why_size, "no descriptor is left: %s", strerror(-status));
  }
  softirq_clock_bpf__destroy(loaded);
  if (status != 0)
    softirq_clock_kernel_close(clock);
  return status;
}
#else
int softirq_clock_kernel_load(struct softirq_clock_kernel *clock, char *why,
                              size_t why_size) {
  (void)clock;
  snprintf(why, why_size,
           "percore was built without BPF programs (clang, bpftool and "
           "libbpf-dev were missing, or --disable-bpf)");
  return -ENOSYS;
}
#endif

int softirq_clock_kernel_read(const struct softirq_clock_kernel *clock,
                              struct softirq_words *words, int cores) {
  uint32_t key = 0;
  union bpf_attr attr = {0};
  /* The kernel copies the words of all possible cores without telling their
   * number; an impossible value marks the end of the copied words. */
  words[cores - 1].hard = words[cores].hard = INT64_MIN;
  attr.map_fd = (uint32_t)clock->map;
  attr.key = (uintptr_t)&key;
  attr.value = (uintptr_t)words;
  int status = bpf_call(BPF_MAP_LOOKUP_ELEM, &attr);
  if (status < 0)
    return status;
  bool all = words[cores - 1].hard != INT64_MIN;
  bool more = words[cores].hard != INT64_MIN;
  return all && !more ? 0 : -EINVAL;
}
