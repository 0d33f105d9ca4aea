#include "tracepoints.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FORMAT "/sys/kernel/tracing/events/%s/format"
#define FORMAT_SIZE 4096
/* Large enough for the events of about 0.1 s on a core with 10 000 timers a
 * second, and small enough to be mapped without CAP_IPC_LOCK. */
#define RING_SIZE (512 * 1024)
#define RECORD_SIZE 256 /* our records are smaller */
#define OFFSET_MAX 128  /* a field with a larger offset is refused */
#define MODE_RELATIVE 1 /* a bit of the kernel's enum hrtimer_mode */

/* Indexes into `fields` below. */
#define STATE 0
#define TIMER 0
#define EXPIRES 1
#define MODE 2

static const struct {
  const char *name;
  const char *fields[WAKE_FIELDS];
  bool is_optional;
} hooks[WAKE_TRACEPOINTS] = {
    [WAKE_ON_IDLE] = {"power/cpu_idle", {"state"}, false},
    [WAKE_ON_START] = {"timer/hrtimer_start",
                       {"hrtimer", "expires", "mode"},
                       false},
    [WAKE_ON_EXPIRE] = {"timer/hrtimer_expire_entry", {"hrtimer"}, false},
    [WAKE_ON_INTERRUPT] = {"irq/irq_handler_entry", {NULL}, false},
    [WAKE_ON_LOCAL_TIMER] = {"irq_vectors/local_timer_entry", {NULL}, true},
};

/* ---------------------------------------------------------------------------
 * Events
 */

/* A perf sample with our sample_type. */
struct sample {
  struct perf_event_header header;
  uint32_t process, thread;
  uint64_t time;
  uint32_t raw_size;
  unsigned char raw[]; /* begins with the tracepoint's id */
};

static uint64_t field_of(const struct wake_tracepoints *tracepoints,
                         enum wake_tracepoint tracepoint, int field,
                         const struct sample *sample) {
  const struct wake_format *format = &tracepoints->formats[tracepoint];
  uint32_t offset = format->fields[field].offset;
  uint32_t size = format->fields[field].size, half;
  uint64_t whole;
  if (offset + size > sample->raw_size)
    return 0;
  memcpy(&half, sample->raw + offset, sizeof(half));
  if (size == sizeof(half))
    return half;
  memcpy(&whole, sample->raw + offset, sizeof(whole));
  return whole;
}

static size_t slot_of(uint64_t timer) {
  return (timer * UINT64_C(0x9e3779b97f4a7c15) >> 32) % WAKE_TIMERS;
}

static void on_start(struct wake_tracepoints *tracepoints,
                     struct wake_probe *probe, const struct sample *sample) {
  uint64_t timer = field_of(tracepoints, WAKE_ON_START, TIMER, sample);
  uint64_t ltime = field_of(tracepoints, WAKE_ON_START, EXPIRES, sample);
  uint64_t mode = field_of(tracepoints, WAKE_ON_START, MODE, sample);
  size_t slot = slot_of(timer);
  tracepoints->timers[slot].timer = timer;
  tracepoints->timers[slot].ltime = ltime;
  if (probe->thread == 0 || sample->thread != probe->thread)
    return;
  probe->steps.timer = timer;
  probe->steps.distance = ltime - sample->time;
  /* A relative timer only ends a pause. */
  probe->steps.is_armed = !(mode & MODE_RELATIVE);
}

static bool on_expire(struct wake_tracepoints *tracepoints,
                      struct wake_probe *probe, const struct sample *sample) {
  struct wake_steps *steps = &probe->steps;
  uint64_t timer = field_of(tracepoints, WAKE_ON_EXPIRE, TIMER, sample);
  size_t slot = slot_of(timer);
  if (tracepoints->timers[slot].timer == timer)
    return wake_on_expire(steps, sample->time, timer,
                          tracepoints->timers[slot].ltime);
  /* The timer was started on another core, or its start was not seen, so its
   * LTime is unknown. */
  if (!steps->is_passive)
    return wake_on_expire(steps, sample->time, timer, 0);
  /* The unknown timer may be the earliest that its interrupt expires, so the
   * other timers of this interrupt are not used either. */
  steps->tintr = 0;
  steps->is_pending = 0;
  return false;
}

