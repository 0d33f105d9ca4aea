/* peers.cc: the price of an update in libpercore and in what others use.
 *
 *     peers MODE WORKERS SECONDS
 *
 * tight      four counters of one row per packet, one packet after another
 * work       the same, with about 1000 cycles of other work per packet
 * rows       the same, of a row at random among a million
 * prefetch   the same, with a prefetch 16 packets ahead
 * flows      two counters of all packets and two of one of 1024 flows, with the
 *            other work: the patterns of the DPDK guide's chapter on statistics
 *
 * The ways take turns, in short blocks. From the time of a block with other
 * work, that of the block before, which does nothing else, is subtracted. A
 * block counts only if all workers ran at the same time. Prints lines "way,
 * figure, median, quartiles, number of blocks": ns and cycles per counter, the
 * ratio to a plain array, and the percentage of packets that its reader does
 * not find.
 *
 * peers_counters.py compiles this, with HAVE_NAME for what is installed. */
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "bench.h"
#include "percore_reader.h"
#include "percore_tune.h"

#ifdef HAVE_PROMETHEUS
#include <prometheus/counter.h>
#endif
#ifdef HAVE_URCU
#include <urcu.h>
#endif
#ifdef HAVE_MMV
extern "C" {
#include <pcp/pmapi.h>
/* needs the one above */
#include <pcp/mmv_stats.h>
}
#endif
#ifdef HAVE_DPDK
#include <rte_config.h>
/* before the others */
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_metrics.h>
#endif
#ifdef HAVE_LTTNG
#include "peers_lttng.h"
#endif
#ifdef HAVE_RSEQ
#include <sys/rseq.h>
#endif

namespace {

enum {
  WORKERS = 2,
  COUNTERS = 4,
  FLOWS = 1024,
  MANY = 1000000,
  AHEAD = 16,
  APART = 4
};
enum Mode { TIGHT, WORK, ROWS, PREFETCH, IN_FLOWS, MODES };
const char *const modes[] = {"tight", "work", "rows", "prefetch", "flows"};
Mode mode;
int workers;
uint32_t rows; /* of each table */

bool at_random() { return mode == ROWS || mode == PREFETCH; }

/* gcc drops calls of functions that only prefetch. */
#define INLINE inline __attribute__((always_inline))

/* ---------------------------------------------------------------------------
 * Ways of counting. A worker has a copy of its own in a local variable while it
 * counts. `row` of packet() is the worker's own in ways that are `owned`.
 */

struct Way {
  static constexpr bool owned = false;
  static constexpr uint32_t packets = 10000; /* in a block of a tight loop */
  void start(int) {}
  void begin() {}
  void end() {}
};

template <class W> W kept[WORKERS]; /* between its blocks */

template <class W> INLINE void packet(W &way, uint32_t row, uint64_t bytes) {
  way.begin();
  way.add(row, 0, 1);
  way.add(row, 1, bytes);
  way.add(row, 2, bytes & 1);
  way.add(row, 3, bytes >> 10);
  way.end();
}

template <class W>
INLINE void flow_packet(W &way, uint32_t flow, uint64_t bytes) {
  way.begin();
  way.add(0, 0, 1);
  way.add(0, 1, bytes);
  way.add(1 + flow, 0, 1);
  way.add(1 + flow, 1, bytes);
  way.end();
}

struct Nothing : Way {
  void add(uint32_t row, uint32_t, uint64_t n) {
    __asm__ volatile("" ::"r"(row), "r"(n));
  }
  INLINE void prefetch(uint32_t) {}
  static bool prepare() { return true; }
  static uint64_t total() { return 0; }
};

/* Memory of zeros, in huge pages if the kernel has some. */
uint64_t *make(size_t copies) {
  size_t size = (copies * rows * COUNTERS * 8 + (2 << 20)) >> 21 << 21;
  void *memory = aligned_alloc(2 << 20, size);
  madvise(memory, size, MADV_HUGEPAGE);
  return static_cast<uint64_t *>(memset(memory, 0, size));
}

void add_plain(uint64_t *cell, uint64_t n) {
  __atomic_store_n(cell, __atomic_load_n(cell, __ATOMIC_RELAXED) + n,
                   __ATOMIC_RELAXED);
}

uint64_t sum(const uint64_t *cells, size_t copies) {
  uint64_t all = 0;
  for (size_t row = 0; row < copies * rows; row++)
    all += cells[row * COUNTERS];
  return all;
}

/* Ways with arrays. */
template <class W, size_t COPIES = 1> struct Array : Way {
  static inline uint64_t *made;
  uint64_t *cells;
  void start(int) { cells = made; }
  static bool prepare() { return (made = make(COPIES)) != nullptr; }
  static uint64_t total() { return sum(made, COPIES); }
  uint64_t *at(uint32_t row, uint32_t column) {
    return &cells[size_t{row} * COUNTERS + column];
  }
  void add(uint32_t row, uint32_t column, uint64_t n) {
    add_plain(at(row, column), n);
  }
  INLINE void prefetch(uint32_t row) { __builtin_prefetch(at(row, 0), 1); }
};

struct Plain : Array<Plain> {
  static constexpr bool owned = true;
};
struct Unsynchronised : Array<Unsynchronised> {};

struct Atomic : Array<Atomic> {
  void add(uint32_t row, uint32_t column, uint64_t n) {
    reinterpret_cast<std::atomic<uint64_t> *>(at(row, column))
        ->fetch_add(n, std::memory_order_relaxed);
  }
};

struct alignas(128) Lock {
  char taken;
  void take() {
    while (__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE))
      while (__atomic_load_n(&taken, __ATOMIC_RELAXED))
        ;
  }
  void give() { __atomic_store_n(&taken, 0, __ATOMIC_RELEASE); }
};
Lock common_lock, buffer_lock, core_locks[WORKERS];

