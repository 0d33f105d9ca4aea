#include "fake_machine.h"

#include "base/descriptors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS 10000000.0 /* /proc/stat: USER_HZ is always 100 */

/* Threads of the engine read the machine while the test runs it. */
static pthread_mutex_t turn = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void end_turn(const int *taken) {
  (void)taken;
  pthread_mutex_unlock(&turn);
}
#define TAKE_TURN                                                              \
  __attribute__((cleanup(end_turn))) int taken = pthread_mutex_lock(&turn)

struct fake_file {
  char *path;
  char *text;
  size_t length;
  int error;
};

struct fake_descriptor {
  bool open;
  bool pinned;
  bool stale; /* never counts again: its core was away or frozen, or the machine
                 was suspended */
  int core;
  int leader; /* descriptor of the group leader (its own if it leads) */
  uint64_t read_format;
  size_t counter;
  double enabled_ns, running_ns, value;
};

static void *grow(void *array, size_t *len, size_t size) {
  void *grown = realloc(array, (*len + 1) * size);
  if (grown == NULL)
    abort();
  memset((char *)grown + *len * size, 0, size);
  (*len)++;
  return grown;
}

static char *copy_of(const char *text) {
  char *copy = strdup(text);
  if (copy == NULL)
    abort();
  return copy;
}

/* ---------------------------------------------------------------------------
 * Time
 */

static double share_or(double share, double otherwise) {
  return isnan(share) ? otherwise : share;
}

static void run_core(struct fake_machine *fake, struct fake_core *core,
                     double ns) {
  if (!core->online)
    return;
  double idle = share_or(core->idle, 1 - core->load - core->steal -
                                         (fake->steal_apart ? core->woken : 0));
  double seen = share_or(core->seen, core->load);
  double column[10] = {seen,
                       0,
                       0,
                       idle * (1 - core->iowait),
                       idle * core->iowait,
                       core->irq,
                       core->softirq,
                       core->steal + core->woken,
                       core->guest};
  for (int i = 0; i < 10; i++)
    core->column_ns[i] += ns * column[i];
  double halts = core->halts_per_s * ns / 1e9;
  core->column_ns[3] += halts * core->loop_ns;
  core->halted_ns +=
      ns * (1 - core->load - core->steal) + halts * core->entry_ns;
  core->halts_part += halts;
  fake->interrupts += halts;
  core->ran_ns += ns * core->load;
  core->polled_ns += ns * (core->polled + core->polled_irq +
                           (core->polled > 0 ? core->woken : 0));
  if (core->load < 1 && !fake->clock.detached)
    core->clock_ran = true;
  if (core->load < 1)
    core->halts += 1 + (uint64_t)(ns / 1e6) + (uint64_t)core->halts_part;
  core->halts_part -= floor(core->halts_part);
}

static void run_descriptor(struct fake_machine *fake,
                           struct fake_descriptor *descriptor, double ns) {
  const struct fake_core *core = &fake->cores[descriptor->core];
  descriptor->stale |= core->frozen;
  if (!descriptor->open || descriptor->stale)
    return;
  const struct fake_counter *counter = &fake->counters[descriptor->counter];
  double share = counter->per == FAKE_PER_WALL       ? 1
                 : counter->per == FAKE_PER_UNHALTED ? core->load
                                                     : 1 - core->load;
  descriptor->enabled_ns += ns;
  descriptor->running_ns += ns * core->running;
  descriptor->value += ns * core->running * share * counter->hz / 1e9;
}

static void time_passed(struct fake_machine *fake, uint64_t ns) {
  fake->monotonic_ns += ns;
  if (fake->passed != NULL)
    fake->passed(fake->passed_context);
}

void fake_machine_run(struct fake_machine *fake, uint64_t ns) {
  TAKE_TURN;
  for (int i = 0; i < fake->cores_len; i++)
    run_core(fake, &fake->cores[i], (double)ns);
  for (size_t i = 0; i < fake->descriptors_len; i++)
    run_descriptor(fake, &fake->descriptors[i], (double)ns);
  time_passed(fake, ns);
}

