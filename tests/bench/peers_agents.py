"""What agents cost that report how busy each core is. They run at the same time. Outputs are
not included: plugin bare discards collectd's values, a thread scrapes node_exporter, and
pmlogger fetches from pmcd. PERCORE_SO may name other builds of the plugin."""

import configparser
import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from bench import Daemon, Processes, loads, record, spread
from harness import Child, is_root, need_collectd, wait_for
from sysroot import SysRoot

MISSING = []
PLAYED = 256  # cores
START_S, BLOCKS, TRACE_S = 20, 3, 20  # the start, with the proof of loads, is not measured
PATH = f"{os.environ['PATH']}:/usr/sbin"

CPU = "<Plugin cpu>\nReportByCpu {}\nValuesPercentage true\n</Plugin>\n"
AGGREGATION = CPU.format("true") + """<Plugin aggregation>
<Aggregation>
Plugin "cpu"
Type "percent"
GroupBy "Host"
GroupBy "TypeInstance"
CalculateAverage true
CalculateMinimum true
CalculateMaximum true
CalculateStddev true
</Aggregation>
</Plugin>"""
COLLECTD = {  # plugins and their options
    "collectd without a plugin": ((), ""),
    "collectd load": (("load",), ""),
    "collectd cpu": (("cpu",), CPU.format("true")),
    "collectd cpu, ReportByCpu false": (("cpu",), CPU.format("false")),
    "collectd cpu + aggregation": (("cpu", "aggregation"), AGGREGATION)}

# netdata reads /proc/stat and /proc/loadavg, and nothing else. These are off.
NETDATA_PLUGINS = """timex idlejitter tc diskspace cgroups statsd apps slabinfo perf nfacct ebpf
go.d python.d charts.d"""
NETDATA_FILES = """/proc/net/dev /proc/pagetypeinfo /proc/uptime /run/reboot_required
/proc/sys/kernel/random/entropy_avail /proc/pressure /proc/interrupts /proc/softirqs
/proc/vmstat /proc/meminfo /sys/kernel/mm/ksm /sys/block/zram /sys/devices/system/edac/mc
/sys/devices/system/node /proc/net/wireless /proc/net/sockstat /proc/net/sockstat6
/proc/net/netstat /proc/net/snmp /proc/net/snmp6 /proc/net/sctp/snmp /proc/net/softnet_stat
/proc/net/ip_vs/stats /sys/class/infiniband /proc/net/stat/conntrack /proc/net/stat/synproxy
/proc/diskstats /proc/mdstat /proc/net/rpc/nfsd /proc/net/rpc/nfs
/proc/spl/kstat/zfs/arcstats /proc/spl/kstat/zfs/pool/state /sys/fs/btrfs ipc
/sys/class/power_supply"""


