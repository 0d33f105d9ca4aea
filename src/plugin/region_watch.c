#include "region_watch.h"

#include "put.h"
#include "regions.h"

#include "base/clock.h"

#include "utils/common/common.h"

#define TOPOLOGY_NS                                                            \
  UINT64_C(60000000000) /* time between refreshes of the topology */
/* On a busy host, a round may end this long after its timestamp. If a producer
 * claims to have started even later, its clock is that of another time
 * namespace. */
#define ROUND_NS UINT64_C(10000000000)
/* How long a region is read before the next region's turn. */
#define TURN_NS UINT64_C(1000000)
/* After a turn that took more processor time, the region is read after the
 * others. Time that other programs took does not count. */
#define SLOW_NS (4 * TURN_NS)
/* How many slots to read between two looks at the clock. */
#define SLOTS_AT_ONCE 64

struct region_watch *
region_watch_new(const struct region_watch_options *options,
                 uint64_t began_boottime_ns) {
  struct region_watch *watch = calloc(1, sizeof(*watch));
  if (watch == NULL)
    return NULL;
  watch->options = *options;
  watch->after_boottime_ns = began_boottime_ns - options->interval_ns;
  watch->notices = -1;
  size_t values = (size_t)options->config->max_values;
  watch->memory = (struct region_pool){
      .max = (size_t)options->config->max_memory, .own = 1 << 20};
  watch->values = (struct region_pool){.max = values, .own = values / 256};
  return watch;
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

/* Returns a live producer whose table is added to the sum: one of another name
 * if there is any; NULL: none. */
static const struct region_producer *
find_live(const struct region_sum *sum, const struct region_producer *but) {
  const struct region_producer *found = NULL;
  for (const struct region_input *input = sum->inputs; input != NULL;
       input = input->next_of_sum)
    if (input->producer != but && region_producer_is_alive(input->producer) &&
        (found == NULL || found->instance == but->instance))
      found = input->producer;
  return found;
}

/* Leaves a table out. `part` is what the reason is about: the table or, if it
 * is NULL, the region, of which further tables are not named. */
static void refuse_table(struct region_input *input, const char *part,
                         const char *name, const char *why) {
  input->from_zero &= !input->left_out_once;
  input->left_out_once = true;
  region_warn(region_about(input->producer->instance, part),
              "region %s: table %s is left out%s",
              input->producer->instance->label, name, why);
}

/* Makes a sum for table t. If `replaced` is not NULL, the new sum takes the
 * place of *replaced, which has other fields. Returns NULL if out of memory. */
static struct region_sum *make_sum(const struct region_producer *producer,
                                   uint32_t t, const char *name,
                                   struct region_sum **replaced) {
  const struct region_directory *directory =
      region_reader_directory(producer->reader);
  struct region_sum *before = replaced != NULL ? *replaced : NULL;
  struct region_sum *sum = region_sum_new(directory, t, name,
                                          before != NULL && before->tsc_hz != 0
                                              ? before->tsc_hz
                                              : directory->header.tsc_hz,
                                          producer->instance->budget);
  if (sum == NULL)
    return NULL;
  if (before != NULL) {
    region_sum_inherit(sum, before);
    *replaced = before->next;
    region_sum_free(before);
  }
  sum->next = producer->instance->budget->sums;
  return producer->instance->budget->sums = sum;
}

/* Adds input t to its sum, which is created if necessary. A sum with other
 * fields is replaced, unless another live producer uses it: an older one of the
 * same name will end, and is waited for; beside another instance, the input is
 * left out. */
static void join(struct region_producer *producer, uint32_t t) {
  const struct region_directory *directory =
      region_reader_directory(producer->reader);
  const struct region_instance *instance = producer->instance;
  struct region_input *input = &producer->inputs[t];
  struct region_budget *budget = instance->budget;
  const char *table_name = directory->described[t].name;
  const char *name = budget->config->report_per_instance ? instance->name : "";
  struct region_sum **found = find_sum(budget, name, table_name);
  bool fits = found != NULL && region_sum_fits(*found, directory, t);
  const struct region_producer *other =
      found != NULL && !fits ? find_live(*found, producer) : NULL;
  if (other != NULL && other->instance != instance) {
    refuse_table(
        input, table_name, table_name,
        ", because its fields differ from those of other instances; set "
        "ReportPerInstance true to report it.");
    return;
  }
  if (!fits && found != NULL &&
      ((*found)->inputs != NULL || (*found)->is_new || region_sum_owes(*found)))
    return; /* its last counts must be read and dispatched first */
  struct region_sum *sum = fits ? *found : make_sum(producer, t, name, found);
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

void region_producer_free_inputs(struct region_producer *producer) {
  for (uint32_t t = 0; t < producer->input_count; t++)
    region_input_leave(&producer->inputs[t]);
  free(producer->inputs);
  producer->inputs = NULL;
  producer->input_count = producer->next_table = 0;
  producer->ended = false;
}

/* True if none of the producer's counts have been reported: it started after
 * the watch. */
static bool is_new_producer(const struct region_producer *producer) {
  const struct region_watch *watch = producer->watch;
  uint64_t start_ns = region_producer_started_ns(producer);
  return start_ns >= watch->after_boottime_ns &&
         start_ns <= watch->now.boottime_ns + ROUND_NS;
}

/* Returns the CLOCK_REALTIME when the producer started, at most the present. */
static uint64_t start_of(const struct region_producer *producer) {
  const struct region_moment *now = &producer->watch->now;
  uint64_t start_ns = region_producer_started_ns(producer);
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

/* Reads what the producer refused. */
static void read_refusals(struct region_producer *producer) {
  struct region_watch *watch = producer->watch;
  struct region_refusals refusals;
  uint64_t adds = 0;
  bool is_first = producer->workers.read_ns == 0;
  for (uint32_t t = 0; t < producer->input_count; t++)
    adds += region_reader_adds_refused(producer->reader, t);
  region_reader_refusals(producer->reader, &refusals);
  if (is_first && !producer->from_zero) {
    producer->attaches_refused = refusals.attaches;
    producer->adds_refused = adds;
  }
  follow_count(refusals.attaches, &producer->attaches_refused,
               &watch->attaches_refused);
  follow_count(adds, &producer->adds_refused, &watch->adds_refused);
  region_health_refusals(producer, &refusals);
}

static void add_useful(const struct region_producer *producer) {
  struct region_useful *useful = &producer->watch->useful;
  const struct region_config *config = producer->instance->budget->config;
  useful->host |= config->report_host;
  region_useful_add(useful, &producer->workers,
                    config->report_per_core != REGION_PER_CORE_NONE);
}

/* Of regions that wait for their turn, those of the last reading. */
static void add_useful_of_others(struct region_watch *watch) {
  for (struct region_producer *producer = watch->producers; producer != NULL;
       producer = producer->next)
    if (producer->workers_read_in != watch->round &&
        region_producer_is_alive(producer) &&
        region_reader_fault(producer->reader)->error == 0)
      add_useful(producer);
}

/* Reads the workers until `until_ns`. */
static void read_workers(struct region_producer *producer, uint64_t until_ns) {
  struct region_watch *watch = producer->watch;
  uint64_t since_tsc = producer->from_zero ? watch->useful.since_tsc : 0;
  while (region_workers_read(&producer->workers, producer->reader,
                             SLOTS_AT_ONCE, watch->now.monotonic_ns,
                             percore_tsc(), since_tsc) > 0)
    if (region_watch_now_ns(watch) > until_ns)
      return;
  add_useful(producer);
  producer->workers_read_in = watch->round;
}

static void warn_of_unknown_tables(const struct region_producer *producer) {
  const struct region_directory *directory =
      region_reader_directory(producer->reader);
  const struct region_config *config = producer->instance->budget->config;
  for (size_t i = 0; config->name != NULL && i < config->tables_len; i++) {
    const char *name = config->tables[i].name;
    uint32_t t = 0;
    while (t < directory->table_count &&
           strcmp(directory->described[t].name, name) != 0)
      t++;
    if (t == directory->table_count)
      region_warn(region_about(producer->instance, name),
                  "Table \"%s\" is ignored: region %s has no such table.", name,
                  config->name);
  }
}

/* True if the file was replaced by one that belongs to another user. */
static bool is_replaced(const struct region_producer *producer) {
  return region_reader_directory(producer->reader) != NULL &&
         region_reader_uid(producer->reader) != producer->uid;
}

static void came(struct region_producer *producer) {
  uint32_t tables = region_reader_directory(producer->reader)->table_count;
  if (is_replaced(producer))
    return;
  producer->inputs = calloc(tables, sizeof(*producer->inputs));
  if (producer->inputs == NULL)
    return; /* tries again in the next round */
  producer->from_zero = is_new_producer(producer);
  producer->input_count = producer->next_table = tables;
  for (uint32_t t = 0; t < tables; t++)
    producer->inputs[t] =
        (struct region_input){.producer = producer,
                              .number = t,
                              .from_zero = producer->from_zero,
                              .start_ns = start_of(producer)};
  producer->instance->found.came++;
  region_health_read(producer->instance);
  warn_of_unknown_tables(producer);
}

/* Returns the size of all rows in use of the tables that are read, at most. */
static size_t size_of_rows(const struct region_producer *producer) {
  struct region_reader *reader = producer->reader;
  size_t size = 0;
  for (uint32_t t = 0; t < producer->input_count; t++) {
    const struct region_table *table =
        &region_reader_directory(reader)->tables[t];
    size_t copies = table->storage == PERCORE_PER_CORE
                        ? 1 + region_reader_slots(reader)
                        : 1;
    size_t births = (1 + table->columns) * sizeof(uint64_t);
    if (producer->inputs[t].scans > 0)
      size +=
          region_reader_rows(reader, t) * (copies * table->row_stride + births);
  }
  return size;
}

/* True if the region is so large that it must be unmapped again after reading.
 * Together, regions keep at most half of the memory that is left mapped. */
static bool must_unmap(const struct region_producer *producer) {
  const struct region_watch *watch = producer->watch;
  const struct region_pool *memory = &watch->memory;
  size_t left = memory->used < memory->max ? memory->max - memory->used : 0;
  return size_of_rows(producer) > left / 2 / watch->files;
}

/* True if some workers or tables of the region are still to be read. */
static bool is_underway(const struct region_producer *producer) {
  return producer->workers.next > 0 ||
         producer->next_table < producer->input_count;
}

/* Reads a table until `until_ns`, unless this pass of its sum has read it.
 * Returns false if the scan must go on. */
static bool read_table(struct region_producer *producer, uint32_t t,
                       uint64_t until_ns) {
  struct region_input *input = &producer->inputs[t];
  enum region_scan scan = REGION_SCAN_DONE;
  if (input->sum == NULL || !is_reported(input->sum)) {
    producer->missed |= input->sum == NULL && !input->left_out_once;
    return true;
  }
  if (!input->is_new)
    scan = region_input_scan(input, producer->ended, until_ns);
  producer->missed |= scan == REGION_SCAN_LATER;
  return scan != REGION_SCAN_STOPPED;
}

static void begin_reading(struct region_producer *producer) {
  producer->read_in = producer->watch->round;
  read_refusals(producer);
  for (uint32_t t = 0; t < producer->input_count; t++)
    if (producer->inputs[t].sum == NULL)
      join(producer, t);
  if (producer->next_table < producer->input_count)
    return;
  producer->next_table = 0;
  producer->missed = false;
}

static uint64_t worked_ns(const struct region_watch *watch) {
  const struct region_watch_options *options = &watch->options;
  return options->worked_ns != NULL ? options->worked_ns(options->argument)
                                    : region_watch_now_ns(watch);
}

/* Goes on to read the region, for one turn. */
static void read_on(struct region_producer *producer) {
  const struct region_watch *watch = producer->watch;
  uint64_t begin_ns = worked_ns(watch);
  uint64_t until_ns = region_watch_now_ns(watch) + TURN_NS;
  bool is_first = producer->read_in != watch->round;
  if (is_first)
    begin_reading(producer);
  if (is_first || producer->workers.next > 0)
    read_workers(producer, until_ns);
  while (producer->next_table < producer->input_count) {
    if (!read_table(producer, producer->next_table, until_ns))
      break;
    producer->next_table++;
    if (region_watch_now_ns(watch) > until_ns)
      break;
  }
  producer->is_slow = worked_ns(watch) - begin_ns > SLOW_NS;
  if (must_unmap(producer))
    region_reader_give_back(producer->reader);
  else
    region_reader_pause(producer->reader);
}

/* The producer has ended: its region is read once more, from the beginning. */
static void went(struct region_producer *producer) {
  struct region_found *found = &producer->instance->found;
  bool ended = region_reader_ended(producer->reader);
  found->ended = ended && (found->ended || found->went == 0);
  found->went++;
  producer->ended = true;
  producer->read_in = 0;
  producer->next_table = producer->input_count;
  for (uint32_t t = 0; t < producer->input_count; t++)
    region_input_restart(&producer->inputs[t]);
}

/* Looks whether the producer is alive. A file that has just been opened may be
 * that of one that has ended. */
static void refresh(struct region_producer *producer) {
  enum region_event event = region_reader_refresh(producer->reader);
  if (region_producer_is_alive(producer) && producer->inputs == NULL)
    came(producer);
  if (event == REGION_CAME)
    event = region_reader_refresh(producer->reader);
  if (event == REGION_WENT && producer->inputs != NULL)
    went(producer);
}

/* True if it makes no sense to try the file again in the next round. */
static bool is_refused(const struct region_producer *producer) {
  int error = region_reader_fault(producer->reader)->error;
  return is_replaced(producer) || error == EPROTO || error == ENOTSUP ||
         error == EACCES || error == EPERM || error == ELOOP ||
         error == ENOENT || error == EAGAIN;
}

void region_producer_refresh(struct region_producer *producer) {
  refresh(producer);
  if (producer->inputs != NULL)
    return;
  region_health_complain(producer);
  producer->refused = is_refused(producer);
  if (producer->refused)
    region_producer_forget(producer);
  else
    region_reader_pause(producer->reader);
}

static void look_after(struct region_producer *producer) {
  producer->looked_in = producer->watch->round;
  if (!producer->ended)
    region_producer_refresh(producer);
  if (producer->inputs == NULL)
    return;
  if (producer->ended || region_reader_fault(producer->reader)->error == 0)
    read_on(producer);
  if (producer->ended && !is_underway(producer) && !producer->missed)
    region_producer_forget(producer);
}

/* Known producers come first, so that slow and new ones do not delay them. */
static void look_after_known(struct region_watch *watch) {
  for (struct region_producer *producer = watch->producers; producer != NULL;
       producer = producer->next)
    if (producer->inputs != NULL && !producer->is_slow)
      look_after(producer);
}

/* Gives turns to the regions that are not read completely, until `end_ns`. What
 * remains is read in the next round, so no region delays another. */
static void read_rest(struct region_watch *watch, uint64_t end_ns) {
  bool any = true;
  while (any && region_watch_is_wanted(watch)) {
    any = false;
    for (struct region_producer *producer = watch->producers; producer != NULL;
         producer = producer->next)
      if (is_underway(producer) && region_watch_now_ns(watch) <= end_ns) {
        read_on(producer);
        any = true;
      }
  }
}

/* Returns the round in which those that have waited longest were looked after;
 * the present round: nobody waits. */
static uint64_t find_longest_wait(const struct region_watch *watch) {
  uint64_t oldest = watch->round;
  for (const struct region_producer *producer = watch->producers;
       producer != NULL; producer = producer->next)
    if (producer->reader != NULL)
      oldest = MIN(oldest, producer->looked_in);
  return oldest;
}

/* Looks after slow regions and files that are not read, until `end_ns`: those
 * that have waited longest first. At least one is looked after. */
static void look_after_others(struct region_watch *watch, uint64_t end_ns) {
  bool has_time = true;
  uint64_t oldest;
  while (has_time && (oldest = find_longest_wait(watch)) < watch->round)
    for (struct region_producer *producer = watch->producers;
         producer != NULL && has_time; producer = producer->next)
      if (producer->looked_in == oldest && producer->reader != NULL) {
        look_after(producer);
        has_time = region_watch_now_ns(watch) <= end_ns;
      }
}

/* ---------------------------------------------------------------------------
 * A round
 */

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
    } else {
      *link = sum->next;
      region_sum_free(sum);
    }
  }
}

