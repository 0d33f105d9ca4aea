#include "board/board.h"
#include "regions.h"

#include "base/clock.h"
#include "base/descriptors.h"

#include "utils/common/common.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSTANCES_MAX 256
#define INSTANCE_DESCRIPTORS 1
/* Other users may fill the directory, so a scan of it may take several
 * rounds, in each of which it takes about 1/LIST_PART of the interval. */
#define LIST_PART 16
#define STEPS_AT_ONCE 64 /* between two looks at the clock */

static struct region_instance *find_instance(const struct region_watch *watch,
                                             const char *file) {
  struct region_instance *instance = watch->instances;
  while (instance != NULL && strcmp(instance->file, file) != 0)
    instance = instance->next;
  return instance;
}

static void free_instance(struct region_instance *instance) {
  region_instance_free_inputs(instance);
  region_workers_forget(&instance->workers);
  region_reader_close(instance->reader);
  instance->budget->instances--;
  free(instance);
}

static void remove_instance(struct region_watch *watch,
                            struct region_instance **link) {
  struct region_instance *instance = *link;
  *link = instance->next;
  for (struct region_instance *other = watch->instances; other != NULL;
       other = other->next)
    if (other->before == instance)
      other->before = NULL;
  watch->instances_len--;
  free_instance(instance);
}

/* ---------------------------------------------------------------------------
 * New instances
 */

/* True if the instance is read or about to be. What is refused has no
 * descriptors and takes no place. */
static bool takes_place(const struct region_instance *instance) {
  return instance->health != REGION_DEAD &&
         region_reader_presence(instance->reader) != REGION_ABSENT;
}

/* Returns how many instances may be added: not more than INSTANCES_MAX are
 * read, and each has descriptors, of which known instances need some once they
 * are connected. */
static long count_places(const struct region_watch *watch) {
  long places = INSTANCES_MAX, of_files = descriptors_available();
  for (const struct region_instance *instance = watch->instances;
       instance != NULL; instance = instance->next) {
    places -= takes_place(instance);
    if (takes_place(instance) && !region_instance_is_alive(instance))
      of_files -= INSTANCE_DESCRIPTORS;
  }
  return MAX(0, MIN(places, of_files / INSTANCE_DESCRIPTORS));
}

/* Returns how many regions of the user count against a new one: the number of
 * free places must exceed them. Root, collectd's own user and users named by
 * AllowUser are not limited. */
static long count_of_user(const struct region_watch *watch,
                          const struct region_config *config, uid_t uid) {
  long of_user = 0;
  if (uid == 0 || uid == geteuid() ||
      (config->users_given && region_config_may_read(uid, (void *)config)))
    return 0;
  for (const struct region_instance *instance = watch->instances;
       instance != NULL; instance = instance->next)
    of_user += takes_place(instance) && instance->uid == uid;
  return of_user;
}

/* Returns true if there is room to read a region of the user. Otherwise, logs
 * the reason once. */
static bool has_place(struct region_watch *watch,
                      const struct region_title *title,
                      const struct region_config *config, uid_t uid) {
  struct rlimit limit = {0};
  if (watch->places > count_of_user(watch, config, uid))
    return true;
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  region_warn(
      region_about_host(watch),
      "region %s and further regions of user %u are not read: %ld more "
      "can be read, and a user gets at most half; at most %d regions are "
      "read: "
      "end producers, add the user to AllowUser, or raise "
      "RLIMIT_NOFILE (LimitNOFILE of the service) to %lu.",
      title->region, (unsigned)uid, watch->places, INSTANCES_MAX,
      (unsigned long)limit.rlim_cur + DESCRIPTORS_RESERVE +
          INSTANCE_DESCRIPTORS * INSTANCES_MAX);
  watch->directory_ns = 0; /* tries again in the next round */
  return false;
}

/* Returns true if the region of this user may be read. Otherwise, logs once for
 * all instances of a region that it is not. */
static bool may_read(struct region_watch *watch,
                     const struct region_title *title,
                     const struct region_config *config, uid_t uid) {
  struct region_about about = region_about_host(watch);
  about.region = title->region;
  if (region_config_may_read(uid, (void *)config))
    return true;
  region_warn(about,
              "region %s is not read: it is of user %u, who is not allowed; "
              "AllowUser names those that are",
              title->region, (unsigned)uid);
  return false;
}

