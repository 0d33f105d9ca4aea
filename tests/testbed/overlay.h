/* overlay: this computer, with some of its files replaced.
 *
 * A guest that has no msr PMU can so be given another event in its place, and
 * the engine then counts for real what it believes to be the TSC.
 */
#ifndef TESTBED_OVERLAY_H
#define TESTBED_OVERLAY_H

#include "cycles/machine.h"

struct overlay_file {
  const char *path;
  const char *text; /* NULL: not there */
};

struct overlay {
  struct machine machine;
  struct machine *below;
  const struct overlay_file *files; /* ended by a path of NULL */
};

void overlay_open(struct overlay *overlay, const struct overlay_file *files);
void overlay_close(struct overlay *overlay);

#endif
