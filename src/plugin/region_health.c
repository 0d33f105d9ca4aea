/* What is reported about an instance: why it is not read, and that it is gone,
 * back, silent or stale. Everything is reported once. */
#include "regions.h"

#include "put.h"

#include "base/clock.h"

#include "utils/common/common.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#define SILENT_NS UINT64_C(1000000000)

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

static const char *remedy_of(const struct region_instance *instance,
                             char text[REGION_REMEDY_SIZE]) {
  const struct region_fault *fault = region_reader_fault(instance->reader);
  if (fault->error == EACCES && fault->text[0] == '\0') /* connect(2) failed */
    return region_health_group_remedy(region_reader_path(instance->reader),
                                      text);
  return fault->error == EDQUOT ? "; raise MaxMemory" : "";
}

/* Logs once why the instance is not read. c_complain is not used because it is
 * for collectd's own threads. */
static void complain(struct region_instance *instance) {
  char remedy[REGION_REMEDY_SIZE];
  int error = region_reader_errno(instance->reader);
  if (error == 0 || error == ENOENT || error == ECONNREFUSED ||
      error == ECONNRESET || (error == ETIMEDOUT && !instance->silent))
    return; /* there is no producer, which tell_change() reports */
  if (instance->complaint == 0) {
    const char *why = error == ETIMEDOUT
                          ? "its producer listens but does not answer"
                          : region_reader_error(instance->reader);
    /* EBUSY: all regions of the user have one message */
    region_warn(error == EBUSY ? region_about_host(instance->watch)
                               : region_about(instance, why),
                "region %s is not read: %s%s", instance->label, why,
                remedy_of(instance, remedy));
    instance->complaint = error;
  }
}

static void no_longer_complain(struct region_instance *instance) {
  if (instance->complaint != 0 &&
      region_log_takes(region_about(instance, NULL)))
    INFO("percore: region %s is now read.", instance->label);
  instance->complaint = 0;
}

static void judge_silence(struct region_instance *instance, uint64_t now_ns) {
  bool stopped = region_instance_is_alive(instance) &&
                 region_reader_is_stopped(instance->reader);
  if (!region_instance_is_unanswered(instance) && !stopped) {
    instance->silent = false;
    instance->silent_since_ns = 0;
    return;
  }
  if (instance->silent_since_ns == 0)
    instance->silent_since_ns = now_ns;
  instance->silent = stopped || now_ns - instance->silent_since_ns >= SILENT_NS;
}

static enum region_health health_of(const struct region_instance *instance) {
  const struct region_workers *workers = &instance->workers;
  if (!region_instance_is_alive(instance))
    return instance->health == REGION_UNKNOWN ? REGION_UNKNOWN : REGION_DEAD;
  int polling = region_workers_polling(workers);
  if (instance->silent)
    return REGION_STOPPED;
  return polling > 0 && region_workers_stuck(workers) == polling ? REGION_STALE
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

static void tell(struct region_instance *instance, int severity,
                 const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Logs an event, and sends it as a notification. */
static void tell(struct region_instance *instance, int severity,
                 const char *format, ...) {
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

static void tell_workers(struct region_instance *instance) {
  static const struct {
    bool were;
    int severity;
    const char *text;
  } changes[] = {{false, NOTIF_WARNING, ""}, {true, NOTIF_OKAY, "no longer "}};
  struct core_set cores;
  char list[64];
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(changes); i++)
    if (region_workers_changed(&instance->workers, changes[i].were, &cores)) {
      core_set_format(&cores, list, sizeof(list));
      tell(instance, changes[i].severity,
           "Workers of region %s are %sstuck on %s%s.", instance->label,
           changes[i].text, list[0] != '\0' ? "cores " : "no core", list);
    }
}

/* Reports a change of the instance's health once. Workers that became stuck
 * together share one message. */
static void tell_change(struct region_instance *instance) {
  enum region_health before = instance->health, now = health_of(instance);
  const char *name = instance->label;
  instance->health = now;
  bool restarted = instance->restarted;
  instance->restarted = false;
  bool ended = region_reader_ended(instance->reader);
  if (now == REGION_DEAD && before != REGION_DEAD && ended)
    tell(instance, NOTIF_OKAY, "Region %s has ended: its producer closed it.",
         name);
  else if (now == REGION_DEAD && before != REGION_DEAD)
    tell(instance, NOTIF_FAILURE,
         "Region %s is gone: its producer died or did not close it.", name);
  else if (before == REGION_DEAD && now != REGION_DEAD)
    tell(instance, NOTIF_OKAY, "Region %s is back.", name);
  else if (restarted)
    tell(instance, ended ? NOTIF_OKAY : NOTIF_WARNING,
         "Region %s was gone and is back: its producer was restarted.", name);
  else if (now == REGION_STOPPED && before != REGION_STOPPED)
    tell(instance, NOTIF_WARNING,
         "Region %s is silent: its producer is stopped or does not answer.",
         name);
  else if (before == REGION_STOPPED && now != REGION_STOPPED)
    tell(instance, NOTIF_OKAY, "Region %s is no longer silent.", name);
  else if (now == REGION_STALE && before != REGION_STALE)
    tell(instance, NOTIF_WARNING,
         "Region %s is stale: all of its workers are stuck.", name);
  else if (now == REGION_WELL && before == REGION_STALE)
    tell(instance, NOTIF_OKAY, "Region %s is no longer stale.", name);
  else if (now == REGION_WELL)
    tell_workers(instance);
}

/* Logs what the producer refuses, and why. The name of a thread is any bytes.
 */
static void tell_refusals(const struct region_instance *instance) {
  struct region_refusals refusals;
  char text[512];
  region_reader_refusals(instance->reader, &refusals);
  for (char *c = refusals.name; *c != '\0'; c++)
    *c = isprint((unsigned char)*c) ? *c : '_';
  if (region_slots_refused(text, sizeof(text), &refusals))
    region_warn(region_about(instance, "slots"), "region %s: %s.",
                instance->label, text);
  if (region_rows_refused(text, sizeof(text), &refusals))
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

void region_health_conclude(struct region_instance *instance) {
  struct region_watch *watch = instance->watch;
  const struct region_moment *now = &watch->now;
  bool alive = region_instance_is_alive(instance);
  judge_silence(instance, now->monotonic_ns);
  if (alive) {
    if (instance->calm_since_ns == 0)
      instance->calm_since_ns = now->monotonic_ns;
    no_longer_complain(instance);
    tell_refusals(instance);
  } else
    complain(instance);
  if (alive || region_instance_is_unanswered(instance) ||
      (instance->complaint != 0 && instance->met))
    instance->served_ns = now->monotonic_ns;
  tell_change(instance);
  tell_new_rows(instance);
  watch->regions += alive;
  watch->silent += instance->silent;
  watch->stale += instance->health == REGION_STALE;
  watch->stuck += alive ? region_workers_stuck(&instance->workers) : 0;
}
