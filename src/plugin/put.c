#include "put.h"

#include "utils/common/common.h"

#include <math.h>

void set_subject(struct out *out, const char *plugin,
                 const char *plugin_instance) {
  sstrncpy(out->list.plugin, plugin, sizeof(out->list.plugin));
  sstrncpy(out->list.plugin_instance, plugin_instance,
           sizeof(out->list.plugin_instance));
}

void put_values(struct out *out, const char *type, const char *type_instance,
                const value_t *values, size_t values_len) {
  value_list_t *list = &out->list;
  list->values = (value_t *)values;
  list->values_len = values_len;
  sstrncpy(list->type, type, sizeof(list->type));
  sstrncpy(list->type_instance, type_instance, sizeof(list->type_instance));
  plugin_dispatch_values(list);
}

void put_derive(struct out *out, const char *type, const char *type_instance,
                uint64_t value) {
  put_values(out, type, type_instance, &(value_t){.derive = (derive_t)value},
             1);
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
  double value = scaled(figure, scale);
  if (!isnan(value))
    put_values(out, type, type_instance, &(value_t){.gauge = value}, 1);
}

static void put_metric(struct out *out, const struct metric *metric,
                       const void *at) {
  const char *type = metric->type, *type_instance = metric->type_instance;
  double figure;
  switch (metric->scale) {
  case TOTAL:
    put_derive(out, type, type_instance, *(const uint64_t *)at);
    break;
  case NUMBER:
    put_gauge(out, type, type_instance, *(const int *)at, PLAIN);
    break;
  case COUNT:
    figure = scaled(*(const double *)at, COUNT);
    if (!isnan(figure))
      put_derive(out, type, type_instance, (uint64_t)figure);
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
