/* bpf: calls bpf(2) without a BPF library, and checks whether this process has
 * the capabilities that are needed to load programs. */
#ifndef PERCORE_BASE_BPF_H
#define PERCORE_BASE_BPF_H

#include "why.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CAP_PERFMON /* missing from older headers */
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif

/* Calls bpf(2). Returns its result or -errno. */
static inline int bpf_call(enum bpf_cmd command, union bpf_attr *attr) {
  long result = syscall(SYS_bpf, command, attr, sizeof(*attr));
  return result < 0 ? -errno : (int)result;
}

/* Runs a program at a tracepoint until the link is closed. Returns the link's
 * descriptor, or -ENOENT if this kernel has no such tracepoint, or another
 * -errno, with the reason in `why`. */
static inline int bpf_attach(const char *tracepoint, int program,
                             char why[WHY_SIZE]) {
  union bpf_attr attr = {.raw_tracepoint = {.name = (uintptr_t)tracepoint,
                                            .prog_fd = (uint32_t)program}};
  int link = bpf_call(BPF_RAW_TRACEPOINT_OPEN, &attr);
  return link >= 0
             ? link
             : why_fails(why, link, "cannot attach to the tracepoint %s: %s",
                         tracepoint, strerror(-link));
}

/* Explains the errno with which the kernel refused to load programs (0 if it is
 * unknown), and returns it as -errno. `need`: what the programs need; of what
 * its verifier refuses, the kernel says EACCES or EINVAL. */
static inline int bpf_refused(int error, const char *need, char why[WHY_SIZE]) {
  if (error == 0)
    error = ENOMEM;
  return why_fails(
      why, -error, "the kernel refused its programs: %s (%s)", strerror(error),
      error == EPERM ? "a seccomp filter or the kernel's lockdown forbids them"
                     : need);
}

/* Returns a text that says which of CAP_BPF and CAP_PERFMON this process lacks,
 * such as "CAP_PERFMON is missing", because the error that the kernel returns
 * does not name the capability. Returns NULL if the process has both, or if it
 * has CAP_SYS_ADMIN, which includes them. */
static inline const char *bpf_missing_capability(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
  if (syscall(SYS_capget, &header, data) != 0)
    return "the capabilities of this process cannot be read";
  uint64_t effective = (uint64_t)data[1].effective << 32 | data[0].effective;
  if ((effective >> CAP_SYS_ADMIN & 1) != 0)
    return NULL;
  static const char *const texts[2][2] = {
      {"both are missing", "CAP_BPF is missing"},
      {"CAP_PERFMON is missing", NULL},
  };
  return texts[effective >> CAP_BPF & 1][effective >> CAP_PERFMON & 1];
}

#endif
