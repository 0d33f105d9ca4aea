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

void region_candidates_drop(struct region_input *input, size_t from) {
  for (size_t i = from; i < input->candidates.len; i++)
    region_object_free(input, input->candidates.list[i]);
  input->candidates.len = MIN(from, input->candidates.len);
}

static int by_weight(const void *a, const void *b) {
  const struct region_object *x = *(struct region_object *const *)a;
  const struct region_object *y = *(struct region_object *const *)b;
  return x->weight != y->weight
             ? (x->weight < y->weight ? 1 : -1)
             : (x->number > y->number) - (x->number < y->number);
}

void region_candidates_cut(struct region_input *input) {
  struct region_objects *candidates = &input->candidates;
  size_t most = input->sum->config->top;
  if (candidates->len > 0)
    qsort(candidates->list, candidates->len, sizeof(*candidates->list),
          by_weight);
  if (candidates->len >= most)
    input->least = candidates->list[most - 1]->weight;
  region_candidates_drop(input, most);
}

/* ---------------------------------------------------------------------------
 * The choice
 */

/* Finds the row of a candidate, and adds the candidate's weight to it. */
static void propose(struct region_input *input,
                    struct region_object *candidate) {
  char name[REGION_ROW_NAME_SIZE];
  uint32_t before = input->marks.candidate_in[candidate->number];
  if (!region_reader_row_name(input->instance->reader, input->number,
                              candidate->number, candidate->generation, name))
    return;
  candidate->row = region_sum_find(input->sum, name, true);
  if (candidate->row == NULL)
    return;
  candidate->row->contends = true;
  candidate->row->again |= before != 0 && before + 2 >= input->scans;
  candidate->row->weight =
      region_weights_add(candidate->row->weight, candidate->weight);
}

/* Ranks the rows that compete, and shows the first of them, but no more new
 * ones than MaxNewRows leaves. */
static void choose(struct region_sum *sum) {
  struct region_sum_row **rows = sum->rows + sum->capacity;
  size_t len = 0, kept = 0, denied = 0;
  for (size_t i = 0; i < sum->len; i++)
    if (sum->rows[i]->shown || sum->rows[i]->contends)
      rows[len++] = sum->rows[i];
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
      region_sum_hide(sum, rows[i]);
  }
  region_sum_deny(sum, denied);
  for (size_t i = 0; i < kept; i++)
    if (!rows[i]->shown && region_sum_show(sum, rows[i])) {
      rows[i]->since_ns = sum->inputs->instance->watch->now.stamp_ns;
      sum->names_shown++;
    }
}

/* Tracks the candidates whose rows are shown now. Remembers the others, because
 * they compete if they are candidates again soon. */
static void conclude(struct region_input *input) {
  for (size_t i = 0; i < input->candidates.len; i++) {
    struct region_object *candidate = input->candidates.list[i];
    struct region_sum_row *row = candidate->row;
    candidate->row = NULL;
    if (row != NULL && row->shown) {
      candidate->is_chosen = true;
      (void)region_object_show(input, candidate, row);
      continue;
    }
    input->marks.candidate_in[candidate->number] = input->scans;
    region_object_free(input, candidate);
  }
  input->candidates.len = 0;
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
    for (size_t i = 0; i < input->candidates.len; i++)
      propose(input, input->candidates.list[i]);
  }
  choose(sum);
  for (input = sum->inputs; input != NULL; input = input->next_of_sum)
    conclude(input);
  for (size_t i = 0; i < sum->len; i++)
    sum->rows[i]->contends = sum->rows[i]->again = false;
}
