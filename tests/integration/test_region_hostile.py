"""Producers that deceive a running collectd: regions made from the bytes of a
real one, and servers that break the protocol."""

import array
import fcntl
import mmap
import os
import random
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

from harness import (BUILD, Child, Collectd, Skip, check, is_root, is_running,
                     run_all, say)
from producers import (ETH0, MEMBER, SEALS, GroupDir, Impostor, Producer, RuntimeDir, Server,
                       hello, memory_of)

INTERVAL = 0.2
SILENT = "percore_host-self/gauge-regions_silent"
GOOD = "percore_host_good_port_packets-all/derive-eth0"
REGIONS = "percore_host-self/gauge-regions"
MOST_PASSED = 253  # the most descriptors that one message can pass


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


def region_of(runtime, name):
    """Returns a copy of the memory that a producer sends."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(runtime.socket(name))
    _, fds, _, _ = socket.recv_fds(peer, 32, 1)
    with mmap.mmap(fds[0], 0, prot=mmap.PROT_READ) as content:
        copy = bytes(content)
    os.close(fds[0])
    peer.close()
    return copy


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
    for _ in range(3):
        region.bytes[chance.randrange(region.directory_size)] ^= \
            1 << chance.randrange(8)


def one_array(region, _):
    """Makes every table except `core` claim the same place for its single copies."""
    for number in range(2, region.get(128, "I")):
        region.set(region.table(number) + 80, region.get(region.table(1) + 80))


CHANGES = [wider_core, endless_rows, noise, ones, one_array] + 20 * [flipped_bytes]


# ---------------------------------------------------------------------------
# Servers


def send_fds(peer, message, fds):
    peer.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                              array.array("i", fds))])


def servers(memory, size):
    """Returns functions that serve a connection in hostile ways. Their keys are names
    for regions, which are as long as the name of the real region."""
    null = os.open("/dev/null", os.O_RDWR)

    def flood(peer):
        send_fds(peer, hello(size), [memory])
        while True:
            send_fds(peer, hello(size), [memory, null] * 126)

    def flood_of_hellos(peer):
        while True:
            send_fds(peer, hello(size), [null] * MOST_PASSED)

    def drip(peer):  # sends HELLO again and again
        send_fds(peer, hello(size), [memory])
        while True:
            time.sleep(INTERVAL / 3)
            peer.send(hello(size))

    def huge(peer):
        peer.send(bytes(150000))

    def huge_later(peer):
        send_fds(peer, hello(size), [memory])
        time.sleep(INTERVAL / 2)
        peer.send(bytes(150000))

    def hang_up(peer):
        peer.close()

    def hang_up_later(peer):
        send_fds(peer, hello(size), [memory])
        time.sleep(INTERVAL / 2)
        peer.shutdown(socket.SHUT_RDWR)

    def silence(_):
        pass

    return {"saaa": flood, "saab": flood_of_hellos, "saac": drip, "saad": huge,
            "saae": huge_later, "saaf": hang_up, "saag": hang_up_later,
            "saah": silence}


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
        regions = {"foreign": Region(region_of(runtime, "good"))}
        for number, change in enumerate(CHANGES):
            name = f"fake{chr(ord('a') + number)}"
            regions[name] = Region(region_of(runtime, "model")).rename(name)
            change(regions[name], chance)
        fakes, maps = [], []
        for name, region in regions.items():
            fd = memory_of(region.bytes, False)
            maps.append((mmap.mmap(fd, 0), region.directory_size))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
            fakes.append(Impostor(runtime.socket(name),
                                  hello(len(region.bytes)), fd))
        collectd.start()
        collectd.wait_for_value(GOOD)
        check_good(collectd, 5)
        before = descriptors_of(collectd)
        for _ in range(60):
            for memory, least in maps:
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
        for refused in ("foreign.sock: refused: the region's name differs",
                        "fakee.sock: refused: table port: its single copies, "):
            check(collectd.log().count(refused) == 1,
                  f"not logged once: {refused}: {collectd.log()}")
        check(collectd.stop() < 1, "collectd did not stop in time")
        for fake in fakes:
            fake.close()


def test_hostile_servers():
    """Servers that send floods of messages and descriptors, send too much, hang up,
    send slowly or send nothing do not delay another region, and collectd leaks no
    descriptor"""
    with RuntimeDir() as runtime, start_good(), Producer("serv") as model, \
            Collectd(interval=INTERVAL) as collectd:
        model.do("core 0", ETH0)
        content = region_of(runtime, "serv")
        open_ones = []
        for name, treat in servers(None, 0).items():
            region = Region(content).rename(name)
            memory = memory_of(region.bytes, True)
            treat = servers(memory, len(content))[name]
            open_ones.append(Server(runtime.socket(name), treat))
        collectd.start()
        collectd.wait_for_value(GOOD)
        check_good(collectd, 5)
        check_good(collectd, 30)
        count = descriptors_of(collectd)
        say(f"{count} descriptors, {resident_mb(collectd):.0f} MB")
        check(count < 100, "descriptors leak")
        check(collectd.stop() < 1, "collectd did not stop in time")
        for server in open_ones:
            server.close()


def test_sixty_of_64_are_silent():
    """If 60 of 64 regions listen but send nothing, the other regions are read in every
    interval; a fifo, a directory, a file or a link in place of a socket does no
    harm"""
    with RuntimeDir() as runtime, start_good(), \
            Collectd(interval=INTERVAL) as collectd:
        mutes = [Impostor(runtime.socket(f"mute@{number}"), None)
                 for number in range(60)]
        os.mkfifo(runtime.socket("fifo"))
        os.mkdir(runtime.socket("directory"))
        os.symlink(runtime.socket("good"), runtime.socket("link"))
        os.symlink(runtime.socket("loop"), runtime.socket("loop"))
        os.symlink("/nowhere", runtime.socket("dangling"))
        with open(runtime.socket("file"), "wb") as file:
            file.write(b"PERCORE1")
        collectd.start()
        collectd.wait_for_value(GOOD)
        check_good(collectd, 20)
        collectd.wait_for(lambda: collectd.of(SILENT)[-1].value == 60, 10,
                          "60 silent regions")
        check(collectd.of(REGIONS)[-1].value == 1, "more than one region is read")
        check("region link" not in collectd.log(), collectd.log())
        check("too many" not in collectd.log(), collectd.log())
        check(collectd.stop() < 1, "collectd did not stop in time")
        for mute in mutes:
            mute.close()


RUSH = """
import os, socket, sys, time
if sys.argv[2] != "0":
    os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
