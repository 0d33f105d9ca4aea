/* overlay: this machine with some of its files replaced.
 *
 * In a guest without an msr PMU it provides another event instead, so that the
 * engine really counts an event that it takes for the TSC.
 */
#ifndef TESTBED_OVERLAY_H
#define TESTBED_OVERLAY_H

#include "cycles/machine.h"

struct overlay_file {
  const char *path;
  const char *text; /* NULL: the file does not exist */
};

struct overlay {
  struct machine machine;
  struct machine *below;
  const struct overlay_file *files; /* the last element has the path NULL */
};

void overlay_open(struct overlay *overlay, const struct overlay_file *files);
void overlay_close(struct overlay *overlay);

#endif
