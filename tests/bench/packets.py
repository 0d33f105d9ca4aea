"""Compares the loads that collectd's cpu plugin and percore's sources "idle" and "bpf"
show for a core that receives packets in softirq. Needs root and two cores. The last
core receives the packets, and another core sends them."""

import json
import os
import subprocess
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "integration"))

from harness import (BUILD, Collectd, Skip, need_collectd,  # noqa: E402
                     online_cores)
from softirq import Network  # noqa: E402

RATES = (100_000, 300_000, 370_000)
SECONDS = 5
HEAD = "  packets/s  cpu plugin      idle       bpf"

CPU_PLUGIN = """<Plugin cpu>
  ValuesPercentage true
  ReportByCpu true
</Plugin>"""


def load_process(source, core):
    """Starts `percore load`, which prints the loads of one whole interval and exits.
    Returns the process."""
    return subprocess.Popen(
        [f"{BUILD}/percore", "load", "--source", source, "--cores", str(core),
         "--interval", str(SECONDS), "--count", "1", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def load_of(process, source):
    output, errors = process.communicate(timeout=3 * SECONDS + 20)
    core = json.loads(output.splitlines()[0])["cores"][0]
    if core["source"] != source:
        raise Skip(f"source {source} is not available here: {errors}")
    return 100 * core["load"]


def measure(network, rate, core):
    """Returns the packet rate that was reached, and the load in percent according to
    each method."""
    with network.flood(rate, 3 * SECONDS) as flood, \
            Collectd(percore=None, plugins=["cpu"], extra=CPU_PLUGIN) as daemon:
        daemon.start()
        sources = [(source, load_process(source, core))
                   for source in ("idle", "bpf")]
        loads = [load_of(process, source) for source, process in sources]
        daemon.stop()
        idle = [value.value for value in
                daemon.of(f"cpu-{core}/percent-idle")][1:]
        reached = float(flood.communicate(timeout=60)[0])
    return reached, 100 - sum(idle) / len(idle), *loads


def main():
    need_collectd()
    core = online_cores()[-1]
    if core == online_cores()[0]:
        raise Skip("there is one core only")
    print(HEAD)
    with Network(core) as network:
        for rate in RATES:
            reached, *loads = measure(network, rate, core)
            print(f"{reached:11.0f}  " +
                  "".join(f"{load:8.1f} %" for load in loads), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Skip as reason:
        print(f"packets: {reason}", file=sys.stderr)
        sys.exit(77)