void fake_machine_pause(struct fake_machine *fake, uint64_t ns) {
  TAKE_TURN;
  for (int i = 0; i < fake->cores_len; i++) {
    struct fake_core *core = &fake->cores[i];
    double idle_ns = core->online && core->idle_in_pause ? (double)ns : 0;
    core->column_ns[3] += idle_ns;
    core->halted_ns += idle_ns;
  }
  time_passed(fake, ns);
}

void fake_machine_suspend(struct fake_machine *fake, uint64_t ns) {
  TAKE_TURN;
  fake->boottime_offset_ns += (int64_t)ns;
  fake->realtime_offset_ns += (int64_t)ns;
  for (size_t i = 0; i < fake->descriptors_len; i++) {
    struct fake_descriptor *descriptor = &fake->descriptors[i];
    const struct fake_counter *counter = &fake->counters[descriptor->counter];
    if (counter->per == FAKE_PER_WALL)
      descriptor->value += (double)ns * counter->hz / 1e9;
    descriptor->stale = true;
  }
}

static uint64_t fake_clock(void *context, clockid_t clock) {
  TAKE_TURN;
  struct fake_machine *fake = context;
  uint64_t now = fake->monotonic_ns;
  if (fake->clock_step_ns > 0)
    fake_machine_run(fake, fake->clock_step_ns);
  if (clock == CLOCK_BOOTTIME)
    return now + (uint64_t)fake->boottime_offset_ns;
  if (clock == CLOCK_REALTIME)
    return now + (uint64_t)fake->realtime_offset_ns;
  return now;
}

/* ---------------------------------------------------------------------------
 * Files
 */

static struct fake_file *find_file(const struct fake_machine *fake,
                                   const char *path) {
  for (size_t i = 0; i < fake->files_len; i++)
    if (fake->files[i].path != NULL && strcmp(fake->files[i].path, path) == 0)
      return &fake->files[i];
  return NULL;
}

static struct fake_file *make_file(struct fake_machine *fake,
                                   const char *path) {
  struct fake_file *file = find_file(fake, path);
  if (file == NULL) {
    fake->files = grow(fake->files, &fake->files_len, sizeof *fake->files);
    file = &fake->files[fake->files_len - 1];
    file->path = copy_of(path);
  }
  free(file->text);
  file->text = NULL;
  file->error = 0;
  return file;
}

void fake_machine_file(struct fake_machine *fake, const char *path,
                       const char *text) {
  fake_machine_bytes(fake, path, text, strlen(text));
}

void fake_machine_bytes(struct fake_machine *fake, const char *path,
                        const char *bytes, size_t len) {
  struct fake_file *file = make_file(fake, path);
  file->text = malloc(len + 1);
  if (file->text == NULL)
    abort();
  memcpy(file->text, bytes, len);
  file->text[len] = 0;
  file->length = len;
}

void fake_machine_filef(struct fake_machine *fake, const char *text,
                        const char *path, ...) {
  char full[256];
  va_list arguments;
  va_start(arguments, path);
  vsnprintf(full, sizeof full, path, arguments);
  va_end(arguments);
  fake_machine_file(fake, full, text);
}

void fake_machine_fail(struct fake_machine *fake, const char *path, int error) {
  make_file(fake, path)->error = error;
}

void fake_machine_remove(struct fake_machine *fake, const char *path) {
  struct fake_file *file = find_file(fake, path);
  if (file == NULL)
    return;
  free(file->path);
  free(file->text);
  memset(file, 0, sizeof *file);
}

static ssize_t give(const char *text, size_t length, char *buffer,
                    size_t size) {
  if (size == 0)
    return -EFBIG;
  size_t given = length < size ? length : size - 1;
  memcpy(buffer, text, given);
  buffer[given] = 0;
  return length < size ? (ssize_t)length : -EFBIG;
}

