"""The patterns of the DPDK guide's chapter on statistics, and the figures of its machines: a
thousand cycles of work for a packet, two counters of all packets and two of its flow."""

from bench import record, spread
from peers_counters import WORKERS, by, program

MISSING = []
GUIDE = "DPDK guide: "
MACHINES = ("Xeon 6230N, 4 cores", "Xeon 6230N, 20 cores", "Cortex-A72, 4 cores")
FEWER = "two workers, not four, write to the cache lines of the common counters"
OVERLAP = "the core does the adds while the other work goes on, which leaves room for them"
MEET = "two workers seldom meet; at the guide's figures its lock is hardly ever free"
# The way in peers.cc; why ours differ; the figures of MACHINES.
PATTERNS = {
    "shared, not synchronised": (FEWER, 27, 273, 26),
    "shared, lock": (MEET, 436, 8236, 36),
    "shared, atomic": (FEWER, 56, 626, 85),
    "shared, buffered": (OVERLAP, 18, 18, 24),
    "percore PER_CORE": (OVERLAP, 5, 4, 4),
    "per core, lock": (OVERLAP, 7, 7, 4),
    "percore section": (OVERLAP, 4, 4, 8),
}


def measure(build, seconds):
    with program(build) as run:
        figures = {workers: run("flows", workers, seconds / 2 - 2) for workers in WORKERS}
    for way, (why, *guide) in PATTERNS.items():
        for workers, of in figures.items():
            if (way, "cycles") in of:  # the workers ran at the same time
                yield record(way, f"here, {by(workers)}", "cycles", of[way, "cycles"],
                             why if workers > 1 else "")
        yield record(f"counts lost, {by(workers)}", way, "%", of[way, "lost"])
        for machine, cycles in zip(MACHINES, guide):
            yield record(way, GUIDE + machine, "cycles", spread([cycles]))
