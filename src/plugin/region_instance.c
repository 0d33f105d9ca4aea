#include "region_instance.h"

#include "utils/common/common.h"

/* On a busy host, a round may end this long after its timestamp. If a producer
 * claims to have started even later, its clock is that of another time
 * namespace. */
#define ROUND_NS UINT64_C(10000000000)

/* ---------------------------------------------------------------------------
 * Tables
 */

void region_instance_free_tables(struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->table_count; t++)
    region_table_leave(&instance->tables[t]);
  free(instance->tables);
  instance->tables = NULL;
  instance->table_count = 0;
}

/* True if no process served the name just before the producer started. Then
 * none of the producer's counts have been reported before. */
static bool has_begun_lately(const struct region_instance *instance) {
  const struct region_watch *watch = instance->watch;
  uint64_t start_ns =
      region_reader_directory(instance->reader)->header.start_boottime_ns;
  return start_ns + watch->options.interval_ns >=
             instance->absent_boottime_ns &&
         start_ns <= watch->now.boottime_ns + ROUND_NS;
}

static uint64_t adds_refused(const struct region_instance *instance) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  uint64_t refused = 0;
  for (uint32_t t = 0; t < directory->table_count; t++)
    refused += region_reader_adds_refused(instance->reader, t);
  return refused;
}

/* Adds the growth of a producer's count since *last to *total, and updates
 * *last. Ignores growth that is impossible within an interval. */
static void follow_count(uint64_t now, uint64_t *last, uint64_t *total) {
  if (now - *last < UINT32_MAX)
    *total += now - *last;
  *last = now;
}

static void count_refusals(struct region_instance *instance) {
  struct region_watch *watch = instance->watch;
  follow_count(region_reader_attach_refused(instance->reader),
               &instance->attaches_refused, &watch->attaches_refused);
  follow_count(adds_refused(instance), &instance->adds_refused,
               &watch->adds_refused);
}

void region_instance_came(struct region_instance *instance) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  bool all = instance->began_lately = has_begun_lately(instance);
  instance->attaches_refused =
      all ? 0 : region_reader_attach_refused(instance->reader);
  instance->adds_refused = all ? 0 : adds_refused(instance);
  instance->restarted = instance->producer != 0;
  instance->producer = region_reader_producer(instance->reader);
  instance->turn = 0; /* lets the new producer be read in this round */
  region_workers_reset(&instance->workers);
  region_instance_free_tables(instance);
  instance->tables = calloc(directory->table_count, sizeof(*instance->tables));
  if (instance->tables == NULL) {
    instance->watch->snapshot->memory_short = true;
    return;
  }
  instance->table_count = directory->table_count;
  for (uint32_t t = 0; t < instance->table_count; t++)
    instance->tables[t] = (struct region_instance_table){
        .instance = instance, .number = t, .from_zero = all};
  region_instance_begin(instance, false);
}

/* ---------------------------------------------------------------------------
 * Which sum a table is added to
 */

/* Returns the list element that points to the sum of this table, or NULL if
 * the instance has no such sum. */
static struct region_sum **find_sum(const struct region_instance *instance,
                                    const char *name, const char *table) {
  const struct region_sums *sums = &instance->watch->sums;
  for (size_t i = 0; i < sums->len; i++)
    if (sums->list[i]->region == instance->allowance &&
        strcmp(sums->list[i]->instance, name) == 0 &&
        strcmp(sums->list[i]->table, table) == 0)
      return &sums->list[i];
  return NULL;
}

static bool add_sum(struct region_sums *sums, struct region_sum *sum) {
  struct region_sum **list =
      realloc(sums->list, (sums->len + 1) * sizeof(*list));
  if (list == NULL)
    return false;
  sums->list = list;
  list[sums->len++] = sum;
  sums->grew = true;
  return true;
}

/* True if the producer of a table of the sum has ended, and the last scan of
 * that table has not begun. */
static bool is_due(const struct region_sum *sum) {
  const struct region_instance_table *table = sum->tables;
  while (table != NULL && table->scans_due <= table->scan.underway)
    table = table->next_of_sum;
  return table != NULL;
}

/* True if the sum must not yet be replaced by a sum with other fields, because
 * its last counts must still be read or dispatched. */
static bool must_wait(const struct region_sum *sum) {
  return sum->round != sum->round_put || region_sum_has_due(sum) || is_due(sum);
}

/* Logs once why a table is not reported. If the table is left out for more than
 * one round, what was counted in these rounds is never reported. */
static void leave_out(struct region_instance_table *table, const char *name,
                      const char *why) {
  table->from_zero &= !table->odd_told;
  WARN_ONCE(table->odd_told, "percore: region %s: table %s is left out%s",
            table->instance->label, name, why);
}

/* Makes a sum for table t. If `replaced` is not NULL, the new sum takes the
 * place of *replaced, which has other fields. Returns NULL if out of memory. */