static void stat_row(FILE *out, const char *name, const double ns[10]) {
  fprintf(out, "%s", name);
  for (int i = 0; i < 10; i++)
    fprintf(out, " %llu", (unsigned long long)(ns[i] / TICK_NS));
  fprintf(out, "\n");
}

static void write_stat(struct fake_machine *fake) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (out == NULL)
    abort();
  double all[10] = {0};
  for (int i = 0; i < fake->cores_len; i++)
    for (int column = 0; column < 10; column++)
      all[column] += fake->cores[i].column_ns[column];
  stat_row(out, "cpu ", all);
  for (int i = 0; i < fake->cores_len; i++) {
    if (!fake->cores[i].online || core_set_has(&fake->stat_hidden, i))
      continue;
    char name[16];
    snprintf(name, sizeof name, "cpu%d", i);
    stat_row(out, name, fake->cores[i].column_ns);
  }
  fprintf(out,
          "intr %.0f 2 3\nctxt %.0f\nbtime 5\nprocesses 6\n"
          "procs_running %d\nprocs_blocked %d\n",
          fake->interrupts, fake->switches, fake->procs_running,
          fake->procs_blocked);
  fclose(out);
  free(fake->stat_text);
  fake->stat_text = text;
}

static ssize_t read_stat(struct fake_machine *fake, char *buffer, size_t size) {
  bool slow = fake->stat_slow_reads != 0;
  if (fake->stat_slow_reads > 0)
    fake->stat_slow_reads--;
  fake->stat_reads++;
  uint64_t before_ns =
      slow ? (uint64_t)((double)fake->stat_read_ns * fake->stat_read_before)
           : 0;
  if (slow)
    fake_machine_run(fake, before_ns);
  if (!fake->stat_still || fake->stat_text == NULL)
    write_stat(fake);
  if (slow)
    fake_machine_run(fake, fake->stat_read_ns - before_ns);
  return give(fake->stat_text, strlen(fake->stat_text), buffer, size);
}

static const char *const cstate_name[] = {"POLL", "C1", "C6"};

/* Reads the file cpuN/cpuidle/stateM/{name,usage,time}. Reports all halted time
 * in the last state. */
static ssize_t read_cpuidle(struct fake_machine *fake, const char *path,
                            char *buffer, size_t size) {
  int core, state;
  char what[16], text[64];
  if (sscanf(path, CPU_FOLDER "/cpu%d/cpuidle/state%d/%15s", &core, &state,
             what) != 3)
    return -ENOENT;
  if (core < 0 || core >= fake->cores_len || state < 0 ||
      state >= fake->cpuidle_states) {
    fake->cpuidle_misses++;
    return -ENOENT;
  }
  fake->cpuidle_reads++;
  bool used = state == fake->cpuidle_states - 1;
  const struct fake_core *it = &fake->cores[core];
  double polled_ns = it->polled_ns;
  if (fake->poll_ns > 0)
    polled_ns -= fmod(polled_ns, (double)fake->poll_ns);
  if (strcmp(what, "name") == 0)
    snprintf(text, sizeof text, "%s\n", cstate_name[state]);
  else if (strcmp(what, "usage") == 0)
    snprintf(text, sizeof text, "%llu\n",
             used ? (unsigned long long)it->halts : 0ULL);
  else if (strcmp(what, "time") == 0)
    snprintf(text, sizeof text, "%llu\n",
             (unsigned long long)((used         ? it->halted_ns
                                   : state == 0 ? polled_ns
                                                : 0) /
                                  1e3));
  else
    return -ENOENT;
  return give(text, strlen(text), buffer, size);
}

