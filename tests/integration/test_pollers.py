#!/usr/bin/python3
"""Programs that poll and do not call percore_poll: collectd asks them how useful their
threads are. The programs are fakes, which also do what no honest program would."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Child, Collectd, Skip, check, is_root,  # noqa: E402
                     least_of_tries, online_cores, run_all, say, stop, wait_for)
from producers import RuntimeDir  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PERCORE = f"{BUILD}/percore"
POINTS = 3


class Fake(Child):
    """A fake program in a folder of its own: see fake_poller.py."""

    def __init__(self, dialect, core, percent, *habit):
        self.directory = tempfile.mkdtemp(prefix="percore-fake-")
        self.path = self.directory + {"ovs": "/ovs-vswitchd.1.ctl",
                                      "dpdk": "/dpdk_telemetry.v2"}[dialect]
        self.command = ["/usr/bin/python3", "-B", f"{HERE}/fake_poller.py",
                        dialect, self.path, str(core), str(percent), *habit]
        self.start()

    def start(self):
        super().__init__(self.command, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
        check(self.stdout.readline() == "ready\n", "a fake did not start")

    def restart(self):
        self.kill()
        self.communicate()
        os.unlink(self.path)
        self.start()

    def __exit__(self, *error):
        super().__exit__(*error)
        shutil.rmtree(self.directory)

    def cpu_s(self):
        print(file=self.stdin, flush=True)
        return float(self.stdout.readline())

    def questions(self):
        """Returns the times at which it was asked."""
        try:
            with open(f"{self.path}.log", encoding="ascii") as log:
                return [float(line) for line in log]
        except FileNotFoundError:
            return []


def percore(*arguments):
    done = subprocess.run([PERCORE, *arguments], capture_output=True,
                          text=True, check=False, timeout=60)
    check(done.returncode == 0, f"{arguments}: {done.stderr}")
    return done.stdout


def sockets(programs):
    lines = "\n".join(f'Socket "{program.path}"' for program in programs)
    return f"<Pollers>\n{lines}\n</Pollers>"


def useful(core):
    return f"percore-{core}/percent-useful"


def mean(values):
    return sum(each.value for each in values) / len(values)


def off_by(core, programs):
    """Returns how many points the useful load of a core differs from what the programs
    have done: each is useful for half of its CPU time."""
    with Collectd(sockets(programs), interval=1).start() as collectd:
        # Open vSwitch is asked every 5 s, and is known from the second answer on.
        wait_for(lambda: len(programs[-1].questions()) >= 2, "no questions", 20)
        collectd.wait_for_reads(1)
        before = sum(program.cpu_s() for program in programs)
        begin, known = time.monotonic(), len(collectd.of(useful(core)))
        collectd.wait_for_reads(4)
        cpu_s = sum(program.cpu_s() for program in programs) - before
        truth = 100 * cpu_s / 2 / (time.monotonic() - begin)
        values = collectd.of(useful(core))[known:]
        room = collectd.of(f"percore-{core}/percent-room")[-1]
        # Threads are counted once in each second, or a little later.
        shown = json.loads(percore("top", "pollers", "-i", "3", "-n", "1",
                                   "--json").splitlines()[-1])["workers"]
    got = mean(values)
    say(f"useful {got:.1f}, the programs say {truth:.1f}; room {room.value:.1f}")
    check(all(0 <= each.value <= 100 for each in values), str(values))
    check(sorted(each["name"] for each in shown)
          == sorted(["python3/7", f"python3/{core}"]), str(shown))
    check(all(each["core"] == core and each["useful"] > 0
              and each["polls_per_s"] is None for each in shown), str(shown))
    return abs(got - truth)


def test_useful():
    """the useful load of a core is that of a DPDK program and of an Open vSwitch on it,
    within 3 points; percore top shows their threads"""
    core = online_cores()[-1]
    with RuntimeDir(), Fake("dpdk", core, 20) as dpdk, \
            Fake("ovs", core, 10) as ovs:
        off = least_of_tries(POINTS, lambda: off_by(core, [dpdk, ovs]))
        check(off < POINTS, f"{off} points off")
        gaps = [b - a for a, b in zip(ovs.questions(), ovs.questions()[1:])]
        check(min(gaps) > 4.5, f"Open vSwitch is asked too often: {gaps}")


HABITS = {
    "mute": "does not answer within 200 ms",
    "half": "does not answer within 200 ms",
    "long": "its answer is longer than 1 MiB",
    "full": "it ends the connection",
    "old": "it does not tell how busy its lcores are",
    "empty": "it does not tell how busy its lcores are",
    "beyond": "its useful load is read",
    "backwards": "its useful load is read",
    "fast": "its useful load is read",
}


def test_hostile():
    """programs that hang, halve, lie, run backwards, answer at length, have no free
    client or tell nothing have no useful load, and delay no value of others"""
    first, last = online_cores()[0], online_cores()[-1]
    with contextlib.ExitStack() as stack:
        stack.enter_context(RuntimeDir())
        good = stack.enter_context(Fake("dpdk", last, 5))
        bad = {habit: stack.enter_context(
            Fake("dpdk" if habit in ("old", "empty", "full") else "ovs"
                 if habit == "long" else "dpdk", first, 1, habit))
               for habit in HABITS}
        stopped = stack.enter_context(Fake("dpdk", first, 1))
        stop(stopped)
        collectd = stack.enter_context(Collectd(
            sockets([good, *bad.values(), stopped]), interval=0.5).start())
        collectd.wait_for_value(useful(last), count=10)
        values = collectd.of(useful(last))
        collectd.check_gaps(values, 0.75)
        check(0 < mean(values) < 20, str(values))
        check(not collectd.of(useful(first)) or first == last,
              f"lies are believed: {collectd.of(useful(first))}")
        log = collectd.log()
        for habit, why in HABITS.items():
            says = [line for line in log.splitlines()
                    if f"{bad[habit].path}, pid {bad[habit].pid}, " in line]
            check(len(says) == 1 and why in says[0], f"{habit}: {says}")
        check(f", pid {stopped.pid}, user 0: it does not answer" in log, log)
        check("stuck" not in log, log)
        check(good.poll() is None, "the good program has ended")
        took = collectd.stop()
        check(took < 2, f"collectd needed {took:.1f} s to end")
        stopped.send_signal(signal.SIGCONT)


def test_restart():
    """a program that starts again at a given socket goes on, without a value that is too
    large, and one that has ended has no more values; neither is a worker that is stuck"""
    core = online_cores()[-1]
    with RuntimeDir(), Fake("dpdk", core, 5) as fake, Collectd(
            sockets([fake]), interval=0.5).start() as collectd:
        collectd.wait_for_value(useful(core), count=3)
        fake.restart()
        collectd.wait_for_value(useful(core),
                                count=len(collectd.of(useful(core))) + 6)
        fake.kill()
        fake.wait()
        collectd.wait_for(lambda: f", pid {fake.pid}, user 0: Connection refused"
                          in collectd.log(), 20, "the end")
        ended = len(collectd.of(useful(core)))
        collectd.wait_for_reads(3)
        check(len(collectd.of(useful(core))) == ended, "an ended program counts")
        values = [each.value for each in collectd.of(useful(core))]
        check(max(values) < 20, str(values))
        check("stuck" not in collectd.log(), collectd.log())


# A collectd or percore whose /run has nothing but sockets of fakes.
PLACES = """mount -t tmpfs -o mode=755 none /run
for each in $places; do
  mkdir -p /run/${each%=*} && mount --bind ${each#*=} /run/${each%=*}
done
exec "$@" """


def at_places(**places):
    text = " ".join(f"{place.replace('_', '/')}={fake.directory}"
                    for place, fake in places.items())
    return ["env", f"places={text}", "unshare", "--mount", "sh", "-ec", PLACES,
            "sh"]


def need_root():
    if not is_root():
        raise Skip("a mount namespace needs root")


def test_usual_places():
    """UsualPlaces asks programs at the usual places, but not where a user may write, and
    no other; without a block none is asked"""
    need_root()
    core = online_cores()[-1]
    with RuntimeDir(), Fake("dpdk", core, 1) as good, \
            Fake("dpdk", core, 1) as sticky, Fake("dpdk", core, 1) as foreign, \
            Fake("dpdk", core, 1) as elsewhere:
        os.chmod(sticky.directory, 0o1777)
        os.chown(foreign.directory, 4242, 0)
        before = at_places(dpdk_good=good, dpdk_sticky=sticky,
                           dpdk_foreign=foreign, other=elsewhere)
        with Collectd("<Pollers>\nUsualPlaces true\n</Pollers>",
                      interval=0.2).start(before=before) as collectd:
            collectd.wait_for_value(useful(core), count=3)
            log = collectd.log()
        check("poller DPDK at /run/dpdk/good/dpdk_telemetry.v2, pid "
              f"{good.pid}, user 0: its useful load is read" in log, log)
        for name in ("sticky", "foreign"):
            check(f"at /run/dpdk/{name}/dpdk_telemetry.v2: others than root can "
                  f"change /run/dpdk/{name}, " in log, log)
        asked = len(good.questions())
        with Collectd(interval=0.2).start(before=before) as collectd:
            collectd.wait_for_reads(4)
        check(len(good.questions()) == asked, "there was no block")
        for fake in (sticky, foreign, elsewhere):
            check(not fake.questions(), "it was asked")


def test_doctor():
    """doctor says which programs are asked, and why others have no useful load"""
    need_root()
    core = online_cores()[-1]
    with RuntimeDir(), Fake("dpdk", core, 1) as good, \
            Fake("dpdk", core, 1, "empty") as empty, \
            Fake("dpdk", core, 1) as foreign, Fake("ovs", core, 1, "mute") as mute:
        os.chown(foreign.directory, 4242, 0)
        places = at_places(dpdk_good=good, dpdk_empty=empty,
                           dpdk_foreign=foreign, openvswitch=mute)
        done = subprocess.run([*places, PERCORE, "doctor", "--json"],
                              capture_output=True, text=True, check=False,
                              timeout=60)
        findings = {each["value"].split("/")[3].split(",")[0]: each for each
                    in json.loads(done.stdout)["findings"]
                    if each["group"] == "pollers"}
        say(str(findings))
        expected = {"good": (f"pid {good.pid}, user 0: its useful load is read",
                             None),
                    "empty": (f"pid {empty.pid}, user 0: it does not tell",
                              "rte_lcore_register_usage_cb"),
                    "foreign": ("others than root can change", "<Pollers>"),
                    "ovs-vswitchd.1.ctl": ("does not answer", None)}
        check(set(findings) == set(expected), str(findings))
        for name, (value, advice) in expected.items():
            check(value in findings[name]["value"], str(findings[name]))
            check((advice or "") in findings[name].get("advice", ""),
                  str(findings[name]))


run_all(globals())
