"""Loads in softirq for the tests: a timer that spins for a known time, and a flood of
packets."""

import os
import subprocess
import threading
import time

from harness import (BUILD, CPUACCT, Child, Skip, check, is_root,
                     online_cores, task_time_ns)

PORT = 9999
ADDRESS = "10.98.0.2"


class SoftirqBurner:
    """Runs softirq_burner, whose timer spins for `spin_us` in each period, and reads
    the log that the burner prints."""

    def __init__(self, core, period_us, spin_us):
        program = f"{BUILD}/tests/integration/softirq_burner"
        if not os.path.exists(program):
            raise Skip("the softirq burner was not built (--disable-bpf)")
        if not is_root():
            raise Skip("the softirq burner needs root")
        self.process = Child([program, str(core), str(period_us), str(spin_us)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        self.core = core
        # Each entry: the time of time.monotonic(), the seconds spent in softirq so far,
        # the seconds used by tasks on the core, and how often the timer has fired.
        self.log = []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            now_ns, spun_ns, fires = map(int, line.split())
            tasks_ns = task_time_ns()[self.core] if CPUACCT else 0
            self.log.append((now_ns / 1e9, spun_ns / 1e9, tasks_ns / 1e9,
                             fires))

    def __enter__(self):
        end = time.monotonic() + 10
        while len(self.log) < 2:
            if self.process.poll() is not None:
                raise Skip("this kernel does not run the softirq burner: "
                           f"{self.process.stderr.read().strip()}")
            check(time.monotonic() < end, "the softirq burner prints nothing")
            time.sleep(0.05)
        return self

    def __exit__(self, *error):
        self.process.__exit__(*error)
        self.thread.join()

    def at(self, when):
        """Returns the seconds spent in softirq, the seconds used by tasks, and how
        often the timer fired, up to the time `when` of time.monotonic()."""
        while self.log[-1][0] < when:
            time.sleep(0.05)
        before = max(entry for entry in self.log if entry[0] <= when)
        after = min(entry for entry in self.log if entry[0] >= when)
        part = (when - before[0]) / max(after[0] - before[0], 1e-9)
        return [a + part * (b - a) for a, b in zip(before[1:], after[1:])]

    def between(self, begin, end):
        """Returns how much each value returned by at() grew from `begin` to `end`."""
        return [b - a for a, b in zip(self.at(begin), self.at(end))]


def ip(*words, namespace=None):
    inside = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *inside, *words], check=True, capture_output=True,
                   text=True)


class Network:
    """Two network namespaces connected by a veth pair. Packets that arrive in the
    second namespace are handled in softirq on the core `core`."""

    def __init__(self, core):
        self.core = core
        self.names = [f"percore-{end}-{os.getpid()}" for end in "ab"]
        self.receiver = None

    def __enter__(self):
        if not is_root():
            raise Skip("network namespaces need root")
        try:
            self.set_up()
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            raise Skip("no network namespaces here: "
                       f"{getattr(error, 'stderr', error)}") from error
        return self

    def set_up(self):
        for name in self.names:
            ip("netns", "add", name)
        a, b = self.names
        ip("link", "add", "veth0", "netns", a, "type", "veth", "peer", "name",
           "veth0", "netns", b)
        ip("addr", "add", "10.98.0.1/24", "dev", "veth0", namespace=a)
        ip("addr", "add", f"{ADDRESS}/24", "dev", "veth0", namespace=b)
        for name in self.names:
            ip("link", "set", "veth0", "up", namespace=name)
        self.inside(b, "sh", "-c", f"echo {1 << self.core:x} > "
                    "/sys/class/net/veth0/queues/rx-0/rps_cpus").check_returncode()
        self.receiver = subprocess.Popen(
            ["ip", "netns", "exec", b, "/usr/bin/python3", "-c",
             "import socket, time\n"
             "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
             "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)\n"
             f"s.bind(('{ADDRESS}', {PORT}))\n"
             "time.sleep(3600)\n"])

    def inside(self, name, *command):
        return subprocess.run(["ip", "netns", "exec", name, *command],
                              capture_output=True, text=True, check=False)

    def flood(self, packets_per_s, seconds):
        """Starts a process on another core. The process sends packets, and finally
        prints how many it sent per second."""
        sender = min(set(online_cores()) - {self.core})
        return Child(["ip", "netns", "exec", self.names[0], "taskset", "-c",
                      str(sender), f"{BUILD}/tests/integration/udp_flood", ADDRESS,
                      str(PORT), str(packets_per_s), str(seconds)],
                     stdout=subprocess.PIPE, text=True)

    def __exit__(self, *_):
        if self.receiver is not None:
            self.receiver.kill()
            self.receiver.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False,
                           capture_output=True)