static ssize_t read_online(const struct fake_machine *fake, char *buffer,
                           size_t size) {
  struct core_set online;
  char text[8192];
  core_set_clear(&online);
  for (int i = 0; i < fake->cores_len; i++)
    if (fake->cores[i].online)
      core_set_add(&online, i);
  core_set_format(&online, text, sizeof text - 1);
  strcat(text, "\n");
  return give(text, strlen(text), buffer, size);
}

static ssize_t read_uevents(const struct fake_machine *fake, char *buffer,
                            size_t size) {
  char text[32];
  int length =
      snprintf(text, sizeof text, "%llu\n", (unsigned long long)fake->uevents);
  return fake->hotplug_events ? give(text, (size_t)length, buffer, size)
                              : -ENOENT;
}

static ssize_t fake_read_file(void *context, const char *path, char *buffer,
                              size_t size) {
  TAKE_TURN;
  struct fake_machine *fake = context;
  const struct fake_file *file = find_file(fake, path);
  if (file != NULL && file->error != 0)
    return -file->error;
  if (file != NULL)
    return give(file->text, file->length, buffer, size);
  if (fake->procstat && strcmp(path, "/proc/stat") == 0)
    return read_stat(fake, buffer, size);
  if (fake->cores_len > 0 && strcmp(path, CPU_FOLDER "/online") == 0)
    return read_online(fake, buffer, size);
  if (strcmp(path, MACHINE_UEVENTS) == 0)
    return read_uevents(fake, buffer, size);
  return read_cpuidle(fake, path, buffer, size);
}

static bool fake_is_fuse(void *context, const char *path) {
  const struct fake_machine *fake = context;
  return fake->lxcfs && (strcmp(path, "/proc/stat") == 0 ||
                         (!fake->lxcfs_stat_only &&
                          strncmp(path, CPU_FOLDER, strlen(CPU_FOLDER)) == 0));
}

/* Copies the path component that follows `folder` in `path` to `name`. Returns
 * `name`, or NULL if `path` is not below `folder`. */
static const char *name_below(const char *path, const char *folder,
                              char name[256]) {
  size_t length = strlen(folder);
  while (length > 0 && folder[length - 1] == '/')
    length--;
  if (path == NULL || strncmp(path, folder, length) != 0 || path[length] != '/')
    return NULL;
  snprintf(name, 256, "%.*s", (int)strcspn(path + length + 1, "/"),
           path + length + 1);
  return name;
}

static int fake_list_directory(void *context, const char *path,
                               void (*each)(const char *name, void *argument),
                               void *argument) {
  TAKE_TURN;
  struct fake_machine *fake = context;
  char name[256], other[256];
  int core, end = 0, found = 0;
  for (size_t i = 0; i < fake->files_len; i++) {
    if (name_below(fake->files[i].path, path, name) == NULL)
      continue;
    bool again = false;
    for (size_t j = 0; j < i && !again; j++)
      again = name_below(fake->files[j].path, path, other) != NULL &&
              strcmp(name, other) == 0;
    found++;
    if (!again)
      each(name, argument);
  }
  if (sscanf(path, CPU_FOLDER "/cpu%d/cpuidle%n", &core, &end) == 1 &&
      end > 0 && path[end] == 0 && core < fake->cores_len)
    for (int state = 0; state < fake->cpuidle_states; state++, found++) {
      snprintf(name, sizeof name, "state%d", state);
      each(name, argument);
    }
  return found > 0 ? 0 : -ENOENT;
}

/* ---------------------------------------------------------------------------
 * Counters
 */

struct fake_counter *fake_machine_counter(struct fake_machine *fake,
                                          uint32_t type, uint64_t config,
                                          enum fake_per per, double hz) {
  fake->counters =
      grow(fake->counters, &fake->counters_len, sizeof *fake->counters);
  struct fake_counter *counter = &fake->counters[fake->counters_len - 1];
  *counter = (struct fake_counter){
      .type = type, .config = config, .core = -1, .per = per, .hz = hz};
  return counter;
}