/* Frees names, sums, and regions that have neither. */
static void forget(struct region_watch *watch) {
  region_list_forget(watch);
  for (struct region_budget **link = &watch->budgets; *link != NULL;) {
    struct region_budget *budget = *link;
    forget_sums(watch, budget);
    if (budget->instances > 0 || budget->memory.used > 0 ||
        budget->sums != NULL) {
      link = &budget->next;
    } else {
      *link = budget->next;
      free(budget);
    }
  }
}

/* After a rest, what is found has come in the last interval: region_thread_keep
 * is called in each. */
static void begin_useful(struct region_watch *watch, uint64_t age_ns) {
  struct region_useful *useful = &watch->useful;
  double part = (double)watch->options.interval_ns / (double)age_ns;
  region_useful_begin(useful, config_cores(&watch->options.config->cores));
  if (region_watch_rests(watch) >= 0 && part < 1)
    useful->since_tsc =
        useful->now_tsc -
        (uint64_t)((double)(useful->now_tsc - useful->since_tsc) * part);
}

/* Which part of an interval may be spent on producers that are slow or new. */
#define OPEN_PART 8

void region_watch_round(struct region_watch *watch,
                        const struct region_moment *now) {
  uint64_t begin_ns = region_watch_now_ns(watch);
  uint64_t end_ns = begin_ns + watch->options.interval_ns / 2;
  uint64_t age_ns = now->monotonic_ns - watch->now.monotonic_ns;
  watch->now = *now;
  watch->round++;
  region_log_begin(&watch->log, now->monotonic_ns);
  begin_useful(watch, age_ns);
  watch->regions = watch->silent = watch->stale = watch->stuck = 0;
  region_list_look(watch);
  look_after_known(watch);
  look_after_others(watch, region_watch_now_ns(watch) +
                               watch->options.interval_ns / OPEN_PART);
  read_rest(watch, end_ns);
  if (!region_watch_is_wanted(watch))
    return;
  add_useful_of_others(watch);
  region_health_conclude(watch);
  if (now->stamp_ns > watch->put_ns)
    put_all(watch);
  else /* the clock was set back */
    end_passes(watch, false);
  forget(watch);
}
