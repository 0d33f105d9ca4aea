/* A producer whose rows are reused, and whose counts are known exactly.
 *
 *   churn_producer REGION[@INSTANCE] TRUTH [OPTION=NUMBER ...]
 *
 * The table `session` has `live` objects. Each object is in a place, which is
 * an entry in the array of one worker. To replace an object, its worker counts
 * a last packet for it, removes its row, passes a quiescent point, adds the row
 * of a new object and counts that object's first packet. A packet has 100
 * bytes.
 *
 *   rows=1000     rows of the table
 *   live=900      objects at a time
 *   workers=1     number of threads; worker k counts for core k, or in the
 *                 single copy
 *   reuses=0      objects that all workers together replace per second
 *   packets=0     packets per second in addition to first and last packets
 *   hot=0         if not 0: half of the packets are counted in the first `hot`
 *                 places of a worker
 *   pool=0        use the keys 0 to pool - 1 again and again; 0: never repeat a
 *                 key
 *   percore=0     1: the table is PER_CORE, and workers also count in places of
 *                 other workers; 0: it is OWNED
 *   shared=0      1: in addition, a thread without a slot counts for the
 *                 objects of the workers, in the table's copy for threads
 *                 without a slot; requires percore=1
 *   named=0       1: rows have the names s<KEY>
 *   noreset=0     1: PERCORE_NO_RESET
 *   schema=1      2: other columns, without `held` and `latency`
 *   tick=1000     microseconds between two rounds of a worker
 *   seed=1        seed of the random numbers
 *
 * Commands are read from standard input, one per line; each is answered by a
 * line. PLACE is a place of the first worker. `count` and `reuse` require that
 * the workers are stopped.
 *
 *   run | stop               start or stop the workers
 *   count PLACE N VALUE      count N packets, each with a latency of VALUE
 *   reuse PLACE              replace an object without counting packets
 *   reset                    reset the table
 *
 * TRUTH is a file that outlives the producer: a struct truth for each of 64
 * workers, then the packets counted for each key of the pool. If the producer
 * is killed, `begun` and `done` differ by at most one update for each worker.
 */
#include "../unit/calls.h"
#include "percore_tune.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { MAX_WORKERS = 64, MOST_LATE_US = 50000, PACKET = 100, MOST_TRIES = 10 };
/* Fields, as indices into columns_1 and columns_2. A field may be in different
 * columns in the two schemas. */
enum { PACKETS, BYTES, HELD, LATENCY, FIELDS };

static const struct percore_field fields_1[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "held", .unit = "packets", .kind = PERCORE_UPDOWN},
    {.name = "latency",
     .unit = "ns",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 0,
     .max_bits = 10},
};
static const struct percore_field fields_2[] = {
    {.name = "errors", .unit = "errors"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "packets", .unit = "packets"},
};
static const uint32_t columns_1[FIELDS] = {0, 1, 2, 3};
static const uint32_t columns_2[FIELDS] = {2, 1, 0, 0};

static struct {
  uint64_t rows, live, workers, reuses, packets, hot, pool, percore, shared,
      named, noreset, schema, tick, seed;
} options = {.rows = 1000,
             .live = 900,
             .workers = 1,
             .schema = 1,
             .tick = 1000,
             .seed = 1};

static const struct {
  const char *name;
  uint64_t *value;
} option_names[] = {
    {"rows", &options.rows},       {"live", &options.live},
    {"workers", &options.workers}, {"reuses", &options.reuses},
    {"packets", &options.packets}, {"hot", &options.hot},
    {"pool", &options.pool},       {"percore", &options.percore},
    {"shared", &options.shared},   {"named", &options.named},
    {"noreset", &options.noreset}, {"schema", &options.schema},
    {"tick", &options.tick},       {"seed", &options.seed},
};

/* The packets that a worker has begun to count, and has counted: [0] for
 * objects with odd keys, [1] for objects with even keys. */
struct truth {
  uint64_t begun[2];
  uint64_t done[2];
  uint64_t reuses;
  uint64_t refused; /* rows that could not be added at the first attempt */
  int64_t held;     /* sum of `held` over live objects */
  uint64_t spare;
};

/* An object: its row in the upper 32 bits, its key in the lower 32 bits. */
typedef _Atomic uint64_t place_t;
#define NO_OBJECT UINT64_MAX

