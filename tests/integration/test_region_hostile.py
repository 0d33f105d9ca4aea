"""Producers that deceive a running collectd: regions made from the bytes of a real one,
and files that are no regions."""

import contextlib
import errno
import fcntl
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from harness import BUILD, Child, Collectd, Skip, check, run_all, say
from producers import ETH0, PACKETS, PORT, Producer, Published, RuntimeDir

INTERVAL = 0.2
GOOD = "percore_host_good_port_packets-all/derive-eth0"
REGIONS = "percore_host-self/gauge-regions"


# ---------------------------------------------------------------------------
# Regions: percore-region(7)


class Region:
    """The bytes of a region. The offsets of numbers are those that percore-region(7)
    specifies."""

    def __init__(self, content):
        self.bytes = bytearray(content)

    def get(self, offset, kind="Q"):
        return struct.unpack_from(f"={kind}", self.bytes, offset)[0]

    def set(self, offset, number, kind="Q"):
        struct.pack_into(f"={kind}", self.bytes, offset, number)

    @property
    def directory_size(self):
        return self.get(40)

    def table(self, number):
        return self.get(120) + number * self.get(20, "I")

    def field(self, number):
        return self.get(136) + number * self.get(24, "I")

    def live(self):
        """Returns, for each table, the offset of the word that contains the number of
        rows in use."""
        return [self.get(self.table(t) + 48) for t in range(self.get(128, "I"))]

    def rename(self, name):
        at = self.get(144) + self.get(112, "I")
        end = self.bytes.index(b"\0", at)
        check(end - at == len(name), "the names must have the same length")
        self.bytes[at:end] = name.encode()
        return self


def wider_core(region, _):
    """Adds two columns to the table `core`, as a later minor version of the format
    might."""
    core = region.table(0)
    region.set(128, 1, "I")
    region.set(core + 20, 8, "I")
    region.set(core + 24, 8, "I")
    for number in (6, 7):
        field = region.field(number)
        region.set(field + 12, 0, "I")  # a counter
        region.set(field + 16, 0, "I")
        region.set(field + 20, number, "I")
    blocks, stride = region.get(176), region.get(184)
    # Mark all slots as used, and set all bits of their cells.
    for slot in range(region.get(168, "I")):
        region.set(region.get(160) + slot * region.get(28, "I"), 2)
        region.bytes[blocks + slot * stride + 64:
                     blocks + slot * stride + 128] = b"\xff" * 64


def endless_rows(region, _):
    for live in region.live():
        region.set(live, (1 << 64) - 1)


def noise(region, chance):
    size = region.directory_size
    region.bytes[size:] = chance.randbytes(len(region.bytes) - size)


def ones(region, _):
    size = region.directory_size
    region.bytes[size:] = b"\xff" * (len(region.bytes) - size)


def flipped_bytes(region, chance):
    size = region.directory_size
    for _ in range(3):
        region.bytes[chance.randrange(size)] ^= 1 << chance.randrange(8)


def one_array(region, _):
    """Makes every table except `core` claim the same place for its single copies."""
    for number in range(2, region.get(128, "I")):
        region.set(region.table(number) + 80, region.get(region.table(1) + 80))


CHANGES = [wider_core, endless_rows, noise, ones, one_array] + 20 * [flipped_bytes]


# ---------------------------------------------------------------------------
# Tests


def descriptors_of(collectd):
    """Returns the number of descriptors that collectd keeps open: the minimum over
    several tries, because collectd opens files in /proc and retries refused regions."""
    looks = []
    for _ in range(30):
        looks.append(len(os.listdir(f"/proc/{collectd.process.pid}/fd")))
        time.sleep(INTERVAL / 10)
    return min(looks)


