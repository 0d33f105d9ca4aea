/* Measures the cost of percore_poll, in core cycles, beside
 * a loop that only reads the clock, which both need: medians of interleaved
 * blocks. Also measures how long it takes to create and to destroy a region.
 * What an update costs is measured by peers.cc. */
#include "percore_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/calls.h"
#include "bench.h"
#include "percore_tune.h"

enum { BLOCKS = 61 };

static const struct percore_field field = {.name = "packets"};
static const struct percore_table table = {
    .name = "port", .fields = &field, .field_count = 1};

/* ---------------------------------------------------------------------------
 * Rounds of an empty loop. Work in the rounds would overlap the clock's reading
 * by an unknown time, so that differences would say nothing.
 */

enum { POLLS = 100000 };

static void by_clock(percore_slot_t slot) {
  (void)slot;
  for (int i = 0; i < POLLS; i++)
    __asm__ volatile("" ::"r"(percore_tsc()));
}

static void by_poll(percore_slot_t slot) {
  for (uint64_t i = 0; i < POLLS; i++)
    percore_poll(slot, i & 1, 0);
}

static void by_poll_at(percore_slot_t slot) {
  for (uint64_t i = 0; i < POLLS; i++) {
    uint64_t tsc = percore_tsc();
    __asm__ volatile("" ::"r"(tsc));
    percore_poll(slot, i & 1, tsc);
  }
}

static void print_polls(struct percore_region *region, double cycle) {
  static void (*const variants[])(percore_slot_t) = {by_clock, by_poll,
                                                     by_poll_at};
  static double cycles[3][BLOCKS];
  percore_slot_t slot;
  attach_thread(region, "polls", -1, &slot);
  for (int block = 0; block < BLOCKS; block++)
    for (int v = 0; v < 3; v++) {
      uint64_t start = now_ns();
      variants[v](slot);
      cycles[v][block] = (double)(now_ns() - start) / POLLS / cycle;
    }
  printf("an empty round that only reads the clock: %.1f cycles; with "
         "percore_poll instead: %.1f; with the time passed, too: %.1f\n",
         median(cycles[0], BLOCKS), median(cycles[1], BLOCKS),
         median(cycles[2], BLOCKS));
  percore_detach(slot);
}

/* Call this first: the first percore_create of a process measures the frequency
 * of the clock. */
static void print_lives(const struct percore_options *options) {
  enum { LIVES = 101 };
  double creates[LIVES], destroys[LIVES];
  for (int i = 0; i < LIVES; i++) {
    struct percore_region *region;
    uint64_t start = clock_now_ns(CLOCK_MONOTONIC);
    if (create_region(&region, "life", &table, 1, options) != 0)
      perror("percore_create");
    uint64_t created = clock_now_ns(CLOCK_MONOTONIC);
    percore_destroy(region);
    uint64_t destroyed = clock_now_ns(CLOCK_MONOTONIC);
    creates[i] = (double)(created - start) / 1e6;
    destroys[i] = (double)(destroyed - created) / 1e6;
  }
  printf("the first percore_create %.2f ms; ", creates[0]);
  printf("the others %.2f ms, percore_destroy %.2f ms (medians)\n",
         median(creates, LIVES), median(destroys, LIVES));
}

int main(void) {
  struct percore_region *region;
  struct percore_options options = {0};
  char dir[] = "/tmp/percore-bench-XXXXXX";
  options.runtime_dir = mkdtemp(dir);
  print_lives(&options);
  if (create_region(&region, "bench", &table, 1, &options) != 0) {
    perror("percore_create");
    return 1;
  }
  double cycle = cycle_ns();
  printf("a core cycle is %.3f ns\n", cycle);
  print_polls(region, cycle);
  percore_destroy(region);
  rmdir(dir);
  return 0;
}
