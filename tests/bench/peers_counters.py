"""The price of an update, beside what other libraries for counters ask. MMV, rte_metrics and
LTTng-UST have no rows that a program could find at once, so random rows are without them."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time

import peers_svg

HERE = os.path.dirname(os.path.abspath(__file__))
# For each macro of peers.cc: the tool, a header, libraries and Debian's packages.
PEERS = {
    "MMV": ("PCP MMV", "pcp/pmapi.h", "-lpcp_mmv -lpcp", "libpcp-mmv1-dev"),
    "DPDK": ("DPDK rte_metrics", "rte_config.h", "-lrte_metrics -lrte_eal", "libdpdk-dev"),
    "LTTNG": ("LTTng-UST", "lttng/tracepoint.h", "-llttng-ust -ldl", "liblttng-ust-dev"),
    "URCU": ("userspace-rcu", "urcu.h", "-lurcu", "liburcu-dev"),
    "PROMETHEUS": ("prometheus-cpp", "prometheus/counter.h", "-lprometheus-cpp-core",
                   "prometheus-cpp-dev"),
    "RSEQ": ("rseq", "sys/rseq.h", "", "libc6-dev (2.35)"),
}
PACKAGES = [peer[3] for peer in PEERS.values() if "(" not in peer[3]] + ["lttng-tools"]
MISSING = ["OpenTelemetry C++: Debian has no package of it"]
MODES = {"tight": "tight loop", "work": "1000 cycles of other work",
         "rows": "random row of a million", "prefetch": "random row of a million, prefetched"}
WORKERS = range(1, min(2, os.cpu_count()) + 1)
PLAIN, OURS, LTTNG = "plain array", "percore PER_CORE", "LTTng-UST event"
NOTES = {
    "PCP MMV": "adds without a lock",
    "DPDK rte_metrics": "one lock; has no add, so the value of the last worker stays",
    LTTNG: "an event with four values, by 4; lost is what the session discarded",
    "userspace-rcu section": "has no counters: a read section around a plain array",
    "prometheus-cpp Counter": "without labels",
}


def built(build, folder):
    """Compiles peers.cc with every peer that is installed. Returns the program."""
    flags = ["-std=gnu++20", "-O2", "-falign-loops=64", "-D_GNU_SOURCE", f"-I{HERE}/../../src",
             f"-I{build}", f"-I{HERE}"]
    flags += subprocess.run(["pkg-config", "--cflags-only-I", "libdpdk"], text=True,
                            capture_output=True, check=False).stdout.split()
    compiler, libraries, found = os.environ.get("CXX", "c++").split(), [], []
    for macro, (tool, header, links, package) in PEERS.items():
        there = subprocess.run(
            [*compiler, *flags, "-x", "c++", "-", "-o", f"{folder}/try", *links.split()],
            input=f"#include <{header}>\nint main() {{}}\n", text=True, capture_output=True,
            check=False).returncode == 0
        if macro == "LTTNG" and shutil.which("lttng-sessiond") is None:
            there, package = False, f"{package} and lttng-tools"
        if macro == "RSEQ" and os.uname().machine != "x86_64":
            there, package = False, "x86-64"
        if not there:
            MISSING.append(f"{tool}: needs {package}")
            continue
        found.append(f"-DHAVE_{macro}")
        libraries += links.split()
    program = f"{folder}/peers"
    subprocess.run([*compiler, *flags, *found, f"{HERE}/peers.cc", "-o", program,
                    f"-L{build}/.libs", f"-Wl,-rpath,{build}/.libs", "-lpercore", *libraries,
                    "-pthread"], check=True)
    return program


def lttng(*words, **options):
    return subprocess.run(["lttng", *words], capture_output=True, text=True, check=False,
                          **options)


class Session:
    """An LTTng session that writes the events of the program to a folder."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="percore-lttng-")
        self.name = os.path.basename(self.folder)
        self.daemon = None
        if lttng("list").returncode != 0:
            self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"],
                                           stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
            for _ in range(50):
                if lttng("list").returncode == 0:
                    break
                time.sleep(0.1)
        for words in (("create", self.name, f"--output={self.folder}"),
                      ("enable-channel", "--userspace", "--session", self.name,
                       "--subbuf-size=1M", "--num-subbuf=8", "all"),
                      ("enable-event", "--userspace", "--session", self.name,
                       "--channel=all", "peers:packet"), ("start", self.name)):
            done = lttng(*words)
            if done.returncode != 0:
                raise OSError(f"lttng {words[0]}: {done.stderr.strip()}")
        return self

    def discarded(self):
        lttng("stop", self.name)
        return sum(map(int, re.findall(r"Discarded events: (\d+)",
                                       lttng("list", self.name).stdout)))

    def __exit__(self, *_):
        lttng("destroy", self.name)
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def program(build):
    """Yields a function that runs a mode and returns figures: of each way and figure."""
    with tempfile.TemporaryDirectory(prefix="percore-peers-") as folder:
        path = built(build, folder)
        os.makedirs(f"{folder}/mmv")
        environment = {**os.environ, "PERCORE_RUNTIME_DIR": folder, "PCP_TMP_DIR": folder,
                       "LTTNG_UST_REGISTER_TIMEOUT": "5000"}

        def run(mode, workers, seconds):
            traced = mode in ("tight", "work") and shutil.which("lttng-sessiond")
            with Session() if traced else contextlib.nullcontext() as session:
                text = subprocess.run(
                    [path, mode, str(workers), str(seconds)], env=environment, check=True,
                    stdout=subprocess.PIPE, text=True, timeout=seconds + 120).stdout
                discarded = session.discarded() if traced else 0
            figures = {}
            for line in text.splitlines():
                way, figure, *numbers = line.split("\t")
                figures[way, figure] = tuple(map(float, numbers))
                if figure == "not prepared" and f"{way}: cannot be started" not in MISSING:
                    MISSING.append(f"{way}: cannot be started")
            if (LTTNG, "counted") in figures:
                lost = 100 * discarded / figures.pop((LTTNG, "counted"))[0]
                figures[LTTNG, "lost"] = (lost, lost, lost, 1)
            return figures
        yield run


