"""Checks what percore wake printed in a guest with one idle state that halts. Each JSON
document is one line of the console."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../integration"))
from harness import Results, check, say  # noqa: E402

text = open(sys.argv[1], errors="replace").read().replace("\r", "")
IS_RT = "PREEMPT_RT" in text.split("RUN", 1)[0]
RUNS = [part for part in re.split(r"^RUN ", text, flags=re.M)[1:]]
DEFAULT, THREAD, CLOSE, SMIS, ABOVE, PAUSE, LONG_PAUSE = range(7)


def run(number):
    """Returns the document of a run, its exit status, and what it said."""
    check(len(RUNS) == 7, f"{len(RUNS)} runs")
    found = re.search(r'^(\{".*\})$', RUNS[number], re.M)
    check(found, RUNS[number][:2000])
    return (json.loads(found[1]), int(re.search(r"^RC (\d+)$", RUNS[number], re.M)[1]),
            "\n".join(re.findall(r"^SAID (.*)$", RUNS[number], re.M)))


def median_of(document, name):
    return next(metric["median_us"] for metric in document["metrics"]
                if metric["metric"] == name)


def method_fits_the_kernel():
    """A BPF timer wakes the core, or a thread where the kernel refuses BPF timers, for the
    reason that the kernel gives"""
    document, status, said = run(DEFAULT)
    say(said)
    check(status == 0, said)
    check(document["method"] == ("thread" if IS_RT else "bpf-timer"), document["method"])
    check(("a kernel without PREEMPT_RT" in said) == IS_RT, said)
    check("seccomp" not in said, said)


def cpuidle_agrees():
    """cpuidle counts the idle states that the programs see"""
    for number in DEFAULT, THREAD, CLOSE, SMIS:
        document = run(number)[0]
        say(f"{document['idles']} seen, {document['cpuidle_usage']} counted")
        check(document["idle_check"] == "agrees", f"run {number}")


def every_event_has_a_reason():
    """Events that were armed are datapoints or dropped, also at a distance of 20 us"""
    for number in range(len(RUNS)):
        document = run(number)[0]
        say(f"{document['datapoints']} of {document['armed']}: {document['dropped']}")
        check(document["armed"] ==
              document["datapoints"] + sum(document["dropped"].values()), f"run {number}")


def c1_is_as_advertised():
    """The state of the idle driver has its advertised exit latency, its entries and its
    time"""
    document = run(DEFAULT)[0]
    c1 = next(state for state in document["states"] if state["state"] == "C1")
    say(json.dumps(c1))
    check(c1["latency_us"] == 2 and c1["verdict"] == "as advertised", f"{c1}")
    latency = c1["metrics"][0]
    check(latency["count"] <= c1["entries"], f"{c1}")
    check(0 < latency["median_us"] <= latency["p99_us"] < 10, f"{c1}")
    check(0.8 < c1["time_us"] / 1e6 / document["seconds"] < 1, f"{c1}")


def methods_agree():
    """The medians of the default method and of the thread are within 0.1 us"""
    medians = [median_of(run(number)[0], "IntrLatency") for number in (DEFAULT, THREAD)]
    say(f"{medians}")
    check(abs(medians[0] - medians[1]) < 0.1, f"{medians}")


def kill_leaves_what_was_measured():
    """After kill -9, the datapoints are there"""
    rows = int(re.search(r"^ROWS (\d+)$", text, re.M)[1])
    check(rows > 100, f"{rows} rows")


def smis_are_counted():
    """System management interrupts are counted, where the processor counts them"""
    check(run(DEFAULT)[0]["smis"] == 0, "there were none")
    check(run(SMIS)[0]["smis"] == 5, f'{run(SMIS)[0]["smis"]}')


def plugin_reports_each_state():
    """collectd reports what each idle state that was met costs, and what is advertised
    for it, also with a thread where the kernel refuses BPF timers"""
    said = text.split("PLUGIN", 1)[1]
    values = {name: float(value) for name, value in re.findall(
        r"PUTVAL guest/(\S+) interval=\S+ [0-9.]+:(\S+)", said)}
    say(f"{values}")
    check(0 < values["percore-0/latency-cstate_C1_p50"] < 1e-5, said[-2000:])
    check(values["percore_host-self/latency-cstate_C1_advertised"] == 2e-6, said[-2000:])
    check(values["percore_host-self/derive-wake_probes"] > 500, said[-2000:])
    warned = re.findall(r"wake latency is measured with a thread: .*", said)
    check(len(warned) == IS_RT, f"{warned}")


def ends_at_the_threshold():
    """The first wake above the threshold ends the measurement, and its state, time and
    interrupt are said"""
    document, status, said = run(ABOVE)
    say(said)
    above = document["above"]
    check(status == 1 and document["seconds"] < 1, f"{status}")
    check(above["latency_us"] > 0.5 and above["state"] in ("C1", "POLL"), f"{above}")
    check(above["interrupt"] == 236 and "interrupt 236 woke it" in said, said)


def a_pause_leaves_the_core_alone():
    """With a pause, most events wake a core that has been idle for longer than without, and
    a measurement ends before a pause does"""
    medians = [median_of(run(number)[0], "SilentTime") for number in (THREAD, PAUSE)]
    say(f"{medians}")
    check(medians[0] < 4000 < medians[1], f"{medians}")
    document, status, _ = run(LONG_PAUSE)
    check(status == 1 and document["dropped"]["unfinished"] == 1, f"{document}")
    check(document["seconds"] < 2, f"{document['seconds']}")


results = Results()
for test in (method_fits_the_kernel, cpuidle_agrees, every_event_has_a_reason,
             c1_is_as_advertised, methods_agree, kill_leaves_what_was_measured,
             smis_are_counted, ends_at_the_threshold, a_pause_leaves_the_core_alone,
             plugin_reports_each_state):
    results.run(test)
