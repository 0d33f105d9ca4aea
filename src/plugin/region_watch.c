#include "region_watch.h"

#include "put.h"
#include "regions.h"

#include "base/clock.h"

#include "utils/common/common.h"

#define TOPOLOGY_NS                                                            \
  UINT64_C(60000000000) /* time between refreshes of the topology */
/* How long a round waits for the answers of new producers. */
#define HELLO_WAITS 20
#define HELLO_WAIT_NS UINT64_C(1000000)
/* On a busy host, a round may end this long after its timestamp. If a producer
 * claims to have started even later, its clock is that of another time
 * namespace. */
#define ROUND_NS UINT64_C(10000000000)
/* How long a region is read before the next region's turn. */
#define TURN_NS UINT64_C(1000000)

struct region_watch *
region_watch_new(const struct region_watch_options *options,
                 uint64_t began_boottime_ns) {
  struct region_watch *watch = calloc(1, sizeof(*watch));
  if (watch == NULL)
    return NULL;
  watch->options = *options;
  watch->after_boottime_ns = began_boottime_ns - options->interval_ns;
  size_t values = (size_t)options->config->max_values;
  watch->memory = (struct region_pool){
      .max = (size_t)options->config->max_memory, .own = 1 << 20};
  watch->values = (struct region_pool){.max = values, .own = values / 256};
  return watch;
}

static void for_each(struct region_watch *watch,
                     void (*act)(struct region_instance *)) {
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    act(instance);
}

/* ---------------------------------------------------------------------------
 * Which sum an input is added to
 */

static bool is_reported(const struct region_sum *sum) {
  return sum->values > 0 &&
         (sum->budget->config->report_host || sum->copies > 1);
}

/* Returns the list element that points to the sum, or NULL. */
static struct region_sum **find_sum(struct region_budget *budget,
                                    const char *instance, const char *table) {
  struct region_sum **link = &budget->sums;
  while (*link != NULL && (strcmp((*link)->instance, instance) != 0 ||
                           strcmp((*link)->table, table) != 0))
    link = &(*link)->next;
  return *link != NULL ? link : NULL;
}

/* True if the sum must not yet be replaced by a sum with other fields, because
 * its last counts must still be read or dispatched. */
static bool must_wait(const struct region_sum *sum) {
  return sum->inputs != NULL || sum->is_new || region_sum_owes(sum);
}

/* True if another live instance is added to the sum. */
static bool is_shared(const struct region_sum *sum,
                      const struct region_instance *but) {
  const struct region_input *input = sum->inputs;
  while (input != NULL &&
         (input->instance == but || !region_instance_is_alive(input->instance)))
    input = input->next_of_sum;
  return input != NULL;
}

/* Leaves a table out. `part` is what the reason is about: the table or, if it
 * is NULL, the region, of which further tables are not named. */
static void refuse_table(struct region_input *input, const char *part,
                         const char *name, const char *why) {
  input->from_zero &= !input->left_out_once;
  input->left_out_once = true;
  region_warn(region_about(input->instance, part),
              "region %s: table %s is left out%s", input->instance->label, name,
              why);
}

/* Makes a sum for table t. If `replaced` is not NULL, the new sum takes the
 * place of *replaced, which has other fields. Returns NULL if out of memory. */
static struct region_sum *make_sum(const struct region_instance *instance,
                                   uint32_t t, const char *name,
                                   struct region_sum **replaced) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  struct region_sum *before = replaced != NULL ? *replaced : NULL;
  struct region_sum *sum = region_sum_new(directory, t, name,
                                          before != NULL && before->tsc_hz != 0
                                              ? before->tsc_hz
                                              : directory->header.tsc_hz,
                                          instance->budget);
  if (sum == NULL)
    return NULL;
  if (before != NULL) {
    region_sum_inherit(sum, before);
    *replaced = before->next;
    region_sum_free(before);
  }
  sum->next = instance->budget->sums;
  return instance->budget->sums = sum;
}

/* Adds input t to its sum, which is created if necessary. A sum with other
 * fields is replaced, unless another live instance uses it: then the input is
 * left out while that instance lives. */
