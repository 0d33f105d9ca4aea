/* Tests that the values in the data stores add up to the true counts, whatever
 * happens to rows, producers and snapshots. Plays random events, and compares
 * the stored values with a model that only adds the counts.
 *
 * The environment variable PERCORE_PROPERTY_SEED is the first seed (default 1),
 * and PERCORE_PROPERTY_SEEDS is the number of seeds. A failure names its seed.
 */
#include "calls.h"
#include "region_host.h"

#define PLACES 2
#define CORES 4
#define ROUNDS 40
#ifdef __SANITIZE_ADDRESS__ /* five times slower */
#define SEEDS 30
#else
#define SEEDS 120
#endif
#define MOST_ROWS 64

enum { PORTS, FLOWS, SLOWS, WIDES, ALL_TABLES };
/* PACKET to ALL are counted; the last three are buckets of `lengths`. */
enum { PACKET, BYTE, SHORT, MEDIUM, ALL, OPEN, COUNTED = OPEN };

static const char *const table_names[] = {"port", "flow", "slow", "wide"};
static const struct {
  const char *field, *bucket;
} counted_names[] = {{"packets", ""},
                     {"bytes", ""},
                     {"lengths", "_le_1"},
                     {"lengths", "_le_7"},
                     {"lengths", "_le_inf"}};
static const char *const row_names[] = {"a",   "b",   "c",     "d", "e",
                                        "o p", "o;p", "other", "x", "y"};
#define NAMES COUNT_OF(row_names)

#define COUNTERS                                                               \
  {.name = "packets", .unit = "packets"}, { .name = "bytes", .unit = "bytes" }
#define OPEN_UPDOWN                                                            \
  { .name = "open", .unit = "1", .kind = PERCORE_UPDOWN }
#define LENGTHS                                                                \
  {                                                                            \
    .name = "lengths", .unit = "bytes", .kind = PERCORE_HISTOGRAM,             \
    .max_bits = 5                                                              \
  }
#define SIZES                                                                  \
  {                                                                            \
    .name = "sizes", .unit = "bytes", .kind = PERCORE_HISTOGRAM,               \
    .sub_bits = 8, .max_bits = 20                                              \
  }

static const struct percore_field fields_one[] = {COUNTERS, OPEN_UPDOWN,
                                                  LENGTHS, SIZES};
static const struct percore_field fields_two[] = {
    {.name = "drops", .unit = "packets"},
    OPEN_UPDOWN,
    COUNTERS,
    LENGTHS,
    SIZES};

static const struct percore_field fields_three[] = {COUNTERS, LENGTHS, SIZES};
static const struct percore_field fields_four[] = {
    {.name = "drops", .unit = "packets"}, COUNTERS, LENGTHS, SIZES};

/* Two schemas, and two of counters alone. columns[] is the column of each
 * counted field, the first column of `lengths`, and the column of `open`. */
static const struct {
  const struct percore_field *fields;
  uint32_t field_count;
  unsigned columns[OPEN + 1];
} schemas[] = {{fields_one, 4, {0, 1, 3, 3, 3, 2}},
               {fields_two, 5, {2, 3, 4, 4, 4, 1}},
               {fields_three, 3, {0, 1, 2, 2, 2}},
               {fields_four, 4, {1, 2, 3, 3, 3}}};

static const struct {
  enum percore_storage storage;
  uint32_t rows, flags;
} storages[] = {[PORTS] = {PERCORE_PER_CORE, 5, 0},
                [FLOWS] = {PERCORE_OWNED, 4, PERCORE_NO_RESET},
                [SLOWS] = {PERCORE_SHARED, 3, 0},
                [WIDES] = {PERCORE_OWNED, MOST_ROWS, 0}};

/* ---------------------------------------------------------------------------
 * The model
 */

struct row {
  bool live;
  size_t name; /* index of the name of the row's last object */
  int64_t open;
};

struct producer {
  struct percore_region *region;
  unsigned schema, age; /* age in rounds */
  bool single;          /* its table `flow` has a single row */
  struct row rows[ALL_TABLES][MOST_ROWS + 1];
};

/* What a data store knows of a series that stores its rates: how much it has
 * grown from one point to the next. */
struct series {
  char name[3 * DATA_MAX_NAME_LEN];
  cdtime_t time;
  int64_t last, grown;
  bool begun;
};

