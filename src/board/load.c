#include "load.h"

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/sized.h"
#include "cycles/schedule.h"
#include "cycles/totals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The shortest windows. In shorter windows, errors dominate: the counters of a
 * group are read at slightly different times, and columns are truncated to
 * ticks of 10 ms. */
#define SHORTEST_COUNTER_NS UINT64_C(10000000)
#define SHORTEST_IDLE_NS UINT64_C(200000000)
#define SECONDS_MAX 3600 /* of an option */
#define INTERVAL_S 15    /* of the board: more than collectd's default */
#define SIBLINGS_MAX 16  /* hardware threads of a physical core */

/* A core without a load. */
static const struct board_core unknown = {
    .load = -1, .load_low = -1, .load_high = -1, .node = -1, .sibling = -1};

static uint64_t now_ns(const struct percore_load *load) {
  return machine_now_ns(load->machine, CLOCK_MONOTONIC);
}

static _Atomic double *place_of(const struct percore_load *load, int core,
                                size_t column) {
  return &load->figures[column * (size_t)load->cores_len + (size_t)core];
}

static void set(struct percore_load *load, int core, size_t column,
                double value) {
  atomic_store_explicit(place_of(load, core, column), value,
                        memory_order_relaxed);
}

static void set_row(struct percore_load *load, int core,
                    const struct board_core *row) {
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    set(load, core, i, board_figure(row, i));
}

double load_figure(const struct percore_load *load, int core, size_t column) {
  return core >= 0 && core < load->cores_len
             ? atomic_load_explicit(place_of(load, core, column),
                                    memory_order_relaxed)
             : board_figure(&unknown, column);
}

/* ---------------------------------------------------------------------------
 * Counters
 */

static void end_window(struct percore_load *load, const struct core *state,
                       const struct topology *topology, uint64_t time_ns) {
  struct core_totals *from = &load->starts[state->number];
  const struct core_totals *to = &state->total;
  struct bounds bounds = {NAN, NAN};
  struct board_core row = unknown;
  if (load->options.bounds)
    bounds = bounds_of(from, to);
  if (state->online) {
    double load_now = engine_load(from, to);
    row.load = board_or(load_now, -1);
    row.room = board_or(
        more_room(1 - load_now, board_or(engine_idle_poll(from, to), 0)), 0);
    row.load_low = board_or(bounds.low, -1);
    row.load_high = board_or(bounds.high, -1);
    row.frequency_hz = board_or(engine_frequency_hz(from, to), 0);
    row.node = fmax(topology->node[state->number], 0); /* without NUMA */
    row.sibling = topology->sibling[state->number];
    row.isolated = core_set_has(&topology->isolated, state->number);
    row.time_ns = (double)time_ns;
    row.interval_ns = to->wall - from->wall;
    row.source = state->source - SOURCE_NONE;
    row.proof = state->proof;
  }
  set_row(load, state->number, &row);
  *from = *to;
}

/* Ends the windows of all cores. */
static void publish_counters(struct percore_load *load) {
  const struct topology *topology = engine_topology(load->engine);
  size_t len;
  const struct core *states = engine_cores(load->engine, &len);
  uint64_t time_ns = engine_time_ns(load->engine);
  uint64_t shortest_ns = SHORTEST_COUNTER_NS;
  for (size_t i = 0; i < len; i++) {
    if (states[i].number < load->cores_len)
      end_window(load, &states[i], topology, time_ns);
    if (states[i].online && states[i].source == SOURCE_IDLE)
      shortest_ns = SHORTEST_IDLE_NS;
  }
  load->due_ns =
      time_ns + (load->shortest_ns > 0 ? load->shortest_ns : shortest_ns);
  load->learned = false;
}

/* ---------------------------------------------------------------------------
 * The board
 */

static void publish_board(struct percore_load *load) {
  struct board_core row;
  for (int core = 0; core < load->cores_len; core++) {
    bool is_known = board_reader_core(load->board, core, &row);
    if (is_known && !load->options.bounds)
      row.load_low = row.load_high = -1;
    set_row(load, core, is_known ? &row : &unknown);
  }
  load->learned = false;
}

/* ---------------------------------------------------------------------------
 * Opening
 */

