/* btf: tells which members the running kernel's structures have, from the type
 * information in /sys/kernel/btf/vmlinux. */
#ifndef PERCORE_BTF_H
#define PERCORE_BTF_H

#include "machine.h"

#include <stdbool.h>
#include <stddef.h>

/* Looks for names in the string section of BTF as this machine stores it.
 * found[] gets one answer per name, false for all of them on failure. Returns
 * 0, or -EINVAL if this is not BTF. */
int btf_search(const char *btf, size_t size, const char *const *names,
               bool *found, size_t names_len);

/* The same for the kernel under the sysroot. Returns 0 or -errno. */
int btf_find(const struct machine *machine, const char *const *names,
             bool *found, size_t names_len);

#endif
