#!/usr/bin/python3
"""Tests the source "bpf" with the real kernel, percore(1) and collectd. Tests that pin
a clock mount a tmpfs on /run in their own mount namespace."""

import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from command import PERCORE, TIMEOUT, run  # noqa: E402
from harness import (Collectd, Skip, check, is_root,  # noqa: E402
                     online_cores, run_tests, say)
from softirq import SoftirqBurner  # noqa: E402

NOBODY = "setpriv --reuid 65534 --clear-groups --inh-caps=-all "
PINS = "/run/percore-clock"
WINDOW_S = 4
TIMER_US, SPIN_US = 1000, 300
LOG_STEP_S = 0.01  # the log is interpolated at both ends of the window
# The kernel's work for a run of the timer, which the log does not include, is measured
# with runs that spin for 1 us: 5 to 50 us. It varies by less than POINTS of the core.
PER_RUN_MAX_S = 100e-6
POINTS = 0.01
# The largest share of the core that tasks may use, and of the runs that the timer may
# miss. More means other work or pauses of the machine, which no log explains.
TASKS_MAX = 0.05
MISSED_MAX = 0.005
TRIES = 4


def need_clock():
    """Skips the test where this process cannot load the clock, unless the kernel calls
    programs that it should know invalid. Otherwise returns a document of percore load
    --source bpf."""
    if not is_root():
        raise Skip("loading the idle clock needs root")
    done = run("load", "--source", "bpf", "--count", "1", "--interval", "0.5",
               "--json")
    if "bpf is configured but unavailable" in done.stderr:
        release = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
        check(release < (5, 14) or "Invalid argument" not in done.stderr, done.stderr)
        raise Skip(done.stderr.strip())
    check(done.returncode == 0, done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def apart(script):
    """Runs a shell script in a mount namespace with an empty /run."""
    if not is_root():
        raise Skip("a mount namespace needs root")
    script = ("set -e; mount -t tmpfs -o mode=0755 none /run\n" + script)
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True,
        text=True, timeout=TIMEOUT, check=False,
        env=dict(os.environ, PERCORE=PERCORE))


def test_named():
    """percore load --source bpf measures every core, and its loads are between 0 and
    100 %"""
    document = need_clock()
    for core in document["cores"]:
        check(core["source"] == "bpf" and core["proof"] == "proven", core)
        check(0 <= core["load"] <= 100, core)


def test_no_library():
    """the plugin and percore(1) need neither libbpf nor libelf"""
    for path in (PERCORE, f"{harness.BUILD}/.libs/percore.so"):
        needed = subprocess.run(["ldd", path], capture_output=True, text=True,
                                check=True).stdout
        check(not re.search(r"libbpf|libelf", needed), needed)


def test_pinned_without_capability():
    """if a clock is pinned, a process without any capability uses the source "bpf" by
    default"""
    need_clock()
    done = apart('"$PERCORE" clock --pin >&2\n' + NOBODY +
                 '"$PERCORE" load --count 1 --interval 0.5 --json')
    check(done.returncode == 0, done.stderr)
    for core in json.loads(done.stdout)["cores"]:
        check(core["source"] == "bpf", f"{core}, {done.stderr}")


def test_pinned_twice():
    """a second percore clock --pin leaves the pinned clock in place"""
    need_clock()
    done = apart(f'"$PERCORE" clock --pin; stat -c %i {PINS}/cpu_idle\n'
                 f'"$PERCORE" clock --pin; stat -c %i {PINS}/cpu_idle')
    check(done.returncode == 0, done.stderr)
    lines = done.stdout.splitlines()
    check(lines[1] == lines[3], done.stdout)


def test_pinned_at_once():
    """several percore clock --pin at once pin one clock, and --unpin removes it"""
    need_clock()
    done = apart('for i in 1 2 3; do "$PERCORE" clock --pin & done; wait\n'
                 f'grep -c {PINS} /proc/self/mounts\n"$PERCORE" clock --unpin\n'
                 f'! grep {PINS} /proc/self/mounts')
    check(done.returncode == 0, done.stderr)
    lines = done.stdout.splitlines()
    check(lines[-1] == "1" and sum("is pinned" in line for line in lines) == 1, done.stdout)


