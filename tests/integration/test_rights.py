"""Tests collectd with the rights and limits that the files for systemd in
contrib/collectd grant, and with a producer of another user. The group percore need not
exist on this machine: another group is used instead."""

import grp
import os
import re
import resource
import shutil

from harness import Collectd, Skip, check, is_root, run_all
from producers import PACKETS, PORT, Producer, RuntimeDir

CONTRIB = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../contrib/collectd")
DROP_IN = f"{CONTRIB}/collectd.service.d/percore.conf"
STRIPPED = f"{CONTRIB}/least-privilege.conf"
GROUP = grp.getgrgid(1)  # daemon
COLLECTD_USER, PRODUCER_USER = 64124, 64125  # of nobody
PACKETS_ETH0 = "percore_host_gtpu_port_packets-all/derive-eth0"
CAP_DAC_OVERRIDE, CAP_NET_RAW, CAP_PERFMON, CAP_BPF = 1, 13, 38, 39


class Place(RuntimeDir):
    """A runtime directory as tmpfiles.d creates it."""

    def __init__(self, mode=0o3770):
        self.mode = mode

    def __enter__(self):
        super().__enter__()
        os.chown(self.path, 0, GROUP.gr_gid)
        os.chmod(self.path, self.mode)
        return self


def settings(path):
    """Returns the [Service] section of a drop-in: a list of values for each key."""
    found = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            match = re.match(r"(\w+)=(.*)$", line)
            if match:
                found.setdefault(match[1], []).append(match[2])
    return found


def command_for(*paths, user=0):
    """Returns a command that runs collectd with the rights that systemd would grant
    with the drop-ins `paths`."""
    given = {}
    for path in paths:
        for key, values in settings(path).items():
            given.setdefault(key, []).extend(values)
    soft, hard = limits(given.pop("LimitNOFILE")[-1])
    command = ["prlimit", f"--nofile={soft}:{hard}",
               "setpriv", f"--reuid={user}", f"--regid={user}"]
    check(given.pop("SupplementaryGroups") == ["percore"],
          "the supplementary group is not percore")
    command.append(f"--groups={GROUP.gr_gid}")
    ambient = capabilities(given.pop("AmbientCapabilities"))
    command += [f"--inh-caps={ambient}", f"--ambient-caps={ambient}"]
    bounding = given.pop("CapabilityBoundingSet", None)
    if bounding is not None:
        command.append(f"--bounding-set=-all,{capabilities(bounding)}")
    if given.pop("NoNewPrivileges", None) is not None:
        command.append("--no-new-privs")
    check(given.pop("RequiresMountsFor", None) in (None, ["/run/percore"]), "another mount")
    check(not given, f"this test does not know {given}")
    return command


def limits(value):
    """Returns the soft and the hard limit on open descriptors. The hard limit is at
    most that of this process, because root in a container may be unable to raise it."""
    soft, hard = map(int, value.split(":"))
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if highest != resource.RLIM_INFINITY:
        hard = min(hard, highest)
    return soft, hard


def capabilities(lines):
    names = " ".join(lines).lower().replace("cap_", "").split()
    return ",".join(f"+{name}" for name in names)


def need():
    if not is_root():
        raise Skip("other users need root")
    for program in ("setpriv", "prlimit"):
        if shutil.which(program) is None:
            raise Skip(f"{program} is missing: apt-get install util-linux")


def own(collectd, user):
    for path, _, names in os.walk(collectd.directory):
        for name in [path] + [f"{path}/{name}" for name in names]:
            os.chown(name, user, user)


def capabilities_of(collectd, kind):
    with open(f"/proc/{collectd.process.pid}/status",
              encoding="ascii") as file:
        return int(re.search(rf"Cap{kind}:\s*(\w+)", file.read())[1], 16)


def has(capability_set, capability):
    return capability_set >> capability & 1 == 1


def check_values_arrive(before, user=0, look=lambda collectd: None):
    """Checks that collectd reports values from a producer of another user in the
    group."""
    need()
    with Place(), Producer("gtpu", user=PRODUCER_USER,
                           groups=[GROUP.gr_gid]) as producer:
        producer.do("core 0")
        row = producer.add_row(PORT, "eth0")
        with Collectd(interval=0.5) as collectd:
            own(collectd, user)
            collectd.start(before=before)
            collectd.wait_for_value("percore_host-self/gauge-regions")
            producer.do(f"add {PORT} {row} {PACKETS} 17 0")
            collectd.wait_for(
                lambda: any(value.value == 17 for value
                            in collectd.of(PACKETS_ETH0)),
                30, "the value that the producer counted")
            look(collectd)


# ---------------------------------------------------------------------------
# In the group


def test_drop_in():
    """With the drop-in for systemd, collectd keeps all capabilities of root, runs with
    the specified limit on open files, and reads the region of another user in the
    group"""
    def look(collectd):
        with open("/proc/self/status", encoding="ascii") as file:
            ours = int(re.search(r"CapBnd:\s*(\w+)", file.read())[1], 16)
        check(capabilities_of(collectd, "Bnd") == ours, "the bounding set differs")
        check(capabilities_of(collectd, "Eff") == ours, "the effective set differs")
        with open(f"/proc/{collectd.process.pid}/limits",
                  encoding="ascii") as file:
            limit = re.search(r"Max open files\s+(\d+)\s+(\d+)", file.read())
        check((int(limit[1]), int(limit[2]))
              == limits(settings(DROP_IN)["LimitNOFILE"][-1]), limit[0])
    check_values_arrive(command_for(DROP_IN), look=look)


def test_drop_in_without_root():
    """With the drop-in for systemd, a collectd without root receives only CAP_PERFMON
    and CAP_BPF, and reads the region of another user in the group"""
    def look(collectd):
        check(capabilities_of(collectd, "Eff") ==
              1 << CAP_PERFMON | 1 << CAP_BPF,
              f"{capabilities_of(collectd, 'Eff'):x}")
    check_values_arrive(command_for(DROP_IN, user=COLLECTD_USER),
                        COLLECTD_USER, look)


def test_stripped():
    """If least-privilege.conf removes root's other capabilities, membership in the
    group still lets collectd read the region"""
    def look(collectd):
        effective = capabilities_of(collectd, "Eff")
        check(has(effective, CAP_PERFMON), "CAP_PERFMON is missing")
        check(not has(effective, CAP_DAC_OVERRIDE), "root's capabilities are left")
        check(not has(capabilities_of(collectd, "Bnd"), CAP_NET_RAW),
              "the bounding set has not changed")
    check_values_arrive(command_for(DROP_IN, STRIPPED), look=look)


# ---------------------------------------------------------------------------
# Outside the group


def check_group_named(mode):
    need()
    with Place(mode), Producer("gtpu", user=PRODUCER_USER,
                               groups=[GROUP.gr_gid]), \
            Collectd(interval=0.5) as collectd:
        own(collectd, COLLECTD_USER)
        collectd.start(before=("setpriv", f"--reuid={COLLECTD_USER}",
                               f"--regid={COLLECTD_USER}", "--clear-groups"))
        named = f"not a member of group {GROUP.gr_name};"
        collectd.wait_for(lambda: named in collectd.log(), 30, named)
        collectd.wait_for_reads(3)
        check(collectd.log().count(named) == 1, collectd.log())


def test_outside_the_group():
    """A collectd that is not in the group of a region's file logs once which group it
    needs"""
    check_group_named(0o3775)


def test_outside_the_directory():
    """A collectd that cannot list the runtime directory, because it is not in the
    directory's group, logs once which group it needs"""
    check_group_named(0o2770)


if __name__ == "__main__":
    run_all(globals())
