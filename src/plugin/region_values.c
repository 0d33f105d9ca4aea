/* The end of a round of a region_sum: which rows are shown, and their values
 * with names. */
#include "region_sum.h"

#include "utils/common/common.h"

#define NS_PER_S UINT64_C(1000000000)

/* ---------------------------------------------------------------------------
 * Top: the rows of the greatest growth (of counters) or value (of the others)
 */

static bool is_present(const struct region_sum *sum,
                       const struct region_sum_row *row) {
  return row->round == sum->round && row->wanted && !row->clashes;
}

/* Among equals those stay that were shown before, so that series are few. */
static bool ranks_before(const struct region_sum_row *a,
                         const struct region_sum_row *b) {
  return a->weight != b->weight ? a->weight > b->weight : a->top && !b->top;
}

/* Lets the heap's root, its least row, sink to its place. */
static void sink(struct region_sum_row **heap, size_t len, size_t at) {
  for (;;) {
    size_t least = at, child = 2 * at + 1;
    for (size_t i = child; i < child + 2 && i < len; i++)
      if (ranks_before(heap[least], heap[i]))
        least = i;
    if (least == at)
      return;
    struct region_sum_row *row = heap[at];
    heap[at] = heap[least];
    heap[least] = row;
    at = least;
  }
}

static void weigh(const struct region_sum *sum, struct region_sum_row *row) {
  const struct region_sum_field *field = &sum->fields[sum->top_field];
  row->weight =
      (int64_t)(field->kind == PERCORE_COUNTER ? row->delta[field->column]
                                               : row->now[field->column]);
}

/* False if out of memory: all stay as they were. */
static bool choose_top(struct region_sum *sum) {
  size_t most = sum->config->top, len = 0;
  struct region_sum_row **heap =
      malloc(MIN(most, sum->rows_len + 1) * sizeof(*heap));
  if (heap == NULL)
    return false;
  for (size_t i = 0; i < sum->rows_len; i++) {
    struct region_sum_row *row = sum->rows[i];
    if (!is_present(sum, row))
      continue;
    weigh(sum, row);
    if (len < most) {
      heap[len++] = row;
      for (size_t at = len / 2; len == most && at-- > 0;)
        sink(heap, len, at);
    } else if (ranks_before(row, heap[0])) {
      heap[0] = row;
      sink(heap, len, 0);
    }
  }
  for (size_t i = 0; i < sum->rows_len; i++)
    sum->rows[i]->top = false;
  for (size_t i = 0; i < len; i++)
    heap[i]->top = true;
  free(heap);
  return true;
}

/* ---------------------------------------------------------------------------
 * Growth
 */

static void grow(const struct region_sum *sum, struct region_sum_row *into,
                 const uint64_t *delta) {
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t c = 0; c < sum->columns; c++) {
      size_t i = (size_t)copy * sum->columns + c;
      if (region_sum_grows(sum->kinds[c]))
        into->now[i] += delta[i];
    }
}

static void add_to_other(struct region_sum *sum,
                         const struct region_sum_row *row, bool first) {
  struct region_sum_row *other = sum->other;
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t c = 0; c < sum->columns; c++) {
      size_t i = (size_t)copy * sum->columns + c;
      if (region_sum_grows(sum->kinds[c])) {
        other->delta[i] += row->delta[i];
        other->now[i] += row->delta[i];
      } else {
        other->now[i] =
            first ? row->now[i]
                  : region_sum_combine(sum->kinds[c], sum->aggregations[c],
                                       other->now[i], row->now[i]);
      }
    }
}

static void clear_other(struct region_sum *sum) {
  struct region_sum_row *other = sum->other;
  other->round = sum->round;
  other->several = true; /* it has no state */
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t c = 0; c < sum->columns; c++) {
      size_t i = (size_t)copy * sum->columns + c;
      other->delta[i] = 0;
      if (!region_sum_grows(sum->kinds[c]))
        other->now[i] = 0;
    }
}

/* What a row grew by goes to itself or to the rest, never to both: their sum is
 * that of the table. */
static void grow_all(struct region_sum *sum) {
  bool first = true;
  if (sum->other != NULL)
    clear_other(sum);
  for (size_t i = 0; i < sum->rows_len; i++) {
    struct region_sum_row *row = sum->rows[i];
    bool clash_only_with_other =
        sum->other != NULL && strcmp(row->clean, "other") == 0;
    if (row->round != sum->round || !row->wanted ||
        (row->clashes && !clash_only_with_other))
      continue;
    if (sum->other == NULL || row->top) {
      grow(sum, row, row->delta);
    } else {
      add_to_other(sum, row, first);
      first = false;
    }
  }
}

/* ---------------------------------------------------------------------------
 * Values with names
 */

static double in_ns(const struct region_sum *sum,
                    const struct region_sum_field *field, double value) {
  return field->cycles && sum->tsc_hz != 0 ? value * 1e9 / (double)sum->tsc_hz
                                           : value;
}

