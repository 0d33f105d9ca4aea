/* put: dispatches one figure as one value. All values of the plugin pass
 * put_values. */
#ifndef PERCORE_PLUGIN_PUT_H
#define PERCORE_PLUGIN_PUT_H

#include "config.h"

/* Plugins and plugin instances in identifiers. The plugin is `percore` for
 * values of single cores and `percore_host` for values of the host, so that
 * sums over a wildcard count nothing twice. */
#define PLUGIN_CORE "percore"
#define PLUGIN_HOST "percore_host"
#define INSTANCE_ALL "all"
#define INSTANCE_SELF "self"

/* Figures above this limit are not dispatched. The limit is larger than any
 * meaningful figure, and far below the largest derive_t. */
#define GAUGE_MAX 1e18

/* The snapshot that is being dispatched. */
struct out {
  const struct config *config;
  const struct snapshot *snapshot;
  value_list_t list;
};

/* How a figure is converted and dispatched. NAN stays NAN. */
enum scale {
  /* A share of 0 to 1, shown in percent. It is clamped, because collectd does
   * not enforce the limits of 0 and 100 that types.db declares. */
  PERCENT,
  POINTS, /* a difference of shares, shown in percentage points; may be negative
           */
  PLAIN,  /* unchanged; negative figures become NAN */
  COUNT,  /* a counter, dispatched as DERIVE */
  NUMBER, /* an int, unchanged */
  TOTAL,  /* a uint64_t, dispatched as DERIVE */
};

/* `figure` is the offset of a number in a struct of figures: a double, unless
 * the scale says otherwise. `when` is the offset of the bool in struct config
 * that enables the metric; 0: it is always enabled. */
struct metric {
  const char *type;
  const char *type_instance;
  enum scale scale;
  size_t figure;
  size_t when;
};

/* Names are cut to fit. */
void set_subject(value_list_t *list, const char *plugin,
                 const char *plugin_instance);

void put_values(value_list_t *list, const char *type, const char *type_instance,
                const value_t *values, size_t values_len);
void put_derive(value_list_t *list, const char *type, const char *type_instance,
                uint64_t value);
/* Does nothing if the value is not finite or exceeds GAUGE_MAX. */
void put_number(value_list_t *list, const char *type, const char *type_instance,
                double value);

double scaled(double figure, enum scale scale);

/* Dispatches a figure as a gauge. Does nothing if the figure is NAN. */
void put_gauge(struct out *out, const char *type, const char *type_instance,
               double figure, enum scale scale);
/* Dispatches the metrics that are enabled and whose figures are known.
 * `figures` points to the struct of figures. */
void put_metrics(struct out *out, const struct metric *metrics,
                 size_t metrics_len, const void *figures);

#endif