static struct {
  unsigned seed;
  uint64_t state;
  /* The scenario. */
  unsigned tables, instances, top;
  bool per_core, row_option, drops, pieces, short_of_memory, few_values;
  bool singles; /* producers may have single rows */
  bool few_new_rows;
  bool counters; /* tables have nothing else: they are read in another way */
  /* The result of the events so far. */
  struct producer producers[PLACES];
  int64_t counted[ALL_TABLES][COUNTED];
  int64_t by_core[CORES][COUNTED]; /* of `port` */
  struct series series[2000];
  size_t series_len;
  bool inexact;       /* some counts are no longer known exactly */
  bool gauges_differ; /* gauges may differ: a row or producer began or ended */
  /* Number of rounds since the schema changed. Only rounds whose snapshots are
   * known to have been dispatched are counted. */
  unsigned schema_age;
} play;

static unsigned random_below(unsigned bound) {
  play.state = play.state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(play.state >> 33) % bound;
}

static bool chance(unsigned of) { return random_below(of) == 0; }

static void count_in_model(unsigned t, unsigned field, int core, int64_t n) {
  play.counted[t][field] += n;
  if (t == PORTS && core >= 0)
    play.by_core[core][field] += n;
}

/* ---------------------------------------------------------------------------
 * Events
 */

static struct producer *some_producer(void) {
  struct producer *producer = &play.producers[random_below(play.instances)];
  return producer->region != NULL ? producer : NULL;
}

/* Fills the table with rows that are never counted, so that reading the table
 * takes two pieces. */
static void fill_wide_table(struct percore_region *region) {
  char name[16];
  for (int i = 0; i < MOST_ROWS - 12; i++) {
    snprintf(name, sizeof(name), "b%d", i);
    unit_row(region, WIDES, name);
  }
}

static void begin_producer(unsigned place) {
  struct producer *producer = &play.producers[place];
  struct percore_table tables[ALL_TABLES];
  unsigned schema = chance(3) + 2 * play.counters;
  bool single = play.singles && (play.state >> 40) % 2 == 0;
  for (unsigned p = 0; p < play.instances; p++)
    if (play.producers[p].region != NULL) {
      schema = play.producers[p].schema;
      single = play.producers[p].single;
    }
  for (unsigned t = 0; t < ALL_TABLES; t++)
    tables[t] = (struct percore_table){
        .name = table_names[t],
        .storage = storages[t].storage,
        .fields = schemas[schema].fields,
        .field_count = schemas[schema].field_count + (t == WIDES),
        .max_rows = storages[t].rows,
        .row_name_size = 24,
        .flags = storages[t].flags};
  if (single)
    tables[FLOWS].max_rows = tables[FLOWS].row_name_size = 0;
  if (schema != producer->schema || single != producer->single)
    play.schema_age = 0;
  *producer = (struct producer){
      .schema = schema,
      .single = single,
      .rows[FLOWS][0].live = single,
      .region =
          create(place, play.instances > 1 ? (place ? "two" : "one") : NULL,
                 tables, play.tables)};
  if (play.tables > WIDES)
    fill_wide_table(producer->region);
  play.gauges_differ = true;
}

static void end_some_producer(void) {
  unsigned place = random_below(play.instances);
  struct producer *producer = &play.producers[place];
  /* If the producer had never been read, its counts would be lost. */
  if (producer->region == NULL || producer->age < (play.pieces ? 12u : 3u))
    return;
  if (chance(2))
    abandon_producer(place);
  end_producer(place);
  producer->region = NULL;
  play.gauges_differ = true;
  if (chance(2))
    begin_producer(place);
}

static unsigned column_of(const struct producer *producer, unsigned field) {
  return schemas[producer->schema].columns[field];
}

static uint32_t row_named(const struct producer *producer, unsigned t,
                          size_t name) {
  for (uint32_t row = 0; row <= storages[t].rows; row++)
    if (producer->rows[t][row].live && producer->rows[t][row].name == name)
      return row;
  return UINT32_MAX;
}

static void add_some_row(struct producer *producer, unsigned t) {
  uint32_t row;
  size_t name = random_below(NAMES);
  if (make_row(producer->region, t, row_names[name], &row) != 0)
    return; /* the row already exists, or the table is full */
  struct row *into = &producer->rows[t][row];
  *into = (struct row){.live = true, .name = name};
}

