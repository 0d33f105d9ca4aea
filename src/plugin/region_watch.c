#include "region_watch.h"

#include "put.h"
#include "regions.h"

#include "base/clock.h"

#include "utils/common/common.h"

#define TOPOLOGY_NS                                                            \
  UINT64_C(60000000000) /* time between refreshes of the topology */
/* How long reading the region of an ended producer may take. The time is
 * limited because a successor may be waiting. */
#define ENDING_NS (30 * NS_PER_S)
/* On a busy host, a round may end this long after its timestamp. If a producer
 * claims to have started even later, its clock is that of another time
 * namespace. */
#define ROUND_NS UINT64_C(10000000000)

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

/* Returns the list element that points to the sum, or NULL. The sum may be that
 * of another user's region of the same name. */
static struct region_sum **find_sum(const struct region_instance *instance,
                                    const char *name, const char *table) {
  struct region_sum **found = NULL;
  for (struct region_budget *budget = instance->watch->budgets; budget != NULL;
       budget = budget->next)
    for (struct region_sum **link = &budget->sums;
         strcmp(budget->name, instance->budget->name) == 0 && *link != NULL;
         link = &(*link)->next)
      if (strcmp((*link)->instance, name) == 0 &&
          strcmp((*link)->table, table) == 0 &&
          (found == NULL || budget == instance->budget))
        found = link;
  return found;
}

/* True if the sum must not yet be replaced by a sum with other fields, because
 * its last counts must still be read or dispatched. */
static bool must_wait(const struct region_sum *sum) {
  bool ending = false;
  for (const struct region_input *input = sum->inputs; input != NULL;
       input = input->next_of_sum)
    ending |= input->ending;
  return ending || sum->open > 0 || sum->is_new || region_sum_owes(sum);
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

static void refuse_table(struct region_input *input, const char *name,
                         const char *why) {
  input->from_zero &= !input->left_out_once;
  input->left_out_once = true;
  region_warn(region_about(input->instance, name),
              "region %s: table %s is left out%s", input->instance->label, name,
              why);
}

/* Makes a sum for table t. If `replaced` is not NULL, the new sum takes the
 * place of *replaced, which has other fields or was another user's. Returns
 * NULL if out of memory. */
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
    while (before->inputs != NULL)
      region_input_leave(before->inputs);
    *replaced = before->next;
    region_sum_free(before);
  }
  sum->next = instance->budget->sums;
  return instance->budget->sums = sum;
}

/* Returns the user who has the region's series without a suffix, or NULL if the
 * instance's user may have them. They stay with a user as long as any of its
 * counts are kept. If nobody has them, which is so when collectd starts, the
 * user with the lowest uid gets them. */
static const struct region_budget *
find_owner(const struct region_instance *instance) {
  const struct region_watch *watch = instance->watch;
  const struct region_budget *own = instance->budget;
  for (const struct region_budget *budget = watch->budgets; budget != NULL;
       budget = budget->next)
    if (budget != own && strcmp(budget->name, own->name) == 0 &&
        budget->sums != NULL && !budget->is_apart)
      return budget;
  for (const struct region_instance *other = watch->instances; other != NULL;
       other = other->next)
    if (other->budget != own && strcmp(other->budget->name, own->name) == 0 &&
        other->uid < instance->uid && other->health != REGION_DEAD &&
        other->complaint == 0 && !other->budget->is_apart)
      return other->budget;
  return NULL;
}

/* Decides whether the series of a user's region have a suffix, because those
 * without are another user's. */
static void set_apart(const struct region_instance *instance,
                      const char *suffix) {
  const struct region_budget *owner = find_owner(instance);
  instance->budget->is_apart = owner != NULL;
  if (owner != NULL)
    region_warn(region_about(instance, NULL),
                "region %s is served by users %u and %u: the counts of user %u "
                "are reported apart, as all@%s. To sum them, name both users "
                "in AllowUser.",
                instance->budget->name, (unsigned)owner->uid,
                (unsigned)instance->uid, (unsigned)instance->uid, suffix);
}

/* Adds input t to its sum, which is created if necessary. A sum with other
 * fields is replaced, unless another live instance uses it: then the input is
 * left out while that instance lives. */
static void join(struct region_instance *instance, uint32_t t) {
  const struct region_directory *directory =
      region_reader_directory(instance->reader);
  struct region_input *input = &instance->inputs[t];
  const char *table_name = directory->described[t].name;
  char uid[32]; /* no instance has this name */
  snprintf(uid, sizeof(uid), "uid@%u", (unsigned)instance->uid);
  const char *suffix = instance->name[0] != '\0' ? instance->name : uid;
  const char *name = instance->name;
  if (!instance->budget->config->report_per_instance) {
    if (instance->budget->sums == NULL && instance->watch->directory != NULL)
      return; /* other users' sockets may follow */
    if (instance->budget->sums == NULL)
      set_apart(instance, suffix);
    name = instance->budget->is_apart ? suffix : "";
  }
  struct region_sum **found = find_sum(instance, name, table_name);
  bool shared = found != NULL && is_shared(*found, instance);
  bool fits = found != NULL && (*found)->budget == instance->budget &&
              region_sum_fits(*found, directory, t);
  if (!fits && shared) {
    refuse_table(
        input, table_name,
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
  } else
    refuse_table(
        input, table_name,
        ": MaxMemory or MaxValues leave too little for it; raise them.");
}

/* ---------------------------------------------------------------------------
 * One producer
 */

void region_instance_free_inputs(struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->input_count; t++)
    region_input_leave(&instance->inputs[t]);
  free(instance->inputs);
  instance->inputs = NULL;
  instance->input_count = 0;
}

