/* How many rows of a sum are shown, and which rows the option Top shows. Tables
 * propose candidates; the choice is made by name, over all instances.
 *
 * A store keeps every name it ever received, so the shown names must not change
 * in each interval if many rows count alike. A shown row stays until it is
 * removed, or until a candidate clearly exceeds it for the second time within
 * three scans. A free place goes to any candidate.
 */
#include "region_instance.h"

#include "utils/common/common.h"

/* A candidate must have more than this multiple of a shown row's weight. */
#define CLEARLY 2

/* ---------------------------------------------------------------------------
 * Shares of MaxValues
 */

/* Reserved for percore's own values, which are slightly fewer. */
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

/* True if the number of rows is not known yet and nothing else limits it. */
static bool is_unknown(const struct region_sum *sum) {
  return sum->round_put == 0 && !sum->shape.single && sum->shape.top_field < 0;
}

/* False while a round is being read: until its end it keeps the room of the
 * round before, because only some of its rows are counted. */
static bool is_counted(const struct region_sum *sum) {
  return sum->round == sum->round_put || sum->round_put == 0;
}

/* Includes rows that may be added before the next round. */
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

/* Values of rows that are shown, or may be shown immediately. */
static uint64_t values_used(const struct region_sum *sum) {
  if (is_unknown(sum))
    return 0;
  return sum->round_put == 0
             ? sum->room.wanted
             : (sum->rows.tracked + sum->rows.waiting + !sum->shape.single) *
                   values_of_row(sum);
}

/* Returns how many values of its share the sum can use. */
static uint64_t give_room(struct region_sum *sum, uint64_t share) {
  uint64_t rows = share / values_of_row(sum);
  sum->room.any = rows > 0;
  sum->room.rows = rows > 0 && !sum->shape.single ? rows - 1 : rows;
  return rows * values_of_row(sum);
}

/* Other sums give up room only in the next round, so a new sum gets what is
 * left until then. */
static void give_rest(struct region_watch *watch, uint64_t room) {
  struct region_sums *sums = &watch->sums;
  size_t new = 0;
  for (size_t i = 0; i < sums->len; i++) {
    room -= MIN(room, values_used(sums->list[i].sum));
    new += is_unknown(sums->list[i].sum);
  }
  for (size_t i = 0; i < sums->len; i++)
    if (is_unknown(sums->list[i].sum))
      give_room(sums->list[i].sum, room / new);
}

/* Shares room among the sums of the first region in the list, and subtracts
 * what they can use from *room. Returns the number of these sums. */
static size_t share_region(struct region_sum_entry *list, size_t len,
                           uint64_t share, uint64_t *room) {
  size_t tables = 1;
  while (tables < len && list[tables].allowance == list[0].allowance)
    tables++;
  for (size_t i = 0; i < tables; i++) {
    uint64_t used = give_room(
        list[i].sum, MIN(list[i].sum->room.wanted, share / (tables - i)));
    share -= used;
    *room -= used;
  }
  return tables;
}

/* Regions that want few values come first; within a region, tables that want
 * few values. */
static int compare_wanted(const void *a, const void *b) {
  const struct region_sum_entry *x = a, *y = b;
  if (x->allowance->wanted != y->allowance->wanted)
    return x->allowance->wanted > y->allowance->wanted ? 1 : -1;
  if (x->allowance != y->allowance)
    return x->allowance > y->allowance ? 1 : -1;
  return (x->sum->room.wanted > y->sum->room.wanted) -
         (x->sum->room.wanted < y->sum->room.wanted);
}

/* Counts the values that each region wants; returns the number of regions. */
static size_t count_wanted(struct region_sums *sums) {
  size_t regions = 0;
  for (size_t i = 0; i < sums->len; i++)
    sums->list[i].allowance->wanted = 0;
  for (size_t i = 0; i < sums->len; i++) {
    struct region_sum_entry *entry = &sums->list[i];
    if (is_counted(entry->sum))
      entry->sum->room.wanted = values_wanted(entry->sum);
    regions += entry->allowance->wanted == 0;
    entry->allowance->wanted += entry->sum->room.wanted;
  }
  return regions;
}