struct worker {
  pthread_t thread;
  int core; /* -1: the thread has no slot */
  percore_slot_t slot;
  percore_table_t table;
  uint64_t random;
  uint64_t next_key;
  uint64_t reuse_credit, packet_credit; /* in millionths */
  place_t *places;
  uint64_t place_count;
  struct truth *truth;
};

static struct percore_region *region;
static const uint32_t *columns;
static uint64_t *truth_of_key;
static struct worker workers[MAX_WORKERS];
static atomic_bool stopping;

/* ---------------------------------------------------------------------------
 * Counting
 */

static void attach(struct worker *worker, const char *name) {
  worker->slot = percore_attach(region, name, worker->core);
  worker->table = percore_table(worker->slot, 0);
}

static uint64_t random_below(struct worker *worker, uint64_t limit) {
  uint64_t x = worker->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  worker->random = x;
  return (x >> 11) % limit;
}

#define ADD_PACKETS(handle, n, value)                                          \
  do {                                                                         \
    percore_add(handle, columns[PACKETS], n);                                  \
    percore_add(handle, columns[BYTES], PACKET *(n));                          \
    for (uint64_t i = 0; options.schema == 1 && i < (n); i++)                  \
      percore_observe(handle, LATENCY, value);                                 \
  } while (0)

static void add_shared(uint32_t row, uint64_t n) {
  percore_shared_row_t handle = percore_shared_row(region, 0, row);
  percore_shared_add(handle, columns[PACKETS], n);
  percore_shared_add(handle, columns[BYTES], PACKET * n);
}

/* Counts n packets for an object, each with a latency of `value`. The signal
 * fences keep the compiler from moving the updates of `begun` and `done` past
 * the counting. */
static void count(struct worker *worker, uint64_t object, uint64_t n,
                  uint64_t value) {
  uint32_t row = (uint32_t)(object >> 32), key = (uint32_t)object;
  worker->truth->begun[key % 2 == 0] += n;
  if (options.pool > 0)
    __atomic_fetch_add(&truth_of_key[key], n, __ATOMIC_RELAXED);
  atomic_signal_fence(memory_order_seq_cst);
  if (worker->core < 0)
    add_shared(row, n);
  else
    ADD_PACKETS(percore_row(worker->table, row), n, value);
  atomic_signal_fence(memory_order_seq_cst);
  worker->truth->done[key % 2 == 0] += n;
}

static void hold(struct worker *worker, uint64_t object) {
  uint32_t row = (uint32_t)(object >> 32), n = (uint32_t)object % 7;
  if (options.schema == 1)
    percore_add(percore_row(worker->table, row), columns[HELD], n);
}

/* ---------------------------------------------------------------------------
 * Objects that come and go
 */

static uint64_t next_key(struct worker *worker) {
  uint64_t key = worker->next_key;
  worker->next_key += options.workers;
  return options.pool > 0 ? key % options.pool : key;
}

static int make_row_of(uint64_t key, uint32_t *row) {
  char name[24];
  if (!options.named)
    return make_row_key(region, 0, key, row);
  snprintf(name, sizeof(name), "s%llu", (unsigned long long)key);
  return make_row(region, 0, name, row);
}

/* Adds the row of a new object, and stores the object in the place. Skips keys
 * of the pool that are in use. Returns 0, or -1 with errno EAGAIN while other
 * workers may still count in every free row. */
static int begin_object(struct worker *worker, place_t *place) {
  uint64_t key = next_key(worker);
  uint32_t row;
  while (make_row_of(key, &row) != 0) {
    if (errno != EEXIST) {
      worker->truth->refused++;
      worker->next_key -= options.workers;
      return -1;
    }
    key = next_key(worker);
  }
  uint64_t object = (uint64_t)row << 32 | (uint32_t)key;
  hold(worker, object);
  worker->truth->held += options.schema == 1 ? (int64_t)(key % 7) : 0;
  atomic_store(place, object);
  return 0;
}

