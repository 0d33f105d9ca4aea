/* region_log: messages about regions. Producers cause them, so their number is
 * limited, whatever producers do. Not thread-safe. */
#ifndef PERCORE_PLUGIN_REGION_LOG_H
#define PERCORE_PLUGIN_REGION_LOG_H

#include "collectd.h"

#include "plugin.h"

/* How many messages are logged in an hour. */
#define REGION_LOG_LINES 99
/* How many conditions are remembered. A condition that persists is logged once:
 * it must not have been reported for an hour before it is logged again. */
#define REGION_LOG_KNOWN 256

struct region_log {
  uint64_t now_ns; /* CLOCK_MONOTONIC, set in each round */
  struct region_log_line {
    uint64_t key;              /* of format and names; 0: an event */
    uint64_t said_ns, seen_ns; /* last logged, last reported; 0: never */
  } known[REGION_LOG_KNOWN];
  uint64_t left_out, summed_up_ns;
};

/* What a message is about. Two messages with the same format and names are
 * about the same condition. */
struct region_about {
  struct region_log *log;
  const char *region, *part; /* part: a table; NULL: the whole region */
};

/* Logs a condition, unless it is known. */
void region_warn(struct region_about about, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns true if an event of which each occurrence matters may be reported. */
bool region_log_takes(struct region_about about);

/* Begins a round: logs, at most once in an hour, how many messages were left
 * out. */
void region_log_begin(struct region_log *log, uint64_t now_ns);

#endif
