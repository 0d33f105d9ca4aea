#include "region_instance.h"

#include "base/array.h"
#include "base/descriptors.h"

#include "utils/common/common.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSTANCES_MAX 256
#define INSTANCE_DESCRIPTORS 3 /* connection, memory, process */
/* Other users may fill the directory, so a scan reads at most FILES_MAX files
 * and spends at most 1/TRY_PART of the interval on unknown sockets. Once a
 * socket has refused a connection, it is tried again only every REFUSED_ROUNDS
 * rounds. */
#define FILES_MAX 65536
#define TRY_PART 8
#define REFUSED_ROUNDS 32

/* A scan of the runtime directory. */
struct look {
  struct region_watch *watch;
  int directory;
  long descriptors; /* how many may still be opened */
  size_t tries;     /* attempts to connect to unknown sockets */
  uint64_t end_ns;  /* deadline for tries; 0: not set yet */
  bool late;
  struct region_refused refused;
};

static struct region_instance *find_instance(const struct region_watch *watch,
                                             const struct region_label *label) {
  struct region_instance *instance = watch->instances;
  while (instance != NULL && (strcmp(instance->region, label->region) != 0 ||
                              strcmp(instance->name, label->instance) != 0))
    instance = instance->next;
  return instance;
}

/* Inserts the instance in the order of names, so that every round reads the
 * instances in the same order. */
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
  region_instance_free_sources(instance);
  region_workers_forget(&instance->workers);
  region_reader_close(instance->reader);
  instance->budget->instances--;
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
 * New instances
 */

/* True if the new instance's user may have another region: the number of free
 * places must exceed the number of the user's regions. Root, collectd's own
 * user and users named by AllowUser are not limited. */
static bool may_have_place(const struct region_watch *watch,
                           const struct region_instance *new) {
  size_t used = 0, of_user = 0;
  for (const struct region_instance *instance = watch->instances;
       instance != NULL; instance = instance->next) {
    used += instance->health != REGION_DEAD;
    of_user += instance->health != REGION_DEAD && instance->uid == new->uid;
  }
  return new->uid == 0 || new->uid == geteuid() ||
         (new->config->users_given &&region_config_may_read(
             new->uid, (void *)new->config)) ||
         of_user < INSTANCES_MAX - used;
}

/* If all places are taken, removes the ended instance that was served least
 * recently. Returns false if no place can be freed. */
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

static void tell_limit(struct region_watch *watch,
                       const struct region_instance *new) {
  struct rlimit limit = {0};
  unsigned long more =
      DESCRIPTORS_RESERVE + INSTANCE_DESCRIPTORS * INSTANCES_MAX;
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  WARN_ONCE(watch->descriptors_told,
            "percore: region %s and further regions are not read: the limit of "
            "%lu open files would leave too few for other plugins. Raise "
            "RLIMIT_NOFILE (LimitNOFILE of the service) to %lu, which is "
            "enough for %d regions.",
            new->label, (unsigned long)limit.rlim_cur,
            (unsigned long)limit.rlim_cur + more, INSTANCES_MAX);
}

/* Returns true if there is room to read the new instance. Otherwise, logs the
 * reason once. */
static bool has_place(const struct look *look,
                      const struct region_instance *new) {
  struct region_watch *watch = look->watch;
  if (look->descriptors < INSTANCE_DESCRIPTORS)
    tell_limit(watch, new);
  else if (!may_have_place(watch, new))
    WARN_ONCE(watch->user_told,
              "percore: region %s and further regions of user %u are not read: "
              "the user already has its share of the %d regions that are read; "
              "add the user to AllowUser.",
              new->label, (unsigned)new->uid, INSTANCES_MAX);
  else if (!make_place(watch))
    WARN_ONCE(watch->crowd_told,
              "percore: region %s and further regions are not read: at "
              "most %d regions are read at a time; end producers that are not "
              "needed.",
              new->label, INSTANCES_MAX);
  else
    return true;
  return false;
}

/* Opens a reader for a socket. Returns NULL if no process listens on it. Such a
 * socket takes no place, because a killed producer leaves its socket behind,
 * and a producer that changes its name at each start may leave many. */
static struct region_reader *find_producer(const struct region_label *label,
                                           const struct region_config *config) {
  struct region_reader_options options = {
      .max_region_size = config->max_region_size,
      .keep_from_children = true,
      .may_read = region_config_may_read,
      .argument = (void *)config,
  };
  struct region_reader *reader;
  if (region_reader_open(&reader, label->region, region_label_instance(label),
                         &options) != 0)
    return NULL;
  if (region_reader_connect(reader) == 0 ||
      (errno != ECONNREFUSED && errno != ENOENT && errno != ENOTSOCK))
    return reader;
  region_reader_close(reader);
  return NULL;
}