struct Locked : Array<Locked> {
  void begin() { common_lock.take(); }
  void end() { common_lock.give(); }
};

/* Notes the adds, and does a thousand of them at once. */
struct Buffered : Array<Buffered> {
  struct Note {
    uint64_t *cell, n;
  };
  static inline Note buffers[WORKERS][1024];
  Note *notes;
  size_t count = 0;
  void start(int worker) {
    Array::start(worker);
    notes = buffers[worker];
  }
  void add(uint32_t row, uint32_t column, uint64_t n) {
    notes[count++] = {at(row, column), n};
    if (count == 1024)
      flush();
  }
  __attribute__((noinline)) void flush() {
    buffer_lock.take();
    for (size_t i = 0; i < count; i++)
      add_plain(notes[i].cell, notes[i].n);
    buffer_lock.give();
    count = 0;
  }
  static uint64_t total();
};
uint64_t Buffered::total() {
  for (Buffered &way : kept<Buffered>)
    way.flush();
  return sum(made, 1);
}

struct CoreLocked : Array<CoreLocked, WORKERS> {
  Lock *lock;
  void start(int worker) {
    cells = made + static_cast<size_t>(worker) * rows * COUNTERS;
    lock = &core_locks[worker];
  }
  void begin() { lock->take(); }
  void end() { lock->give(); }
};

/* ---------------------------------------------------------------------------
 * percore
 */

enum { CORE, SECTION, OWNED, SMALL, SHARED, TABLES };
percore_region *region;

bool create_region() {
  static const percore_storage storages[] = {PERCORE_PER_CORE, PERCORE_PER_CORE,
                                             PERCORE_OWNED, PERCORE_OWNED,
                                             PERCORE_SHARED};
  static const char *const names[] = {"percore", "section", "owned", "small",
                                      "shared"};
  static percore_field fields[COUNTERS];
  static struct percore_table tables[TABLES];
  for (int i = 0; i < COUNTERS; i++)
    fields[i].name = names[i];
  for (int i = 0; i < TABLES; i++) {
    tables[i].name = names[i];
    tables[i].storage = storages[i];
    tables[i].fields = fields;
    tables[i].field_count = COUNTERS;
    tables[i].max_rows = rows;
    tables[i].flags = PERCORE_NO_RESET;
  }
  region = percore_create("peers", tables, TABLES, nullptr);
  return errno == 0;
}