static void join(struct region_instance *instance, uint32_t t) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  struct region_input *input = &instance->inputs[t];
  struct region_budget *budget = instance->budget;
  const char *table_name = directory->described[t].name;
  const char *name = budget->config->report_per_instance ? instance->name : "";
  struct region_sum **found = find_sum(budget, name, table_name);
  bool shared = found != NULL && is_shared(*found, instance);
  bool fits = found != NULL && region_sum_fits(*found, directory, t);
  if (!fits && shared) {
    refuse_table(
        input, table_name, table_name,
        ", because its fields differ from those of other instances; set "
        "ReportPerInstance true to report it.");
    return;
  }
  if (!fits && found != NULL && must_wait(*found))
    return;
  struct region_sum *sum = fits ? *found : make_sum(instance, t, name, found);
  if (sum != NULL && region_sum_begin(sum)) {
    input->sum = sum;
    input->next_of_sum = sum->inputs;
    sum->inputs = input;
    sum->unread++;
  } else
    refuse_table(
        input, NULL, table_name,
        ": MaxMemory or MaxValues leave too little for it, and perhaps for "
        "further tables; raise them.");
}

/* ---------------------------------------------------------------------------
 * One producer
 */

void region_instance_free_inputs(struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->input_count; t++)
    region_input_leave(&instance->inputs[t]);
  free(instance->inputs);
  instance->inputs = NULL;
  instance->input_count = instance->next_table = 0;
  instance->ended = false;
}

/* True if none of the producer's counts have been reported: it started after
 * the watch, and after every producer of the name that was read. */
static bool is_new_producer(struct region_instance *instance) {
  uint64_t now_ns = instance->watch->now.boottime_ns;
  uint64_t start_ns =
      region_reader_directory(instance->reader)->header.start_boottime_ns;
  bool is_new =
      start_ns >= instance->after_boottime_ns && start_ns <= now_ns + ROUND_NS;
  instance->after_boottime_ns =
      MAX(instance->after_boottime_ns, MIN(start_ns, now_ns) + 1);
  return is_new;
}

/* Returns the CLOCK_REALTIME when the producer started, at most the present. */
static uint64_t start_of(const struct region_instance *instance) {
  const struct region_moment *now = &instance->watch->now;
  uint64_t start_ns =
      region_reader_directory(instance->reader)->header.start_boottime_ns;
  uint64_t age_ns =
      now->boottime_ns > start_ns ? now->boottime_ns - start_ns : 0;
  return age_ns < now->stamp_ns ? now->stamp_ns - age_ns : 1;
}

/* Adds the growth of a producer's count since *last to *total. Ignores growth
 * that is impossible within an interval. */
static void follow_count(uint64_t now, uint64_t *last, uint64_t *total) {
  if (now - *last < UINT32_MAX)
    *total += now - *last;
  *last = now;
}

/* Reads, once in a round, the workers and what the producer refused. */
static void read_workers(struct region_instance *instance) {
  struct region_watch *watch = instance->watch;
  uint64_t adds = 0;
  if (instance->counted_in == watch->round)
    return;
  for (uint32_t t = 0; t < instance->input_count; t++)
    adds += region_reader_adds_refused(instance->reader, t);
  if (instance->counted_in == 0 && !instance->from_zero) {
    instance->attaches_refused = region_reader_attach_refused(instance->reader);
    instance->adds_refused = adds;
  }
  follow_count(region_reader_attach_refused(instance->reader),
               &instance->attaches_refused, &watch->attaches_refused);
  follow_count(adds, &instance->adds_refused, &watch->adds_refused);
  watch->useful.host |= instance->budget->config->report_host;
  (void)region_workers_read(&instance->workers, instance->reader,
                            watch->now.monotonic_ns, percore_tsc(),
                            instance->from_zero ? watch->useful.since_tsc : 0);
  region_useful_add(&watch->useful, &instance->workers,
                    instance->budget->config->report_per_core !=
                        REGION_PER_CORE_NONE);
  instance->counted_in = watch->round;
}

static void warn_of_unknown_tables(const struct region_instance *instance) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  const struct region_config *config = instance->budget->config;
  for (size_t i = 0; config->name != NULL && i < config->tables_len; i++) {
    const char *name = config->tables[i].name;
    uint32_t t = 0;
    while (t < directory->table_count &&
           strcmp(directory->described[t].name, name) != 0)
      t++;
    if (t == directory->table_count)
      region_warn(region_about(instance, name),
                  "Table \"%s\" is ignored: region %s has no such table.", name,
                  config->name);
  }
}