static void take_sample(struct wake_tracepoints *tracepoints,
                        struct wake_probe *probe, const struct sample *sample) {
  uint16_t id;
  bool is_point = false;
  int tracepoint = 0;
  memcpy(&id, sample->raw, sizeof(id));
  while (tracepoint < WAKE_TRACEPOINTS &&
         tracepoints->formats[tracepoint].id != id)
    tracepoint++;
  switch (tracepoint) {
  case WAKE_ON_IDLE: {
    uint32_t state =
        (uint32_t)field_of(tracepoints, WAKE_ON_IDLE, STATE, sample);
    is_point = state == UINT32_MAX
                   ? wake_on_wake(&probe->steps, sample->time)
                   : wake_on_idle(&probe->steps, sample->time, state);
    break;
  }
  case WAKE_ON_START:
    on_start(tracepoints, probe, sample);
    break;
  case WAKE_ON_EXPIRE:
    is_point = on_expire(tracepoints, probe, sample);
    break;
  case WAKE_ON_INTERRUPT:
  case WAKE_ON_LOCAL_TIMER:
    wake_on_interrupt(&probe->steps, sample->time);
    break;
  default:
    break;
  }
  if (is_point)
    wake_publish(probe);
}

/* ---------------------------------------------------------------------------
 * The ring
 */

static void copy_out(const struct wake_tracepoints *tracepoints, uint64_t from,
                     void *out, size_t size) {
  const struct perf_event_mmap_page *ring = tracepoints->ring;
  const unsigned char *bytes = (const unsigned char *)ring + ring->data_offset;
  size_t at = from % ring->data_size, first = ring->data_size - at;
  first = first < size ? first : size;
  memcpy(out, bytes + at, first);
  memcpy((unsigned char *)out + first, bytes, size - first);
}

static void take_record(struct wake_tracepoints *tracepoints,
                        struct wake_probe *probe, uint64_t from, size_t size) {
  union {
    struct sample sample;
    struct {
      struct perf_event_header header;
      uint64_t id, lost;
    } loss;
    unsigned char bytes[RECORD_SIZE];
  } record;
  if (size > sizeof(record))
    return;
  memset(&record, 0, sizeof(record));
  copy_out(tracepoints, from, &record, size);
  if (record.sample.header.type == PERF_RECORD_LOST) {
    tracepoints->lost += record.loss.lost;
    wake_on_lost(&probe->steps);
  } else if (record.sample.header.type == PERF_RECORD_SAMPLE) {
    take_sample(tracepoints, probe, &record.sample);
  }
}