static void remove_some_row(struct producer *producer, unsigned t) {
  uint32_t row = row_named(producer, t, random_below(NAMES));
  if (row == UINT32_MAX || (producer->single && t == FLOWS))
    return;
  assert_int_equal(
      percore_row_remove(producer->region, t, row, PERCORE_NO_UPDATE_IN_FLIGHT),
      0);
  producer->rows[t][row].live = false;
  play.gauges_differ = true;
}

/* Adds `n` to a column of a row. In a PER_CORE table, uses the slot of `core`,
 * or the shared block if `core` is -1. */
static void add_to_cell(struct producer *producer, unsigned t, uint32_t row,
                        unsigned column, int core, int64_t n) {
  uint32_t shared;
  percore_table_t owned;
  uint32_t per_core;
  percore_slot_t slot;
  if (storages[t].storage == PERCORE_OWNED) {
    owned = unit_owned_table(producer->region, t);
    percore_add(percore_row(owned, row), column, (uint64_t)n);
  } else if (storages[t].storage == PERCORE_SHARED || core < 0) {
    shared = t;
    percore_shared_add(percore_shared_row(producer->region, shared, row),
                       column, (uint64_t)n);
  } else {
    per_core = t;
    assert_int_equal(attach_thread(producer->region, "w", core, &slot), 0);
    percore_add(percore_row(percore_table(slot, per_core), row), column,
                (uint64_t)n);
    assert_int_equal(percore_detach(slot), 0);
  }
}

static void count_somewhere(struct producer *producer, unsigned t) {
  uint32_t row = row_named(producer, t, random_below(NAMES));
  if (row == UINT32_MAX)
    return;
  unsigned field = random_below(SHORT + 1), bucket = 0;
  int core = (int)random_below(CORES + 1) - 1;
  int64_t n = 1 + random_below(chance(4) ? 1000 : 10);
  if (field == SHORT)
    bucket = random_below(6); /* of 0, 1, 2 to 3, 4 to 7, 8 to 15, more */
  add_to_cell(producer, t, row, column_of(producer, field) + bucket, core, n);
  if (field != SHORT || bucket <= 1)
    count_in_model(t, field, core, n);
  if (field == SHORT && bucket <= 3)
    count_in_model(t, MEDIUM, core, n);
  if (field == SHORT)
    count_in_model(t, ALL, core, n);
}

/* Updates a row after its removal. The table's sum still includes such updates.
 */
static void count_late(struct producer *producer, unsigned t) {
  uint32_t row = 1 + random_below(storages[t].rows);
  if (producer->rows[t][row].live || producer->rows[t][row].name == 0)
    return;
  add_to_cell(producer, t, row, column_of(producer, PACKET), -1, 1);
  count_in_model(t, PACKET, -1, 1);
}

static void open_somewhere(struct producer *producer, unsigned t) {
  uint32_t row = row_named(producer, t, random_below(NAMES));
  if (row == UINT32_MAX || play.counters)
    return;
  int64_t n = (int64_t)random_below(20) - 8;
  add_to_cell(producer, t, row, column_of(producer, OPEN),
              (int)random_below(CORES + 1) - 1, n);
  producer->rows[t][row].open += n;
}

static void reset_somewhere(struct producer *producer, unsigned t) {
  (void)percore_reset(producer->region, t, PERCORE_ALL_ROWS);
}

static void reuse_rows(struct producer *producer, unsigned t) {
  for (unsigned n = 1 + random_below(6); n > 0; n--) {
    remove_some_row(producer, t);
    add_some_row(producer, t);
    count_somewhere(producer, t);
  }
}

static void play_events(void) {
  static void (*const events[])(struct producer *, unsigned) = {
      add_some_row,    add_some_row,    remove_some_row,
      count_somewhere, count_somewhere, count_late,
      open_somewhere,  reset_somewhere, reuse_rows};
  for (unsigned n = random_below(16); n > 0; n--) {
    struct producer *producer = some_producer();
    unsigned t = random_below(play.tables);
    if (producer != NULL)
      events[random_below(COUNT_OF(events))](producer, t);
  }
  if (chance(8))
    end_some_producer();
  unsigned place = random_below(play.instances);
  if (chance(6) && play.producers[place].region == NULL)
    begin_producer(place);
}

/* ---------------------------------------------------------------------------
 * The values in the data stores
 */

static struct series *series_of(const value_list_t *list) {
  char name[sizeof(play.series[0].name)];
  snprintf(name, sizeof(name), "%s/%s/%s", list->plugin, list->plugin_instance,
           list->type_instance);
  for (size_t i = 0; i < play.series_len; i++)
    if (strcmp(play.series[i].name, name) == 0)
      return &play.series[i];
  assert_true(play.series_len < COUNT_OF(play.series));
  struct series *series = &play.series[play.series_len++];
  memcpy(series->name, name, sizeof(name));
  return series;
}

