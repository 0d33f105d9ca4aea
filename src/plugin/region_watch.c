#include "region_watch.h"

#include "region_instance.h"

#include "utils/common/common.h"

#include <dirent.h>

#define INSTANCES_MAX 256
#define FORGET_NS UINT64_C(600000000000)  /* names are kept for so long */
#define TOPOLOGY_NS UINT64_C(60000000000) /* how old the topology may be */
/* A producer that was started answers within this, or it has to wait for the
 * next round: it must not delay the others. */
#define HELLO_WAITS 20
#define HELLO_WAIT_NS UINT64_C(1000000)
#define SILENT_NS UINT64_C(1000000000)
#define LABEL_SIZE 194 /* region@instance */

struct region_watch *
region_watch_new(const struct region_watch_options *options,
                 const struct region_moment *now) {
  struct region_watch *watch = calloc(1, sizeof(*watch));
  if (watch == NULL)
    return NULL;
  watch->options = *options;
  watch->last = *now;
  watch->mark_ns = now->monotonic_ns;
  watch->useful = calloc(1, sizeof(*watch->useful));
  if (watch->useful == NULL) {
    free(watch);
    return NULL;
  }
  return watch;
}

static void free_instance(struct region_instance *instance) {
  region_instance_free_tables(instance);
  region_workers_reset(&instance->workers);
  region_reader_close(instance->reader);
  free(instance);
}

void region_watch_free(struct region_watch *watch) {
  if (watch == NULL)
    return;
  while (watch->instances != NULL) {
    struct region_instance *instance = watch->instances;
    watch->instances = instance->next;
    free_instance(instance);
  }
  for (size_t i = 0; i < watch->sums.len; i++) {
    region_sum_free(watch->sums.list[i].sum);
    free(watch->sums.list[i].region);
    free(watch->sums.list[i].instance);
  }
  free(watch->sums.list);
  if (watch->machine != NULL) {
    topology_free(&watch->topology);
    machine_linux_close(watch->machine);
  }
  free(watch->useful);
  free(watch);
}

/* ---------------------------------------------------------------------------
 * Who is there: sockets in the runtime directory
 */

static struct region_instance *find_instance(const struct region_watch *watch,
                                             const char *region,
                                             const char *name) {
  struct region_instance *instance = watch->instances;
  while (instance != NULL && (strcmp(instance->region, region) != 0 ||
                              strcmp(instance->name, name) != 0))
    instance = instance->next;
  return instance;
}

/* In the order of their names, so that a round is like the one before. */
static void insert(struct region_watch *watch,
                   struct region_instance *instance) {
  struct region_instance **link = &watch->instances;
  while (*link != NULL) {
    int order = strcmp((*link)->region, instance->region);
    if (order > 0 || (order == 0 && strcmp((*link)->name, instance->name) > 0))
      break;
    link = &(*link)->next;
  }
  instance->next = *link;
  *link = instance;
  watch->instances_len++;
}

static struct region_instance *make_instance(struct region_watch *watch,
                                             const char *region,
                                             const char *name) {
  const struct region_config *config =
      region_config_of(watch->options.configs, region);
  if (config == NULL)
    return NULL;
  if (watch->instances_len == INSTANCES_MAX) {
    if (!watch->crowd_told)
      WARNING("percore: more than %d sockets of regions; %s@%s and further "
              "ones are not read.",
              INSTANCES_MAX, region, name);
    watch->crowd_told = true;
    return NULL;
  }
  struct region_reader_options options = {
      .runtime_dir = watch->options.runtime_dir,
      .max_region_size = config->max_region_size,
      .may_read = region_config_may_read,
      .argument = (void *)config,
  };
  struct region_instance *instance = calloc(1, sizeof(*instance));
  if (instance == NULL ||
      region_reader_open(&instance->reader, region,
                         name[0] != '\0' ? name : NULL, &options) != 0) {
    free(instance);
    return NULL;
  }
  sstrncpy(instance->region, region, sizeof(instance->region));
  sstrncpy(instance->name, name, sizeof(instance->name));
  instance->config = config;
  insert(watch, instance);
  watch->any_met = true;
  return instance;
}