static int make_cores(struct percore_load *load) {
  struct core_set possible;
  uint64_t seed = now_ns(load) ^ (uint64_t)getpid() << 40;
  int status =
      machine_read_core_set(load->machine, &possible, CPU_FOLDER "/possible");
  if (status != 0)
    return status;
  core_set_for_each(core, &possible) { load->cores_len = core + 1; }
  size_t len = (size_t)load->cores_len;
  load->starts = calloc(len, sizeof(*load->starts));
  load->figures = calloc(len * BOARD_COLUMNS, sizeof(*load->figures));
  load->room = calloc(len, sizeof(*load->room));
  load->chooser = chooser_open(load->cores_len, seed);
  if (load->starts == NULL || load->figures == NULL || load->room == NULL ||
      load->chooser == NULL)
    return -ENOMEM;
  for (int i = 0; i < load->cores_len; i++)
    set_row(load, i, &unknown);
  return 0;
}

/* Parses a list of at least one core; NULL is the empty set. */
static bool parse_list(struct core_set *set, const char *list) {
  core_set_clear(set);
  return list == NULL ||
         (core_set_parse(set, list) == 0 && core_set_next(set, -1) >= 0);
}

static bool is_in_seconds(double option) {
  return option >= 0 && option <= SECONDS_MAX;
}

/* True if the options want what only own measurement has. */
static bool wants_counters(const struct percore_load_options *given) {
  return given->source != NULL || given->isolated_cores != NULL ||
         given->also_isolated != NULL || given->shortest_window > 0;
}

/* Translates the caller's options. Returns false if one is invalid. */
static bool translate(struct percore_load *load,
                      const struct percore_load_options *given) {
  struct engine_options *options = &load->options;
  bool good = is_in_seconds(given->shortest_window) &&
              is_in_seconds(given->board_interval_max) &&
              !(given->from_board && wants_counters(given)) &&
              parse_list(&load->wanted, given->cores) &&
              parse_list(&options->also_isolated, given->also_isolated);
  *options = (struct engine_options){
      .cores = given->cores != NULL ? &load->wanted : NULL,
      .machine = load->machine,
      .hardware = true,
      .source = SOURCE_AUTO,
      .also_isolated = options->also_isolated,
      .frequency = given->frequency != 0,
      .bounds = given->bounds != 0,
  };
  load->shortest_ns = (uint64_t)(given->shortest_window * 1e9);
  return good &&
         (given->source == NULL ||
          source_parse(&options->source, given->source) == 0) &&
         (given->isolated_cores == NULL ||
          isolated_cores_parse(&options->isolated_cores,
                               given->isolated_cores) == 0);
}

/* Samples the engine. Callers update when they like, so a sample that comes
 * much later than they use to is one of a machine that may have been paused. */
static int sample(struct percore_load *load) {
  uint64_t time_ns = now_ns(load), between_ns = time_ns - load->sampled_ns;
  bool late = load->between_ns > 0 && between_ns > SCHEDULE_LATE_NS &&
              between_ns > 3 * load->between_ns;
  int status = engine_sample(load->engine, late);
  load->between_ns = load->sampled_ns > 0 ? between_ns : 0;
  load->sampled_ns = time_ns;
  return status == -ENOMEM                  ? status
         : !engine_has_source(load->engine) ? -ENOTSUP
                                            : 0;
}

static int update_counters(struct percore_load *load) {
  if (load->due_ns > 0 && now_ns(load) < load->due_ns)
    return load->status;
  load->status = sample(load);
  publish_counters(load);
  engine_prove_aside(load->engine);
  return load->status == 0 ? 1 : load->status;
}

static int open_counters(struct percore_load *load) {
  int status = engine_open(&load->engine, &load->options);
  if (status != 0)
    return status;
  for (int i = 0; i < load->cores_len; i++)
    load->starts[i].epoch = UINT64_MAX; /* no window has begun */
  publish_counters(load); /* the engine has just taken a sample */
  engine_prove_aside(load->engine);
  return engine_has_source(load->engine) ? 0 : -ENOTSUP;
}

/* While there is no fresh board, all loads are unknown. */
static int update_board(struct percore_load *load) {
  int status = board_reader_update(load->board);
  if (status == 0)
    return load->status;
  publish_board(load);
  load->status = status == 1 ? 0 : -ENOENT;
  return status == 1 ? 1 : -ENOENT;
}

