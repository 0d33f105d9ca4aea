#include "overlay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static ssize_t read_file(void *context, const char *path, char *buffer,
                         size_t size) {
  struct overlay *overlay = context;
  for (const struct overlay_file *file = overlay->files; file->path != NULL;
       file++) {
    if (strcmp(file->path, path) != 0)
      continue;
    size_t length = file->text != NULL ? strlen(file->text) : 0;
    if (file->text == NULL)
      return -ENOENT;
    if (length >= size)
      return -EFBIG;
    memcpy(buffer, file->text, length + 1);
    return (ssize_t)length;
  }
  return overlay->below->read_file(overlay->below->context, path, buffer, size);
}

static uint64_t clock_ns(void *context, clockid_t clock) {
  const struct machine *below = ((struct overlay *)context)->below;
  return below->clock_ns(below->context, clock);
}

static bool is_fuse(void *context, const char *path) {
  const struct machine *below = ((struct overlay *)context)->below;
  return below->is_fuse(below->context, path);
}

static int list_directory(void *context, const char *path,
                          void (*each)(const char *name, void *argument),
                          void *argument) {
  const struct machine *below = ((struct overlay *)context)->below;
  return below->list_directory(below->context, path, each, argument);
}

static int perf_open(void *context, struct perf_event_attr *attr, int core,
                     int group) {
  const struct machine *below = ((struct overlay *)context)->below;
  return below->perf_open(below->context, attr, core, group);
}

static ssize_t perf_read(void *context, int fd, void *buffer, size_t size) {
  const struct machine *below = ((struct overlay *)context)->below;
  return below->perf_read(below->context, fd, buffer, size);
}

static void perf_close(void *context, int fd) {
  const struct machine *below = ((struct overlay *)context)->below;
  below->perf_close(below->context, fd);
}

static uint64_t identity(void *context, const char *path) {
  const struct machine *below = ((struct overlay *)context)->below;
  return below->identity(below->context, path);
}

static int open_no_clock(struct programs *programs, char why[WHY_SIZE]) {
  (void)programs;
  return why_fails(why, -ENOSYS, "this machine has no clock");
}

static int no_tracers(void) { return 0; }

void overlay_open(struct overlay *overlay, const struct overlay_file *files) {
  *overlay = (struct overlay){.files = files, .below = machine_linux("/")};
  static const struct clock_calls no_clock = {.open = open_no_clock,
                                              .tracers = no_tracers};
  if (overlay->below == NULL)
    abort();
  overlay->machine = (struct machine){
      .context = overlay,
      .clock_ns = clock_ns,
      .read_file = read_file,
      .is_fuse = is_fuse,
      .list_directory = list_directory,
      .perf_open = perf_open,
      .perf_read = perf_read,
      .perf_close = perf_close,
      .clocks = &no_clock,
      .identity = identity,
  };
}

void overlay_close(struct overlay *overlay) {
  machine_linux_close(overlay->below);
}