/* "gtpu.sock", "gtpu@east.sock" */
static void meet(struct region_watch *watch, const char *file,
                 uint64_t now_ns) {
  static const char suffix[] = ".sock";
  char region[256];
  size_t length = strlen(file);
  if (length <= strlen(suffix) || length >= sizeof(region) ||
      strcmp(file + length - strlen(suffix), suffix) != 0)
    return;
  memcpy(region, file, length);
  region[length - strlen(suffix)] = '\0';
  char *at = strchr(region, '@');
  const char *name = "";
  if (at != NULL) {
    *at = '\0';
    name = at + 1;
  }
  if (!region_name_is_valid(region, false) ||
      (at != NULL && !region_instance_is_valid(name)))
    return;
  struct region_instance *instance = find_instance(watch, region, name);
  if (instance == NULL)
    instance = make_instance(watch, region, name);
  if (instance == NULL)
    return;
  instance->listed = true;
  instance->listed_ns = now_ns;
}

static const char *runtime_dir_of(const struct region_watch *watch) {
  return watch->options.runtime_dir != NULL ? watch->options.runtime_dir
                                            : region_runtime_dir();
}

static void meet_all(struct region_watch *watch, uint64_t now_ns) {
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    instance->listed = false;
  DIR *directory = opendir(runtime_dir_of(watch));
  if (directory == NULL)
    return; /* no producer has made it yet */
  struct dirent *file;
  while ((file = readdir(directory)) != NULL)
    meet(watch, file->d_name, now_ns);
  closedir(directory);
}

/* A block for a region that is not there may be right, or a slip. */
static void tell_absent(struct region_watch *watch) {
  const struct region_configs *configs = watch->options.configs;
  for (size_t i = 0; !watch->absent_told && i < configs->len; i++) {
    const char *name = configs->list[i].name;
    bool there = name == NULL;
    for (struct region_instance *instance = watch->instances;
         instance != NULL && !there; instance = instance->next)
      there = strcmp(instance->region, name) == 0;
    if (!there)
      NOTICE("percore: nobody serves region %s in %s yet; it is waited for.",
             name, runtime_dir_of(watch));
  }
  watch->absent_told = true;
}

/* ---------------------------------------------------------------------------
 * One instance in a round
 */

/* Connected, and no answer yet. */
static bool is_unanswered(const struct region_instance *instance) {
  return region_reader_errno(instance->reader) == ETIMEDOUT;
}

static void read_it(struct region_watch *watch,
                    struct region_instance *instance,
                    const struct region_moment *now,
                    struct region_snapshot *snapshot, bool ended) {
  if (!region_instance_read(watch, instance, now, ended))
    snapshot->memory_short = true;
}

static void take_producer(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now,
                          struct region_snapshot *snapshot) {
  instance->restarted = instance->producer != 0;
  if (region_instance_came(watch, instance, now))
    read_it(watch, instance, now, snapshot, false);
  else
    snapshot->memory_short = true;
}

/* Every last count: a producer that is gone is read once more, and one that has
 * come since at once. */
static void look_after(struct region_watch *watch,
                       struct region_instance *instance,
                       const struct region_moment *now,
                       struct region_snapshot *snapshot) {
  enum region_event event = region_reader_refresh(instance->reader);
  if (event == REGION_WENT) {
    read_it(watch, instance, now, snapshot, true);
    event = region_reader_refresh(instance->reader);
  } else if (event == REGION_AS_BEFORE &&
             region_reader_presence(instance->reader) == REGION_ALIVE) {
    read_it(watch, instance, now, snapshot, false);
  }
  if (event == REGION_CAME)
    take_producer(watch, instance, now, snapshot);
}

/* Gives those a moment who were just connected to. */
static void await_hellos(struct region_watch *watch,
                         const struct region_moment *now,
                         struct region_snapshot *snapshot) {
  for (int i = 0; i < HELLO_WAITS; i++) {
    bool any = false;
    for (struct region_instance *instance = watch->instances; instance != NULL;
         instance = instance->next) {
      if (!is_unanswered(instance) || instance->silent_since_ns != 0)
        continue;
      if (region_reader_refresh(instance->reader) == REGION_CAME)
        take_producer(watch, instance, now, snapshot);
      any |= is_unanswered(instance);
    }
    if (!any || !watch->options.wait(watch->options.argument, HELLO_WAIT_NS))
      return;
  }
}

static const char *label(const struct region_instance *instance, char *text,
                         size_t size) {
  snprintf(text, size, "%s%s%s", instance->region,
           instance->name[0] != '\0' ? "@" : "", instance->name);
  return text;
}