static void store(const struct fake_value *value) {
  int64_t count = value->values[0].derive;
  if (strcmp(value->list.type, "derive") != 0 ||
      strcmp(value->list.plugin_instance, "self") == 0)
    return;
  struct series *series = series_of(&value->list);
  if (series->begun && value->list.time <= series->time &&
      !play.short_of_memory)
    fail_msg("%s: time goes back: %.6f %lld after %.6f %lld", series->name,
             CDTIME_T_TO_DOUBLE(value->list.time), (long long)count,
             CDTIME_T_TO_DOUBLE(series->time), (long long)series->last);
  if (!series->begun && count != 0)
    fail_msg("%s begins with %lld", series->name, (long long)count);
  if (series->begun && count < series->last && !play.short_of_memory)
    fail_msg("%s falls from %lld to %lld", series->name,
             (long long)series->last, (long long)count);
  if (series->begun && count > series->last)
    series->grown += count - series->last;
  series->begun = true;
  series->last = count;
  series->time = value->list.time;
}

static void store_all(void) {
  for (size_t i = 0; i < fake.values_len; i++)
    store(&fake.values[i]);
}

/* Adds up the series that begin and end like this. */
static int64_t sum_of(const char *prefix, const char *end) {
  int64_t sum = 0;
  for (size_t i = 0; i < play.series_len; i++) {
    const char *name = play.series[i].name;
    size_t length = strlen(name);
    if (strncmp(name, prefix, strlen(prefix)) == 0 &&
        strcmp(name + length - strlen(end), end) == 0)
      sum += play.series[i].grown;
  }
  return sum;
}

static void check_sum(const char *prefix, const char *end, int64_t counted,
                      bool exact) {
  int64_t sum = sum_of(prefix, end);
  if (sum > counted || (exact && sum != counted))
    fail_msg("%s...%s adds up to %lld, but %lld were counted", prefix, end,
             (long long)sum, (long long)counted);
}

static void check_counters(bool exact) {
  char prefix[128];
  for (unsigned t = 0; t < play.tables; t++)
    for (unsigned f = 0; f < COUNTED; f++) {
      const char *field = counted_names[f].field;
      const char *end = counted_names[f].bucket;
      snprintf(prefix, sizeof(prefix), "percore_host_unit_%s_%s/all/",
               table_names[t], field);
      check_sum(prefix, end, play.counted[t][f], exact);
      for (int core = 0; t == PORTS && play.per_core && core < CORES; core++) {
        snprintf(prefix, sizeof(prefix), "percore_unit_port_%s/%d/", field,
                 core);
        check_sum(prefix, end, play.by_core[core][f],
                  exact && !play.few_values);
      }
    }
}

static void check_gauges(unsigned t) {
  int64_t expected = 0;
  char plugin[128];
  double sum = 0;
  snprintf(plugin, sizeof(plugin), "percore_host_unit_%s_open", table_names[t]);
  for (unsigned p = 0; p < play.instances; p++)
    for (uint32_t row = 0; row <= storages[t].rows; row++) {
      const struct row *object = &play.producers[p].rows[t][row];
      if (play.producers[p].region != NULL && object->live)
        expected += object->open;
    }
  for (size_t i = 0; i < fake.values_len; i++)
    if (strcmp(fake.values[i].list.plugin, plugin) == 0)
      sum += fake.values[i].values[0].gauge;
  if (sum != (double)expected)
    fail_msg("%s adds up to %g, but %lld are open", plugin, sum,
             (long long)expected);
}

/* Rows that Top has just hidden are dispatched once more. */
static void check_places(void) {
  for (unsigned t = 0; play.top > 0 && t < play.tables; t++) {
    char plugin[128];
    size_t shown = 0;
    snprintf(plugin, sizeof(plugin), "percore_host_unit_%s_packets",
             table_names[t]);
    for (size_t i = 0; i < fake.values_len; i++)
      shown += strcmp(fake.values[i].list.plugin, plugin) == 0;
    assert_true(shown <= 2 * play.top + 1);
  }
}

/* ---------------------------------------------------------------------------
 * A play
 */

