#include "listing.h"

#include "target.h"
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
  WAIT_MS = 500, /* how long to wait for all producers together */
  ROUND_MS = 10
};

/* ---------------------------------------------------------------------------
 * Finding
 */

static const char *open_reader(struct listed *listed) {
  struct region_reader_options options = target_options(0);
  struct region_label label;
  if (!region_label_split(&label, listed->name, strlen(listed->name)))
    return "not a valid name of a region";
  return region_reader_open(&listed->reader, label.region,
                            region_label_instance(&label), &options) == 0
             ? NULL
             : strerror(errno);
}

/* Returns 0 or -errno. */
static int find(struct listing *listing) {
  int status = names_read(&listing->names);
  if (status != 0)
    return status;
  listing->listed = calloc(listing->names.len + 1, sizeof(*listing->listed));
  if (listing->listed == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < listing->names.len; i++) {
    listing->listed[i].name = names_at(&listing->names, i);
    listing->listed[i].fault = open_reader(&listing->listed[i]);
  }
  return 0;
}

/* Connects to all regions and waits for all of them together, so that several
 * unresponsive producers cost no more time than one. */
static void connect_all(struct listing *listing) {
  for (int round = 0;; round++) {
    bool waiting = false;
    for (size_t i = 0; i < listing->names.len; i++) {
      struct region_reader *reader = listing->listed[i].reader;
      if (reader == NULL ||
          (round > 0 && region_reader_presence(reader) != REGION_SILENT))
        continue;
      region_reader_refresh(reader);
      waiting |= region_reader_presence(reader) == REGION_SILENT;
    }
    /* The pause is measured from now, not from the start of the loop: if this
     * process was delayed, the producers may also have been delayed, and need
     * the whole pause. */
    if (!waiting || round == WAIT_MS / ROUND_MS ||
        !sleep_until_ns(monotonic_ns() + ROUND_MS * UINT64_C(1000000)))
      return;
  }
}

void listing_free(struct listing *listing) {
  for (size_t i = 0; listing->listed != NULL && i < listing->names.len; i++)
    region_reader_close(listing->listed[i].reader);
  free(listing->listed);
  names_free(&listing->names);
}

int listing_read(struct listing *listing) {
  *listing = (struct listing){0};
  int status = find(listing);
  if (status == 0)
    connect_all(listing);
  return status;
}

const char *listing_advice(int error) {
  switch (error) {
  case ENOENT:
    return "run 'systemd-sysusers' and 'systemd-tmpfiles --create', or without "
           "systemd: groupadd -f percore && install -d -m 3770 -g percore "
           "/run/percore; set PERCORE_RUNTIME_DIR to use another directory";
  case EACCES:
    return "run as root or as a member of the group percore";
  default:
    return "set PERCORE_RUNTIME_DIR to use another directory";
  }
}

/* ---------------------------------------------------------------------------
 * One region
 */

const char *listed_state(const struct listed *listed) {
  if (listed->reader == NULL)
    return "refused";
  switch (region_reader_presence(listed->reader)) {
  case REGION_ALIVE:
    return "alive";
  case REGION_SILENT:
    return "silent";
  case REGION_LEFT:
    return "gone";
  default:
    break;
  }
  int error = region_reader_errno(listed->reader);
  return error == ECONNREFUSED || error == ENOENT || error == ECONNRESET
             ? "gone"
         : error == EAGAIN ? "silent"
                           : "refused";
}

int listed_reason(char reason[LISTED_WHY_SIZE], const struct listed *listed) {
  struct region_reader *reader = listed->reader;
  reason[0] = '\0';
  if (reader == NULL) {
    snprintf(reason, LISTED_WHY_SIZE, "%s", listed->fault);
    return EINVAL;
  }
  if (region_reader_directory(reader) != NULL)
    return 0;
  const struct region_fault *fault = region_reader_fault(reader);
  region_fault_text(fault, reason);
  return fault->error;
}

void listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed) {
  int error = listed_reason(why, listed);
  size_t used = strlen(why);
  const char *advice = target_advice(error);
  if (error != 0 && advice[0] != '\0')
    snprintf(why + used, LISTED_WHY_SIZE - used, ": %s", advice);
  if (error != 0)
    return;
  struct region_refusals refusals;
  region_reader_refusals(listed->reader, &refusals);
  if (!region_slots_refused(why, LISTED_WHY_SIZE, &refusals))
    (void)region_rows_refused(why, LISTED_WHY_SIZE, &refusals);
}
