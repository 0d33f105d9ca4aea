"""What a user, a member of the group percore, or a producer can do to collectd and to an
honest region beside: SECURITY.md refers to these tests."""

import contextlib
import mmap
import os
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time

from harness import Child, Collectd, Skip, check, is_root, online_cores, run_all, say
from producers import (ETH0, MEMBER, PACKETS, PORT, GroupDir, Producer, Published,
                       RuntimeDir)
from region_format import CORE_TABLE, LIVE, OWNED, PER_CORE, SLOTS, TABLES, Region

INTERVAL = 0.2
GOOD = "percore_host_good_port_packets-all/derive-eth0"
REGIONS = "percore_host-self/gauge-regions"
NOBODY = 65534
MIB = 1 << 20


class Honest(Producer):
    """An honest producer beside an attacker."""

    def __init__(self):
        super().__init__("good")
        self.do("core 0", ETH0)
        self.counted = 0

    def check_exact(self, collectd, rounds=15):
        """Counts in each of the next intervals. Checks that each interval has a value,
        and that the last value is what was counted."""
        seen = len(collectd.of(GOOD))
        for _ in range(rounds):
            self.do(f"add {PORT} 0 {PACKETS} 17 0")
            self.counted += 17
            time.sleep(INTERVAL)
        collectd.wait_for(lambda: collectd.of(GOOD)[-1].value == self.counted, 10,
                          f"the value {self.counted}")
        collectd.check_gaps(collectd.of(GOOD)[seen:], 3 * INTERVAL)


LOAD = "percore_host-self/duration-lateness"  # comes with the loads, also unproven ones


def need_fuse():
    if not is_root() or not os.path.exists("/dev/fuse"):
        raise Skip("needs root and /dev/fuse, to mount a file system")


def hold(what, path, directory):
    """Starts a process of a member that holds a lock until it is killed."""
    process = Child([sys.executable, f"{os.path.dirname(__file__)}/held_locks.py",
                     directory, what, path], stdout=subprocess.PIPE, text=True)
    said = process.stdout.readline().strip()
    if said != "ok":
        process.kill()
        process.wait()
        raise Skip(f"this machine does not permit it: {said}")
    return process


def check_stops(collectd):
    took = collectd.stop()
    check(took < 2, f"collectd stopped after {took:.1f} s")


def evil(rows=1, size=1 << 16, storage=OWNED):
    region = Region()
    region.build("evil", TABLES[:1] + [("t", storage, 0, rows, 0, 0, [
        ("x", "1", 0, {})])], size=size)
    region.add_row(CORE_TABLE, 0)
    region.add_row(1, 0)
    return region


# ---------------------------------------------------------------------------
# Locks


def test_a_user_outside_the_group():
    """A user outside the group can neither list the runtime directory, and so hold its
    lock, nor read or change a region"""
    if not is_root():
        raise Skip("other users need root")
    with RuntimeDir() as runtime, Honest():
        os.chmod(runtime.path, 0o3770)
        script = f"""
import os
for act in (lambda: os.open({runtime.path!r}, os.O_RDONLY),
            lambda: os.open({runtime.files("good")[0]!r}, os.O_RDONLY),
            lambda: os.unlink({runtime.files("good")[0]!r})):
    try:
        act()
    except PermissionError:
        print("refused")
"""
        said = subprocess.run([sys.executable, "-c", script], user=NOBODY, group=NOBODY,
                              extra_groups=[], capture_output=True, text=True,
                              check=False)
        check(said.stdout.split() == ["refused"] * 3, f"{said}")


MOUNTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def must(status, what):
    if status != 0:
        print(what, os.strerror(ctypes.get_errno()), flush=True)
        sys.exit(1)