static void look(bool quiet) {
  bool gauges_differ = play.gauges_differ;
  play.gauges_differ = false;
  if (play.drops && !quiet && chance(4)) {
    play_round_set_back();
    play.gauges_differ |= gauges_differ;
  } else {
    play_round(SECOND);
  }
  for (unsigned p = 0; p < play.instances; p++)
    play.producers[p].age++;
  check_places();
  store_all();
  /* If a table or region does not fit into MaxMemory, a warning is logged. */
  bool is_left_out =
      fake_logged(LOG_WARNING, "is left out: MaxMemory") != NULL ||
      fake_logged(LOG_WARNING, "leave too little for it") != NULL ||
      fake_logged(LOG_WARNING, "is not read") != NULL;
  play.inexact |= is_left_out;
  bool is_whole = !is_left_out && !play.pieces && play.schema_age >= 2;
  check_counters(quiet && is_whole && !play.inexact && !play.drops);
  for (unsigned t = 0;
       quiet && is_whole && !gauges_differ && !play.counters && t < play.tables;
       t++)
    check_gauges(t);
  play.schema_age++;
}

/* Writes a configuration in which all tables have the same options. */
static void configure(char *lines, size_t size) {
  size_t used =
      (size_t)snprintf(lines, size, "<Region \"unit\">\nReportPerCore %s\n%s",
                       play.per_core ? "true" : "false",
                       play.few_new_rows ? "MaxNewRows 2\n" : "");
  for (unsigned t = 0; t < play.tables; t++) {
    used += (size_t)snprintf(lines + used, size - used, "<Table \"%s\">\n",
                             table_names[t]);
    used += (size_t)snprintf(lines + used, size - used,
                             "Field \"packets\" \"bytes\" \"lengths\"%s\n"
                             "Buckets \"lengths\" 1 7\n",
                             play.counters ? "" : " \"open\"");
    if (play.top > 0)
      used += (size_t)snprintf(lines + used, size - used,
                               "Top %u \"packets\"\n", play.top);
    if (play.row_option)
      used += (size_t)snprintf(lines + used, size - used, "Row \"/^[a-o]/\"\n");
    used += (size_t)snprintf(lines + used, size - used, "</Table>\n");
  }
  snprintf(lines + used, size - used, "</Region>\n");
}

static void play_seed(unsigned seed) {
  char lines[1024];
  memset(&play, 0, sizeof(play));
  play.seed = seed;
  play.state = seed * UINT64_C(0x9e3779b97f4a7c15);
  play.instances = 1 + chance(2);
  play.top = chance(2) ? 1 + random_below(3) : 0;
  play.per_core = chance(2);
  play.row_option = chance(4);
  play.drops = chance(4);
  play.pieces = chance(6);
  play.short_of_memory = chance(8);
  play.few_values = chance(4);
  play.singles = seed % 4 == 0;
  play.few_new_rows = seed % 3 == 0;
  play.counters = seed % 5 >= 3;
  play.tables = play.pieces || play.short_of_memory ? 4 : 3;
  fprintf(stderr,
          "seed %u: instances %u top %u cores %d row %d drops %d "
          "pieces %d memory %d values %d singles %d new rows %d counters %d\n",
          seed, play.instances, play.top, play.per_core, play.row_option,
          play.drops, play.pieces, play.short_of_memory, play.few_values,
          play.singles, play.few_new_rows, play.counters);
  set_up();
  host_now_ns = play.pieces ? time_passes : NULL;
  host_looks = 1 + seed % 3;
  host_memory_max = play.short_of_memory ? (size_t)1 << 20 : 0;
  host_values_max = play.few_values ? 200 + random_below(200) : 0;
  host_settles = false;
  configure(lines, sizeof(lines));
  start_watch(lines);
  for (unsigned round = 0; round < ROUNDS; round++) {
    play_events();
    look(false);
  }
  for (unsigned round = 0; round < (play.pieces ? 100u : 4u); round++)
    look(true);
  check_counters(!play.inexact);
  tear_down();
}

static unsigned from_environment(const char *name, unsigned otherwise) {
  const char *text = getenv(name);
  return text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

TEST(the_stores_have_exactly_the_true_counts) {
  unsigned first = from_environment("PERCORE_PROPERTY_SEED", 1);
  unsigned seeds = from_environment("PERCORE_PROPERTY_SEEDS", SEEDS);
  play_seed(1791); /* a core gets room after the schema has changed */
  for (unsigned seed = first; seed < first + seeds; seed++)
    play_seed(seed);
}
