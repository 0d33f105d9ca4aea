/* perf_event: groups of hardware counters, each on one core. */
#ifndef PERCORE_PERF_EVENT_H
#define PERCORE_PERF_EVENT_H

#include "base/why.h"
#include "machine.h"

#include <stdbool.h>
#include <stdint.h>

#define PMU_FOLDER "/sys/bus/event_source/devices"
#define PERF_GROUP_EVENTS_MAX 4

/* An event to count: type and config of perf_event_attr. */
struct perf_event {
  uint32_t type;
  uint64_t config;
};

/* Finds an event of a PMU by its name in sysfs, where the kernel's own PMUs msr
 * and armv8_* describe it as "event=0x4004", which is the whole config. Returns
 * 0, or -ENOENT with the reason in why[]. */
int perf_event_find(struct perf_event *event, const char *pmu, const char *name,
                    const struct machine *machine, char why[WHY_SIZE]);

struct perf_group {
  const struct machine *machine;
  int events_len; /* 0: the group is not open */
  int fd[PERF_GROUP_EVENTS_MAX];
};

/* Has the layout in which read(2) returns a group: see perf_event_open(2). */
struct perf_reading {
  uint64_t events_len;
  uint64_t time_enabled_ns;
  uint64_t time_running_ns;
  uint64_t value[PERF_GROUP_EVENTS_MAX];
};

/* Opens events[0] as the leader and the others as its members, counting
 * everything that runs on `core`. A pinned group never takes turns with other
 * groups: it holds its counters or fails. Returns 0, or -errno with nothing
 * left open. */
int perf_group_open(struct perf_group *group, const struct machine *machine,
                    int core, const struct perf_event *events, int events_len,
                    bool pinned);
/* A group that is all zeros may also be closed. */
void perf_group_close(struct perf_group *group);

/* Writes what an -errno from perf_group_open means and what to do about it. */
void perf_explain(char *text, size_t size, int status);

/* Reads the whole group in one system call. Returns 0; -ESTALE if the group
 * must be opened again because its core went offline; -EBUSY if a pinned group
 * lost its counters; or another -errno. *reading is undefined on error. */
int perf_group_read(const struct perf_group *group,
                    struct perf_reading *reading);

#endif
