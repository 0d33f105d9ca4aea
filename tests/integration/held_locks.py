"""Holds a lock of a file for ever: makes a system call that takes the lock and then copies
to a page whose fault is never answered, because the page belongs to a file system that
this process serves. Needs root, because it mounts the file system in a new mount
namespace.

    held_locks.py DIRECTORY directory PATH     the lock of a directory, in which it may
                                               create files as a member of the group
                                               MEMBER: it lists a directory of its own
                                               there, which a second process removes
    held_locks.py DIRECTORY write PATH         none: it writes from the page to the memory
                                               that the producer at PATH hands over, and
                                               prints what the kernel answers
    held_locks.py DIRECTORY read PATH          the same with read(2), which blocks: of the
                                               position of the descriptor handed over
    held_locks.py DIRECTORY position PATH      of the position of a producer's memory; the
                                               producer serves the file PATH.region at PATH

DIRECTORY is where the file system is mounted. Prints "ok" when the lock is held, or the
reason why it cannot be. The lock is held until this process is killed."""

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket
import sys
import threading
import time

from dead_files import (LIBC, PR_SET_PDEATHSIG, become_member, mount,
                        serve_files)
from producers import SEALS, Impostor, hello

GETDENTS64 = {"x86_64": 217, "aarch64": 61}[os.uname().machine]
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + \
    [ctypes.c_long]


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


def received_from(path):
    """Returns the memory that a producer hands over."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(path)
    return socket.recv_fds(peer, 64, 1)[1][0]


def serve_reopened(path):
    """Serves memory through a descriptor that was opened by name: unlike that of
    memfd_create, its file position has a lock. Returns the descriptor."""
    with open(f"{path}.region", "rb") as file:
        content = file.read()
    memory = os.memfd_create("held", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(memory, content)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
    fd = os.open(f"/proc/self/fd/{memory}", os.O_RDWR)
    Impostor(path, hello(len(content)), fd)
    return fd


def hold(directory, what, path):
    page = stuck_page(directory)
    become_member()
    read, write = {"x86_64": (0, 1), "aarch64": (63, 64)}[os.uname().machine]
    if what == "directory":
        said = hold_directory(page, path)
    elif what in ("write", "read"):
        said = copy(page, write if what == "write" else read, received_from(path))
    else:
        said = copy(page, read, serve_reopened(path))
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
