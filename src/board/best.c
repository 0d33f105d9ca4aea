#include "load.h"

#include "base/sized.h"

#define PERIOD_DEFAULT_S 60

/* Returns how much room a core has, 0 to 1. A busy sibling takes half of what
 * is left, because two hardware threads share one physical core. */
static double room_of(const struct percore_load *load, int core,
                      const struct percore_load_choice *choice, size_t by) {
  double sibling = load_busiest_sibling(load, core);
  double figure = load_figure(load, core, by);
  if (percore_load_get(load, core, NULL) < 0 ||
      (choice->avoid_isolated &&
       load_figure(load, core, BOARD_COLUMN(isolated)) > 0) ||
      (choice->node != NULL &&
       load_figure(load, core, BOARD_COLUMN(node)) != *choice->node))
    return -1;
  return (by == BOARD_COLUMN(room) ? figure : 1 - figure) *
         (choice->ignore_siblings || sibling < 0 ? 1 : 1 - sibling / 2);
}

/* Returns the column of the average with this period, or BOARD_COLUMNS. */
static size_t average_of(double period_s) {
  for (size_t i = 0; i < LOADAVG_PERIODS; i++)
    if (loadavg_period_s[i] == period_s)
      return BOARD_COLUMN(average) + i;
  return BOARD_COLUMNS;
}

/* Returns the column by which cores are chosen, or BOARD_COLUMNS if these loads
 * do not have it. */
static size_t column_of(const struct percore_load *load,
                        const struct percore_load_choice *choice) {
  double period_s = choice->period > 0 ? choice->period : PERIOD_DEFAULT_S;
  if (choice->by == PERCORE_BY_AVERAGE)
    return load->board != NULL ? average_of(period_s) : BOARD_COLUMNS;
  return choice->by == PERCORE_BY_LOAD ? BOARD_COLUMN(load)
                                       : BOARD_COLUMN(room);
}

/* Tells the chooser the loads, if they have changed. */
static void learn(struct percore_load *load) {
  if (load->learned)
    return;
  for (int core = 0; core < load->cores_len; core++)
    load->room[core] = percore_load_get(load, core, NULL);
  chooser_learn(load->chooser, load->room);
  load->learned = true;
}

static int choose(struct percore_load *load,
                  const struct percore_load_choice *choice, int *cores, int n) {
  const int *candidates = choice->candidates;
  int len = candidates != NULL ? choice->candidate_count : load->cores_len;
  int found = 0;
  double need = choice->need > 0 ? choice->need : 1;
  size_t by = column_of(load, choice);
  if (by == BOARD_COLUMNS)
    return load_failed(ENOTSUP);
  learn(load);
  for (int core = 0; core < load->cores_len; core++)
    load->room[core] = -1;
  for (int i = 0; i < len; i++) {
    int core = candidates != NULL ? candidates[i] : i;
    if (core >= 0 && core < load->cores_len)
      load->room[core] = room_of(load, core, choice, by);
  }
  while (found < n) {
    int core = chooser_pick(load->chooser, load->room, need);
    if (core < 0)
      break;
    cores[found++] = core;
    load->room[core] = -1;
  }
  return found;
}

int percore_load_best(struct percore_load *load,
                      const struct percore_load_choice *given, int *cores,
                      int n) {
  struct percore_load_choice choice = {.size = 0};
  if (!sized_copy(&choice, sizeof(choice), given) || n < 1 ||
      choice.by > PERCORE_BY_LOAD || choice.candidate_count < 0 ||
      !(choice.need >= 0 && choice.need <= 1))
    return load_failed(EINVAL);
  pthread_mutex_lock(&load->mutex);
  int found = choose(load, &choice, cores, n);
  pthread_mutex_unlock(&load->mutex);
  return found;
}
