"""Holds a lock of a file for ever: makes a system call that takes the lock and then copies
from or to a page whose fault is never answered, because the page belongs to a file system
that this process serves. Needs root, because it mounts the file system in a new mount
namespace.

    held_locks.py DIRECTORY directory PATH     the lock of a directory, in which it may
                                               create files as a member of the group
                                               MEMBER: it lists a directory of its own
                                               there, which a second process removes
    held_locks.py DIRECTORY file PATH          the lock of a file of its own

DIRECTORY is where the file system is mounted. Prints "ok" when the lock is held, or the
reason why it cannot be. The lock is held until this process is killed."""

import ctypes
import errno
import mmap
import os
import signal
import stat
import struct
import sys
import threading
import time

from producers import MEMBER

FORGET, GETATTR, OPEN, INIT, FLUSH, READ = 2, 3, 14, 26, 25, 15
LOOKUP, RELEASE, BATCH_FORGET = 1, 18, 42
CLONE_NEWNS, MS_REC, MS_PRIVATE, PR_SET_PDEATHSIG = 0x20000, 0x4000, 1 << 18, 1
ENOSYS = 38
GETDENTS64 = {"x86_64": 217, "aarch64": 61}[os.uname().machine]
WRITE = {"x86_64": 1, "aarch64": 64}[os.uname().machine]

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + \
    [ctypes.c_long]


def must(status, what):
    if status != 0:
        print(f"{what}: {os.strerror(ctypes.get_errno())}", flush=True)
        sys.exit(1)


def mount(directory):
    """Mounts the file system. Returns the FUSE descriptor on which its requests
    arrive."""
    must(LIBC.unshare(CLONE_NEWNS), "unshare")
    must(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount /")
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    must(LIBC.mount(b"dead", directory.encode(), b"fuse", 0, options.encode()),
         "mount")
    return device


def attributes(node):
    """Returns struct fuse_attr of the directory (node 1) or of its only file."""
    mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o666
    return struct.pack("=6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0,
                       0, 4096, 0)


def answer_to(opcode, node):
    """Returns the answer to a FUSE request, without its header, or None if the answer
    is ENOSYS; see linux/fuse.h."""
    if opcode == INIT:
        return struct.pack("=4I2H2I2H8I", 7, 31, 4096, 0, 8, 8, 4096, 1, 1, 0,
                           *[0] * 8)
    if opcode == LOOKUP:
        return struct.pack("=4Q2I", 2, 1, 60, 60, 0, 0) + attributes(2)
    if opcode == GETATTR:
        return struct.pack("=Q2I", 60, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("=Q2I", 1, 0, 0)
    return b"" if opcode == RELEASE else None


def serve_files(device):
    while True:
        request = os.read(device, 1 << 17)
        opcode, unique, node = struct.unpack_from("=IQQ", request, 4)
        if opcode in (FLUSH, READ, FORGET, BATCH_FORGET):
            continue
        said = answer_to(opcode, node)
        head = struct.pack("=IiQ", 16 + len(said or b""),
                           -ENOSYS if said is None else 0, unique)
        os.write(device, head + (said or b""))


def become_member():
    os.setgroups([])
    os.setgid(MEMBER)
    os.setuid(MEMBER)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # setuid(2) has cleared it


def stuck_page(directory):
    fd = os.open(f"{directory}/file", os.O_RDWR)
    page = LIBC.mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE,
                     mmap.MAP_PRIVATE, fd, 0)
    if page in (None, ctypes.c_void_p(-1).value):
        print(f"mmap: {os.strerror(ctypes.get_errno())}", flush=True)
        sys.exit(1)
    return page


def copy(page, call, fd):
    """Makes a system call that copies between fd and the page, in a thread of its own.
    Returns None if the call does not return, or else its error."""
    said = []

    def run():
        LIBC.syscall(ctypes.c_long(call), ctypes.c_long(fd), ctypes.c_void_p(page),
                     ctypes.c_long(mmap.PAGESIZE))
        said.append(errno.errorcode.get(ctypes.get_errno(), "success"))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(0.5)
    return said[0] if said else None


def hold_directory(page, path):
    """Holds the lock of a directory: rmdir(2) takes it, and then waits for that of the
    directory to remove."""
    own = f"{path}/own-{os.getpid()}"
    os.mkdir(own)
    said = copy(page, GETDENTS64, os.open(own, os.O_RDONLY | os.O_DIRECTORY))
    if said is None and os.fork() == 0:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.rmdir(own)
        os._exit(0)
    time.sleep(0.2)  # until it waits
    return said


def hold(directory, what, path):
    page = stuck_page(directory)
    become_member()
    if what == "directory":
        said = hold_directory(page, path)
    else:
        said = copy(page, WRITE, os.open(path, os.O_RDWR))
    print(said or "ok", flush=True)
    signal.pause()


def main():
    directory, what, path = sys.argv[1:]
    device = mount(directory)
    if os.fork() == 0:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(device)  # otherwise the file system would outlive its server
        hold(directory, what, path)
    serve_files(device)


if __name__ == "__main__":
    main()