static struct region_sum *make_sum(const struct region_instance *instance,
                                   uint32_t t, const char *name,
                                   struct region_sum **replaced) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  struct region_sum *before = replaced != NULL ? *replaced : NULL;
  struct region_sum *sum = region_sum_new(instance->config, directory, t, name,
                                          before != NULL && before->tsc_hz != 0
                                              ? before->tsc_hz
                                              : directory->header.tsc_hz,
                                          instance->allowance);
  if (sum != NULL && before == NULL && !add_sum(&instance->watch->sums, sum)) {
    region_sum_free(sum);
    return NULL;
  }
  if (sum == NULL || before == NULL)
    return sum;
  region_sum_inherit(sum, before);
  while (before->tables != NULL)
    region_table_leave(before->tables);
  region_sum_free(before);
  *replaced = sum;
  return sum;
}

/* Adds table t to its sum, which is created if necessary. A sum with other
 * fields is replaced, unless another live instance uses it: then table t is
 * left out while that instance lives. Returns false if the table must wait
 * until the next round. */
static bool join(struct region_instance *instance, uint32_t t) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  struct region_instance_table *table = &instance->tables[t];
  const char *table_name = directory->described[t].name;
  const char *name =
      instance->config->report_per_instance ? instance->name : "";
  struct region_sum **found = find_sum(instance, name, table_name);
  bool shares = found != NULL && region_sum_is_shared(*found, instance);
  bool fits = found != NULL && region_sum_fits(*found, directory, t);
  if (!fits && shares) {
    leave_out(table, table_name,
              ", because its fields differ from those of other instances; set "
              "ReportPerInstance true to report it.");
    return true;
  }
  if (!fits && found != NULL && must_wait(*found))
    return false;
  struct region_sum *sum = fits ? *found : make_sum(instance, t, name, found);
  if (sum == NULL) {
    leave_out(table, table_name,
              ": MaxMemory leaves too little for it; raise MaxMemory.");
    return true;
  }
  region_table_join(table, sum);
  return true;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

/* True if any value of the sum is reported. */
static bool is_reported(const struct region_sum *sum) {
  bool any = false;
  for (uint32_t f = 0; f < sum->shape.field_count; f++)
    any |= sum->shape.fields[f].wanted;
  return any && (sum->region_config->report_host || sum->copies > 1);
}

static void begin_table(struct region_instance *instance, uint32_t t,
                        bool ended) {
  struct region_instance_table *table = &instance->tables[t];
  bool is_amid = table->scan.underway;
  table->scans_due = ended ? 1 + is_amid : 0;
  if (table->sum == NULL && !join(instance, t))
    return; /* tries again in the next round */
  if (table->sum == NULL || !is_reported(table->sum) ||
      !region_table_begin(table, ended))
    table->scans_due = 0;
}

bool region_instance_is_amid(const struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->table_count; t++)
    if (instance->tables[t].scan.underway || instance->tables[t].scans_due > 0)
      return true;
  return false;
}

bool region_instance_is_drained(const struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->table_count; t++)
    if (instance->tables[t].scans_due > 0)
      return false;
  return true;
}

/* Reads the next piece of a table. Returns false if there is nothing left to
 * read. */
static bool read_piece(struct region_instance *instance, uint64_t *cells_left) {
  for (uint32_t n = 0; n < instance->table_count; n++) {
    uint32_t t = instance->next_table++ % instance->table_count;
    struct region_instance_table *table = &instance->tables[t];
    if (table->scans_due > 0 && !table->scan.underway)
      begin_table(instance, t, true);
    if (!table->scan.underway)
      continue;
    region_table_read(table, cells_left);
    return true;
  }
  return false;
}

void region_instance_read(struct region_instance *instance, uint64_t until_ns) {
  const struct region_watch *watch = instance->watch;
  instance->turn = watch->round;
  do {
    uint64_t cells_left = REGION_PIECE_CELLS;
    while (cells_left > 0)
      if (!read_piece(instance, &cells_left))
        return;
  } while (
      region_watch_is_wanted(watch) &&
      (watch->options.now_ns == NULL || region_watch_now_ns(watch) < until_ns));
}

void region_instance_begin(struct region_instance *instance, bool ended) {
  struct region_watch *watch = instance->watch;
  const struct region_config *config = instance->config;
  for (uint32_t t = 0; t < instance->table_count; t++)
    begin_table(instance, t, ended);
  count_refusals(instance);
  watch->useful.host |= config->report_host;
  if (region_workers_look(
          &instance->workers, instance->reader, watch->now.monotonic_ns,
          instance->began_lately, ended,
          config->report_per_core != REGION_PER_CORE_NONE, &watch->useful) != 0)
    watch->snapshot->memory_short = true;
  instance->began_lately = false;
}
