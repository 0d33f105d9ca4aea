/* domains: what the hardware counts for a whole package or physical core: the
 * residency of its idle states and its energy, from the PMUs cstate_core,
 * cstate_pkg and power. Each counter is read through the core that the PMU's
 * cpumask names. If that core is isolated, the counter is not read.
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
  char name[32]; /* "c6"; for power "pkg", "cores", "ram", ... */
  int core;      /* through which the counter is read */
  int package;   /* of that core, -1 unknown */
  double value;  /* share of the interval, 0 to 1; or watts; NAN unknown */
};

struct domains;

/* NULL if neither kind is wanted, or if out of memory. All calls below accept
 * NULL. */
struct domains *domains_open(const struct engine *engine, bool residency,
                             bool power);
void domains_close(struct domains *domains);

/* Returns an array of *len figures of the time since the last call, valid until
 * the next call. */
const struct domain_figure *domains_read(struct domains *domains, size_t *len);

#endif
