#include "region_watch.h"

#include "region_instance.h"

#include "base/clock.h"

#include "utils/common/common.h"

#define TOPOLOGY_NS                                                            \
  UINT64_C(60000000000) /* time between refreshes of the topology */
/* If none of the new producers has answered for HELLO_WAITS milliseconds, those
 * that have not answered must wait until the next round, so that they do not
 * delay other regions. All new producers together may take 1/HELLO_PART of the
 * interval. */
#define HELLO_WAITS 20
#define HELLO_PART 4
#define HELLO_WAIT_NS UINT64_C(1000000)
/* How long reading the region of an ended producer may take. The time is
 * limited because a successor may be waiting. */
#define ENDING_NS (30 * NS_PER_S)

struct region_watch *
region_watch_new(const struct region_watch_options *options,
                 const struct region_moment *now) {
  struct region_watch *watch = calloc(1, sizeof(*watch));
  if (watch == NULL)
    return NULL;
  watch->options = *options;
  watch->last = *now;
  watch->mark_ns = now->monotonic_ns;
  watch->allowances.all.max = options->memory_max;
  return watch;
}

/* Frees the allowances of regions that have neither instances nor sums. Every
 * sum takes some bytes of its region's allowance, so an allowance of which
 * nothing is used belongs to no sum. */
static void drop_allowances(struct region_watch *watch) {
  for (struct region_allowance_entry **link = &watch->allowances.list;
       *link != NULL;) {
    struct region_allowance_entry *entry = *link;
    if (entry->instances > 0 || entry->region.used > 0) {
      link = &entry->next;
      continue;
    }
    *link = entry->next;
    free(entry);
  }
}

void region_watch_free(struct region_watch *watch) {
  if (watch == NULL)
    return;
  region_list_free(watch);
  for (size_t i = 0; i < watch->sums.len; i++)
    region_sum_free(watch->sums.list[i]);
  free(watch->sums.list);
  watch->sums.len = 0;
  drop_allowances(watch);
  if (watch->machine != NULL) {
    topology_free(&watch->topology);
    machine_linux_close(watch->machine);
  }
  free(watch);
}

static void for_each(struct region_watch *watch,
                     void (*act)(struct region_instance *)) {
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    act(instance);
}

/* ---------------------------------------------------------------------------
 * One instance in a round
 */

/* Refreshes the connection and begins to read the region. If the producer has
 * ended, its region is read once more before a successor is connected. If only
 * the connection has ended, reading begins once it is known whether the same
 * region answers. */
static void look_after(struct region_instance *instance) {
  if (instance->ending_since_ns != 0)
    return;
  switch (region_reader_refresh(instance->reader)) {
  case REGION_WENT:
    instance->ending_since_ns = instance->watch->now.monotonic_ns;
    region_instance_begin(instance, true);
    break;
  case REGION_CAME:
    region_instance_came(instance);
    break;
  case REGION_AS_BEFORE:
    if (region_instance_is_alive(instance) &&
        !region_instance_is_unanswered(instance))
      region_instance_begin(instance, false);
  }
}

/* Lets the successor of an ended producer connect after all counts have been
 * read, or after ENDING_NS. */
static void end_producer(struct region_instance *instance) {
  bool is_drained = region_instance_is_drained(instance);
  uint64_t now_ns = instance->watch->now.monotonic_ns;
  if (instance->ending_since_ns == 0 ||
      (!is_drained && now_ns - instance->ending_since_ns < ENDING_NS))
    return;
  if (!is_drained)
    WARNING("percore: region %s: the last counts of a producer are lost: its "
            "tables could not be read completely within %" PRIu64
            " s after it ended.",
            instance->label, ENDING_NS / NS_PER_S);
  instance->ending_since_ns = 0;
  for (uint32_t t = 0; t < instance->table_count; t++)
    region_table_stop(&instance->tables[t]);
  if (region_reader_refresh(instance->reader) == REGION_CAME)
    region_instance_came(instance);
}

/* Reads the regions of producers that have answered. Returns how many have not.
 */
static size_t meet_answered(struct region_watch *watch) {
  size_t left = 0;
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next) {
    if (!region_instance_is_unanswered(instance) ||
        instance->silent_since_ns != 0)
      continue;
    look_after(instance);
    left += region_instance_is_unanswered(instance);
  }
  return left;
}

/* Waits for the answers of producers to which connections have just been made,
 * and begins to read their regions. */