void region_share_room(struct region_watch *watch) {
  struct region_sums *sums = &watch->sums;
  size_t taken = VALUES_SELF + watch->values_useful;
  uint64_t all = watch->outlet.room > taken ? watch->outlet.room - taken : 0;
  uint64_t room = all - all / FOR_NEW_SUMS;
  sums->grew = false;
  if (sums->len == 0)
    return;
  size_t regions = count_wanted(sums);
  qsort(sums->list, sums->len, sizeof(*sums->list), compare_wanted);
  for (size_t i = 0; i < sums->len; regions--) {
    uint64_t share = MIN(sums->list[i].allowance->wanted, room / regions);
    i += share_region(&sums->list[i], sums->len - i, share, &room);
  }
  give_rest(watch, all);
}

/* ---------------------------------------------------------------------------
 * Rows that want to be shown
 */

struct contender {
  char name[REGION_ROW_NAME_SIZE];
  struct region_instance_table *table;
  const struct region_candidate *candidate;
  int64_t weight; /* of all contenders with this name */
  bool again;     /* any contender with this name was a candidate before */
};

struct choice {
  struct region_sum *sum;
  struct contender *contenders; /* those with the same name are adjacent */
  size_t contenders_len;
  struct region_sum_row **shown; /* may be replaced, lightest first */
  size_t shown_len, beaten;
  size_t used, places;
};

static int compare_names(const void *a, const void *b) {
  const struct contender *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* The heaviest first. */
static int compare_weights(const void *a, const void *b) {
  const struct contender *x = a, *y = b;
  return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1)
                                : compare_names(a, b);
}

/* The index after the last contender with the same name as the first. */
static size_t end_of_name(const struct choice *choice, size_t first) {
  const struct contender *list = choice->contenders;
  size_t end = first + 1;
  while (end < choice->contenders_len &&
         strcmp(list[end].name, list[first].name) == 0)
    end++;
  return end;
}

static void rank_names(struct choice *choice) {
  struct contender *list = choice->contenders;
  size_t len = choice->contenders_len;
  qsort(list, len, sizeof(*list), compare_names);
  for (size_t i = 0, end; i < len; i = end) {
    end = end_of_name(choice, i);
    for (size_t j = i + 1; j < end; j++) {
      list[i].weight = region_weights_add(list[i].weight, list[j].weight);
      list[i].again |= list[j].again;
    }
    for (size_t j = i + 1; j < end; j++) {
      list[j].weight = list[i].weight;
      list[j].again = list[i].again;
    }
  }
  qsort(list, len, sizeof(*list), compare_weights);
}

static bool find_contenders(struct choice *choice) {
  size_t most = 1;
  struct region_instance_table *table;
  for (table = choice->sum->tables; table != NULL; table = table->next_of_sum) {
    region_candidates_cut(&table->candidates);
    most += table->candidates.len;
  }
  struct contender *next = choice->contenders = malloc(most * sizeof(*next));
  if (next == NULL)
    return false;
  for (table = choice->sum->tables; table != NULL; table = table->next_of_sum)
    for (size_t i = 0; i < table->candidates.len; i++) {
      const struct region_candidate *candidate = &table->candidates.list[i];
      next->table = table;
      next->candidate = candidate;
      next->weight = candidate->weight;
      next->again = candidate->again;
      next += region_reader_row_name(table->instance->reader, table->number,
                                     candidate->row, candidate->generation,
                                     next->name);
    }
  choice->contenders_len = (size_t)(next - choice->contenders);
  rank_names(choice);
  return true;
}

/* ---------------------------------------------------------------------------
 * The choice
 */

