/* put: dispatches one value or notification. */
#ifndef PERCORE_PLUGIN_PUT_H
#define PERCORE_PLUGIN_PUT_H

#include "collectd.h"

#include "plugin.h"

/* Plugins and plugin instances in identifiers. The plugin is `percore` for
 * values of single cores and `percore_host` for values of the host, so that
 * sums over a wildcard count nothing twice. */
#define PLUGIN_CORE "percore"
#define PLUGIN_HOST "percore_host"
#define INSTANCE_ALL "all"
#define INSTANCE_SELF "self"

/* Larger gauges are not dispatched. The limit is larger than any meaningful
 * figure, and far below the largest derive_t. */
#define GAUGE_MAX 1e18

/* Names always fit into the parts of an identifier. */
void put_subject(value_list_t *list, const char *plugin,
                 const char *plugin_instance);

void put_values(value_list_t *list, const char *type, const char *type_instance,
                const value_t *values, size_t values_len);
void put_derive(value_list_t *list, const char *type, const char *type_instance,
                uint64_t value);
/* Leaves out gauges that are NAN, or larger than GAUGE_MAX. */
void put_gauge(value_list_t *list, const char *type, const char *type_instance,
               double gauge);

/* Completes a notification, which has its time, severity and message, with the
 * identifier of a gauge of the host, and sends it. */
void put_notification(notification_t *note, const char *plugin_instance,
                      const char *type_instance);

#endif
