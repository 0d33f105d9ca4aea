/* status.c: the state of a region, and why a region is a sink. */
#include "percore_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "writer.h"

/* ---------------------------------------------------------------------------
 * Sinks
 */

static const struct {
  int error;
  const char *advice;
} advices[] = {
    {ENOENT, "the runtime directory is missing; percore(3), DEPLOYMENT"},
    {EACCES,
     "this user may not create files in the runtime directory; percore(3), "
     "DEPLOYMENT"},
    {EPERM, "another user's socket or lock file of that name is in the way; "
            "percore(3), DEPLOYMENT"},
    {EADDRINUSE, "another process serves this name; give each an instance"},
    {EINVAL, "a name, a table or an option is not allowed; percore.h has the "
             "rules"},
    {ENAMETOOLONG,
     "the names of region, table and field together are too long, "
     "or the path of the socket is"},
    {ENOMEM, "it does not fit into the memory limit or the free memory"},
    {EFBIG, "it is larger than RLIMIT_FSIZE allows"},
};

static const char *advice_for(int error) {
  for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
    if (advices[i].error == error)
      return advices[i].advice;
  return "percore(3), DEPLOYMENT";
}

/* A program that retries forever must neither use up memory nor repeat its
 * message: beyond this number of sinks, the oldest sink is used again and gets
 * the newest reason.
 */
struct percore_region *region_make_sink(const char *name,
                                        const struct percore_options *options) {
  enum { SINKS = 16 };
  static struct percore_region sinks[SINKS];
  static unsigned made;
  int error = errno;
  unsigned number = __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
  struct percore_region *sink = &sinks[number % SINKS];
  const struct percore_region *before = &sinks[(number - 1) % SINKS];
  const char *dir = options->runtime_dir;
  *sink = region_sink;
  sink->failure.error = error;
  snprintf(sink->failure.reason, sizeof(sink->failure.reason),
           "region '%.60s' is not served in %.60s: %s (%s)",
           name != NULL ? name : "", dir != NULL ? dir : region_runtime_dir(),
           strerror(error), advice_for(error));
  if (!options->quiet &&
      strcmp(sink->failure.reason, before->failure.reason) != 0)
    fprintf(stderr, "percore: %s. What it counts is lost\n",
            sink->failure.reason);
  errno = error;
  return sink;
}

/* ---------------------------------------------------------------------------
 * Status
 */

static void count_slots(const struct percore_region *region,
                        struct percore_region_status *status) {
  status->slots = region->header->slot_count;
  for (uint32_t s = 0; s < status->slots; s++)
    status->slots_attached +=
        region->slots[s].tid != 0 && !region_owner_is_dead(&region->slots[s]);
}

static uint64_t count_refused_adds(const struct percore_region *region) {
  uint64_t refused = 0;
  for (uint32_t t = 0; t < region->table_count; t++)
    refused += region_live(region, &region->tables[t])->adds_refused;
  return refused;
}

static struct percore_region_status status_of(struct percore_region *region) {
  if (region->is_sink)
    return region->failure;
  if (!region_lock(region))
    return (struct percore_region_status){
        .error = ENODEV,
        .reason = "this process was forked from the region's; make a region of "
                  "its own"};
  struct percore_region_status status = {
      .served = 1,
      .readers = region_server_readers(region),
      .attaches_refused = region->header->attach_refused,
      .adds_refused = count_refused_adds(region)};
  count_slots(region, &status);
  region_unlock(region);
  return status;
}

int percore_status(struct percore_region *region,
                   struct percore_region_status *status) {
  size_t size = status->size;
  if (size < sizeof(size) || size > sizeof(*status)) {
    errno = EINVAL;
    return -1;
  }
  struct percore_region_status known = status_of(region);
  known.size = size;
  memcpy(status, &known, size);
  return 0;
}