static int compare_rows(const void *a, const void *b) {
  const struct region_sum_row *x = *(struct region_sum_row *const *)a;
  const struct region_sum_row *y = *(struct region_sum_row *const *)b;
  return (x->weight > y->weight) - (x->weight < y->weight);
}

/* The place becomes free when the row's last counts are dispatched. */
static void hide_lightest(struct choice *choice) {
  struct region_sum_row *lightest = choice->shown[choice->beaten++];
  lightest->top = false;
  region_sum_move_to_other(choice->sum, lightest);
  choice->used -= !region_sum_is_due(choice->sum, lightest);
}

/* Finds the shown rows. Removed rows give up their places. */
static bool find_shown(struct choice *choice) {
  struct region_sum *sum = choice->sum;
  choice->shown = malloc((sum->rows.len + 1) * sizeof(struct region_sum_row *));
  if (choice->shown == NULL)
    return false;
  for (size_t i = 0; i < sum->rows.len; i++) {
    struct region_sum_row *row = sum->rows.list[i];
    row->top = row->top && row->round == sum->round && !row->clashes;
    if (row->top)
      choice->shown[choice->shown_len++] = row;
    choice->used += row->top || region_sum_is_due(sum, row);
  }
  qsort(choice->shown, choice->shown_len, sizeof(struct region_sum_row *),
        compare_rows);
  choice->places = MIN(sum->config->top, sum->room.rows);
  while (choice->shown_len - choice->beaten > choice->places)
    hide_lightest(choice);
  return true;
}

/* Replaces the lightest shown row if the contender clearly exceeds it. */
static bool beat(struct choice *choice, const struct contender *contender) {
  if (!contender->again || choice->beaten == choice->shown_len)
    return false;
  const struct region_sum_row *lightest = choice->shown[choice->beaten];
  if (contender->weight <= lightest->weight ||
      contender->weight / CLEARLY < lightest->weight)
    return false;
  hide_lightest(choice);
  return choice->used < choice->places;
}

/* The series continues from the row's former count. */
static bool show(struct choice *choice, const struct contender *contender) {
  struct region_sum *sum = choice->sum;
  struct region_sum_row *row = region_sum_name(sum, contender->name);
  if (row == NULL || row->clashes || row->top)
    return row != NULL &&
           row->top; /* an object of another instance showed the row */
  choice->used += !region_sum_is_due(sum, row);
  row->top = true;
  row->round = row->used = sum->round;
  memset(row->first, 0,
         (size_t)row->copies * sum->shape.field_count * sizeof(*row->first));
  (void)region_sum_grow(sum, row);
  sum->names_shown++;
  return true;
}

/* Decides about the contenders with one name. */
static void decide(struct choice *choice, size_t first, size_t end) {
  const struct contender *list = choice->contenders;
  struct region_sum_row *row = region_sum_find(choice->sum, list[first].name);
  bool has_place =
      row != NULL && (row->top || region_sum_is_due(choice->sum, row));
  bool is_shown =
      has_place || choice->used < choice->places || beat(choice, &list[first]);
  is_shown = is_shown && show(choice, &list[first]);
  if (is_shown)
    row = region_sum_find(choice->sum, list[first].name);
  for (size_t i = first; i < end; i++)
    if (is_shown)
      region_table_show(list[i].table, list[i].candidate, row);
    else
      region_table_remember(list[i].table, list[i].candidate);
}

void region_choose(struct region_sum *sum) {
  struct choice choice = {.sum = sum};
  if (sum->shape.top_field < 0)
    return;
  if (find_contenders(&choice) && find_shown(&choice))
    for (size_t i = 0, end; i < choice.contenders_len; i = end) {
      end = end_of_name(&choice, i);
      decide(&choice, i, end);
    }
  else
    sum->memory_short = true;
  struct region_instance_table *table = sum->tables;
  for (; table != NULL; table = table->next_of_sum)
    region_table_hide(table);
  free(choice.contenders);
  free(choice.shown);
}
