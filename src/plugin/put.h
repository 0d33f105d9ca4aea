/* put: one figure becomes one value of collectd. */
#ifndef PERCORE_PLUGIN_PUT_H
#define PERCORE_PLUGIN_PUT_H

#include "config.h"

/* Beyond any figure that means something, and far within derive_t. */
#define GAUGE_MAX 1e18

/* Where values go. With `dry` they are only counted. */
struct out {
  value_list_t list;
  size_t values; /* so far */
  size_t values_max;
  bool dry;
};

/* How a figure is converted before it is put; NAN stays NAN. */
enum scale {
  PERCENT, /* a share of 0 to 1, in percent and clamped: types.db says percent
              is 0 to 100, and nobody enforces it after us */
  POINTS,  /* a difference of shares, in percentage points; may be negative */
  PLAIN,   /* as it is, never negative */
  COUNT,   /* a counter, put as DERIVE */
};

/* A double of struct core_figures, aggregate_figures or host_figures.
 * `when` is the bool of struct config that asks for it. */
struct metric {
  const char *type;
  const char *type_instance;
  enum scale scale;
  size_t figure;
  size_t when;
};

void set_subject(struct out *out, const char *plugin,
                 const char *plugin_instance);

void put_values(struct out *out, const char *type, const char *type_instance,
                const value_t *values, size_t values_len);
void put_derive(struct out *out, const char *type, const char *type_instance,
                uint64_t value);

double scaled(double figure, enum scale scale);

/* A figure that is NAN is not put. */
void put_gauge(struct out *out, const char *type, const char *type_instance,
               double figure, enum scale scale);
void put_metrics(struct out *out, const struct config *config,
                 const struct metric *metrics, size_t metrics_len,
                 const void *figures);

#endif
