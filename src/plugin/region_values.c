/* The end of a round of a region_sum: which rows are shown, with which values.
 */
#include "region_table.h"
#include "region_watch.h"

#include "base/clock.h"

#include "utils/common/common.h"

/* Rows are put in batches, which fit into the L1 cache. Within a batch, values
 * are put field by field, so that consecutive values differ only in the row and
 * are quickly dispatched. */
#define ROWS_AT_ONCE 256

/* ---------------------------------------------------------------------------
 * Growth
 */

/* True if the row is shown and was read in this round. `other` is live in every
 * round, except in a table with a single row. */
static bool is_live(const struct region_sum *sum,
                    const struct region_sum_row *row) {
  if (row == sum->other)
    return !sum->shape.single;
  return row->shown && row->round == sum->round && !row->clashes;
}

static void add_to_other(const struct region_sum *sum,
                         const uint64_t *present) {
  struct region_sum_row *other = sum->other;
  if (sum->shape.present.len == 0)
    return;
  region_sum_add_present(sum, other->now, present, NULL, other->owner == NULL);
  other->owner = sum;
}

/* If the row is not shown, moves what it counted in this round to `other`. If a
 * producer's counters decrease, the shown rows may have grown more than the
 * table; `other` then does not grow until the table has caught up. */
static void end_row(struct region_sum *sum, struct region_sum_row *row,
                    uint64_t number) {
  bool live = is_live(sum, row);
  row->text = NULL;
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t n = 0; n < sum->shape.counters.len; n++) {
      size_t at = (size_t)copy * sum->shape.columns +
                  sum->shape.counters.list[n].column;
      uint64_t grown = row->now[at] - row->before[at];
      if (live) {
        row->due = (int64_t)grown > 0 ? number : row->due;
        continue;
      }
      sum->other->now[at] += grown;
      row->now[at] = row->before[at];
    }
  if (live || row->owner == NULL)
    return;
  add_to_other(sum, row->now);
  row->owner = NULL;
}

/* Ends the round for all rows and for `other`, which combines many rows and
 * therefore reports no states. With the option Top, `other` reports gauges even
 * if every row is shown; they are then 0. */
static void end_rows(struct region_sum *sum, uint64_t number) {
  struct region_sum_row *other = sum->other;
  bool is_read = false;
  other->several = true;
  for (const struct region_instance_table *table = sum->tables; table != NULL;
       table = table->next_of_sum) {
    is_read |= table->round == sum->round;
    if (table->round == sum->round && table->has_present)
      add_to_other(sum, table->present);
  }
  for (size_t i = 0; i < sum->rows.len; i++)
    end_row(sum, sum->rows.list[i], number);
  end_row(sum, other, number);
  sum->other_shown |=
      other->due == number || sum->room.left_out > 0 || other->owner != NULL;
  for (uint32_t n = 0; n < sum->shape.present.len && other->owner == NULL; n++)
    other->now[sum->shape.present.list[n].column] = 0;
  if (is_read && sum->shape.top_field >= 0)
    other->owner = sum;
}

/* ---------------------------------------------------------------------------
 * Values with names
 */

/* The values that are being put: one field of one copy. */
struct put {
  const struct region_sum *sum;
  struct region_snapshot *snapshot;
  uint64_t zero_ns; /* timestamp of the 0 that precedes first points */
  enum region_rank rank;
  const struct region_sum_field *field;
  uint32_t copy;
  struct region_value value; /* complete except for the row */
};

static double in_ns(const struct put *put, double value) {
  uint64_t tsc_hz = put->sum->tsc_hz;
  return put->field->cycles && tsc_hz != 0 ? value * 1e9 / (double)tsc_hz
                                           : value;
}

/* Records the first point of a series, and returns the record. If the snapshot
 * with the first point was dropped, or the point was cut, the next point
 * becomes the first. With the option Top, the first point of a row is its
 * former count, and no 0 precedes it. */
static struct region_first *begin_series(const struct put *put,
                                         const struct region_sum_row *row) {
  const struct region_sum *sum = put->sum;
  struct region_first *first = &row->first[put->copy * sum->shape.field_count +
                                           (put->field - sum->shape.fields)];
  bool has_zero = sum->shape.top_field < 0 || row == sum->other;
  bool dropped = first->snapshot > sum->past.dispatched &&
                 first->snapshot <= sum->past.decided;
  if (first->snapshot == 0 && first->zero_ns == 0 && has_zero)
    first->zero_ns = put->zero_ns;
  if (first->snapshot == 0 || dropped)
    first->snapshot = put->snapshot->number;
  return first;
}