/* After the workers have attached, so that rows of each are in huge pages. */
void add_rows() {
  for (uint32_t table = 0; table < TABLES; table++) {
    bool used = !at_random() || (table != SECTION && table != SHARED);
    if (used && table != SMALL)
      percore_reserve(region, table, rows); /* takes huge pages */
    for (uint32_t row = 0; used && row < rows; row++)
      percore_row_add_at(region, table, row, nullptr, row);
  }
}

/* What a reader of the region finds in the first column of a table. */
uint64_t total_of(uint32_t table) {
  percore_reader *reader;
  uint64_t all = 0, value;
  percore_open(&reader, "peers", nullptr);
  while (percore_refresh(reader) < 0)
    ;
  for (uint32_t row = 0; row < percore_reader_rows(reader, table); row++)
    if (percore_read_row(reader, table, row, PERCORE_TOTAL, nullptr, 0, &value,
                         1) >= 0)
      all += value;
  percore_close(reader);
  return all;
}

template <uint32_t TABLE> struct Region : Way {
  static bool prepare() { return region != nullptr || create_region(); }
  static uint64_t total() { return total_of(TABLE); }
};

template <uint32_t TABLE> struct PerCoreIn : Region<TABLE> {
  percore_table_t table;
  void start(int) { table = percore_table(percore_this_slot(region), TABLE); }
  void add(uint32_t row, uint32_t column, uint64_t n) {
    percore_add(percore_row(table, row + 1), column, n);
  }
  INLINE void prefetch(uint32_t row) {
    percore_prefetch(percore_row(table, row + 1));
  }
};
using PerCore = PerCoreIn<CORE>;

struct Section : PerCoreIn<SECTION> {
  void begin() { percore_begin(percore_row(table, 1)); }
  void end() { percore_end(percore_row(table, 1)); }
};

template <uint32_t TABLE> struct OwnedIn : Region<TABLE> {
  static constexpr bool owned = true;
  percore_table_t table;
  void start(int) { table = percore_table(percore_this_slot(region), TABLE); }
  void add(uint32_t row, uint32_t column, uint64_t n) {
    percore_add(percore_row(table, row + 1), column, n);
  }
  INLINE void prefetch(uint32_t row) {
    percore_prefetch(percore_row(table, row + 1));
  }
};

using Owned = OwnedIn<OWNED>;
using Small = OwnedIn<SMALL>;

struct Shared : Region<SHARED> {
  void start(int) {}
  void add(uint32_t row, uint32_t column, uint64_t n) {
    percore_shared_add(percore_shared_row(region, SHARED, row + 1), column, n);
  }
};

/* ---------------------------------------------------------------------------
 * Others
 */

#ifdef HAVE_RSEQ
/* An array for each CPU of the kernel, and an add that the kernel restarts if
 * the thread is moved or interrupted in it. */