static void came(struct region_instance *instance) {
  uint32_t tables = region_reader_directory(instance->reader)->table_count;
  instance->restarted = region_reader_producer(instance->reader) > 1;
  instance->counted_in = instance->read_in = 0;
  instance->attaches_refused = instance->adds_refused = 0;
  region_workers_forget(&instance->workers);
  region_instance_free_inputs(instance);
  if (!region_budget_admits(instance->budget,
                            region_reader_uid(instance->reader)))
    return;
  instance->inputs = calloc(tables, sizeof(*instance->inputs));
  if (instance->inputs == NULL)
    return; /* tries again in the next round */
  instance->from_zero = is_new_producer(instance);
  instance->input_count = instance->next_table = tables;
  for (uint32_t t = 0; t < tables; t++)
    instance->inputs[t] =
        (struct region_input){.instance = instance,
                              .number = t,
                              .from_zero = instance->from_zero,
                              .start_ns = start_of(instance)};
  warn_of_unknown_tables(instance);
}

/* Returns the size of all rows in use of the tables that are read, at most. */
static size_t size_of_rows(const struct region_instance *instance) {
  struct region_reader *reader = instance->reader;
  size_t size = 0;
  for (uint32_t t = 0; t < instance->input_count; t++) {
    const struct region_table *table =
        &region_reader_directory(reader)->tables[t];
    size_t copies = table->storage == PERCORE_PER_CORE
                        ? 1 + region_reader_slots(reader)
                        : 1;
    size_t births = (1 + table->columns) * sizeof(uint64_t);
    if (instance->inputs[t].scans > 0)
      size +=
          region_reader_rows(reader, t) * (copies * table->row_stride + births);
  }
  return size;
}

/* True if the region is so large that it must be unmapped again after reading.
 * Together, regions keep at most half of the memory that is left mapped. */
static bool must_unmap(const struct region_instance *instance) {
  const struct region_watch *watch = instance->watch;
  const struct region_pool *memory = &watch->memory;
  size_t left = memory->used < memory->max ? memory->max - memory->used : 0;
  return size_of_rows(instance) > left / 2 / watch->instances_len;
}

/* True if some tables of the region are still to be read. */
static bool is_underway(const struct region_instance *instance) {
  return instance->next_table < instance->input_count;
}

/* Reads a table until `until_ns`, unless this pass of its sum has read it.
 * Returns false if the scan must go on. */
static bool read_table(struct region_instance *instance, uint32_t t,
                       uint64_t until_ns) {
  struct region_input *input = &instance->inputs[t];
  enum region_scan scan = REGION_SCAN_DONE;
  if (input->sum == NULL || !is_reported(input->sum)) {
    instance->missed |= input->sum == NULL && !input->left_out_once;
    return true;
  }
  if (!input->is_new)
    scan = region_input_scan(input, instance->ended, until_ns);
  instance->missed |= scan == REGION_SCAN_LATER;
  return scan != REGION_SCAN_STOPPED;
}

static void begin_reading(struct region_instance *instance) {
  instance->read_in = instance->watch->round;
  read_workers(instance);
  for (uint32_t t = 0; t < instance->input_count; t++)
    if (instance->inputs[t].sum == NULL)
      join(instance, t);
  if (is_underway(instance))
    return;
  instance->next_table = 0;
  instance->missed = false;
}

/* Goes on to read the region, for one turn. */
static void read_on(struct region_instance *instance) {
  const struct region_watch *watch = instance->watch;
  uint64_t until_ns = region_watch_now_ns(watch) + TURN_NS;
  if (instance->read_in != watch->round)
    begin_reading(instance);
  while (is_underway(instance)) {
    if (!read_table(instance, instance->next_table, until_ns))
      break;
    instance->next_table++;
    if (region_watch_now_ns(watch) > until_ns)
      break;
  }
  if (must_unmap(instance))
    region_reader_give_back(instance->reader);
}

/* The producer has ended: its region is read once more, from the beginning. */
static void went(struct region_instance *instance) {
  instance->ended = true;
  instance->read_in = 0;
  instance->next_table = instance->input_count;
  for (uint32_t t = 0; t < instance->input_count; t++)
    region_input_restart(&instance->inputs[t]);
}