must(libc.unshare(0x10000000 | 0x20000), "unshare")  # CLONE_NEWUSER, CLONE_NEWNS
here = os.open("/", os.O_PATH)
attributes = [(ctypes.c_uint64 * 4)(*words) for words in ((0, 4, 0, 0), (4, 0, 0, 0))]
change = lambda which: libc.syscall(442, here, b"", 0x1000, attributes[which], 32)
must(change(1), "mount_setattr")  # nodev
print("ok", flush=True)
while True:
    change(1)
"""


def test_a_user_who_mounts():
    """While a user outside the group changes mounts of its own as fast as it can, each
    region is created and found"""
    if not is_root():
        raise Skip("other users need root")
    with GroupDir(), Collectd(interval=INTERVAL) as collectd:
        collectd.start()
        with contextlib.ExitStack() as stack:
            storm = [stack.enter_context(
                Child([sys.executable, "-c", MOUNTS], stdout=subprocess.PIPE, text=True,
                      user=NOBODY + 1, group=NOBODY + 1, extra_groups=[]))
                for _ in range(2)]
            said = [process.stdout.readline().strip() for process in storm]
            if said != ["ok", "ok"]:
                raise Skip(f"this machine does not permit it: {said[0]}")
            for i in range(20):
                stack.enter_context(Producer(f"r{i}"))
            collectd.wait_for(lambda: collectd.of(REGIONS)[-1:] and
                              collectd.of(REGIONS)[-1].value == 20, 10, "20 regions")


def test_a_held_inode():
    """A member that holds the lock of its file's inode for ever, for which unlink(2) and
    truncate(2) wait, is read, delays no other region, and does not keep collectd from
    stopping, also when its producer is gone"""
    need_fuse()
    with GroupDir() as runtime, Honest() as honest, \
            tempfile.TemporaryDirectory() as directory, \
            Collectd(interval=INTERVAL) as collectd:
        held = Published(runtime.new_file("evil"), evil().bytes)
        os.chown(held.path, MEMBER, MEMBER)
        collectd.start()
        collectd.wait_for_value(GOOD)
        with hold("file", held.path, directory) as holder:
            collectd.wait_for(lambda: collectd.of(REGIONS)[-1].value == 2, 10,
                              "both regions")
            honest.check_exact(collectd)
            held.close()
            honest.check_exact(collectd)
            check_stops(collectd)
            holder.kill()


def test_a_held_directory():
    """While a member holds the lock of the runtime directory, as whoever may create files in
    a directory can, loads go on and SIGTERM ends collectd. Afterwards, regions are read
    with all counts"""
    need_fuse()
    with GroupDir() as runtime, Honest() as honest, \
            tempfile.TemporaryDirectory() as directory, \
            Collectd(interval=INTERVAL) as collectd:
        collectd.start()
        collectd.wait_for_value(GOOD)
        with Producer("ended") as ended:
            ended.do("core 0", ETH0)
            collectd.wait_for_value(GOOD.replace("good", "ended"))
        for stops in (False, True):
            with hold("directory", runtime.path, directory) as holder:
                lister = Child(["ls", runtime.path], stdout=subprocess.PIPE)
                seen = len(collectd.of(LOAD))
                honest.do(f"add {PORT} 0 {PACKETS} 5 0")
                honest.counted += 5
                time.sleep(10 * INTERVAL)
                check(lister.poll() is None, "the lock is not held")
                collectd.check_gaps(collectd.of(LOAD)[seen:], 3 * INTERVAL)
                if stops:
                    check_stops(collectd)
                holder.kill()
            if not stops:
                collectd.wait_for(lambda: collectd.of(GOOD)[-1].value == honest.counted, 10,
                                  "what was counted meanwhile")
                honest.check_exact(collectd)


def test_a_start_in_a_held_directory():
    """A collectd that starts while a member holds the lock of the runtime directory reports
    loads, and publishes the board and reads regions when the lock is free"""
    need_fuse()
    with GroupDir() as runtime, Honest() as honest, \
            tempfile.TemporaryDirectory() as directory, \
            Collectd(interval=INTERVAL) as collectd:
        with hold("directory", runtime.path, directory) as holder:
            collectd.start()
            collectd.wait_for_value(LOAD)
            seen = len(collectd.of(LOAD))
            time.sleep(10 * INTERVAL)
            collectd.check_gaps(collectd.of(LOAD)[seen:], 3 * INTERVAL)
            holder.kill()
        collectd.wait_for(lambda: runtime.files("board"), 10, "the board")
        collectd.wait_for_value(GOOD)
        honest.check_exact(collectd)
        check_stops(collectd)


LEASES = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open(sys.argv[1], os.O_RDWR)
print("ok", flush=True)
while True:
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        pass
    os.close(os.open(sys.argv[1], os.O_RDWR))
"""


