/* Which rows the option Top shows. Inputs propose candidates; the choice is
 * made by name, over all inputs.
 *
 * A time-series store keeps every name that it has ever received, so the shown
 * names must not change in each interval if many rows have similar counts. A
 * shown row stays shown until it is removed, or until a candidate clearly
 * exceeds it for the second time within three scans. A free place goes to any
 * candidate. */

#include "regions.h"

#include "utils/common/common.h"

/* To replace a shown row, a candidate must have at least CLEARLY times the
 * weight of that row. */
#define CLEARLY 2

static int64_t strength_of(const struct region_sum_row *row) {
  return row->shown || row->weight < 0 ? row->weight : row->weight / CLEARLY;
}

/* Sorts the rows that should be shown to the front. Among equals, those that
 * are already shown come first. */
static int compare_rights(const void *a, const void *b) {
  const struct region_sum_row *x = *(struct region_sum_row *const *)a;
  const struct region_sum_row *y = *(struct region_sum_row *const *)b;
  bool x_waits = !x->shown && !x->again, y_waits = !y->shown && !y->again;
  if (x_waits != y_waits)
    return x_waits - y_waits;
  if (strength_of(x) != strength_of(y))
    return strength_of(x) < strength_of(y) ? 1 : -1;
  if (x->weight != y->weight)
    return x->weight < y->weight ? 1 : -1;
  return x->shown != y->shown ? y->shown - x->shown : strcmp(x->name, y->name);
}

/* ---------------------------------------------------------------------------
 * Candidates of an input
 */

static int by_weight(const void *a, const void *b) {
  const struct region_candidate *x = a, *y = b;
  return x->weight != y->weight
             ? (x->weight < y->weight ? 1 : -1)
             : (x->number > y->number) - (x->number < y->number);
}

void region_candidates_cut(struct region_input *input) {
  struct region_candidate *list = input->candidates;
  size_t most = input->candidates_most;
  if (input->candidates_len > 0)
    qsort(list, input->candidates_len, sizeof(*list), by_weight);
  if (input->candidates_len >= most && most > 0)
    input->least = list[most - 1].weight;
  input->candidates_len = MIN(input->candidates_len, most);
}

/* ---------------------------------------------------------------------------
 * The choice
 */

/* Finds the row of a candidate, and adds the candidate's weight to it. */
static void propose(struct region_input *input,
                    struct region_candidate *candidate) {
  char name[REGION_ROW_NAME_SIZE];
  uint64_t generation = (uint64_t)candidate->incarnation << 32;
  if (!region_reader_row_name(input->producer->reader, input->number,
                              candidate->number, generation, name))
    return;
  candidate->row = region_sum_find(input->sum, name, true);
  if (candidate->row == NULL)
    return;
  candidate->row->contends = true;
  candidate->row->again = candidate->row->contended != 0 &&
                          candidate->row->contended + 1 >= input->sum->puts;
  candidate->row->weight =
      region_weights_add(candidate->row->weight, candidate->weight);
}

/* Hides a row, whose present values are then among those of `other`. */
static void lose_place(struct region_sum *sum, struct region_sum_row *row) {
  struct region_sum_row *other = sum->other;
  if (row->shown && row->parts > 0 && row->read_in == sum->pass) {
    other->parts = other->read_in == sum->pass ? other->parts : 0;
    other->read_in = sum->pass;
    for (uint32_t n = 0; n < sum->present.len; n++) {
      uint32_t c = sum->present.list[n].column;
      region_sum_combine(sum, &sum->present.list[n], &other->now[c],
                         row->now[c], other->parts == 0);
    }
    other->parts++;
  }
  region_sum_hide(sum, row);
}

/* A candidate that no shown row is clearly less than has no right before others
 * to a free place. */
static void forget_weak(struct region_sum_row **rows, size_t len) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < len; i++)
    if (rows[i]->shown)
      least = MIN(least, rows[i]->weight);
  for (size_t i = 0; i < len; i++)
    rows[i]->again &= strength_of(rows[i]) > least;
}

/* Ranks the rows that compete, and shows the first of them, but no more new
 * ones than MaxNewRows leaves. */
static void choose(struct region_sum *sum) {
  struct region_sum_row **rows = sum->rows + sum->capacity;
  size_t len = 0, kept = 0, denied = 0;
  for (size_t i = 0; i < sum->len; i++)
    if (sum->rows[i]->shown || sum->rows[i]->contends)
      rows[len++] = sum->rows[i];
  forget_weak(rows, len);
  if (len > 0)
    qsort(rows, len, sizeof(*rows), compare_rights);
  size_t new_rows = region_sum_new_rows(sum, MIN(len, sum->config->top));
  for (size_t i = 0; i < len; i++) {
    bool is_new = rows[i]->put == 0, has_place = kept < sum->config->top;
    bool is_denied = is_new && new_rows == 0;
    denied += has_place && is_denied;
    if (has_place && !is_denied) {
      new_rows -= is_new;
      rows[kept++] = rows[i];
    } else
      lose_place(sum, rows[i]);
  }
  region_sum_deny(sum, denied);
  for (size_t i = 0; i < kept; i++)
    if (!rows[i]->shown && region_sum_show(sum, rows[i])) {
      rows[i]->since_ns = sum->inputs->producer->watch->now.stamp_ns;
      sum->names_shown++;
    }
}

/* Lets the candidates count whose rows are shown now. Remembers the others,
 * because they compete if they are candidates again soon. */
static void conclude(struct region_input *input) {
  for (size_t i = 0; i < input->candidates_len; i++) {
    struct region_candidate *candidate = &input->candidates[i];
    if (candidate->row != NULL && candidate->row->shown)
      region_input_assign(input, candidate->number, candidate->row);
    else if (candidate->row != NULL)
      candidate->row->contended = input->sum->puts + 1;
  }
  input->candidates_len = 0;
}

void region_sum_choose(struct region_sum *sum) {
  struct region_input *input;
  if (sum->ranks_by == NULL)
    return;
  for (size_t i = 0; i < sum->len; i++)
    if (sum->rows[i]->objects == 0)
      region_sum_hide(sum, sum->rows[i]);
  for (input = sum->inputs; input != NULL; input = input->next_of_sum) {
    region_candidates_cut(input);
    for (size_t i = 0; i < input->candidates_len; i++)
      propose(input, &input->candidates[i]);
    region_reader_pause(input->producer->reader);
  }
  choose(sum);
  for (input = sum->inputs; input != NULL; input = input->next_of_sum)
    conclude(input);
  for (size_t i = 0; i < sum->len; i++)
    sum->rows[i]->contends = sum->rows[i]->again = false;
}