static void put_counter(struct put *put, struct region_first *first,
                        uint64_t cells) {
  const struct region_sum *sum = put->sum;
  unsigned __int128 count = cells;
  if (put->field->cycles && sum->tsc_hz != 0)
    count = count * NS_PER_S / sum->tsc_hz;
  if (count > INT64_MAX)
    return;
  put->value.type = REGION_DERIVE;
  put->value.derive = (int64_t)count;
  put->value.first = *first;
  put->value.series = first;
  region_snapshot_put(put->snapshot, put->rank, &put->value);
}

/* Puts the percentiles of what was counted in this round. */
static void put_percentiles(struct put *put, const uint64_t *before,
                            const uint64_t *now) {
  static const struct {
    const char *name;
    double q;
  } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};
  const struct region_sum_field *field = put->field;
  uint64_t grown[PERCORE_MAX_COLUMNS];
  for (uint32_t c = 0; c < field->cells; c++)
    grown[c] = (int64_t)(now[c] - before[c]) > 0 ? now[c] - before[c] : 0;
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(percentiles); i++) {
    double at = region_histogram_quantile(field->sub_bits, grown, field->cells,
                                          percentiles[i].q);
    if (at < 0)
      return; /* the histogram is empty */
    struct region_value value = put->value;
    value.type = REGION_GAUGE;
    value.gauge = in_ns(put, at);
    value.type_instance = region_snapshot_format(
        put->snapshot, "%s_%s", put->value.type_instance, percentiles[i].name);
    region_snapshot_put(put->snapshot, put->rank, &value);
  }
}

/* True if the gauge, level or state can be reported. States, and levels without
 * an aggregation, cannot be combined over several instances or cores. `other`
 * reports only values over all cores. */
static bool has_meaning(const struct put *put,
                        const struct region_sum_row *row) {
  const struct region_sum *sum = put->sum;
  const struct region_sum_field *field = put->field;
  bool none =
      field->kind == PERCORE_STATE ||
      (field->kind == PERCORE_LEVEL && field->aggregation == PERCORE_NONE);
  return row->owner != NULL && (put->copy == 0 || row != sum->other) &&
         (!none || (!row->several && (put->copy > 0 || !sum->shape.per_core)));
}

static void put_row(struct put *put, const struct region_sum_row *row) {
  size_t at = (size_t)put->copy * put->sum->shape.columns + put->field->column;
  if (row->text == NULL)
    return;
  put->value.type_instance = row->text;
  if (put->field->kind == PERCORE_COUNTER) {
    bool grown = (int64_t)(row->now[at] - row->before[at]) > 0;
    put_counter(put, begin_series(put, row),
                grown ? row->now[at] : row->before[at]);
  } else if (put->field->kind == PERCORE_HISTOGRAM) {
    (void)begin_series(put, row);
    put_percentiles(put, &row->before[at], &row->now[at]);
  } else if (has_meaning(put, row)) {
    put->value.type = REGION_GAUGE;
    put->value.gauge = in_ns(put, (double)(int64_t)row->now[at]);
    region_snapshot_put(put->snapshot, put->rank, &put->value);
  }
}

/* Puts one field of one copy for the rows from `from` to `to` - 1. `other` goes
 * before all rows so that MaxValues never cuts it. */
static void put_copy(struct put *put, uint32_t copy, size_t from, size_t to) {
  const struct region_sum *sum = put->sum;
  char core[16] = "all";
  if (copy > 0)
    snprintf(core, sizeof(core), "%u", copy - 1);
  put->copy = copy;
  put->rank = copy == 0 ? REGION_RANK_HOST : REGION_RANK_CORE;
  put->value = (struct region_value){
      .plugin = region_snapshot_format(
          put->snapshot, "%s_%s_%s_%s", copy == 0 ? "percore_host" : "percore",
          sum->region->name, sum->table, put->field->label),
      .plugin_instance = region_snapshot_format(
          put->snapshot, "%s%s%s", core, sum->instance[0] != 0 ? "@" : "",
          sum->instance)};
  if (from == 0)
    put_row(put, sum->other);
  for (size_t i = from; i < to; i++)
    put_row(put, sum->rows.list[i]);
}