static void refresh(struct region_instance *instance) {
  enum region_event event = region_reader_refresh(instance->reader);
  if (event == REGION_WENT && instance->inputs != NULL)
    went(instance);
  else if (event == REGION_CAME ||
           (region_instance_is_alive(instance) && instance->inputs == NULL))
    came(instance);
}

/* Refreshes the connection, and reads the region. That of a producer that has
 * ended is read once more before a successor is connected. */
static void look_after(struct region_instance *instance) {
  instance->looked_in = instance->watch->round;
  instance->found_anew = false;
  for (int i = 0; i < 2; i++) {
    if (!instance->ended)
      refresh(instance);
    bool is_certain =
        instance->ended || region_reader_errno(instance->reader) == 0;
    if (instance->inputs == NULL || !is_certain)
      return;
    read_on(instance);
    if (!instance->ended || is_underway(instance) || instance->missed)
      return;
    region_instance_free_inputs(instance);
    region_reader_forget(instance->reader);
  }
}

static void look_after_known(struct region_instance *instance) {
  if (region_instance_is_alive(instance) || instance->inputs != NULL)
    look_after(instance);
}

/* Reads the region of a producer that has closed its connection and has not
 * accepted another yet. */
static void read_uncertain(struct region_instance *instance) {
  if (region_instance_is_alive(instance) && instance->inputs != NULL &&
      instance->read_in != instance->watch->round)
    read_on(instance);
}

/* Gives turns to the regions that are not read completely, until `end_ns`. What
 * remains is read in the next round, so no region delays another. */
static void read_rest(struct region_watch *watch, uint64_t end_ns) {
  bool any = true;
  while (any && region_watch_is_wanted(watch)) {
    any = false;
    for (struct region_instance *instance = watch->instances; instance != NULL;
         instance = instance->next)
      if (is_underway(instance) && region_watch_now_ns(watch) <= end_ns) {
        read_on(instance);
        any = true;
      }
  }
}

/* Looks after the names without a producer, until `end_ns`: those that had to
 * wait in the previous round first. At least one is looked after. A producer
 * that was refused is not connected to again until a scan has found it again.
 */
static void look_after_others(struct region_watch *watch, uint64_t end_ns) {
  bool has_time = true;
  for (int waited = 1; waited >= 0; waited--)
    for (struct region_instance *instance = watch->instances;
         instance != NULL && has_time; instance = instance->next)
      if (instance->looked_in + (uint64_t)waited < watch->round &&
          (instance->found_anew || !region_instance_is_refused(instance))) {
        look_after(instance);
        has_time = region_watch_now_ns(watch) <= end_ns;
      }
}

/* ---------------------------------------------------------------------------
 * A round
 */

/* Waits for the answers of producers to which connections have just been made.
 */
static void await_hellos(struct region_watch *watch, uint64_t end_ns) {
  for (int i = 0; i < HELLO_WAITS; i++) {
    bool any = false, has_time = true;
    for (struct region_instance *instance = watch->instances; instance != NULL;
         instance = instance->next) {
      if (!region_instance_is_unanswered(instance) ||
          instance->silent_since_ns != 0)
        continue;
      if (has_time)
        look_after(instance);
      has_time = has_time && region_watch_now_ns(watch) <= end_ns;
      any |= region_instance_is_unanswered(instance);
    }
    if (!any || !watch->options.wait(watch->options.argument, HELLO_WAIT_NS))
      return;
  }
}

static bool know_topology(struct region_watch *watch) {
  uint64_t now_ns = watch->now.monotonic_ns;
  struct topology *topology = &watch->topology;
  if (watch->machine == NULL)
    watch->machine = machine_linux(watch->options.config->sys_root);
  if (watch->machine == NULL)
    return false;
  if (topology->cores_len == 0)
    (void)topology_read(topology, watch->machine);
  else if (now_ns - watch->topology_ns >= TOPOLOGY_NS)
    (void)topology_refresh(topology, watch->machine);
  else
    return true;
  watch->topology_ns = now_ns;
  return topology->cores_len > 0;
}

/* Puts percore's own figures about regions. Hosts without regions do not report
 * these figures, to save series. */