/* True if none of the producer's counts have been reported: it started after
 * the watch. */
static bool is_new_producer(const struct region_instance *instance) {
  const struct region_watch *watch = instance->watch;
  uint64_t start_ns =
      region_reader_directory(instance->reader)->header.start_boottime_ns;
  return start_ns >= watch->after_boottime_ns &&
         start_ns <= watch->now.boottime_ns + ROUND_NS;
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

/* What beginning to read a table costs, in cells. */
#define CELLS_PER_BEGIN 4096

/* Begins to read the next table. */
static void begin_next(struct region_instance *instance, uint64_t *cells_left) {
  struct region_input *input = &instance->inputs[instance->begun];
  if (input->sum == NULL)
    join(instance, instance->begun); /* or tries again in the next round */
  if (input->sum != NULL && is_reported(input->sum))
    region_input_begin(input);
  else if (input->sum != NULL || input->left_out_once)
    input->ending = false;
  instance->begun++;
  *cells_left -= MIN(*cells_left, CELLS_PER_BEGIN + input->objects.len);
}

/* Reads the workers, and begins a scan of all tables if none is underway. */
static void begin_scan(struct region_instance *instance) {
  read_workers(instance);
  if (instance->begun == instance->input_count)
    instance->begun = 0;
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
  struct region_watch *watch = instance->watch;
  instance->uid = region_reader_uid(instance->reader);
  instance->counted_in = instance->read_in = 0;
  instance->attaches_refused = instance->adds_refused = 0;
  region_workers_forget(&instance->workers);
  region_instance_free_inputs(instance);
  struct region_budget *budget = region_budget_find(
      watch, instance->budget->config, instance->budget->name, instance->uid);
  instance->inputs = calloc(tables, sizeof(*instance->inputs));
  if (instance->inputs == NULL || budget == NULL) {
    region_instance_free_inputs(instance); /* tries again in the next round */
    return;
  }
  instance->from_zero = is_new_producer(instance);
  instance->budget->instances--;
  instance->budget = budget;
  budget->instances++;
  region_reader_use_allowance(instance->reader, &budget->memory);
  instance->input_count = instance->begun = tables;
  for (uint32_t t = 0; t < tables; t++)
    instance->inputs[t] =
        (struct region_input){.instance = instance,
                              .number = t,
                              .from_zero = instance->from_zero,
                              .start_ns = start_of(instance)};
  warn_of_unknown_tables(instance);
  begin_scan(instance);
}

static void stop_inputs(struct region_instance *instance, bool ending) {
  for (uint32_t t = 0; t < instance->input_count; t++) {
    instance->inputs[t].ending = ending;
    region_input_stop(&instance->inputs[t]);
  }
  instance->begun = instance->input_count;
}

static void went(struct region_instance *instance) {
  instance->ending_since_ns = instance->watch->now.monotonic_ns;
  stop_inputs(instance, true);
  begin_scan(instance);
}

/* True if the last counts of an ended producer must still be read. */
static bool is_ending(const struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->input_count; t++)
    if (instance->inputs[t].ending)
      return true;
  return false;
}

/* True if the last counts were also put. */
static bool is_put(const struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->input_count; t++) {
    const struct region_input *input = &instance->inputs[t];
    if (input->sum != NULL && input->awaits_put)
      return false;
  }
  return true;
}

/* Reads tables again that could not be put, so that the next put has what they
 * count meanwhile. */
static void read_again(struct region_instance *instance) {
  for (uint32_t t = 0; t < instance->input_count; t++) {
    struct region_input *input = &instance->inputs[t];
    if (input->sum != NULL && input->sum->open == 0)
      input->awaits_put &= !region_instance_is_alive(instance);
  }
}

/* Looks whether the producer is alive. If it has ended, its region is read once
 * more. */
static void refresh(struct region_instance *instance) {
  if (!region_instance_is_alive(instance) && is_put(instance)) {
    region_instance_free_inputs(instance);
    if (region_reader_presence(instance->reader) == REGION_LEFT) {
      region_reader_forget(instance->reader);
      instance->removed = true;
    }
  }
  if (instance->removed)
    return;
  switch (region_reader_refresh(instance->reader)) {
  case REGION_WENT:
    went(instance);
    break;
  case REGION_CAME:
    came(instance);
    break;
  case REGION_AS_BEFORE:
    if (region_instance_is_alive(instance) && instance->inputs == NULL)
      came(instance);
    else if (region_instance_is_alive(instance))
      begin_scan(instance);
  }
}

