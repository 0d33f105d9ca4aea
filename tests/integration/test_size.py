"""A simulated host with 256 cores. Tests parsing, arithmetic and naming, and measures
their cost."""

import re

from harness import Collectd, check, least_of_tries, run_all, say
from sysroot import SysRoot

CORES = 256


def start(root, **more):
    return Collectd(f'SysRoot "{root.path}"', plugins=("before", "after"), **more)


def time_of_init_ms(root):
    with start(root) as collectd:
        check(collectd.run("-T") == 0, collectd.log())
        times = dict(re.findall(r"(\w+): init at ([0-9.]+)", collectd.log()))
    taken_ms = 1e3 * (float(times["after"]) - float(times["before"]))
    say(f"init took {taken_ms:.1f} ms")
    return taken_ms


def test_init_is_quick():
    """With a SysRoot of 256 cores, the plugin's init takes less than 50 ms"""
    with SysRoot(CORES, nodes=2) as root:
        root.write_machine()
        taken_ms = least_of_tries(50, lambda: time_of_init_ms(root))
        check(taken_ms < 50, f"{taken_ms} ms")


def test_samples_are_cheap():
    """With a SysRoot of 256 cores, a sample takes less than 10 ms"""
    with SysRoot(CORES, nodes=2) as root:
        root.write_machine()
        root.start_clock()
        with start(root).start() as collectd:
            cost = "percore_host-self/duration-sample_cost"
            collectd.wait_for_value(cost, 30, count=8)
            collectd.stop()
            costs_ms = sorted(1e3 * value.value for value in collectd.of(cost))
            say("the worst sample of each second: "
                + " ".join(f"{each:.2f}" for each in costs_ms) + " ms")
            # Use the median, because single samples may be interrupted.
            check(costs_ms[len(costs_ms) // 2] < 10, f"{costs_ms} ms")


def test_values_are_few():
    """With a SysRoot of 256 cores, by default at most 800 values are reported, whose
    identifiers are all distinct"""
    with SysRoot(CORES, nodes=2) as root:
        root.write_machine()
        root.start_clock()
        with start(root, report_self=False).start() as collectd:
            # Load averages begin with the second window.
            collectd.wait_for_value("percore-255/load", 30, count=2)
            collectd.stop()
            # The last interval may be incomplete.
            whole = sorted({value.time for value in collectd.values})[-2]
            identifiers = [value.identifier for value in collectd.values
                           if value.time == whole]
            say(f"{len(identifiers)} values in one interval")
            check(len(identifiers) == len(set(identifiers)),
                  "identifiers are not distinct")
            check(3 * CORES < len(identifiers) <= 800, str(len(identifiers)))
            everything = {value.identifier for value in collectd.values}
            check(len(everything) <= 800, f"{len(everything)} identifiers in all")
            for core in range(CORES):
                check(f"percore-{core}/percent-load" in everything,
                      f"core {core} has no load")


if __name__ == "__main__":
    run_all(globals())