def test_leases():
    """While a member leases its file and opens it for writing as fast as it can, collectd
    lives, reads the honest region, and stops in time"""
    with RuntimeDir() as runtime, Honest() as honest, \
            Collectd(interval=INTERVAL) as collectd:
        evils = Published(runtime.new_file("evil"), evil().bytes)
        collectd.start()
        collectd.wait_for_value(GOOD)
        with Child([sys.executable, "-c", LEASES, evils.path], stdout=subprocess.PIPE,
                   text=True) as leaser:
            check(leaser.stdout.readline() == "ok\n", "it takes no lease")
            honest.check_exact(collectd, 25)
            leaser.kill()
        check_stops(collectd)


READ_LOCKS = """
import fcntl, os, struct, sys
lock = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
held = {}
print("ok", flush=True)
while True:
    for name in os.listdir(sys.argv[1]):
        try:
            file = f"{sys.argv[1]}/{name}"
            if name not in held:
                held[name] = os.open(file, os.O_RDONLY)
            fcntl.fcntl(held[name], 37, lock)  # F_OFD_SETLK of byte 0
        except OSError:
            pass
"""


def test_read_locks():
    """While a member takes read locks of byte 0 of all files, also of those that are just
    made, as fast as it can, each producer that is killed is gone, its successor is read,
    and the last counts of each are reported"""
    if not is_root():
        raise Skip("other users need root")
    victim = GOOD.replace("good", "victim")
    with GroupDir() as runtime, Honest() as honest, Collectd(interval=INTERVAL) as collectd:
        collectd.start()
        collectd.wait_for_value(GOOD)
        with Child([sys.executable, "-c", READ_LOCKS, runtime.path], user=MEMBER,
                   group=MEMBER, stdout=subprocess.PIPE, text=True) as locker:
            check(locker.stdout.readline() == "ok\n", "it takes no locks")
            for life in range(1, 6):
                with Producer("victim") as producer:
                    producer.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 100 0")
                    collectd.wait_for(lambda: collectd.of(REGIONS)[-1].value == 2, 10,
                                      "both regions")
                    producer.do(f"add {PORT} 0 {PACKETS} 1 0")
                collectd.wait_for(lambda: collectd.of(REGIONS)[-1].value == 1, 10,
                                  "the end of the victim")
                collectd.wait_for(lambda: collectd.of(victim)[-1].value == 101 * life, 10,
                                  f"{101 * life} packets")
            honest.check_exact(collectd)
            locker.kill()
        check_stops(collectd)


MAPS = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(fd).st_size
maps = []
try:
    for _ in range(16000):
        maps.append(mmap.mmap(os.dup(fd) if not maps else fd, size))
except OSError:
    pass
print("ok", flush=True)
while True:
    os.ftruncate(fd, 4096)
    os.ftruncate(fd, size)
    for at in maps[:64]:
        at[size - 1]
