/* Dispatches the values of a region_sum. */
#include "regions.h"

#include "put.h"

#include "base/clock.h"

#include "utils/common/common.h"


/* Rows are put in batches, which fit into the L1 cache, and within a batch
 * field by field, so that consecutive values differ only in the row. */
#define ROWS_AT_ONCE 256

/* ---------------------------------------------------------------------------
 * One field of one copy
 */

struct put {
  const struct region_sum *sum;
  value_list_t list;
  cdtime_t now, before; /* time of this put; just after the put before */
  struct region_sum_field *field;
  uint32_t copy;
  bool goes_on; /* the previous put had the copy and the field */
};

static double in_ns(const struct put *put, double value) {
  uint64_t tsc_hz = put->sum->tsc_hz;
  return put->field->cycles && tsc_hz != 0 ? value * 1e9 / (double)tsc_hz
                                           : value;
}

static void put_count(struct put *put, const char *name,
                      unsigned __int128 count, cdtime_t time) {
  const struct region_sum *sum = put->sum;
  if (count > INT64_MAX) {
    region_warn(
        region_about_sum(sum),
        "region %s: table %s: a count exceeds 2^63 - 1, the most that "
        "collectd can report, and has no more values: count in a larger "
        "unit. It begins at 0 again when collectd is restarted.",
        sum->budget->name, sum->table);
    return;
  }
  put->list.time = time;
  put_derive(&put->list, "derive", name, (uint64_t)count);
  put->list.time = put->now;
}

/* Puts a counter, or how many values of a histogram are at most each bound. */
static void put_counts(struct put *put, const struct region_sum_row *row,
                       const uint64_t *cells, cdtime_t time) {
  const struct region_sum_field *field = put->field;
  unsigned __int128 count = cells[0];
  char name[DATA_MAX_NAME_LEN];
  if (field->bounds == NULL) {
    if (field->cycles && put->sum->tsc_hz != 0)
      count = count * NS_PER_S / put->sum->tsc_hz;
    put_count(put, row->name, count, time);
    return;
  }
  uint32_t c = 1;
  for (uint32_t i = 0; i < field->bounds->len; i++) {
    for (; c < field->ends[i]; c++)
      count += cells[c];
    snprintf(name, sizeof(name), "%s_le_%" PRIu64, row->name,
             field->bounds->at[i]);
    put_count(put, name, count, time);
  }
  for (; c < field->cells; c++)
    count += cells[c];
  snprintf(name, sizeof(name), "%s_le_inf", row->name);
  put_count(put, name, count, time);
}

/* Puts the percentiles of what was counted since the previous put. */
static void put_percentiles(struct put *put, const struct region_sum_row *row,
                            const uint64_t *sent, const uint64_t *now) {
  static const struct {
    const char *name;
    double q;
  } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};
  const struct region_sum_field *field = put->field;
  uint64_t grown[PERCORE_MAX_COLUMNS];
  char name[DATA_MAX_NAME_LEN];
  for (uint32_t c = 0; c < field->cells; c++)
    grown[c] = (int64_t)(now[c] - sent[c]) > 0 ? now[c] - sent[c] : 0;
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(percentiles); i++) {
    double at = region_histogram_quantile(field->sub_bits, grown, field->cells,
                                          percentiles[i].q);
    snprintf(name, sizeof(name), "%s_%s", row->name, percentiles[i].name);
    if (at >= 0) /* else the histogram is empty */
      put_gauge(&put->list, "gauge", name, in_ns(put, at));
  }
}

/* True if the up-down counter, gauge or state can be reported. States, and
 * gauges without an aggregation, cannot be combined over several rows,
 * instances or cores. */
static bool has_meaning(const struct put *put,
                        const struct region_sum_row *row) {
  const struct region_sum *sum = put->sum;
  const struct region_sum_field *field = put->field;
  bool none = region_field_is_single(field);
  if (row == sum->other)
    return row->parts > 0 && put->copy == 0 && !none;
  return row->parts > 0 &&
         (!none || (row->singles == 1 && (put->copy > 0 || !sum->per_core)));
}

static void put_row(struct put *put, struct region_sum_row *row) {
  const struct region_sum_field *field = put->field;
  size_t at = (size_t)put->copy * put->sum->columns + field->column;
  bool goes_on = put->goes_on && row->put == put->sum->puts;
  uint64_t *now = &row->now[at], *sent = &row->sent[at];
  bool counts = field->kind == PERCORE_COUNTER || field->bounds != NULL;
  if (field->kind != PERCORE_COUNTER && field->kind != PERCORE_HISTOGRAM) {
    if (has_meaning(put, row))
      put_gauge(&put->list, "gauge", row->name,
                in_ns(put, (double)(int64_t)*now));
    return;
  }
  if (counts && !goes_on) {
    put_counts(put, row, sent,
               row->put == put->sum->puts && row->put > 0
                   ? put->before
                   : NS_TO_CDTIME_T(row->since_ns));
    return;
  }
  if (field->kind == PERCORE_HISTOGRAM)
    put_percentiles(put, row, sent, now);
  for (uint32_t c = 0; c < field->cells; c++)
    if ((int64_t)(now[c] - sent[c]) > 0) /* `other` may be behind */
      sent[c] = now[c];
  if (counts)
    put_counts(put, row, sent, put->now);
}

/* Puts one field of one copy for the rows from `from` to `to` - 1, and `other`
 * before all rows. */