/* Returns the budget of a region, which is created if necessary, or NULL if out
 * of memory. Each region has its own, so that no region takes what another
 * needs. */
static struct region_budget *find_budget(struct region_watch *watch,
                                         const char *region) {
  struct region_budget *budget = watch->budgets;
  while (budget != NULL && strcmp(budget->name, region) != 0)
    budget = budget->next;
  if (budget != NULL || (budget = calloc(1, sizeof(*budget))) == NULL)
    return budget;
  sstrncpy(budget->name, region, sizeof(budget->name));
  budget->memory.pool = &watch->memory;
  budget->values.pool = &watch->values;
  budget->next = watch->budgets;
  return watch->budgets = budget;
}

/* Makes an instance, which owns the reader. If out of memory or if there is no
 * place for the instance, closes the reader and returns NULL. */
static struct region_instance *make_instance(struct look *look,
                                             const struct region_label *label,
                                             const struct region_config *config,
                                             struct region_reader *reader) {
  struct region_watch *watch = look->watch;
  struct region_budget *budget = find_budget(watch, label->region);
  struct region_instance *instance = calloc(1, sizeof(*instance));
  if (instance == NULL || budget == NULL) {
    free(instance);
    region_reader_close(reader);
    return NULL;
  }
  budget->instances++;
  *instance =
      (struct region_instance){.watch = watch,
                               .config = config,
                               .reader = reader,
                               .uid = region_reader_listener(reader),
                               .budget = budget,
                               .absent_boottime_ns = watch->last.boottime_ns};
  sstrncpy(instance->region, label->region, sizeof(instance->region));
  sstrncpy(instance->name, label->instance, sizeof(instance->name));
  snprintf(instance->label, sizeof(instance->label), "%s%s%s", label->region,
           label->instance[0] != '\0' ? "@" : "", label->instance);
  if (!has_place(look, instance)) {
    free_instance(instance);
    return NULL;
  }
  region_reader_use_allowance(reader, &budget->memory);
  insert(watch, instance);
  look->descriptors -= INSTANCE_DESCRIPTORS;
  watch->any_met = true;
  return instance;
}

/* ---------------------------------------------------------------------------
 * Sockets on which no process listens
 */

/* Returns a number that identifies a socket, or 0 if the file is not a socket.
 */
static uint64_t mark_of(const struct look *look, const char *file) {
  struct stat status;
  if (fstatat(look->directory, file, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISSOCK(status.st_mode))
    return 0;
  uint64_t mark = UINT64_C(14695981039346656037); /* FNV-1a */
  const uint64_t numbers[] = {status.st_ino, (uint64_t)status.st_ctim.tv_sec,
                              (uint64_t)status.st_ctim.tv_nsec};
  for (const char *c = file; *c != '\0'; c++)
    mark = (mark ^ (unsigned char)*c) * UINT64_C(1099511628211);
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(numbers); i++)
    mark = (mark ^ numbers[i]) * UINT64_C(1099511628211);
  return mark | 1;
}

