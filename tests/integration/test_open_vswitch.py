#!/usr/bin/python3
"""The useful load of a real Open vSwitch with DPDK, which collectd is told of in a line. Its
port is DPDK's net_null, which always has packets: while it is up, each round of the
switch's thread has work, and while it is down, none has. So the truth is the CPU time
that the thread has while the port is up. It takes two minutes, with
PERCORE_TEST_LONG=1."""

import bisect
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Child, Collectd, Skip, check, is_root,  # noqa: E402
                     online_cores, run_all, say, stop, wait_for)
from producers import RuntimeDir  # noqa: E402

LONG = os.environ.get("PERCORE_TEST_LONG") == "1"
SWITCH = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
PERCORE = f"{BUILD}/percore"
POINTS = 3
PERIOD_S = 5  # between two questions
LOOK_S = 30  # until a program is found
CORE = online_cores()[-1]
USEFUL = f"percore-{CORE}/percent-useful"


class Switch:
    """An Open vSwitch with a database of its own, one thread and one port."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="percore-ovs-")
        self.socket = f"unix:{self.directory}/db.sock"
        self.environment = {**os.environ, **dict.fromkeys(
            ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"),
            self.directory)}
        self.processes = []
        self.state = None  # of the port

    def run(self, *command):
        return subprocess.run(command, env=self.environment, check=True,
                              capture_output=True, text=True,
                              timeout=60).stdout

    def configure(self, *command):
        self.run("ovs-vsctl", f"--db={self.socket}", "--timeout=30", *command)

    def spawn(self, *command):
        self.processes.append(Child(command, env=self.environment,
                                    stderr=subprocess.DEVNULL))

    def start(self):
        """Starts the switch itself."""
        self.spawn(SWITCH, self.socket, "-vconsole:off",
                   f"--log-file={self.directory}/log")
        self.configure("--may-exist", "add-br", "br0", "--", "set", "bridge",
                       "br0", "datapath_type=netdev")
        self.configure("--may-exist", "add-port", "br0", "p0", "--", "set",
                       "Interface", "p0", "type=dpdk", "mtu_request=1500",
                       "options:dpdk-devargs=net_null0")
        wait_for(lambda: self.task() is not None, "no thread polls", 30)

    def __enter__(self):
        database = f"{self.directory}/conf.db"
        self.run("ovsdb-tool", "create", database, SCHEMA)
        self.spawn("ovsdb-server", database, "-vconsole:off",
                   f"--remote=p{self.socket}")
        wait_for(lambda: os.path.exists(f"{self.directory}/db.sock"),
                 "no database")
        self.configure("--no-wait", "init")
        self.configure(
            "--no-wait", "set", "Open_vSwitch", ".",
            "other_config:dpdk-init=true",
            f"other_config:pmd-cpu-mask={1 << CORE:#x}",
            "other_config:dpdk-lcore-mask=0x1",
            "other_config:dpdk-extra=--no-huge --legacy-mem --no-pci -m 1024 "
            f"--file-prefix percore{os.getpid()}")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.directory)
        shutil.rmtree(f"/run/dpdk/percore{os.getpid()}", ignore_errors=True)

    @property
    def process(self):
        return self.processes[-1]

    def task(self):
        """Returns the folder of the thread that polls."""
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm", encoding="ascii") as file:
                if file.read().startswith("pmd-"):
                    return f"{tasks}/{task}"
        return None

    def cpu_s(self):
        with open(f"{self.task()}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9

    def tell(self, *words):
        [control] = glob.glob(f"{self.directory}/*.{self.process.pid}.ctl")
        return self.run("ovs-appctl", "-t", control, *words)

    def option(self):
        """Returns the block of collectd.conf."""
        return f'<Pollers>\nSocket "{self.directory}/ovs-*.ctl"\n</Pollers>'

    def bring(self, state):
        self.tell("netdev-dpdk/set-admin-state", "p0", state)
        self.state = state

    def work(self, share, seconds):
        """The port is up for a share of each half of the time between questions.
        Returns times, and how many seconds of CPU time the thread had had until then
        while the port was up."""
        times, had_s, had = [], 0.0, []
        cpu_s = self.cpu_s()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            for part, state in ((share, "up"), (1 - share, "down")):
                if part == 0:
                    continue
                if state != self.state:
                    self.bring(state)
                    cpu_s = self.cpu_s()
                until = min(begin + part * PERIOD_S / 2, end)
                while time.monotonic() < until:
                    time.sleep(0.02)
                    now_s = self.cpu_s()
                    had_s += now_s - cpu_s if state == "up" else 0
                    cpu_s = now_s
                    times.append(time.time())
                    had.append(had_s)
                begin = until
        return times, had


def need_switch():
    if not LONG:
        raise Skip("takes two minutes: PERCORE_TEST_LONG=1 runs it")
    if not os.path.exists(SWITCH):
        raise Skip("apt-get install openvswitch-switch-dpdk")
    if not is_root() or len(online_cores()) < 2:
        raise Skip("Open vSwitch needs root, and a core for polling")


def until(times, had, end):
    return had[min(bisect.bisect(times, end), len(had) - 1)]


def try_share(switch, collectd, share, what):
    """Checks the useful load while the switch works for a share of the time."""
    switch.work(share, 2 * PERIOD_S)  # what was before is forgotten
    known = len(collectd.of(USEFUL))
    times, had = switch.work(share, 3 * PERIOD_S)
    # A value is of the second that ended half a second before it. That of the first two
    # may have begun before the work.
    values = collectd.of(USEFUL)[known + 2:]
    begin, end = values[0].time - 1.5, values[-1].time - 0.5
    truth = 100 * (until(times, had, end) - until(times, had, begin)) / (
        end - begin)
    values = [each.value for each in values]
    got = sum(values) / len(values)
    say(f"{what}: useful {got:.1f}, CPU time while the port was up {truth:.1f}")
    check(abs(got - truth) < POINTS, f"{values}")
    check(all(0 <= value <= 100 for value in values), str(values))


def test_useful():
    """the useful load of Open vSwitch is the CPU time in which it had packets, within 3
    points: none, all, a part, and all beside another program on its core"""
    need_switch()
    with RuntimeDir(), Switch() as switch, \
            Collectd(switch.option(), interval=1).start() as collectd:
        collectd.wait_for_value(USEFUL, seconds=LOOK_S + 2 * PERIOD_S)
        try_share(switch, collectd, 0, "no packets")
        try_share(switch, collectd, 1, "always packets")
        try_share(switch, collectd, 0.4, "packets for 40 % of the time")
        with Child(["taskset", "-c", str(CORE), "sh", "-c",
                    "while :; do :; done"]):
            try_share(switch, collectd, 1, "always packets, and a busy loop")
            shown = subprocess.run([PERCORE, "top", "pollers", "-n", "1"],
                                   capture_output=True, text=True, check=True)
        say(shown.stdout.replace("\n", "\n# "))
        check(f"/{CORE}" in shown.stdout, shown.stdout)


def test_changes():
    """cleared counters, a switch that stops and one that starts again make no value that
    is too large, and no other value late; a switch that starts again is found"""
    need_switch()
    with RuntimeDir(), Switch() as switch, \
            Collectd(switch.option(), interval=1).start() as collectd:
        collectd.wait_for_value(USEFUL, seconds=LOOK_S + 2 * PERIOD_S)
        switch.work(0.1, 2 * PERIOD_S)
        begin = len(collectd.of(USEFUL))
        for _ in range(3):
            switch.tell("dpif-netdev/pmd-stats-clear")
            switch.work(0.1, PERIOD_S / 2)
        stop(switch.process)
        time.sleep(PERIOD_S)
        switch.process.send_signal(signal.SIGCONT)
        switch.work(0.1, PERIOD_S)
        switch.process.kill()
        switch.process.wait()
        switch.start()
        switch.bring("down")
        ended = len(collectd.of(USEFUL))
        collectd.wait_for_value(USEFUL, count=ended + 2,
                                seconds=LOOK_S + 3 * PERIOD_S)
        values = collectd.of(USEFUL)
        say(str([round(each.value) for each in values]))
        check(max(each.value for each in values[begin:]) < 25, str(values))
        collectd.check_gaps(collectd.of(f"percore-{CORE}/percent-load"), 2)
        check("stuck" not in collectd.log(), collectd.log())


run_all(globals())
