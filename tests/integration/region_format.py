"""A producer of regions for the tests of percore regions. It is written only from
percore-region(7), like a producer in a language for which there is no library."""

import os
import re
import sys
import time

from producers import LOCK_TELLS, Published, new_file

REGION = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../../src/region")
with open(f"{REGION}/percore-region.pod", encoding="utf-8") as manual:
    PAGE = manual.read()
MAJOR = int(re.search(r"major version (\d)", PAGE).group(1))
RULES = re.findall(r"^ ([a-z-]+) ",
                   PAGE[PAGE.index("=head1 RULES\n"):
                        PAGE.index("=head1 RULES FOR")], re.MULTILINE)

PER_CORE, OWNED, SHARED = range(3)
COUNTER, UPDOWN, GAUGE, STATE, HISTOGRAM = range(5)
CONSISTENT, SINGLE = 1, 2
LIVE, GONE = 0x100000006, 0x10000000b  # incarnation 1
CORES, SLOTS = 2, 3
LINE = 64

# fields: name, unit, kind, other attributes
CORE = [(name, unit, COUNTER, {}) for name, unit in (
    ("total_cycles", "cycles"), ("busy_cycles", "cycles"),
    ("sleep_cycles", "cycles"), ("polls", "operations"),
    ("empty_polls", "operations"), ("items", "operations"),
    ("absent_cycles", "cycles"))]
TABLES = [
    # name, storage, flags, rows, row name size, key, fields
    ("core", PER_CORE, SINGLE, 1, 0, 0, CORE),
    ("worker", PER_CORE, SINGLE, 1, 0, 0,
     [("queue", "packets", GAUGE, {"aggregation": 2})]),
    ("port", PER_CORE, 0, 4, 24, 0,
     [("packets", "packets", COUNTER, {}), ("depth", "packets", UPDOWN, {}),
      ("latency", "ns", HISTOGRAM, {"sub_bits": 1, "max_bits": 4})]),
    ("session", OWNED, CONSISTENT, 3, 0, 2,
     [("packets", "packets", COUNTER, {}), ("bytes", "bytes", COUNTER, {})]),
    ("slow", SHARED, 0, 2, 56, 0,
     [("requests", "operations", COUNTER, {}),
      ("link", "1", STATE, {"states": ["down", "up"]})]),
]
CORE_TABLE, WORKER, PORT, SESSION, SLOW = range(len(TABLES))


def buckets(more):
    return (more["max_bits"] - more["sub_bits"] + 1) << more["sub_bits"]


def columns(field):
    return buckets(field[3]) if field[2] == HISTOGRAM else 1


