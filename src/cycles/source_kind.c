#include "source_kind.h"

#include <errno.h>
#include <stddef.h>
#include <strings.h>

static const char *const source_names[] = {
    "auto", "none", "mperf", "ref-cycles", "event", "bpf", "idle", NULL};
static const char *const proof_names[] = {"pending", "proven", "unproven",
                                          "tick-sampled", "refuted"};
const char *const isolated_cores_names[] = {"idle", "bpf", "hardware", "skip",
                                            NULL};

static int index_of(const char *const *names, const char *text) {
  for (int i = 0; names[i] != NULL; i++)
    if (strcasecmp(names[i], text) == 0)
      return i;
  return -EINVAL;
}

const char *source_name(enum source_kind source) {
  return source_names[source - SOURCE_AUTO];
}

const char *proof_name(enum proof proof) { return proof_names[proof]; }

int source_parse(enum source_kind *source, const char *text) {
  int index = index_of(source_names, text);
  if (index < 0 || index == SOURCE_NONE - SOURCE_AUTO)
    return -EINVAL;
  *source = index + SOURCE_AUTO;
  return 0;
}

int isolated_cores_parse(enum isolated_cores *isolated, const char *text) {
  int index = index_of(isolated_cores_names, text);
  if (index < 0)
    return -EINVAL;
  *isolated = index;
  return 0;
}
