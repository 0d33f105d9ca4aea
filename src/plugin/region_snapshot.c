#include "region_snapshot.h"

#include "base/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 65536
#define NAME_SIZE 256
#define GAUGE_MAX 1e18

/* A block of memory for names. */
struct region_text {
  struct region_text *next;
  size_t used;
  char bytes[TEXT_SIZE];
};

struct region_snapshot *region_snapshot_new(uint64_t number, uint64_t time_ns,
                                            size_t values_max) {
  struct region_snapshot *snapshot = calloc(1, sizeof(*snapshot));
  if (snapshot == NULL)
    return NULL;
  snapshot->number = number;
  snapshot->time_ns = time_ns;
  snapshot->values_max = values_max;
  return snapshot;
}

void region_snapshot_free(struct region_snapshot *snapshot) {
  if (snapshot == NULL)
    return;
  for (struct region_text *text = snapshot->texts; text != NULL;) {
    struct region_text *next = text->next;
    free(text);
    text = next;
  }
  for (int rank = 0; rank < REGION_RANKS; rank++)
    free(snapshot->values[rank].list);
  free(snapshot->events);
  free(snapshot);
}

const char *region_snapshot_text(struct region_snapshot *snapshot,
                                 const char *text) {
  size_t size = strlen(text) + 1;
  struct region_text *piece = snapshot->texts;
  if (piece == NULL || TEXT_SIZE - piece->used < size) {
    piece = size <= TEXT_SIZE ? malloc(sizeof(*piece)) : NULL;
    if (piece == NULL) {
      snapshot->memory_short = true;
      return "";
    }
    piece->used = 0;
    piece->next = snapshot->texts;
    snapshot->texts = piece;
  }
  char *copy = piece->bytes + piece->used;
  memcpy(copy, text, size);
  piece->used += size;
  return copy;
}

const char *region_snapshot_format(struct region_snapshot *snapshot,
                                   const char *format, ...) {
  char text[NAME_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return region_snapshot_text(snapshot, text);
}

static void cut(struct region_snapshot *snapshot, enum region_rank rank,
                const struct region_value *value) {
  snapshot->values[rank].cut++;
  if (value->series != NULL && value->series->snapshot == snapshot->number)
    value->series->snapshot = 0;
}

void region_snapshot_limit(struct region_snapshot *snapshot, size_t room) {
  for (int rank = 0; rank < REGION_RANKS; rank++) {
    struct region_values *values = &snapshot->values[rank];
    while (values->len > room)
      cut(snapshot, rank, &values->list[--values->len]);
    room -= values->len;
  }
}

void region_snapshot_put(struct region_snapshot *snapshot,
                         enum region_rank rank,
                         const struct region_value *value) {
  struct region_values *values = &snapshot->values[rank];
  if (value->type != REGION_DERIVE &&
      !(fabs(value->gauge) <= GAUGE_MAX)) /* also false for NAN */
    return;
  if (values->len >= snapshot->values_max) {
    cut(snapshot, rank, value);
    return;
  }
  if (value->type_instance[0] != '\0' &&
      array_reserve(&values->list, values->len, &values->capacity,
                    sizeof(*value)))
    values->list[values->len++] = *value;
  else
    snapshot->memory_short = true;
}

void region_snapshot_tell(struct region_snapshot *snapshot,
                          enum region_severity severity, const char *region,
                          const char *format, ...) {
  struct region_notice *events =
      realloc(snapshot->events, (snapshot->events_len + 1) * sizeof(*events));
  if (events == NULL) {
    snapshot->memory_short = true;
    return;
  }
  snapshot->events = events;
  struct region_notice *event = &events[snapshot->events_len++];
  event->severity = severity;
  snprintf(event->region, sizeof(event->region), "%s", region);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(event->text, sizeof(event->text), format, arguments);
  va_end(arguments);
}
