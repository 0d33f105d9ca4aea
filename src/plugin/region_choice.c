/* How many rows of a sum are shown, and which rows the option Top shows. Tables
 * propose candidates; the choice is made by name, over all instances.
 *
 * A time-series store keeps every name that it has ever received, so the shown
 * names must not change in each interval if many rows have similar counts. A
 * shown row stays shown until it is removed, or until a candidate clearly
 * exceeds it for the second time within three scans. A free place goes to any
 * candidate. */
#include "region_instance.h"

#include "utils/common/common.h"

/* To replace a shown row, a candidate must have at least CLEARLY times the
 * weight of that row. */
#define CLEARLY 2

/* ---------------------------------------------------------------------------
 * Shares of MaxValues
 */

/* Room reserved for percore's own values, of which there are slightly fewer. */
#define VALUES_SELF 16
#define SPARE_ROWS 16
/* One sixteenth of the room is reserved for sums that appear during a round. */
#define FOR_NEW_SUMS 16

static uint64_t values_of_row(const struct region_sum *sum) {
  uint64_t values = 0;
  for (uint32_t f = 0; f < sum->shape.field_count; f++)
    if (sum->shape.fields[f].wanted)
      values += sum->shape.fields[f].kind == PERCORE_HISTOGRAM ? 4 : 1;
  return MAX(1, values);
}

/* True if the sum's number of rows is not known yet and no option limits it. */
static bool is_unknown(const struct region_sum *sum) {
  return sum->round_put == 0 && !sum->shape.single && sum->shape.top_field < 0;
}

/* False while the sum is being read: only some of its rows have been counted so
 * far, so the sum keeps its room from the previous round. */
static bool is_counted(const struct region_sum *sum) {
  return sum->round == sum->round_put || sum->round_put == 0;
}

/* Returns how many values the sum could use, including those of rows that may
 * be added before the next round. */
static uint64_t values_wanted(const struct region_sum *sum) {
  uint64_t rows = 2 * sum->room.live + SPARE_ROWS;
  if (sum->shape.single)
    rows = 1;
  else if (sum->shape.top_field >= 0)
    rows = sum->config->top;
  else if (is_unknown(sum))
    rows = UINT32_MAX;
  return (rows + !sum->shape.single) * values_of_row(sum);
}

/* Returns how many values the sum's rows and `other` use. Before the first
 * round has been put, returns how many values the sum wants, or 0 if its number
 * of rows is not known yet. */
static uint64_t values_used(const struct region_sum *sum) {
  if (is_unknown(sum))
    return 0;
  return sum->round_put == 0
             ? sum->room.wanted
             : (sum->rows.places + !sum->shape.single) * values_of_row(sum);
}

/* Gives the sum room for as many rows as fit into `share` values. Returns how
 * many values these rows take. */
static uint64_t give_room(struct region_sum *sum, uint64_t share) {
  sum->room.rows = share / values_of_row(sum);
  return sum->room.rows * values_of_row(sum);
}

/* Divides the room that known sums do not use among new sums. Known sums give
 * up room for new sums only in the next round. */
static void give_rest(struct region_watch *watch, uint64_t room) {
  struct region_sums *sums = &watch->sums;
  size_t new = 0;
  for (size_t i = 0; i < sums->len; i++) {
    room -= MIN(room, values_used(sums->list[i]));
    new += is_unknown(sums->list[i]);
  }
  for (size_t i = 0; i < sums->len; i++)
    if (is_unknown(sums->list[i]))
      give_room(sums->list[i], room / new);
}

/* Puts regions that want few values first and, within a region, tables that
 * want few values. */
static int compare_wanted(const void *a, const void *b) {
  const struct region_sum *x = *(struct region_sum *const *)a;
  const struct region_sum *y = *(struct region_sum *const *)b;
  if (x->region->wanted != y->region->wanted)
    return x->region->wanted > y->region->wanted ? 1 : -1;
  if (x->region != y->region)
    return x->region > y->region ? 1 : -1;
  return (x->room.wanted > y->room.wanted) - (x->room.wanted < y->room.wanted);
}

