"""Runs tests/integration/producer, which reads commands. The comment at the top of its
source lists the commands."""
import os
import signal
import struct
import subprocess

import servers

PORT, PACKETS = 1, 0  # table and column of the producer's schema 1


def missing(context):
    """Returns the reason why the producer is unavailable, or None."""
    if not context.plugin_folder:
        return 'percore.so is not built'
    if not os.access(program(context), os.X_OK):
        return 'tests/integration/producer is not built (make check TESTS=)'
    return None


def program(context):
    return os.path.join(os.path.dirname(context.plugin_folder), 'tests/integration/producer')


class FastPath:
    """One process of the producer."""

    def __init__(self, context, region, folder, schema='1'):
        self.process = subprocess.Popen(
            [program(context), region, schema], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=os.environ | {'PERCORE_RUNTIME_DIR': folder},
            preexec_fn=servers.end_with_parent)
        self._answer('its start')

    def _answer(self, what):
        line = self.process.stdout.readline().strip()
        if not line.endswith('ok'):
            raise RuntimeError(f'the producer answered {line!r} to {what}')

    def tell(self, *lines):
        for line in lines:
            self.process.stdin.write(line + '\n')
            self.process.stdin.flush()
            self._answer(line)

    def signal(self, number):
        self.process.send_signal(number)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        """Kills the process with SIGKILL."""
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Tally:
    """Creates and reads a file to which a producer writes the number of packets that it
    has counted or is about to count. The file survives if the producer is killed."""

    def __init__(self, path):
        self.path = path
        with open(path, 'wb') as file:
            file.write(bytes(64 * 8))

    def packets(self):
        with open(self.path, 'rb') as file:
            return sum(struct.unpack('64Q', file.read()))
