#include "load.h"

#include "bounds.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The shortest windows. In shorter windows, errors dominate: the counters of a
 * group are read at slightly different times, and columns are truncated to
 * ticks of 10 ms. */
#define SHORTEST_COUNTER_NS UINT64_C(10000000)
#define SHORTEST_IDLE_NS UINT64_C(200000000)
#define SHORTEST_WINDOW_MAX_S 3600

/* The figures of one core as the percore_load_get functions return them. They
 * are written under the mutex. Any thread may read them, with
 * memory_order_relaxed. */
struct published {
  _Atomic double load, low, high; /* -1: unknown */
  _Atomic double sibling_load;    /* of the busiest sibling; -1: unknown */
  _Atomic double frequency_hz;    /* -1: unknown */
  _Atomic double length_s;        /* length of the window */
  _Atomic uint64_t ended_ns;      /* CLOCK_MONOTONIC at the end of the window */
  _Atomic int source;
  _Atomic int proof;
};

/* What the getters return for a core number that does not exist. */
static const struct published nothing = {.load = -1,
                                         .low = -1,
                                         .high = -1,
                                         .sibling_load = -1,
                                         .frequency_hz = -1,
                                         .source = SOURCE_NONE,
                                         .proof = PROOF_PENDING};

struct load_core {
  struct published published;
  /* The totals and the time at which the core's next window begins. */
  struct core_totals start;
  uint64_t start_ns;
};

struct percore_load {
  pthread_mutex_t mutex;   /* serialises updates */
  struct machine *machine; /* closed with the engine; may be NULL */
  struct engine *engine;
  uint64_t shortest_ns;    /* shortest window; 0: depends on the source */
  uint64_t due_ns;         /* when the window will be long enough */
  struct load_core *cores; /* indexed by core number */
  int cores_len;
};

static uint64_t now_ns(const struct percore_load *load) {
  return machine_now_ns(engine_machine(load->engine), CLOCK_MONOTONIC);
}

static uint64_t shortest_window_ns(const struct percore_load *load,
                                   enum source_kind kind) {
  if (load->shortest_ns > 0)
    return load->shortest_ns;
  return kind == SOURCE_IDLE ? SHORTEST_IDLE_NS : SHORTEST_COUNTER_NS;
}

static void put(_Atomic double *figure, double value) {
  atomic_store_explicit(figure, isnan(value) ? -1 : value,
                        memory_order_relaxed);
}

static void publish_window(struct load_core *core, const struct core *state,
                           uint64_t time_ns) {
  struct published *published = &core->published;
  const struct core_totals *from = &core->start, *to = &state->total;
  struct bounds bounds = bounds_of(from, to);
  put(&published->load, state->online ? engine_load(from, to) : NAN);
  put(&published->low, state->online ? bounds.low : NAN);
  put(&published->high, state->online ? bounds.high : NAN);
  put(&published->frequency_hz,
      state->online ? engine_frequency_hz(from, to) : NAN);
  put(&published->length_s, (to->wall - from->wall) / 1e9);
  atomic_store_explicit(&published->ended_ns, time_ns, memory_order_relaxed);
  core->start = state->total;
  core->start_ns = time_ns;
}

static double published_load(const void *context, int core) {
  return percore_load_get(context, core);
}

static void publish_siblings(struct percore_load *load) {
  const struct topology *topology = engine_topology(load->engine);
  for (int core = 0; core < load->cores_len; core++)
    put(&load->cores[core].published.sibling_load,
        topology_sibling_max(topology, core, published_load, load));
}

static void publish(struct percore_load *load) {
  size_t len;
  const struct core *states = engine_cores(load->engine, &len);
  uint64_t time_ns = engine_time_ns(load->engine);
  load->due_ns = time_ns + shortest_window_ns(load, SOURCE_IDLE);
  for (size_t i = 0; i < len; i++) {
    const struct core *state = &states[i];
    if (state->number >= load->cores_len)
      continue;
    struct load_core *core = &load->cores[state->number];
    enum source_kind source = state->online ? state->source : SOURCE_NONE;
    uint64_t shortest_ns = shortest_window_ns(load, source);
    if (source == SOURCE_NONE || core->start.epoch != state->total.epoch ||
        time_ns - core->start_ns >= shortest_ns)
      publish_window(core, state, time_ns);
    if (source != SOURCE_NONE && core->start_ns + shortest_ns < load->due_ns)
      load->due_ns = core->start_ns + shortest_ns;
    atomic_store_explicit(&core->published.source, (int)source,
                          memory_order_relaxed);
    atomic_store_explicit(&core->published.proof, (int)state->proof,
                          memory_order_relaxed);
  }
  publish_siblings(load);
}

static int start(struct percore_load *load) {
  int status = engine_sample(load->engine, false);
  if (status != 0 || !engine_has_source(load->engine))
    return status == -ENOMEM ? status : -ENOTSUP;
  load->cores_len = engine_topology(load->engine)->cores_len;
  load->cores = calloc((size_t)load->cores_len, sizeof(*load->cores));
  if (load->cores == NULL)
    return -ENOMEM;
  for (int core = 0; core < load->cores_len; core++) {
    load->cores[core].start.epoch = UINT64_MAX; /* no window has begun */
    load->cores[core].published = nothing;
  }
  publish(load);
  return 0;
}

