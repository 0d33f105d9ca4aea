"""A member of the group that sends its readers a file instead of memory. The file is on a
file system that this process serves. The file system never answers READ or FLUSH, so
closing the file blocks until the file system ends. Needs root, because it mounts the file
system in a new mount namespace.

    dead_files.py DIRECTORY SOCKET...

Prints "ok" when readers can connect to each SOCKET, or the reason why it cannot mount the
file system on DIRECTORY. The file system ends with this process."""

import array
import ctypes
import os
import select
import signal
import socket
import stat
import struct
import sys

from producers import MEMBER, hello

FORGET, GETATTR, OPEN, INIT, FLUSH, READ = 2, 3, 14, 26, 25, 15
LOOKUP, RELEASE, BATCH_FORGET = 1, 18, 42
CLONE_NEWNS, MS_REC, MS_PRIVATE, PR_SET_PDEATHSIG = 0x20000, 0x4000, 1 << 18, 1
ENOSYS = 38

LIBC = ctypes.CDLL(None, use_errno=True)


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


def listen_at(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(16)
    return listener


def serve_regions(paths, file):
    """Sends the file to every reader that connects to one of the paths, until this process
    is killed. Never closes the file."""
    fd = os.open(file, os.O_RDWR)
    become_member()
    listeners = [listen_at(path) for path in paths]
    print("ok", flush=True)
    while True:
        peer, _ = select.select(listeners, [], [])[0][0].accept()
        try:
            peer.sendmsg([hello(4096)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                          array.array("i", [fd]))])
        except OSError:
            pass
        peer.close()


def main():
    directory, *paths = sys.argv[1:]
    device = mount(directory)
    if os.fork() == 0:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(device)  # otherwise the file system would outlive its server
        serve_regions(paths, f"{directory}/file")
    serve_files(device)


if __name__ == "__main__":
    main()
