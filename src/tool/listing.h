/* listing: the regions of the runtime directory, and whether they can be read.
 */
#ifndef PERCORE_LISTING_H
#define PERCORE_LISTING_H

#include "names.h"
#include "region/reader.h"

struct listed {
  const char *name; /* untrusted bytes */
  struct region_reader *reader;
  const char *fault; /* why there is no reader */
};

struct listing {
  struct names names;
  struct listed *listed; /* [names.len] */
};

/* Finds the regions, and waits for their producers at most half a second.
 * Returns 0, or the -errno of reading the directory. Call listing_free in
 * either case. */
int listing_read(struct listing *listing);
void listing_free(struct listing *listing);

/* Returns advice for an errno of listing_read. */
const char *listing_advice(int error);

/* Returns "alive", "silent", "gone" or "refused". */
const char *listed_state(const struct listed *listed);

/* Writes why a region cannot be read and returns the errno; "" and 0 if it can
 * be read. */
#define LISTED_WHY_SIZE (REGION_FAULT_LINE + 128)
int listed_reason(char reason[LISTED_WHY_SIZE], const struct listed *listed);

/* Writes a problem of a region, or a remark on it, and what to do about it; ""
 * if there is nothing to report. */
void listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed);

#endif