struct fake_counter *fake_machine_find_counter(struct fake_machine *fake,
                                               uint32_t type, uint64_t config,
                                               int core) {
  for (size_t i = fake->counters_len; i-- > 0;) {
    struct fake_counter *counter = &fake->counters[i];
    if (counter->type == type && counter->config == config &&
        (counter->core < 0 || core < 0 || counter->core == core))
      return counter;
  }
  return NULL;
}

/* Enforces kernel rules that the code under test could break: events cannot be
 * opened on an offline core, msr events cannot have exclude bits, and the
 * members of a group must be on their leader's core. */
static int fake_perf_open(void *context, struct perf_event_attr *attr, int core,
                          int group) {
  TAKE_TURN;
  struct fake_machine *fake = context;
  fake->perf_opens++;
  if (core < 0 || core >= fake->cores_len)
    return -EINVAL;
  if (!fake->cores[core].online)
    return -ENODEV;
  if (fake->limit > 0 &&
      fake_machine_used(fake) + DESCRIPTORS_RESERVE >= fake->limit)
    return -EMFILE;
  struct fake_counter *counter =
      fake_machine_find_counter(fake, attr->type, attr->config, core);
  if (counter == NULL)
    return -ENOENT;
  if (counter->open_error != 0)
    return -counter->open_error;
  if (attr->type == FAKE_MSR_TYPE &&
      (attr->exclude_user || attr->exclude_kernel || attr->exclude_hv ||
       attr->exclude_idle || attr->exclude_host || attr->exclude_guest))
    return -EINVAL;
  if (group >= 0) {
    if ((size_t)group >= fake->descriptors_len ||
        !fake->descriptors[group].open ||
        fake->descriptors[group].core != core ||
        fake->descriptors[group].leader != group || attr->pinned)
      return -EINVAL;
  }

  fake->descriptors = grow(fake->descriptors, &fake->descriptors_len,
                           sizeof *fake->descriptors);
  int fd = (int)fake->descriptors_len - 1;
  fake->descriptors[fd] = (struct fake_descriptor){
      .open = true,
      .pinned = attr->pinned,
      .core = core,
      .leader = group >= 0 ? group : fd,
      .read_format = attr->read_format,
      .counter = (size_t)(counter - fake->counters),
  };
  counter->opens++;
  fake->last_attr = *attr;
  return fd;
}

static ssize_t fake_perf_read(void *context, int fd, void *buffer,
                              size_t size) {
  TAKE_TURN;
  struct fake_machine *fake = context;
  fake->perf_reads++;
  if (fd < 0 || (size_t)fd >= fake->descriptors_len ||
      !fake->descriptors[fd].open)
    return -EBADF;
  const struct fake_descriptor *leader = &fake->descriptors[fd];
  const struct fake_core *core = &fake->cores[leader->core];
  if (core->read_error != 0)
    return -core->read_error;
  if (leader->pinned && core->pinned_lost)
    return 0;
  if (leader->read_format !=
      (PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
       PERF_FORMAT_TOTAL_TIME_RUNNING))
    abort(); /* the only format that percore uses */

  uint64_t words[3 + 16];
  size_t values = 0;
  for (size_t i = (size_t)fd; i < fake->descriptors_len && values < 16; i++) {
    const struct fake_descriptor *member = &fake->descriptors[i];
    if (!member->open || member->leader != fd)
      continue;
    if (leader->stale && i != (size_t)fd)
      continue; /* the group is dissolved, so only the leader is read */
    words[3 + values++] =
        fake->counters[member->counter].start + (uint64_t)member->value;
  }
  words[0] = values;
  words[1] = (uint64_t)leader->enabled_ns;
  words[2] = (uint64_t)leader->running_ns;
  if (size < (3 + values) * sizeof *words)
    return -ENOSPC;
  memcpy(buffer, words, (3 + values) * sizeof *words);
  if (fake->perf_read_ns > 0)
    fake_machine_run(fake, fake->perf_read_ns);
  return (ssize_t)((3 + values) * sizeof *words);
}