"""


def test_many_mappings():
    """While a member maps its file as often as it can and truncates it in a loop, no
    interval of the honest region and of the loads is missing, and collectd stops in time"""
    with RuntimeDir() as runtime, Honest() as honest, \
            Collectd(interval=INTERVAL) as collectd:
        evils = Published(runtime.new_file("evil"), evil().bytes)
        collectd.start()
        collectd.wait_for_value(GOOD)
        with Child([sys.executable, "-c", MAPS, evils.path], stdout=subprocess.PIPE,
                   text=True) as mapper:
            check(mapper.stdout.readline() == "ok\n", "it maps nothing")
            seen = len(collectd.of(LOAD))
            honest.check_exact(collectd, 25)
            collectd.check_gaps(collectd.of(LOAD)[seen:], 3 * INTERVAL)
            mapper.kill()
        check_stops(collectd)


# ---------------------------------------------------------------------------
# Names

NAMES = """
import os, sys
def make(number):
    name = f"{sys.argv[1]}/a{number:06x}.{number:016x}"
    os.close(os.open(name, os.O_RDWR | os.O_CREAT, 0o640))
    return name
for number in range(100000):
    make(number)
print("ok", flush=True)
sys.stdin.read()
while True:
    os.unlink(make(number))
"""


def meet_new(collectd, name):
    with Producer(name) as new:
        new.do("core 0", ETH0)
        collectd.wait_for_value(GOOD.replace("good", name), 5)


def test_many_names():
    """Beside 100000 files of a member, made at once so that notices are lost, a new region is
    found. While the member makes and removes more as fast as it can, no interval of the
    honest region and of the loads is missing, and collectd stops in time. A collectd that
    starts beside the files reads regions, too"""
    if not is_root():
        raise Skip("other users need root")
    with GroupDir() as runtime, Honest() as honest:
        with Collectd(interval=INTERVAL) as collectd:
            collectd.start()
            collectd.wait_for_value(GOOD)
            with Child([sys.executable, "-c", NAMES, runtime.path], user=MEMBER, group=MEMBER,
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as maker:
                check(maker.stdout.readline() == "ok\n", "it makes no names")
                meet_new(collectd, "late")
                maker.stdin.close()
                seen = len(collectd.of(LOAD))
                honest.check_exact(collectd, 25)
                collectd.check_gaps(collectd.of(LOAD)[seen:], 3 * INTERVAL)
                check_stops(collectd)
                maker.kill()
        with Collectd(interval=INTERVAL) as collectd:
            collectd.start()
            collectd.wait_for_value(GOOD)
            meet_new(collectd, "later")
            check_stops(collectd)


# ---------------------------------------------------------------------------
# Time and memory


def holes(path, slots=16384, mib=512, storage=OWNED):
    """Publishes a region whose slots are all in use, in blocks that are holes, before half
    a GiB that is a hole, too."""
    region = evil(storage=storage)
    stride = 256 if storage == PER_CORE else 128
    slots_at, tables_at = region.get(160), region.slot(SLOTS)
    old_blocks_at = region.get(176)
    moved = 64 * slots  # by how much the parts behind the slots are moved
    blocks_at = old_blocks_at + moved
    end = blocks_at + stride * slots
    size = end + mib * MIB
    for number in range(len(region.tables)):
        for part in (48, 56, 64, 72, 80, 96):
            at = region.table(number) + part
            region.set(at, region.get(at) + moved)
    for offset, value, width in ((168, slots, 4), (184, stride, 8), (176, blocks_at, 8),
                                 (32, size, 8)):
        region.set(offset, value, width)
    published = Published(path, region.bytes[:slots_at], size)
    record = struct.pack("=QiiQ40s", LIVE, os.getpid(), 0, 1, b"")
    os.pwrite(published.fd, record * slots, slots_at)
    os.pwrite(published.fd, region.bytes[tables_at:old_blocks_at], tables_at + moved)
    return published


def test_many_holes():
    """A region of 16384 slots that are all in use, in holes before half a GiB of holes,
    leaves every interval to other regions, also on busy cores, and takes no memory of
    collectd"""
    with RuntimeDir() as runtime, Honest() as honest, \
            Collectd(interval=INTERVAL) as collectd, contextlib.ExitStack() as stack:
        memory = holes(runtime.new_file("evil")).fd
        before = os.fstat(memory).st_blocks
        collectd.start()
        collectd.wait_for_value(GOOD)
        collectd.wait_for(lambda: collectd.of(REGIONS)[-1].value == 2, 10, "both regions")
        for _ in range(2 * len(online_cores())):
            stack.enter_context(Child(["sh", "-c", "while :; do :; done"]))
        honest.check_exact(collectd)
        check(os.fstat(memory).st_blocks == before, "reading allocated memory")
        check_stops(collectd)


def test_many_slots():
    """40 files with a table that has a copy in each of 16384 slots leave every interval to
    other regions, from when they come on"""
    with RuntimeDir() as runtime, Honest() as honest, \
            Collectd(interval=INTERVAL) as collectd, contextlib.ExitStack() as stack:
        collectd.start()
        collectd.wait_for_value(GOOD)
        for _ in range(40):
            stack.enter_context(holes(runtime.new_file("evil"), storage=PER_CORE))
        honest.check_exact(collectd, 20)
        check(collectd.of(REGIONS)[-1].value == 2, "they are not read")
        check_stops(collectd)


def resident_mib(collectd):
    with open(f"/proc/{collectd.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / MIB


def fat(rows):
    region = evil(rows, rows * 64 + MIB)
    generations = region.generation(1)
    region.bytes[generations:generations + 8 * rows] = \
        struct.pack("=Q", LIVE) * rows
    region.set(region.live(1), rows)
    return region.bytes


def test_a_fat_region():
    """Of a large region that is no file of collectd's own user, nothing but what MaxMemory
    allows becomes memory of collectd"""
    with RuntimeDir() as runtime, Honest() as honest, \
            Collectd(f"MaxMemory {40 * MIB}", INTERVAL) as collectd:
        collectd.start()
        collectd.wait_for_value(GOOD)
        before = resident_mib(collectd)
        content = fat(2 * MIB)
        published = Published(runtime.new_file("evil"), content)
        collectd.wait_for(lambda: collectd.of(REGIONS)[-1].value == 2, 10, "both regions")
        most = 0
        for _ in range(5):
            honest.check_exact(collectd, 3)
            most = max(most, resident_mib(collectd) - before)
        say(f"{len(content) / MIB:.0f} MiB are read, {most:.0f} MiB are resident")
        check(most < 60, f"{most:.0f} MiB are resident")
        check_stops(collectd)
        published.close()


USEFUL = "percore-0/percent-useful"


def test_forged_polls():
    """A member that forges how its threads poll makes no core more useful than 100 %, and
    changes no count of an honest region"""
    with RuntimeDir() as runtime, Honest() as honest, \
            Collectd(interval=INTERVAL) as collectd:
        region = evil()
        published = Published(runtime.new_file("evil"), region.bytes)
        words = mmap.mmap(published.fd, len(region.bytes))
        collectd.start()
        collectd.wait_for_value(GOOD)
        polling = threading.Event()

        def poll():
            clock = 0
            while not polling.wait(INTERVAL / 4):
                clock += 1 << 56
                for slot, asleep in ((0, 0), (2, clock >> 1)):
                    # origin_tsc, and total_cycles, busy_cycles, sleep_cycles, polls
                    struct.pack_into("=Q", words, region.block(slot) + 16,
                                     ((clock >> 40) - clock) % 2**64)
                    struct.pack_into("=4Q", words, region.block(slot) + 64, clock, clock,
                                     asleep, clock)
        thread = threading.Thread(target=poll)
        thread.start()
        collectd.wait_for_value(USEFUL)
        honest.check_exact(collectd)
        polling.set()
        thread.join()
        values = [value.value for value in collectd.of(USEFUL)]
        check(max(values) == 100, f"{values}")
        check(all(0 <= value <= 100 for value in values), f"{values}")


if __name__ == "__main__":
    run_all(globals())
