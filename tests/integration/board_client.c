/* board_client MODE: takes loads from the board (percore_load_options.board)
 * and prints, every 20 ms, where they come from and the loads of the first two
 * cores, until stdin ends. board_client cost: prints what reading costs, in ns.
 */
#include "percore.h"

#include <err.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STEP_MS 20
#define ROUNDS 1000000

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure_cost(struct percore_load *load) {
  volatile double sum = 0;
  int core;
  double begin_s = now_s();
  for (int i = 0; i < ROUNDS; i++)
    sum += percore_load_get(load, i & 1);
  double got_s = now_s();
  for (int i = 0; i < ROUNDS; i++)
    percore_load_update(load);
  double updated_s = now_s();
  for (int i = 0; i < ROUNDS; i++)
    percore_load_best(load, NULL, &core, 1);
  double chosen_s = now_s();
  printf("get %.1f update %.1f best %.1f\n", (got_s - begin_s) * 1e9 / ROUNDS,
         (updated_s - got_s) * 1e9 / ROUNDS,
         (chosen_s - updated_s) * 1e9 / ROUNDS);
}

int main(int argc, char **argv) {
  bool cost = argc > 1 && strcmp(argv[1], "cost") == 0;
  struct percore_load_options options = {.size = sizeof(options),
                                         .board = cost       ? "only"
                                                  : argc > 1 ? argv[1]
                                                             : NULL};
  struct percore_load *load;
  if (percore_load_open(&load, &options) != 0)
    err(1, "percore_load_open");
  struct pollfd end = {.fd = 0, .events = POLLIN};
  while (!cost && poll(&end, 1, STEP_MS) == 0) {
    int core = -1, status = percore_load_update(load);
    int found = percore_load_best(load, NULL, &core, 1);
    printf("%.3f %d %.6f %.6f %s %d %d %d\n", now_s(),
           percore_load_is_board(load), percore_load_get(load, 0),
           percore_load_get(load, 1), percore_load_source(load, 0), status,
           found, core);
    fflush(stdout);
  }
  if (cost)
    measure_cost(load);
  percore_load_close(load);
  return 0;
}
