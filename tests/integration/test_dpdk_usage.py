#!/usr/bin/python3
"""The DPDK producer tells in two ways how useful its lcore is: by percore_poll, and to
whoever asks DPDK's telemetry. collectd asks, and both must agree. This needs DPDK 24.11,
which contrib/debian/distributions has in a clean root:

  PERCORE_DPDK_ROOT   the root directory
  PERCORE_DPDK        the producer, in this root"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Child, Collectd, Skip, check,  # noqa: E402
                     least_of_tries, online_cores, run_all, say)
from producers import RuntimeDir  # noqa: E402

ROOT = os.environ.get("PERCORE_DPDK_ROOT", "/")
PROGRAM = os.environ.get("PERCORE_DPDK")
IN_ROOT = """mount -t proc proc "$1/proc"; mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"; exec chroot "$@" """
SECONDS = 10
POINTS = 1


class RootDir(RuntimeDir):
    """A runtime directory that programs in the other root see, too."""

    PLACE = os.path.join(ROOT, "tmp")


def useful(region):
    return subprocess.Popen([f"{BUILD}/percore", "top", region, "--json", "-i",
                             str(SECONDS), "-n", "1"],
                            stdout=subprocess.PIPE, text=True)


def compare(rate):
    """Returns how many points the two ways differ, if the lcore has packets at this
    rate."""
    core, prefix = online_cores()[-1], f"percore{os.getpid()}"
    sockets = os.path.join(ROOT, "run/dpdk", prefix)
    pollers = (f'<Pollers>\nSocket "{sockets}/dpdk_telemetry.v2"\n'
               "</Pollers>")
    with RootDir() as runtime, Child(
            # Its core is its own: which rounds other tasks interrupt, only
            # percore_poll knows.
            ["chrt", "--fifo", "1", "unshare", "--mount", "sh", "-ec", IN_ROOT,
             "sh", ROOT, "/usr/bin/env",
             f"PERCORE_RUNTIME_DIR={runtime.path[len(ROOT.rstrip('/')):]}",
             PROGRAM, "--lcores", f"1@{online_cores()[0]},7@{core}", "--no-huge",
             "-m", "64", "--no-pci", f"--file-prefix={prefix}", "--vdev",
             "net_null0", "--vdev", "net_ring0", "--", "--rate", str(rate)],
            stdout=subprocess.PIPE, text=True) as program, \
            Collectd(pollers, interval=1) as collectd:
        check("forwarding\n" in program.stdout, "the producer does not start")
        collectd.start()
        collectd.wait_for(lambda: runtime.files("pollers"), 30,
                          "an answer")
        both = [useful(region) for region in ("dpdk", "pollers")]
        shown = [each.communicate(timeout=60)[0] for each in both]
    check(all(shown), "percore top shows nothing")
    shown = [json.loads(each.splitlines()[-1]) for each in shown]
    workers = [[each["useful"] for each in one["workers"]] for one in shown]
    check(all(len(each) == 1 and each[0] is not None for each in workers),
          str(workers))
    counted, asked = (each[0] for each in workers)
    say(f"{rate:.0g} packets/s: percore_poll {counted:.2f} %, telemetry "
        f"{asked:.2f} %")
    return abs(counted - asked)


def test_two_ways():
    """what DPDK's telemetry tells of an lcore is what percore_poll counts, within a
    point"""
    if PROGRAM is None:
        raise Skip("needs DPDK 24.11: contrib/debian/distributions dpdk")
    for rate in (0, 1e5, 3e6, 1e12):
        off = least_of_tries(POINTS, lambda rate=rate: compare(rate))
        check(off < POINTS, f"{off} points apart at {rate:.0g} packets/s")


run_all(globals())
