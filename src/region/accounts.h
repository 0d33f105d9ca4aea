/* accounts.h: values that only grow, per name of a row.
 *
 * What a region holds starts again when a row is removed and added, or when the
 * producer is restarted. An account goes on: while a row is the same object it
 * follows its cells, and when a row of this name is a new object it goes on
 * from where it was, by what the new one has counted so far. A reset does not
 * touch it. So a rate made of two readings has neither a gap nor a spike.
 */
#ifndef PERCORE_REGION_ACCOUNTS_H
#define PERCORE_REGION_ACCOUNTS_H

#include "reader.h"

/* One row's values. Counters and histograms: the account. Gauges: since the row
 * was added. Levels and states: as they stand. */
struct region_account {
  const char *name;       /* foreign bytes */
  const uint64_t *totals; /* [column] */
  const uint64_t *cores;  /* [core][column]; NULL if not wanted. Counts of the
                             shared block are in totals only. */
  uint32_t core_count;
  uint64_t round; /* of the last region_accounts_take */
};

/* The accounts of one table, over all producers of one region and instance. */
struct region_accounts;

/* want: REGION_WANT_CORES or 0. NULL with ENOMEM. */
struct region_accounts *region_accounts_new(uint32_t want);
void region_accounts_free(struct region_accounts *accounts);

/* Takes over the values of a tile of this table, which was read with
 * REGION_WANT_BIRTHS and what is wanted. found[i] becomes the account of row
 * first_row + i, or NULL where there is none to show: no row, or one that was
 * shown as removed before. Pointers live until the account is dropped. Returns
 * 0, or -1 with ENOMEM (rows without memory have none). */
int region_accounts_take(struct region_accounts *accounts,
                         struct region_reader *reader,
                         const struct region_tile *tile, uint64_t round,
                         const struct region_account **found);

/* Forgets names that were in no tile of this round or later. Call it rarely: a
 * name that comes back later starts a new account. */
void region_accounts_forget(struct region_accounts *accounts, uint64_t round);

/* Cells of counters that went back within one object, which an honest producer
 * does not do. The account stays where it was. */
uint64_t region_accounts_steps_back(const struct region_accounts *accounts);

#endif
