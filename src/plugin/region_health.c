/* What is reported about an instance: why it is not read, and that it is gone,
 * back, silent or stale. Everything is reported once. */
#include "regions.h"

#include "put.h"

#include "base/clock.h"

#include "utils/common/common.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a region must have been read, without a message about it, before
 * what happens to it is always reported: at first, and after a message. */
#define CALM_NS (10 * NS_PER_S)
#define TOLD_CALM_NS (60 * NS_PER_S)

const char *region_health_group_remedy(const char *path,
                                       char text[REGION_REMEDY_SIZE]) {
  char buffer[4096], number[16];
  struct group group, *found = NULL;
  struct stat status;
  text[0] = '\0';
  if (stat(path, &status) != 0 || (status.st_mode & S_IWGRP) == 0 ||
      group_member(status.st_gid))
    return text;
  (void)getgrgid_r(status.st_gid, &group, buffer, sizeof(buffer), &found);
  snprintf(number, sizeof(number), "%u", (unsigned)status.st_gid);
  const char *name = found != NULL ? found->gr_name : number;
  snprintf(text, REGION_REMEDY_SIZE,
           ": collectd is not a member of group %s; add "
           "SupplementaryGroups=%s to its service, or add its user to the "
           "group",
           name, name);
  return text;
}

/* Logs each reason once for a region. c_complain is not used because it is for
 * collectd's own threads. */
void region_health_complain(const struct region_producer *producer) {
  char remedy[REGION_REMEDY_SIZE] = "";
  struct region_instance *instance = producer->instance;
  const struct region_fault *fault = region_reader_fault(producer->reader);
  struct region_about about = {.log = &instance->watch->log,
                               .region = instance->budget->name,
                               .part = fault->text};
  if (fault->error == 0 || fault->error == ENOENT)
    return;
  if (fault->error == EACCES)
    region_health_group_remedy(region_runtime_dir(), remedy);
  region_warn(about, "region %s is not read: %s%s%s", instance->label,
              region_reader_error(producer->reader), remedy,
              fault->error == EDQUOT ? "; raise MaxMemory" : "");
  instance->complained = true;
}

void region_health_read(struct region_instance *instance) {
  if (instance->complained && region_log_takes(region_about(instance, NULL)))
    INFO("percore: region %s is now read.", instance->label);
  instance->complained = false;
}

static enum region_health health_of(const struct region_instance *instance) {
  const struct region_found *found = &instance->found;
  if (found->alive == 0)
    return instance->health == REGION_UNKNOWN && found->went == 0
               ? REGION_UNKNOWN
               : REGION_DEAD;
  if (found->stopped == found->alive)
    return REGION_STOPPED;
  return found->polling > 0 && found->stuck == found->polling ? REGION_STALE
                                                              : REGION_WELL;
}

/* True if the event is reported however many lines the log has: that a region
 * which was read for some time is gone, for example, and then that it is back.
 * A region that comes and goes all the time has a share of the log. */
static bool is_heard(struct region_instance *instance, int severity) {
  uint64_t calm_ns =
      instance->watch->now.monotonic_ns - instance->calm_since_ns;
  bool is_known = instance->calm_since_ns != 0 &&
                  calm_ns >= (instance->was_told ? TOLD_CALM_NS : CALM_NS);
  bool ends_alarm = instance->alarmed && severity == NOTIF_OKAY;
  if (is_known || ends_alarm)
    instance->alarmed = severity != NOTIF_OKAY;
  else if (!region_log_takes(region_about(instance, NULL)))
    return false;
  instance->calm_since_ns = instance->watch->now.monotonic_ns;
  instance->was_told = true;
  return true;
}

/* Logs an event, and sends it as a notification. */
__attribute__((format(printf, 3, 4))) static void
tell(struct region_instance *instance, int severity, const char *format, ...) {
  notification_t note = {.severity = severity,
                         .time = NS_TO_CDTIME_T(instance->watch->now.stamp_ns)};
  va_list arguments;
  if (!is_heard(instance, severity))
    return;
  va_start(arguments, format);
  vsnprintf(note.message, sizeof(note.message), format, arguments);
  va_end(arguments);
  plugin_log(severity == NOTIF_OKAY ? LOG_NOTICE : LOG_WARNING, "percore: %s",
             note.message);
  put_notification(&note, instance->label, "regions");
}

static void tell_workers(struct region_producer *producer) {
  static const struct {
    bool were;
    int severity;
    const char *text;
  } changes[] = {{false, NOTIF_WARNING, ""}, {true, NOTIF_OKAY, "no longer "}};
  struct core_set cores;
  char list[64];
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(changes); i++)
    if (region_workers_changed(&producer->workers, changes[i].were, &cores)) {
      core_set_format(&cores, list, sizeof(list));
      tell(producer->instance, changes[i].severity,
           "Workers of region %s are %sstuck on %s%s.",
           producer->instance->label, changes[i].text,
           list[0] != '\0' ? "cores " : "no core", list);
    }
}

