#!/usr/bin/python3
"""Publishes regions that are expensive to read, until it is killed:

    hostile_producer.py DIRECTORY MODEL NAME[,NAME...] [OPTION=NUMBER ...]

MODEL is a region of churn_producer in DIRECTORY. The new regions are
copies of MODEL in which `tables` OWNED tables replace the table of MODEL. Each of these
tables has `rows` live rows and `counters` counters. With overlap=1, all tables claim
the same memory; with overlap=0, each table has its own memory. Only one word in every
`touch` bytes of the cells is written; the rest of the cells is a hole in the file, and
touch=8 leaves no hole. With period=S, all producers restart every S milliseconds with
one counter more or less. Prints `ok` when the
regions are there."""

import array
import itertools
import os
import struct
import sys
import time

from producers import Published, RuntimeDir
from test_region_hostile import Region

PAGE = 4096
HEADER = 256
LIVE = 1 << 32 | 2  # the generation word of a live row with its first object


def aligned(size, unit=PAGE):
    return -(-size // unit) * unit


def changed(record, kind, numbers):
    """Returns a copy of the record in which each number is stored at its offset.
    kind: the type of the numbers, as in the module struct."""
    record = bytearray(record)
    for offset, number in numbers.items():
        struct.pack_into(f"={kind}", record, offset, number)
    return bytes(record)


class Model:
    """The records of a real region, as bytes."""

    def __init__(self, content):
        region = Region(content)
        self.region = region
        self.header = content[:HEADER]
        self.core, self.table = (
            content[region.table(n):region.table(n + 1)] for n in range(2))
        number = struct.unpack_from("=I", self.table, 16)[0]
        self.core_fields = [content[region.field(n):region.field(n + 1)]
                            for n in range(number)]
        self.counter = content[region.field(number):region.field(number + 1)]
        self.strings = content[region.get(144):
                               region.get(144) + region.get(152)]
        # Slots and rows of `core` begin on the page after the directory, and slot
        # blocks end the region.
        blocks = region.get(176)
        self.rest_at = aligned(region.directory_size)
        self.rest, self.blocks = content[self.rest_at:blocks], content[blocks:]


class Forgery:
    """A region in the format of percore-region(7), made from a model."""

    def __init__(self, model, name, tables=250, rows=20, counters=4, overlap=0):
        self.model, self.rows = model, rows
        self.cells_size = 8 * counters * rows
        self.strings = bytearray(model.strings)
        fields = list(model.core_fields)
        table_size = (tables + 1) * len(model.core)
        field_size = (len(fields) + tables * counters) * len(model.counter)
        names = [self.string(f"c{number}") for number in range(counters)]
        table_names = [self.string(f"t{number}") for number in range(tables)]
        header = changed(model.header, "I", {
            112: self.string(name), 128: tables + 1,
            132: len(fields) + tables * counters})
        self.directory_size = aligned(
            HEADER + table_size + field_size + len(self.strings), 8)
        self.rest_at = aligned(self.directory_size)
        # Offsets of live words, generations, labels, births and cells.
        self.parts = []
        self.size = aligned(self.rest_at + len(model.rest))
        for _ in range(1 if overlap else tables):
            self.parts.append(self.place())
        self.blocks = aligned(self.size)
        self.size = self.blocks + len(model.blocks)
        header = changed(header, "Q", {
            88: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            32: aligned(self.size), 40: self.directory_size,
            120: HEADER, 136: HEADER + table_size,
            144: HEADER + table_size + field_size, 152: len(self.strings),
            176: self.blocks, **self.moved(model.header, 160)})
        records = [changed(model.core, "Q", self.moved(
            model.core, 48, 56, 64, 72, 80, 96))]
        for number, table_name in enumerate(table_names):
            live, generations, labels, births, cells = self.parts[
                0 if overlap else number]
            record = changed(model.table, "I", {
                0: table_name, 16: len(fields), 20: counters, 24: counters,
                28: 8 * counters, 32: rows})
            records.append(changed(record, "Q", {
                48: live, 56: generations, 64: births, 72: 0, 80: cells, 88: 0,
                96: labels}))
            fields += [changed(model.counter, "I", {0: each, 20: column})
                       for column, each in enumerate(names)]
        self.directory = header + b"".join(records + fields) + self.strings

    def string(self, text):
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text) - 1

    def moved(self, record, *offsets):
        """Returns the new values of the words at these offsets in a record of the
        model. The words are offsets of parts of the model, which move because the new
        directory is larger."""
        return {at: struct.unpack_from("=Q", record, at)[0] + self.rest_at -
                self.model.rest_at for at in offsets}

    def place(self):
        """Reserves the memory of a table, and returns the offsets of its live word,
        generations, labels, births and cells. The cells include an extra row for
        updates without a row."""
        live = self.size
        generations = live + 64
        labels = generations + 8 * self.rows
        births = labels + 8 * self.rows
        cells = births + self.cells_size
        self.size = cells + self.cells_size + self.cells_size // self.rows
        return live, generations, labels, births, cells

    def publish(self, path, touch):
        """Publishes the region, and returns it."""
        published = Published(path, self.directory, aligned(self.size))
        fd = published.fd
        os.pwrite(fd, self.model.rest, self.rest_at)
        os.pwrite(fd, self.model.blocks, self.blocks)
        for live, generations, labels, _, cells in self.parts:
            os.pwrite(fd, struct.pack("=Q", self.rows), live)
            os.pwrite(fd, array.array("Q", [LIVE]) * self.rows, generations)
            os.pwrite(fd, array.array("Q", range(self.rows)), labels)
            if touch == 8:
                os.pwrite(fd, b"\1" * self.cells_size, cells)
                continue
            for at in range(0, self.cells_size, touch):
                os.pwrite(fd, struct.pack("=Q", at), cells + at)
        return published


def main(directory, model, names, *arguments):
    options = {name: int(number) for name, number in
               (argument.split("=") for argument in arguments)}
    touch = options.pop("touch", 8)
    period_ms = options.pop("period", 0)
    counters = options.pop("counters", 4)
    runtime = RuntimeDir()
    runtime.path = directory
    model = Model(runtime.content(model))
    for turn in itertools.count():
        published = []
        for name in names.split(","):
            forgery = Forgery(model, name, counters=counters + turn % 2, **options)
            published.append(forgery.publish(runtime.new_file(name), touch))
        if turn == 0:
            print("ok", flush=True)
        time.sleep(period_ms / 1000 if period_ms else 1e6)
        for region in published:
            os.unlink(region.path)
            region.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
