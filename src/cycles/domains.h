/* domains: figures that the hardware counts per package or physical core: the
 * residency of idle states, and energy. They come from the PMUs cstate_core,
 * cstate_pkg and power. Each counter is read through the core that the PMU's
 * cpumask names, unless that core is isolated. */
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
  int package;   /* the package of that core; -1 if unknown */
  double value;  /* share of the interval, 0 to 1, or watts; NAN if unknown */
};

struct domains;

/* Returns NULL if no figures are wanted or can be read, or if out of memory.
 * The functions below accept NULL. */
struct domains *domains_open(const struct engine *engine, bool residency,
                             bool power);
void domains_close(struct domains *domains);

/* Allocates an array with the figures for the time since the previous call. The
 * caller frees the array. Returns 0, or -ENOMEM; *figures is then NULL and *len
 * is 0. */
int domains_read(struct domains *domains, struct domain_figure **figures,
                 size_t *len);

#endif