static void put_self(const struct region_watch *watch) {
  value_list_t list = {.time = NS_TO_CDTIME_T(watch->now.stamp_ns)};
  put_subject(&list, PLUGIN_HOST, INSTANCE_SELF);
  if (watch->options.config->regions.len == 0 && !watch->any_met)
    return;
  put_gauge(&list, "gauge", "regions", watch->regions);
  put_gauge(&list, "gauge", "regions_silent", watch->silent);
  put_gauge(&list, "gauge", "regions_stale", watch->stale);
  put_gauge(&list, "gauge", "workers_stuck", watch->stuck);
  put_gauge(&list, "gauge", "regions_memory", (double)watch->memory.used);
  put_derive(&list, "derive", "attaches_refused", watch->attaches_refused);
  put_derive(&list, "derive", "row_adds_refused", watch->adds_refused);
  put_derive(&list, "derive", "rows_left_out", watch->rows_left_out);
  put_derive(&list, "derive", "new_rows_left_out", watch->new_rows_left_out);
}

/* Ends the passes that have read all inputs: puts the sum, unless the clock was
 * set back, and begins to read the inputs anew. */
static void end_passes(struct region_watch *watch, bool puts) {
  for (struct region_budget *budget = watch->budgets; budget != NULL;
       budget = budget->next)
    for (struct region_sum *sum = budget->sums;
         sum != NULL && region_watch_is_wanted(watch); sum = sum->next) {
      if (sum->unread > 0)
        continue;
      if (puts && (sum->is_new || region_sum_owes(sum)))
        region_sum_put(sum, watch);
      region_sum_begin_pass(sum);
    }
}

static void put_all(struct region_watch *watch) {
  put_self(watch);
  end_passes(watch, true);
  region_useful_tell(&watch->useful, watch->now.stamp_ns,
                     watch->options.empty_polls);
  if (watch->useful.end > 0 && know_topology(watch))
    region_useful_put(&watch->useful, watch);
  watch->put_ns = watch->now.stamp_ns;
}

/* Frees the sums that no producer has counted in for REGION_FORGET_NS. */
static void forget_sums(struct region_watch *watch,
                        struct region_budget *budget) {
  for (struct region_sum **link = &budget->sums; *link != NULL;) {
    struct region_sum *sum = *link;
    if (sum->inputs != NULL ||
        watch->now.monotonic_ns - sum->read_ns < REGION_FORGET_NS ||
        region_sum_owes(sum)) {
      link = &sum->next;
      continue;
    }
    *link = sum->next;
    region_sum_free(sum);
  }
}

/* Frees the budgets of regions that have neither instances nor sums. */
static void drop_budgets(struct region_watch *watch) {
  for (struct region_budget **link = &watch->budgets; *link != NULL;) {
    struct region_budget *budget = *link;
    if (budget->instances > 0 || budget->memory.used > 0 ||
        budget->sums != NULL) {
      link = &budget->next;
      continue;
    }
    *link = budget->next;
    free(budget);
  }
}

static void forget(struct region_watch *watch) {
  region_list_forget(watch);
  for (struct region_budget *budget = watch->budgets; budget != NULL;
       budget = budget->next)
    forget_sums(watch, budget);
  drop_budgets(watch);
}

/* Which part of an interval may be spent on producers that are not read yet. */
#define CONNECT_PART 8

void region_watch_round(struct region_watch *watch,
                        const struct region_moment *now) {
  uint64_t begin_ns = region_watch_now_ns(watch);
  uint64_t look_ns = begin_ns + watch->options.interval_ns / CONNECT_PART;
  uint64_t end_ns = begin_ns + watch->options.interval_ns / 2;
  watch->now = *now;
  watch->round++;
  region_log_begin(&watch->log, now->monotonic_ns);
  region_useful_begin(&watch->useful,
                      config_cores(&watch->options.config->cores));
  watch->regions = watch->silent = watch->stale = watch->stuck = 0;
  region_list_look(watch);
  /* Known producers come first, so that new ones do not delay them. */
  for_each(watch, look_after_known);
  look_after_others(watch, look_ns);
  await_hellos(watch, look_ns);
  for_each(watch, read_uncertain);
  read_rest(watch, end_ns);
  if (!region_watch_is_wanted(watch))
    return;
  for_each(watch, region_health_conclude);
  if (now->stamp_ns > watch->put_ns)
    put_all(watch);
  else /* the clock was set back */
    end_passes(watch, false);
  forget(watch);
}
