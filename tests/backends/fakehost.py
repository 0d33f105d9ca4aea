"""A host made of files, for percore's SysRoot: as many cores as wanted, each
with a load that is known because this module makes it."""
import ctypes
import multiprocessing
import os
import signal
import time

TICKS_PER_S = 100


class Core:
    """Shares of wall time, 0 to 1. What `user` and `idle` leave of 1 is in no
    column: percore counts it as load, and calls it hidden and unaccounted."""

    def __init__(self, user, idle=None, deep=0.5):
        self.user = user
        self.idle = 1 - user if idle is None else idle
        self.deep = deep  # share of the idle time in the deeper C-state

    @property
    def busy(self):
        return 1 - self.idle


class FakeHost:
    def __init__(self, root, cores, nodes=1):
        self.root, self.cores, self.nodes = os.path.abspath(root), cores, nodes
        self.start = time.monotonic()
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

    def _write(self, path, text):
        """As a whole or not at all: readers open it at any time."""
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
                self._write(f'{cpu}/cpu{core}/topology/physical_package_id', f'{node}\n')
                self._write(f'{cpu}/cpu{core}/topology/thread_siblings_list', f'{core}\n')
        for core in range(len(self.cores)):
            for state, name in enumerate(('POLL', 'C1', 'C6')):
                self._write(f'{cpu}/cpu{core}/cpuidle/state{state}/name', name + '\n')
        self._update()

    def _update(self):
        elapsed_s = time.monotonic() - self.start
        ticks = [(int((1000 + elapsed_s * core.user) * TICKS_PER_S),
                  int((1000 + elapsed_s * core.idle) * TICKS_PER_S)) for core in self.cores]
        rows = [f'cpu{number} {user} 0 0 {idle} 0 0 0 0 0 0\n'
                for number, (user, idle) in enumerate(ticks)]
        total = f'cpu  {sum(t[0] for t in ticks)} 0 0 {sum(t[1] for t in ticks)} 0 0 0 0 0 0\n'
        self._write('/proc/stat', total + ''.join(rows)
                    + 'ctxt 1\nbtime 1700000000\nprocesses 1\n'
                    'procs_running 3\nprocs_blocked 1\n')

    def _update_cstates(self):
        elapsed_us = (time.monotonic() - self.start) * 1e6
        self.usage += 10
        for number, core in enumerate(self.cores):
            idle_us = elapsed_us * core.idle
            for state, share in enumerate((0, 1 - core.deep, core.deep)):
                folder = f'/sys/devices/system/cpu/cpu{number}/cpuidle/state{state}'
                self._write(f'{folder}/time', f'{int(idle_us * share)}\n')
                self._write(f'{folder}/usage', f'{self.usage if share else 0}\n')

    def _drive(self):
        """A process of its own: /proc/stat as often as its unit changes, and on
        time whatever else runs, for what is late is wrong. C-states are many
        files, and may be a little late."""
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