def record(what, who, unit, numbers, note=""):
    median, low, high, n = numbers
    return {"what": what, "who": who, "unit": unit, "median": round(median, 3),
            "low": round(low, 3), "high": round(high, 3), "n": int(n),
            **({"note": note} if note else {})}


def measure(build, seconds):
    with program(build) as run:
        for mode, words in MODES.items():
            for workers in WORKERS:
                figures = run(mode, workers, seconds / 8 - (3 if "row" in words else 0))
                suffix = f", {workers} worker{'s' * (workers > 1)}"
                for (way, figure), numbers in figures.items():
                    if figure == "ns":
                        yield record(words + suffix, way, "ns", numbers,
                                     f"{figures[way, 'cycles'][0]:.1f} cycles")
                    elif figure == "ratio" and way != PLAIN:
                        yield record(f"{words}{suffix}, by a plain array", way, "times",
                                     numbers)
                    elif figure == "lost" and mode == "tight":
                        yield record(f"counts lost{suffix}", way, "%",
                                     (*(numbers[0],) * 3, 1), NOTES.get(way, ""))


def claims(records):
    """Yields sentences, and whether they are true."""
    ratios = {(each["what"], each["who"]): each for each in records if each["unit"] == "times"}
    for (what, who), each in ratios.items():
        if who == OURS:
            yield f"{what}: {who} costs {each['median']:.2f}", each["low"] <= 1.02
        elif not who.startswith("percore"):
            yield (f"{what}: {who} costs {each['median']:.1f}, more than {OURS}",
                   each["low"] > ratios[what, OURS]["high"])
    for each in records:
        if each["unit"] == "%" and each["who"].startswith("percore"):
            yield f"{each['what']}: {each['who']} none", each["median"] == 0


def picture(records):
    panels = {}
    for each in records:
        if each["unit"] == "ns" or each["median"] > 0 and each["unit"] == "%":
            panels.setdefault(each["what"], []).append(each)
    return peers_svg.bars([(f"{what} ({rows[0]['unit']})", rows)
                           for what, rows in panels.items()])