/* Ends the last scan of an ended producer after all counts have been read, or
 * after ENDING_NS. */
static void end_producer(struct region_instance *instance) {
  uint64_t since_ns = instance->ending_since_ns;
  bool ending = is_ending(instance);
  if (since_ns == 0 ||
      (ending && instance->watch->now.monotonic_ns - since_ns < ENDING_NS))
    return;
  if (ending)
    region_warn(region_about(instance, NULL),
                "region %s: the last counts of a producer are lost: its tables "
                "could not be read completely within %" PRIu64
                " s after it ended.",
                instance->label, ENDING_NS / NS_PER_S);
  instance->ending_since_ns = 0;
  stop_inputs(instance, false);
}

/* True if the other one is a producer of the same name and user that is gone.
 */
static bool is_before(const struct region_instance *instance,
                      const struct region_instance *other) {
  return other != instance && other->uid == instance->uid && !other->replaced &&
         strcmp(other->label, instance->label) == 0 &&
         (other->removed ||
          region_reader_presence(other->reader) == REGION_LEFT);
}

/* Takes over what was told about a producer of the same name that is gone.
 * Returns false if its last counts must be read first, so that its gauges are
 * not added to those of its successor. */
static bool follow(struct region_instance *instance) {
  struct region_instance *before = instance->watch->instances;
  while (before != NULL && !is_before(instance, before))
    before = before->next;
  if (before != NULL) {
    instance->restarted = before->health != REGION_DEAD;
    instance->after_end = region_reader_ended(before->reader);
    instance->health = before->health;
    instance->calm_since_ns = before->calm_since_ns;
    instance->was_told = before->was_told;
    instance->alarmed = before->alarmed;
    before->replaced = true;
    instance->before = before;
  }
  struct region_instance *at = instance->watch->instances;
  while (at != NULL && at != instance->before)
    at = at->next;
  if (at != NULL && at->ending_since_ns != 0)
    return false;
  if (at != NULL)
    region_instance_free_inputs(at);
  return true;
}

static void look_after(struct region_instance *instance) {
  instance->looked_in = instance->watch->round;
  instance->found_anew = false;
  if (instance->ending_since_ns != 0)
    begin_scan(instance);
  else if (region_reader_presence(instance->reader) != REGION_ABSENT ||
           instance->removed || follow(instance))
    refresh(instance);
  else
    instance->looked_in = 0;
}

static void look_after_known(struct region_instance *instance) {
  if (region_instance_is_alive(instance) || instance->ending_since_ns != 0)
    look_after(instance);
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

/* Reads a piece of a region. Returns false if there is nothing to read. */
static bool read_piece(struct region_instance *instance) {
  uint64_t cells_left = REGION_PIECE_CELLS;
  uint32_t idle = 0;
  instance->read_in = instance->watch->round;
  while (cells_left > 0 && instance->begun < instance->input_count)
    begin_next(instance, &cells_left);
  while (cells_left > 0 && idle < instance->input_count) {
    uint32_t t = instance->next_input++ % instance->input_count;
    bool read = region_input_read(&instance->inputs[t], &cells_left);
    idle = read ? 0 : idle + 1;
  }
  if (must_unmap(instance))
    region_reader_give_back(instance->reader);
  return cells_left < REGION_PIECE_CELLS;
}

/* Reads a piece of each region in turn until all are read or `end_ns`, but at
 * least one piece of each. What remains is read in the next round, so no region
 * delays another by more than its pieces. */
static void read_all(struct region_watch *watch, uint64_t end_ns) {
  bool any = true;
  while (any && region_watch_is_wanted(watch)) {
    bool has_time = region_watch_now_ns(watch) <= end_ns;
    any = false;
    for (struct region_instance *instance = watch->instances; instance != NULL;
         instance = instance->next)
      if (has_time || instance->read_in != watch->round)
        any |= read_piece(instance);
  }
  for_each(watch, end_producer);
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

/* A sum is put if all of its inputs have been read completely since its last
 * put, or if counts are still to be dispatched. */
static void put_sums(struct region_watch *watch) {
  put_self(watch);
  for (struct region_budget *budget = watch->budgets; budget != NULL;
       budget = budget->next)
    for (struct region_sum *sum = budget->sums;
         sum != NULL && region_watch_is_wanted(watch); sum = sum->next)
      if (sum->open == 0 && (sum->is_new || region_sum_owes(sum)))
        region_sum_put(sum, watch);
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
  read_all(watch, end_ns);
  look_after_others(watch, end_ns); /* successors of producers that ended */
  look_after_others(watch, end_ns);
  read_all(watch, end_ns); /* also the first counts of their successors */
  if (!region_watch_is_wanted(watch))
    return;
  for_each(watch, region_health_conclude);
  if (now->stamp_ns > watch->put_ns)
    put_sums(watch);
  else /* the clock was set back */
    for_each(watch, read_again);
  forget(watch);
}