struct region_budget *region_budget_find(struct region_watch *watch,
                                         const struct region_config *config,
                                         const char *region, uid_t uid) {
  struct region_budget *budget = watch->budgets;
  uid = config->users_given ? (uid_t)-1 : uid;
  while (budget != NULL &&
         (budget->uid != uid || strcmp(budget->name, region) != 0))
    budget = budget->next;
  if (budget != NULL || (budget = calloc(1, sizeof(*budget))) == NULL)
    return budget;
  sstrncpy(budget->name, region, sizeof(budget->name));
  budget->config = config;
  budget->uid = uid;
  budget->log = &watch->log;
  budget->new_row_ns = HOUR_NS / (uint64_t)config->max_new_rows;
  budget->memory.pool = &watch->memory;
  budget->values.pool = &watch->values;
  budget->next = watch->budgets;
  return watch->budgets = budget;
}

/* Makes an instance. Returns NULL if out of memory. */
static struct region_instance *make_instance(struct region_watch *watch,
                                             const struct region_title *label,
                                             const struct region_config *config,
                                             const char *file, uid_t uid) {
  const struct region_reader_options options = {
      .keep_from_children = true,
      .may_read = region_config_may_read,
      .argument = (void *)config,
  };
  struct region_reader *reader;
  if (region_reader_open_file(&reader, file, &options) != 0)
    return NULL;
  struct region_budget *budget =
      region_budget_find(watch, config, label->region, uid);
  struct region_instance *instance = calloc(1, sizeof(*instance));
  if (instance == NULL || budget == NULL) {
    free(instance);
    region_reader_close(reader);
    return NULL;
  }
  budget->instances++;
  *instance = (struct region_instance){
      .watch = watch, .reader = reader, .uid = uid, .budget = budget};
  sstrncpy(instance->file, file, sizeof(instance->file));
  sstrncpy(instance->name, label->instance, sizeof(instance->name));
  snprintf(instance->label, sizeof(instance->label), "%s%s%s", label->region,
           label->instance[0] != '\0' ? "@" : "", label->instance);
  region_reader_use_allowance(reader, &budget->memory);
  instance->next = watch->instances;
  watch->instances = instance;
  watch->instances_len++;
  watch->places--;
  watch->any_met = true;
  return instance;
}

/* ---------------------------------------------------------------------------
 * A scan of the directory
 */

