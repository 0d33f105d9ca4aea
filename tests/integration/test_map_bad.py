"""BPF maps that are unusual, wrong or out of reach, in the real collectd."""

import os
import shutil
import tempfile

from harness import Collectd, check, run_all
from producers import RuntimeDir
from test_map import INTERVAL, growth, need_tools, own_namespaces, run

VALUE = 'FieldAt "packets" 0 8'
TWO = f'{VALUE}\nFieldAt "bytes" 8 8'


class Pins:
    """A separate BPF file system."""

    def __init__(self):
        need_tools("bpftool", "mount")
        self.directory = tempfile.mkdtemp(prefix="percore-map-")
        run("mount", "-t", "bpf", "-o", "mode=0755", "bpf", self.directory)

    def create(self, pin, kind="array", key=4, value=8, entries=4):
        run("bpftool", "map", "create", f"{self.directory}/{pin}", "type", kind,
            "key", str(key), "value", str(value), "entries", str(entries),
            "name", "test")

    def update(self, pin, key, *numbers, size=4):
        """Writes 64-bit numbers."""
        run("bpftool", "map", "update", "pinned", f"{self.directory}/{pin}",
            "key", *map(str, key.to_bytes(size, "little")), "value",
            *(str(byte) for number in numbers
              for byte in number.to_bytes(8, "little")))

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


def a_table_without_fields_leaves_the_others_alone():
    """A map whose only field decreases is left out, and the region of the other
    maps stays as it is"""
    with RuntimeDir() as runtime, Pins() as pins:
        for pin in ("falls", "counts"):
            pins.create(pin)
        with started(pins.block("falls", VALUE),
                     pins.block("counts", VALUE)) as collectd:
            collectd.wait_for_value(name("packets", 0, "falls"))
            for value in (1000, 999, 998, 997):
                pins.update("falls", 0, value)
                collectd.wait_for_reads(3)
            check_said(collectd, "field packets decreased, so it is not a counter")
            region = os.stat(runtime.socket("test")).st_ino
            collectd.wait_for_reads(4)
            check(os.stat(runtime.socket("test")).st_ino == region,
                  "the region was made anew")


def an_array_may_grow_when_it_is_loaded_anew():
    """Another array under the same pin has rows for all of its entries"""
    with RuntimeDir(), Pins() as pins:
        pins.create("ports", entries=2)
        with started(pins.block("ports", VALUE)) as collectd:
            collectd.wait_for_value(name("packets", 1, "ports"))
            os.unlink(f"{pins.directory}/ports")
            pins.create("ports", entries=4)
            pins.update("ports", 3, 70)
            collectd.wait_for_value(name("packets", 3, "ports"))


def names_that_are_too_long_are_said_once():
    """Keys whose names are too long are logged once, not one by one"""
    with RuntimeDir(), Pins() as pins:
        pins.create("flows", "hash", key=100, entries=10)
        for key in range(10):
            pins.update("flows", key, 1, size=100)
        with started(pins.block("flows", VALUE)) as collectd:
            check_said(collectd, "is too long to name a row")


def a_pattern_that_matches_no_map_is_said():
    """A pattern that matches no map is logged once, and maps that appear later are
    read"""
    with RuntimeDir(), Pins() as pins:
        with started(pins.block("p*", VALUE)) as collectd:
            check_said(collectd, "p*: no map matches it")
            pins.create("ports")
            collectd.wait_for_value(name("packets", 0, "ports"))


def a_map_of_a_pattern_without_rights_is_said():
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


def a_map_in_a_directory_of_everybody_is_not_read():
    """A pin that any user could replace is not read, and the log says so"""
    with RuntimeDir(), Pins() as pins:
        pins.create("ports")
        os.chmod(pins.directory, 0o777)
        with started(pins.block("*", VALUE)) as collectd:
            check_said(collectd, "ports: any user may write to its directory")


def a_name_that_no_field_has_is_said():
    """A name in Field or Gauge that the map does not have is logged"""
    for option in ("Field", "Gauge"):
        with RuntimeDir(), Pins() as pins:
            pins.create("ports", value=16)
            with started(pins.block("ports", TWO,
                                    f'{option} "packets" "octets"')) as collectd:
                check_said(collectd, f"it has no field octets; correct {option}")


def a_block_of_its_own_goes_before_a_pattern():
    """A map with its own block is read as the block says, whether a matching
    pattern is written before or after that block"""
    with RuntimeDir(), Pins() as pins:
        for pin in ("flows", "ports"):
            pins.create(pin)
        with started(pins.block("*", VALUE),
                     pins.block("ports", 'FieldAt "octets" 0 8')) as collectd:
            collectd.wait_for_value(name("octets", 0, "ports"))
            collectd.wait_for_value(name("packets", 0, "flows"))


def wrong_options_are_refused():
    """Options that make no sense are refused with a line that says why"""
    pin = "/sys/fs/bpf/x/y"
    for block, text in (
            (f'<Map "{pin}">\nRowName "a\tb"\n</Map>', "without control"),
            (f'<Map "{pin}">\n{VALUE}\nFieldAt "packets" 8 8\n</Map>', "twice"),
            (f'<Map "{pin}">\n</Map>\n<Map "{pin}">\n</Map>', "twice"),
            (f'<Map "{pin}">\nTop 5\n</Map>', "has no option Top"),
            (f'<Map "{pin}">\nMaxRows "5"\n</Map>', "MaxRows"),
            (f'<Map "{pin}">\nMaxRows 0\n</Map>', "MaxRows"),
            (f'<Map "{pin}">\nRegion "a b"\n</Map>', "Region"),
            (f'<Map "{pin}">\nBtf "gtpx.o"\n</Map>', "absolute"),
            (f'<Map "{pin}">\nFieldAt "x" 0 3\n</Map>', "1, 2, 4 or 8"),
            (f'<Map "{pin}">\nGauge "Packets"\n</Map>', "Gauge"),
            ('<Map "x/y">\n</Map>', "absolute"),
            ('<Map "/sys/*/y">\n</Map>', "last part"),
            ('<Map>\nMaxRows 5\n</Map>', "absolute")):
        collectd = Collectd(block, INTERVAL)
        status = collectd.run("-T")
        check(text in collectd.log() and status != 0,
              f"{block}: {status}, {collectd.log()}")


def main():
    own_namespaces()
    run_all([a_table_without_fields_leaves_the_others_alone,
             an_array_may_grow_when_it_is_loaded_anew,
             names_that_are_too_long_are_said_once,
             a_pattern_that_matches_no_map_is_said,
             a_map_of_a_pattern_without_rights_is_said,
             a_map_in_a_directory_of_everybody_is_not_read,
             a_name_that_no_field_has_is_said,
             a_block_of_its_own_goes_before_a_pattern,
             wrong_options_are_refused])


if __name__ == "__main__":
    main()
