"""Holds a lock of a file for ever: makes a system call that takes the lock and then copies
to a page whose fault is never answered, because the page belongs to a file system that
this process serves. Needs root, because it mounts the file system in a new mount
namespace.

    held_locks.py DIRECTORY directory PATH     the lock of a directory, by listing it
    held_locks.py DIRECTORY position PATH      of the position of a producer's memory; the
                                               producer serves the file PATH.region at PATH

DIRECTORY is where the file system is mounted. Prints "ok" when the lock is held, or the
reason why it cannot be. The lock is held until this process is killed."""

import ctypes
import fcntl
import mmap
import os
import signal
import sys
import threading
import time

from dead_files import LIBC, PR_SET_PDEATHSIG, mount, serve_files
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


def copy_into(page, call, fd):
    """Makes a system call that copies from fd to the page, in a thread of its own. Prints
    "ok" if the call does not return."""
    thread = threading.Thread(target=LIBC.syscall, daemon=True, args=(
        ctypes.c_long(call), ctypes.c_long(fd), ctypes.c_void_p(page),
        ctypes.c_long(mmap.PAGESIZE)))
    thread.start()
    time.sleep(0.5)
    print("ok" if thread.is_alive() else "the call has returned", flush=True)


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
    read = {"x86_64": 0, "aarch64": 63}[os.uname().machine]
    if what == "directory":
        copy_into(page, GETDENTS64, os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    else:
        copy_into(page, read, serve_reopened(path))
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
