/* bpf: the system call bpf(2), for code that uses no BPF library. */
#ifndef PERCORE_BASE_BPF_H
#define PERCORE_BASE_BPF_H

#include <errno.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the kernel's result, or a negative errno. */
static inline int bpf_call(enum bpf_cmd command, union bpf_attr *attr) {
  long result = syscall(SYS_bpf, command, attr, sizeof(*attr));
  return result < 0 ? -errno : (int)result;
}

#endif
