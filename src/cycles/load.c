/* load: the public calls for schedulers, percore_load_*. */
#include "load_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One core's figures as the getters see them: written under the mutex, read
 * with relaxed loads by anyone. */
struct published {
  _Atomic double load;         /* -1: no value */
  _Atomic double frequency_hz; /* -1: not known */
  _Atomic int source;
  _Atomic int proof;
  _Atomic int sibling; /* the next hardware thread going round, -1 none */
};

struct percore_load {
  pthread_mutex_t mutex;   /* serialises updates */
  struct machine *machine; /* NULL: the caller's */
  struct engine *engine;
  atomic_bool closing;
  struct core_total *marks; /* by core number */
  struct published *cores;
  int cores_len;
};

static void publish(struct percore_load *load) {
  size_t len;
  const struct engine_core *states = engine_cores(load->engine, &len);
  const struct topology *topology = engine_topology(load->engine);
  for (size_t i = 0; i < len; i++) {
    const struct engine_core *state = &states[i];
    if (state->core >= load->cores_len)
      continue;
    struct published *core = &load->cores[state->core];
    const struct core_total *from = &load->marks[state->core];
    double value = state->online ? engine_load(from, &state->total) : -1;
    double frequency_hz =
        state->online ? engine_frequency_hz(from, &state->total) : -1;
    load->marks[state->core] = state->total;
    atomic_store_explicit(&core->load, value >= 0 ? value : -1,
                          memory_order_relaxed);
    atomic_store_explicit(&core->frequency_hz,
                          frequency_hz >= 0 ? frequency_hz : -1,
                          memory_order_relaxed);
    atomic_store_explicit(&core->proof, (int)state->proof,
                          memory_order_relaxed);
    atomic_store_explicit(&core->source,
                          state->online ? (int)state->source : SOURCE_NONE,
                          memory_order_relaxed);
    atomic_store_explicit(
        &core->sibling,
        state->core < topology->cores_len ? topology->sibling[state->core] : -1,
        memory_order_relaxed);
  }
}

static int start(struct percore_load *load,
                 const struct engine_options *given) {
  struct engine_options options = *given;
  options.cancel = &load->closing;
  int status = engine_open(&load->engine, &options);
  if (status != 0)
    return status;
  engine_prove(load->engine);
  status = engine_sample(load->engine, false);
  if (status != 0 || !engine_has_source(load->engine))
    return status == -ENOMEM ? status : -ENOTSUP;
  load->cores_len = engine_topology(load->engine)->cores_len;
  load->marks = calloc((size_t)load->cores_len, sizeof(*load->marks));
  load->cores = calloc((size_t)load->cores_len, sizeof(*load->cores));
  if (load->marks == NULL || load->cores == NULL)
    return -ENOMEM;
  for (int core = 0; core < load->cores_len; core++) {
    load->marks[core].epoch = UINT64_MAX; /* no window has begun */
    load->cores[core].load = load->cores[core].frequency_hz = -1;
    load->cores[core].source = SOURCE_NONE;
    load->cores[core].sibling = -1;
  }
  publish(load);
  return 0;
}

int load_open_on(struct percore_load **result,
                 const struct engine_options *options) {
  struct percore_load *load = calloc(1, sizeof(*load));
  if (load == NULL)
    return -1;
  pthread_mutex_init(&load->mutex, NULL);
  int status = start(load, options);
  if (status != 0) {
    percore_load_close(load);
    errno = -status;
    return -1;
  }
  *result = load;
  return 0;
}

/* Returns 0 or -1; a list that is not given leaves the set empty. */
static int parse_list(struct core_set *set, const char *list) {
  core_set_clear(set);
  return list == NULL ||
                 (core_set_parse(set, list) == 0 && core_set_next(set, -1) >= 0)
             ? 0
             : -1;
}