struct Rseq : Array<Rseq, WORKERS> {
  struct rseq *mine() {
    return reinterpret_cast<struct rseq *>(
        static_cast<char *>(__builtin_thread_pointer()) + __rseq_offset);
  }
  uint64_t *of(uint32_t cpu, uint32_t row, uint32_t column) {
    return at(cpu * rows + row, column);
  }
  void add(uint32_t row, uint32_t column, uint64_t n) {
    for (bool done = false; !done;) {
      uint32_t cpu = __atomic_load_n(&mine()->cpu_id_start, __ATOMIC_RELAXED);
      done = add_on(mine(), cpu, of(cpu, row, column), n);
    }
  }
  static bool add_on(struct rseq *rseq, uint32_t cpu, uint64_t *cell,
                     uint64_t n) {
    __asm__ goto(
        ".pushsection __rseq_cs, \"aw\"\n\t"
        ".balign 32\n"
        "11:\t.long 0, 0\n\t"
        ".quad 12f, 13f - 12f, 14f\n\t"
        ".popsection\n\t"
        ".pushsection .text.unlikely, \"ax\"\n\t"
        ".byte 0x0f, 0xb9, 0x3d\n\t" /* an invalid instruction, whose operand is
                                      */
        ".long 0x53053053\n" /* the signature before each abort handler */
        "14:\tjmp %l[aborted]\n\t"
        ".popsection\n\t"
        "lea 11b(%%rip), %%rax\n\t"
        "mov %%rax, %[section]\n"
        "12:\tcmp %[cpu], %[now]\n\t"
        "jne %l[aborted]\n\t"
        "add %[n], %[cell]\n"
        "13:"
        :
        : [section] "m"(rseq->rseq_cs), [now] "m"(rseq->cpu_id), [cpu] "r"(cpu),
          [cell] "m"(*cell), [n] "r"(n)
        : "rax", "memory", "cc"
        : aborted);
    return true;
  aborted:
    return false;
  }
  INLINE void prefetch(uint32_t row) {
    __builtin_prefetch(of(mine()->cpu_id_start, row, 0), 1);
  }
};
#endif

#ifdef HAVE_URCU
/* Rows that a table of pointers could lose at any time, and are safe in a read
 * section. */
struct Urcu : Array<Urcu> {
  static constexpr bool owned = true;
  void begin() {
    rcu_read_lock();
    cells = rcu_dereference(made);
  }
  void end() { rcu_read_unlock(); }
};
#endif

#ifdef HAVE_PROMETHEUS
struct Prometheus : Way {
  static inline prometheus::Counter *counters;
  static bool prepare() {
    counters = new prometheus::Counter[size_t{rows} * COUNTERS];
    return true;
  }
  static uint64_t total() {
    double all = 0;
    for (size_t row = 0; row < rows; row++)
      all += counters[row * COUNTERS].Value();
    return static_cast<uint64_t>(all);
  }
  void add(uint32_t row, uint32_t column, uint64_t n) {
    counters[size_t{row} * COUNTERS + column].Increment(static_cast<double>(n));
  }
  INLINE void prefetch(uint32_t row) {
    __builtin_prefetch(&counters[size_t{row} * COUNTERS], 1);
  }
};
#endif

#ifdef HAVE_MMV
struct Mmv : Way {
  static inline void *file;
  static inline pmAtomValue *values[COUNTERS];
  static bool prepare() {
    static mmv_metric_t metrics[COUNTERS];
    for (unsigned i = 0; i < COUNTERS; i++) {
      snprintf(metrics[i].name, sizeof(metrics[i].name), "counter%u", i);
      metrics[i].item = i + 1;
      metrics[i].type = MMV_TYPE_U64;
      metrics[i].semantics = MMV_SEM_COUNTER;
      metrics[i].dimension = pmUnits(MMV_UNITS(0, 0, 1, 0, 0, PM_COUNT_ONE));
    }
    file = mmv_stats_init("peers", 1, MMV_FLAG_PROCESS, metrics, COUNTERS,
                          nullptr, 0);
    for (unsigned i = 0; file != nullptr && i < COUNTERS; i++)
      values[i] = mmv_lookup_value_desc(file, metrics[i].name, nullptr);
    return file != nullptr;
  }
  static uint64_t total() { return values[0]->ull; }
  void add(uint32_t, uint32_t column, uint64_t n) {
    mmv_inc_value(file, values[column], static_cast<double>(n));
  }
};
#endif

#ifdef HAVE_DPDK
/* Sets a value to the worker's own count: it has no add, and one value for all
 * workers. */
