#include "choose.h"

#include <math.h>
#include <stdlib.h>

#define NO_HISTORY 0.35 /* the persistence that makes two choices */
#define FORGET 0.9      /* weight of earlier measurements in the persistence */
#define SLOW 0.01       /* weight of a measurement in the long run */

/* What the chooser knows of a core. */
struct known {
  double long_run;  /* mean load; -1: never measured */
  double deviation; /* of the last load from the mean; NAN: unknown */
  double taken;     /* what was placed there since the last measurement */
};

struct chooser {
  int cores;
  int measured; /* how often */
  uint64_t random;
  double common, total; /* sums of products; persistence is their ratio */
  int *order;           /* cores; those looked at last are at the end */
  int *looked_at;       /* room for as many */
  struct known known[]; /* by core; the two arrays above are after it */
};

static uint64_t next_random(struct chooser *chooser) {
  uint64_t x = chooser->random += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

struct chooser *chooser_open(int cores, uint64_t seed) {
  size_t of_core = sizeof(struct known) + 2 * sizeof(int);
  struct chooser *chooser =
      calloc(1, sizeof(*chooser) + (size_t)cores * of_core);
  if (chooser == NULL)
    return NULL;
  chooser->cores = cores;
  chooser->random = seed;
  chooser->order = (int *)(void *)&chooser->known[cores];
  chooser->looked_at = chooser->order + cores;
  for (int i = 0; i < cores; i++) {
    int j = (int)(next_random(chooser) % (uint64_t)(i + 1));
    chooser->order[i] = chooser->order[j];
    chooser->order[j] = i;
    chooser->known[i] = (struct known){.long_run = -1, .deviation = NAN};
  }
  return chooser;
}

/* Returns the deviation of a load from the long run, and takes the load into
 * the long run. NAN if the load is unknown or the first. */
static double take_load(struct chooser *chooser, int core, double load) {
  double *mean = &chooser->known[core].long_run;
  double before = *mean;
  if (load < 0)
    return NAN;
  *mean = before < 0 ? load
                     : before + fmax(SLOW, 1. / (chooser->measured + 1)) *
                                    (load - before);
  return before < 0 ? NAN : load - before;
}

/* The sums of a correlation. */
struct sums {
  double n, x, y, xx, yy, xy;
};

static void add(struct sums *sums, double x, double y) {
  sums->n++;
  sums->x += x;
  sums->y += y;
  sums->xx += x * x;
  sums->yy += y * y;
  sums->xy += x * y;
}

void chooser_learn(struct chooser *chooser, const double *loads) {
  struct sums sums = {0};
  for (int core = 0; core < chooser->cores; core++) {
    struct known *known = &chooser->known[core];
    double deviation = take_load(chooser, core, loads[core]);
    if (!isnan(known->deviation) && !isnan(deviation))
      add(&sums, known->deviation, deviation);
    known->deviation = deviation;
    known->taken = 0;
  }
  chooser->measured++;
  if (sums.n < 2)
    return;
  double common = sums.xy - sums.x * sums.y / sums.n;
  double before = fmax(0, sums.xx - sums.x * sums.x / sums.n);
  double now = fmax(0, sums.yy - sums.y * sums.y / sums.n);
  chooser->common = FORGET * chooser->common + common;
  chooser->total = FORGET * chooser->total + sqrt(before * now);
}

/* Returns how many cores to look at: d, rounded up or down at random so that d
 * is the mean. */
static int breadth(struct chooser *chooser) {
  double persistence =
      chooser->total > 0 ? chooser->common / chooser->total : NO_HISTORY;
  double d = fmax(1, pow(1.05 - fmax(0, fmin(persistence, 1)), -2));
  double chance = (double)(next_random(chooser) >> 11) * 0x1p-53;
  return (int)(d + chance);
}

int chooser_pick(struct chooser *chooser, const double *room, double need) {
  int left = breadth(chooser), best = -1, looked_at = 0, kept = 0;
  double most = 0;
  for (int i = 0; i < chooser->cores; i++) {
    int core = chooser->order[i];
    if (left == 0 || room[core] < 0) {
      chooser->order[kept++] = core;
      continue;
    }
    double rest = room[core] - chooser->known[core].taken;
    if (best < 0 || rest > most) {
      best = core;
      most = rest;
    }
    chooser->looked_at[looked_at++] = core;
    left--;
  }
  for (int i = 0; i < looked_at; i++)
    if (chooser->looked_at[i] != best)
      chooser->order[kept++] = chooser->looked_at[i];
  if (best < 0)
    return -1;
  chooser->order[kept] = best;
  chooser->known[best].taken += need;
  return best;
}
