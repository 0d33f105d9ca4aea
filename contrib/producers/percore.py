"""percore: counts where collectd and `percore top` read, without libpercore.

    region = percore.Region("demo", "port", ("rx_packets", "rx_bytes"), max_rows=16)
    eth0 = region.row("eth0")  # a memoryview of 64-bit words, one for each field
    eth0[0] += 1

It writes the file of percore-region(7) with one table of counters. One thread at a time
may count in a row; rows stay. If the file cannot be made, region.error says why, and nobody
reads the rows. A child of os.fork keeps the region alive until it ends or calls exec."""

import fcntl
import mmap
import os
import struct
import time

CORE = ("total_cycles", "busy_cycles", "sleep_cycles", "polls", "empty_polls", "items")
NAME_SIZE = 56  # of a row
LIVE = 1 << 32 | 2
SETLK, GETLK = 37, 36  # F_OFD_SETLK, F_OFD_GETLK


def read(path):
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def lock(file, command, kind):  # of byte 0; returns the lock that is in the way
    return struct.unpack("hhqqi", fcntl.fcntl(
        file, command, struct.pack("hhqqi", kind, 0, 0, 1, 0)))[0]


class Region:
    def __init__(self, name, table, fields, max_rows):
        self.columns, self.max_rows = len(fields), max_rows
        self.numbers, self.error, self.pool = {}, "", bytearray(1)
        names = [self.string(text) for text in (name, "core", table)]
        self.records = b"".join(struct.pack("=16I", self.string(field), *[0] * 15)
                                for field in (*CORE, *fields))
        self.end = 512 + len(self.records)
        self.pool_at, self.directory = self.place(len(self.pool)), self.end
        self.slots = self.place(64)
        core, self.core_parts = self.table(0, names[1], len(CORE), 1, 8)
        own, self.parts = self.table(1, names[2], self.columns, max_rows + 1, NAME_SIZE)
        self.tables, self.block = core + own, self.place(128)
        self.size = -(-self.end // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            self.memory = self.create(name, names[0])
        except OSError as error:
            self.error, self.memory = str(error), mmap.mmap(-1, self.size)
        self.words = memoryview(self.memory).cast("Q")

    def string(self, text):
        self.pool.extend(text.encode() + b"\0")
        return len(self.pool) - len(text.encode()) - 1

    def place(self, size):
        self.end += -self.end % 64 + size
        return self.end - size

    def table(self, number, name, count, rows, label):
        """Row 0 of a table with several rows is never live."""
        live, states, labels, births, cells = map(
            self.place, (64, 8 * rows, label * rows, 8 * count * rows, 8 * count * rows))
        return struct.pack(
            "=12I10Q", name, 0, number, 2 * (1 - number), number * len(CORE), count, count,
            8 * count, rows, number * label, 0, 0, live, states, births, 0, cells,
            64 * (1 - number), labels, 0, 0, 0), (live, states, labels, cells)

    def create(self, name, name_at):
        folder = os.environ.get("PERCORE_RUNTIME_DIR", "/run/percore")
        file, stat = f"{name}.{os.urandom(8).hex()}", read("/proc/self/stat")
        hidden = f"{folder}/.{file}"
        fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
        try:
            os.posix_fallocate(fd, 0, self.size)  # fails here if there is no room
            memory = mmap.mmap(fd, self.size)  # has a copy of the descriptor, CLOEXEC
            memory.madvise(mmap.MADV_DONTFORK)
            lock(fd, SETLK, fcntl.F_WRLCK)
            with open(hidden, "rb") as again:  # does a reader see it?
                seen = lock(again, GETLK, fcntl.F_RDLCK) == fcntl.F_WRLCK
            boot = bytes.fromhex(read("/proc/sys/kernel/random/boot_id").replace("-", ""))
            memory[:512 + len(self.records)] = struct.pack(
                "=8sI2H4I2Q16siI5Q2IQ2I4Q2I10Q", b"PERCORE1", 0x01020304, 1, 0, 256, 128, 64,
                64, self.size, self.directory, boot, os.getpid(), 8, mmap.PAGESIZE,
                time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), 10**9, 0, name_at,
                0, 256, 2, len(CORE) + self.columns, 512, self.pool_at, len(self.pool),
                self.slots, 1, 1, self.block, 128, 0, 0, 0, os.stat("/proc/self/ns/pid").st_ino,
                int(stat.rpartition(")")[2].split()[19]), seen, 0, 0) + self.tables + self.records
            memory[self.pool_at:self.directory] = self.pool
            for at, value in zip(self.core_parts, (1, LIVE)):
                struct.pack_into("=Q", memory, at, value)
            os.rename(hidden, f"{folder}/{file}")
        finally:
            os.close(fd)
        return memory

    def row(self, name):
        """Returns the cells of this row, or cells that nobody reads if there is no room."""
        live, states, labels, cells = self.parts
        number = self.numbers.get(name, len(self.numbers) + 1)
        if number > self.max_rows:
            number = 0
        elif name not in self.numbers:
            self.numbers[name] = number
            at = labels + NAME_SIZE * number
            self.memory[at:at + NAME_SIZE] = name.encode()[:NAME_SIZE - 1].ljust(NAME_SIZE, b"\0")
            self.words[states // 8 + number] = LIVE
            self.words[live // 8] = number + 1
        at = cells // 8 + self.columns * number
        return self.words[at:at + self.columns]
