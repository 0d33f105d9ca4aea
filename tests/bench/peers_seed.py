"""The patterns of the DPDK guide's chapter on statistics, and the figures of its machines: a
thousand cycles of work for a packet, two counters of all packets and two of its flow."""

from peers_counters import WORKERS, program, record

MISSING = []
GUIDE = "DPDK guide: "
MACHINES = ("Xeon 6230N, 4 cores", "Xeon 6230N, 20 cores", "Cortex-A72, 4 cores")
# The way in peers.cc; the figures of MACHINES; why ours differ.
PATTERNS = {
    "shared, not synchronised": (27, 273, 26),
    "shared, lock": (436, 8236, 36),
    "shared, atomic": (56, 626, 85),
    "shared, buffered": (18, 18, 24),
    "percore PER_CORE": (5, 4, 4),
    "per core, lock": (7, 7, 4),
    "percore section": (4, 4, 8),
}
FEWER = "two workers, not four, write to the cache lines of the common counters"
OVERLAP = "the core does the adds while the other work goes on, which leaves room for them"
WHY = {
    "shared, not synchronised": FEWER,
    "shared, lock": "two workers seldom meet; at the guide's figures its lock is hardly ever free",
    "shared, atomic": FEWER,
    "shared, buffered": OVERLAP,
    "percore PER_CORE": OVERLAP,
    "per core, lock": OVERLAP,
    "percore section": OVERLAP,
}


def measure(build, seconds):
    with program(build) as run:
        figures = {workers: run("flows", workers, seconds / 2 - 2) for workers in WORKERS}
    for way, guide in PATTERNS.items():
        for workers in WORKERS:
            yield record(way, f"here, {workers} worker{'s' * (workers > 1)}", "cycles",
                         figures[workers][way, "cycles"], WHY[way] if workers > 1 else "")
        lost = figures[WORKERS[-1]][way, "lost"][0]
        yield record("counts lost, 2 workers", way, "%", (lost, lost, lost, 1))
        for machine, cycles in zip(MACHINES, guide):
            yield record(way, GUIDE + machine, "cycles", (cycles,) * 3 + (1,))
