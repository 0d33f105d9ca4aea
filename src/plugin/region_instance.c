#include "region_instance.h"

#include "utils/common/common.h"

/* Cells of a tile: 1 MiB of them. A tile stays in a cache, and a thread that is
 * to end looks whether it is after each. */
#define TILE_CELLS 131072

/* ---------------------------------------------------------------------------
 * Tables
 */

static void free_table(struct region_instance_table *table) {
  region_accounts_free(table->accounts);
  region_tile_free(&table->tile);
  free(table->found);
  free(table->cache);
  free(table->name);
}

static void free_tables(struct region_instance_table *tables, uint32_t count) {
  for (uint32_t t = 0; tables != NULL && t < count; t++)
    free_table(&tables[t]);
  free(tables);
}

void region_instance_free_tables(struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->table_count; t++)
    if (instance->tables[t].sum != NULL)
      region_sum_drop(instance->tables[t].sum, instance);
  free_tables(instance->tables, instance->table_count);
  instance->tables = NULL;
  instance->table_count = 0;
}

static struct region_instance_table *
find_table(const struct region_instance *instance, const char *name) {
  for (uint32_t t = 0; t < instance->table_count; t++)
    if (strcmp(instance->tables[t].name, name) == 0)
      return &instance->tables[t];
  return NULL;
}

/* The accounts of a table go on with the next producer if it has the same
 * fields. */
static void take_over(struct region_watch *watch,
                      const struct region_instance *instance,
                      struct region_instance_table *table,
                      const struct region_directory *directory, uint32_t t) {
  struct region_instance_table *before = find_table(instance, table->name);
  if (before == NULL || before->sum == NULL ||
      !region_sum_fits(before->sum, directory, t))
    return;
  table->sum = before->sum;
  table->accounts = before->accounts;
  before->accounts = NULL;
  before->sum = NULL;
  /* What another producer counted while this table could not be read belongs to
   * that time, unless others were reported meanwhile. */
  table->joined = before->joined && table->sum->round_put + 1 < watch->round;
}

bool region_instance_came(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  uint64_t lately = watch->last.boottime_ns;
  lately -= MIN(lately, watch->options.interval_ns);
  instance->began_lately =
      directory->header.start_boottime_ns >= lately &&
      directory->header.start_boottime_ns <= now->boottime_ns;
  struct region_instance_table *tables =
      calloc(directory->table_count, sizeof(*tables));
  bool complete = tables != NULL;
  for (uint32_t t = 0; complete && t < directory->table_count; t++) {
    tables[t].name = strdup(directory->described[t].name);
    complete = tables[t].name != NULL;
    if (complete)
      take_over(watch, instance, &tables[t], directory, t);
  }
  region_instance_free_tables(instance);
  region_workers_reset(&instance->workers);
  if (!complete) {
    free_tables(tables, tables != NULL ? directory->table_count : 0);
    return false;
  }
  instance->tables = tables;
  instance->table_count = directory->table_count;
  instance->producer = region_reader_producer(instance->reader);
  return true;
}

/* ---------------------------------------------------------------------------
 * Which sum a table is added to
 */

static struct region_sum_entry *find_entry(struct region_sums *sums,
                                           const char *region,
                                           const char *instance,
                                           const char *table) {
  for (size_t i = 0; i < sums->len; i++) {
    struct region_sum_entry *entry = &sums->list[i];
    if (strcmp(entry->region, region) == 0 &&
        strcmp(entry->instance, instance) == 0 &&
        strcmp(entry->sum->table, table) == 0)
      return entry;
  }
  return NULL;
}

static struct region_sum *add_entry(struct region_sums *sums,
                                    const char *region, const char *instance,
                                    struct region_sum *sum) {
  struct region_sum_entry *list =
      realloc(sums->list, (sums->len + 1) * sizeof(*list));
  if (list == NULL)
    return NULL;
  sums->list = list;
  struct region_sum_entry *entry = &list[sums->len];
  entry->region = strdup(region);
  entry->instance = strdup(instance);
  entry->sum = sum;
  if (entry->region == NULL || entry->instance == NULL) {
    free(entry->region);
    free(entry->instance);
    return NULL;
  }
  sums->len++;
  return sum;
}

/* Whether another instance that is alive is added to it. */
static bool is_in_use(const struct region_watch *watch,
                      const struct region_sum *sum,
                      const struct region_instance *but) {
  for (const struct region_instance *instance = watch->instances;
       instance != NULL; instance = instance->next)
    for (uint32_t t = 0; t < instance->table_count; t++)
      if (instance != but && instance->tables[t].sum == sum &&
          region_reader_presence(instance->reader) == REGION_ALIVE)
        return true;
  return false;
}

static void clear_cache(struct region_instance_table *table) {
  if (table->cache != NULL)
    memset(table->cache, 0, table->cache_len * sizeof(table->cache[0]));
}

/* Nobody adds to it any more. */
static void abandon(struct region_watch *watch, const struct region_sum *sum) {
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    for (uint32_t t = 0; t < instance->table_count; t++)
      if (instance->tables[t].sum == sum) {
        instance->tables[t].sum = NULL;
        instance->tables[t].joined = false;
        clear_cache(&instance->tables[t]);
      }
}

/* A sum for table t. An old one with other fields is replaced, unless another
 * instance uses it: then this table is left out for as long as that one lives.
 */
