/* How many rows of a sum are shown, and which rows the option Top shows. Each
 * instance has candidates; the choice is made by name, over all instances.
 *
 * A store keeps every name it ever got, so the shown names must not change in
 * each interval when many rows count alike: a row that is shown stays until it
 * is gone, or until another row beats it clearly for the second time within
 * three passes. For a free place, once is enough. */
#include "region_instance.h"

#include "utils/common/common.h"

/* The weight of a row that is shown is multiplied by this. */
#define CLEARLY 2

/* ---------------------------------------------------------------------------
 * Shares of MaxValues
 */

/* For percore's own values: a few more than there are. */
#define VALUES_SELF 16
#define SPARE_ROWS 16
/* The part of the room that is kept for sums that appear during a round. */
#define FOR_NEW_ONES 16

static uint64_t values_of_row(const struct region_sum *sum) {
  uint64_t values = 0;
  for (uint32_t f = 0; f < sum->field_count; f++)
    if (sum->fields[f].wanted)
      values += sum->fields[f].kind == PERCORE_HISTOGRAM ? 4 : 1;
  return MAX(1, values);
}

/* Its rows are not counted yet, and nothing else bounds their number. */
static bool is_unknown(const struct region_sum *sum) {
  return sum->round_put == 0 && !sum->single && sum->top_field < 0;
}

/* Rows may come before the next round. */
static uint64_t values_wanted(const struct region_sum *sum) {
  uint64_t rows = 2 * sum->live + SPARE_ROWS;
  if (sum->single)
    rows = 1;
  else if (sum->top_field >= 0)
    rows = sum->config->top;
  else if (is_unknown(sum))
    rows = UINT32_MAX;
  return (rows + !sum->single) * values_of_row(sum);
}

/* Values of the rows that are shown, or may be shown at once. */
static uint64_t values_used(const struct region_sum *sum) {
  if (is_unknown(sum))
    return 0;
  return sum->round_put == 0
             ? sum->wanted
             : (sum->rows_followed + sum->rows_waiting + !sum->single) *
                   values_of_row(sum);
}

/* Returns how much of its share the sum can use. */
static uint64_t give_room(struct region_sum *sum, uint64_t share) {
  uint64_t rows = share / values_of_row(sum);
  sum->has_room = rows > 0;
  sum->rows_max = rows > 0 && !sum->single ? rows - 1 : rows;
  return rows * values_of_row(sum);
}

/* Other sums shrink in the next round, so for now a new sum gets what is left.
 */
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

/* Shares among the sums of one region, which come one after another, and takes
 * what they can use off the room. Returns how many sums there are. */
static size_t share_region(struct region_sum_entry *list, size_t len,
                           uint64_t share, uint64_t *room) {
  size_t tables = 1;
  while (tables < len && list[tables].allowance == list[0].allowance)
    tables++;
  for (size_t i = 0; i < tables; i++) {
    uint64_t used =
        give_room(list[i].sum, MIN(list[i].sum->wanted, share / (tables - i)));
    share -= used;
    *room -= used;
  }
  return tables;
}

/* Regions that want few values come first, and so do their tables. */
static int compare_wanted(const void *a, const void *b) {
  const struct region_sum_entry *x = a, *y = b;
  if (x->allowance->wanted != y->allowance->wanted)
    return x->allowance->wanted > y->allowance->wanted ? 1 : -1;
  if (x->allowance != y->allowance)
    return x->allowance > y->allowance ? 1 : -1;
  return (x->sum->wanted > y->sum->wanted) - (x->sum->wanted < y->sum->wanted);
}

/* Counts what each region wants; returns how many regions there are. */
static size_t count_wanted(struct region_sums *sums) {
  size_t regions = 0;
  for (size_t i = 0; i < sums->len; i++)
    sums->list[i].allowance->wanted = 0;
  for (size_t i = 0; i < sums->len; i++) {
    struct region_sum_entry *entry = &sums->list[i];
    entry->sum->wanted = values_wanted(entry->sum);
    regions += entry->allowance->wanted == 0;
    entry->allowance->wanted += entry->sum->wanted;
  }
  return regions;
}