static int end_object(struct worker *worker, place_t *place) {
  uint64_t object = atomic_exchange(place, NO_OBJECT);
  if (object == NO_OBJECT)
    return 0;
  /* Only this worker counts in its OWNED rows, so no update is in flight. */
  if (percore_row_remove(region, 0, (uint32_t)(object >> 32),
                         options.percore ? 0 : PERCORE_NO_UPDATE_IN_FLIGHT) !=
      0)
    return -1;
  worker->truth->held -=
      options.schema == 1 ? (int64_t)((uint32_t)object % 7) : 0;
  worker->truth->reuses++;
  percore_quiescent(worker->slot);
  return 0;
}

static void reuse(struct worker *worker) {
  place_t *place = &worker->places[random_below(worker, worker->place_count)];
  uint64_t object = atomic_load(place);
  if (object != NO_OBJECT)
    count(worker, object, 1, 1);
  if (end_object(worker, place) != 0) {
    perror("percore_row_remove");
    exit(1);
  }
  if (begin_object(worker, place) == 0)
    count(worker, atomic_load(place), 1, 1);
}

static uint64_t count_some(struct worker *worker) {
  struct worker *whose = options.percore
                             ? &workers[random_below(worker, options.workers)]
                             : worker;
  bool hot = options.hot > 0 && random_below(worker, 2) == 0;
  uint64_t number =
      random_below(worker, hot ? options.hot : whose->place_count);
  uint64_t object = atomic_load(&whose->places[number]);
  uint64_t n = 1 + random_below(worker, 8);
  if (object != NO_OBJECT)
    count(worker, object, n, n);
  return n;
}

/* ---------------------------------------------------------------------------
 * Workers
 */

static uint64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void wait_for_tick(void) {
  struct timespec tick = {.tv_nsec = (long)options.tick * 1000};
  nanosleep(&tick, NULL);
}

static void work_for(struct worker *worker, uint64_t us) {
  worker->reuse_credit += us * options.reuses / options.workers;
  for (; worker->reuse_credit >= 1000000; worker->reuse_credit -= 1000000)
    reuse(worker);
  worker->packet_credit += us * options.packets / options.workers;
  while (worker->packet_credit >= 8 * 1000000)
    worker->packet_credit -= 1000000 * count_some(worker);
  percore_quiescent(worker->slot);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  attach(worker, "churn");
  for (uint64_t last = now_us(); !atomic_load(&stopping);) {
    wait_for_tick();
    uint64_t now = now_us();
    work_for(worker, now - last < MOST_LATE_US ? now - last : MOST_LATE_US);
    last = now;
  }
  percore_detach(worker->slot);
  return NULL;
}

static void *work_without_slot(void *argument) {
  struct worker *worker = argument;
  while (!atomic_load(&stopping)) {
    wait_for_tick();
    count_some(worker);
  }
  return NULL;
}

static int do_run(const char *line) {
  struct worker *shared = &workers[options.workers];
  (void)line;
  atomic_store(&stopping, false);
  if (options.shared &&
      pthread_create(&shared->thread, NULL, work_without_slot, shared) != 0)
    return -1;
  for (uint64_t w = 0; w < options.workers; w++)
    if (pthread_create(&workers[w].thread, NULL, work, &workers[w]) != 0)
      return -1;
  return 0;
}