static bool join(struct region_watch *watch, struct region_instance *instance,
                 uint32_t t) {
  struct region_instance_table *table = &instance->tables[t];
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  bool apart = instance->config->report_per_instance && instance->name[0] != 0;
  const char *name = apart ? instance->name : "";
  struct region_sum_entry *entry =
      find_entry(&watch->sums, instance->region, name, table->name);
  if (entry != NULL && region_sum_fits(entry->sum, directory, t)) {
    table->sum = entry->sum;
    return true;
  }
  /* The last values of the producer before are still to be put. */
  if (entry != NULL && entry->sum->round == watch->round &&
      !is_in_use(watch, entry->sum, instance)) {
    instance->postponed = true;
    return true;
  }
  if (entry != NULL && is_in_use(watch, entry->sum, instance)) {
    if (!table->odd_told)
      WARNING("percore: region %s@%s: table %s has other fields than that of "
              "the other instances and is left out; ReportPerInstance would "
              "tell them apart.",
              instance->region, instance->name, table->name);
    table->odd_told = true;
    return true;
  }
  uint64_t tsc_hz = entry != NULL ? entry->sum->tsc_hz : 0;
  if (tsc_hz == 0)
    tsc_hz = directory->header.tsc_hz;
  struct region_sum *sum = region_sum_new(instance->config, directory, t,
                                          apart ? name : NULL, tsc_hz);
  if (sum == NULL)
    return false;
  if (entry == NULL) {
    table->sum = add_entry(&watch->sums, instance->region, name, sum);
    if (table->sum == NULL)
      region_sum_free(sum);
    return table->sum != NULL;
  }
  region_sum_inherit(sum, entry->sum);
  sum->round_put = entry->sum->round_put;
  abandon(watch, entry->sum);
  region_sum_free(entry->sum);
  entry->sum = table->sum = sum;
  return true;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

/* Memory for as many rows at once as make a good tile. */
static bool make_tile(struct region_instance *instance, uint32_t t) {
  struct region_instance_table *table = &instance->tables[t];
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  uint32_t want = region_sum_want(table->sum);
  uint64_t cells = (uint64_t)table->sum->columns * table->sum->copies;
  uint64_t rows = TILE_CELLS / cells;
  rows = MAX(1, MIN(rows, directory->tables[t].max_rows));
  if (table->accounts == NULL)
    table->accounts = region_accounts_new(want);
  table->found = calloc(rows, sizeof(struct region_account *));
  if (table->accounts != NULL && table->found != NULL &&
      region_tile_init(&table->tile, instance->reader, t, (uint32_t)rows,
                       REGION_WANT_BIRTHS | want) == 0)
    return true;
  free(table->found);
  table->found = NULL;
  return false;
}

static bool make_cache(struct region_instance_table *table, uint32_t rows) {
  if (rows <= table->cache_len)
    return true;
  uint32_t len = MAX(rows, 2 * table->cache_len);
  struct region_sum_row **cache =
      realloc(table->cache, len * sizeof(struct region_sum_row *));
  if (cache == NULL)
    return false;
  memset(cache + table->cache_len, 0,
         (len - table->cache_len) * sizeof(struct region_sum_row *));
  table->cache = cache;
  table->cache_len = len;
  return true;
}

/* Whether anything of it is reported at all. */
static bool is_reported(const struct region_sum *sum) {
  bool any = false;
  for (uint32_t f = 0; f < sum->field_count; f++)
    any |= sum->fields[f].wanted;
  return any && (sum->region_config->report_host || sum->copies > 1);
}

static bool read_tile(struct region_watch *watch,
                      struct region_instance *instance,
                      struct region_instance_table *table, uint32_t first,
                      bool count) {
  struct region_tile *tile = &table->tile;
  region_tile_read(instance->reader, tile, first);
  bool complete = make_cache(table, first + tile->rows) &&
                  region_accounts_take(table->accounts, instance->reader, tile,
                                       watch->round, table->found) == 0;
  if (!complete)
    return false;
  for (uint32_t i = 0; i < tile->rows; i++) {
    if (table->found[i] == NULL)
      continue;
    struct region_sum_row **cache = &table->cache[first + i];
    *cache =
        region_sum_add(table->sum, instance, table->found[i], count, *cache);
    complete &= *cache != NULL;
  }
  if (tile->core_used != NULL)
    region_sum_use_cores(table->sum, tile->core_used);
  return complete;
}

static bool read_table(struct region_watch *watch,
                       struct region_instance *instance, uint32_t t) {
  struct region_instance_table *table = &instance->tables[t];
  if (table->sum == NULL && !join(watch, instance, t))
    return false;
  if (table->sum == NULL || !is_reported(table->sum))
    return true;
  if (table->found == NULL && !make_tile(instance, t))
    return false;
  bool count = table->joined || instance->began_lately;
  bool complete = true;
  region_sum_begin(table->sum, watch->round);
  uint32_t first = 0;
  do {
    complete &= read_tile(watch, instance, table, first, count);
    first += table->tile.rows;
  } while (table->tile.rows > 0 && table->tile.rows == table->tile.capacity &&
           watch->options.is_wanted(watch->options.argument));
  table->joined = true;
  return complete;
}

bool region_instance_read(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now, bool ended) {
  const struct region_config *config = instance->config;
  bool complete = true;
  instance->postponed = false;
  for (uint32_t t = 0; t < instance->table_count; t++)
    complete &= read_table(watch, instance, t);
  watch->useful->host |= config->report_host;
  complete &=
      region_workers_look(&instance->workers, instance->reader,
                          now->monotonic_ns, instance->began_lately, ended,
                          config->report_per_core != REGION_PER_CORE_NONE,
                          watch->useful) == 0;
  instance->began_lately &= instance->postponed;
  return complete;
}

void region_instance_forget(struct region_instance *instance, uint64_t round) {
  for (uint32_t t = 0; t < instance->table_count; t++) {
    struct region_instance_table *table = &instance->tables[t];
    if (table->accounts != NULL)
      region_accounts_forget(table->accounts, round);
    clear_cache(table);
  }
}
