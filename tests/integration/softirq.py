"""Loads in softirq: a timer of known length, and a flood of packets."""

import os
import subprocess
import threading
import time

from harness import BUILD, Child, Skip, check, is_root

PORT = 9999
ADDRESS = "10.98.0.2"


class SoftirqBurner:
    """A timer that spins for so long in each period, and logs it."""

    def __init__(self, core, period_us, spin_us):
        program = f"{BUILD}/tests/integration/softirq_burner"
        if not os.path.exists(program):
            raise Skip("the softirq burner was not built (--disable-bpf)")
        if not is_root():
            raise Skip("the softirq burner needs root")
        self.process = Child([program, str(core), str(period_us), str(spin_us)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        self.log = []  # (seconds, seconds of softirq, fires)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            now_ns, spun_ns, fires = map(int, line.split())
            self.log.append((now_ns / 1e9, spun_ns / 1e9, fires))

    def __enter__(self):
        end = time.monotonic() + 10
        while len(self.log) < 2:
            if self.process.poll() is not None:
                raise Skip("this kernel does not run the softirq burner: "
                           f"{self.process.stderr.read().strip()}")
            check(time.monotonic() < end, "the softirq burner says nothing")
            time.sleep(0.05)
        return self

    def __exit__(self, *error):
        self.process.__exit__(*error)
        self.thread.join()

    def at(self, when):
        """Seconds of softirq and fires until a time of time.monotonic()."""
        while self.log[-1][0] < when:
            time.sleep(0.05)
        before = max(entry for entry in self.log if entry[0] <= when)
        after = min(entry for entry in self.log if entry[0] >= when)
        if after[0] == before[0]:
            return before[1:]
        part = (when - before[0]) / (after[0] - before[0])
        return tuple(a + part * (b - a) for a, b in zip(before[1:], after[1:]))


def ip(*words, namespace=None):
    inside = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *inside, *words], check=True, capture_output=True,
                   text=True)


class Network:
    """Two network namespaces with a veth pair between them. What arrives in the
    second one is softirq on one core."""

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
        ip("link", "add", "a", "netns", a, "type", "veth", "peer", "name", "b",
           "netns", b)
        ip("addr", "add", "10.98.0.1/24", "dev", "a", namespace=a)
        ip("addr", "add", f"{ADDRESS}/24", "dev", "b", namespace=b)
        for name, device in zip(self.names, "ab"):
            ip("link", "set", device, "up", namespace=name)
        self.inside(b, "sh", "-c", f"echo {1 << self.core:x} > "
                    "/sys/class/net/b/queues/rx-0/rps_cpus").check_returncode()
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
        """A process that prints the rate it reached."""
        return Child(["ip", "netns", "exec", self.names[0],
                      f"{BUILD}/tests/integration/udp_flood", ADDRESS,
                      str(PORT), str(packets_per_s), str(seconds)],
                     stdout=subprocess.PIPE, text=True)

    def __exit__(self, *_):
        if self.receiver is not None:
            self.receiver.kill()
            self.receiver.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False,
                           capture_output=True)
