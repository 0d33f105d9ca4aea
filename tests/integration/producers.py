"""Producers of regions for the integration tests, real and hostile."""

import array
import atexit
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

from harness import BUILD, check

GLOBALS, PORT, SESSION = range(3)  # indices of the tables of every schema
PACKETS, BYTES, DEPTH, LATENCY = range(4)  # indices of the fields of `port` in schema 1
ROUNDS, QUEUE, TIME = range(3)  # indices of the fields of `globals`
ETH0 = f"row {PORT} {b'eth0'.hex()}"  # the command that adds the row eth0
SEALS = (fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW |
         0x10)  # F_SEAL_FUTURE_WRITE


class RuntimeDir:
    """A temporary runtime directory for all processes of a test."""

    PLACE = None  # the default of tempfile

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="percore-run-", dir=self.PLACE)
        os.chmod(self.path, 0o1773)
        os.environ["PERCORE_RUNTIME_DIR"] = self.path
        return self

    def __exit__(self, *_):
        del os.environ["PERCORE_RUNTIME_DIR"]
        shutil.rmtree(self.path, ignore_errors=True)

    def socket(self, name):
        return f"{self.path}/{name}.sock"


MEMBER = 65534  # a user, and the group of a GroupDir


class GroupDir(RuntimeDir):
    """A runtime directory in which another user is a member of the group, in a tmpfs like
    /run."""

    PLACE = "/dev/shm"

    def __enter__(self):
        super().__enter__()
        os.chown(self.path, 0, MEMBER)
        os.chmod(self.path, 0o3770)
        return self


class Producer:
    """A process that runs producer.c: it serves a region and takes commands."""

    PROGRAM = f"{BUILD}/tests/integration/producer"

    def __init__(self, name, schema="1", *options, user=None, groups=()):
        self.process = subprocess.Popen(
            [self.PROGRAM, name, schema, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            user=user, group=user, extra_groups=list(groups) if user else None)
        atexit.register(self.kill)
        self.answer("the start")

    def answer(self, what):
        line = self.process.stdout.readline().strip()
        check(line.endswith("ok"), f"{what}: {line or 'no answer'}")
        return line

    def do(self, *lines):
        """Sends commands. Returns the answer to the last command."""
        answer = ""
        for line in lines:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
            answer = self.answer(line)
        return answer

    def add_row(self, table, name):
        """Adds a row with this name to a table. Returns the row number."""
        name = name.encode() if isinstance(name, str) else name
        return int(self.do(f"row {table} {name.hex()}").split()[0])

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        atexit.unregister(self.kill)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Tally:
    """A file in which the runners of a producer note how many packets they have counted
    or have begun to count, and whether a reader has connected. The file survives if the
    producer is killed."""

    def __init__(self, path):
        self.path = path
        self.clear()

    def clear(self):
        with open(self.path, "wb") as file:
            file.write(bytes(64 * 8))

    def read(self):
        """Returns the number of packets, and whether a reader has connected."""
        with open(self.path, "rb") as file:
            *packets, met = struct.unpack("64Q", file.read())
        return sum(packets), met > 0


def hello(size):
    return struct.pack("=IHHIIQII", 0x50435231, 1, 1, 32, 0, size, 0, 0)


def memory_of(content, seal):
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    if seal:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


class Server:
    """Listens at a path like a producer, and calls treat(peer) for each connection in a
    separate thread. If `treat` is None, accepts no connection."""

    def __init__(self, path, treat):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(16)
        self.treat = treat
        self.peers = []
        if treat is not None:
            threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.peers = self.peers[-8:] + [peer]
            threading.Thread(target=self.serve_peer, args=[peer],
                             daemon=True).start()

    def serve_peer(self, peer):
        try:
            self.treat(peer)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for peer in self.peers:
            peer.close()


class Impostor(Server):
    """Answers each connection with the same message and descriptor. If the message is
    None, accepts no connection."""

    def __init__(self, path, message, fd=None):
        self.message, self.fd = message, fd
        super().__init__(path, None if message is None else self.answer)

    def answer(self, peer):
        rights = []
        if self.fd is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                       array.array("i", [self.fd]))]
        peer.sendmsg([self.message], rights)

    def close(self):
        super().close()
        if self.fd is not None:
            os.close(self.fd)