struct RteMetrics : Way {
  static constexpr uint32_t packets = 1000;
  static inline int key;
  uint64_t counts[COUNTERS] = {};
  static bool prepare() {
    static const char *arguments[] = {
        "peers", "--no-huge",      "--no-pci",      "--no-shconf",
        "-m64",  "--no-telemetry", "--log-level=1", "-l0"};
    static const char *const names[] = {"packets", "bytes", "odd", "long"};
    if (rte_eal_init(8, const_cast<char **>(arguments)) < 0)
      return false;
    rte_metrics_init(static_cast<int>(rte_socket_id()));
    return (key = rte_metrics_reg_names(names, COUNTERS)) >= 0;
  }
  static uint64_t total() {
    rte_metric_value values[COUNTERS];
    rte_metrics_get_values(RTE_METRICS_GLOBAL, values, COUNTERS);
    return values[0].value;
  }
  void add(uint32_t, uint32_t column, uint64_t n) {
    rte_metrics_update_value(RTE_METRICS_GLOBAL,
                             static_cast<uint16_t>(key + int(column)),
                             counts[column] += n);
  }
};
#endif

#ifdef HAVE_LTTNG
/* An event for each packet, with all four values: what the session does not
 * record is known to peers_counters.py. */
struct Lttng : Way {
  static constexpr uint32_t packets = 1000;
  static bool prepare() { return true; }
  static uint64_t total() { return UINT64_MAX; }
};
void packet(Lttng &, uint32_t row, uint64_t bytes) {
  lttng_ust_tracepoint(peers, packet, row, bytes);
}
#endif

/* ---------------------------------------------------------------------------
 * Blocks
 */

/* About 1000 cycles at two to three instructions per cycle. If it filled every
 * port of the core, its time would vary by 20 %. There is no loop, because the
 * prediction of its end would also vary, and it is not inline, so that every
 * way runs the same code. */
#define STEP                                                                   \
  a *= 0x9e3779b97f4a7c15u; /* each step needs the last */                     \
  b += 3, c ^= 5, d -= 7;                                                      \
  __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
#define STEPS_8 STEP STEP STEP STEP STEP STEP STEP STEP
#define STEPS_64 STEPS_8 STEPS_8 STEPS_8 STEPS_8 STEPS_8 STEPS_8 STEPS_8 STEPS_8
__attribute__((noinline)) void other_work(uint64_t *state) {
  uint64_t a = state[0], b = state[1], c = state[2], d = state[3];
  STEPS_64 STEPS_64 STEPS_64 STEPS_64 STEPS_64 state[0] = a, state[1] = b,
                                               state[2] = c, state[3] = d;
}

constexpr size_t ENOUGH = 1500; /* blocks */
constexpr uint32_t WORKED = 1000,
                   FAR = 16000; /* packets with other work; at random */
uint32_t order[WORKERS][FAR + size_t{AHEAD}];

/* Counts a block of packets; returns how many. */
template <class W, Mode MODE>
__attribute__((noinline)) uint32_t run_block(int worker) {
  static bool started[WORKERS];
  static uint64_t states[WORKERS][16]; /* far apart */
  constexpr bool far = MODE == ROWS || MODE == PREFETCH, works = MODE != TIGHT;
  constexpr uint32_t count = far ? FAR : works ? WORKED : W::packets;
  if (!started[worker])
    kept<W>[worker].start(worker), started[worker] = true;
  W way = kept<W>[worker];
  const uint32_t own = W::owned ? APART * worker : 0, *next = order[worker];
  for (uint32_t p = 0; p < count; p++) {
    if constexpr (MODE == PREFETCH)
      way.prefetch(next[p + AHEAD]);
    if constexpr (works)
      other_work(states[worker]);
    if constexpr (MODE == IN_FLOWS)
      flow_packet(way, next[p], 64 + (p & 1023));
    else
      packet(way, far ? next[p] : own, 64 + (p & 1023));
  }
  kept<W>[worker] = way;
  return count;
}