void region_share_room(struct region_watch *watch) {
  struct region_sums *sums = &watch->sums;
  size_t taken = VALUES_SELF + watch->values_useful;
  uint64_t all = watch->outlet.room > taken ? watch->outlet.room - taken : 0;
  uint64_t room = all - all / FOR_NEW_ONES;
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

struct candidate {
  char name[REGION_ROW_NAME_SIZE];
  struct region_instance *instance;
  const struct region_challenger *challenger;
  uint32_t table;
  /* of all candidates of that name, in the first of them */
  int64_t weight;
  bool again;
};

struct candidates {
  struct candidate *list;
  size_t len;
};

static void add_challengers(struct candidates *candidates,
                            struct region_instance *instance, uint32_t t) {
  const struct region_top *top = &instance->tables[t].challengers;
  for (size_t i = 0; i < top->len; i++) {
    const struct region_challenger *challenger = &top->heap[i];
    struct candidate *candidate = &candidates->list[candidates->len];
    *candidate = (struct candidate){.instance = instance,
                                    .challenger = challenger,
                                    .table = t,
                                    .weight = challenger->weight,
                                    .again = challenger->again};
    candidates->len +=
        region_reader_row_name(instance->reader, t, challenger->row,
                               challenger->generation, candidate->name);
  }
}

static int compare_names(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order != 0 ? order : (x->weight < y->weight) - (x->weight > y->weight);
}

/* Candidates of one name come one after another; the first has their weight. */
static void join_names(struct candidates *candidates) {
  struct candidate *first = candidates->list;
  if (candidates->len == 0)
    return;
  qsort(candidates->list, candidates->len, sizeof(*first), compare_names);
  for (size_t i = 1; i < candidates->len; i++) {
    struct candidate *candidate = &candidates->list[i];
    if (strcmp(candidate->name, first->name) != 0) {
      first = candidate;
      continue;
    }
    first->weight = region_weights_add(first->weight, candidate->weight);
    first->again |= candidate->again;
  }
}

/* Candidates of all tables that are added to the sum. */
static bool find_candidates(struct region_watch *watch,
                            const struct region_sum *sum,
                            struct candidates *candidates) {
  size_t most = 0;
  for (int pass = 0; pass < 2; pass++) {
    if (pass > 0 && most > 0 &&
        (candidates->list = malloc(most * sizeof(*candidates->list))) == NULL)
      return false;
    for (struct region_instance *instance = watch->instances; instance != NULL;
         instance = instance->next)
      for (uint32_t t = 0; t < instance->table_count; t++) {
        if (instance->tables[t].sum != sum)
          continue;
        if (pass == 0)
          most += instance->tables[t].challengers.len;
        else
          add_challengers(candidates, instance, t);
      }
  }
  join_names(candidates);
  return true;
}

/* ---------------------------------------------------------------------------
 * The choice
 */

struct choice {
  struct region_sum *sum;
  struct candidates candidates;
  size_t *order; /* first of each name, the heaviest first */
  size_t names;
  struct region_sum_row **shown; /* that may be beaten, the lightest first */
  size_t shown_len, beaten;
  size_t used, places;
};

static bool is_first(const struct choice *choice, size_t i) {
  const struct candidate *list = choice->candidates.list;
  return i == 0 || strcmp(list[i].name, list[i - 1].name) != 0;
}

static int compare_weights(const void *a, const void *b, void *list) {
  const struct candidate *x = (struct candidate *)list + *(const size_t *)a;
  const struct candidate *y = (struct candidate *)list + *(const size_t *)b;
  return (x->weight < y->weight) - (x->weight > y->weight);
}

static int compare_rows(const void *a, const void *b) {
  const struct region_sum_row *x = *(struct region_sum_row *const *)a;
  const struct region_sum_row *y = *(struct region_sum_row *const *)b;
  return (x->weight > y->weight) - (x->weight < y->weight);
}

/* Its place is free once its last counts are dispatched. */
static void hide_lightest(struct choice *choice) {
  struct region_sum_row *lightest = choice->shown[choice->beaten++];
  lightest->top = false;
  region_sum_move_to_other(choice->sum, lightest);
  choice->used -= !region_sum_is_due(choice->sum, lightest);
}

/* Rows that are gone free their places. */
static bool find_shown(struct choice *choice) {
  struct region_sum *sum = choice->sum;
  choice->shown = malloc((sum->rows_len + 1) * sizeof(struct region_sum_row *));
  if (choice->shown == NULL)
    return false;
  for (size_t i = 0; i < sum->rows_len; i++) {
    struct region_sum_row *row = sum->rows[i];
    row->top = row->top && row->round == sum->round && !row->clashes;
    if (row->top)
      choice->shown[choice->shown_len++] = row;
    choice->used += row->top || region_sum_is_due(sum, row);
  }
  qsort(choice->shown, choice->shown_len, sizeof(struct region_sum_row *),
        compare_rows);
  choice->places = MIN(sum->config->top, sum->rows_max);
  while (choice->shown_len - choice->beaten > choice->places)
    hide_lightest(choice);
  return true;
}

static bool rank_names(struct choice *choice) {
  const struct candidates *candidates = &choice->candidates;
  choice->order = malloc((candidates->len + 1) * sizeof(*choice->order));
  if (choice->order == NULL)
    return false;
  for (size_t i = 0; i < candidates->len; i++)
    if (is_first(choice, i))
      choice->order[choice->names++] = i;
  qsort_r(choice->order, choice->names, sizeof(*choice->order), compare_weights,
          candidates->list);
  return true;
}

/* The lightest of the rows that are shown gives up its place. */
static bool beat(struct choice *choice, const struct candidate *candidate) {
  if (!candidate->again || choice->beaten == choice->shown_len)
    return false;
  const struct region_sum_row *lightest = choice->shown[choice->beaten];
  if (candidate->weight <= lightest->weight ||
      candidate->weight / CLEARLY < lightest->weight)
    return false;
  hide_lightest(choice);
  return choice->used < choice->places;
}

/* Its series goes on from its count when it was last shown. */
static bool show(struct choice *choice, const struct candidate *candidate) {
  struct region_sum *sum = choice->sum;
  struct region_sum_row *row = region_sum_name(sum, candidate->name);
  if (row == NULL || row->clashes || row->top)
    return row != NULL && row->top; /* by another instance */
  choice->used += !region_sum_is_due(sum, row);
  row->top = true;
  row->round = row->used = sum->round;
  memset(row->first, 0,
         (size_t)row->copies * sum->field_count * sizeof(*row->first));
  (void)region_sum_grow(sum, row);
  sum->names_shown++;
  return true;
}

static void decide(struct choice *choice, size_t i) {
  const struct candidates *candidates = &choice->candidates;
  const struct candidate *first = &candidates->list[i];
  struct region_sum_row *row = region_sum_find(choice->sum, first->name);
  bool has_place =
      row != NULL && (row->top || region_sum_is_due(choice->sum, row));
  bool is_shown =
      has_place || choice->used < choice->places || beat(choice, first);
  is_shown = is_shown && show(choice, first);
  do {
    const struct candidate *candidate = &candidates->list[i];
    struct region_instance_table *table =
        &candidate->instance->tables[candidate->table];
    if (is_shown)
      region_table_show(candidate->instance, candidate->table,
                        candidate->challenger,
                        region_sum_find(choice->sum, candidate->name));
    else
      region_table_remember(table, candidate->challenger);
  } while (++i < candidates->len && !is_first(choice, i));
}

static void hide_others(struct region_watch *watch,
                        const struct region_sum *sum) {
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    for (uint32_t t = 0; t < instance->table_count; t++)
      if (instance->tables[t].sum == sum)
        region_table_hide(&instance->tables[t]);
}

void region_choose(struct region_watch *watch, struct region_sum *sum) {
  struct choice choice = {.sum = sum};
  if (sum->top_field < 0)
    return;
  if (find_candidates(watch, sum, &choice.candidates) && find_shown(&choice) &&
      rank_names(&choice))
    for (size_t n = 0; n < choice.names; n++)
      decide(&choice, choice.order[n]);
  else
    sum->memory_short = true;
  hide_others(watch, sum);
  free(choice.candidates.list);
  free(choice.order);
  free(choice.shown);
}