static void put_derive(const struct region_sum *sum,
                       struct region_snapshot *snapshot, enum region_rank rank,
                       const struct region_sum_field *field,
                       struct region_value *value, uint64_t count) {
  if (field->cycles && sum->tsc_hz != 0)
    count = (uint64_t)((unsigned __int128)count * NS_PER_S / sum->tsc_hz);
  if (count > INT64_MAX)
    return;
  value->type = REGION_DERIVE;
  value->derive = (int64_t)count;
  region_snapshot_put(snapshot, rank, value);
}

static void
put_percentiles(const struct region_sum *sum, struct region_snapshot *snapshot,
                enum region_rank rank, const struct region_sum_field *field,
                const struct region_value *named, const uint64_t *counts) {
  static const struct {
    const char *name;
    double q;
  } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(percentiles); i++) {
    double at = region_histogram_quantile(field->sub_bits, counts, field->cells,
                                          percentiles[i].q);
    if (at < 0)
      return; /* nothing was counted */
    struct region_value value = *named;
    value.type = REGION_GAUGE;
    value.gauge = in_ns(sum, field, at);
    value.type_instance = region_snapshot_format(
        snapshot, "%s_%s", named->type_instance, percentiles[i].name);
    region_snapshot_put(snapshot, rank, &value);
  }
}

/* A level or state of several that is none of them is no value. */
static bool has_meaning(const struct region_sum *sum,
                        const struct region_sum_field *field,
                        const struct region_sum_row *row, uint32_t copy) {
  bool none =
      field->kind == PERCORE_STATE ||
      (field->kind == PERCORE_LEVEL && field->aggregation == PERCORE_NONE);
  return !none || (!row->several && (copy > 0 || !sum->per_core));
}

static void put_cell(const struct region_sum *sum,
                     struct region_snapshot *snapshot, enum region_rank rank,
                     const struct region_sum_field *field,
                     struct region_value *value,
                     const struct region_sum_row *row, uint32_t copy) {
  size_t at = (size_t)copy * sum->columns + field->column;
  if (field->kind == PERCORE_COUNTER) {
    put_derive(sum, snapshot, rank, field, value, row->now[at]);
  } else if (field->kind == PERCORE_HISTOGRAM) {
    put_percentiles(sum, snapshot, rank, field, value, row->delta + at);
  } else if (has_meaning(sum, field, row, copy)) {
    value->type = REGION_GAUGE;
    value->gauge = in_ns(sum, field, (double)(int64_t)row->now[at]);
    region_snapshot_put(snapshot, rank, value);
  }
}

static void put_copy(const struct region_sum *sum,
                     struct region_snapshot *snapshot, enum region_rank rank,
                     const struct region_sum_field *field, uint32_t copy) {
  struct region_value value = {
      .plugin = region_snapshot_text(snapshot, copy == 0 ? field->plugin_host
                                                         : field->plugin_core),
      .plugin_instance = region_snapshot_text(snapshot, sum->labels[copy]),
  };
  for (size_t i = 0; i < sum->rows_len; i++) {
    const struct region_sum_row *row = sum->rows[i];
    if (row->text == NULL)
      continue;
    value.type_instance = row->text;
    put_cell(sum, snapshot, rank, field, &value, row, copy);
  }
  if (sum->other != NULL) {
    value.type_instance = sum->other->text;
    put_cell(sum, snapshot, rank, field, &value, sum->other, copy);
  }
}

static void name_rows(struct region_sum *sum,
                      struct region_snapshot *snapshot) {
  for (size_t i = 0; i < sum->rows_len; i++) {
    struct region_sum_row *row = sum->rows[i];
    bool shown = is_present(sum, row) && (sum->other == NULL || row->top);
    row->text = shown ? region_snapshot_text(snapshot, row->clean) : NULL;
  }
  if (sum->other != NULL)
    sum->other->text = region_snapshot_text(snapshot, sum->other->clean);
}

/* The built-in table says nothing where no worker calls percore_poll. */
static bool is_unused(const struct region_sum *sum) {
  return sum->is_core && (sum->rows_len == 0 || sum->rows[0]->now[0] == 0);
}

void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot) {
  if (sum->other != NULL && !choose_top(sum))
    snapshot->memory_short = true;
  grow_all(sum);
  sum->round_put = sum->round;
  if (is_unused(sum))
    return;
  name_rows(sum, snapshot);
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
    if (!field->wanted)
      continue;
    if (sum->region_config->report_host)
      put_copy(sum, snapshot, REGION_RANK_HOST, field, 0);
    for (uint32_t copy = 1; copy < sum->copies; copy++)
      if (sum->core_used[copy - 1])
        put_copy(sum, snapshot, REGION_RANK_CORE, field, copy);
  }
}
