#include "board.h"

#define SHARE(name, help)                                                      \
  { {name, "ppm", help, PERCORE_GAUGE, 0, 0, 0, NULL, 0}, 1e6, 1 }
#define FIGURE(name, unit, help, max)                                          \
  { {name, unit, help, PERCORE_GAUGE, 0, 0, 0, NULL, 0}, 1, max }
#define STATE(name, help, states)                                              \
  { {name, "1", help, PERCORE_STATE, 0, 0, 0, NULL, states}, 1, (states)-1 }

const struct board_column board_columns[BOARD_COLUMNS] = {
    SHARE("load", "load of the interval"),
    SHARE("load_trough", "least load of a window of the interval"),
    SHARE("load_peak", "largest load of a window of the interval"),
    SHARE("load_low", "lower bound of the load"),
    SHARE("load_high", "upper bound of the load"),
    SHARE("room", "1 - load + polls that found nothing"),
    SHARE("steal", "time that the hypervisor took"),
    FIGURE("frequency", "Hz", "mean frequency while not halted, 0: unknown", 0),
    FIGURE("node", "1", "NUMA node", 0),
    FIGURE("sibling", "1",
           "next hardware thread of the same physical core, or itself", 0),
    FIGURE("isolated", "1", "1: the core is isolated", 1),
    STATE("source", "what the load is measured with", SOURCES + 1),
    STATE("proof", "how far the source can be trusted", PROOF_REFUTED + 1),
    FIGURE("time", "ns", "end of the interval, CLOCK_MONOTONIC", 0),
    FIGURE("interval", "ns", "time between two updates", 0),
    SHARE("load_1m", "load average over 60 s"),
    SHARE("load_5m", "load average over 300 s"),
    SHARE("load_15m", "load average over 900 s"),
};