/* Returns 0 or -1. `cores` must live as long as *options. */
static int translate(struct engine_options *options, struct core_set *cores,
                     const struct percore_load_options *given) {
  *options = (struct engine_options){
      .hardware = true,
      .source = SOURCE_AUTO,
      .event = given->event,
      .base_frequency_hz = given->base_frequency_hz,
      .frequency = given->frequency != 0,
  };
  if ((given->source != NULL &&
       source_parse(&options->source, given->source) != 0) ||
      (given->isolated_cores != NULL &&
       isolated_cores_parse(&options->isolated_cores, given->isolated_cores) !=
           0) ||
      parse_list(cores, given->cores) != 0 ||
      parse_list(&options->also_isolated, given->also_isolated) != 0 ||
      !(given->base_frequency_hz >= 0))
    return -1;
  options->cores = given->cores != NULL ? cores : NULL;
  return 0;
}

int percore_load_open(struct percore_load **result,
                      const struct percore_load_options *given) {
  struct percore_load_options copy = {0};
  struct engine_options options;
  struct core_set cores;
  if (given != NULL && given->size >= sizeof(given->size))
    memcpy(&copy, given,
           given->size < sizeof(copy) ? given->size : sizeof(copy));
  if ((given != NULL && given->size < sizeof(given->size)) ||
      translate(&options, &cores, &copy) != 0) {
    errno = EINVAL;
    return -1;
  }
  struct machine *machine = machine_linux(NULL);
  if (machine == NULL)
    return -1;
  options.machine = machine;
  int status = load_open_on(result, &options);
  if (status == 0)
    (*result)->machine = machine;
  else
    machine_linux_close(machine);
  return status;
}

void percore_load_close(struct percore_load *load) {
  if (load == NULL)
    return;
  atomic_store(&load->closing, true); /* a proof under way ends soon */
  engine_close(load->engine);
  machine_linux_close(load->machine);
  pthread_mutex_destroy(&load->mutex);
  free(load->marks);
  free(load->cores);
  free(load);
}

int percore_load_update(struct percore_load *load) {
  pthread_mutex_lock(&load->mutex);
  int status = engine_sample(load->engine, false);
  if (status == 0)
    publish(load);
  engine_prove_aside(load->engine);
  pthread_mutex_unlock(&load->mutex);
  if (status == 0)
    return 0;
  errno = -status;
  return -1;
}

double percore_load_get(const struct percore_load *load, int core) {
  if (core < 0 || core >= load->cores_len)
    return -1;
  return atomic_load_explicit(&load->cores[core].load, memory_order_relaxed);
}

double percore_load_get_sibling(const struct percore_load *load, int core) {
  double busiest = -1;
  int sibling = core;
  /* Round the physical core; the bound is for a map that changes meanwhile. */
  for (int i = 0; i < load->cores_len; i++) {
    if (sibling < 0 || sibling >= load->cores_len)
      break;
    sibling = atomic_load_explicit(&load->cores[sibling].sibling,
                                   memory_order_relaxed);
    if (sibling == core)
      break;
    double value = percore_load_get(load, sibling);
    if (value > busiest)
      busiest = value;
  }
  return busiest;
}

const char *percore_load_source(const struct percore_load *load, int core) {
  if (core < 0 || core >= load->cores_len)
    return source_name(SOURCE_NONE);
  return source_name((enum source)atomic_load_explicit(
      &load->cores[core].source, memory_order_relaxed));
}

const char *percore_load_proof(const struct percore_load *load, int core) {
  if (core < 0 || core >= load->cores_len)
    return proof_name(PROOF_PENDING);
  return proof_name((enum proof)atomic_load_explicit(&load->cores[core].proof,
                                                     memory_order_relaxed));
}

double percore_load_frequency(const struct percore_load *load, int core) {
  if (core < 0 || core >= load->cores_len)
    return -1;
  return atomic_load_explicit(&load->cores[core].frequency_hz,
                              memory_order_relaxed);
}

int percore_load_count(const struct percore_load *load) {
  return load->cores_len;
}
