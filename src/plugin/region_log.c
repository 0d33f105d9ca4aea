#include "region_log.h"

#include "base/clock.h"

#include "utils/common/common.h"

static bool is_recent(const struct region_log *log, uint64_t then_ns) {
  return then_ns != 0 && log->now_ns - then_ns < HOUR_NS;
}

static uint64_t hash(uint64_t hash, const char *text) {
  for (; text != NULL && *text != '\0'; text++)
    hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
  return hash * UINT64_C(1099511628211);
}

/* Returns the line of a condition. For an unknown condition, returns an empty
 * line in place of the one that was not seen for the longest time. A line that
 * was logged within the last hour is kept, because it counts. */
static struct region_log_line *find(struct region_log *log, uint64_t key) {
  struct region_log_line *oldest = NULL;
  for (size_t i = 0; i < REGION_LOG_KNOWN; i++) {
    struct region_log_line *line = &log->known[i];
    if (key != 0 && line->key == key && is_recent(log, line->seen_ns))
      return line;
    if (!is_recent(log, line->said_ns) &&
        (oldest == NULL || line->seen_ns < oldest->seen_ns))
      oldest = line;
  }
  *oldest = (struct region_log_line){.key = key};
  return oldest;
}

static bool has_room(const struct region_log *log) {
  size_t lines = 0;
  for (size_t i = 0; i < REGION_LOG_KNOWN; i++)
    lines += is_recent(log, log->known[i].said_ns);
  return lines < REGION_LOG_LINES;
}

static bool takes(struct region_about about, uint64_t key) {
  struct region_log *log = about.log;
  struct region_log_line *line = find(log, key);
  bool room = line->said_ns == 0 && has_room(log);
  log->left_out += line->seen_ns == 0 && !room;
  line->seen_ns = log->now_ns;
  if (room)
    line->said_ns = log->now_ns;
  return room;
}

bool region_log_takes(struct region_about about) { return takes(about, 0); }

void region_warn(struct region_about about, const char *format, ...) {
  char text[1024];
  va_list arguments;
  uint64_t key = hash(hash((uintptr_t)format, about.region), about.part);
  if (!takes(about, key | 1))
    return;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  WARNING("percore: %s", text);
}

void region_log_begin(struct region_log *log, uint64_t now_ns) {
  log->now_ns = now_ns;
  if (log->left_out == 0 || is_recent(log, log->summed_up_ns))
    return;
  WARNING("percore: messages about regions that were left out: %" PRIu64
          ", because at most %d are logged in an hour.",
          log->left_out, REGION_LOG_LINES + 1);
  log->summed_up_ns = now_ns;
  log->left_out = 0;
}
