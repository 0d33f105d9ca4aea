#include "programs.h"

#include "base/bpf.h"

#include <stdint.h>

int programs_attach(int *link, const char *tracepoint, int program) {
  union bpf_attr attr = {0};
  attr.raw_tracepoint.name = (uintptr_t)tracepoint;
  attr.raw_tracepoint.prog_fd = (uint32_t)program;
  *link = bpf_call(BPF_RAW_TRACEPOINT_OPEN, &attr);
  return *link < 0 ? *link : 0;
}