int load_open(struct percore_load **result, struct engine *engine,
              uint64_t shortest_ns) {
  struct percore_load *load = calloc(1, sizeof(*load));
  if (load == NULL) {
    engine_close(engine);
    return -ENOMEM;
  }
  pthread_mutex_init(&load->mutex, NULL);
  load->engine = engine;
  load->shortest_ns = shortest_ns;
  int status = start(load);
  if (status != 0) {
    percore_load_close(load);
    return status;
  }
  *result = load;
  return 0;
}

/* Parses a list of at least one core; NULL is the empty set. Returns 0 or
 * -EINVAL. */
static int parse_list(struct core_set *set, const char *list) {
  core_set_clear(set);
  if (list == NULL)
    return 0;
  int status = core_set_parse(set, list);
  return status == 0 && core_set_next(set, -1) >= 0 ? 0 : -EINVAL;
}

/* Translates the caller's options to those of the engine. Returns 0 or -EINVAL.
 * *cores must outlive *options. */
static int translate(struct engine_options *options, struct core_set *cores,
                     const struct percore_load_options *given) {
  *options = (struct engine_options){
      .cores = given->cores != NULL ? cores : NULL,
      .hardware = true,
      .source = SOURCE_AUTO,
      .event = given->event,
      .base_frequency_hz = given->base_frequency_hz,
      .frequency = given->frequency != 0,
  };
  bool good = given->base_frequency_hz >= 0 && given->shortest_window >= 0 &&
              given->shortest_window <= SHORTEST_WINDOW_MAX_S &&
              parse_list(cores, given->cores) == 0 &&
              parse_list(&options->also_isolated, given->also_isolated) == 0;
  if (good && given->source != NULL)
    good = source_parse(&options->source, given->source) == 0;
  if (good && given->isolated_cores != NULL)
    good = isolated_cores_parse(&options->isolated_cores,
                                given->isolated_cores) == 0;
  return good ? 0 : -EINVAL;
}

static int open_on(struct percore_load **result, struct machine *machine,
                   const struct percore_load_options *given) {
  struct engine_options options;
  struct core_set cores;
  struct engine *engine;
  int status = translate(&options, &cores, given);
  if (status != 0)
    return status;
  options.machine = machine;
  status = engine_open(&engine, &options);
  if (status != 0)
    return status;
  engine_prove(engine);
  status = load_open(result, engine, (uint64_t)(given->shortest_window * 1e9));
  if (status == 0)
    (*result)->machine = machine;
  return status;
}

int percore_load_open(struct percore_load **result,
                      const struct percore_load_options *given) {
  struct percore_load_options options = {0};
  if (given != NULL && given->size < sizeof(given->size)) {
    errno = EINVAL;
    return -1;
  }
  if (given != NULL)
    memcpy(&options, given,
           given->size < sizeof(options) ? given->size : sizeof(options));
  struct machine *machine = machine_linux(NULL);
  int status = machine != NULL ? open_on(result, machine, &options) : -ENOMEM;
  if (status == 0)
    return 0;
  machine_linux_close(machine);
  errno = -status;
  return -1;
}

void percore_load_close(struct percore_load *load) {
  if (load == NULL)
    return;
  engine_close(load->engine);
  machine_linux_close(load->machine);
  pthread_mutex_destroy(&load->mutex);
  free(load->cores);
  free(load);
}

int percore_load_update(struct percore_load *load) {
  int status = 0;
  pthread_mutex_lock(&load->mutex);
  if (now_ns(load) >= load->due_ns) {
    status = engine_sample(load->engine, false);
    if (status == 0)
      publish(load);
    engine_prove_aside(load->engine);
  }
  pthread_mutex_unlock(&load->mutex);
  if (status == 0)
    return 0;
  errno = -status;
  return -1;
}

static const struct published *published_of(const struct percore_load *load,
                                            int core) {
  return core >= 0 && core < load->cores_len ? &load->cores[core].published
                                             : &nothing;
}

static double get(const _Atomic double *figure) {
  return atomic_load_explicit(figure, memory_order_relaxed);
}

#define GETTER(name, member)                                                   \
  double name(const struct percore_load *load, int core) {                     \
    return get(&published_of(load, core)->member);                             \
  }
GETTER(percore_load_get, load)
GETTER(percore_load_get_low, low)
GETTER(percore_load_get_high, high)
GETTER(percore_load_get_sibling, sibling_load)
GETTER(percore_load_frequency, frequency_hz)

double percore_load_get_window(const struct percore_load *load, int core,
                               double *age) {
  if (percore_load_get(load, core) < 0)
    return -1;
  const struct published *published = &load->cores[core].published;
  uint64_t ended_ns =
      atomic_load_explicit(&published->ended_ns, memory_order_relaxed);
  if (age != NULL)
    *age = (double)(now_ns(load) - ended_ns) / 1e9;
  return get(&published->length_s);
}

const char *percore_load_source(const struct percore_load *load, int core) {
  return source_name((enum source_kind)atomic_load_explicit(
      &published_of(load, core)->source, memory_order_relaxed));
}

const char *percore_load_proof(const struct percore_load *load, int core) {
  return proof_name((enum proof)atomic_load_explicit(
      &published_of(load, core)->proof, memory_order_relaxed));
}

int percore_load_count(const struct percore_load *load) {
  return load->cores_len;
}
