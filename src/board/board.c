#include "board.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PPM 1e6
#define CORE(member) offsetof(struct board_core, member)
#define PICTURE(member) offsetof(struct board_picture, member)
#define SHARE(name, member, help)                                              \
  { name, "ppm", help, PPM, 1, CORE(member), NULL, 0 }

static const char *const flags[] = {"no", "yes"};
#define PROOFS (PROOF_REFUTED + 1)
static const char *sources[1 + SOURCES], *proofs[PROOFS];

static const struct board_field picture_fields[] = {
    {"time", "ns", "end of the interval, CLOCK_MONOTONIC", 1, 0,
     PICTURE(time_ns), NULL, 0},
    {"interval", "ns", "time between two pictures", 1, 0, PICTURE(interval_ns),
     NULL, 0},
    {"cores", "1", "cores of the machine, offline ones included", 1, 0,
     PICTURE(cores), NULL, 0},
};

static const struct board_field core_fields[] = {
    SHARE("load", load, "load of the interval"),
    SHARE("load_min", load_min, "least load of a window of the interval"),
    SHARE("load_max", load_max, "largest load of a window of the interval"),
    SHARE("load_low", load_low, "lower bound of the load"),
    SHARE("load_high", load_high, "upper bound of the load"),
    SHARE("useful", useful, "useful load of the fast path, else the load"),
    SHARE("steal", steal, "time that the hypervisor took"),
    {"frequency", "Hz", "mean frequency while not halted, 0: unknown", 1, 0,
     CORE(frequency_hz), NULL, 0},
    {"node", "1", "NUMA node", 1, 0, CORE(node), NULL, 0},
    {"sibling", "1",
     "next hardware thread of the same physical core, or itself", 1, 0,
     CORE(sibling), NULL, 0},
    {"isolated", "1", "is the core isolated?", 1, 1, CORE(isolated), flags, 2},
    {"source", "1", "what the load is measured with", 1, SOURCES, CORE(source),
     sources, 1 + SOURCES},
    {"proof", "1", "how far the source can be trusted", 1, PROOFS - 1,
     CORE(proof), proofs, PROOFS},
    {"time", "ns", "end of the interval, CLOCK_MONOTONIC", 1, 0, CORE(time_ns),
     NULL, 0},
};

#define LEN(fields) (sizeof(fields) / sizeof((fields)[0]))
_Static_assert(LEN(core_fields) + FIGURES_PERIODS_MAX <= BOARD_FIELDS_MAX,
               "all fields fit");

const char *board_table_name(enum board_table table) {
  return table == BOARD_PICTURE ? "picture" : "cores";
}

size_t board_fields(struct board_field fields[BOARD_FIELDS_MAX],
                    enum board_table table, const double *period_s,
                    size_t periods_len) {
  size_t len = table == BOARD_PICTURE ? LEN(picture_fields) : LEN(core_fields);
  memcpy(fields, table == BOARD_PICTURE ? picture_fields : core_fields,
         len * sizeof(*fields));
  for (int i = 0; i <= SOURCES; i++)
    sources[i] = source_name((enum source_kind)(SOURCE_NONE + i));
  for (int i = 0; i < PROOFS; i++)
    proofs[i] = proof_name((enum proof)i);
  for (size_t i = 0; table == BOARD_CORES && i < periods_len; i++, len++) {
    fields[len] = (struct board_field)SHARE("", average[0], "load average");
    fields[len].offset += i * sizeof(double);
    snprintf(fields[len].name, sizeof(fields[len].name), "average_%.0fs",
             period_s[i]);
  }
  return len;
}
