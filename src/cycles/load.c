/* load: the public calls for schedulers, percore_load_*. */
#include "engine.h"
#include "percore.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* One core's figures as the getters see them: written under the mutex, read
 * with relaxed loads by anyone. */
struct published {
  _Atomic double load; /* -1: no value */
  _Atomic int source;
  _Atomic int sibling; /* the next hardware thread going round, -1 none */
};

struct percore_load {
  pthread_mutex_t mutex; /* serialises updates */
  struct machine *machine;
  struct engine *engine;
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
    double value = state->online
                       ? engine_load(&load->marks[state->core], &state->total)
                       : -1;
    load->marks[state->core] = state->total;
    atomic_store_explicit(&core->load, value >= 0 ? value : -1,
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

static int start(struct percore_load *load) {
  load->machine = machine_linux(NULL);
  if (load->machine == NULL)
    return -ENOMEM;
  struct engine_options options = {
      .machine = load->machine, .hardware = true, .source = SOURCE_AUTO};
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
    load->cores[core].load = -1;
    load->cores[core].source = SOURCE_NONE;
    load->cores[core].sibling = -1;
  }
  publish(load);
  return 0;
}

int percore_load_open(struct percore_load **result) {
  struct percore_load *load = calloc(1, sizeof(*load));
  if (load == NULL)
    return -1;
  pthread_mutex_init(&load->mutex, NULL);
  int status = start(load);
  if (status != 0) {
    percore_load_close(load);
    errno = -status;
    return -1;
  }
  *result = load;
  return 0;
}

void percore_load_close(struct percore_load *load) {
  if (load == NULL)
    return;
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

int percore_load_count(const struct percore_load *load) {
  return load->cores_len;
}