def test_half_pinned():
    """cpu_idle is pinned last; without a required pin no reader uses the clock, and
    percore clock --pin replaces what a killed process has left"""
    need_clock()
    done = apart(f'"$PERCORE" clock --pin >&2; cd {PINS}; stat -c "%i %n" *')
    check(done.returncode == 0, done.stderr)
    pins = sorted((int(line.split()[0]), line.split()[1])
                  for line in done.stdout.splitlines())
    check(pins[-1][1] == "cpu_idle", pins)
    for pin in ("cpu_idle", "irq_handler_entry", "softirq_entry"):
        done = apart(f'"$PERCORE" clock --pin >&2; rm {PINS}/{pin}\n'
                     f'{NOBODY}"$PERCORE" load --source bpf --count 1 '
                     '--interval 0.5')
        check(f"lacks the pin {pin}" in done.stderr, done.stderr)
    done = apart(f'"$PERCORE" clock --pin; rm {PINS}/cpu_idle\n'
                 f'"$PERCORE" clock --pin; test -e {PINS}/cpu_idle')
    check(done.returncode == 0, done.stderr)


def test_pin_modes():
    """pins belong to root, and no other user can write to them"""
    need_clock()
    done = apart(f'"$PERCORE" clock --pin >&2; stat -c "%u %a" {PINS} {PINS}/*')
    check(done.returncode == 0, done.stderr)
    for line in done.stdout.splitlines():
        uid, mode = line.split()
        check(uid == "0" and int(mode, 8) & 0o022 == 0, done.stdout)


def test_unpinned():
    """if the clock that a reader uses is unpinned, the reader continues with the source
    "idle", and prints a message"""
    need_clock()
    done = apart('"$PERCORE" clock --pin >&2\n'
                 '"$PERCORE" load --source bpf --count 6 --interval 1 --json '
                 '>/run/out &\n'
                 'until test -s /run/out; do sleep 0.1; done\n'
                 '"$PERCORE" clock --unpin\nwait; cat /run/out')
    check(done.returncode == 0, done.stderr)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    sources = [document["cores"][0]["source"] for document in documents]
    check(sources[0] == "bpf", sources)
    # The source "idle" is used only for a while, because a process of root then loads
    # another clock.
    check("idle" in sources, sources)
    check(done.stderr.count("no longer runs") == 1, done.stderr)


def test_untrusted_pins():
    """pins that users other than root can create or write to are refused"""
    need_clock()
    cases = {
        f"chmod g+w {PINS}": "users other than root may write",
        f"chown 65534 {PINS}": "users other than root may write",
        f"chmod o+w {PINS}/idle_clock": "users other than root may write",
        f"chown 65534 {PINS}/cpu_idle": "users other than root may write",
    }
    for change, said in cases.items():
        done = apart(f'"$PERCORE" clock --pin >&2; {change}\n'
                     '"$PERCORE" load --source bpf --count 1 --interval 0.5 '
                     '--json')
        source = json.loads(done.stdout)["cores"][0]["source"]
        check(source == "idle" and said in done.stderr,
              f"{change}: {source}, {done.stderr}")


def test_above_the_pins():
    """only root may write to the directories above the pinned clock"""
    need_clock()
    folders = [PINS[:i] or "/" for i in range(len(PINS)) if PINS[i] == "/"]
    for folder in folders:
        found = os.stat(folder)
        check(found.st_uid == 0 and not found.st_mode & 0o022,
              f"{folder}: {found}")


