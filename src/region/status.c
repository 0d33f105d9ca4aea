/* status.c: the state of a region, and the sinks that replace regions that
 * could not be created. */
#include "percore_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "writer.h"

#include "base/sized.h"

/* ---------------------------------------------------------------------------
 * Sinks
 */

static const struct {
  int error;
  const char *advice;
} advices[] = {
    {ENOENT, "create the directory; for /run/percore: systemd-sysusers; "
             "systemd-tmpfiles --create --prefix=/run/percore"},
    {EACCES, "give this user write access to the directory; percore(3), "
             "DEPLOYMENT"},
    {ENOSPC, "remove files from the file system of the directory, or make it "
             "larger"},
    {EDQUOT, "remove files from the file system of the directory, or make it "
             "larger"},
    {ENAMETOOLONG, "shorten the path of the runtime directory"},
    {ENOMEM, "raise the memory limit or the size of the directory's file "
             "system, or declare fewer rows or cores"},
    {ENOSYS, "percore needs Linux 5.14"},
    {EFBIG, "raise RLIMIT_FSIZE (LimitFSIZE= in systemd) to the region's "
            "size"},
};

static const char *advice_for(int error) {
  for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
    if (advices[i].error == error)
      return advices[i].advice;
  return "see percore(3), ERRORS";
}

static void say_why(char *reason, size_t size, const char *name,
                    const struct percore_options *options,
                    const struct region_fault *fault) {
  char why[REGION_FAULT_LINE];
  const char *instance = options->instance;
  if (name == NULL)
    name = "";
  if (fault->text[0] != '\0') {
    region_fault_text(fault, why);
    snprintf(reason, size, "region '%.60s' is refused: %.170s", name, why);
    return;
  }
  bool has_instance = instance != NULL && instance[0] != '\0';
  snprintf(reason, size,
           "region '%.50s%s%.30s' cannot be made in %.50s: %.40s; %.110s", name,
           has_instance ? "@" : "", has_instance ? instance : "",
           options->runtime_dir, strerror(fault->error),
           advice_for(fault->error));
}

/* A program that retries forever must neither exhaust memory nor repeat its
 * message. Beyond SINKS sinks, this reuses the oldest sink for the newest
 * reason. */
struct percore_region *region_make_sink(const char *name,
                                        const struct percore_options *options,
                                        const struct region_fault *fault) {
  enum { SINKS = 16 };
  static struct percore_region sinks[SINKS];
  static unsigned made;
  unsigned number = __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
  struct percore_region *sink = &sinks[number % SINKS];
  const struct percore_region *before = &sinks[(number - 1) % SINKS];
  *sink = region_sink;
  sink->no_seat.region = sink;
  sink->quiet = options->quiet != 0;
  sink->failure.error = fault->error;
  say_why(sink->failure.reason, sizeof(sink->failure.reason), name, options,
          fault);
  if (strcmp(sink->failure.reason, before->failure.reason) != 0)
    region_say(sink, "%s. Its counts are lost", sink->failure.reason);
  return sink;
}

/* ---------------------------------------------------------------------------
 * Status
 */

static uint64_t count_refused_adds(const struct percore_region *region) {
  uint64_t refused = 0;
  for (uint32_t t = 0; t < region->table_count; t++)
    refused += region_live(region, &region->tables[t])->adds_refused;
  return refused;
}

bool region_slots_refused(char *text, size_t size,
                          const struct region_refusals *refusals) {
  if (refusals->attaches == 0)
    return false;
  snprintf(text, size,
           "failed calls of percore_attach: %llu, so the counts of these "
           "threads are lost: set extra_slots to at least %llu",
           (unsigned long long)refusals->attaches,
           (unsigned long long)(refusals->extra_slots + refusals->attaches));
  return true;
}

bool region_rows_refused(char *text, size_t size,
                         const struct region_refusals *refusals) {
  if (refusals->adds_in_children > 0) {
    snprintf(text, size,
             "rows that were not added: %llu, because a child of fork(2) adds "
             "no rows: add them before the fork",
             (unsigned long long)refusals->adds_in_children);
    return true;
  }
  if (refusals->adds_postponed == 0)
    return false;
  snprintf(
      text, size,
      "rows that were not added: %llu, because thread %d '%s' has not called "
      "percore_poll, _quiescent or _sleep since rows were removed: call "
      "percore_sleep before it blocks",
      (unsigned long long)refusals->adds_postponed, refusals->tid,
      refusals->name);
  return true;
}

/* Describes what the region has refused. */
static void say_refusals(const struct percore_region *region, char *text,
                         size_t size) {
  const struct region_header *header = &region->header,
                             *shared = region->shared;
  uint64_t by = shared->postponed_by;
  struct region_refusals refusals = {
      .attaches = shared->attach_refused,
      .adds_postponed = shared->adds_postponed,
      .adds_in_children = shared->adds_in_children,
      .extra_slots = header->slot_count - header->core_count};
  if (by > 0 && by <= header->slot_count) {
    const struct region_slot *slot = &region->slots[by - 1];
    refusals.tid = slot->tid;
    memcpy(refusals.name, slot->name, sizeof(refusals.name));
  }
  if (region_slots_refused(text, size, &refusals) ||
      region_rows_refused(text, size, &refusals))
    return;
  for (uint32_t s = 0; s < header->slot_count; s++)
    if (!region_is_attached(region) && region_slot_is_lost(region, s)) {
      memcpy(refusals.name, region->slots[s].name, sizeof(refusals.name));
      snprintf(text, size,
               "counts of thread '%s' are lost: this child of fork(2) counts "
               "with what its parent attached: call percore_attach in the "
               "child",
               refusals.name);
      return;
    }
  text[0] = '\0';
  if (region->is_full)
    snprintf(text, size,
             "there is no memory for more rows or threads: the file system of "
             "the runtime directory is full; remove files from it, or make it "
             "larger");
  for (uint32_t t = 0; t < region->table_count && text[0] == '\0'; t++) {
    const struct region_table *table = &region->tables[t];
    uint64_t refused = region_live(region, table)->adds_refused;
    if (refused > 0)
      snprintf(text, size,
               "rows that were not added to table '%s': %llu, because it has "
               "room for %u, or memory is short: set a larger max_rows",
               region->strings + table->name, (unsigned long long)refused,
               table->max_rows - 1);
  }
}

static struct percore_region_status status_of(struct percore_region *region) {
  if (region == NULL || region->is_sink)
    return region != NULL ? region->failure : region_sink.failure;
  (void)region_lock(region);
  struct percore_region_status status = {
      .served = 1,
      .slots = region->header.slot_count,
      .slots_attached = region_attached_slots(region),
      .attaches_refused = region->shared->attach_refused,
      .adds_refused = count_refused_adds(region),
      .adds_postponed = region->shared->adds_postponed};
  say_refusals(region, status.reason, sizeof(status.reason));
  region_unlock(region);
  return status;
}

int percore_status_(struct percore_region *region,
                    struct percore_region_status *status, size_t size) {
  if (size > SIZED_MOST)
    return region_failed(EINVAL);
  struct percore_region_status known = status_of(region);
  memset(status, 0, size);
  memcpy(status, &known, size < sizeof(known) ? size : sizeof(known));
  return 0;
}
