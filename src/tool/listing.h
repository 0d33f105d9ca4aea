/* listing: finds the regions in the runtime directory, and whether they can be
 * read. */
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

/* Finds the regions, and waits up to half a second for their producers to
 * answer. Returns 0, or -errno if the directory cannot be read. Call
 * listing_free in either case. */
int listing_read(struct listing *listing);
void listing_free(struct listing *listing);

/* Returns advice on what to do after listing_read has failed with `error`, a
 * positive errno. */
const char *listing_advice(int error);

/* Returns the state of a region: "alive", "silent" (the producer does not
 * answer), "gone" (the producer has ended), or "refused" (the region cannot be
 * read for another reason). */
const char *listed_state(const struct listed *listed);

/* Writes why a region cannot be read, and returns the errno of the failure,
 * which may be 0 if the producer does not answer. If the region can be read,
 * writes "" and returns 0. */
#define LISTED_WHY_SIZE (REGION_FAULT_LINE + 128)
int listed_reason(char reason[LISTED_WHY_SIZE], const struct listed *listed);

/* Writes what is wrong with a region and what to do about it. Writes "" if
 * nothing is wrong. */
void listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed);

#endif
