"""Producers of regions for the integration tests, real and hostile."""

import atexit
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile

from harness import BUILD, check

GLOBALS, PORT, SESSION = range(3)  # indices of the tables of every schema
PACKETS, BYTES, DEPTH, LATENCY = range(4)  # indices of the fields of `port` in schema 1
ROUNDS, QUEUE, TIME = range(3)  # indices of the fields of `globals`
ETH0 = f"row {PORT} {b'eth0'.hex()}"  # the command that adds the row eth0


def new_file(directory, name):
    """Returns a path for a new file of a region."""
    return f"{directory}/{name}.{os.urandom(8).hex()}"


class RuntimeDir:
    """A temporary runtime directory for all processes of a test."""

    PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="percore-run-", dir=self.PLACE)
        os.chmod(self.path, 0o1773)
        os.environ["PERCORE_RUNTIME_DIR"] = self.path
        return self

    def __exit__(self, *_):
        del os.environ["PERCORE_RUNTIME_DIR"]
        shutil.rmtree(self.path, ignore_errors=True)

    def new_file(self, name):
        return new_file(self.path, name)

    def files(self, name):
        """Returns the paths of all files of a region."""
        return [f"{self.path}/{file}" for file in os.listdir(self.path)
                if re.fullmatch(re.escape(name) + r"\.[0-9a-f]{16}", file)]

    def content(self, name):
        """Returns a copy of the only file of a region."""
        [path] = self.files(name)
        with open(path, "rb") as file:
            return file.read()


MEMBER = 65534  # a user, and the group of a GroupDir


class GroupDir(RuntimeDir):
    """A runtime directory in which another user is a member of the group."""

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


OFD_SETLK, WRITE_LOCK = 37, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
FLAGS, LOCK_TELLS, POPULATED = 232, 1, 2  # the member `flags` of a header


class Published:
    """A region in a file of a runtime directory, whose producer lives until close().
    Unless `trusted`, its header does not say that all parts in use have memory, so that
    no reader maps it."""

    def __init__(self, path, content=b"", size=0, trusted=False):
        content = bytearray(content)
        if len(content) > FLAGS and not trusted:
            content[FLAGS] &= ~POPULATED
        self.path = path
        hidden = os.path.join(os.path.dirname(path), "." + os.path.basename(path))
        self.fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        os.ftruncate(self.fd, max(size, len(content)))
        os.pwrite(self.fd, content, 0)
        fcntl.fcntl(self.fd, OFD_SETLK, WRITE_LOCK)
        os.rename(hidden, path)

    def close(self):
        """Ends the producer. The file stays."""
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
