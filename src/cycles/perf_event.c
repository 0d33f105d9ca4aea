#include "perf_event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int perf_event_find(struct perf_event *event, const char *pmu, const char *name,
                    const struct machine *machine, char why[WHY_SIZE]) {
  char text[64], end;
  uint64_t type, config;
  if (machine_read_u64(machine, &type, PMU_FOLDER "/%s/type", pmu) != 0 ||
      type > UINT32_MAX)
    return why_fails(why, -ENOENT,
                     "this machine has no PMU %s (see " PMU_FOLDER ")", pmu);
  if (machine_read(machine, text, sizeof(text), PMU_FOLDER "/%s/events/%s", pmu,
                   name) <= 0 ||
      sscanf(text, "event=%" SCNx64 "%c", &config, &end) != 2 || end != '\n')
    return why_fails(why, -ENOENT, "the PMU %s has no event %s", pmu, name);
  *event = (struct perf_event){.type = (uint32_t)type, .config = config};
  return 0;
}

/* ---------------------------------------------------------------------------
 * Groups
 */

int perf_group_open(struct perf_group *group, const struct machine *machine,
                    int core, const struct perf_event *events, int events_len,
                    bool pinned) {
  *group = (struct perf_group){.machine = machine};
  for (int i = 0; i < events_len; i++) {
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = events[i].type,
        .config = events[i].config,
        .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
                       PERF_FORMAT_TOTAL_TIME_RUNNING,
        .pinned = pinned && i == 0, /* only a leader may be pinned */
    };
    int fd = machine->perf_open(machine->context, &attr, core,
                                i == 0 ? -1 : group->fd[0]);
    if (fd < 0) {
      perf_group_close(group);
      return fd;
    }
    group->fd[group->events_len++] = fd;
  }
  return 0;
}

void perf_explain(char *text, size_t size, int status) {
  const char *remedy = "";
  if (status == -EACCES || status == -EPERM)
    remedy = " (grant CAP_PERFMON, or lower kernel.perf_event_paranoid)";
  else if (status == -ENOENT)
    remedy = " (this processor, or the hypervisor, does not offer it)";
  else if (status == -EOPNOTSUPP)
    remedy =
        " (this machine does not offer it, or not while a guest uses the PMU)";
  else if (status == -EBUSY)
    remedy = " (other users of the PMU hold its counters)";
  else if (status == -ENODEV)
    remedy = " (the core is offline)";
  else if (status == -EMFILE)
    remedy = " (raise the limit on open files, LimitNOFILE= under systemd)";
  snprintf(text, size, "it cannot be opened: %s%s", strerror(-status), remedy);
}

void perf_group_close(struct perf_group *group) {
  while (group->events_len > 0)
    group->machine->perf_close(group->machine->context,
                               group->fd[--group->events_len]);
}

int perf_group_read(const struct perf_group *group,
                    struct perf_reading *reading) {
  const struct machine *machine = group->machine;
  size_t events_len = (size_t)group->events_len;
  size_t size = sizeof(*reading) -
                (PERF_GROUP_EVENTS_MAX - events_len) * sizeof(uint64_t);
  ssize_t length = machine->perf_read(machine->context, group->fd[0], reading,
                                      sizeof(*reading));
  if (length < 0)
    return (int)length;
  if (length == 0)
    return -EBUSY; /* end of file: a pinned group that lost its counters */
  bool complete = (size_t)length == size && reading->events_len == events_len;
  return complete ? 0 : -ESTALE;
}