static void await_hellos(struct region_watch *watch) {
  uint64_t most = watch->options.interval_ns / HELLO_PART / HELLO_WAIT_NS;
  size_t left = SIZE_MAX;
  for (uint64_t all = 0, in_vain = 0;
       in_vain < HELLO_WAITS && all < MAX(most, HELLO_WAITS);
       all++, in_vain++) {
    size_t before = left;
    left = meet_answered(watch);
    if (left < before)
      in_vain = 0;
    if (left == 0 ||
        !watch->options.wait(watch->options.argument, HELLO_WAIT_NS))
      return;
  }
}

/* Begins to read the region again if its connection has ended, but its producer
 * is alive and has not answered on the new connection yet. */
static void begin_unanswered(struct region_instance *instance) {
  if (region_instance_is_alive(instance) &&
      region_instance_is_unanswered(instance))
    region_instance_begin(instance, false);
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

static void forget_rows(struct region_watch *watch, uint64_t round) {
  size_t kept = 0;
  for (size_t i = 0; i < watch->sums.len; i++) {
    struct region_sum *sum = watch->sums.list[i];
    region_sum_forget(sum, round);
    if (sum->round >= round || sum->tables != NULL)
      watch->sums.list[kept++] = sum;
    else
      region_sum_free(sum);
  }
  watch->sums.len = kept;
}

/* Frees rows before they have been unused for REGION_FORGET_NS: if memory is
 * short, all rows that are not live now; otherwise, if there are too many rows,
 * those that have been hidden longest. */
static void forget_early(struct region_watch *watch) {
  for (size_t i = 0; i < watch->sums.len; i++) {
    struct region_sum *sum = watch->sums.list[i];
    if (sum->memory_short)
      region_sum_forget(sum, sum->round);
    else
      region_sum_forget_most(sum);
  }
}

static void forget(struct region_watch *watch) {
  uint64_t now_ns = watch->now.monotonic_ns;
  region_list_forget(watch);
  forget_early(watch);
  if (now_ns - watch->mark_ns < REGION_FORGET_NS)
    return;
  forget_rows(watch, watch->mark_round);
  drop_allowances(watch);
  watch->mark_round = watch->round;
  watch->mark_ns = now_ns;
}

/* ---------------------------------------------------------------------------
 * A round
 */

/* Reads the topology, which changes only with hotplug, once a minute. Returns 0
 * or -errno. */
static int know_topology(struct region_watch *watch) {
  uint64_t now_ns = watch->now.monotonic_ns;
  int status = 0;
  if (watch->machine == NULL) {
    const char *root = watch->options.sys_root;
    watch->machine = machine_linux(root != NULL ? root : "/");
    if (watch->machine == NULL)
      return -errno;
    status = topology_read(&watch->topology, watch->machine);
    if (status != 0) {
      machine_linux_close(watch->machine);
      watch->machine = NULL;
    }
    watch->topology_ns = now_ns;
  } else if (now_ns - watch->topology_ns >= TOPOLOGY_NS) {
    topology_refresh(&watch->topology, watch->machine);
    watch->topology_ns = now_ns;
  }
  return status;
}

static void put_useful(struct region_watch *watch) {
  if (region_useful_count(&watch->useful) > 0 && know_topology(watch) == 0 &&
      region_useful_put(&watch->useful, &watch->topology, watch->options.groups,
                        watch->options.groups_len, watch->snapshot) != 0)
    watch->snapshot->memory_short = true;
  watch->values_useful = watch->snapshot->values[REGION_RANK_USEFUL].len;
}

/* Returns the memory of all regions in bytes. Includes each region's first
 * REGION_MEMORY_OWN bytes, which MaxMemory does not limit. */
static size_t memory_used(const struct region_watch *watch) {
  size_t used = 0;
  for (const struct region_allowance_entry *entry = watch->allowances.list;
       entry != NULL; entry = entry->next)
    used += entry->region.used;
  return used;
}

/* Puts percore's own figures about regions. Hosts without regions do not report
 * these figures, to save series. */
static void put_self(const struct region_watch *watch) {
  struct region_snapshot *snapshot = watch->snapshot;
  const struct {
    const char *name;
    enum region_type type;
    uint64_t number;
  } figures[] = {
      {"regions", REGION_GAUGE, (uint64_t)snapshot->regions},
      {"regions_silent", REGION_GAUGE, (uint64_t)snapshot->regions_silent},
      {"regions_stale", REGION_GAUGE, (uint64_t)snapshot->regions_stale},
      {"workers_stuck", REGION_GAUGE, (uint64_t)snapshot->workers_stuck},
      {"regions_memory", REGION_GAUGE, memory_used(watch)},
      {"attaches_refused", REGION_DERIVE, watch->attaches_refused},
      {"row_adds_refused", REGION_DERIVE, watch->adds_refused},
      {"rows_torn", REGION_DERIVE, watch->rows_torn},
      {"cells_back", REGION_DERIVE, watch->cells_back},
      {"rows_unseen", REGION_DERIVE, watch->rows_unseen},
  };
  if (watch->options.configs->len == 0 && !watch->any_met)
    return;
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(figures); i++) {
    struct region_value value = {.plugin = "percore_host",
                                 .plugin_instance = "self",
                                 .type_instance = figures[i].name,
                                 .type = figures[i].type};
    if (figures[i].type == REGION_DERIVE)
      value.derive = (int64_t)figures[i].number;
    else
      value.gauge = (double)figures[i].number;
    region_snapshot_put(snapshot, REGION_RANK_SELF, &value);
  }
}