static int compare_marks(const void *left, const void *right) {
  const uint64_t *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

static bool has_refused(const struct region_refused *refused, uint64_t mark) {
  return refused->len > 0 && bsearch(&mark, refused->marks, refused->len,
                                     sizeof(mark), compare_marks) != NULL;
}

/* Remembers a socket that refused a connection, unless memory is short. */
static void remember(struct region_refused *refused, uint64_t mark) {
  if (array_reserve(&refused->marks, refused->len, &refused->capacity,
                    sizeof(mark)))
    refused->marks[refused->len++] = mark;
}

/* Counts an attempt to connect to an unknown socket. Returns false after the
 * deadline, for which it checks the clock at every 64th attempt. */
static bool has_time(struct look *look) {
  if (++look->tries % 64 != 0)
    return !look->late;
  uint64_t now_ns = region_watch_now_ns(look->watch);
  if (look->end_ns == 0)
    look->end_ns = now_ns + look->watch->options.interval_ns / TRY_PART;
  look->late = now_ns > look->end_ns;
  return !look->late;
}

/* ---------------------------------------------------------------------------
 * Scanning the directory
 */

/* Connects to a socket that belongs to no known instance. Returns the new
 * instance, or NULL if none was made. A socket that refused a connection is
 * tried again in a later round, because its producer may have been between
 * bind(2) and listen(2). */
static struct region_instance *meet_new(struct look *look, const char *file,
                                        const struct region_label *label) {
  struct region_watch *watch = look->watch;
  const struct region_config *config =
      region_config_of(watch->options.configs, label->region);
  uint64_t mark = config != NULL ? mark_of(look, file) : 0;
  if (mark == 0)
    return NULL;
  bool refused = has_refused(&watch->refused, mark);
  bool has_turn =
      !refused || (mark >> 1) % REFUSED_ROUNDS == watch->round % REFUSED_ROUNDS;
  if (has_turn && has_time(look)) {
    struct region_reader *reader = find_producer(label, config);
    if (reader != NULL)
      return make_instance(look, label, config, reader);
    refused = true;
  }
  if (refused)
    remember(&look->refused, mark);
  return NULL;
}

static void meet(struct look *look, const char *file) {
  struct region_label label;
  if (!region_label_split(&label, file, region_label_length(file)))
    return;
  struct region_instance *instance = find_instance(look->watch, &label);
  if (instance == NULL)
    instance = meet_new(look, file, &label);
  if (instance != NULL)
    instance->listed = true;
}

/* Logs once what is wrong with the directory. */
static void judge_directory(const struct look *look, size_t files) {
  struct region_watch *watch = look->watch;
  struct stat status;
  if (watch->directory_told || fstat(look->directory, &status) != 0)
    return;
  bool open = (status.st_mode & S_IROTH) != 0 ||
              (status.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH;
  if (open)
    WARNING("percore: any user may replace the regions in %s or block its "
            "lock, because its mode is %04o. Close it to users outside its "
            "group (chmod 3770).",
            region_runtime_dir(), (unsigned)status.st_mode & 07777);
  if (files > FILES_MAX)
    WARNING("percore: %s has more than %d files; the rest are ignored. Remove "
            "the sockets that no process serves.",
            region_runtime_dir(), FILES_MAX);
  watch->directory_told = open || files > FILES_MAX;
}

/* Logs once why the directory cannot be read. A missing directory is not a
 * fault, because there may never be a producer. */
static void tell_unreadable(struct region_watch *watch) {
  char remedy[REGION_REMEDY_SIZE];
  const char *path = region_runtime_dir();
  if (errno != ENOENT)
    WARN_ONCE(watch->directory_told,
              "percore: regions in %s are not read: %s%s", path, STRERRNO,
              region_health_group_remedy(path, remedy));
}

/* Returns how many descriptors new instances may open: those available to
 * regions, minus those that known instances need once they are connected. */
static long count_descriptors(const struct region_watch *watch) {
  long available = descriptors_available();
  for (const struct region_instance *instance = watch->instances;
       instance != NULL; instance = instance->next)
    if (instance->health != REGION_DEAD && !region_instance_is_alive(instance))
      available -= INSTANCE_DESCRIPTORS;
  return available;
}

static void meet_all(struct region_watch *watch) {
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    instance->listed = false;
  DIR *directory = opendir(region_runtime_dir());
  if (directory == NULL) {
    tell_unreadable(watch);
    return;
  }
  struct look look = {.watch = watch,
                      .directory = dirfd(directory),
                      .descriptors = count_descriptors(watch)};
  size_t files = 0;
  for (struct dirent *file;
       files <= FILES_MAX && (file = readdir(directory)) != NULL; files++)
    meet(&look, file->d_name);
  judge_directory(&look, files);
  closedir(directory);
  if (look.refused.len > 0)
    qsort(look.refused.marks, look.refused.len, sizeof(*look.refused.marks),
          compare_marks);
  free(watch->refused.marks);
  watch->refused = look.refused;
}

/* Logs once which configured regions do not exist, because their names may be
 * misspelt. */
static void tell_absent(struct region_watch *watch) {
  const struct region_configs *configs = watch->options.configs;
  for (size_t i = 0; !watch->absent_told && i < configs->len; i++) {
    const char *name = configs->list[i].name;
    bool there = name == NULL;
    for (struct region_instance *instance = watch->instances;
         instance != NULL && !there; instance = instance->next)
      there = strcmp(instance->region, name) == 0;
    if (!there)
      NOTICE(
          "percore: region %s is not served in %s yet; percore waits for it.",
          name, region_runtime_dir());
  }
  watch->absent_told = true;
}

void region_list_look(struct region_watch *watch) {
  meet_all(watch);
  tell_absent(watch);
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

void region_list_forget(struct region_watch *watch) {
  for (struct region_instance **link = &watch->instances; *link != NULL;) {
    if (watch->now.monotonic_ns - (*link)->served_ns < REGION_FORGET_NS ||
        region_reader_errno((*link)->reader) == EBUSY)
      link = &(*link)->next;
    else
      remove_instance(watch, link);
  }
}

void region_list_free(struct region_watch *watch) {
  while (watch->instances != NULL)
    remove_instance(watch, &watch->instances);
  free(watch->refused.marks);
}