/* Once, until it is read. c_complain is for collectd's own threads. */
static void complain(struct region_instance *instance) {
  char name[LABEL_SIZE];
  int error = region_reader_errno(instance->reader);
  if (error == 0 || error == ENOENT || error == ECONNREFUSED ||
      error == ECONNRESET || (error == ETIMEDOUT && !instance->silent))
    return; /* nobody is there, which is told otherwise */
  if (!instance->complained)
    WARNING("percore: region %s is not read: %s",
            label(instance, name, sizeof(name)),
            error == ETIMEDOUT ? "its producer listens and does not answer"
                               : region_reader_error(instance->reader));
  instance->complained = true;
}

static void no_longer_complain(struct region_instance *instance) {
  char name[LABEL_SIZE];
  if (instance->complained)
    INFO("percore: region %s is read.", label(instance, name, sizeof(name)));
  instance->complained = false;
}

static void judge_silence(struct region_instance *instance, uint64_t now_ns) {
  if (!is_unanswered(instance)) {
    instance->silent = false;
    instance->silent_since_ns = 0;
    return;
  }
  if (instance->silent_since_ns == 0)
    instance->silent_since_ns = now_ns;
  instance->silent = now_ns - instance->silent_since_ns >= SILENT_NS;
}

static enum region_health health_of(const struct region_instance *instance) {
  const struct region_workers *workers = &instance->workers;
  if (region_reader_presence(instance->reader) != REGION_ALIVE)
    return instance->health == REGION_UNKNOWN ? REGION_UNKNOWN : REGION_DEAD;
  return workers->polling > 0 && workers->stuck == workers->polling
             ? REGION_STALE
             : REGION_WELL;
}

static void tell_workers(const struct region_instance *instance,
                         const char *name, struct region_snapshot *snapshot) {
  struct core_set cores;
  char list[64];
  if (region_workers_changed(&instance->workers, false, &cores)) {
    core_set_format(&cores, list, sizeof(list));
    region_snapshot_tell(snapshot, REGION_WARNING,
                         "Workers of region %s stand still on cores %s.", name,
                         list);
  }
  if (region_workers_changed(&instance->workers, true, &cores)) {
    core_set_format(&cores, list, sizeof(list));
    region_snapshot_tell(snapshot, REGION_OKAY,
                         "Workers of region %s no longer stand still on cores "
                         "%s.",
                         name, list);
  }
}

/* Once for a transition, and one for all workers that it befell. */
static void tell(struct region_instance *instance,
                 struct region_snapshot *snapshot) {
  enum region_health before = instance->health, now = health_of(instance);
  char name[LABEL_SIZE];
  label(instance, name, sizeof(name));
  instance->health = now;
  bool restarted = instance->restarted;
  instance->restarted = false;
  if (now == REGION_DEAD && before != REGION_DEAD)
    region_snapshot_tell(snapshot, REGION_FAILURE,
                         "Region %s is gone: its producer has ended.", name);
  else if (before == REGION_DEAD && now != REGION_DEAD)
    region_snapshot_tell(snapshot, REGION_OKAY, "Region %s is back.", name);
  else if (restarted)
    region_snapshot_tell(snapshot, REGION_WARNING,
                         "Region %s is gone and back: its producer was started "
                         "again.",
                         name);
  else if (now == REGION_STALE && before != REGION_STALE)
    region_snapshot_tell(snapshot, REGION_WARNING,
                         "Region %s is stale: all of its workers stand still.",
                         name);
  else if (now == REGION_WELL && before == REGION_STALE)
    region_snapshot_tell(snapshot, REGION_OKAY, "Region %s is no longer stale.",
                         name);
  else if (now == REGION_WELL)
    tell_workers(instance, name, snapshot);
}

