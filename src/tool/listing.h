/* listing: the regions of the runtime directory, and whether they can be read.
 */
#ifndef PERCORE_LISTING_H
#define PERCORE_LISTING_H

#include "names.h"
#include "region/reader.h"

struct listed {
  const char *name; /* untrusted bytes */
  struct region_reader *reader;
  const char *fault; /* why reader is NULL */
};

struct listing {
  struct names names;
  struct listed *listed; /* [names.len] */
};

/* Finds the regions, and waits up to half a second for their producers. Returns
 * 0, or -errno if the directory cannot be read. Call listing_free in either
 * case. */
int listing_read(struct listing *listing);
void listing_free(struct listing *listing);

/* Returns what to do if listing_read failed. `error` is a positive errno. */
const char *listing_advice(int error);

/* Returns "alive", "silent" (the producer does not answer), "gone" or
 * "refused". */
const char *listed_state(const struct listed *listed);

/* Writes why a region cannot be read, and returns an errno, which may be 0 if
 * the producer does not answer. Writes "" and returns 0 if the region can be
 * read. */
#define LISTED_WHY_SIZE (REGION_FAULT_LINE + 128)
int listed_reason(char reason[LISTED_WHY_SIZE], const struct listed *listed);

/* Writes what is wrong with a region and what to do about it. Writes "" if
 * nothing is wrong. */
void listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed);

#endif