using Run = uint32_t (*)(int worker);
template <class W> Run block_of() {
  if constexpr (requires(W way) { way.prefetch(0); }) {
    if (mode == ROWS)
      return run_block<W, ROWS>;
    if (mode == PREFETCH)
      return run_block<W, PREFETCH>;
    if (mode == IN_FLOWS)
      return run_block<W, IN_FLOWS>;
  }
  return mode == WORK ? run_block<W, WORK> : run_block<W, TIGHT>;
}

struct Entry {
  const char *name;
  bool (*prepare)();
  Run block;
  uint64_t (*total)();
  std::vector<double> ns[WORKERS] = {}, cycles[WORKERS] = {},
                      ratio[WORKERS] = {};
  uint64_t counted[WORKERS] = {};
};
template <class W> Entry way(const char *name) {
  return {name, W::prepare, block_of<W>(), W::total};
}

std::vector<Entry> ways_of_mode() {
  if (mode == IN_FLOWS)
    return {way<Unsynchronised>("shared, not synchronised"),
            way<Locked>("shared, lock"),
            way<Atomic>("shared, atomic"),
            way<Buffered>("shared, buffered"),
            way<PerCore>("percore PER_CORE"),
            way<CoreLocked>("per core, lock"),
            way<Section>("percore section")};
  std::vector<Entry> ways = {way<Plain>("plain array"),
                             way<PerCore>("percore PER_CORE"),
                             way<Owned>("percore OWNED")};
#ifdef HAVE_RSEQ
  ways.push_back(way<Rseq>("rseq"));
#endif
#ifdef HAVE_URCU
  ways.push_back(way<Urcu>("userspace-rcu section"));
#endif
  ways.push_back(way<Atomic>("std::atomic"));
#ifdef HAVE_PROMETHEUS
  ways.push_back(way<Prometheus>("prometheus-cpp Counter"));
#endif
  if (at_random()) {
    ways.push_back(way<Small>("percore OWNED, small pages"));
    return ways;
  }
  ways.insert(ways.begin() + 3,
              {way<Section>("percore section"), way<Shared>("percore SHARED")});
#ifdef HAVE_MMV
  ways.push_back(way<Mmv>("PCP MMV"));
#endif
#ifdef HAVE_DPDK
  ways.push_back(way<RteMetrics>("DPDK rte_metrics"));
#endif
#ifdef HAVE_LTTNG
  ways.push_back(way<Lttng>("LTTng-UST event"));
#endif
  return ways;
}

/* ---------------------------------------------------------------------------
 * Running
 */

/* Spins until all workers have called this as often. */
void meet(uint64_t &met) {
  static uint64_t arrived;
  met += static_cast<uint64_t>(workers);
  __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
  for (int spins = 0; __atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < met;
       spins++)
    if (spins > 10000)
      sched_yield();
}

/* A block of all workers, and whether they ran at the same time for most of it;
 * the answer is the same in each. A worker that waits for its core does not
 * disturb the others. */
struct Block {
  double ns; /* for each packet */
  bool together;
  Block(int worker, uint64_t &met, Entry &way) {
    static uint64_t begins[WORKERS], ends[WORKERS];
    meet(met);
    begins[worker] = clock_now_ns(CLOCK_MONOTONIC);
    uint64_t start = now_ns();
    uint32_t count = way.block(worker);
    ns = static_cast<double>(now_ns() - start) / count;
    ends[worker] = clock_now_ns(CLOCK_MONOTONIC);
    way.counted[worker] += count;
    meet(met);
    uint64_t *b = begins, *e = ends, first = *std::min_element(b, b + workers),
             last = *std::max_element(e, e + workers),
             both = *std::min_element(e, e + workers) -
                    *std::max_element(b, b + workers);
    together = both <= last - first && both * 5 > (last - first) * 4;
    meet(met); /* all have read the arrays */
  }
};

