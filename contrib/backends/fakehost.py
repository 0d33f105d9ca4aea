"""A simulated host for percore's SysRoot: files of /proc and /sys for any number
of cores with known loads."""
import ctypes
import math
import multiprocessing
import os
import shutil
import signal
import tempfile
import time

TICKS_PER_S = 100


class Core:
    """A simulated core. `user` and `hidden` are shares of wall time, 0 to 1, for which
    the core is busy; each is a number or a function of the seconds since the start. The
    columns of /proc/stat include the busy time of `user`. They do not include that of
    `hidden`, neither as busy nor as idle time."""

    def __init__(self, user, hidden=0, deep=0.5):
        self.user, self.hidden = map(self._function, (user, hidden))
        self.deep = deep  # the share of idle time that is spent in the deeper C-state
        # Seconds since boot.
        self.user_s = self.idle_s = 1000.0

    @staticmethod
    def _function(share):
        return share if callable(share) else lambda t: share

    def busy(self, t=0):
        return self.user(t) + self.hidden(t)

    def advance(self, t, dt):
        self.user_s += self.user(t) * dt
        self.idle_s += (1 - self.busy(t)) * dt


class FakeHost:
    def __init__(self, cores, nodes=1):
        # The files are kept in memory, because renaming a file on a disk may block.
        memory = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        self.root = tempfile.mkdtemp(prefix='percore-host-', dir=memory)
        self.cores, self.nodes = cores, nodes
        self.start = self.now = time.monotonic()
        self.usage = 0
        self._process = multiprocessing.get_context('fork').Process(target=self._drive,
                                                                    daemon=True)
        self._lay_out()

    def __enter__(self):
        self._process.start()
        return self

    def __exit__(self, *unused):
        self._process.terminate()
        self._process.join()
        shutil.rmtree(self.root, ignore_errors=True)

    def _write(self, path, text):
        """Replaces the file atomically, because readers may open it at any time."""
        path = self.root + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + '.new', 'w') as file:
            file.write(text)
        os.rename(path + '.new', path)

    def _lay_out(self):
        last = len(self.cores) - 1
        cpu = '/sys/devices/system/cpu'
        for name in ('online', 'possible', 'present'):
            self._write(f'{cpu}/{name}', f'0-{last}\n')
        self._write(f'{cpu}/isolated', '\n')
        self._write(f'{cpu}/nohz_full', '(null)\n')
        self._write('/proc/loadavg', '0.50 0.40 0.30 2/345 6789\n')
        self._write('/proc/cpuinfo', 'processor\t: 0\nflags\t\t: fpu hypervisor\n\n')
        self._write('/sys/devices/system/node/online', f'0-{self.nodes - 1}\n')
        for node in range(self.nodes):
            first = len(self.cores) * node // self.nodes
            after = len(self.cores) * (node + 1) // self.nodes
            self._write(f'/sys/devices/system/node/node{node}/cpulist', f'{first}-{after - 1}\n')
            for core in range(first, after):
                self._write(f'{cpu}/cpu{core}/topology/thread_siblings_list', f'{core}\n')
        for core in range(len(self.cores)):
            for state, name in enumerate(('POLL', 'C1', 'C6')):
                self._write(f'{cpu}/cpu{core}/cpuidle/state{state}/name', name + '\n')
        self._update()

    def _update(self):
        before, self.now = self.now, time.monotonic()
        for core in self.cores:
            core.advance(self.now - self.start, self.now - before)
        ticks = [(int(core.user_s * TICKS_PER_S), int(core.idle_s * TICKS_PER_S))
                 for core in self.cores]
        rows = [f'cpu{number} {user} 0 0 {idle} 0 0 0 0 0 0\n'
                for number, (user, idle) in enumerate(ticks)]
        total = f'cpu  {sum(t[0] for t in ticks)} 0 0 {sum(t[1] for t in ticks)} 0 0 0 0 0 0\n'
        self._write('/proc/stat', total + ''.join(rows)
                    + 'ctxt 1\nbtime 1700000000\nprocesses 1\n'
                    'procs_running 3\nprocs_blocked 1\n')

    def _update_cstates(self):
        self.usage += 10
        for number, core in enumerate(self.cores):
            idle_us = core.idle_s * 1e6
            for state, share in enumerate((0, 1 - core.deep, core.deep)):
                folder = f'/sys/devices/system/cpu/cpu{number}/cpuidle/state{state}'
                self._write(f'{folder}/time', f'{int(idle_us * share)}\n')
                self._write(f'{folder}/usage', f'{self.usage if share else 0}\n')

    def _drive(self):
        """Updates the files until the process is terminated. Runs in a separate process
        with real-time priority, because a late update of /proc/stat would make loads
        wrong. Files of C-states may be slightly late and are numerous, so they are
        updated less often."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            pass
        turn = 0
        while True:
            self._update()
            if turn % 20 == 0:
                self._update_cstates()
            turn += 1
            time.sleep(0.01)


def pollers(cores):
    """Returns the numbers of the cores of example(cores) on which a fast path polls."""
    return range(cores - 4 - cores // 4, cores - 4)


def example(cores=16):
    """Returns `cores` simulated cores of a packet gateway: two for housekeeping;
    workers whose load rises and falls; pollers (a quarter of all cores), which are
    always busy; an overloaded core; a core that is busy now and then; an idle core; and
    a core with a load that the timer tick does not see."""

    def wave(middle, swing, period_s, phase):
        return lambda t: middle + swing * math.sin(2 * math.pi * (t / period_s + phase))

    def now_and_then(share, period_s, part):
        return lambda t: share if t % period_s < part * period_s else 0.02

    found = [Core(wave(0.12, 0.05, 37, 0)), Core(wave(0.18, 0.08, 53, 0.3))]
    workers = pollers(cores).start - 2
    found += [Core(wave(0.5, 0.3, 150, k / workers)) for k in range(workers)]
    found += [Core(0.998) for _ in pollers(cores)]
    found += [Core(0.965), Core(now_and_then(0.9, 70, 0.2)), Core(0.01),
              Core(0.03, hidden=now_and_then(0.75, 110, 0.4))]
    return found