class Region:
    """The bytes of a region and the offsets of its parts."""

    def __init__(self):
        self.build()

    def build(self, name="format", tables=None, size=1 << 16):
        """Rebuilds all bytes."""
        self.tables = tables or TABLES
        self.pool = bytearray(1)
        self.bytes = bytearray(size)
        self.next = 256
        self.write_directory(name)
        self.place_parts()
        self.begin()

    # Numbers

    def set(self, offset, value, size=8):
        self.bytes[offset:offset + size] = \
            (value & (1 << 8 * size) - 1).to_bytes(size, sys.byteorder)

    def get(self, offset, size=8):
        return int.from_bytes(self.bytes[offset:offset + size],
                              sys.byteorder)

    def string(self, text):
        if not text:
            return 0
        at = len(self.pool)
        self.pool += text.encode() + b"\0"
        return at

    def place(self, size):
        at = (self.next + LINE - 1) // LINE * LINE
        self.next = at + size
        return at

    # Records

    def table(self, number):
        return self.get(120) + 128 * number

    def field(self, table, number=0):
        first = self.get(self.table(table) + 16, 4)
        return self.get(136) + 64 * (first + number)

    def write_field(self, at, field):
        name, unit, kind, more = field
        states = [self.string(state) for state in more.get("states", [])]
        for offset, value in (
                (0, self.string(name)), (4, self.string(unit)), (12, kind),
                (16, more.get("aggregation", 0)),
                (28, more.get("sub_bits", 0)), (32, more.get("max_bits", 0)),
                (36, states[0] if states else 0), (40, len(states))):
            self.set(at + offset, value, 4)

    def write_table(self, number, first_field):
        name, storage, flags, rows, name_size, key, fields = \
            self.tables[number]
        cells = sum(map(columns, fields))
        stride = 8 * (cells + (flags & CONSISTENT))
        for place, value in enumerate((
                self.string(name), self.string("what it counts"), storage,
                flags, first_field, len(fields), cells, stride,
                rows + (flags & SINGLE == 0),  # with row 0
                name_size, key)):
            self.set(self.table(number) + 4 * place, value, 4)
        for offset, field in enumerate(fields):
            self.write_field(self.get(136) + 64 * (first_field + offset), field)

    def write_directory(self, name):
        fields = sum(len(table[6]) for table in self.tables)
        self.bytes[0:8] = b"PERCORE1"
        for offset, value in ((8, 0x01020304), (16, 256), (20, 128), (24, 64),
                              (28, 64), (64, os.getpid()), (68, 8),
                              (128, len(self.tables)), (132, fields),
                              (168, SLOTS), (172, CORES)):
            self.set(offset, value, 4)
        self.set(12, MAJOR, 2)
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            self.bytes[48:64] = bytes.fromhex(file.read().strip().replace("-", ""))
        self.set(216, os.stat("/proc/self/ns/pid").st_ino)
        self.set(232, LOCK_TELLS)
        self.set(72, 4096)
        self.set(80, time.time_ns())
        self.set(88, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        self.set(96, 10**9)
        self.set(112, self.string(name), 4)
        self.set(120, self.place(128 * len(self.tables)))
        self.set(136, self.place(64 * fields))
        first = 0
        for number, table in enumerate(self.tables):
            self.write_table(number, first)
            first += len(table[6])
        self.set(144, self.place(len(self.pool)))
        self.set(152, len(self.pool))
        at = self.get(144)
        self.bytes[at:at + len(self.pool)] = self.pool
        self.set(40, self.next)

    # Places

    def place_parts(self):
        self.set(160, self.place(64 * SLOTS))
        block = 128
        for number in range(len(self.tables)):
            at = self.table(number)
            rows, stride = self.get(at + 32, 4), self.get(at + 28, 4)
            cells = self.get(at + 24, 4)
            for offset, size in ((48, 64), (56, 8 * rows),
                                 (96, self.label_size(number) * rows),
                                 (64, 8 * cells * rows),
                                 (72, 8 * cells * rows),
                                 (80, stride * rows)):
                self.set(at + offset, self.place(size))
            if number == CORE_TABLE:
                self.set(at + 88, 64)
            elif self.get(at + 8, 4) == PER_CORE:
                self.set(at + 88, block)
                block += stride * rows
        block = (block + LINE - 1) // LINE * LINE
        self.set(184, block)
        self.set(176, self.place(block * SLOTS))
        self.set(32, self.place(0))
        del self.bytes[self.get(32):]

    # Live words

    def slot(self, number):
        return self.get(160) + 64 * number

    def block(self, number):
        return self.get(176) + self.get(184) * number

    def live(self, table):
        return self.get(self.table(table) + 48)

    def generation(self, table, row=0):
        return self.get(self.table(table) + 56) + 8 * row

    def base(self, offset, table, row, column):
        cells = self.get(self.table(table) + 24, 4)
        return self.get(self.table(table) + offset) + 8 * (row * cells + column)

    def birth(self, table, row=0, column=0):
        return self.base(64, table, row, column)

    def reset(self, table, row=0, column=0):
        return self.base(72, table, row, column)

    def label_size(self, table):
        return self.get(self.table(table) + 36, 4) or 8

    def label(self, table, row=0):
        at = self.table(table)
        return self.get(at + 96) + self.label_size(table) * row

    def single(self, table, row=0, column=0):
        at = self.table(table)
        first = self.get(at + 12, 4) & CONSISTENT
        return self.get(at + 80) + self.get(at + 28, 4) * row + \
            8 * (column + first)

    def cell(self, slot, table, row=0, column=0):
        at = self.table(table)
        return self.block(slot) + self.get(at + 88) + \
            self.get(at + 28, 4) * row + 8 * column

    def name(self, table, row, name):
        at, size = self.label(table, row), self.get(self.table(table) + 36, 4)
        self.bytes[at:at + size] = name.ljust(size, b"\0")

    def add_row(self, table, row):
        self.set(self.generation(table, row), LIVE)
        self.set(self.live(table), max(row + 1, self.get(self.live(table))))

    def take_slot(self, slot, core):
        at = self.slot(slot)
        for offset, value, size in ((0, LIVE, 8), (8, os.getpid(), 4),
                                    (12, core, 4),
                                    (16, self.get(88), 8)):
            self.set(at + offset, value, size)
        self.bytes[at + 24:at + 64] = b"worker".ljust(40, b"\0")

    def begin(self):
        """Adds the slots of two threads, on core 0 and on core 1. If the region
        contains the tables of TABLES, also adds rows and counts to them."""
        for slot in range(SLOTS):
            self.set(self.slot(slot) + 12, -1, 4)
        self.take_slot(0, 0)
        self.take_slot(2, 1)
        self.add_row(CORE_TABLE, 0)
        if len(self.tables) < len(TABLES):
            return
        self.add_row(WORKER, 0)
        for row, name in enumerate((b"eth0", "zoë".encode()), 1):
            self.name(PORT, row, name)
            self.add_row(PORT, row)
            self.set(self.cell(0, PORT, row), 40)
            self.set(self.cell(2, PORT, row), 2)
            self.set(self.birth(PORT, row), 10)
            self.set(self.reset(PORT, row), 40)
        for row in range(1, 4):
            self.set(self.label(SESSION, row), 0x0a000000 + row)
            self.add_row(SESSION, row)
            self.set(self.single(SESSION, row), 1000 * (row - 1))
        self.name(SLOW, 1, b"api")
        self.add_row(SLOW, 1)
        self.set(self.single(SLOW, 1, 1), 1)


class Served(Published):
    """A region with these bytes in a runtime directory, whose producer lives."""

    def __init__(self, place, name, content):
        super().__init__(new_file(place.path, name), content, trusted=True)

    def __exit__(self, *_):
        super().__exit__()
        os.unlink(self.path)
