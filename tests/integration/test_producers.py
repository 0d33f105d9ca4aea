#!/usr/bin/python3
"""The example fast paths of contrib/producers: percore shows their counts, and DPDK and
the sender confirm the counts."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Skip, check, is_root,  # noqa: E402
                     online_cores, run_tests, say, wait_for)

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PERCORE = f"{BUILD}/percore"
PRODUCERS = f"{BUILD}/contrib/producers"
TIMEOUT = 60


class Example:
    """A running example with a temporary runtime directory."""

    def __init__(self, *command, before=()):
        self.directory = tempfile.mkdtemp(prefix="percore-test-")
        self.environment = {**os.environ,
                            "PERCORE_RUNTIME_DIR": self.directory}
        # pylint: disable=consider-using-with
        self.errors = open(f"{self.directory}/stderr", "w+", encoding="utf8")
        self.process = subprocess.Popen(
            [*before, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True, env=self.environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def wait_for(self, start):
        """Waits for a line that begins with this text, and returns it."""
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        self.errors.seek(0)
        raise AssertionError(
            f"no line began with {start}: {self.errors.read()}")

    def percore(self, *arguments):
        done = subprocess.run([PERCORE, *arguments, "--json"],
                              capture_output=True, text=True, check=False,
                              timeout=TIMEOUT, env=self.environment)
        check(done.returncode == 0, f"{arguments}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def wait_until_alive(self):
        """Waits until percore regions shows a region as alive."""
        end = time.monotonic() + 20
        while not any(region["state"] == "alive" for region
                      in self.percore("regions")["regions"]):
            check(time.monotonic() < end, "the region did not appear")
            time.sleep(0.05)

    def wait_until_attached(self, region):
        """Waits until a thread has attached, which may take a while, and percore top
        shows its useful load."""
        end = time.monotonic() + 20
        while not any(worker["useful"] is not None for worker in self.percore(
                "top", region, "-t", "core", "-i", "0.1", "-n",
                "1")["workers"]):
            check(time.monotonic() < end, "no worker appeared")

    def rows(self, region, table):
        document = self.percore("top", region, "--totals")
        rows = next(t for t in document["tables"] if t["name"] == table)["rows"]
        return {row["row"]: row["values"] for row in rows}

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.stdin.close()
        check(self.process.wait(TIMEOUT) == 0, "it failed")


def need(name, reason):
    path = f"{PRODUCERS}/{name}"
    if not os.path.exists(path):
        raise Skip(reason)
    return path


# ---------------------------------------------------------------------------
# Threads


def test_pthread():
    """the pthread producer publishes a row for each port, with packets and bytes
    counted at the same moment, and a worker that sleeps more than it works"""
    path = need("pthread", "it was not built")
    core = online_cores()[-1]
    with Example(path, str(core)) as example:
        example.wait_until_alive()
        example.wait_until_attached("pthread")
        got = example.percore("top", "pthread", "-i", "1", "-n", "1")
        worker = got["workers"][0]
        check(len(got["workers"]) == 1 and worker["core"] == core
              and not worker["stuck"], str(got["workers"]))
        check(0 < worker["useful"] < worker["slept"] < 100, str(worker))
        rows = example.rows("pthread", "port")
        check(set(rows) == {"port0", "port1"}, str(rows))
        for row in rows.values():
            packets = row["rx_packets"]
            check(packets > 100, str(row))
            check(64 <= row["rx_bytes"] / packets < 1464, str(row))
            # A packet's time is counted just after the packet.
            check(0 <= packets - row["packet_time"]["count"] <= 1, str(row))
        example.process.send_signal(signal.SIGTERM)
        example.end()


def send(port, sizes):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for size in sizes:
            sender.sendto(bytes(size), ("127.0.0.1", port))


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_udp(region, *command):
    """Checks that a program that counts datagrams at a port counts all of them."""
    port, sizes = free_port(), range(1, 101)
    with Example(*command, str(port), str(len(sizes) + 1)) as example:
        example.wait_until_alive()
        wait_for(lambda: f"0100007F:{port:04X} " in read("/proc/net/udp"),
                 f"a socket at port {port}")
        send(port, sizes)
        expected = {"rx_packets": len(sizes), "rx_bytes": sum(sizes)}
        wait_for(lambda: example.rows(region, "port") == {str(port): expected},
                 f"{expected}")
        send(port, [0])
        example.end()


LIBRARY = f"{BUILD}/.libs"


def read(path):
    with open(path, encoding="utf8") as file:
        return file.read()


def need_library():
    if not os.path.exists(f"{LIBRARY}/libpercore.so"):
        raise Skip("the shared library was not built")
    os.environ["LD_LIBRARY_PATH"] = LIBRARY


def test_python():
    """a Python program counts every datagram without the library, by percore.py, which
    has at most 100 lines"""
    check_udp("udppy", sys.executable, f"{SOURCE}/contrib/producers/udp.py")
    lines = [line for line in read(f"{SOURCE}/contrib/producers/percore.py").splitlines()
             if line.strip()]
    check(len(lines) <= 100, f"percore.py has {len(lines)} lines")


def compile_example(directory, name, *options):
    """Compiles an example as its first lines say. Returns its path."""
    need_library()
    compiler = "g++" if name.endswith(".cc") else "gcc"
    if not shutil.which(compiler):
        raise Skip(f"there is no {compiler}")
    program = f"{directory}/{name.split('.')[0]}"
    done = subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/src", *options,
         f"{SOURCE}/contrib/producers/{name}", f"-L{LIBRARY}", "-lpercore", "-o", program],
        capture_output=True, text=True, check=False, timeout=TIMEOUT)
    check(done.returncode == 0, done.stderr)
    return program


def test_cxx():
    """a C++ program counts every datagram"""
    with tempfile.TemporaryDirectory(prefix="percore-test-") as directory:
        program = compile_example(directory, "udp.cc", "-std=c++17")
        port = free_port()
        with Example(program, str(port), "3") as example:
            example.wait_until_alive()
            wait_for(lambda: f"0100007F:{port:04X} " in read("/proc/net/udp"),
                     f"a socket at port {port}")
            send(port, (10, 20))
            wait_for(lambda: example.rows("udpcc", "port")[str(port)]["rx_packets"] == 2,
                     "2 packets")
            row = example.rows("udpcc", "port")[str(port)]
            check(row["rx_bytes"] == 30 and row["size"]["count"] == 2, str(row))
            send(port, [0])
            example.end()


def ask(port, count):
    """Sends datagrams of 100 and of 1000 bytes, waits for the answer to each, and returns
    how many there were."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.5)
        answered = 0
        while answered < count:
            client.sendto(bytes(1000 if answered % 2 else 100), ("127.0.0.1", port))
            try:
                client.recv(2000)
                answered += 1
            except socket.timeout:
                pass  # its worker was killed
        return answered