/* Reads the regions that have not been read in this round, and shares the
 * remaining time equally among them. If a region takes longer, reading it
 * continues in the next round, so it delays no other region. */
static void read_all(struct region_watch *watch, uint64_t end_ns) {
  uint64_t left = 0;
  if (watch->sums.grew)
    region_share_room(watch);
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next)
    left += instance->turn < watch->round && region_instance_is_amid(instance);
  for (struct region_instance *instance = watch->instances; instance != NULL;
       instance = instance->next) {
    if (instance->turn == watch->round || !region_instance_is_amid(instance))
      continue;
    uint64_t now_ns = region_watch_now_ns(watch);
    uint64_t share_ns = now_ns < end_ns ? (end_ns - now_ns) / MAX(1, left) : 0;
    region_instance_read(instance, now_ns + share_ns);
    left--;
  }
}

/* Puts a sum into the snapshot if its tables of all instances have been read
 * completely. A sum that was not read in this round is put again if it has
 * counts that have not been dispatched yet. */
static void put_sum(struct region_watch *watch, struct region_sum *sum) {
  struct region_snapshot *snapshot = watch->snapshot;
  snapshot->partial |= sum->open > 0;
  if (sum->open > 0 || !region_watch_is_wanted(watch))
    return;
  if (sum->round != sum->round_put)
    region_choose(sum);
  else if (sum->round != watch->round && region_sum_has_due(sum))
    region_sum_begin(sum, watch->round);
  else
    return;
  snapshot->memory_short |= sum->memory_short && sum->shape.top_field >= 0;
  region_sum_put(sum, snapshot, &watch->options);
}

static void put_sums(struct region_watch *watch) {
  for (size_t i = 0; i < watch->sums.len; i++)
    put_sum(watch, watch->sums.list[i]);
  region_share_room(watch); /* shares MaxValues for the next round */
}

/* Reads the regions of all instances, which takes at most half of the interval.
 * Known producers come first, so that new ones do not delay them. */
static void read_round(struct region_watch *watch) {
  uint64_t end_ns = region_watch_now_ns(watch) + watch->options.interval_ns / 2;
  for_each(watch, look_after);
  read_all(watch, end_ns);
  for_each(watch, end_producer);
  await_hellos(watch);
  for_each(watch, begin_unanswered);
  read_all(watch, end_ns);
  for_each(watch, end_producer);
  read_all(watch, end_ns);
}

struct region_snapshot *region_watch_round(struct region_watch *watch,
                                           const struct region_moment *now) {
  const struct region_watch_options *options = &watch->options;
  struct region_snapshot *snapshot =
      region_snapshot_new(watch->round + 1, now->stamp_ns, options->values_max);
  if (snapshot == NULL)
    return NULL;
  watch->snapshot = snapshot;
  watch->now = *now;
  watch->outlet = options->outlet(options->argument);
  watch->round++;
  for (size_t i = 0; i < watch->sums.len; i++)
    region_sum_note(watch->sums.list[i], &watch->outlet);
  memset(&watch->useful, 0, sizeof(watch->useful));
  watch->useful.cores = options->cores;
  region_list_look(watch);
  read_round(watch);
  if (!region_watch_is_wanted(watch)) {
    region_snapshot_free(snapshot);
    return NULL;
  }
  for_each(watch, region_health_conclude);
  put_self(watch);
  put_sums(watch);
  put_useful(watch);
  /* Before the first dispatch, the room is only a guess. */
  if (watch->outlet.dispatched > 0)
    region_snapshot_limit(snapshot, watch->outlet.room);
  forget(watch);
  watch->last = *now;
  return snapshot;
}
