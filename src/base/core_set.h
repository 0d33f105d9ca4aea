/* core_set: a set of core numbers, written as Linux writes them ("0-15,32"). */
#ifndef PERCORE_BASE_CORE_SET_H
#define PERCORE_BASE_CORE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest number of logical CPUs that a Linux kernel can be built for
 * (CONFIG_MAXSMP). Cores are numbered 0 to CORES_MAX - 1. */
#define CORES_MAX 8192

struct core_set {
  uint64_t word[CORES_MAX / 64];
};

/* Parses a list such as "0-3,8,10-11". Like the kernel's cpulist_parse, allows
 * blanks around numbers, and strides such as "0-14:2/4". An empty list is the
 * empty set. Returns 0; -EINVAL if the text is not a list or a range runs
 * backwards; -ERANGE if a core is CORES_MAX or more. *set is undefined on
 * error. */
int core_set_parse(struct core_set *set, const char *list);

/* Writes the shortest list that denotes the set, always terminated with a NUL.
 * If the list does not fit in `size` bytes, it is cut after a whole range.
 * Returns the length of the written list without the NUL. */
size_t core_set_format(const struct core_set *set, char *buffer, size_t size);

void core_set_clear(struct core_set *set);
void core_set_fill(struct core_set *set); /* adds every core */
void core_set_add(struct core_set *set, int core);
bool core_set_has(const struct core_set *set, int core);
bool core_set_equal(const struct core_set *a, const struct core_set *b);
int core_set_count(const struct core_set *set);
void core_set_union(struct core_set *into, const struct core_set *from);
void core_set_intersect(struct core_set *into, const struct core_set *from);
void core_set_subtract(struct core_set *into, const struct core_set *from);

/* Returns the smallest member greater than `after`, or -1 if no member is
 * greater. If `after` is -1, returns the smallest member of the set. */
int core_set_next(const struct core_set *set, int after);

#define core_set_for_each(core, set)                                           \
  for (int core = core_set_next((set), -1); core >= 0;                         \
       core = core_set_next((set), core))

#endif