static void fake_perf_close(void *context, int fd) {
  TAKE_TURN;
  struct fake_machine *fake = context;
  if (fd < 0 || (size_t)fd >= fake->descriptors_len ||
      !fake->descriptors[fd].open)
    abort(); /* closed twice, or never opened */
  fake->descriptors[fd].open = false;
}

int fake_machine_descriptors(const struct fake_machine *fake, int core) {
  int open = 0;
  for (size_t i = 0; i < fake->descriptors_len; i++)
    open += fake->descriptors[i].open &&
            (core < 0 || fake->descriptors[i].core == core);
  return open;
}

int fake_machine_descriptor_core(const struct fake_machine *fake, size_t n) {
  return fake->descriptors[n].core;
}

long fake_machine_used(const struct fake_machine *fake) {
  return fake->others + fake_machine_descriptors(fake, -1);
}

/* ---------------------------------------------------------------------------
 * Cores
 */

static uint64_t fake_identity(void *context, const char *path) {
  TAKE_TURN;
  const struct fake_machine *fake = context;
  int core;
  if (sscanf(path, CPU_FOLDER "/cpu%d/topology", &core) != 1 || core < 0 ||
      core >= fake->cores_len || !fake->cores[core].online)
    return 0;
  return 1000 + (uint64_t)fake->cores[core].returns;
}

void fake_machine_online(struct fake_machine *fake, int core, bool online) {
  TAKE_TURN;
  fake->cores[core].online = online;
  fake->cores[core].returns += online;
  fake->uevents++;
  for (size_t i = 0; i < fake->descriptors_len; i++)
    if (fake->descriptors[i].core == core)
      fake->descriptors[i].stale = true;
}

/* The clock of a machine that supports none. */
static int open_no_clock(struct programs *programs, char why[WHY_SIZE]) {
  (void)programs;
  return why_fails(why, -ENOSYS, "this machine has no clock");
}

static int no_tracers(void) { return 0; }

struct fake_machine *fake_machine_new(int cores) {
  static const struct clock_calls no_clock = {.open = open_no_clock,
                                              .tracers = no_tracers};
  struct fake_machine *fake = calloc(1, sizeof *fake);
  if (fake == NULL)
    abort();
  fake->machine = (struct machine){
      .context = fake,
      .clock_ns = fake_clock,
      .read_file = fake_read_file,
      .list_directory = fake_list_directory,
      .is_fuse = fake_is_fuse,
      .perf_open = fake_perf_open,
      .perf_read = fake_perf_read,
      .perf_close = fake_perf_close,
      .identity = fake_identity,
      .clocks = &no_clock,
  };
  fake->monotonic_ns = 1000 * FAKE_SECOND;
  fake->realtime_offset_ns = INT64_C(1700000000) * (int64_t)FAKE_SECOND;
  fake->cores_len = cores;
  fake->cores = calloc((size_t)cores + 1, sizeof *fake->cores);
  if (fake->cores == NULL)
    abort();
  for (int i = 0; i < cores; i++)
    fake->cores[i] = (struct fake_core){
        .online = true, .seen = NAN, .idle = NAN, .running = 1};
  fake->procstat = true;
  fake->stat_read_before = 0.5;
  fake->procs_running = 1;
  fake->hotplug_events = true;
  if (cores > 0)
    fake_machine_plain_server(fake);
  return fake;
}

void fake_machine_free(struct fake_machine *fake) {
  for (size_t i = 0; i < fake->files_len; i++) {
    free(fake->files[i].path);
    free(fake->files[i].text);
  }
  free(fake->files);
  free(fake->stat_text);
  free(fake->counters);
  free(fake->descriptors);
  free(fake->cores);
  free(fake);
}
