#include "board/board.h"
#include "regions.h"

#include "base/clock.h"
#include "base/descriptors.h"

#include "utils/common/common.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSTANCES_MAX 256
#define INSTANCE_DESCRIPTORS 3 /* connection, memory, process */
#define STRANGERS_ROUNDS 32
static struct region_instance *find_instance(const struct region_watch *watch,
                                             const struct region_title *label) {
  struct region_instance *instance = watch->instances;
  while (instance != NULL &&
         (strcmp(instance->budget->name, label->region) != 0 ||
          strcmp(instance->name, label->instance) != 0))
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
  /* What a producer that returns has counted must not be counted again. */
  if (region_reader_may_return(instance->reader))
    watch->after_boottime_ns =
        MAX(watch->after_boottime_ns, instance->after_boottime_ns);
  *link = instance->next;
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

/* If the list is full, removes the instance without a place that was served
 * least recently. */
static void make_place(struct region_watch *watch) {
  struct region_instance **gone = NULL;
  for (struct region_instance **link = &watch->instances; *link != NULL;
       link = &(*link)->next)
    if (!takes_place(*link) &&
        (gone == NULL || (*link)->served_ns < (*gone)->served_ns))
      gone = link;
  if (watch->instances_len >= INSTANCES_MAX && gone != NULL)
    remove_instance(watch, gone);
}

/* Returns true if there is room to read another region. Otherwise, logs the
 * reason once. */
static bool has_place(struct region_watch *watch,
                      const struct region_title *title) {
  struct rlimit limit = {0};
  if (watch->places > 0) {
    make_place(watch);
    return true;
  }
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  region_warn(region_about_host(watch),
              "region %s and further regions are not read: at most %d are: end "
              "producers, or raise RLIMIT_NOFILE (LimitNOFILE of the service) "
              "to %lu.",
              title->region, INSTANCES_MAX,
              (unsigned long)limit.rlim_cur + DESCRIPTORS_RESERVE +
                  INSTANCE_DESCRIPTORS * INSTANCES_MAX);
  watch->directory_ns = 0; /* tries again in the next round */
  return false;
}

/* Logs why a socket is not connected to: once for all instances of a region,
 * and for all regions of users from whom nothing is received. */
static void tell_refused(struct region_watch *watch,
                         const struct region_title *title,
                         struct region_reader *reader) {
  struct region_about about = region_about_host(watch);
  if (region_reader_errno(reader) != EBUSY)
    about.region = title->region;
  region_warn(about, "region %s is not read: %s", title->region,
              region_reader_error(reader));
}

/* Opens a reader for a socket. Returns NULL if no process listens on it, or if
 * it may not be connected to. Such a socket takes no place: for example, a
 * killed producer leaves its socket behind, and a producer that changes its
 * name at each start may leave many. */
static struct region_reader *find_producer(struct region_watch *watch,
                                           const struct region_title *title,
                                           const struct region_config *config) {
  struct region_reader_options options = {
      .keep_from_children = true,
      .may_read = region_config_may_read,
      .argument = (void *)config,
  };
  struct region_reader *reader;
  if (region_reader_open(&reader, title->region, region_title_instance(title),
                         &options) != 0)
    return NULL;
  if (region_reader_connect(reader) == 0)
    return reader;
  if (region_reader_fault(reader)->text[0] != '\0') {
    tell_refused(watch, title, reader);
  } else if (errno != ECONNREFUSED && errno != ENOENT && errno != ENOTSOCK)
    return reader;
  region_reader_close(reader);
  watch->strangers = true;
  return NULL;
}

/* Returns the budget of the regions of that name, which is created if
 * necessary, or NULL if out of memory. */
static struct region_budget *find_budget(struct region_watch *watch,
                                         const struct region_config *config,
                                         const char *region) {
  struct region_budget *budget = watch->budgets;
  while (budget != NULL && strcmp(budget->name, region) != 0)
    budget = budget->next;
  if (budget != NULL || (budget = calloc(1, sizeof(*budget))) == NULL)
    return budget;
  sstrncpy(budget->name, region, sizeof(budget->name));
  budget->config = config;
  budget->uid = (uid_t)-1;
  budget->log = &watch->log;
  budget->new_row_ns = HOUR_NS / (uint64_t)config->max_new_rows;
  budget->memory.pool = &watch->memory;
  budget->values.pool = &watch->values;
  budget->next = watch->budgets;
  return watch->budgets = budget;
}

bool region_budget_admits(struct region_budget *budget, uid_t uid) {
  if (budget->uid == (uid_t)-1)
    budget->uid = uid;
  if (budget->config->users_given || uid == budget->uid || uid == (uid_t)-1)
    return true;
  region_warn((struct region_about){.log = budget->log, .region = budget->name},
              "a region %s of user %u is not read: user %u has the name, until "
              "10 minutes after its last producer. To add them up, name both "
              "users in AllowUser.",
              budget->name, (unsigned)uid, (unsigned)budget->uid);
  return false;
}

/* Makes an instance, which owns the reader. If out of memory, closes the reader
 * and returns NULL. */
static struct region_instance *make_instance(struct region_watch *watch,
                                             const struct region_title *label,
                                             const struct region_config *config,
                                             struct region_reader *reader) {
  uid_t uid = region_reader_listener(reader);
  struct region_budget *budget = find_budget(watch, config, label->region);
  struct region_instance *instance = calloc(1, sizeof(*instance));
  if (instance == NULL || budget == NULL ||
      !region_budget_admits(budget, uid)) {
    watch->strangers = true;
    free(instance);
    region_reader_close(reader);
    return NULL;
  }
  budget->instances++;
  *instance =
      (struct region_instance){.watch = watch,
                               .reader = reader,
                               .budget = budget,
                               .after_boottime_ns = watch->after_boottime_ns};
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

/* Connects to a socket that belongs to no known instance. Returns the new
 * instance, or NULL if none was made. */
static struct region_instance *meet_new(struct region_watch *watch,
                                        const struct region_title *label) {
  const struct region_config *config =
      region_config_of(&watch->options.config->regions, label->region);
  if (config == NULL || !has_place(watch, label))
    return NULL;
  struct region_reader *reader = find_producer(watch, label, config);
  return reader != NULL ? make_instance(watch, label, config, reader) : NULL;
}

static void meet(struct region_watch *watch, const struct region_title *label) {
  struct region_instance *instance = find_instance(watch, label);
  if (instance == NULL)
    instance = meet_new(watch, label);
  if (instance == NULL)
    return;
  instance->met = instance->found_anew = true;
  region_reader_find(instance->reader, true);
}

/* Files have the time of the last tick, so the time of a recent change says
 * nothing about what came after it. */
static bool is_recent(uint64_t changed_ns) {
  return changed_ns + NS_PER_S > clock_now_ns(CLOCK_REALTIME);
}

/* Notes that the scan does not know what is there, and is to be repeated. */
static void note_failure(struct region_watch *watch) {
  watch->is_partial = true;
  watch->directory_ns = 0;
}

static bool is_socket(struct region_watch *watch, DIR *directory,
                      const char *file) {
  struct stat status;
  bool is_known =
      fstatat(dirfd(directory), file, &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_known && errno != ENOENT)
    note_failure(watch);
  return is_known && S_ISSOCK(status.st_mode);
}

bool region_watch_is_idle(const struct region_watch *watch) {
  struct stat status;
  if (watch->options.config->regions.len > 0 || watch->any_met ||
      watch->strangers)
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

/* True if a socket may have been added since the last scan began. Sockets that
 * were not connected to are tried again now and then: they may have been
 * between bind(2) and listen(2), or the reason for which they were refused is
 * gone. */
static bool may_have_changed(struct region_watch *watch) {
  struct stat status;
  if (stat(region_runtime_dir(), &status) != 0)
    return true; /* begin_scan says why */
  uint64_t changed_ns = ns_of(status.st_mtim);
  if (changed_ns == watch->directory_ns &&
      (!watch->strangers || watch->round % STRANGERS_ROUNDS != 0))
    return false;
  watch->directory_ns = is_recent(changed_ns) ? 0 : changed_ns;
  bool is_listed = (status.st_mode & S_IROTH) != 0;
  if (is_listed || (status.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
    region_warn(region_about_host(watch),
                "any user may %s, because the mode of %s is %04o: run chmod "
                "3770 %s.",
                is_listed
                    ? "keep regions from being found, by the directory's lock"
                    : "replace the sockets of others",
                region_runtime_dir(), (unsigned)status.st_mode & 07777,
                region_runtime_dir());
  return true;
}

static void scan(struct region_watch *watch) {
  DIR *directory = opendir(region_runtime_dir());
  const struct dirent *file;
  struct region_title title;
  watch->strangers = watch->is_partial = false;
  watch->places = count_places(watch);
  if (directory == NULL) {
    watch->directory_ns = 0;
    tell_unreadable(watch);
    return;
  }
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    instance->met = false;
  while (errno = 0, (file = readdir(directory)) != NULL)
    if (region_title_split(&title, file->d_name,
                           region_title_length(file->d_name)) &&
        strcmp(title.region, BOARD_NAME) != 0 && /* <Load> reports it */
        is_socket(watch, directory, file->d_name))
      meet(watch, &title);
  if (errno != 0)
    note_failure(watch);
  closedir(directory);
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next) {
    if (instance->met || !watch->is_partial)
      region_reader_find(instance->reader, instance->met);
    watch->strangers |= region_instance_is_refused(instance);
  }
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
      NOTICE(
          "percore: region %s is not served in %s yet; percore waits for it.",
          name, region_runtime_dir());
  }
}

void region_list_look(struct region_watch *watch) {
  if (may_have_changed(watch))
    scan(watch);
  tell_absent(watch);
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

void region_list_forget(struct region_watch *watch) {
  for (struct region_instance **link = &watch->instances; *link != NULL;) {
    if (watch->now.monotonic_ns - (*link)->served_ns < REGION_FORGET_NS)
      link = &(*link)->next;
    else
      remove_instance(watch, link);
  }
}