static void conclude(struct region_instance *instance,
                     const struct region_moment *now,
                     struct region_snapshot *snapshot) {
  bool alive = region_reader_presence(instance->reader) == REGION_ALIVE;
  judge_silence(instance, now->monotonic_ns);
  if (alive)
    no_longer_complain(instance);
  else
    complain(instance);
  tell(instance, snapshot);
  snapshot->regions += alive;
  snapshot->regions_silent += instance->silent;
  snapshot->regions_stale += instance->health == REGION_STALE;
  if (alive)
    snapshot->workers_stuck += instance->workers.stuck;
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

static void drop_instances(struct region_watch *watch, uint64_t now_ns) {
  for (struct region_instance **link = &watch->instances; *link != NULL;) {
    struct region_instance *instance = *link;
    if (instance->listed || now_ns - instance->listed_ns < FORGET_NS ||
        region_reader_presence(instance->reader) == REGION_ALIVE) {
      link = &instance->next;
      continue;
    }
    *link = instance->next;
    watch->instances_len--;
    free_instance(instance);
  }
}

static bool is_used(const struct region_watch *watch,
                    const struct region_sum *sum) {
  for (const struct region_instance *instance = watch->instances;
       instance != NULL; instance = instance->next)
    for (uint32_t t = 0; t < instance->table_count; t++)
      if (instance->tables[t].sum == sum)
        return true;
  return false;
}

static void forget_rows(struct region_watch *watch, uint64_t round) {
  for (size_t i = 0; i < watch->sums.len; i++)
    region_sum_forget(watch->sums.list[i].sum, round);
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    region_instance_forget(instance, round);
  size_t kept = 0;
  for (size_t i = 0; i < watch->sums.len; i++) {
    struct region_sum_entry entry = watch->sums.list[i];
    if (entry.sum->round >= round || is_used(watch, entry.sum)) {
      watch->sums.list[kept++] = entry;
      continue;
    }
    region_sum_free(entry.sum);
    free(entry.region);
    free(entry.instance);
  }
  watch->sums.len = kept;
}

static void forget(struct region_watch *watch, uint64_t now_ns) {
  drop_instances(watch, now_ns);
  if (now_ns - watch->mark_ns < FORGET_NS)
    return;
  forget_rows(watch, watch->mark_round);
  watch->mark_round = watch->round;
  watch->mark_ns = now_ns;
}

/* ---------------------------------------------------------------------------
 * A round
 */

/* Sets of cores change with hotplug alone. Returns 0 or -errno. */
static int know_topology(struct region_watch *watch, uint64_t now_ns) {
  int status = 0;
  if (watch->machine == NULL) {
    const char *root = watch->options.sys_root;
    watch->machine = machine_linux(root != NULL ? root : "/");
    if (watch->machine == NULL)
      return -errno;
    status = topology_read(&watch->topology, watch->machine);
    if (status != 0) {
      machine_linux_close(watch->machine);
      watch->machine = NULL;
    }
    watch->topology_ns = now_ns;
  } else if (now_ns - watch->topology_ns >= TOPOLOGY_NS) {
    topology_refresh(&watch->topology, watch->machine);
    watch->topology_ns = now_ns;
  }
  return status;
}

static void put_useful(struct region_watch *watch,
                       const struct region_moment *now,
                       struct region_snapshot *snapshot) {
  if (!region_useful_any(watch->useful) ||
      know_topology(watch, now->monotonic_ns) != 0)
    return;
  if (region_useful_put(watch->useful, &watch->topology, watch->options.groups,
                        watch->options.groups_len, snapshot) != 0)
    snapshot->memory_short = true;
}

/* From the first region on, so that a host without any pays for no series. */
static void put_self(const struct region_watch *watch,
                     struct region_snapshot *snapshot) {
  const struct {
    const char *name;
    int count;
  } figures[] = {
      {"regions", snapshot->regions},
      {"regions_silent", snapshot->regions_silent},
      {"regions_stale", snapshot->regions_stale},
      {"workers_stuck", snapshot->workers_stuck},
  };
  if (watch->options.configs->len == 0 && !watch->any_met)
    return;
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(figures); i++)
    region_snapshot_put(snapshot, REGION_RANK_SELF,
                        &(struct region_value){
                            .plugin = "percore_host",
                            .plugin_instance = "self",
                            .type_instance = figures[i].name,
                            .type = REGION_GAUGE,
                            .gauge = figures[i].count,
                        });
}

struct region_snapshot *region_watch_round(struct region_watch *watch,
                                           const struct region_moment *now) {
  struct region_snapshot *snapshot =
      region_snapshot_new(now->stamp_ns, watch->options.values_max);
  if (snapshot == NULL)
    return NULL;
  watch->round++;
  memset(watch->useful, 0, sizeof(*watch->useful));
  meet_all(watch, now->monotonic_ns);
  tell_absent(watch);
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    look_after(watch, instance, now, snapshot);
  await_hellos(watch, now, snapshot);
  if (!watch->options.is_wanted(watch->options.argument)) {
    region_snapshot_free(snapshot);
    return NULL;
  }
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    conclude(instance, now, snapshot);
  put_self(watch, snapshot);
  for (size_t i = 0; i < watch->sums.len; i++)
    if (watch->sums.list[i].sum->round == watch->round)
      region_sum_put(watch->sums.list[i].sum, snapshot);
  put_useful(watch, now, snapshot);
  forget(watch, now->monotonic_ns);
  watch->last = *now;
  return snapshot;
}
