"""Tests BPF maps of a real XDP program with the real collectd."""

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from command import PERCORE
from harness import Collectd, Skip, check, is_root, run_all, stop
from producers import RuntimeDir
from terminal import on_terminal

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
XDP = os.path.join(ROOT, "contrib", "producers", "xdp")
INTERVAL = 0.3
CLONE_NEWNET = 0x40000000
CLONE_NEWNS = 0x20000
FRAME = 100  # bytes


# ---------------------------------------------------------------------------
# A private network with an XDP program


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    check(result.returncode == 0, f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def need_tools(*tools):
    if not is_root():
        raise Skip("needs root, to load BPF programs")
    for tool in tools:
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is not installed")


class Link:
    """A veth pair: frames that are sent into out0 arrive at in0. Only this process sees
    the networks and mounts, which end with it."""

    def __init__(self, *tools):
        need_tools("ip", "mount", *tools)
        self.directory = tempfile.mkdtemp(prefix="percore-map-")
        self.bpffs = f"{self.directory}/bpf"
        os.mkdir(self.bpffs)
        run("mount", "-t", "bpf", "-o", "mode=0755", "bpf", self.bpffs)
        run("ip", "link", "add", "in0", "type", "veth", "peer", "name", "out0")
        for link in ("in0", "out0"):
            run("ip", "link", "set", link, "up")
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.bind(("out0", 0))

    def send(self, count, port):
        """Sends UDP frames from 10.0.0.1, port 1000, to 10.0.0.2."""
        length = FRAME - 14
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 0, 0, 64, 17, 0,
                         bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
        udp = struct.pack("!HHHH", 1000, port, length - 20, 0)
        frame = (b"\xff" * 6 + b"\x02" * 6 + b"\x08\x00" + ip + udp).ljust(
            FRAME, b"\0")
        for _ in range(count):
            self.socket.send(frame)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        run("ip", "link", "del", "in0")
        run("umount", self.bpffs)
        shutil.rmtree(self.directory)


class Gateway(Link):
    """The XDP program gateway.bpf.o, attached to a veth pair."""

    def __init__(self):
        super().__init__("clang", "bpftool")
        self.object = f"{self.directory}/gateway.bpf.o"
        self.pins = f"{self.bpffs}/gateway"
        machine = os.uname().machine
        run("clang", "-O2", "-g", "-target", "bpf",
            f"-I/usr/include/{machine}-linux-gnu", "-c",
            f"{XDP}/gateway.bpf.c", "-o", self.object)
        self.load()

    def load(self):
        run("env", f"GATEWAY_OBJECT={self.object}", f"{XDP}/load", "in0",
            self.pins)
        time.sleep(0.1)  # the kernel sends frames when the link comes up

    def unload(self):
        run(f"{XDP}/load", "--remove", "in0", self.pins)


def name(field, row, table="protocols"):
    return f"percore_host_gatewaymap_{table}_{field}-all/derive-{row}"


def growth(collectd, identifier):
    """Returns by how much a counter has grown since its first value."""
    points = collectd.of(identifier)
    return points[-1].value - points[0].value if points else 0


def wait_for_growth(collectd, identifier, packets):
    try:
        collectd.wait_for(
            lambda: growth(collectd, identifier) >= packets, 20, identifier)
        collectd.wait_for_reads(3)
    finally:
        got = growth(collectd, identifier)
    check(got == packets, f"{identifier} grew by {got}, not {packets}")


def options(gateway, *lines):
    return "\n".join([f'<Map "{gateway.pins}/*">', *lines,
                      "</Map>"])


# ---------------------------------------------------------------------------
# Tests


def test_packets_arrive_by_name():
    """The counts of an XDP program are reported, exact to the packet, under the names
    in the program's type information"""
    with RuntimeDir(), Gateway() as gateway, \
            Collectd(options(gateway, 'RowName "icmp" "tcp" "udp" "rest"'),
                     INTERVAL).start() as collectd:
        collectd.wait_for_value(name("rx_packets", "udp"))
        gateway.send(700, 80)
        gateway.send(300, 443)
        wait_for_growth(collectd, name("rx_packets", "udp"), 1000)
        wait_for_growth(collectd, name("rx_bytes", "udp"), 1000 * FRAME)
        for port, packets in ((80, 700), (443, 300)):
            wait_for_growth(
                collectd, name("packets", f"10.0.0.1-10.0.0.2-1000-{port}",
                               "flows"), packets)


def test_load_says_what_is_missing():
    """The loader of the XDP example says what is missing, and leaves no pins if it
    fails"""
    with Gateway() as gateway:
        def check_fails(text, *words, object_file=gateway.object):
            done = subprocess.run([f"{XDP}/load", *words], capture_output=True,
                                  text=True, check=False,
                                  env=os.environ | {"GATEWAY_OBJECT": object_file})
            check(done.returncode != 0 and text in done.stderr,
                  f"{words}: {done.returncode}, {done.stderr}")

        other = f"{gateway.bpffs}/other"
        check_fails(f"{gateway.pins} exists already; run load --remove in0 first",
                    "in0", gateway.pins)
        check_fails("there is no network interface in7", "in7", other)
        check_fails(f"-I/usr/include/{os.uname().machine}-linux-gnu", "in0", other,
                    object_file=f"{gateway.directory}/missing.o")
        check_fails(f"no BPF file system at {gateway.directory}; "
                    f"run mount -t bpf bpf {gateway.directory}",
                    "in0", f"{gateway.directory}/other")
        check_fails("", "in0", other)  # an XDP program is attached already
        check(not os.path.exists(other), "pins remain")
        check_fails("", "--remove", "in7", gateway.pins)
        check(not os.path.exists(gateway.pins), "pins remain after --remove")


def test_counts_survive_a_reload():
    """No packet is lost or counted twice when the XDP program is loaded again"""
    with RuntimeDir(), Gateway() as gateway, \
            Collectd(options(gateway, 'RowName "icmp" "tcp" "udp" "rest"'),
                     INTERVAL).start() as collectd:
        udp = name("rx_packets", "udp")
        collectd.wait_for_value(udp)
        gateway.send(500, 80)
        wait_for_growth(collectd, udp, 500)
        # Stop collectd, so that it finds more packets in the new maps than in the old.
        stop(collectd.process)
        gateway.unload()
        gateway.load()
        gateway.send(750, 80)
        collectd.process.send_signal(signal.SIGCONT)
        wait_for_growth(collectd, udp, 1250)
        wait_for_growth(
            collectd, name("packets", "10.0.0.1-10.0.0.2-1000-80", "flows"), 1250)


def test_counts_survive_a_lost_pin():
    """No packet is lost or counted twice while the pin of a map is missing"""
    with RuntimeDir(), Gateway() as gateway, \
            Collectd(options(gateway, 'RowName "icmp" "tcp" "udp" "rest"'),
                     INTERVAL).start() as collectd:
        udp = name("rx_packets", "udp")
        pin = f"{gateway.pins}/protocols"
        collectd.wait_for_value(udp)
        gateway.send(500, 80)
        wait_for_growth(collectd, udp, 500)
        number = json.loads(run("bpftool", "-j", "map", "show", "pinned",
                                pin))["id"]
        os.unlink(pin)
        collectd.wait_for_reads(4)
        gateway.send(70, 80)
        run("bpftool", "map", "pin", "id", str(number), pin)
        gateway.send(30, 80)
        wait_for_growth(collectd, udp, 600)


def test_counts_before_the_start_are_no_rate():
    """Packets that a map counted before collectd was started are not reported"""
    with RuntimeDir(), Gateway() as gateway:
        gateway.send(5000, 80)
        with Collectd(options(gateway, 'RowName "icmp" "tcp" "udp" "rest"'),
                      INTERVAL).start() as collectd:
            udp = name("rx_packets", "udp")
            collectd.wait_for_value(udp)
            gateway.send(100, 80)
            wait_for_growth(collectd, udp, 100)
            check(collectd.of(udp)[-1].value == 100,
                  f"it shows {collectd.of(udp)[-1].value}")


def test_without_rights_field_at_is_advised():
    """Without CAP_SYS_ADMIN, the log says what to do, and FieldAt does it"""
    weak = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    with RuntimeDir(), Gateway() as gateway:
        with Collectd(options(gateway), INTERVAL).start(weak) as collectd:
            collectd.wait_for(lambda: "or set FieldAt" in collectd.log(), 20,
                              "advice in the log")
        lines = options(gateway, 'FieldAt "rx_packets" 0 8').replace("/*", "/protocols")
        with Collectd(lines, INTERVAL).start(weak) as collectd:
            udp = name("rx_packets", "2")
            collectd.wait_for_value(udp)
            gateway.send(100, 80)
            wait_for_growth(collectd, udp, 100)


def test_entries_that_are_created_again_count_on():
    """If an entry of a hash map is deleted and created again, its counts continue"""
    with RuntimeDir(), Gateway() as gateway, \
            Collectd(options(gateway), INTERVAL).start() as collectd:
        collectd.wait_for_value(name("rx_packets", "2"))
        flow = name("packets", "10.0.0.1-10.0.0.2-1000-80", "flows")
        key = "10 0 0 1 10 0 0 2 0x03 0xe8 0 80".split()
        for packets in (900, 300, 20):
            gateway.send(packets, 80)
            collectd.wait_for_reads(4)
            run("bpftool", "map", "delete", "pinned", f"{gateway.pins}/flows",
                "key", *key)
            if packets == 20:
                collectd.wait_for_reads(4)
        gateway.send(5, 80)
        wait_for_growth(collectd, flow, 1225)


def test_a_map_that_cannot_be_read_is_said_once():
    """A path without a map, and a program where a map is expected, are each logged
    once, and other maps are read"""
    with RuntimeDir(), Gateway() as gateway:
        lines = options(gateway).replace("/*", "/protocols") + \
            f'\n<Map "{gateway.pins}/nothing">\n</Map>' + \
            f'\n<Map "{gateway.pins}/program">\n</Map>'
        with Collectd(lines, INTERVAL).start() as collectd:
            collectd.wait_for_value(name("rx_packets", "2"))
            collectd.wait_for_reads(5)
            for text in ("nothing: cannot open it: No such file or directory; it "
                         "is read as soon as it is pinned there",
                         "program: it is a BPF program or link, not a map"):
                check(collectd.log().count(text) == 1,
                      f"{text}: {collectd.log()}")


def test_what_is_missing_to_show_a_map_is_said():
    """If rights are missing, or a word is no map, percore top says what to do"""
    weak = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    with RuntimeDir(), Gateway() as gateway:
        absent = ("No such file or directory; 'percore regions --maps' lists the maps")
        for before, word, text in (
                (weak, f"{gateway.pins}/flows",
                 "type information: Operation not permitted; run as root "
                 "(CAP_SYS_ADMIN), or set FieldAt in collectd's configuration"),
                ([], "./protocols", absent), ([], "/sys/fs/bpf/none", absent),
                ([], "id:4294967295", absent)):
            done = subprocess.run([*before, PERCORE, "top", "--totals", word],
                                  capture_output=True, text=True, check=False)
            check(done.returncode == 1 and f"{text}\n" in done.stderr,
                  f"{word}: {done.returncode}, {done.stderr}")


def test_list_leaves_out_percores_own_maps():
    """percore regions --maps does not show the maps of percore's own BPF programs, unless
    --json is given"""
    with subprocess.Popen([PERCORE, "wake", "--method", "bpf-timer"],
                          stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as wake:
        try:
            deadline = time.monotonic() + 20
            while "wake_probes" not in run(PERCORE, "regions", "--maps", "--json"):
                check(time.monotonic() < deadline, "percore wake loads no programs")
                time.sleep(0.1)
            listed = run(PERCORE, "regions", "--maps")
            for own in ("wake_probes", "wake_timers"):
                check(f" {own} " not in listed, f"{own}: {listed}")
        finally:
            wake.terminate()


def test_totals_of_a_map():
    """percore top --totals shows what a map holds, whether options precede it or follow"""
    with RuntimeDir(), Gateway() as gateway:
        gateway.send(300, 80)
        pin = f"{gateway.pins}/flows"
        for words in (["--totals", "--json", pin], [pin, "--json", "--totals"]):
            tables = json.loads(run(PERCORE, "top", *words))["tables"]
            check([table["name"] for table in tables] == ["flows"], f"{tables}")
            packets = [row["values"]["packets"] for row in tables[0]["rows"]]
            check(packets == [300], f"{packets}")


def test_list_finds_maps_and_their_pins():
    """percore regions --maps shows the maps that can be read or, with --json, every map"""
    with RuntimeDir(), Gateway() as gateway:
        run("mount", "--bind", gateway.bpffs, "/sys/fs/bpf")
        try:
            run("bpftool", "map", "create", f"{gateway.bpffs}/queue", "type",
                "queue", "value", "4", "entries", "1", "name", "queue")
            pin = "/sys/fs/bpf/gateway/flows"
            maps = [line for line in run(PERCORE, "regions", "--maps").splitlines()
                    if line.endswith(f"  {pin}")]
            check(len(maps) == 1 and " lru_percpu_hash " in maps[0], f"{maps}")
            check("/sys/fs/bpf/queue" not in run(PERCORE, "regions", "--maps"),
                  "a queue is listed")
            found = {found.get("pin"): found for found in
                     json.loads(run(PERCORE, "regions", "--maps", "--json"))["maps"]}
            check(found[pin]["readable"] and found[pin]["has_types"] and
                  found[pin]["name"] == "flows", f"{found[pin]}")
            check(not found["/sys/fs/bpf/queue"]["readable"], f"{found}")
            os.rename(f"{gateway.pins}/flows", f"{gateway.pins}/\033[2J")
            text = run(PERCORE, "regions", "--maps") + run(PERCORE, "regions", "--maps", "--json")
            check("\033" not in text and text.count("gateway/") > 1, f"{text!r}")
        finally:
            run("umount", "/sys/fs/bpf")


def test_top_shows_a_map_as_a_table():
    """percore top shows only the rows of the map, with their names, and keeps each
    column in one place"""
    with RuntimeDir(), Gateway() as gateway:
        gateway.send(300, 80)
        gateway.send(20, 33434)
        output, status, _ = on_terminal(
            [PERCORE, "top", f"{gateway.pins}/flows", "--interval", "0.2"], 2)
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", output).splitlines()
        check(status == 0, f"exit {status}: {lines}")
        check(all(len(line) <= 80 for line in lines), f"too wide: {lines}")
        check("percore_poll" not in output, f"threads: {lines}")
        rows = [line for line in lines if line.startswith("10.0.0.1-10.0.0.2-1000-")]
        check(len(rows) > 1, f"no rows: {lines}")
        title = next(line for line in lines if line.startswith("row "))
        end = title.index("packets") + len("packets")
        for row in rows:
            check(row[end - 1].isdigit() and row[end:end + 1] in ("", " "),
                  f"'{row}' is not below '{title}'")


def test_a_third_partys_maps_are_read_by_name():
    """The drops that xdp-filter counts are reported by name, and the count is exact"""
    with RuntimeDir(), Link("xdp-filter") as link:
        # xdp-filter insists on this path, so a file system is mounted there for this
        # process only.
        run("mount", "--bind", link.bpffs, "/sys/fs/bpf")
        try:
            run("xdp-filter", "load", "-m", "skb", "in0")
            run("xdp-filter", "port", "-m", "dst", "-p", "udp", "80")
            lines = ('<Map "/sys/fs/bpf/xdp-filter/xdp_stats_map">\n'
                     'Table "actions"\n'
                     'RowName "aborted" "drop" "pass" "tx" "redirect"\n</Map>')
            with Collectd(lines, INTERVAL).start() as collectd:
                drops = "percore_host_xdpfiltermap_actions_packets-all/derive-drop"
                collectd.wait_for_value(drops)
                link.send(1000, 80)
                link.send(500, 81)
                wait_for_growth(collectd, drops, 1000)
        finally:
            run("umount", "/sys/fs/bpf")


def own_namespaces():
    """Gives this process its own networks and mounts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if is_root() and (libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 or
                      subprocess.run(["mount", "--make-rprivate", "/"],
                                     check=False).returncode != 0):
        print("Bail out: cannot make a network namespace")
        sys.exit(77)


if __name__ == "__main__":
    own_namespaces()
    run_all(globals())
