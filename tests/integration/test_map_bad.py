"""Tests BPF maps that are unusual, wrong or out of reach with the real collectd."""

import ctypes
import json
import os
import platform
import shutil
import struct
import subprocess
import tempfile

from harness import Collectd, Skip, check, run_all
from producers import Producer, RuntimeDir
from test_map import INTERVAL, need_tools, own_namespaces, run

VALUE = 'FieldAt "packets" 0 8'
TWO = f'{VALUE}\nFieldAt "bytes" 8 8'

BPF_OBJ_GET, BPF_MAP_UPDATE_BATCH = 7, 26


def bpf(command, attributes):
    number = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
    if number is None:
        raise Skip("the number of bpf(2) on this machine is unknown")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = libc.syscall(number, command, buffer, len(attributes))
    check(result >= 0, f"bpf: {os.strerror(ctypes.get_errno())}")
    return result


class Pins:
    """A separate BPF file system."""

    def __init__(self):
        need_tools("bpftool", "mount")
        self.directory = tempfile.mkdtemp(prefix="percore-map-")
        run("mount", "-t", "bpf", "-o", "mode=0755", "bpf", self.directory)

    def create(self, pin, kind="array", key=4, value=8, entries=4, more=()):
        run("bpftool", "map", "create", f"{self.directory}/{pin}", "type", kind,
            "key", str(key), "value", str(value), "entries", str(entries),
            "name", "test", *more)

    def load(self, source):
        """Compiles a program, and pins its maps with their type information."""
        need_tools("clang")
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/it.c", "w", encoding="ascii") as file:
                file.write(source)
            run("clang", "-O2", "-g", "-target", "bpf", "-c", f"{folder}/it.c",
                "-o", f"{folder}/it.o")
            run("bpftool", "prog", "load", f"{folder}/it.o", f"{self.directory}/prog",
                "pinmaps", self.directory)

    def update(self, pin, key, *numbers, size=4):
        """Writes 64-bit numbers."""
        run("bpftool", "map", "update", "pinned", f"{self.directory}/{pin}",
            "key", *map(str, key.to_bytes(size, "little")), "value",
            *(str(byte) for number in numbers
              for byte in number.to_bytes(8, "little")))

    def count(self, pin, keys, number):
        """Sets a 64-bit counter in each of the entries 0 to keys - 1."""
        path = ctypes.create_string_buffer(f"{self.directory}/{pin}".encode())
        fd = bpf(BPF_OBJ_GET, struct.pack("=QII", ctypes.addressof(path), 0, 0))
        all_keys = (ctypes.c_uint32 * keys)(*range(keys))
        values = (ctypes.c_uint64 * keys)(*[number] * keys)
        bpf(BPF_MAP_UPDATE_BATCH, struct.pack(
            "=QQQQIIQQ", 0, 0, ctypes.addressof(all_keys),
            ctypes.addressof(values), keys, fd, 0, 0))
        os.close(fd)

    def block(self, pin, *lines):
        return "\n".join([f'<Map "{self.directory}/{pin}">', 'Region "test"',
                          *lines, "</Map>"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        run("umount", self.directory)
        shutil.rmtree(self.directory)


def name(field, row, table):
    return f"percore_host_test_{table}_{field}-all/derive-{row}"


def started(*blocks):
    return Collectd("\n".join(blocks), INTERVAL).start()


def check_said(collectd, text, times=1):
    collectd.wait_for(lambda: text in collectd.log(), 20, f"'{text}'")
    collectd.wait_for_reads(4)
    check(collectd.log().count(text) == times,
          f"{text}: {collectd.log()}")


def test_an_array_may_grow_when_it_is_loaded_anew():
    """If a larger array is pinned at the same path, all of its entries receive rows"""
    with RuntimeDir(), Pins() as pins:
        pins.create("ports", entries=2)
        with started(pins.block("ports", VALUE)) as collectd:
            collectd.wait_for_value(name("packets", 1, "ports"))
            os.unlink(f"{pins.directory}/ports")
            pins.create("ports", entries=4)
            pins.update("ports", 3, 70)
            collectd.wait_for_value(name("packets", 3, "ports"))


def test_keys_whose_names_are_too_long_count_in_one_row():
    """Keys whose names are too long and begin alike count in one row, whose name ends
    with dots"""
    with RuntimeDir(), Pins() as pins:
        pins.create("flows", "hash", key=100, entries=10)
        with started(pins.block("flows", VALUE)) as collectd:
            for key in range(10):
                pins.update("flows", key << 720, 1, size=100)
            row = name("packets", "0" * 116 + "...", "flows")
            collectd.wait_for_value(row)
            rows = [name for name in collectd.series if "_flows_" in name]
            check(rows == [row], str(rows))


def test_a_pattern_that_matches_no_map_is_said():
    """A pattern that matches no map is logged once, and maps that appear later are
    read"""
    with RuntimeDir(), Pins() as pins:
        with started(pins.block("p*", VALUE)) as collectd:
            check_said(collectd, "p*: no map matches it")
            pins.create("ports")
            collectd.wait_for_value(name("packets", 0, "ports"))


def test_a_map_of_a_pattern_without_rights_is_said():
    """A map that matches a pattern but must not be read is logged once"""
    with RuntimeDir(), Pins() as pins:
        pins.create("ports")
        os.chmod(f"{pins.directory}/ports", 0o600)
        weak = ["setpriv", "--bounding-set=-dac_override,-dac_read_search",
                "--inh-caps=-dac_override,-dac_read_search"]
        os.chown(f"{pins.directory}/ports", 65534, 65534)
        with Collectd(pins.block("*", VALUE), INTERVAL).start(weak) as collectd:
            check_said(collectd, "ports: cannot open it: Permission denied")
            check(".debug" not in collectd.log(), collectd.log())
            os.chmod(f"{pins.directory}/ports", 0o644)
            collectd.wait_for_value(name("packets", 0, "ports"))


def test_a_name_that_no_field_has_is_said():
    """A name in Field or Gauge that is not a field of the map is logged"""
    for option in ("Field", "Gauge"):
        with RuntimeDir(), Pins() as pins:
            pins.create("ports", value=16)
            with started(pins.block("ports", TWO,
                                    f'{option} "packets" "octets"')) as collectd:
                check_said(collectd, f"it has no field octets; correct {option}")
    with RuntimeDir(), Pins() as pins:
        pins.create("ports", value=16)
        with started(pins.block("ports", TWO, 'Field "packets" "octets" "errors"',
                                'Gauge "size"')) as collectd:
            check_said(collectd, "it has no field octets; correct Field; it has no "
                       "field errors; correct Field; it has no field size; correct "
                       "Gauge")


def test_a_block_of_its_own_goes_before_a_pattern():
    """A map with its own <Map> block is read as the block specifies, whether a matching
    pattern precedes or follows the block"""
    with RuntimeDir(), Pins() as pins:
        for pin in ("flows", "ports"):
            pins.create(pin)
        with started(pins.block("*", VALUE),
                     pins.block("ports", 'FieldAt "octets" 0 8')) as collectd:
            collectd.wait_for_value(name("octets", 0, "ports"))
            collectd.wait_for_value(name("packets", 0, "flows"))


def test_what_is_not_a_map_is_said():
    """If a path does not lead to a map, one message says what is there, and other maps
    are read"""
    with RuntimeDir() as runtime, Pins() as pins:
        os.mkdir(f"{pins.directory}/folder")
        pins.create("ports")
        os.symlink("ports", f"{pins.directory}/alias")
        os.mkfifo(f"{runtime.path}/fifo")
        outside = f'<Map "{runtime.path}/fifo">\nRegion "test"\n{VALUE}\n</Map>'
        with started(outside, *(pins.block(pin, VALUE) for pin in
                                ("folder", "ports", "alias"))) as collectd:
            for table in ("ports", "alias"):
                collectd.wait_for_value(name("packets", 0, table))
            check_said(collectd, "fifo: it is not on a BPF file system")
            check_said(collectd, "folder: it is not a pinned map")


def test_unusual_maps_are_read_or_said():
    """Frozen maps and huge values are read; maps of maps are reported once"""
    with RuntimeDir(), Pins() as pins:
        pins.create("frozen")
        run("bpftool", "map", "freeze", "pinned", f"{pins.directory}/frozen")
        pins.create("huge", value=1000000, entries=2)
        pins.create("wide", "percpu_array", value=30000)
        pins.create("maps", "array_of_maps", value=4,
                    more=["inner_map", "pinned", f"{pins.directory}/frozen"])
        with started(*(pins.block(pin, f'FieldAt "packets" {offset} 8')
                       for pin, offset in
                       (("frozen", 0), ("huge", 999992), ("wide", 29992),
                        ("maps", 0)))) as collectd:
            for table in ("frozen", "huge", "wide"):
                collectd.wait_for_value(name("packets", 1, table))
            check_said(collectd, "maps: maps of type 12 cannot be read")


def test_routes_are_named_by_their_prefixes():
    """Each entry of an LPM_TRIE is reported under its prefix"""
    with RuntimeDir(), Pins() as pins:
        pins.create("routes", "lpm_trie", key=8, more=["flags", "1"])
        prefix = 8 | int.from_bytes(bytes([10, 0, 0, 0]), "little") << 32
        pins.update("routes", prefix, 5, size=8)
        with started(pins.block("routes", VALUE)) as collectd:
            packets = name("packets", "10.0.0.0_8", "routes")
            collectd.wait_for_value(packets)
            pins.update("routes", prefix, 12, size=8)
            collectd.wait_for(lambda: collectd.of(packets)[-1].value == 7, 20,
                              f"7 packets: {collectd.series.keys()}")


HISTOGRAM = """
struct hist { unsigned slots[8]; };
struct {
  int (*type)[1];
  int (*max_entries)[4];
  unsigned *key;
  struct hist *value;
} runs __attribute__((section(".maps"), used));
__attribute__((section("xdp"), used)) int pass(void *packet) { return 2; }
"""


def test_slots_of_powers_of_two_have_percentiles():
    """The slots of a struct hist, as BCC's tools count latencies, are reported as a
    histogram"""
    with RuntimeDir() as runtime, Pins() as pins:
        pins.load(HISTOGRAM)
        pins.update("runs", 1, 0, 0, 0, 0)
        with started(pins.block("runs")) as collectd:
            collectd.wait_for(lambda: runtime.files("test"), 20,
                              "a region")
            collectd.wait_for_reads(4)
            pins.update("runs", 1, 90, 10 << 32, 0, 0)  # slot 0: 90, slot 3: 10
            for percentile, middle in (("p50", 1), ("p99", 11.5)):
                series = f"percore_host_test_runs_slots-all/gauge-1_{percentile}"
                collectd.wait_for_value(series)
                found = collectd.of(series)[0].value
                check(found == middle, f"{percentile}: {found}")


def test_a_pin_may_become_any_other_map():
    """If another map of any type is pinned at the same path, all of its counts are
    reported, even if the path was a directory for a while"""
    with RuntimeDir(), Pins() as pins:
        pin = f"{pins.directory}/ports"
        pins.create("ports", "hash")
        pins.update("ports", 1, 7000)
        with started(pins.block("ports", VALUE)) as collectd:
            packets = name("packets", 1, "ports")
            collectd.wait_for_value(packets)
            total = 0
            for kind in ("array", "lru_hash", None, "hash", "percpu_hash", "array"):
                if os.path.isdir(pin):
                    os.rmdir(pin)
                else:
                    os.unlink(pin)
                if kind is None:
                    os.mkdir(pin)
                    check_said(collectd, "ports: it is not a pinned map")
                    continue
                pins.create("ports", kind)
                if kind == "percpu_hash":
                    collectd.wait_for_reads(4)
                    continue
                pins.update("ports", 1, 7)
                total += 7
                collectd.wait_for(
                    lambda: collectd.of(packets)[-1].value >= total, 20,
                    f"{total} packets in a map of type {kind}")
            collectd.wait_for_reads(3)
            check(collectd.of(packets)[-1].value == total,
                  f"{collectd.of(packets)[-1].value} packets, not {total}")


def test_a_large_map_is_counted_exactly_and_delays_no_other_region():
    """Every entry of a map of 200000 entries is counted, and another region still
    reports values every second"""
    entries, other = 200000, "percore_host_other_globals_rounds-all/derive-all"
    with RuntimeDir(), Pins() as pins, Producer("other"):
        pins.create("flows", "hash", entries=entries)
        pins.count("flows", entries, 1000)
        with Collectd(pins.block("flows", VALUE, f"MaxRows {entries}") +
                      '\n<Region "test">\n<Table "flows">\nTop 1 "packets"\n'
                      '</Table>\n</Region>\n<Region "other">\n</Region>',
                      1).start() as collectd:

            def total():
                return sum(collectd.of(each)[-1].value for each in collectd.series
                           if "_test_flows_packets" in each)

            collectd.wait_for_value(name("packets", "other", "flows"), count=2)
            for number in (1, 2, 3):
                pins.count("flows", entries, 1000 + number)
                collectd.wait_for(lambda: total() >= number * entries, 30,
                                  f"{number} packets in each entry")
                collectd.wait_for_reads(2)
                check(total() == number * entries, f"{total()}: {number}")
            # The first point of a series is stamped with the time since when it counts.
            collectd.check_gaps(collectd.of(other)[1:], 1.5)


def test_no_map_is_kept_alive():
    """A map whose program and pin are removed disappears from the kernel, although
    collectd has read it"""
    with RuntimeDir(), Pins() as pins:
        pins.create("ports")
        with started(pins.block("ports", VALUE)) as collectd:
            collectd.wait_for_value(name("packets", 0, "ports"))
            pin = f"{pins.directory}/ports"
            number = str(json.loads(run("bpftool", "-j", "map", "show", "pinned",
                                        pin))["id"])
            os.unlink(pin)
            collectd.wait_for(
                lambda: subprocess.run(["bpftool", "map", "show", "id", number],
                                       capture_output=True,
                                       check=False).returncode != 0,
                20, "the end of the map")


def test_what_is_missing_for_names_is_said():
    """A map without type information, and a machine without libbpf, are each reported
    once with advice, and FieldAt needs neither"""
    with RuntimeDir(), Pins() as pins:
        for pin in ("bare", "ports"):
            pins.create(pin)
        pins.load(HISTOGRAM)
        try:
            ctypes.CDLL("libbpf.so.1")
        except OSError:
            raise Skip("libbpf is not installed") from None
        with open("/proc/self/maps", encoding="ascii") as lines:
            file = next(line.split()[-1] for line in lines if "/libbpf.so" in line)
        run("mount", "--bind", "/dev/null", file)
        try:
            with started(pins.block("bare"),
                         pins.block("runs"),
                         pins.block("ports", VALUE)) as collectd:
                collectd.wait_for_value(name("packets", 0, "ports"))
                check_said(collectd, "bare: it was loaded without type information "
                                     "(BTF): compile its program with clang -g, or "
                                     "set FieldAt in collectd's configuration")
                check_said(collectd, "runs: cannot load libbpf.so.1: install "
                                     "libbpf1")
        finally:
            run("umount", file)


def test_wrong_options_are_refused():
    """Options that make no sense are refused with a line that says why"""
    pin = "/sys/fs/bpf/x/y"
    for block, text in (
            (f'<Map "{pin}">\nRowName "a\tb"\n</Map>', "without control"),
            (f'<Map "{pin}">\n{VALUE}\nFieldAt "packets" 8 8\n</Map>', "twice"),
            (f'<Map "{pin}">\n</Map>\n<Map "{pin}">\n</Map>', "twice"),
            (f'<Map "{pin}">\nMaxRows "5"\n</Map>', "MaxRows"),
            (f'<Map "{pin}">\nMaxRows 0\n</Map>', "MaxRows"),
            (f'<Map "{pin}">\nRegion "a b"\n</Map>', "Region"),
            (f'<Map "{pin}">\nFieldAt "x" 0 3\n</Map>', "1, 2, 4 or 8"),
            (f'<Map "{pin}">\nGauge "Packets"\n</Map>', "Gauge"),
            ('<Map "x/y">\n</Map>', "absolute"),
            ('<Map "/sys/*/y">\n</Map>', "last part"),
            ('<Map>\nMaxRows 5\n</Map>', "absolute")):
        collectd = Collectd(block, INTERVAL)
        status = collectd.run("-T")
        check(text in collectd.log() and status != 0,
              f"{block}: {status}, {collectd.log()}")


if __name__ == "__main__":
    own_namespaces()
    run_all(globals())