/* Counts the values that each region wants. Returns the number of regions. */
static size_t count_wanted(const struct region_sums *sums) {
  size_t regions = 0;
  for (size_t i = 0; i < sums->len; i++)
    sums->list[i]->region->sums = sums->list[i]->region->wanted = 0;
  for (size_t i = 0; i < sums->len; i++) {
    struct region_sum *sum = sums->list[i];
    if (is_counted(sum))
      sum->room.wanted = values_wanted(sum);
    regions += sum->region->sums++ == 0;
    sum->region->wanted += sum->room.wanted;
  }
  return regions;
}

void region_share_room(struct region_watch *watch) {
  struct region_sums *sums = &watch->sums;
  size_t taken = VALUES_SELF + watch->values_useful;
  uint64_t all = watch->outlet.room > taken ? watch->outlet.room - taken : 0;
  uint64_t room = all - all / FOR_NEW_SUMS, share = 0;
  sums->grew = false;
  if (sums->len == 0)
    return;
  size_t regions = count_wanted(sums);
  qsort(sums->list, sums->len, sizeof(*sums->list), compare_wanted);
  for (size_t i = 0; i < sums->len; i++) {
    struct region_sum *sum = sums->list[i];
    if (i == 0 || sum->region != sums->list[i - 1]->region) {
      share = MIN(sum->region->wanted, room / regions);
      regions--;
    }
    uint64_t used =
        give_room(sum, MIN(sum->room.wanted, share / sum->region->sums));
    sum->region->sums--;
    share -= used;
    room -= used;
  }
  give_rest(watch, all);
}

/* ---------------------------------------------------------------------------
 * Top
 */

/* A name that is shown or that is a candidate. */
struct contender {
  char name[REGION_ROW_NAME_SIZE];
  bool shown;
  enum {
    WAITS, /* a hidden row that keeps its place until its last counts are
              dispatched */
    KEEPS, /* a hidden row that still has its place and is a candidate again */
    COMPETES,
    IS_NEW /* a new candidate, which takes free places only */
  } rank;
  int64_t weight;   /* summed over all instances */
  int64_t strength; /* the weight, divided by CLEARLY unless the row is shown or
                       the weight is negative */
};

struct choice {
  struct region_sum *sum;
  struct contender *list;
  size_t len;
  size_t places, used; /* number of rows that may have places, and of rows that
                          have places */
};

