#include "put.h"

#include "globals.h"
#include "utils/common/common.h"

#include <math.h>
#include <sys/param.h>

static void set(char *part, const char *name) {
  size_t length = MIN(strlen(name), DATA_MAX_NAME_LEN - 1);
  memcpy(part, name, length);
  part[length] = '\0';
}

void put_subject(value_list_t *list, const char *plugin,
                 const char *plugin_instance) {
  set(list->plugin, plugin);
  set(list->plugin_instance, plugin_instance);
}

void put_values(value_list_t *list, const char *type, const char *type_instance,
                const value_t *values, size_t values_len) {
  list->values = (value_t *)values;
  list->values_len = values_len;
  set(list->type, type);
  set(list->type_instance, type_instance);
  plugin_dispatch_values(list);
}

void put_derive(value_list_t *list, const char *type, const char *type_instance,
                uint64_t value) {
  put_values(list, type, type_instance, &(value_t){.derive = (derive_t)value},
             1);
}

void put_gauge(value_list_t *list, const char *type, const char *type_instance,
               double gauge) {
  if (fabs(gauge) <= GAUGE_MAX) /* false for NAN */
    put_values(list, type, type_instance, &(value_t){.gauge = gauge}, 1);
}

void put_notification(notification_t *note, const char *plugin_instance,
                      const char *type_instance) {
  sstrncpy(note->host, hostname_g, sizeof(note->host));
  sstrncpy(note->plugin, PLUGIN_HOST, sizeof(note->plugin));
  sstrncpy(note->plugin_instance, plugin_instance,
           sizeof(note->plugin_instance));
  sstrncpy(note->type, "gauge", sizeof(note->type));
  sstrncpy(note->type_instance, type_instance, sizeof(note->type_instance));
  plugin_dispatch_notification(note);
}
