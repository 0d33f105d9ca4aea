/* choose: the rule by which percore_load_best chooses a core.
 *
 * Many callers see the same loads at the same time, and these are as old as the
 * interval at which they are measured. So the least loaded core is the wrong
 * answer: all callers would take it. The rule is
 *
 *   1. Each chooser has a list of all cores in an order of its own, at first
 *      random. The cores that it has looked at move to the end.
 *   2. It looks at the first d cores in its list, and takes the one with the
 *      most room. Each time that it took a core since the loads were measured
 *      counts as one more full load of that core.
 *   3. d is what the loads are worth: 1 / (1.05 - p)^2 and at least 1, where p,
 *      the persistence, is the correlation of the loads with those that were
 *      measured before. How much a core is loaded in the long run says nothing
 *      about the other callers, so p compares deviations from that.
 *
 * If loads last, the chooser takes the least loaded core; if what was measured
 * is no longer true, it takes the cores in turns. tests/bench/choice.c
 * simulates this rule and others. */
#ifndef PERCORE_BOARD_CHOOSE_H
#define PERCORE_BOARD_CHOOSE_H

#include <stdint.h>

struct chooser;

/* Makes a chooser of cores 0 to cores - 1. Choosers with different seeds have
 * different orders. Returns NULL if out of memory; end it with free(3). */
struct chooser *chooser_open(int cores, uint64_t seed);

/* Tells the chooser that loads were measured: 0 to 1, or -1 if unknown. */
void chooser_learn(struct chooser *chooser, const double *loads);

/* Chooses a core. room[core] is 0 to 1; a negative room excludes the core.
 * Until the next measurement, the chosen core has less room by `need`. Returns
 * -1 if all are excluded. */
int chooser_pick(struct chooser *chooser, const double *room, double need);

#endif
