/* listing: the regions of the runtime directory, and whether they can be read.
 */
#ifndef PERCORE_LISTING_H
#define PERCORE_LISTING_H

#include "names.h"
#include "region/reader.h"

struct listed {
  const char *name; /* foreign bytes */
  struct region_reader *reader;
  const char *fault; /* why there is no reader */
};

struct listing {
  struct names names;
  struct listed *listed; /* [names.len] */
};

/* Finds the regions and waits half a second at most for their producers. 0 or
 * -errno of reading the directory; listing_free either way. */
int listing_read(struct listing *listing);
void listing_free(struct listing *listing);

/* What helps against an errno of listing_read. */
const char *listing_advice(int error);

/* "alive", "silent", "gone" or "refused". */
const char *listed_state(const struct listed *listed);

/* Why a region cannot be read. Returns the errno; 0 and "" if it can. */
#define LISTED_WHY_SIZE (REGION_FAULT_LINE + 128)
int listed_reason(char reason[LISTED_WHY_SIZE], const struct listed *listed);

/* What is wrong with a region or worth knowing, and what to do; "" if nothing
 * is. */
void listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed);

#endif