static int do_stop(const char *line) {
  (void)line;
  atomic_store(&stopping, true);
  if (options.shared)
    pthread_join(workers[options.workers].thread, NULL);
  for (uint64_t w = 0; w < options.workers; w++)
    pthread_join(workers[w].thread, NULL);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Commands
 */

static place_t *place_of(const char *line) {
  uint64_t number = strtoull(line, NULL, 10);
  errno = EINVAL;
  return number < workers[0].place_count ? &workers[0].places[number] : NULL;
}

static int do_count(const char *line) {
  unsigned long long n, value;
  place_t *place = place_of(line);
  if (place == NULL || sscanf(line, "%*u %llu %llu", &n, &value) != 2)
    return -1;
  attach(&workers[0], "hand");
  count(&workers[0], atomic_load(place), n, value);
  return percore_detach(workers[0].slot);
}

/* Calls begin_object until the row that was just removed is free. Returns -1 if
 * it is not free after MOST_TRIES calls. */
static int begin_soon(struct worker *worker, place_t *place) {
  for (int i = 0; i < MOST_TRIES; i++) {
    if (begin_object(worker, place) == 0)
      return 0;
    percore_quiescent(worker->slot);
  }
  return -1;
}

static int do_reuse(const char *line) {
  place_t *place = place_of(line);
  if (place == NULL)
    return -1;
  attach(&workers[0], "hand");
  int rc = end_object(&workers[0], place);
  if (rc == 0)
    rc = begin_soon(&workers[0], place);
  percore_detach(workers[0].slot);
  return rc;
}

static int do_reset(const char *line) {
  (void)line;
  return percore_reset(region, 0, PERCORE_ALL_ROWS);
}

static const struct {
  const char *name;
  int (*run)(const char *line);
} commands[] = {
    {"run", do_run},     {"stop", do_stop},   {"count", do_count},
    {"reuse", do_reuse}, {"reset", do_reset},
};

static int obey(const char *line) {
  size_t length = strcspn(line, " \n");
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    if (strlen(commands[i].name) == length &&
        strncmp(commands[i].name, line, length) == 0)
      return commands[i].run(line + length);
  errno = EINVAL;
  return -1;
}

/* ---------------------------------------------------------------------------
 * Set-up
 */

static bool parse(const char *argument) {
  const char *equals = strchr(argument, '=');
  if (equals == NULL)
    return false;
  for (size_t i = 0; i < COUNT_OF(option_names); i++)
    if (strlen(option_names[i].name) == (size_t)(equals - argument) &&
        strncmp(option_names[i].name, argument, (size_t)(equals - argument)) ==
            0) {
      *option_names[i].value = strtoull(equals + 1, NULL, 10);
      return true;
    }
  return false;
}

static struct truth *map_truth(const char *path) {
  size_t size = MAX_WORKERS * sizeof(struct truth) + options.pool * 8;
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
    return NULL;
  void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return map == MAP_FAILED ? NULL : map;
}

static int make_region(char *name) {
  struct percore_options how = {0};
  struct percore_table table = {
      .name = "session",
      .storage = options.percore ? PERCORE_PER_CORE : PERCORE_OWNED,
      .fields = options.schema == 1 ? fields_1 : fields_2,
      .field_count =
          options.schema == 1 ? COUNT_OF(fields_1) : COUNT_OF(fields_2),
      .max_rows = (uint32_t)options.rows,
      .row_name_size = options.named ? 24 : 0,
      .flags = options.noreset ? PERCORE_NO_RESET : 0,
  };
  char *at = strchr(name, '@');
  if (at != NULL) {
    *at = '\0';
    how.instance = at + 1;
  }
  columns = options.schema == 1 ? columns_1 : columns_2;
  if (create_region(&region, name, &table, 1, &how) != 0)
    return -1;
  return 0;
}

static int make_worker(uint64_t w, struct truth *truth) {
  struct worker *worker = &workers[w];
  worker->core = (int)w;
  worker->random = (options.seed << 32) + w + 1;
  worker->next_key = w;
  worker->truth = truth;
  worker->place_count = options.live / options.workers;
  if (w == options.workers) { /* the thread without a slot */
    worker->core = -1;
    return 0;
  }
  worker->places = calloc(worker->place_count, sizeof(place_t));
  attach(worker, "hand");
  for (uint64_t i = 0; i < worker->place_count; i++)
    if (begin_object(worker, &worker->places[i]) != 0)
      return -1;
  return percore_detach(worker->slot);
}

int main(int argc, char **argv) {
  char line[256];
  for (int i = 3; i < argc; i++)
    if (!parse(argv[i]))
      argc = 0;
  if (argc < 3 || options.workers < 1 || options.workers >= MAX_WORKERS ||
      options.shared > options.percore)
    return 2;
  struct truth *truth = map_truth(argv[2]);
  if (truth == NULL || make_region(argv[1]) != 0) {
    perror("churn_producer");
    return 1;
  }
  truth_of_key = (uint64_t *)(truth + MAX_WORKERS);
  for (uint64_t w = 0; w < options.workers + options.shared; w++)
    if (make_worker(w, &truth[w]) != 0) {
      perror("churn_producer");
      return 1;
    }
  puts("ok");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    if (obey(line) == 0)
      puts("ok");
    else
      printf("error %s\n", strerror(errno));
    fflush(stdout);
  }
  return 0;
}
