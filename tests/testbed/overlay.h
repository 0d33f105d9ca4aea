/* overlay: this machine with some of its files replaced.
 *
 * It gives a guest without an msr PMU another event in its place, so that the
 * engine really counts what it believes to be the TSC.
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
  const struct overlay_file *files; /* the last has a path of NULL */
};

void overlay_open(struct overlay *overlay, const struct overlay_file *files);
void overlay_close(struct overlay *overlay);

#endif