/* Reports a change of a name's health once. A name is gone when its last
 * producer is. Returns false if there was none. */
static bool tell_change(struct region_instance *instance) {
  const struct region_found *found = &instance->found;
  enum region_health before = instance->health, now = health_of(instance);
  const char *name = instance->label;
  bool restarted = found->went > 0 && found->alive == found->came;
  instance->health = now;
  if (now == REGION_DEAD && before != REGION_DEAD && found->ended)
    tell(instance, NOTIF_OKAY, "Region %s has ended: its producer closed it.",
         name);
  else if (now == REGION_DEAD && before != REGION_DEAD)
    tell(instance, NOTIF_FAILURE,
         "Region %s is gone: its producer died or did not close it.", name);
  else if (now == REGION_DEAD || now == REGION_UNKNOWN)
    return false;
  else if (before == REGION_DEAD)
    tell(instance, NOTIF_OKAY, "Region %s is back.", name);
  else if (restarted)
    tell(instance, found->ended ? NOTIF_OKAY : NOTIF_WARNING,
         "Region %s was gone and is back: its producer was restarted.", name);
  else if (now == REGION_STOPPED && before != REGION_STOPPED)
    tell(instance, NOTIF_WARNING,
         "Region %s is silent: its producer is stopped.", name);
  else if (before == REGION_STOPPED && now != REGION_STOPPED)
    tell(instance, NOTIF_OKAY, "Region %s is no longer silent.", name);
  else if (now == REGION_STALE && before != REGION_STALE)
    tell(instance, NOTIF_WARNING,
         "Region %s is stale: all of its workers are stuck.", name);
  else if (now == REGION_WELL && before == REGION_STALE)
    tell(instance, NOTIF_OKAY, "Region %s is no longer stale.", name);
  else
    return false;
  return true;
}

/* The name of a thread is any bytes. */
void region_health_refusals(const struct region_producer *producer,
                            struct region_refusals *refusals) {
  const struct region_instance *instance = producer->instance;
  char text[512];
  for (char *c = refusals->name; *c != '\0'; c++)
    *c = isprint((unsigned char)*c) ? *c : '_';
  if (region_slots_refused(text, sizeof(text), refusals))
    region_warn(region_about(instance, "slots"), "region %s: %s.",
                instance->label, text);
  if (region_rows_refused(text, sizeof(text), refusals))
    region_warn(region_about(instance, "rows"), "region %s: %s.",
                instance->label, text);
}

/* Reports once that new rows are left out, and that none was for an hour. */
static void tell_new_rows(struct region_instance *instance) {
  struct region_budget *budget = instance->budget;
  bool denies = budget->denied_ns != 0 &&
                instance->watch->now.monotonic_ns - budget->denied_ns < HOUR_NS;
  if (denies && !budget->denies)
    tell(instance, NOTIF_WARNING,
         "Region %s: new rows of table %s are counted only in `other`: %d have "
         "replaced others within an hour. Name rows after what lasts, choose "
         "them with Row, or raise MaxNewRows.",
         budget->name, budget->denied_in, budget->config->max_new_rows);
  else if (budget->denies && !denies)
    tell(instance, NOTIF_OKAY, "Region %s: no new row was left out in an hour.",
         budget->name);
  budget->denies = denies;
}

/* Adds a file to what this round has found of its name. */
static void find(struct region_producer *producer) {
  struct region_instance *instance = producer->instance;
  uint64_t now_ns = producer->watch->now.monotonic_ns;
  if (producer->reader == NULL)
    return;
  instance->served_ns = now_ns;
  if (!region_producer_is_alive(producer))
    return;
  if (instance->calm_since_ns == 0)
    instance->calm_since_ns = now_ns;
  instance->found.alive++;
  instance->found.stopped += region_reader_is_stopped(producer->reader);
  region_workers_count(&producer->workers, &instance->found.polling,
                       &instance->found.stuck);
}

static void conclude(struct region_instance *instance) {
  struct region_watch *watch = instance->watch;
  const struct region_found *found = &instance->found;
  if (!tell_change(instance) && instance->health == REGION_WELL)
    for (struct region_producer *producer = watch->producers; producer != NULL;
         producer = producer->next)
      if (producer->instance == instance &&
          producer->workers_read_in == watch->round)
        tell_workers(producer);
  tell_new_rows(instance);
  watch->regions += found->alive > 0;
  watch->silent += instance->health == REGION_STOPPED;
  watch->stale += instance->health == REGION_STALE;
  watch->stuck += found->stuck;
  instance->alive = found->alive;
  instance->found = (struct region_found){0};
}

void region_health_conclude(struct region_watch *watch) {
  for (struct region_producer *producer = watch->producers; producer != NULL;
       producer = producer->next)
    find(producer);
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    conclude(instance);
}
