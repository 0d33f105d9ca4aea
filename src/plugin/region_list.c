/* Which producers exist. The directory says by inotify(7) what comes and goes;
 * it is listed at the start, after notices were lost, once it is another
 * directory, and once a minute. */
#include "board/board.h"
#include "regions.h"

#include "base/clock.h"

#include "utils/common/common.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

/* How many names and files are read at most, and how many files of a user; and
 * how many are known, with those that were read to their end. */
#define NAMES_MAX 64
#define NAMES_KNOWN_MAX 256
#define FILES_MAX 4096
#define FILES_OF_USER_MAX 1024
#define FILES_KNOWN_MAX 65536
/* Which part of an interval is spent on notices, and which on listing, so that
 * whoever makes many files delays no region that is read. After how many files,
 * and readings of notices, to look at the clock. */
#define LIST_PART 8
#define FILES_AT_ONCE 64
#define READINGS_AT_ONCE 4
#define COMES (IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE)
#define GOES (IN_DELETE | IN_MOVED_FROM)

/* ---------------------------------------------------------------------------
 * Files
 */

/* If there is no memory, lists the directory again in the next round. */
static void *get_memory(struct region_watch *watch, size_t size) {
  void *memory = calloc(1, size);
  if (memory == NULL)
    watch->list_ns = 0;
  return memory;
}

/* Returns the list element that points to the producer, or to NULL. */
static struct region_producer **find_file(struct region_watch *watch,
                                          const char *file) {
  struct region_producer **link = &watch->producers;
  while (*link != NULL && strcmp((*link)->file, file) != 0)
    link = &(*link)->next;
  return link;
}

/* The same of a chain by inodes. */
static struct region_producer **find_inode(struct region_watch *watch,
                                           dev_t device, ino_t inode) {
  struct region_producer **link = &watch->by_inode[inode % REGION_INODES];
  while (*link != NULL &&
         ((*link)->inode != inode || (*link)->device != device))
    link = &(*link)->next_of_inode;
  return link;
}

/* True if so many files of the user are read or were refused as may be. */
static bool is_full_of(struct region_watch *watch, uid_t uid) {
  size_t files = 0;
  if (watch->full_uid == uid)
    return true;
  for (const struct region_producer *producer = watch->producers;
       producer != NULL; producer = producer->next)
    files +=
        producer->uid == uid && (producer->reader != NULL || producer->refused);
  if (files < FILES_OF_USER_MAX)
    return false;
  watch->full_uid = uid;
  return true;
}

void region_producer_forget(struct region_producer *producer) {
  if (producer->reader == NULL)
    return;
  producer->watch->files--;
  producer->instance->files--;
  producer->instance = NULL;
  region_producer_free_inputs(producer);
  region_workers_forget(&producer->workers);
  region_reader_close(producer->reader);
  producer->reader = NULL;
}

static void remove_file(struct region_watch *watch,
                        struct region_producer **link) {
  struct region_producer *producer = *link;
  *link = producer->next;
  *find_inode(watch, producer->device, producer->inode) =
      producer->next_of_inode;
  watch->producers_len--;
  region_producer_forget(producer);
  free(producer);
}

/* ---------------------------------------------------------------------------
 * Names
 */

/* Returns the budget of the regions of that name, which is created if
 * necessary, or NULL if out of memory. */