open_ones, count, end = [], 0, time.monotonic() + 5
while time.monotonic() < end:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.setblocking(False)
    try:
        peer.connect(sys.argv[1])
        count += 1
    except BlockingIOError:
        pass
    open_ones = open_ones[-40:] + [peer]
print(count)
"""


def test_rush_of_connections():
    """While a process that is permitted to read a region connects to it as fast as
    possible, collectd reads the region in every interval and never reports it as
    gone"""
    users = ["0", "65534"] if is_root() else ["0"]
    for user in users:
        with RuntimeDir() as runtime, start_good(), \
                Collectd(interval=INTERVAL) as collectd:
            os.chmod(runtime.socket("good"), 0o666)
            collectd.start()
            collectd.wait_for_value(GOOD)
            with Child([sys.executable, "-c", RUSH, runtime.socket("good"),
                        user], text=True, stdout=subprocess.PIPE) as rush:
                check_good(collectd, 20)
                count = int(rush.stdout.readline())
            check_good(collectd, 5)
            say(f"{count / 5:.0f} connections a second by user {user}")
            log = collectd.log()
            check("is gone" not in log and "is back" not in log, log)
            check(set(value.value for value in collectd.of(REGIONS)) == {1},
                  "the region was not read in some interval")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def is_stuck(pid):
    """Returns whether the process is exiting but has not closed its descriptors yet."""
    return is_running(pid) and not os.listdir(f"/proc/{pid}/fd")


def serve_dead_file(runtime, names, directory):
    """Starts a member that serves regions and sends a file that cannot be closed. Returns
    its process, which runs until it is killed."""
    process = Child([sys.executable, f"{os.path.dirname(__file__)}/dead_files.py", directory,
                     *map(runtime.socket, names)], stdout=subprocess.PIPE, text=True)
    said = process.stdout.readline().strip()
    check(said != "", "dead_files.py printed nothing")
    if said != "ok":
        process.wait()
        raise Skip(f"this machine does not permit the mount: {said}")
    return process


def test_a_file_system_that_does_not_answer():
    """If a user serves many regions and sends a file of a file system that never answers, so
    that closing the file blocks forever, one process waits for the file system, and the log
    names user and process; the regions of others are read in every interval, also new ones,
    and collectd stops in time"""
    if not is_root() or not os.path.exists("/dev/fuse"):
        raise Skip("needs root and /dev/fuse, to mount such a file system")
    with GroupDir() as runtime, start_good(), \
            tempfile.TemporaryDirectory() as directory, \
            Collectd(interval=INTERVAL) as collectd, \
            serve_dead_file(runtime, [f"dead{i}" for i in range(20)], directory) as dead:
        collectd.start()
        collectd.wait_for_value(GOOD)
        check_good(collectd, 30)
        log = collectd.log()
        told = re.findall(r"dead.* is not read: (.*)", log)
        say("; ".join(told))
        check(len(told) == 1 and
              re.search(rf"process \d+ of user {MEMBER} sent a descriptor that cannot be "
                        "closed", told[0]), log)
        tasks = os.listdir(f"/proc/{collectd.process.pid}/task")
        stuck = [int(child) for task in tasks for child in
                 open(f"/proc/{collectd.process.pid}/task/{task}/children").read().split()
                 if is_stuck(int(child))]
        check(len(stuck) == 1, f"{len(stuck)} processes wait")
        with Producer("late"):
            collectd.wait_for(lambda: collectd.of(REGIONS)[-1].value == 2, 10,
                              "a region that appeared later")
        check(collectd.stop() < 1, "collectd did not stop in time")
        check(all(map(is_running, stuck)), "the processes no longer wait")
        dead.kill()
        collectd.wait_for(lambda: not any(map(is_running, stuck)), 10,
                          "the end of the processes that wait")


def test_the_command_beside_dead_files():
    """percore regions and percore top do not hang if a producer sends a
    file that cannot be closed"""
    if not is_root() or not os.path.exists("/dev/fuse"):
        raise Skip("needs root and /dev/fuse, to mount such a file system")
    with GroupDir() as runtime, start_good(), \
            tempfile.TemporaryDirectory() as directory, \
            serve_dead_file(runtime, ["dead"], directory):
        for words in ["regions"], ["top", "dead", "--totals"]:
            done = subprocess.run([f"{BUILD}/percore", *words], timeout=10,
                                  capture_output=True, text=True, check=False)
            say(f"{words[0]}: {done.stderr.strip() or 'ends'}")
            check(words[0] == "regions" or
                  "sent a descriptor that cannot be closed" in done.stderr, done.stderr)
            check(words[0] != "regions" or "good" in done.stdout, done.stdout)


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
