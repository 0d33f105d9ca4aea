/* domains: figures that the hardware measures for each package or physical
 * core, namely the residency in idle states, and power. The figures come from
 * the PMUs cstate_core, cstate_pkg and power. Each counter is read through a
 * core that the PMU's cpumask lists. Isolated cores in the cpumask are left
 * out. */
#ifndef PERCORE_DOMAINS_H
#define PERCORE_DOMAINS_H

#include "engine.h"

enum domain_kind {
  DOMAIN_CORE_RESIDENCY,
  DOMAIN_PACKAGE_RESIDENCY,
  DOMAIN_POWER
};

struct domain_figure {
  enum domain_kind kind;
  char name[32]; /* "c6", or for the PMU power "pkg", "cores", "ram", ... */
  int core;      /* the core through which the counter is read */
  int package;   /* the package of `core`; -1 if unknown */
  double value;  /* share of the interval, 0 to 1, or watts; NAN if unknown */
};

struct domains;

/* Returns NULL if no figures are wanted, if the engine may not use hardware
 * counters, or if out of memory. The functions below accept NULL. */
struct domains *domains_open(const struct engine *engine, bool residency,
                             bool power);
void domains_close(struct domains *domains);

/* Sets *figures to a new array with the figures for the time since the previous
 * call, and *len to their number. The caller frees the array. Returns 0 or
 * -ENOMEM. If there are no figures, and on failure, *figures is NULL and *len
 * is 0. */
int domains_read(struct domains *domains, struct domain_figure **figures,
                 size_t *len);

#endif