static struct region_budget *find_budget(struct region_watch *watch,
                                         const struct region_config *config,
                                         const char *region) {
  struct region_budget *budget = watch->budgets;
  while (budget != NULL && strcmp(budget->name, region) != 0)
    budget = budget->next;
  if (budget != NULL || (budget = get_memory(watch, sizeof(*budget))) == NULL)
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

/* True if a user's regions of that name are read: the user's was the first, or
 * AllowUser names the users. Otherwise, logs the reason once. */
static bool admits(struct region_budget *budget, uid_t uid) {
  if (budget->uid == (uid_t)-1)
    budget->uid = uid;
  if (budget->config->users_given || uid == budget->uid)
    return true;
  region_warn((struct region_about){.log = budget->log, .region = budget->name},
              "a region %s of user %u is not read: user %u has the name, until "
              "10 minutes after its last producer. To add them up, name both "
              "users in AllowUser.",
              budget->name, (unsigned)uid, (unsigned)budget->uid);
  return false;
}

static void remove_name(struct region_watch *watch,
                        struct region_instance **link) {
  struct region_instance *instance = *link;
  *link = instance->next;
  watch->instances_len--;
  instance->budget->instances--;
  free(instance);
}

/* If there are too many names, removes the one without a file that had one
 * least recently. Returns false if each has a file. */
static bool has_place(struct region_watch *watch) {
  struct region_instance **gone = NULL;
  if (watch->instances_len < NAMES_KNOWN_MAX)
    return true;
  for (struct region_instance **link = &watch->instances; *link != NULL;
       link = &(*link)->next)
    if ((*link)->files == 0 &&
        (gone == NULL || (*link)->served_ns < (*gone)->served_ns))
      gone = link;
  if (gone != NULL)
    remove_name(watch, gone);
  return gone != NULL;
}

static struct region_instance *make_name(struct region_watch *watch,
                                         const struct region_title *title,
                                         struct region_budget *budget) {
  struct region_instance *instance = get_memory(watch, sizeof(*instance));
  if (instance == NULL)
    return NULL;
  *instance = (struct region_instance){
      .watch = watch, .budget = budget, .served_ns = watch->now.monotonic_ns};
  sstrncpy(instance->name, title->instance, sizeof(instance->name));
  snprintf(instance->label, sizeof(instance->label), "%s%s%s", title->region,
           title->instance[0] != '\0' ? "@" : "", title->instance);
  budget->instances++;
  instance->next = watch->instances;
  watch->instances = instance;
  watch->instances_len++;
  watch->any_met = true;
  return instance;
}

static void tell_names(struct region_watch *watch, const char *region) {
  region_warn(region_about_host(watch),
              "region %s and further regions are not read: at most %d names "
              "are. End producers, or use fewer names.",
              region, NAMES_MAX);
  watch->list_ns = 0; /* again in the next round */
}

static struct region_instance *find_name(struct region_watch *watch,
                                         const struct region_title *title,
                                         struct region_budget *budget) {
  struct region_instance *instance = watch->instances;
  while (instance != NULL && (instance->budget != budget ||
                              strcmp(instance->name, title->instance) != 0))
    instance = instance->next;
  if (instance != NULL)
    return instance;
  if (has_place(watch))
    return make_name(watch, title, budget);
  tell_names(watch, title->region);
  return NULL;
}

/* Returns how many names have a producer that lives. */
static size_t count_names(struct region_watch *watch) {
  size_t names = 0;
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    names += instance->alive + instance->found.came > instance->found.went;
  return names;
}

/* ---------------------------------------------------------------------------
 * A file comes
 */

/* Logs once for all files of a region that its user is not allowed. */
static bool may_read(struct region_watch *watch,
                     const struct region_title *title,
                     const struct region_config *config, uid_t uid) {
  struct region_about about = region_about_host(watch);
  about.region = title->region;
  if (region_config_may_read(config, uid))
    return true;
  region_warn(about,
              "region %s is not read: it is of user %u, who is not allowed; "
              "AllowUser names those that are.",
              title->region, (unsigned)uid);
  return false;
}

static bool is_full(struct region_watch *watch,
                    const struct region_title *title, uid_t uid) {
  bool full = watch->files >= FILES_MAX ||
              watch->producers_len >= FILES_KNOWN_MAX || is_full_of(watch, uid);
  if (!full)
    return false;
  region_warn(region_about_host(watch),
              "region %s and further regions are not read: at most %d files "
              "are, and %d of a user. End producers, or use fewer of them.",
              title->region, FILES_MAX, FILES_OF_USER_MAX);
  watch->list_ns = 0; /* again in the next round */
  return true;
}

static void make_producer(struct region_watch *watch,
                          struct region_instance *instance, const char *file,
                          const struct stat *status) {
  const struct region_reader_options options = {
      .keep_from_children = true, .allowance = &instance->budget->memory};
  struct region_producer *producer = get_memory(watch, sizeof(*producer));
  struct region_reader *reader;
  if (producer == NULL ||
      region_reader_open_file(&reader, file, &options) != 0) {
    free(producer);
    watch->list_ns = 0; /* again in the next round */
    return;
  }
  *producer = (struct region_producer){.watch = watch,
                                       .instance = instance,
                                       .device = status->st_dev,
                                       .inode = status->st_ino,
                                       .uid = status->st_uid,
                                       .reader = reader,
                                       .is_slow = true,
                                       .looked_in = watch->round - 1,
                                       .met = true};
  sstrncpy(producer->file, file, sizeof(producer->file));
  instance->files++;
  watch->files++;
  producer->next = watch->producers;
  watch->producers = producer;
  *find_inode(watch, producer->device, producer->inode) = producer;
  watch->producers_len++;
  region_producer_refresh(producer);
  /* Last counts are read at once, and take no place of others. */
  if (producer->inputs != NULL && !producer->ended &&
      count_names(watch) > NAMES_MAX) {
    tell_names(watch, instance->budget->name);
    remove_file(watch, &watch->producers);
    instance->found.came--;
  }
}

/* Finds a place for a file that is not known. */
static void meet_new(struct region_watch *watch, const char *file,
                     const struct stat *status) {
  struct region_title title;
  if (!region_title_split(&title, file, region_title_length(file)) ||
      strcmp(title.region, BOARD_NAME) == 0) /* <Load> reports it */
    return;
  const struct region_config *config =
      region_config_of(&watch->options.config->regions, title.region);
  if (config == NULL || !may_read(watch, &title, config, status->st_uid) ||
      is_full(watch, &title, status->st_uid))
    return;
  struct region_budget *budget = find_budget(watch, config, title.region);
  if (budget != NULL && !admits(budget, status->st_uid))
    return;
  struct region_instance *instance =
      budget != NULL ? find_name(watch, &title, budget) : NULL;
  if (instance != NULL)
    make_producer(watch, instance, file, status);
}

/* A file that is known under another name was renamed, and counts once. One
 * that was refused is tried again if `tries` is set. */
static void meet(struct region_watch *watch, const char *file,
                 const struct stat *status, bool tries) {
  struct region_producer *known =
      *find_inode(watch, status->st_dev, status->st_ino);
  if (known != NULL && !(known->refused && tries)) {
    known->met = true;
    return;
  }
  if (known != NULL)
    remove_file(watch, find_file(watch, known->file));
  meet_new(watch, file, status);
}

/* Returns false if it is unknown what the name stands for. */
static bool meet_named(struct region_watch *watch, int directory,
                       const char *file, bool tries) {
  struct stat status;
  if (region_title_length(file) == 0)
    return true;
  if (fstatat(directory, file, &status, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT;
  if (S_ISREG(status.st_mode))
    meet(watch, file, &status, tries);
  return true;
}

/* ---------------------------------------------------------------------------
 * The directory
 */

/* Logs why the directory cannot be read. A missing directory is not a fault,
 * because there may never be a producer. */
static void tell_unreadable(struct region_watch *watch) {
  char remedy[REGION_REMEDY_SIZE];
  const char *path = region_runtime_dir();
  if (errno != ENOENT)
    region_warn(region_about_host(watch), "regions in %s are not read: %s%s",
                path, STRERRNO, region_health_group_remedy(path, remedy));
}

static void tell_mode(struct region_watch *watch, unsigned mode) {
  bool is_listed = (mode & S_IROTH) != 0;
  if (is_listed || (mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
    region_warn(region_about_host(watch),
                "any user may %s, because the mode of %s is %04o: run chmod "
                "3770 %s.",
                is_listed
                    ? "keep regions from being found, by the directory's lock"
                    : "replace the files of others",
                region_runtime_dir(), mode & 07777, region_runtime_dir());
}

/* Asks to be told of changes, before the directory is listed. If a user's
 * watches are used up, lists the directory in each round. */
static void ask_for_notices(struct region_watch *watch) {
  if (watch->notices < 0)
    watch->notices = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watch->notices < 0 ||
      inotify_add_watch(watch->notices, region_runtime_dir(),
                        COMES | GOES | IN_MOVE_SELF | IN_ONLYDIR) >= 0)
    return;
  close(watch->notices);
  watch->notices = -1;
}

static void forget_unmet(struct region_watch *watch) {
  for (struct region_producer **link = &watch->producers; *link != NULL;)
    if (!(*link)->met && (*link)->inputs == NULL)
      remove_file(watch, link);
    else
      link = &(*link)->next;
}

static void begin_list(struct region_watch *watch) {
  /* Not if it is only because the last list was incomplete. */
  watch->tries = watch->list_ns != 0 || watch->lost;
  watch->is_whole = true;
  watch->lost = false;
  watch->list_ns = watch->now.monotonic_ns;
  if (stat(region_runtime_dir(), &watch->directory) == 0) {
    ask_for_notices(watch);
    watch->listed = opendir(region_runtime_dir());
  }
  if (watch->listed == NULL) {
    tell_unreadable(watch);
    watch->list_ns = 0; /* again in the next round */
    return;
  }
  tell_mode(watch, watch->directory.st_mode);
  for (struct region_producer *producer = watch->producers; producer != NULL;
       producer = producer->next)
    producer->met = false;
}

static void list(struct region_watch *watch) {
  uint64_t until_ns =
      region_watch_now_ns(watch) + watch->options.interval_ns / LIST_PART;
  const struct dirent *file;
  unsigned files = 0;
  while (errno = 0, (file = readdir(watch->listed)) != NULL) {
    watch->is_whole &=
        meet_named(watch, dirfd(watch->listed), file->d_name, watch->tries);
    if (++files % FILES_AT_ONCE == 0 && region_watch_now_ns(watch) > until_ns)
      return; /* goes on in the next round */
  }
  watch->is_whole &= errno == 0;
  closedir(watch->listed);
  watch->listed = NULL;
  if (watch->is_whole)
    forget_unmet(watch);
  else
    watch->list_ns = 0; /* again in the next round */
}

/* ---------------------------------------------------------------------------
 * Notices
 */

static void go(struct region_watch *watch, const char *file) {
  struct region_producer **link = find_file(watch, file);
  if (*link == NULL)
    return;
  (*link)->met = false;
  if ((*link)->inputs == NULL)
    remove_file(watch, link); /* else its last counts are read first */
}

/* Returns false if notices were lost, or none can come. */
static bool take_notice(struct region_watch *watch, int directory,
                        const struct inotify_event *event) {
  if (event->mask & (IN_Q_OVERFLOW | IN_IGNORED))
    return false;
  if (event->len > 0 && event->mask & GOES)
    go(watch, event->name);
  return event->len == 0 || !(event->mask & COMES) ||
         meet_named(watch, directory, event->name, true);
}

/* True if the directory is the one that was listed. A directory that was
 * removed gives no notice as long as a process has a file of it mapped, and one
 * on which something is mounted never does. */
static bool is_as_listed(const struct region_watch *watch, int directory) {
  struct stat status;
  return fstat(directory, &status) == 0 &&
         status.st_ino == watch->directory.st_ino &&
         status.st_dev == watch->directory.st_dev;
}

/* Returns false if the directory must be listed. */
static bool take_notices(struct region_watch *watch) {
  _Alignas(struct inotify_event) char buffer[1 << 14];
  ssize_t size;
  uint64_t until_ns =
      region_watch_now_ns(watch) + watch->options.interval_ns / LIST_PART;
  if (watch->notices < 0)
    return false;
  int directory = open(region_runtime_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  bool complete = is_as_listed(watch, directory);
  unsigned readings = 0;
  while ((size = read(watch->notices, buffer, sizeof(buffer))) > 0 &&
         (++readings % READINGS_AT_ONCE != 0 ||
          region_watch_now_ns(watch) <= until_ns))
    for (char *at = buffer; at < buffer + size;) {
      const struct inotify_event *event = (const void *)at;
      complete &= take_notice(watch, directory, event);
      at += sizeof(*event) + event->len;
    }
  close(directory);
  return complete && size <= 0;
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

void region_list_look(struct region_watch *watch) {
  watch->full_uid = (uid_t)-1;
  watch->lost |= !take_notices(watch);
  if (watch->listed == NULL &&
      (watch->lost || watch->list_ns == 0 ||
       watch->now.monotonic_ns - watch->list_ns >= REGION_LIST_NS))
    begin_list(watch);
  if (watch->listed != NULL)
    list(watch);
  tell_absent(watch);
}

int region_watch_rests(const struct region_watch *watch) {
  bool rests = watch->list_ns != 0 && watch->listed == NULL && !watch->lost &&
               !watch->any_met && watch->options.config->regions.len == 0;
  return rests ? watch->notices : -1;
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

void region_list_forget(struct region_watch *watch) {
  if (watch->listed == NULL)
    forget_unmet(watch);
  for (struct region_instance **link = &watch->instances; *link != NULL;)
    if ((*link)->files > 0 ||
        watch->now.monotonic_ns - (*link)->served_ns < REGION_FORGET_NS)
      link = &(*link)->next;
    else
      remove_name(watch, link);
}