def test_untrusted_folder():
    """no bpffs is mounted over a link, or over a directory that another user
    owns"""
    need_clock()
    for squat in (f"mkdir {PINS}; chown 65534 {PINS}",
                  f"mkdir {PINS}; chmod 0777 {PINS}", f"ln -s /tmp {PINS}"):
        done = apart(f'{squat}; "$PERCORE" clock --pin')
        check(done.returncode == 1 and "other than root may write" in done.stderr,
              f"{squat}: {done.stderr}")


def test_without_rights():
    """without rights, percore load --source bpf names the missing capabilities and
    advises percore clock --pin"""
    need_clock()
    done = apart(NOBODY + '"$PERCORE" load --source bpf --count 1 '
                 '--interval 0.5 --json')
    check(json.loads(done.stdout)["cores"][0]["source"] == "idle", done.stdout)
    check("CAP_BPF and CAP_PERFMON" in done.stderr and "--pin" in done.stderr,
          done.stderr)


def test_killed():
    """percore load --source bpf leaves no BPF program in the kernel if it is killed"""
    need_clock()
    harness.check_killed_leaves_none("on_interrupt",
                                     [PERCORE, "load", "--source", "bpf"])


def measure(core, spin_us):
    """Measures a core for WINDOW_S seconds while a timer spins in softirq. Returns for
    how many seconds of it the core was not halted, the seconds that the timer and the
    tasks used, and the runs of the timer. Returns None if tasks used too much, or if
    the timer missed too many runs."""
    with SoftirqBurner(core, TIMER_US, spin_us) as burner:
        done = run("load", "--source", "bpf", "--cores", str(core), "--interval",
                   str(WINDOW_S), "--count", "1", "--json")
        document = json.loads(done.stdout.splitlines()[-1])
        end = document["time"] - time.time() + time.monotonic()
        spun, tasks, runs = burner.between(end - WINDOW_S, end)
    unhalted = document["cores"][0]["load"] / 100 * WINDOW_S
    say(f"log {100 * spun / WINDOW_S:.1f} %, clock {100 * unhalted / WINDOW_S:.1f} %, "
        f"{runs / WINDOW_S:.0f} runs a second, tasks {100 * tasks / WINDOW_S:.1f} %")
    check(unhalted >= spun - LOG_STEP_S, "the load is below the log")
    if (tasks > TASKS_MAX * WINDOW_S or
            runs < (1 - MISSED_MAX) * WINDOW_S * 1e6 / TIMER_US):
        return None
    return unhalted, spun, tasks, runs


def test_softirq():
    """softirqs count as load: the load is at least the time that the softirq timer
    logged, and within 1 point at most that time, the cost of as many runs that do
    nothing and the CPU time of tasks"""
    need_clock()
    core = online_cores()[-1]
    if harness.CPUACCT is None:
        raise Skip("the kernel does not report the CPU time of tasks (cpuacct)")
    for _ in range(TRIES):
        nothing, work = measure(core, 1), measure(core, SPIN_US)
        if nothing is None or work is None:
            continue
        unhalted, spun, tasks, runs = nothing
        per_run = (unhalted - spun - tasks) / runs
        check(per_run < PER_RUN_MAX_S, f"{1e6 * per_run:.0f} us a run")
        unhalted, spun, tasks, runs = work
        most = spun + tasks + runs * per_run + POINTS * WINDOW_S
        check(unhalted <= most, f"clock {unhalted:.3f} s, expected {most:.3f} s")
        return
    raise Skip("other tasks use the core, or the machine is paused")


def test_collectd():
    """collectd reports loads from the source "bpf", and the number of cores that use
    this source"""
    need_clock()
    harness.need_collectd()
    with Collectd("<Load>\n  Source \"bpf\"\n</Load>") as collectd:
        collectd.start()
        collectd.wait_for_value("percore_host-self/gauge-cores_bpf", count=2)
        cores = collectd.of("percore_host-self/gauge-cores_bpf")[-1].value
        check(cores == len(online_cores()), f"{cores} cores")
        collectd.stop()
        check("bpf" in collectd.log(), collectd.log())


if __name__ == "__main__":
    run_tests(globals(), "source bpf", PERCORE)