def get(port, path):
    """Returns the lines of an answer over HTTP that are no comments."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return [line for line in answer.read().decode().splitlines() if line[0] != "#"]


class Server(Processes, contextlib.ExitStack):
    """An agent that answers on a port; what it needs ends with it."""

    needs = None  # a program
    before = ()  # a command that starts it

    def __init__(self, interval):
        super().__init__()
        self.interval = interval

    def __enter__(self):
        self.directory = self.enter_context(tempfile.TemporaryDirectory(
            prefix="percore-test-", ignore_cleanup_errors=True))
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        return self

    def run(self, *command, **environment):
        with open(f"{self.directory}/out", "ab") as out:
            process = self.enter_context(subprocess.Popen(
                [*self.before, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=self.directory, env={**os.environ, "PATH": PATH, **environment}))
        self.callback(process.terminate)
        return process

    def log(self):
        with open(f"{self.directory}/out", encoding="utf-8", errors="replace") as file:
            return file.read()

    def count(self):
        """numbers() needs no preparation."""


class NodeExporter(Server):
    needs = "prometheus-node-exporter"
    options = ()

    def start(self):
        self.process = self.run(self.needs, f"--web.listen-address=127.0.0.1:{self.port}",
                                *self.options)
        ended = threading.Event()
        self.callback(ended.set)
        threading.Thread(target=self.scrape, args=[ended], daemon=True).start()

    def scrape(self, ended):
        while not ended.wait(self.interval):
            with contextlib.suppress(OSError):  # it ends
                self.numbers()

    def numbers(self):
        return len(get(self.port, "/metrics"))


class NodeExporterCpu(NodeExporter):
    options = ("--collector.disable-defaults", "--collector.cpu", "--collector.loadavg",
               "--web.disable-exporter-metrics")


class Pcp(Server):
    needs = "/usr/lib/pcp/bin/pmcd"
    METRICS = ("kernel.percpu.cpu", "kernel.all.load")

    def start(self):
        for name, text in (
                ("pmcd.conf", "linux 60 pipe binary /var/lib/pcp/pmdas/linux/pmdalinux "
                 f"-l linux.log -U {getpass.getuser()}\n"),
                ("log.conf", f"log mandatory on {self.interval} sec "
                 f"{{ {' '.join(self.METRICS)} }}\n")):
            with open(f"{self.directory}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        place = {f"PCP_{name}_DIR": self.directory for name in ("RUN", "LOG", "TMP")}
        self.process = self.run(
            self.needs, "-f", "-A", "-c", "pmcd.conf", "-n", "/usr/lib/pcp/pmns/root_linux",
            "-p", str(self.port), "-i", "127.0.0.1", "-s", f"{self.directory}/socket", "-l",
            "pmcd.log", "-U", getpass.getuser(), **place)
        wait_for(lambda: os.path.exists(f"{self.directory}/socket") or
                 self.process.poll() is not None, "pmcd does not start")
        self.run("pmlogger", "-h", f"127.0.0.1:{self.port}", "-c", "log.conf",
                 "-l", "pmlogger.log", f"{self.directory}/archive", **place)

    def numbers(self):
        probed = subprocess.run(["pmprobe", "-h", f"127.0.0.1:{self.port}", *self.METRICS],
                                capture_output=True, text=True, check=True).stdout
        return sum(max(0, int(line.split()[1])) for line in probed.splitlines())


class Netdata(Server):
    needs = "netdata"

    def start(self):
        config = configparser.RawConfigParser()
        config.read_dict({
            "directories": dict.fromkeys(("config", "cache", "lib", "log"), self.directory),
            "db": {"mode": "ram", "update every": self.interval},
            "logs": {"debug": "none", "error": f"{self.directory}/out", "access": "none"},
            "health": {"enabled": "no"},
            "ml": {"enabled": "no"},
            "plugins": dict.fromkeys((*NETDATA_PLUGINS.split(), "netdata monitoring"), "no"),
            "plugin:proc": dict.fromkeys(NETDATA_FILES.split(), "no")})
        with open(f"{self.directory}/netdata.conf", "w", encoding="ascii") as file:
            config.write(file)
        self.process = self.run(self.needs, "-D", "-c", file.name, "-i", "127.0.0.1",
                                "-p", str(self.port), "-u", getpass.getuser())

    def numbers(self):
        return len(get(self.port, "/api/v1/allmetrics?format=prometheus&source=raw"))


SERVERS = {"node_exporter": NodeExporter, "node_exporter, cpu + loadavg": NodeExporterCpu,
           "pmcd, pmdalinux": Pcp, "netdata, cpu + loadavg": Netdata}


def installed(kind):
    return shutil.which(kind.needs, path=PATH) is not None


def agents(interval, root=None):
    """Returns the agents by name. root: the tree of files of a machine that is played."""
    options = "" if root is None else f'SysRoot "{root}"'
    found = {"percore in collectd": Daemon(options, interval)}
    for library in os.environ.get("PERCORE_SO", "").split():
        found[f"percore {library}"] = Daemon(options, interval)
        shutil.copy(library, f"{found[f'percore {library}'].directory}/plugins/percore.so")
    others = {name: Daemon(None, interval, *plugins) for name, plugins in COLLECTD.items()}
    for name, kind in SERVERS.items():
        if installed(kind) and (root is None or kind is not Pcp):  # pmdalinux is not misled
            others[name] = kind(interval)
    for each in others.values() if root is not None else ():
        each.before = ("unshare", "--mount", "sh", "-c",
                       f'mount --bind "{root}/proc/stat" /proc/stat; exec "$@"', "sh")
    return {**found, **others}


# ---------------------------------------------------------------------------
# Measuring


def memory_mib(each):
    """Returns the anonymous memory, which no other process shares."""
    kib = 0
    for pid in each.pids():
        with contextlib.suppress(ProcessLookupError), \
                open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:  # not of zombies
            kib += int(re.search(r"^Anonymous: *(\d+)", file.read(), re.M)[1])
    return kib / 1024


def calls(running):
    """Returns how many system calls agents make a second. Those of locks are left out: threads
    that strace delays wait for each other."""
    if not shutil.which("strace"):
        return {}
    with contextlib.ExitStack() as stack:
        traces = [stack.enter_context(Child(
            ["strace", "-fco", f"{each.directory}/calls",
             *(word for pid in each.pids() for word in ("-p", str(pid)))],
            stderr=subprocess.DEVNULL)) for each in running.values()]
        time.sleep(TRACE_S)
        for trace in traces:
            trace.terminate()
        for trace in traces:
            trace.wait()
    found = {}
    for key, each in running.items():
        with open(f"{each.directory}/calls", encoding="ascii") as file:
            rows = re.findall(r"^ *[\d.]+ +\S+ +\d+ +(\d+) .*?(\w+)$", file.read(), re.M)
        if rows:
            found[key] = [sum(int(count) for count, name in rows
                              if name not in ("futex", "total")) / TRACE_S]
        else:
            MISSING.append(f"{key[1]}: strace counts no system calls")
    return found


def start(stack, running):
    """Starts agents, and takes away those that do not start here."""
    for each in running.values():
        stack.enter_context(each).start()
        time.sleep(0.13)  # so that their reads do not coincide
    time.sleep(START_S)
    for key, each in list(running.items()):
        if each.process.poll() is not None:
            MISSING.append(f"{key[1]}: has ended: {each.log()[-200:].strip()}")
            del running[key]


def records(running, machine, block_s):
    """Runs agents at the same time: a dict by interval and name."""
    with contextlib.ExitStack() as stack:
        start(stack, running)
        for each in running.values():
            each.count()
        spent = {key: [1e6 * load for load in found]
                 for key, found in loads(running, BLOCKS, block_s).items()}
        numbers = {key: each.numbers() for key, each in running.items()}
        memory = {key: [memory_mib(each)] for key, each in running.items()}
        called = calls(running)
    for key in [key for key in running if not numbers[key] and key[1] not in COLLECTD]:
        MISSING.append(f"{key[1]}: delivers no number")
        del running[key]
    of_number = {key: [us * key[0] / numbers[key] for us in spent[key]]
                 for key in running if numbers[key] > 0}
    for interval in dict.fromkeys(interval for interval, _ in running):
        for what, unit, figures in (("processor time", "us a second", spent),
                                    ("processor time of a number", "us", of_number),
                                    ("anonymous memory", "MiB", memory),
                                    ("system calls", "a second", called)):
            for key in running:
                if key[0] == interval and key in figures:
                    yield record(f"{what}, {machine}, interval {interval} s", key[1], unit,
                                 spread(figures[key]), f"{numbers[key]:.0f} numbers an interval"
                                 if figures is spent else "")


class Played(SysRoot):
    """A machine whose /proc/stat may be mounted elsewhere, so that it is not replaced."""

    def run_clock(self):
        with open(f"{self.path}/proc/stat", "r+b", buffering=0) as file:
            while not self.ended.wait(0.25):
                idle_s = dict.fromkeys(range(PLAYED), time.monotonic() / 2)
                os.pwrite(file.fileno(), self.stat(idle_s).encode(), 0)


def measure(_build, _seconds):
    need_collectd()
    MISSING.extend(f"{name}: {kind.needs} is not installed"
                   for name, kind in SERVERS.items() if not installed(kind))
    if not shutil.which("strace"):
        MISSING.append("system calls: strace is not installed")
    yield from records({(interval, name): each for interval in (1, 10)
                        for name, each in agents(interval).items()},
                       f"{os.cpu_count()} cores", 20)
    if not is_root():
        MISSING.append(f"{PLAYED} played cores: other agents only see them as root")
        return
    MISSING.append(f"pmcd, pmdalinux, {PLAYED} played cores: it sees those of the host")
    with Played(PLAYED, nodes=2) as root:
        root.write_machine()
        root.write("/sys/kernel/uevent_seqnum", "1\n")
        root.start_clock()
        yield from records({(1, name): each for name, each in agents(1, root.path).items()},
                           f"{PLAYED} played cores", 6)
