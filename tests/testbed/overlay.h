/* overlay: this machine with some of its files replaced.
 *
 * In a guest without an msr PMU, the overlay presents another event as the TSC,
 * so that the engine counts a real event under that name.
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