def test_prefork():
    """of a prefork server, no count of a worker that is killed or replaced is lost"""
    path, port = need("prefork", "it was not built"), free_port()
    with Example(path, str(port), "3") as example:
        example.wait_until_alive()
        answered = ask(port, 2000)
        workers = read(f"/proc/{example.process.pid}/task/{example.process.pid}/children")
        os.kill(int(workers.split()[0]), signal.SIGKILL)
        answered += ask(port, 2000)
        example.process.send_signal(signal.SIGHUP)
        answered += ask(port, 2000)
        rows = example.rows("prefork", "size")
        counted = sum(row["answered"] for row in rows.values())
        # A datagram may have been counted whose answer a killed worker did not send.
        check(answered <= counted <= answered + 4, f"{counted} for {answered}")
        check(rows["small"]["bytes"] == 100 * rows["small"]["answered"], str(rows))
        example.process.send_signal(signal.SIGTERM)
        example.end()


def test_module():
    """a module that its server reloads counts every request of every thread"""
    path = need("server", "it was not built")
    with tempfile.TemporaryDirectory(prefix="percore-test-") as directory:
        module = compile_example(directory, "module.c", "-fPIC", "-shared")
        with Example(path, module, "3") as example:
            example.wait_until_alive()
            for _ in range(3):
                before = example.rows("module", "request")
                example.process.send_signal(signal.SIGHUP)
                wait_for(lambda: example.rows("module", "request") != before,  # noqa: B023
                         "more requests after a reload")
            example.process.send_signal(signal.SIGTERM)
            served = int(example.wait_for("requests").split()[1])
            example.end()
            row = list(example.rows("module", "request").values())[0]
            check(row == {"requests": served, "bytes": 100 * served}, f"{row}, {served}")


def test_board():
    """a scheduler sees the loads of a board that a test has made"""
    path = need("board", "it was not built")
    with Example(path, "20", "0.1", ".87", ".20") as example:
        example.wait_until_alive()
        picked = subprocess.run([PERCORE, "pick", "--count", "2"], capture_output=True,
                                text=True, check=False, timeout=TIMEOUT,
                                env=example.environment)
        check(picked.stdout == "1,0\n", f"{picked.stdout}{picked.stderr}")


def test_rust():
    """a Rust program counts every datagram"""
    need_library()
    if not shutil.which("rustc"):
        raise Skip("there is no rustc")
    with tempfile.TemporaryDirectory(prefix="percore-test-") as directory:
        done = subprocess.run(
            ["rustc", "-O", f"{SOURCE}/contrib/producers/udp.rs", "-L", LIBRARY,
             "-l", "percore", "-o", f"{directory}/udp"],
            capture_output=True, text=True, check=False, timeout=TIMEOUT,
            env={**os.environ, "MAKEFLAGS": ""})  # those name descriptors of make
        check(done.returncode == 0 and done.stderr == "", done.stderr)
        check_udp("udprs", f"{directory}/udp")