static uint64_t ns_of(struct timespec time) {
  return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static void meet(struct region_watch *watch, const struct region_title *label,
                 const char *file, const struct stat *status) {
  struct region_instance *instance = find_instance(watch, file);
  const struct region_config *config =
      region_config_of(&watch->options.config->regions, label->region);
  if (instance == NULL && config != NULL &&
      may_read(watch, label, config, status->st_uid) &&
      has_place(watch, label, config, status->st_uid))
    instance = make_instance(watch, label, config, file, status->st_uid);
  if (instance != NULL)
    instance->met = instance->found_anew = true;
  else if (config != NULL &&
           region_config_may_read(status->st_uid, (void *)config))
    watch->directory_ns = 0; /* out of places or memory: again next time */
}

/* Files have the time of the last tick, so the time of a recent change says
 * nothing about what came after it. */
static bool is_recent(uint64_t changed_ns) {
  return changed_ns + NS_PER_S > clock_now_ns(CLOCK_REALTIME);
}

static bool is_file(DIR *directory, const char *file, struct stat *status) {
  return fstatat(dirfd(directory), file, status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status->st_mode);
}

bool region_watch_is_idle(const struct region_watch *watch) {
  struct stat status;
  if (watch->options.config->regions.len > 0 || watch->any_met ||
      watch->directory != NULL)
    return false;
  if (stat(region_runtime_dir(), &status) != 0)
    return errno == ENOENT || watch->round > 0; /* the first round says why */
  return ns_of(status.st_mtim) == watch->directory_ns;
}

/* Logs why the directory cannot be read. A missing directory is not a fault,
 * because there may never be a producer. */
static void tell_unreadable(struct region_watch *watch) {
  char remedy[REGION_REMEDY_SIZE];
  const char *path = region_runtime_dir();
  if (errno != ENOENT)
    region_warn(region_about_host(watch), "regions in %s are not read: %s%s",
                path, STRERRNO, region_health_group_remedy(path, remedy));
}

/* True if a file may have been added since the last scan began. */
static bool may_have_changed(struct region_watch *watch) {
  struct stat status;
  if (stat(region_runtime_dir(), &status) != 0)
    return true; /* begin_scan says why */
  uint64_t changed_ns = ns_of(status.st_mtim);
  if (changed_ns == watch->directory_ns)
    return false;
  watch->directory_ns = is_recent(changed_ns) ? 0 : changed_ns;
  bool is_listed = (status.st_mode & S_IROTH) != 0;
  if (is_listed || (status.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
    region_warn(region_about_host(watch),
                "any user may %s, because the mode of %s is %04o: run chmod "
                "3770 %s.",
                is_listed
                    ? "keep regions from being found, by the directory's lock"
                    : "replace the files of others",
                region_runtime_dir(), (unsigned)status.st_mode & 07777,
                region_runtime_dir());
  return true;
}

static void begin_scan(struct region_watch *watch) {
  watch->directory = opendir(region_runtime_dir());
  watch->places = count_places(watch);
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    instance->met = false;
  if (watch->directory == NULL) {
    watch->directory_ns = 0;
    tell_unreadable(watch);
  }
}

static void end_scan(struct region_watch *watch) {
  closedir(watch->directory);
  watch->directory = NULL;
}

/* Takes the next step of a scan. Returns false if there is nothing to do. */
static bool go_on(struct region_watch *watch) {
  struct region_title title;
  struct stat status;
  if (watch->directory == NULL)
    return false;
  const struct dirent *file = readdir(watch->directory);
  if (file == NULL)
    end_scan(watch);
  else if (region_title_split(&title, file->d_name,
                              region_title_length(file->d_name)) &&
           strcmp(title.region, BOARD_NAME) != 0 && /* <Load> reports it */
           is_file(watch->directory, file->d_name, &status))
    meet(watch, &title, file->d_name, &status);
  return true;
}

/* Logs in the first round which configured regions do not exist, because their
 * names may be misspelt. */
static void tell_absent(struct region_watch *watch) {
  const struct region_configs *configs = &watch->options.config->regions;
  for (size_t i = 0; watch->round == 1 && i < configs->len; i++) {
    const char *name = configs->list[i].name;
    bool there = name == NULL;
    for (struct region_instance *instance = watch->instances;
         instance != NULL && !there; instance = instance->next)
      there = strcmp(instance->budget->name, name) == 0;
    if (!there)
      NOTICE("percore: region %s is not in %s yet; percore waits for it.", name,
             region_runtime_dir());
  }
}

/* If a scan that was begun before ends, what came since then is found by
 * another one. */
void region_list_look(struct region_watch *watch) {
  uint64_t end_ns =
      region_watch_now_ns(watch) + watch->options.interval_ns / LIST_PART;
  bool again = watch->directory != NULL;
  if (!again && may_have_changed(watch))
    begin_scan(watch);
  for (size_t steps = 1;
       steps % STEPS_AT_ONCE != 0 || region_watch_now_ns(watch) <= end_ns;
       steps++) {
    bool goes_on = go_on(watch);
    if (!goes_on && !again)
      break;
    if (!goes_on && may_have_changed(watch))
      begin_scan(watch);
    again &= goes_on;
  }
  tell_absent(watch);
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

/* An instance stays as long as its file does, which this process may not be
 * allowed to remove, so that its counts are not counted again. */
void region_list_forget(struct region_watch *watch) {
  for (struct region_instance **link = &watch->instances; *link != NULL;) {
    const struct region_instance *instance = *link;
    bool is_dropped =
        instance->removed &&
        (instance->replaced || watch->instances_len > INSTANCES_MAX);
    bool is_kept =
        instance->met ||
        (!is_dropped &&
         watch->now.monotonic_ns - instance->served_ns < REGION_FORGET_NS);
    if (is_kept)
      link = &(*link)->next;
    else
      remove_instance(watch, link);
  }
}
