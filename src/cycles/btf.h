/* btf: finds out which members the running kernel's structures have, from the
 * type information in /sys/kernel/btf/vmlinux. */
#ifndef PERCORE_BTF_H
#define PERCORE_BTF_H

#include "machine.h"

#include <stdbool.h>
#include <stddef.h>

/* Searches the string section of BTF, in the byte order of this machine, for
 * names. found[] receives one answer per name, all false on failure. Returns 0,
 * or -EINVAL if this is not BTF. */
int btf_search(const char *btf, size_t size, const char *const *names,
               bool *found, size_t names_len);

/* Does the same with the BTF file under the sysroot. Returns 0 or -errno. */
int btf_find(const struct machine *machine, const char *const *names,
             bool *found, size_t names_len);

#endif
