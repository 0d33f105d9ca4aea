#include "programs.h"

#include "base/bpf.h"

#include <linux/capability.h>
#include <stdint.h>

#ifndef CAP_PERFMON /* missing from older headers */
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif

bool programs_may_load(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
  if (syscall(SYS_capget, &header, data) != 0)
    return false;
  uint64_t effective = (uint64_t)data[1].effective << 32 | data[0].effective;
  uint64_t wanted = UINT64_C(1) << CAP_BPF | UINT64_C(1) << CAP_PERFMON;
  return (effective >> CAP_SYS_ADMIN & 1) != 0 ||
         (effective & wanted) == wanted;
}

int programs_attach(int *link, const char *tracepoint, int program) {
  union bpf_attr attr = {0};
  attr.raw_tracepoint.name = (uintptr_t)tracepoint;
  attr.raw_tracepoint.prog_fd = (uint32_t)program;
  *link = bpf_call(BPF_RAW_TRACEPOINT_OPEN, &attr);
  return *link < 0 ? *link : 0;
}