static void put_copy(struct put *put, uint32_t copy, size_t from, size_t to) {
  const struct region_sum *sum = put->sum;
  put->copy = copy;
  put->goes_on = sum->puts > 0 && put->field->put == sum->puts &&
                 (copy == 0 || sum->core_put[copy - 1] == sum->puts);
  char text[512], instance[160], core[16] = "all";
  snprintf(text, sizeof(text), "%s_%s_%s_%s",
           copy == 0 ? "percore_host" : "percore", sum->budget->name,
           sum->table, put->field->label);
  if (copy > 0)
    snprintf(core, sizeof(core), "%u", copy - 1);
  snprintf(instance, sizeof(instance), "%s%s%s", core,
           sum->instance[0] != '\0' ? "@" : "", sum->instance);
  put_subject(&put->list, text, instance);
  if (from == 0 && !sum->single && sum->other->shown)
    put_row(put, sum->other);
  for (size_t i = from; i < to; i++)
    if (sum->rows[i]->put_now)
      put_row(put, sum->rows[i]);
}

/* ---------------------------------------------------------------------------
 * A whole sum
 */

/* Charges the budget for what is shown. A core is reported from the put on in
 * which the budget has room for it. */
static void charge(struct region_sum *sum, bool *cores) {
  struct region_allowance *values = &sum->budget->values;
  size_t of_copy = (sum->shown + !sum->single) * sum->values;
  size_t need = sum->budget->config->report_host ? of_copy : 0;
  for (uint32_t core = 0; core + 1 < sum->copies; core++) {
    bool is_free =
        need + of_copy <= sum->charged + region_allowance_left(values);
    cores[core] = sum->core_used[core] && (sum->core_put[core] != 0 || is_free);
    if (cores[core] && sum->core_put[core] == 0)
      sum->core_put[core] = UINT64_MAX; /* in no put so far */
    need += cores[core] ? of_copy : 0;
  }
  values->used += need - sum->charged;
  values->pool->used += need - sum->charged;
  sum->charged = need;
}

/* Notes what the put contained. Hides rows that were shown for objects that
 * came and went, once their counts are dispatched. */
static void end_put(struct region_sum *sum, const bool *cores,
                    uint64_t now_ns) {
  for (size_t i = 0; i < sum->len; i++) {
    struct region_sum_row *row = sum->rows[i];
    row->weight = 0;
    if (sum->ranks_by == NULL && row->objects == 0 &&
        !region_sum_row_owes(sum, row))
      region_sum_hide(sum, row);
    if (row->put_now)
      row->put = sum->puts + 1;
    if (row->put_now || row->objects > 0)
      row->since_ns = now_ns + 1000; /* after this point */
  }
  if (sum->other->shown)
    sum->other->put = sum->puts + 1;
  for (uint32_t f = 0; f < sum->field_count; f++)
    sum->fields[f].put = sum->puts + 1;
  for (uint32_t copy = 1; copy < sum->copies; copy++)
    if (cores[copy - 1])
      sum->core_put[copy - 1] = sum->puts + 1;
}

/* True for the table `core` if no worker calls percore_poll. The table is then
 * not reported. */
static bool is_unused(const struct region_sum *sum) {
  return sum->is_core &&
         (sum->len == 0 || sum->rows[0]->now[REGION_CORE_POLLS] == 0);
}

static void put_table(struct put *put, const bool *cores) {
  const struct region_sum *sum = put->sum;
  size_t from = 0;
  do {
    size_t to = MIN(from + ROWS_AT_ONCE, sum->len);
    for (uint32_t f = 0; f < sum->field_count; f++) {
      put->field = &sum->fields[f];
      if (!put->field->wanted)
        continue;
      if (sum->budget->config->report_host)
        put_copy(put, 0, from, to);
      for (uint32_t copy = 1; copy < sum->copies; copy++)
        if (cores[copy - 1])
          put_copy(put, copy, from, to);
    }
    from = to;
  } while (from < sum->len);
}

/* With Top, the gauges of `other` are 0 if it has no row. */
static void prepare_other(struct region_sum *sum) {
  struct region_sum_row *other = sum->other;
  if (other->read_in != sum->pass) {
    for (uint32_t n = 0; n < sum->present.len; n++)
      other->now[sum->present.list[n].column] = 0;
    other->parts = sum->ranks_by != NULL;
  }
  if (!other->shown && sum->puts > 0)
    other->since_ns = sum->put_ns;
  other->shown |= region_sum_row_owes(sum, other) ||
                  (other->parts > 0 && sum->present.len > 0 && !sum->single);
}

void region_sum_put(struct region_sum *sum, struct region_watch *watch) {
  uint64_t now_ns = watch->now.stamp_ns;
  bool cores[sum->core_count + 1];
  struct put put = {.sum = sum,
                    .list = {.time = NS_TO_CDTIME_T(now_ns)},
                    .now = NS_TO_CDTIME_T(now_ns),
                    .before = NS_TO_CDTIME_T(sum->put_ns + 1000)};
  region_sum_choose(sum);
  prepare_other(sum);
  charge(sum, cores);
  for (size_t i = 0; i < sum->len; i++) {
    struct region_sum_row *row = sum->rows[i];
    row->parts = row->read_in == sum->pass ? row->parts : 0;
    row->put_now =
        !is_unused(sum) && (row->shown || region_sum_row_owes(sum, row));
  }
  put_table(&put, cores);
  end_put(sum, cores, now_ns);
  sum->puts++;
  sum->put_ns = now_ns;
  sum->is_new = false;
  region_sum_rest(sum);
  region_sum_forget(sum);
}
