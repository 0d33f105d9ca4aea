/* btf: finds out from /sys/kernel/btf/vmlinux, the type information of the
 * running kernel, which members its structures have. */
#ifndef PERCORE_BTF_H
#define PERCORE_BTF_H

#include "machine.h"

#include <stdbool.h>
#include <stddef.h>

/* Searches the string section of BTF data, which must have this machine's byte
 * order, for names. Sets found[i] to whether names[i] was found; all are false
 * on failure. Returns 0, or -EINVAL if the data is not BTF. */
int btf_search(const char *btf, size_t size, const char *const *names,
               bool *found, size_t names_len);

/* Like btf_search, but reads the kernel's BTF file under the sysroot. Returns 0
 * or -errno. */
int btf_find(const struct machine *machine, const char *const *names,
             bool *found, size_t names_len);

#endif
