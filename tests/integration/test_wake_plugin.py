"""Tests WakeLatency in the real collectd, with the real kernel."""

import ctypes
import os
import re
import time

from harness import (Burner, Collectd, Skip, bpf_programs, check,
                     is_root, online_cores, run_all, say, wait_for)

LONG = os.environ.get("PERCORE_TEST_LONG") == "1"
PROGRAM = "wake_expire"
PROBES = 100
IDLE_S = 10  # seconds that a core may take to be idle once
JUDGED_S = 20  # seconds to wait for the percentiles of busy cores
DATAPOINTS_S = 60  # seconds that idle cores may take to produce 1000 datapoints
IDLE_MIN = 0.5  # the share of time from which a core counts as idle
INTERVAL_S = 10  # in test_cost_beside_timers
COST_MAX = 0.1  # percent of a core that BPF programs and probing may use
TIMERS_HZ = 10000
# The number of tracepoints apart from hrtimer_start; only x86 has local_timer_entry.
LINKS = 4 if os.uname().machine == "x86_64" else 3
SYS_BPF, BPF_ENABLE_STATS = {"x86_64": 321}.get(os.uname().machine, 280), 32
OPTION = "WakeLatency true"
COUNT = "percore_host-self/derive-wake_probes"


def held(collectd):
    """Returns the kind and the fdinfo of each BPF object that collectd holds."""
    found, folder = [], f"/proc/{collectd.process.pid}"
    for name in os.listdir(f"{folder}/fd"):
        try:
            kind = os.readlink(f"{folder}/fd/{name}")
            if "bpf" not in kind:
                continue
            with open(f"{folder}/fdinfo/{name}", encoding="ascii") as file:
                found.append((kind, file.read()))
        except FileNotFoundError:  # collectd has closed it since listdir
            pass
    return found


def links(collectd):
    """Returns to how many tracepoints collectd has attached a program."""
    return sum("raw_tracepoint" in info for _, info in held(collectd))


def programs(collectd):
    return [info for kind, info in held(collectd) if "bpf-prog" in kind]


def of_fdinfo(infos, key):
    return [int(re.search(rf"^{key}:\s*(\d+)", info, re.M)[1]) for info in infos]


def has_probed(collectd):
    return any(value.value > 0 for value in collectd.of(COUNT))


def need_programs():
    """Skips the test unless the plugin can measure here."""
    if not is_root():
        raise Skip("loading BPF programs needs root")
    with Collectd(OPTION, 0.3).start() as collectd:
        collectd.wait_for(
            lambda: programs(collectd) or "wake latency is not" in
            collectd.log(), 20, "BPF programs")
        said = re.search(r"wake latency is not measured: (.*)", collectd.log())
        end = time.monotonic() + IDLE_S
        while said is None and not has_probed(collectd) and time.monotonic() < end:
            time.sleep(0.1)
        if said is not None:
            raise Skip(said[1])
        if not has_probed(collectd):
            raise Skip(f"no core had a load below 50 % for {IDLE_S} s")


def idle_s():
    """Returns the idle time of each core since boot, in seconds."""
    with open("/proc/stat", encoding="ascii") as file:
        return {int(words[0][3:]): int(words[4]) / os.sysconf("SC_CLK_TCK")
                for words in map(str.split, file)
                if re.fullmatch(r"cpu\d+", words[0])}


# ---------------------------------------------------------------------------
# Tests


def test_nothing_when_off():
    """Without WakeLatency, collectd holds no BPF object and reports no wake
    latency"""
    with Collectd("", 0.3).start() as collectd:
        collectd.wait_for_reads(4)
        check(not held(collectd), str(held(collectd)))
        check(not [name for name in collectd.series if "wake" in name],
              str(list(collectd.series)))


def test_values_of_both_cores():
    """For each core that was idle, plausible percentiles are reported once 1000
    datapoints have been collected"""
    need_programs()
    begin, before = time.monotonic(), idle_s()

    def is_idle(core):
        return idle_s()[core] - before[core] > \
            IDLE_MIN * (time.monotonic() - begin)

    with Collectd(OPTION, 1).start() as collectd:
        wanted = {core: f"percore-{core}/latency-timer_intr_p99"
                  for core in online_cores()[:2]}

        def is_missing():
            return {core for core in wanted if not collectd.of(wanted[core])}

        while time.monotonic() < begin + DATAPOINTS_S and \
                (time.monotonic() < begin + JUDGED_S or
                 any(map(is_idle, is_missing()))):
            time.sleep(0.5)
        missing = set(filter(is_idle, is_missing()))
        measured = wanted.keys() - is_missing()
        collectd.stop()
        values = {name: value[-1].value for name, value in
                  collectd.series.items() if "latency" in name}
        probes = collectd.of(COUNT)
    say(f"{values}")
    check(len(probes) > 5, collectd.log())
    bursts = round(probes[-1].time - probes[0].time) + 1
    check(0 < probes[-1].value - probes[0].value <=
          bursts * PROBES * len(online_cores()), str(probes))
    check(not missing, f"cores {missing} were idle: {collectd.log()}")
    for core in measured:
        name = wanted[core]
        check(0 < values[name[:-2] + "50"] <= values[name] < 0.1, str(values))
        silent = values[f"percore-{core}/latency-timer_silent_p50"]
        check(0 < silent < 0.0041, str(values))
    if not measured:
        raise Skip("no core was idle for half of the time")