void run(int worker, std::vector<Entry> &ways, Entry &nothing, double seconds,
         bool &ended) {
  percore_slot_t slot;
  uint64_t met = 0, x = 88172645463325252u + static_cast<uint64_t>(worker);
  uint64_t part = (at_random() ? MANY : FLOWS) / WORKERS;
  pin(worker);
  slot = percore_attach(region, "peers", worker);
  meet(met);
  if (worker == 0)
    add_rows();
  meet(met);
  uint64_t end_ns =
      clock_now_ns(CLOCK_MONOTONIC) + static_cast<uint64_t>(seconds * 1e9);
#ifdef HAVE_URCU
  rcu_register_thread();
#endif
  while (!ended) {
    double plain = NAN;
    for (Entry &way : ways) {
      for (uint32_t &flow : order[worker]) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        /* A flow stays on its worker. */
        flow = static_cast<uint32_t>(x % part +
                                     part * static_cast<uint64_t>(worker));
      }
      bool differs = mode != TIGHT;
      double cycle = cycle_now_ns();
      Block without(worker, met, nothing), with(worker, met, way);
      double ns = (with.ns - (differs ? without.ns : 0)) / int{COUNTERS};
      if (&way == &ways.front())
        plain = with.together ? ns : NAN;
      if (!with.together || (differs && !without.together))
        continue;
      way.ns[worker].push_back(ns);
      way.cycles[worker].push_back(ns / cycle);
      if (!std::isnan(plain) && mode == TIGHT)
        way.ratio[worker].push_back(ns / plain);
    }
    meet(met);
    if (worker == 0)
      ended = clock_now_ns(CLOCK_MONOTONIC) > end_ns ||
              ways.back().ns[0].size() >= ENOUGH;
    meet(met);
  }
  percore_detach(slot);
#ifdef HAVE_URCU
  rcu_unregister_thread();
#endif
}

void print(const char *name, const char *figure,
           const std::vector<double> (&of)[WORKERS]) {
  std::vector<double> all;
  for (const std::vector<double> &each : of)
    all.insert(all.end(), each.begin(), each.end());
  size_t n = all.size();
  std::sort(all.begin(), all.end());
  if (n > 0)
    printf("%s\t%s\t%.4f\t%.4f\t%.4f\t%zu\n", name, figure, all[n / 2],
           all[n / 4], all[n * 3 / 4], n);
}

} // namespace

int main(int argc, char **argv) {
  mode = static_cast<Mode>(
      std::find(modes, modes + MODES, argc == 4 ? std::string(argv[1]) : "") -
      modes);
  if (mode == MODES) {
    fprintf(stderr, "Usage: peers MODE WORKERS SECONDS\n");
    return 2;
  }
  workers = std::clamp(atoi(argv[2]), 1, static_cast<int>(WORKERS));
  rows = at_random() ? MANY : FLOWS + 1;
  std::vector<Entry> ways = ways_of_mode();
  Entry nothing = way<Nothing>("nothing");
  if (!create_region()) {
    perror("percore_create");
    return 1;
  }
  ways.erase(std::remove_if(ways.begin(), ways.end(),
                            [](const Entry &way) {
                              bool ready = way.prepare();
                              if (!ready)
                                printf("%s\tnot prepared\t0\t0\t0\t0\n",
                                       way.name);
                              return !ready;
                            }),
             ways.end());
  bool ended = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; i++)
    threads.emplace_back(
        [&, i] { run(i, ways, nothing, atof(argv[3]), ended); });
  for (std::thread &thread : threads)
    thread.join();
  for (Entry &way : ways) {
    print(way.name, "ns", way.ns);
    print(way.name, "cycles", way.cycles);
    print(way.name, "ratio", way.ratio);
    uint64_t there = way.total();
    double counted = static_cast<double>(way.counted[0] + way.counted[1]);
    if (mode == IN_FLOWS)
      counted *= 2; /* of all packets, and of the flow */
    if (there == UINT64_MAX)
      print(way.name, "counted", {{counted}, {}});
    else
      print(way.name, "lost",
            {{100 * (1 - static_cast<double>(there) / counted)}, {}});
  }
  percore_destroy(region);
  return 0;
}