static int compare_names(const void *a, const void *b) {
  const struct contender *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* Puts contenders that should be shown first. Among equals, rows that are
 * already shown come first. */
static int compare_rights(const void *a, const void *b) {
  const struct contender *x = a, *y = b;
  if (x->rank != y->rank)
    return x->rank > y->rank ? 1 : -1;
  if (x->strength != y->strength)
    return x->strength < y->strength ? 1 : -1;
  if (x->weight != y->weight)
    return x->weight < y->weight ? 1 : -1;
  return x->shown != y->shown ? y->shown - x->shown : compare_names(a, b);
}

/* Adds all rows that have places as contenders. Hides removed rows. */
static void add_rows(struct choice *choice) {
  struct region_sum *sum = choice->sum;
  for (size_t i = 0; i < sum->rows.len; i++) {
    struct region_sum_row *row = sum->rows.list[i];
    row->shown = row->shown && row->round == sum->round && !row->clashes;
    if (!row->shown && !region_sum_is_due(sum, row))
      continue;
    struct contender *next = &choice->list[choice->len++];
    *next = (struct contender){.shown = row->shown,
                               .rank = row->shown ? COMPETES : WAITS,
                               .weight = row->shown ? row->weight : 0};
    strcpy(next->name, row->name[0]);
  }
  choice->used = choice->len;
}

/* Adds the candidates of all instances as contenders, except rows whose names
 * clash, because these rows cannot be shown. */
static void add_candidates(struct choice *choice) {
  const struct region_instance_table *table = choice->sum->tables;
  for (; table != NULL; table = table->next_of_sum)
    for (size_t i = 0; i < table->candidates.len; i++) {
      const struct region_candidate *candidate = &table->candidates.list[i];
      struct contender *next = &choice->list[choice->len];
      /* a candidate competes if it was also a candidate in one of the last two
       * scans */
      uint32_t before = table->marks[candidate->row].candidate_in;
      bool again = before != 0 && before + 2 >= table->scans;
      *next = (struct contender){.weight = candidate->weight,
                                 .rank = again ? COMPETES : IS_NEW};
      if (!region_table_name(table, candidate->row, candidate->generation,
                             next->name))
        continue;
      const struct region_sum_row *row =
          region_sum_find(choice->sum, next->name);
      choice->len += row == NULL || !row->clashes;
    }
}

static void join_names(struct choice *choice) {
  struct contender *list = choice->list;
  size_t kept = 0;
  qsort(list, choice->len, sizeof(*list), compare_names);
  for (size_t i = 0; i < choice->len; i++) {
    struct contender *last = kept > 0 ? &list[kept - 1] : NULL;
    if (last == NULL || strcmp(last->name, list[i].name) != 0) {
      list[kept++] = list[i];
      continue;
    }
    last->weight = region_weights_add(last->weight, list[i].weight);
    last->rank = MIN(last->rank, list[i].rank);
    if (last->rank == WAITS)
      last->rank = KEEPS;
    last->shown |= list[i].shown;
  }
  choice->len = kept;
}

/* Sorts the contenders so that those that should be shown come first. */
static void rank(struct choice *choice) {
  for (size_t i = 0; i < choice->len; i++) {
    struct contender *contender = &choice->list[i];
    contender->strength = contender->shown || contender->weight < 0
                              ? contender->weight
                              : contender->weight / CLEARLY;
  }
  qsort(choice->list, choice->len, sizeof(*choice->list), compare_rights);
}

/* Hides the row. Its place becomes free when its last counts are dispatched. */
static void hide(struct choice *choice, const struct contender *contender) {
  struct region_sum_row *row = region_sum_find(choice->sum, contender->name);
  if (!contender->shown)
    return;
  row->shown = false;
  choice->used -= !region_sum_is_due(choice->sum, row);
}

/* Shows the row if there is a place. Its series continues from its former
 * count. */
static void show(struct choice *choice, const struct contender *contender) {
  struct region_sum *sum = choice->sum;
  if (contender->shown || contender->rank == WAITS ||
      (contender->rank != KEEPS && choice->used >= choice->places))
    return;
  struct region_sum_row *row = region_sum_name(sum, contender->name);
  if (row == NULL || row->clashes)
    return;
  choice->used += contender->rank != KEEPS;
  row->shown = true;
  row->round = sum->round;
  memset(row->first, 0,
         (size_t)row->copies * sum->shape.field_count * sizeof(*row->first));
  sum->names_shown++;
}

/* Tracks the candidates' objects for the rows that are shown now. Remembers the
 * other candidates, because they compete if they are candidates again soon. */
static void track(struct region_instance_table *table) {
  char name[REGION_ROW_NAME_SIZE];
  for (size_t i = 0; i < table->candidates.len; i++) {
    const struct region_candidate *candidate = &table->candidates.list[i];
    struct region_sum_row *row = NULL;
    if (region_table_name(table, candidate->row, candidate->generation, name))
      row = region_sum_find(table->sum, name);
    if (row != NULL && row->shown)
      region_table_show(table, candidate, row);
    else
      table->marks[candidate->row].candidate_in = table->scans;
  }
  table->candidates.len = 0;
}

static void choose(struct choice *choice) {
  add_rows(choice);
  add_candidates(choice);
  join_names(choice);
  choice->places = MIN(choice->sum->config->top, region_sum_room(choice->sum));
  rank(choice);
  size_t winners = MIN(choice->len, choice->places);
  for (size_t i = winners; i < choice->len; i++)
    hide(choice, &choice->list[i]);
  for (size_t i = 0; i < winners; i++)
    show(choice, &choice->list[i]);
}

void region_choose(struct region_sum *sum) {
  struct region_instance_table *table;
  size_t most = sum->rows.len + 1;
  if (sum->shape.top_field < 0)
    return;
  for (table = sum->tables; table != NULL; table = table->next_of_sum) {
    region_candidates_cut(&table->candidates);
    most += table->candidates.len;
  }
  struct choice choice = {.sum = sum,
                          .list = malloc(most * sizeof(*choice.list))};
  if (choice.list != NULL)
    choose(&choice);
  else
    sum->memory_short = true;
  free(choice.list);
  for (table = sum->tables; table != NULL; table = table->next_of_sum)
    track(table);
}
