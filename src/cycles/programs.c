#include "programs.h"

#include "base/bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void programs_init(struct programs *programs) {
  memset(programs, -1, sizeof(*programs));
}

void programs_close(struct programs *programs) {
  if (programs->map >= 0)
    close(programs->map);
  for (int i = 0; i < PROGRAMS_LINKS_MAX; i++)
    if (programs->links[i] >= 0)
      close(programs->links[i]);
  programs_init(programs);
}

int programs_fail(char why[PROGRAMS_WHY_SIZE], int status, const char *format,
                  ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, PROGRAMS_WHY_SIZE, format, arguments);
  va_end(arguments);
  return status;
}

int programs_check_rights(const char *alternative,
                          char why[PROGRAMS_WHY_SIZE]) {
  const char *missing = bpf_missing_capability();
  if (missing == NULL)
    return 0;
  return programs_fail(why, -EPERM,
                       "loading its programs needs CAP_BPF and CAP_PERFMON: "
                       "%s; grant both%s",
                       missing, alternative);
}

int programs_refused(int error, char why[PROGRAMS_WHY_SIZE]) {
  if (error == 0)
    error = ENOMEM;
  return programs_fail(
      why, -error, "the kernel refused its programs: %s (%s)", strerror(error),
      error == EPERM || error == EACCES
          ? "a seccomp filter or the kernel's lockdown forbids them"
          : "they need Linux 5.14 or later with CONFIG_BPF_SYSCALL");
}

int programs_not_built(char why[PROGRAMS_WHY_SIZE]) {
  return programs_fail(why, -ENOSYS,
                       "percore was built without BPF programs (clang, bpftool "
                       "and libbpf-dev were missing, or --disable-bpf)");
}

int programs_keep(int *copy, int fd, char why[PROGRAMS_WHY_SIZE]) {
  *copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (*copy >= 0)
    return 0;
  return programs_fail(why, -errno, "no file descriptor is left for it: %s",
                       strerror(errno));
}

int programs_attach(struct programs *programs, int link, const char *tracepoint,
                    int program, char why[PROGRAMS_WHY_SIZE]) {
  union bpf_attr attr = {0};
  attr.raw_tracepoint.name = (uintptr_t)tracepoint;
  attr.raw_tracepoint.prog_fd = (uint32_t)program;
  int status = bpf_call(BPF_RAW_TRACEPOINT_OPEN, &attr);
  programs->links[link] = status;
  if (status >= 0)
    return 0;
  return programs_fail(why, status, "cannot attach to the tracepoint %s: %s",
                       tracepoint, strerror(-status));
}

int programs_read(const struct programs *programs, void *values, size_t size,
                  int cores) {
  const int64_t impossible = INT64_MIN;
  uint32_t key = 0;
  char *last = (char *)values + (size_t)(cores - 1) * size;
  char *beyond = last + size;
  /* The kernel copies the values of all possible cores without reporting how
   * many it copied. An impossible value marks the end of the copied values. */
  memcpy(last, &impossible, sizeof(impossible));
  memcpy(beyond, &impossible, sizeof(impossible));
  union bpf_attr attr = {0};
  attr.map_fd = (uint32_t)programs->map;
  attr.key = (uintptr_t)&key;
  attr.value = (uintptr_t)values;
  int status = bpf_call(BPF_MAP_LOOKUP_ELEM, &attr);
  if (status < 0)
    return status;
  bool all = memcmp(last, &impossible, sizeof(impossible)) != 0;
  bool more = memcmp(beyond, &impossible, sizeof(impossible)) != 0;
  return all && !more ? 0 : -EINVAL;
}
