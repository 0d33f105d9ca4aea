/* region_read: one table of one instance in a round: which of its rows are
 * named, and what each brings to the sum. Private to region_watch. */
#ifndef PERCORE_PLUGIN_REGION_READ_H
#define PERCORE_PLUGIN_REGION_READ_H

#include "region_instance.h"

/* Whether a table is read in pieces, or would be if that took long. */
bool region_read_is_large(const struct region_instance *instance, uint32_t t);

/* Reads rows into the table's sum. Where that takes longer than until_ns (of
 * the watch's clock; UINT64_MAX: for ever) the next call goes on, and the sum
 * is put when the last row is read. What there is no memory for is told.
 * `ended`: for the last time. */
void region_read_table(struct region_watch *watch,
                       struct region_instance *instance, uint32_t t,
                       uint64_t until_ns, bool ended);

/* Does not go on. */
void region_read_stop(struct region_instance_table *table);

/* Lets go of the rows of the sum that were not shown in that round or later. */
void region_read_forget(struct region_instance_table *table, uint64_t round);

/* Lets go of all that is known of the rows. */
void region_read_leave(struct region_instance_table *table);

#endif