static int open_board(struct percore_load *load,
                      const struct percore_load_options *options) {
  double interval_s = options->board_interval_max > 0
                          ? options->board_interval_max
                          : INTERVAL_S;
  load->board =
      board_reader_open(load->machine, load->cores_len,
                        (uint64_t)(interval_s * 1e9), options->board_uid);
  return load->board != NULL ? update_board(load) : -ENOMEM;
}

int load_open(struct percore_load **result, struct machine *machine,
              const struct percore_load_options *options) {
  struct percore_load *load = calloc(1, sizeof(*load));
  if (load == NULL)
    return -ENOMEM;
  pthread_mutex_init(&load->mutex, NULL);
  load->own_machine = machine == NULL ? machine_linux(NULL) : NULL;
  load->machine = machine != NULL ? machine : load->own_machine;
  int status = -ENOMEM;
  if (load->machine != NULL)
    status = translate(load, options) ? make_cores(load) : -EINVAL;
  if (status == 0)
    status =
        options->from_board ? open_board(load, options) : open_counters(load);
  if (status >= 0)
    *result = load;
  else
    percore_load_close(load);
  return status < 0 ? status : 0;
}

int percore_load_open(struct percore_load **result,
                      const struct percore_load_options *given) {
  struct percore_load_options options = {0};
  int status = -EINVAL;
  NOT_CANCELLED;
  if (sized_copy(&options, sizeof(options), given))
    status = load_open(result, NULL, &options);
  return status == 0 ? 0 : load_failed(-status);
}

void percore_load_close(struct percore_load *load) {
  NOT_CANCELLED;
  if (load == NULL)
    return;
  engine_close(load->engine);
  board_reader_close(load->board);
  free(load->chooser);
  machine_linux_close(load->own_machine);
  pthread_mutex_destroy(&load->mutex);
  free(load->starts);
  free(load->figures);
  free(load->room);
  free(load);
}

int percore_load_update(struct percore_load *load) {
  NOT_CANCELLED;
  pthread_mutex_lock(&load->mutex);
  int status =
      load->engine != NULL ? update_counters(load) : update_board(load);
  pthread_mutex_unlock(&load->mutex);
  return status >= 0 ? status : load_failed(-status);
}

/* As load_figure, but the board also has cores that were not asked for. */
static double get(const struct percore_load *load, int core, size_t column) {
  bool is_wanted =
      load->options.cores == NULL || core_set_has(&load->wanted, core);
  return load_figure(load, is_wanted ? core : -1, column);
}

double load_busiest_sibling(const struct percore_load *load, int core) {
  double most = -1, next = load_figure(load, core, BOARD_COLUMN(sibling));
  for (int i = 0; i < SIBLINGS_MAX && next >= 0 && next < load->cores_len &&
                  (int)next != core;
       i++) {
    most = fmax(most, load_figure(load, (int)next, BOARD_COLUMN(load)));
    next = load_figure(load, (int)next, BOARD_COLUMN(sibling));
  }
  return most;
}

static struct percore_load_details details_of(const struct percore_load *load,
                                              int core, bool known) {
  double source = get(load, core, BOARD_COLUMN(source)) + SOURCE_NONE;
  double time_ns = get(load, core, BOARD_COLUMN(time_ns));
  double frequency_hz = get(load, core, BOARD_COLUMN(frequency_hz));
  return (struct percore_load_details){
      .low = get(load, core, BOARD_COLUMN(load_low)),
      .high = get(load, core, BOARD_COLUMN(load_high)),
      .window = known ? get(load, core, BOARD_COLUMN(interval_ns)) / 1e9 : -1,
      .age = known ? ((double)now_ns(load) - time_ns) / 1e9 : -1,
      .sibling = load_busiest_sibling(load, core),
      .frequency = frequency_hz > 0 ? frequency_hz : -1,
      .source = source_name((enum source_kind)source),
      .proof = proof_name((enum proof)get(load, core, BOARD_COLUMN(proof))),
      .from_board = load->engine == NULL};
}

double percore_load_get(const struct percore_load *load, int core,
                        struct percore_load_details *details) {
  double loaded = get(load, core, BOARD_COLUMN(load));
  if (details != NULL && details->size >= sizeof(details->size)) {
    struct percore_load_details known = details_of(load, core, loaded >= 0);
    size_t size = details->size < sizeof(known) ? details->size : sizeof(known);
    known.size = details->size;
    memcpy(details, &known, size);
  }
  return loaded;
}