def test_gateway():
    """the gateway of the demo uses at most half of a core, and its counts for ports and
    for tunnels agree"""
    path = need("gateway", "it was not built")
    with Example(path, str(online_cores()[-1])) as example:
        example.wait_until_alive()
        example.wait_until_attached("gateway")
        begin, before = time.monotonic(), example.cpu_seconds()
        got = example.percore("top", "gateway", "-i", "2.5", "-n", "1")
        used = example.cpu_seconds() - before
        taken = time.monotonic() - begin
        check(used < 0.55 * taken, f"{used} s of CPU time in {taken} s")
        worker = got["workers"][0]
        check(worker["useful"] > 0 and not worker["stuck"], str(worker))
        ports = example.rows("gateway", "port")
        tunnels = example.rows("gateway", "tunnel")
        check(set(ports) == {"eth0", "eth1"} and tunnels, f"{ports} {tunnels}")
        for row in ports.values():
            check(row["rx_packets"] > 100 and row["queued"] >= 0, str(row))
            # The packets of a batch are counted before their delays.
            check(0 <= row["rx_packets"] - row["delay"]["count"] <= 32,
                  str(row))
        through = sum(row["rx_packets"] for row in tunnels.values())
        came = sum(row["rx_packets"] for row in
                   example.rows("gateway", "port").values())
        check(0 < through <= came, f"{through} of {came} packets")
        example.process.send_signal(signal.SIGTERM)
        example.end()


