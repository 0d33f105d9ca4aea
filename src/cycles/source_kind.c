#include "source_kind.h"

#include <errno.h>
#include <stddef.h>
#include <strings.h>

struct name {
  int value;
  const char *name;
};

static const struct name source_names[] = {
    {SOURCE_AUTO, "auto"},   {SOURCE_NONE, "none"},
    {SOURCE_MPERF, "mperf"}, {SOURCE_REF_CYCLES, "ref-cycles"},
    {SOURCE_EVENT, "event"}, {SOURCE_BPF, "bpf"},
    {SOURCE_IDLE, "idle"},   {0, NULL},
};

static const struct name proof_names[] = {
    {PROOF_PENDING, "pending"},   {PROOF_PROVEN, "proven"},
    {PROOF_UNPROVEN, "unproven"}, {PROOF_TICK_SAMPLED, "tick-sampled"},
    {PROOF_REFUTED, "refuted"},   {0, NULL},
};

static const struct name isolated_cores_names[] = {
    {ISOLATED_CORES_IDLE, "idle"},
    {ISOLATED_CORES_BPF, "bpf"},
    {ISOLATED_CORES_HARDWARE, "hardware"},
    {ISOLATED_CORES_SKIP, "skip"},
    {0, NULL},
};

static const char *name_of(const struct name *names, int value) {
  for (; names->name != NULL; names++)
    if (names->value == value)
      return names->name;
  return "?";
}

static int value_of(const struct name *names, const char *text, int *value) {
  for (; names->name != NULL; names++)
    if (strcasecmp(names->name, text) == 0) {
      *value = names->value;
      return 0;
    }
  return -EINVAL;
}

const char *source_name(enum source_kind source) {
  return name_of(source_names, source);
}

const char *proof_name(enum proof proof) { return name_of(proof_names, proof); }

int source_parse(enum source_kind *source, const char *text) {
  int value;
  if (value_of(source_names, text, &value) != 0 || value == SOURCE_NONE)
    return -EINVAL;
  *source = value;
  return 0;
}

int isolated_cores_parse(enum isolated_cores *isolated, const char *text) {
  int value;
  if (value_of(isolated_cores_names, text, &value) != 0)
    return -EINVAL;
  *isolated = value;
  return 0;
}
