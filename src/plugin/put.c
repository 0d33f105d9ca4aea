#include "put.h"

#include "utils/common/common.h"

#include <math.h>

/* Copies a name without filling the rest of the part, as sstrncpy does: there
 * may be millions. */
static void set(char part[DATA_MAX_NAME_LEN], const char *name) {
  size_t length = strnlen(name, DATA_MAX_NAME_LEN - 1);
  memcpy(part, name, length);
  part[length] = '\0';
}

void set_subject(value_list_t *list, const char *plugin,
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

void put_number(value_list_t *list, const char *type, const char *type_instance,
                double value) {
  if (fabs(value) <= GAUGE_MAX) /* false for NAN */
    put_values(list, type, type_instance, &(value_t){.gauge = value}, 1);
}

double scaled(double figure, enum scale scale) {
  if (!isfinite(figure) || fabs(figure) > GAUGE_MAX)
    return NAN;
  switch (scale) {
  case PERCENT:
    return figure <= 0 ? 0 : figure >= 1 ? 100 : figure * 100;
  case POINTS:
    return figure * 100;
  default:
    return figure < 0 ? NAN : figure;
  }
}

void put_gauge(struct out *out, const char *type, const char *type_instance,
               double figure, enum scale scale) {
  put_number(&out->list, type, type_instance, scaled(figure, scale));
}

static void put_metric(struct out *out, const struct metric *metric,
                       const void *at) {
  const char *type = metric->type, *type_instance = metric->type_instance;
  double figure;
  switch (metric->scale) {
  case TOTAL:
    put_derive(&out->list, type, type_instance, *(const uint64_t *)at);
    break;
  case NUMBER:
    put_gauge(out, type, type_instance, *(const int *)at, PLAIN);
    break;
  case COUNT:
    figure = scaled(*(const double *)at, COUNT);
    if (!isnan(figure))
      put_derive(&out->list, type, type_instance, (uint64_t)figure);
    break;
  default:
    put_gauge(out, type, type_instance, *(const double *)at, metric->scale);
  }
}

void put_metrics(struct out *out, const struct metric *metrics,
                 size_t metrics_len, const void *figures) {
  for (size_t i = 0; i < metrics_len; i++)
    if (metrics[i].when == 0 || *((const bool *)out->config + metrics[i].when))
      put_metric(out, &metrics[i], (const char *)figures + metrics[i].figure);
}