def test_attached_during_bursts():
    """The BPF programs are loaded once and attached only during bursts. The program
    that sees timers start is attached only in the first burst. No program is left after
    collectd ends"""
    need_programs()
    with Collectd(OPTION, 1).start() as collectd:
        collectd.wait_for(lambda: programs(collectd), 20, "BPF programs")
        loaded = of_fdinfo(programs(collectd), "prog_id")
        for _ in range(3):
            wait_for(lambda: links(collectd), "never attached")
            wait_for(lambda: not links(collectd), "always attached")
        seen = set()
        wait_for(lambda: seen.add(links(collectd)) or {0, LINKS} <= seen,
                 f"never attached to {LINKS} tracepoints", 20)
        check(max(seen) == LINKS, f"attached to {seen} tracepoints")
        check(of_fdinfo(programs(collectd), "prog_id") == loaded,
              "the programs were loaded again")
        mine = bpf_programs(PROGRAM) & set(map(str, loaded))
        check(mine, f"{loaded} has no {PROGRAM}")
        took = collectd.stop()
        check(took < 1, f"{took} s to stop")
        wait_for(lambda: not bpf_programs(PROGRAM) & mine,
                 f"{mine} are still there")


def start_as_nobody(collectd, *capabilities):
    for folder, _, files in os.walk(collectd.directory):
        for name in (".", *files):
            os.chown(os.path.join(folder, name), 65534, 65534)
    given = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    collectd.start(before=["setpriv", "--reuid", "65534", "--clear-groups",
                           f"--inh-caps={given}", f"--ambient-caps={given}"])


def test_two_capabilities():
    """With no capabilities except CAP_BPF and CAP_PERFMON, cores are probed"""
    need_programs()
    with Collectd(OPTION, 0.5) as collectd:
        start_as_nobody(collectd, "bpf", "perfmon")
        collectd.wait_for(lambda: has_probed(collectd), 20, "a probe")


def test_without_rights():
    """Without rights, one line in the log says what to do, and loads are still
    measured"""
    if not is_root():
        raise Skip("becoming another user needs root")
    with Collectd(OPTION, 0.3) as collectd:
        start_as_nobody(collectd)
        collectd.wait_for_reads(5)
        collectd.wait_for_value("percore-0/percent-load", count=2)
        said = re.findall(r"wake latency is not measured: (.*)", collectd.log())
        check(len(said) == 1, collectd.log())
        for words in ("CAP_BPF and CAP_PERFMON", "as root"):
            check(words in said[0] or "built without BPF" in said[0] or
                  "no driver" in said[0], said[0])
        check("--method" not in said[0], said[0])


def test_cost_beside_timers():
    """With 100 probes in 10 s and 10 000 timers a second on one of the cores, the BPF
    programs and the probing thread take less than 0.1 % of a core"""
    if not LONG:
        raise Skip("takes a minute: PERCORE_TEST_LONG=1 runs it")
    need_programs()
    attr = ctypes.create_string_buffer(128)  # BPF_STATS_RUN_TIME
    stats = ctypes.CDLL(None, use_errno=True).syscall(
        SYS_BPF, BPF_ENABLE_STATS, attr, len(attr))
    check(stats >= 0, os.strerror(ctypes.get_errno()))
    core = online_cores()[-1]
    collectd = Collectd(OPTION, INTERVAL_S)
    burner = Burner(core, f"1/{1000000 // TIMERS_HZ}", 8 * INTERVAL_S,
                    collectd.directory)
    try:
        with collectd.start():
            cpu = "percore_host-self/percent-wake_cpu"
            collectd.wait_for_value(cpu, 5 * INTERVAL_S)
            begin = of_fdinfo(programs(collectd), "run_time_ns")
            runs = of_fdinfo(programs(collectd), "run_cnt")
            collectd.wait_for_value(cpu, 2 * INTERVAL_S, count=2)
            spent = sum(of_fdinfo(programs(collectd), "run_time_ns")) - sum(begin)
            count = sum(of_fdinfo(programs(collectd), "run_cnt")) - sum(runs)
            thread = collectd.of(cpu)[-1].value
    finally:
        os.close(stats)
        burner.stop()
    share = 100 * spent / (INTERVAL_S * 1e9)
    said = (f"programs {share:.4f} % ({count} runs), thread {thread:.4f} % of a "
            "core")
    say(said)
    check(count > 0 and share + thread < COST_MAX, said)


if __name__ == "__main__":
    run_all(globals())
