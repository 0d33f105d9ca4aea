#include "region_list.h"

#include "region_instance.h"

#include "utils/common/common.h"

#include <dirent.h>
#include <unistd.h>

#define INSTANCES_MAX 256
#define FORGET_NS UINT64_C(600000000000) /* kept for so long unserved */

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

static void free_instance(struct region_instance *instance) {
  region_instance_free_tables(instance);
  region_workers_reset(&instance->workers);
  region_reader_close(instance->reader);
  free(instance);
}

static void remove_instance(struct region_watch *watch,
                            struct region_instance **link) {
  struct region_instance *instance = *link;
  *link = instance->next;
  watch->instances_len--;
  free_instance(instance);
}

/* ---------------------------------------------------------------------------
 * Those that come
 */

/* One user's regions leave as many places for others', but for root, collectd's
 * own user and those that are named. */
static bool may_have_place(const struct region_watch *watch,
                           const struct region_config *config, uid_t uid) {
  size_t used = 0, of_user = 0;
  for (const struct region_instance *instance = watch->instances;
       instance != NULL; instance = instance->next) {
    used += instance->health != REGION_DEAD;
    of_user += instance->health != REGION_DEAD && instance->uid == uid;
  }
  return uid == 0 || uid == geteuid() ||
         (config->users_given && region_config_may_read(uid, (void *)config)) ||
         of_user < INSTANCES_MAX - used;
}

/* There is a place for one more: that of one that is long gone, if need be. */
static bool make_place(struct region_watch *watch) {
  struct region_instance **gone = NULL;
  if (watch->instances_len < INSTANCES_MAX)
    return true;
  for (struct region_instance **link = &watch->instances; *link != NULL;
       link = &(*link)->next)
    if ((*link)->health == REGION_DEAD &&
        (gone == NULL || (*link)->served_ns < (*gone)->served_ns))
      gone = link;
  if (gone == NULL)
    return false;
  remove_instance(watch, gone);
  return true;
}

/* Says once for which reason there is no place. */
static bool has_place(struct region_watch *watch, const char *region,
                      const char *name, const struct region_config *config,
                      uid_t uid) {
  const char *at = name[0] != '\0' ? "@" : "";
  if (!may_have_place(watch, config, uid)) {
    if (!watch->user_told)
      WARNING(
          "percore: user %u serves as many regions as are left for others, "
          "of %d; %s%s%s and further ones of that user are not read, unless "
          "AllowUser names it.",
          (unsigned)uid, INSTANCES_MAX, region, at, name);
    watch->user_told = true;
    return false;
  }
  if (make_place(watch))
    return true;
  if (!watch->crowd_told)
    WARNING("percore: more than %d regions; %s%s%s and further ones are not "
            "read.",
            INSTANCES_MAX, region, at, name);
  watch->crowd_told = true;
  return false;
}

/* NULL where nobody listens. A producer that is killed leaves its socket, and
 * who has another name each time leaves many: these take no places. */
static struct region_reader *find_producer(const struct region_watch *watch,
                                           const char *region, const char *name,
                                           const struct region_config *config) {
  struct region_reader_options options = {
      .runtime_dir = watch->options.runtime_dir,
      .max_region_size = config->max_region_size,
      .receiver = watch->options.receiver,
      .may_read = region_config_may_read,
      .argument = (void *)config,
  };
  struct region_reader *reader;
  if (region_reader_open(&reader, region, name[0] != '\0' ? name : NULL,
                         &options) != 0)
    return NULL;
  if (region_reader_connect(reader) == 0 ||
      (errno != ECONNREFUSED && errno != ENOENT && errno != ENOTSOCK))
    return reader;
  region_reader_close(reader);
  return NULL;
}

/* One region must not take what others need. */
static struct region_allowance_entry *find_allowance(struct region_watch *watch,
                                                     const char *region) {
  struct region_allowances *allowances = &watch->allowances;
  struct region_allowance_entry *entry = allowances->list;
  while (entry != NULL && strcmp(entry->name, region) != 0)
    entry = entry->next;
  if (entry != NULL)
    return entry;
  entry = calloc(1, sizeof(*entry));
  if (entry == NULL)
    return NULL;
  sstrncpy(entry->name, region, sizeof(entry->name));
  size_t most = MAX(allowances->all.most / 2, REGION_MEMORY_OWN);
  entry->region = (struct region_allowance){
      .whole = &allowances->all, .own = REGION_MEMORY_OWN, .most = most};
  entry->rows =
      (struct region_allowance){.whole = &entry->region, .most = most / 8 * 7};
  entry->next = allowances->list;
  allowances->list = entry;
  return entry;
}

static struct region_instance *make_instance(struct region_watch *watch,
                                             const char *region,
                                             const char *name) {
  const struct region_config *config =
      region_config_of(watch->options.configs, region);
  struct region_reader *reader =
      config != NULL ? find_producer(watch, region, name, config) : NULL;
  if (reader == NULL)
    return NULL;
  struct region_instance *instance = NULL;
  struct region_allowance_entry *allowance = find_allowance(watch, region);
  uid_t uid = region_reader_listener(reader);
  if (has_place(watch, region, name, config, uid))
    instance = calloc(1, sizeof(*instance));
  if (instance == NULL || allowance == NULL) {
    free(instance);
    region_reader_close(reader);
    return NULL;
  }
  region_reader_use_allowance(reader, &allowance->region);
  instance->reader = reader;
  instance->uid = uid;
  instance->allowance = allowance;
  instance->absent_boottime_ns = watch->last.boottime_ns;
  sstrncpy(instance->region, region, sizeof(instance->region));
  sstrncpy(instance->name, name, sizeof(instance->name));
  instance->config = config;
  insert(watch, instance);
  watch->any_met = true;
  return instance;
}

/* "gtpu.sock", "gtpu@east.sock" */
static void meet(struct region_watch *watch, const char *file) {
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
  if (instance != NULL)
    instance->listed = true;
}

/* ---------------------------------------------------------------------------
 * Looking
 */

static const char *runtime_dir_of(const struct region_watch *watch) {
  return watch->options.runtime_dir != NULL ? watch->options.runtime_dir
                                            : region_runtime_dir();
}

static void meet_all(struct region_watch *watch) {
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    instance->listed = false;
  DIR *directory = opendir(runtime_dir_of(watch));
  if (directory == NULL)
    return; /* no producer has made it yet */
  struct dirent *file;
  while ((file = readdir(directory)) != NULL)
    meet(watch, file->d_name);
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

void region_list_look(struct region_watch *watch) {
  meet_all(watch);
  tell_absent(watch);
}

/* ---------------------------------------------------------------------------
 * Those that go
 */

void region_list_forget(struct region_watch *watch, uint64_t now_ns) {
  for (struct region_instance **link = &watch->instances; *link != NULL;) {
    if (now_ns - (*link)->served_ns < FORGET_NS)
      link = &(*link)->next;
    else
      remove_instance(watch, link);
  }
}

void region_list_free(struct region_watch *watch) {
  while (watch->instances != NULL)
    remove_instance(watch, &watch->instances);
}
