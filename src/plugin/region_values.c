/* The end of a round of a region_sum: which rows are shown, and their values
 * with names. */
#include "region_sum.h"

#include "region_top.h"

#include "utils/common/common.h"

#define NS_PER_S UINT64_C(1000000000)
/* Rows whose fields are put one after the other: few enough to stay in the
 * first cache, enough for neighbours that share all but the row. */
#define ROWS_AT_ONCE 256

/* ---------------------------------------------------------------------------
 * Top: the rows of the greatest growth (of counters) or value (of the others)
 */

static bool is_present(const struct region_sum *sum,
                       const struct region_sum_row *row) {
  return row->round == sum->round && !row->clashes;
}

static void weigh(const struct region_sum *sum, struct region_sum_row *row) {
  const struct region_sum_field *field = &sum->fields[sum->top_field];
  row->weight =
      (int64_t)(field->kind == PERCORE_COUNTER ? row->delta[field->column]
                                               : row->now[field->column]);
}

/* False if out of memory: all stay as they were. */
static bool choose_top(struct region_sum *sum) {
  struct region_top top;
  if (!region_top_init(&top, MIN(sum->config->top, sum->rows_len)))
    return false;
  for (size_t i = 0; i < sum->rows_len; i++) {
    struct region_sum_row *row = sum->rows[i];
    if (!is_present(sum, row))
      continue;
    weigh(sum, row);
    if (region_top_wants(&top, row->weight, row->top))
      region_top_keep(&top, row->weight, row->top, (uint32_t)i);
  }
  for (size_t i = 0; i < sum->rows_len; i++)
    sum->rows[i]->top = false;
  for (size_t i = 0; i < top.len; i++)
    sum->rows[top.heap[i].item]->top = true;
  region_top_free(&top);
  return true;
}

/* ---------------------------------------------------------------------------
 * Growth
 */

/* The rest of a core, what all rows counted less those that are shown, is less
 * than nothing where a cell of the others went back. */
static void grow(const struct region_sum *sum, struct region_sum_row *row) {
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t c = 0; c < sum->columns; c++) {
      size_t i = (size_t)copy * sum->columns + c;
      if (!region_sum_grows(sum->kinds[c]))
        continue;
      if ((int64_t)row->delta[i] < 0)
        row->delta[i] = 0;
      row->now[i] += row->delta[i];
    }
}

/* What a row grew by goes to itself or to the rest, never to both: their sum is
 * that of the table. */
static void grow_all(struct region_sum *sum) {
  sum->rows_shown = 0;
  for (size_t i = 0; i < sum->rows_len; i++) {
    struct region_sum_row *row = sum->rows[i];
    bool shown = is_present(sum, row) && (sum->other == NULL || row->top);
    sum->rows_shown +=
        shown || row->clashes; /* what clashes has a place, too */
    if (shown)
      row->used = sum->round;
    if (row->grown != sum->round)
      continue;
    if (sum->other != NULL && !shown)
      region_sum_move_to_other(sum, row);
    else if (!row->clashes)
      grow(sum, row);
  }
  if (sum->other != NULL)
    grow(sum, sum->other);
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

/* A level or state of several that is none of them is no value. Nor is the rest
 * of several instances in a round that read one of them twice: what it had is
 * not known any more. */
static bool has_meaning(const struct region_sum *sum,
                        const struct region_sum_field *field,
                        const struct region_sum_row *row, uint32_t copy) {
  if (row == sum->other && sum->other_twice)
    return false;
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

/* Rows from `from` to `to` - 1, and with the last of them the rest. */
static void put_copy(const struct region_sum *sum,
                     struct region_snapshot *snapshot, enum region_rank rank,
                     const struct region_sum_field *field, uint32_t copy,
                     size_t from, size_t to) {
  struct region_value value = {
      .plugin = region_snapshot_text(snapshot, copy == 0 ? field->plugin_host
                                                         : field->plugin_core),
      .plugin_instance = region_snapshot_text(snapshot, sum->labels[copy]),
  };
  for (size_t i = from; i < to; i++) {
    const struct region_sum_row *row = sum->rows[i];
    if (row->text == NULL || (copy > 0 && !row->cores_known))
      continue;
    value.type_instance = row->text;
    put_cell(sum, snapshot, rank, field, &value, row, copy);
  }
  bool other_stands =
      copy == 0 || (region_sum_grows(field->kind) && sum->other_cores);
  if (sum->other != NULL && to == sum->rows_len && other_stands) {
    value.type_instance = sum->other->text;
    put_cell(sum, snapshot, rank, field, &value, sum->other, copy);
  }
}

static void put_rows(const struct region_sum *sum,
                     struct region_snapshot *snapshot, size_t from, size_t to) {
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
    if (!field->wanted)
      continue;
    if (sum->region_config->report_host)
      put_copy(sum, snapshot, REGION_RANK_HOST, field, 0, from, to);
    for (uint32_t copy = 1; copy < sum->copies; copy++)
      if (sum->core_used[copy - 1])
        put_copy(sum, snapshot, REGION_RANK_CORE, field, copy, from, to);
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

/* Rows that were not even looked at, for MaxValues or want of memory, are
 * values that are missing. */
static void cut_left_out(const struct region_sum *sum,
                         struct region_snapshot *snapshot) {
  size_t fields = 0, cores = 0;
  for (uint32_t f = 0; f < sum->field_count; f++)
    fields += sum->fields[f].wanted;
  for (uint32_t copy = 1; copy < sum->copies; copy++)
    cores += sum->core_used[copy - 1];
  if (sum->region_config->report_host)
    snapshot->values[REGION_RANK_HOST].cut += sum->left_out * fields;
  snapshot->values[REGION_RANK_CORE].cut += sum->left_out * fields * cores;
}

/* The built-in table says nothing where no worker calls percore_poll. */
static bool is_unused(const struct region_sum *sum) {
  return sum->is_core && (sum->rows_len == 0 || sum->rows[0]->now[0] == 0);
}

void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot,
                    bool (*is_wanted)(void *argument), void *argument) {
  if (!is_wanted(argument))
    return;
  if (sum->other != NULL && !choose_top(sum))
    snapshot->memory_short = true;
  if (!is_wanted(argument))
    return;
  grow_all(sum);
  sum->round_put = sum->round;
  if (is_unused(sum))
    return;
  name_rows(sum, snapshot);
  cut_left_out(sum, snapshot);
  size_t from = 0;
  do {
    size_t to = MIN(from + ROWS_AT_ONCE, sum->rows_len);
    put_rows(sum, snapshot, from, to);
    from = to;
  } while (from < sum->rows_len && is_wanted(argument));
}