def manual_examples():
    """Yields the arguments of each command line in percore(1) that is for the region of
    the pthread producer or for all regions."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(f"{here}/../../src/tool/percore.pod", encoding="utf8") as file:
        for line in file:
            words = line.replace("$ ", "").split("|")[0].split()
            if line.startswith(" ") and words[:1] == ["percore"] and (
                    "pthread" in words or words[1:] == ["regions"]):
                yield words[1:]


def test_manual():
    """the examples for regions in percore(1) work as printed"""
    path = need("pthread", "it was not built")
    examples = list(manual_examples())
    check({words[0] for words in examples}
          == {"regions", "top"}, str(examples))
    with Example(path, str(online_cores()[-1])) as example:
        example.wait_until_alive()
        for words in examples:
            if words[0] == "top" and "--count" not in words:
                words += ["--count", "1", "--interval", "0.2"]
            done = subprocess.run([PERCORE, *words], capture_output=True,
                                  text=True, check=False, timeout=TIMEOUT,
                                  env=example.environment)
            check(done.returncode == 0, f"{words}: {done.stderr}")
            check("pthread" in done.stdout, done.stdout)


# ---------------------------------------------------------------------------
# DPDK


def dpdk(seconds, rate):
    path = need("dpdk", "configure found no libdpdk-dev")
    cores = online_cores()
    if len(cores) < 2:
        raise Skip("DPDK needs two cores, one of them for polling")
    if not is_root():
        raise Skip("DPDK needs root to write its files")
    return Example(
        path, "-l", f"{cores[0]},{cores[1]}", "--no-huge", "-m", "64",
        "--no-pci", "--no-telemetry", f"--file-prefix=percore{os.getpid()}",
        "--vdev", "net_null0", "--vdev", "net_ring0", "--", "--hold",
        "--rate", str(rate), "--seconds", str(seconds))


def test_dpdk():
    """the DPDK producer counts exactly what DPDK counts, and percore top shows which
    share of the polling of its lcore is useful"""
    with dpdk(TIMEOUT, 100000) as example:
        example.wait_for("forwarding")
        example.wait_until_attached("dpdk")
        got = example.percore("top", "dpdk", "-i", "1.5", "-n", "1")
        example.process.send_signal(signal.SIGINT)
        counted = {}
        for _ in range(2):
            words = example.wait_for("counted").split()
            counted[words[1]] = {words[2]: int(words[3]),
                                 words[4]: int(words[5])}
        rows = example.rows("dpdk", "port")
        queues = example.rows("dpdk", "queue")
        example.end()
    check(queues == {f"port:{port}|queue:0": {"rx_packets": counts["rx_packets"]}
                     for port, counts in counted.items()}, str(queues))
    check(set(rows) == {"net_null0", "net_ring0"} == set(counted), str(rows))
    for port, counts in counted.items():
        for field, count in counts.items():
            check(rows[port][field] == count > 0,
                  f"{port} {field}: {rows[port][field]}, DPDK says {count}")
        values = rows[port]
        check(values["rx_bytes"] == 64 * values["rx_packets"], str(values))
        bursts = values["rx_burst"]["buckets"]
        check(sum(size * count for size, count in bursts)
              == values["rx_packets"], str(bursts))
    check(len(got["workers"]) == 1, str(got["workers"]))
    worker = got["workers"][0]
    say(f"useful {worker['useful']:.3f}, {worker['polls_per_s']:.3g} polls/s, "
        f"{worker['items_per_s']:.0f} items/s")
    check(worker["core"] == online_cores()[1], str(worker))
    check(0 < worker["useful"] < 99 and not worker["stuck"], str(worker))
    check(worker["polls_per_s"] > worker["items_per_s"] > 0, str(worker))


# ---------------------------------------------------------------------------
# Raw packets


class Cable:
    """Two network namespaces with a veth pair, a0 and b0. The pair has no addresses, so
    only this test sends packets."""

    def __init__(self):
        self.names = [f"percore{os.getpid()}{end}" for end in "ab"]

    def __enter__(self):
        try:
            for name in self.names:
                self.ip("netns", "add", name)
            self.ip("-n", self.names[0], "link", "add", "a0", "type", "veth",
                    "peer", "name", "b0", "netns", self.names[1])
            for name, link in zip(self.names, ("a0", "b0")):
                # Without addresses, the kernel sends no packets to find neighbours or
                # routers.
                self.ip("netns", "exec", name, "sh", "-c",
                        "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
                self.ip("-n", name, "link", "set", link, "up")
        except Exception as error:
            self.__exit__()
            raise Skip(f"network namespaces are unavailable: {error}") from error
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False,
                           capture_output=True)

    @staticmethod
    def ip(*arguments):
        done = subprocess.run(["ip", *arguments], capture_output=True,
                              text=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr}")

    def in_b(self):
        return ["ip", "netns", "exec", self.names[1]]

    def send(self, frames):
        """Sends frames from a0, in a process of its namespace. Sends at most as many
        frames at once as fit in the receiver's socket, because the socket might drop
        more."""
        check(len(frames) <= 100, f"{len(frames)} at once")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with open(f"/run/netns/{self.names[0]}", "rb") as namespace:
                    os_setns(namespace.fileno())
                with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
                    out.bind(("a0", 0))
                    for frame in frames:
                        out.send(frame)
                status = 0
            finally:
                os._exit(status)
        check(os.waitpid(pid, 0)[1] == 0, "the frames could not be sent")


def os_setns(descriptor):
    import ctypes  # Python 3.11 lacks os.setns
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def frame(kind, size):
    return b"\xff" * 6 + b"\x02" * 6 + kind.to_bytes(2, "big") + bytes(
        size - 14)


def test_packet():
    """the raw-packet producer counts every frame of a veth pair by protocol and size,
    and is asleep rather than stuck if no frames arrive"""
    path = need("packet", "it was not built")
    if not is_root() or shutil.which("ip") is None:
        raise Skip("needs root and ip(8) (apt-get install iproute2)")
    def count(rows):
        return sum(row["rx_packets"] for row in rows.values())

    sent = {"ipv4": [frame(0x0800, 60)] * 2000,
            "ipv6": [frame(0x86dd, 100)] * 300,
            "arp": [frame(0x0806, 60)] * 40,
            "other": [frame(0x88b5, 1000)] * 5}
    with Cable() as cable, Example(path, "b0", before=cable.in_b()) as example:
        example.wait_for("receiving")
        end = time.monotonic() + TIMEOUT
        total = 0
        for frames in sent.values():
            for first in range(0, len(frames), 100):
                cable.send(frames[first:first + 100])
                total += len(frames[first:first + 100])
                while count(rows := example.rows("packet@b0", "protocol")) \
                        < total and time.monotonic() < end:
                    time.sleep(0.01)
        for name, frames in sent.items():
            check(rows[name] == {"rx_packets": len(frames),
                                 "rx_bytes": sum(map(len, frames))},
                  f"{name}: {rows[name]}, sent {len(frames)}")
        row = example.rows("packet@b0", "interface")["b0"]
        check(row["rx_packets"] == row["size"]["count"] == total
              and row["rx_drops"] == 0, str(row))
        worker = example.percore("top", "packet@b0", "-i", "1.5", "-n",
                                 "1")["workers"][0]
        say(f"idle: useful {worker['useful']}, slept {worker['slept']}")
        check(not worker["stuck"] and worker["slept"] > 50, str(worker))
        example.process.send_signal(signal.SIGTERM)
        counted = example.wait_for("counted").split()
        check(int(counted[2]) == total, f"{counted}, sent {total}")
        example.end()


if __name__ == "__main__":
    run_tests(globals(), "example producers", PERCORE)
