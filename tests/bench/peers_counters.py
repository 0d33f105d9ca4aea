"""The price of an update, beside what other libraries for counters ask. MMV, rte_metrics and
LTTng-UST have no rows that a program could find at once, so random rows are without them."""

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile

from bench import HERE, record, spread
from harness import Skip, check, wait_for

# For each macro of peers.cc: the tool, a header, libraries and Debian's packages.
PEERS = {
    "MMV": ("PCP MMV", "pcp/pmapi.h", "-lpcp_mmv -lpcp", "libpcp-mmv1-dev"),
    "DPDK": ("DPDK rte_metrics", "rte_eal.h", "-lrte_metrics -lrte_eal", "libdpdk-dev"),
    "LTTNG": ("LTTng-UST", "lttng/tracepoint.h", "-llttng-ust -ldl", "liblttng-ust-dev"),
    "URCU": ("userspace-rcu", "urcu.h", "-lurcu", "liburcu-dev"),
    "PROMETHEUS": ("prometheus-cpp", "prometheus/counter.h", "-lprometheus-cpp-core",
                   "prometheus-cpp-dev"),
    "RSEQ": ("rseq", "sys/rseq.h", "", "libc6-dev (2.35)"),
}
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
    program = f"{folder}/peers"
    compiler = [*os.environ.get("CXX", "c++").split(), "-std=gnu++20", "-O2",
                "-falign-loops=64", "-D_GNU_SOURCE", f"-I{HERE}/../../src", f"-I{build}",
                f"-I{HERE}", "-o", program]
    compiler += subprocess.run(["pkg-config", "--cflags-only-I", "libdpdk"], text=True,
                               capture_output=True, check=False).stdout.split()
    if shutil.which(compiler[0]) is None:
        raise Skip(f"{compiler[0]} is not installed: apt-get install g++")
    libraries = []
    for macro, (tool, header, links, package) in PEERS.items():
        there = subprocess.run([*compiler, "-x", "c++", "-", *links.split()], text=True,
                               input=f"#include <{header}>\nint main() {{}}\n",
                               capture_output=True, check=False).returncode == 0
        if macro == "LTTNG" and shutil.which("lttng-sessiond") is None:
            there, package = False, f"{package} and lttng-tools"
        if macro == "RSEQ" and os.uname().machine != "x86_64":
            there, package = False, "x86-64"
        if there:
            compiler.append(f"-DHAVE_{macro}")
            libraries += links.split()
        else:
            MISSING.append(f"{tool}: needs {package}")
    subprocess.run([*compiler, f"{HERE}/peers.cc", f"-L{build}/.libs",
                    f"-Wl,-rpath,{build}/.libs", "-lpercore", *libraries, "-pthread"],
                   check=True)
    return program


def lttng(*words):
    return subprocess.run(["lttng", *words], capture_output=True, text=True, check=False)


@contextlib.contextmanager
def session():
    """An LTTng session that writes the events of a program to a folder. Yields a function that
    ends it, and returns how many were discarded."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(
            prefix="percore-lttng-", ignore_cleanup_errors=True))
        name = os.path.basename(folder)
        if lttng("list").returncode != 0:
            daemon = stack.enter_context(subprocess.Popen(
                ["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL))
            stack.callback(daemon.terminate)
            wait_for(lambda: lttng("list").returncode == 0, "lttng-sessiond does not start")
        stack.callback(lttng, "destroy", name)
        channel = ("--userspace", "--session", name)
        for words in (("create", name, f"--output={folder}"),
                      ("enable-channel", *channel, "--subbuf-size=1M", "--num-subbuf=8", "all"),
                      ("enable-event", *channel, "--channel=all", "peers:packet"),
                      ("start", name)):
            done = lttng(*words)
            check(done.returncode == 0, f"lttng {words[0]}: {done.stderr.strip()}")

        def discarded():
            lttng("stop", name)
            return sum(map(int, re.findall(r"Discarded events: (\d+)",
                                           lttng("list", name).stdout)))
        yield discarded


@contextlib.contextmanager
def program(build):
    """Yields a function that runs a mode and returns for each way and figure what spread()
    returns."""
    with tempfile.TemporaryDirectory(prefix="percore-peers-") as folder:
        path = built(build, folder)
        environment = {**os.environ, "PERCORE_RUNTIME_DIR": folder, "PCP_TMP_DIR": folder,
                       "LTTNG_UST_REGISTER_TIMEOUT": "5000"}
        os.makedirs(f"{folder}/mmv")

        def run(mode, workers, seconds):
            traced = mode in ("tight", "work") and shutil.which("lttng-sessiond")
            with session() if traced else contextlib.nullcontext() as discarded:
                text = subprocess.run(
                    [path, mode, str(workers), str(seconds)], env=environment, check=True,
                    stdout=subprocess.PIPE, text=True, timeout=seconds + 120).stdout
                lost = discarded() if traced else 0
            figures = {}
            for line in text.splitlines():
                way, figure, *numbers = line.split("\t")
                figures[way, figure] = tuple(map(float, numbers))
                if figure == "not prepared" and f"{way}: cannot be started" not in MISSING:
                    MISSING.append(f"{way}: cannot be started")
            if (LTTNG, "counted") in figures:
                figures[LTTNG, "lost"] = spread(
                    [100 * lost / figures.pop((LTTNG, "counted"))[0]])
            return figures
        yield run


def by(workers):
    return f"{workers} worker{'s' * (workers > 1)}"


def measure(build, seconds):
    with program(build) as run:
        for (mode, words), workers in itertools.product(MODES.items(), WORKERS):
            figures = run(mode, workers, seconds / 8 - (3 if "row" in words else 0))
            what = f"{words}, {by(workers)}"
            for (way, figure), numbers in figures.items():
                if figure == "ns":
                    yield record(what, way, "ns", numbers,
                                 f"{figures[way, 'cycles'][0]:.1f} cycles")
                elif figure == "ratio" and way != PLAIN:
                    yield record(f"{what}, by a plain array", way, "times", numbers)
                elif figure == "lost" and mode == "tight":
                    yield record(f"counts lost, {by(workers)}", way, "%", numbers,
                                 NOTES.get(way, ""))


def claims(records):
    ratios = {(each["what"], each["who"]): each for each in records if each["unit"] == "times"}
    for (what, who), each in ratios.items():
        if who == OURS:
            yield f"{what}: {who} costs {each['median']:.2f}", each["low"] <= 1.02
        elif not who.startswith("percore") and (what, OURS) in ratios:
            yield (f"{what}: {who} costs {each['median']:.1f}, more than {OURS}",
                   each["low"] > ratios[what, OURS]["high"])
    for each in records:
        if each["unit"] == "%" and each["who"].startswith("percore"):
            yield f"{each['what']}: {each['who']} none", each["median"] == 0