static void put_rows(struct put *put, size_t from, size_t to) {
  const struct region_sum *sum = put->sum;
  for (uint32_t f = 0; f < sum->shape.field_count; f++) {
    put->field = &sum->shape.fields[f];
    if (!put->field->wanted)
      continue;
    if (sum->region_config->report_host)
      put_copy(put, 0, from, to);
    for (uint32_t copy = 1; copy < sum->copies; copy++)
      if (sum->core_used[copy - 1])
        put_copy(put, copy, from, to);
  }
}

/* ---------------------------------------------------------------------------
 * Which rows are shown
 */

/* Returns the time of the 0 that precedes first points in this snapshot: the
 * time of the previous snapshot. The producer may have started later, but
 * values are read shortly after the snapshot's timestamp, so a 0 at the
 * producer's start would make the first rate too high. */
static uint64_t find_zero(const struct region_sum *sum, uint64_t now_ns,
                          uint64_t interval_ns) {
  uint64_t zero_ns = now_ns > interval_ns ? now_ns - interval_ns : 0;
  if (sum->past.put_ns != 0 && sum->past.put_ns < now_ns)
    zero_ns = sum->past.put_ns;
  return zero_ns;
}

/* Shows live rows and then, as far as there is room, rows that were removed or
 * hidden and whose last counts have not been dispatched yet. */
static void show_rows(struct region_sum *sum,
                      struct region_snapshot *snapshot) {
  size_t room = region_sum_room(sum);
  for (size_t i = 0; i < sum->rows.len; i++) {
    struct region_sum_row *row = sum->rows.list[i];
    if (!is_live(sum, row))
      continue;
    row->text = region_snapshot_text(snapshot, row->name[1]);
    room -= room > 0;
  }
  for (size_t i = 0; i < sum->rows.len && room > 0; i++) {
    struct region_sum_row *row = sum->rows.list[i];
    if (row->text != NULL || !region_sum_is_due(sum, row))
      continue;
    row->text = region_snapshot_text(snapshot, row->name[1]);
    room--;
  }
  if (sum->other_shown && is_live(sum, sum->other))
    sum->other->text = region_snapshot_text(snapshot, sum->other->name[1]);
}

/* If a row is not in this snapshot but its latest counts have not been
 * dispatched yet, records that the next snapshot is the first that may contain
 * them. */
static void put_off(const struct region_sum *sum, struct region_sum_row *row,
                    uint64_t number) {
  if (row->text == NULL && region_sum_is_due(sum, row))
    row->due = number + 1;
}

/* Counts the values of rows that were left out, for lack of room or memory, as
 * cut values of the snapshot. */
static void cut_left_out(const struct region_sum *sum,
                         struct region_snapshot *snapshot) {
  size_t fields = 0, cores = 0;
  for (uint32_t f = 0; f < sum->shape.field_count; f++)
    fields += sum->shape.fields[f].wanted;
  for (uint32_t copy = 1; copy < sum->copies; copy++)
    cores += sum->core_used[copy - 1];
  if (sum->region_config->report_host)
    snapshot->values[REGION_RANK_HOST].cut += sum->room.left_out * fields;
  snapshot->values[REGION_RANK_CORE].cut += sum->room.left_out * fields * cores;
}

/* True for the table `core` if no worker calls percore_poll. The table is then
 * not reported. */
static bool is_unused(const struct region_sum *sum) {
  return sum->shape.is_core &&
         (sum->rows.len == 0 || sum->rows.list[0]->now[0] == 0);
}

void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot,
                    const struct region_watch_options *options) {
  uint64_t number = snapshot->number;
  struct put put = {
      .sum = sum,
      .snapshot = snapshot,
      .zero_ns = find_zero(sum, snapshot->time_ns, options->interval_ns)};
  end_rows(sum, number);
  sum->round_put = sum->round;
  if (sum->room.rows > 0) {
    memmove(&sum->past.snapshots[1], &sum->past.snapshots[0],
            (REGION_SUM_SNAPSHOTS - 1) * sizeof(*sum->past.snapshots));
    sum->past.snapshots[0] = number;
    if (is_unused(sum))
      return;
    show_rows(sum, snapshot);
    sum->past.put_ns = snapshot->time_ns;
  } else {
    sum->room.left_out = sum->room.live;
  }
  cut_left_out(sum, snapshot);
  put_off(sum, sum->other, number);
  for (size_t i = 0; i < sum->rows.len; i++)
    put_off(sum, sum->rows.list[i], number);
  size_t from = 0;
  do {
    size_t to = MIN(from + ROWS_AT_ONCE, sum->rows.len);
    put_rows(&put, from, to);
    from = to;
  } while (from < sum->rows.len && options->is_wanted(options->argument));
}
