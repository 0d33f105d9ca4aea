/* region_reading: what is at hand while a table of an instance is read. Private
 * to region_read.c and, of it, region_parts.c (rows that have a name) and
 * region_candidates.c (rows that Top may show). */
#ifndef PERCORE_PLUGIN_REGION_READING_H
#define PERCORE_PLUGIN_REGION_READING_H

#include "region_read.h"
#include "region_top.h"

/* What region_growth keeps for us of each object. */
enum region_tag { TAG_UNKNOWN, TAG_UNWANTED, TAG_WANTED, TAG_PARTS };

/* A row that is shown unless it is beaten by another before the table ends. */
struct region_candidate {
  uint32_t row;
  uint64_t generation;
};

/* What is at hand while a table is read. */
struct region_reading {
  struct region_watch *watch;
  struct region_instance *instance;
  struct region_instance_table *table;
  uint32_t number; /* of the table */
  struct region_sum *sum;
  struct region_tile tile; /* while rows are read */
  uint32_t next_row;
  bool count;            /* what is met first has counted since its birth */
  bool chooses_rows;     /* by the option Row */
  bool looks_names_up;   /* other instances may have named rows of this one */
  uint64_t names, named; /* that the sum had at first; given since from here */
  uint64_t unfollowed, left_out; /* rows in `other` or nowhere, for memory */
  uint64_t *standing;            /* [standing]: of the row in work */
  uint64_t *counted;             /* [growing]: of one of its cores */
  struct region_top top;         /* items are candidates, or REGION_TOP_NONE */
  struct region_candidate *candidates;
  uint64_t *cells; /* [candidate][growing, standing] */
  uint32_t *unused;
  size_t unused_len, top_bytes;
};

/* Names an object of this instance; known: its row of the sum, NULL: to be
 * found. NULL if it is another one by now, or there is no memory for it. */
struct region_part *region_part_make(struct region_reading *reading,
                                     uint32_t row, uint64_t generation,
                                     struct region_sum_row *known);
void region_part_free(struct region_instance_table *table, uint32_t part);

/* Adds what the row at place i of the tile counted to its row of the sum. */
void region_part_add(struct region_reading *reading, struct region_part *part,
                     uint32_t i, const struct region_growth_look *look);

/* Levels and states as they are, gauges since their birth. */
void region_part_take_standing(const struct region_reading *reading,
                               const uint64_t *cells, const uint64_t *bases);

/* False without memory. */
bool region_candidates_make(struct region_reading *reading);
void region_candidates_free(struct region_reading *reading);

/* A row that is named already only takes a place. */
void region_candidates_offer_part(struct region_reading *reading,
                                  const struct region_part *part, uint32_t i,
                                  const struct region_growth_look *look);

/* What it counted belongs to the rest as soon as it is beaten. */
void region_candidates_offer_row(struct region_reading *reading, uint32_t i,
                                 const struct region_growth_look *look);

/* Names those who were not beaten, and adds what they counted. */
void region_candidates_name(struct region_reading *reading);

#endif
