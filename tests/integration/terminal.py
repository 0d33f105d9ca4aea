"""Runs commands on a terminal, where their output differs from their output in a
pipe."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from harness import Lateness


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                struct.pack("HHHH", rows, columns, 0, 0))


HOME = b"\033[H"  # begins each page


def read_some(terminal, seconds):
    """Returns the data that arrive within `seconds` seconds, None if none arrive, or
    b"" if the other end is closed."""
    if not select.select([terminal], [], [], seconds)[0]:
        return None
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def on_terminal(command, seconds, environment=None, halfway=None):
    """Runs a command on a terminal of 24 lines, and sends Ctrl-C when `seconds` have
    passed and the command has printed one page per second. Returns all output, the exit
    status, and how long the command took to end, minus the machine's delays.
    If `halfway` is given, halfway(terminal) is called after half of the time, and
    Ctrl-C is sent only after a page that began after that call."""
    pid, terminal = pty.fork()
    if pid == 0:
        resize(0, 24, 80)
        os.execve(command[0], command,
                  {**(environment or os.environ), "TERM": "xterm"})
    written = b""
    lateness = Lateness()
    begin = time.monotonic()
    interrupted = None
    pages = seconds  # Ctrl-C is sent after more than `pages` pages
    while True:
        passed = time.monotonic() - begin
        if halfway is not None and passed > seconds / 2:
            halfway(terminal)
            halfway = None
            while data := read_some(terminal, 0):
                written += data
            # A page that began earlier may still arrive.
            pages = max(pages, written.count(HOME) + 1)
        if interrupted is None and passed > seconds and (
                written.count(HOME) > pages or passed > seconds + 10):
            os.write(terminal, b"\003")  # Ctrl-C
            interrupted = time.monotonic()
        if passed > seconds + 20:
            os.kill(pid, signal.SIGKILL)
        data = read_some(terminal, 0.1)
        if data == b"":
            break
        written += data or b""
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    ended = time.monotonic()
    interrupted = interrupted or ended
    took = ended - interrupted - lateness.within(interrupted, ended)
    lateness.end()
    return written.decode(), os.waitstatus_to_exitcode(status), took
