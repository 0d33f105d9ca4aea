/* btf: reads the type information of the running kernel,
 * /sys/kernel/btf/vmlinux, to find out which members the kernel's structures
 * have. */
#ifndef PERCORE_BTF_H
#define PERCORE_BTF_H

#include "machine.h"

#include <stdbool.h>
#include <stddef.h>

/* Searches the string section of BTF data for names. The data must be in this
 * machine's byte order. Sets found[i] to whether names[i] was found; on
 * failure, sets all of them to false. Returns 0, or -EINVAL if the data is not
 * BTF. */
int btf_search(const char *btf, size_t size, const char *const *names,
               bool *found, size_t names_len);

/* Like btf_search, but reads the kernel's BTF file under the sysroot. Returns 0
 * or -errno. */
int btf_find(const struct machine *machine, const char *const *names,
             bool *found, size_t names_len);

#endif