void wake_tracepoints_read(struct wake_tracepoints *tracepoints,
                           struct wake_probe *probe) {
  struct perf_event_mmap_page *ring = tracepoints->ring;
  uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
  uint64_t tail = ring->data_tail;
  while (tail < head) {
    struct perf_event_header header;
    copy_out(tracepoints, tail, &header, sizeof(header));
    if (header.size < sizeof(header)) { /* not a record: skip all others */
      tracepoints->lost++;
      wake_on_lost(&probe->steps);
      tail = head;
      break;
    }
    take_record(tracepoints, probe, tail, header.size);
    tail += header.size;
  }
  __atomic_store_n(&ring->data_tail, tail, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------------------
 * Opening
 */

bool wake_format_parse(struct wake_format *format,
                       enum wake_tracepoint tracepoint, const char *text) {
  const char *id = strstr(text, "\nID: ");
  *format = (struct wake_format){.id = 0};
  if (id == NULL || sscanf(id, "\nID: %hu", &format->id) != 1)
    return false;
  for (int i = 0; i < WAKE_FIELDS && hooks[tracepoint].fields[i]; i++) {
    char name[32];
    snprintf(name, sizeof(name), " %s;\toffset:", hooks[tracepoint].fields[i]);
    const char *at = strstr(text, name);
    uint32_t *offset = &format->fields[i].offset,
             *size = &format->fields[i].size;
    if (at == NULL ||
        sscanf(at + strlen(name), "%u;\tsize:%u", offset, size) != 2 ||
        *offset > OFFSET_MAX || (*size != 4 && *size != 8))
      return false;
  }
  return true;
}

static int read_format(struct wake_format *format,
                       enum wake_tracepoint tracepoint,
                       char why[WAKE_WHY_SIZE]) {
  char path[128], text[FORMAT_SIZE];
  snprintf(path, sizeof(path), FORMAT, hooks[tracepoint].name);
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    int error = errno;
    snprintf(
        why, WAKE_WHY_SIZE, "cannot read %s: %s; %s", path, strerror(error),
        error == ENOENT
            ? "mount -t tracefs nodev /sys/kernel/tracing"
            : "run it as root, or with CAP_PERFMON and access to this file");
    return -error;
  }
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  if (wake_format_parse(format, tracepoint, text))
    return 0;
  snprintf(why, WAKE_WHY_SIZE, "%s has an unknown format; use --source bpf",
           path);
  return -EPROTO;
}

static int open_one(const struct wake_format *format, int core) {
  struct perf_event_attr attr = {
      .type = PERF_TYPE_TRACEPOINT,
      .size = sizeof(attr),
      .config = format->id,
      .sample_period = 1,
      .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
      .use_clockid = 1,
      .clockid = CLOCK_MONOTONIC};
  long descriptor =
      syscall(SYS_perf_event_open, &attr, -1, core, -1, PERF_FLAG_FD_CLOEXEC);
  return descriptor < 0 ? -errno : (int)descriptor;
}

/* Maps a ring for the first tracepoint, and makes the other tracepoints write
 * to the same ring. Returns 0 or a negative errno. */
static int share_ring(struct wake_tracepoints *tracepoints, int descriptor) {
  if (tracepoints->ring != NULL)
    return ioctl(descriptor, PERF_EVENT_IOC_SET_OUTPUT,
                 tracepoints->descriptors[0]) == 0
               ? 0
               : -errno;
  tracepoints->ring_size = RING_SIZE + (size_t)sysconf(_SC_PAGESIZE);
  void *ring = mmap(NULL, tracepoints->ring_size, PROT_READ | PROT_WRITE,
                    MAP_SHARED, descriptor, 0);
  if (ring == MAP_FAILED)
    return -errno;
  tracepoints->ring = ring;
  return 0;
}

int wake_tracepoints_open(struct wake_tracepoints *tracepoints, int core,
                          char why[WAKE_WHY_SIZE]) {
  *tracepoints = (struct wake_tracepoints){.ring = NULL};
  memset(tracepoints->descriptors, -1, sizeof(tracepoints->descriptors));
  for (int i = 0; i < WAKE_TRACEPOINTS; i++) {
    struct wake_format *format = &tracepoints->formats[i];
    int status = read_format(format, (enum wake_tracepoint)i, why);
    if (status == -ENOENT && hooks[i].is_optional)
      continue;
    if (status == 0) {
      status = tracepoints->descriptors[i] = open_one(format, core);
      if (status >= 0)
        status = share_ring(tracepoints, tracepoints->descriptors[i]);
      if (status < 0)
        snprintf(why, WAKE_WHY_SIZE,
                 "cannot watch the tracepoint %s on core %d: %s; %s",
                 hooks[i].name, core, strerror(-status),
                 status == -EACCES || status == -EPERM
                     ? "run it as root or with CAP_PERFMON"
                     : "choose a core listed in "
                       "/sys/devices/system/cpu/online");
    }
    if (status < 0) {
      wake_tracepoints_close(tracepoints);
      return status;
    }
  }
  return 0;
}

void wake_tracepoints_close(struct wake_tracepoints *tracepoints) {
  if (tracepoints->ring != NULL)
    munmap(tracepoints->ring, tracepoints->ring_size);
  for (int i = 0; i < WAKE_TRACEPOINTS; i++)
    if (tracepoints->descriptors[i] > 0)
      close(tracepoints->descriptors[i]);
  *tracepoints = (struct wake_tracepoints){.ring = NULL};
}