def resident_mb(collectd):
    with open(f"/proc/{collectd.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def check_good(collectd, count):
    """Checks that the good region produces `count` more values, one in every interval,
    and that they never decrease."""
    seen = len(collectd.of(GOOD))
    collectd.wait_for_value(GOOD, 20, seen + count)
    values = collectd.of(GOOD)[seen:]
    collectd.check_gaps(values, 3 * INTERVAL)
    check(all(b.value >= a.value for a, b in zip(values, values[1:])),
          "a value decreased")


def start_good():
    producer = Producer("good")
    producer.do("core 0", ETH0, "run 0 1000")
    return producer


def test_hostile_regions():
    """Regions with changed bytes, which may even change during a read, are refused or
    read as far as possible; another region is still read, collectd leaks no descriptor
    and stops in time"""
    chance = random.Random(1)
    with RuntimeDir() as runtime, start_good(), Producer("model") as model, \
            Collectd(interval=INTERVAL) as collectd:
        model.do("core 0", ETH0, "run 0 100")
        regions = {"foreign": Region(runtime.content("good"))}
        least = regions["foreign"].directory_size
        for number, change in enumerate(CHANGES):
            name = f"fake{chr(ord('a') + number)}"
            regions[name] = Region(runtime.content("model")).rename(name)
            least = max(least, regions[name].directory_size)
            change(regions[name], chance)
        fakes = [Published(runtime.new_file(name), region.bytes)
                 for name, region in regions.items()]
        maps = [mmap.mmap(fake.fd, 0) for fake in fakes]
        collectd.start()
        collectd.wait_for_value(GOOD)
        check_good(collectd, 5)
        before = descriptors_of(collectd)
        for _ in range(60):
            for memory in maps:
                for _ in range(200):
                    memory[chance.randrange(least, len(memory))] = \
                        chance.randrange(256)
            time.sleep(INTERVAL / 10)
        check_good(collectd, 5)
        after = descriptors_of(collectd)
        say(f"{collectd.of(REGIONS)[-1].value:.0f} of {len(regions) + 2} are "
            f"read, {before} descriptors before, {after} after, "
            f"{resident_mb(collectd):.0f} MB")
        check(after <= before, "descriptors leak")
        for refused in ("refused: the region's name differs",
                        "refused: table port: its single copies, "):
            check(collectd.log().count(refused) == 1,
                  f"not logged once: {refused}: {collectd.log()}")
        check(collectd.stop() < 1, "collectd did not stop in time")


CUT = """
import ctypes, os, random, sys
libc = ctypes.CDLL(None)
path, size = sys.argv[1], int(sys.argv[2])
fd = os.open(path, os.O_RDWR)
content = os.pread(fd, size, 0)
print("ok", flush=True)
while True:
    os.ftruncate(fd, random.choice((0, 100, 4096, size // 2)))
    os.ftruncate(fd, size)
    os.pwrite(fd, content, 0)
    libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(size))  # punches a hole
    os.pwrite(fd, content, 0)
"""


def test_files_that_are_cut():
    """While members truncate their files and punch holes into them as fast as they can,
    another region is read exactly in every interval, percore top of one of them ends, and
    collectd lives and stops in time"""
    with RuntimeDir() as runtime, start_good(), Producer("model") as model, \
            Collectd(interval=INTERVAL) as collectd, contextlib.ExitStack() as stack:
        model.do("core 0", ETH0, "run 0 100")
        content = runtime.content("model")
        collectd.start()
        collectd.wait_for_value(GOOD)
        for name in "cuta", "cutb", "cutc":
            region = Region(content).rename(name + "a")
            fake = stack.enter_context(
                Published(runtime.new_file(name + "a"), region.bytes))
            cutter = stack.enter_context(Child(
                [sys.executable, "-c", CUT, fake.path, str(len(content))],
                stdout=subprocess.PIPE, text=True))
            check(cutter.stdout.readline() == "ok\n", "it does not cut")
        check_good(collectd, 20)
        for _ in range(20):
            done = subprocess.run([f"{BUILD}/percore", "top", "cutaa", "--totals"], timeout=10,
                                  capture_output=True, check=False)
            check(done.returncode in (0, 1), f"{done}")
        check(collectd.stop() < 1, "collectd did not stop in time")


def test_files_that_are_no_regions():
    """A fifo, a directory, a link, a file with a lease, an empty file and 1000 files of
    one user that are no regions do no harm: the other regions are read in every interval"""
    with RuntimeDir() as runtime, start_good(), \
            Collectd(interval=INTERVAL) as collectd:
        os.mkfifo(runtime.new_file("fifo"))
        os.mkdir(runtime.new_file("directory"))
        [good] = runtime.files("good")
        os.symlink(good, runtime.new_file("link"))
        os.symlink("/nowhere", runtime.new_file("dangling"))
        os.link(good, runtime.new_file("twice"))
        os.unlink(runtime.files("twice")[0])
        leased = os.open(runtime.new_file("leased"), os.O_RDWR | os.O_CREAT)
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        for number in range(1000):
            os.close(os.open(runtime.new_file(f"mute@{number}"), os.O_RDWR | os.O_CREAT))
        collectd.start()
        collectd.wait_for_value(GOOD)
        check_good(collectd, 20)
        check(collectd.of(REGIONS)[-1].value == 1, "more than one region is read")
        check("region link" not in collectd.log(), collectd.log())
        check(collectd.stop() < 1, "collectd did not stop in time")
        os.close(leased)


@contextlib.contextmanager
def small_mount():
    """Mounts a small tmpfs as the place of runtime directories."""
    place, usual = tempfile.mkdtemp(prefix="percore-mount-"), RuntimeDir.PLACE
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "percore", place],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Skip(f"a tmpfs cannot be mounted: {done.stderr.strip()}")
        RuntimeDir.PLACE = place
        yield
    finally:
        RuntimeDir.PLACE = usual
        subprocess.run(["umount", "-l", place], capture_output=True, check=False)
        os.rmdir(place)


def fill(directory):
    with open(f"{directory}/fill", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            check(error.errno == errno.ENOSPC, f"{error}")


def test_a_full_mount():
    """On a runtime directory that a member has filled, the regions of root, most of which
    has no memory, are read in every interval, by a collectd that starts then, too. What is
    counted in rows that are added when there is room again is reported"""
    if os.geteuid() != 0:
        raise Skip("mounts need root")
    row = GOOD.replace("eth0", "later")
    with small_mount(), RuntimeDir() as runtime, start_good() as good:
        for starts_full in (False, True):
            with Collectd(interval=INTERVAL) as collectd:
                collectd.start()
                collectd.wait_for_value(GOOD)
                if not starts_full:
                    fill(runtime.path)
                check_good(collectd, 10)
                if starts_full:
                    os.unlink(f"{runtime.path}/fill")
                    number = good.add_row(PORT, "later")
                    good.do(f"add {PORT} {number} {PACKETS} 7 0")
                    collectd.wait_for(lambda: collectd.of(row) and
                                      collectd.of(row)[-1].value == 7, 10, "7 packets")
                    check_good(collectd, 5)
                check(collectd.stop() < 1, "collectd did not stop in time")


def test_the_command_under_valgrind():
    """percore top reads a region under valgrind, which reports no error"""
    if shutil.which("valgrind") is None:
        raise Skip("valgrind is missing: apt-get install valgrind")
    with RuntimeDir(), start_good():
        done = subprocess.run(["valgrind", "-q", "--error-exitcode=9",
                               f"{BUILD}/percore", "top", "good", "--totals"], timeout=60,
                              capture_output=True, text=True, check=False)
        check(done.returncode == 0 and "eth0" in done.stdout, f"{done}")


if __name__ == "__main__":
    run_all(globals())
