/* fake_collectd: replaces the collectd functions that the plugin calls. Each
 * replacement records its arguments for the tests. */
#ifndef PERCORE_FAKE_COLLECTD_H
#define PERCORE_FAKE_COLLECTD_H

#include "collectd.h"

#include "plugin.h"

struct fake_value {
  value_list_t list; /* list.values points to the array `values` */
  value_t values[4];
};

struct fake_line {
  int level;
  char text[512];
};

struct fake_collectd {
  struct fake_value *values;
  size_t values_len;
  struct fake_line *lines;
  size_t lines_len;
  notification_t *notifications;
  size_t notifications_len;

  cdtime_t now;
  cdtime_t interval;
  void (*notified)(const notification_t *); /* a plugin; NULL: none */
  int (*config)(oconfig_item_t *);
  plugin_init_cb init;
  plugin_read_cb read;
  cdtime_t read_interval;
  plugin_shutdown_cb shutdown;
};

extern struct fake_collectd fake;

/* Forgets everything recorded so far, except the registered callbacks. */
void fake_reset(void);

/* Returns the value that was dispatched last with this identifier (such as
 * "percore-0/percent-load", without the host), or NULL if no such value was
 * dispatched. */
const struct fake_value *fake_find(const char *identifier);
void fake_identifier(const struct fake_value *value, char *text, size_t size);

/* Returns a line that was logged at `level` and contains `text`, or NULL if
 * no line does. */
const char *fake_logged(int level, const char *text);
size_t fake_count_logged(int level);

/* Parses these lines of a <Plugin percore> block. Supports only the part of the
 * syntax in collectd.conf(5) that percore needs. Free the block with
 * fake_config_free. */
oconfig_item_t *fake_config(const char *lines);
void fake_config_free(oconfig_item_t *item);

#endif
