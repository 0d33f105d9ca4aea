/* domains: figures that the hardware counts for a whole package or physical
 * core: the residency of its idle states and its energy, from the PMUs
 * cstate_core, cstate_pkg and power. Each counter is read through the core that
 * the PMU's cpumask names, and not at all if that core is isolated.
 */
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
  char name[32]; /* "c6", or of power "pkg", "cores", "ram" .. */
  int core;      /* through which it is read */
  int package;   /* of that core, -1 unknown */
  double value;  /* share of the interval, 0 to 1; or watts; NAN unknown */
};

struct domains;

/* NULL if neither kind is wanted, or if out of memory; all calls below accept
 * NULL. */
struct domains *domains_open(const struct engine *engine, bool residency,
                             bool power);
void domains_close(struct domains *domains);

/* Reads everything: the figures are those since the last call. Returns an array
 * of *len, which lives until the next call. */
const struct domain_figure *domains_read(struct domains *domains, size_t *len);

#endif
