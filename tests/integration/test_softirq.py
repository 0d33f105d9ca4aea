#!/usr/bin/python3
"""Tests ReportSoftirq with the real kernel and collectd. The values are compared with
the log of a timer, which records for how long it keeps a core in softirq."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import (Collectd, Skip, bpf_programs, check,  # noqa: E402
                     is_root, online_cores, run_tests, say, wait_for)
from softirq import Network, SoftirqBurner  # noqa: E402

OPTIONS = "<Load>\n  ReportSoftirq true\n</Load>"
VECTORS = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet",
           "sched", "hrtimer", "rcu")
PERIOD_US, SPIN_US = 1000, 300
# The time from the tracepoint to the timer and back, which the log does not include.
PER_FIRE = 100 * 25 / PERIOD_US  # percent of time
CSV = 1e-5  # percent: values are printed with six digits
ROUNDING = 0.2  # percent: the log is interpolated at both ends of an interval
INTERVALS = 4


class Reported:
    """The values of one core in each interval."""

    def __init__(self, collectd, core):
        self.of = {}
        for name in ("hardirq", "softirq_all",
                     *(f"softirq_{part}" for part in VECTORS)):
            self.of[name] = {value.time: value.value for value in
                             collectd.of(f"percore-{core}/percent-{name}")}
        self.times = sorted(self.of["softirq_all"])

    def value(self, name, when):
        return self.of[name].get(when, 0.0)  # 0 if the vector has never run

    def mean(self, name, begin, end):
        got = [self.value(name, when) for when in self.times
               if begin < when <= end]
        return sum(got) / len(got)

    def check_sums(self):
        """Checks what must be true under every load: values are between 0 and 100, and
        the softirq times by kind add up to the softirq time."""
        for when in self.times:
            values = {name: self.value(name, when) for name in self.of}
            check(all(0 <= value <= 100 for value in values.values()), values)
            whole = values["softirq_all"]
            total = sum(values[f"softirq_{part}"] for part in VECTORS)
            check(abs(total - whole) < CSV, values)


def need_clock():
    harness.need_collectd()
    if not os.path.exists(f"{harness.BUILD}/tests/integration/softirq_burner"):
        raise Skip("percore was built without BPF programs")
    if not is_root():
        raise Skip("loading BPF programs needs root")


def watch(core):
    """Runs the burner for INTERVALS intervals. Returns the reported values, the begin and
    the end of the window from the second interval on, and how many percent of this window
    the burner spun."""
    with SoftirqBurner(core, PERIOD_US, SPIN_US) as burner, \
            Collectd(OPTIONS) as collectd:
        collectd.start()
        collectd.wait_for_value(f"percore-{core}/percent-softirq_all", 60,
                                count=INTERVALS)
        collectd.stop()
        reported = Reported(collectd, core)
        begin, end = reported.times[0], reported.times[INTERVALS - 1]
        ahead = time.time() - time.monotonic()
        spun = burner.between(begin - ahead, end - ahead)[0]
    return reported, (begin, end), spun * 100 / (end - begin)


def test_timer():
    """the softirq time of a timer is reported as softirq_hrtimer, and equals the time
    that the timer logged"""
    need_clock()
    core = online_cores()[-1]
    reported, window, spun = watch(core)
    shown = reported.mean("softirq_hrtimer", *window)
    say(f"log {spun:.2f} %, softirq_hrtimer {shown:.2f} %, all softirqs "
        f"{reported.mean('softirq_all', *window):.2f} %, hard interrupts "
        f"{reported.mean('hardirq', *window):.2f} %")
    check(spun - ROUNDING <= shown <= spun + PER_FIRE + ROUNDING, shown)
    reported.check_sums()


def test_packets():
    """the softirq time of received packets is reported as softirq_net_rx"""
    need_clock()
    core = online_cores()[-1]
    with Network(core) as network, Collectd(OPTIONS) as collectd:
        collectd.start()
        name = f"percore-{core}/percent-softirq_net_rx"
        collectd.wait_for_value(f"percore-{core}/percent-softirq_all", 60,
                                count=2)
        with network.flood(100000, 6):
            wait_for(lambda: any(value.value > 3 for value in
                                 collectd.of(name)),
                     "no packets were seen in softirq", 20)
        collectd.stop()
        Reported(collectd, core).check_sums()
        say("net_rx: " + " ".join(f"{value.value:.1f}" for value in
                                  collectd.of(name)) + " %")


def test_not_asked():
    """no BPF program is loaded unless ReportSoftirq is true"""
    need_clock()
    before = bpf_programs("on_softirq_entry")
    with Collectd("") as collectd:
        collectd.start()
        collectd.wait_for_value("percore-0/percent-load", 60, count=2)
        check(bpf_programs("on_softirq_entry") <= before, "a program was loaded")
        collectd.stop()
        check(not any("percent-softirq_" in value.identifier and
                      value.identifier.startswith("percore-")
                      for value in collectd.values), "softirq was reported")


def test_killed():
    """a collectd that is killed leaves no BPF program in the kernel"""
    need_clock()
    with Collectd(OPTIONS) as collectd:
        harness.check_killed_leaves_none("on_softirq_entry",
                                         collectd.command("-f"))


def test_isolated():
    """where a core is isolated, the log says once that ReportSoftirq must be removed"""
    with Collectd(OPTIONS.replace("true", 'true\n  AlsoIsolated "0"')) as collectd:
        collectd.start()
        collectd.wait_for_value("percore-0/percent-load", 60, count=2)
        collectd.stop()
        said = collectd.log().count("would interrupt isolated cores; remove ReportSoftirq")
        check(said == 1, collectd.log())


def test_no_rights():
    """without CAP_BPF and CAP_PERFMON, the log names them once, and loads are
    reported"""
    need_clock()
    with Collectd(OPTIONS) as collectd:
        collectd.start(before=["setpriv", "--bounding-set=-all",
                               "--inh-caps=-all"])
        collectd.wait_for_value("percore-0/percent-load", 60, count=3)
        collectd.stop()
        said = collectd.log().count("CAP_BPF and CAP_PERFMON")
        check(said == 1, collectd.log())
        check("percore-0/percent-softirq_all" not in collectd.series,
              "softirq was reported")


if __name__ == "__main__":
    run_tests(globals(), "ReportSoftirq")
