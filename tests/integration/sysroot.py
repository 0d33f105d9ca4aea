"""Trees of /proc and /sys for the option SysRoot. The machines are invented:
these files test parsing, arithmetic and naming, not measurement."""

import os
import shutil
import tempfile
import threading
import time

TICK_HZ = os.sysconf("SC_CLK_TCK")


class SysRoot:
    def __init__(self, cores, nodes=1):
        # The tree is in memory, because writing files to a disk 500 times a second
        # would load a core.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix="percore-sysroot-",
                                          dir=memory)
        os.chmod(self.directory, 0o755)
        self.path = f"{self.directory}/root"  # a link to the current tree
        self.trees = 0
        self.idle_s = {}
        self.lock = threading.Lock()  # for the tree and idle_s
        self.ended = threading.Event()
        self.clock = threading.Thread(target=self.run_clock)
        os.mkdir(self.next_tree())
        self.switch()
        self.cores = cores
        self.nodes = nodes

    def remove(self):
        self.ended.set()
        if self.clock.is_alive():
            self.clock.join()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def next_tree(self):
        return f"{self.directory}/{self.trees + 1}"

    def switch(self):
        """Makes the link point to the next tree. The previous tree remains, because
        readers may still use it."""
        link = f"{self.directory}/link"
        os.symlink(self.next_tree(), link)
        os.rename(link, self.path)
        self.trees += 1

    def write(self, path, text, tree=None):
        """Replaces a file atomically, so that no reader sees only a part of `text`."""
        path = (tree or self.path) + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(f"{path}.new", path)

    def write_machine(self):
        """Writes the files from which percore computes a load for each core. Idle times
        are written first, so that a reader never finds a core without idle time."""
        self.write_stat({core: 0 for core in range(self.cores)})
        everyone = f"0-{self.cores - 1}\n"
        for name in ("online", "possible", "present"):
            self.write(f"/sys/devices/system/cpu/{name}", everyone)
        for core in range(self.cores):
            self.write(f"/sys/devices/system/cpu/cpu{core}/topology/"
                       "thread_siblings_list", f"{core}\n")
        for node in range(self.nodes):
            first = node * self.cores // self.nodes
            last = (node + 1) * self.cores // self.nodes - 1
            self.write(f"/sys/devices/system/node/node{node}/cpulist",
                       f"{first}-{last}\n")
        self.write("/sys/devices/system/node/online",
                   f"0-{self.nodes - 1}\n" if self.nodes > 1 else "0\n")
        self.write("/proc/loadavg", "1.00 2.00 3.00 1/100 1234\n")
        self.write("/proc/cpuinfo",
                   "".join(f"processor\t: {core}\nflags\t\t: fpu tsc\n\n"
                           for core in range(self.cores)))

    def write_online(self, cores):
        """Sets the number of online cores. Readers see all files change in one step, as
        in a kernel."""
        with self.lock:
            tree = self.next_tree()
            shutil.copytree(self.path, tree)
            self.idle_s = {core: 0 for core in range(cores)}
            self.write("/sys/devices/system/cpu/online", f"0-{cores - 1}\n", tree)
            self.write("/proc/stat", self.stat(self.idle_s), tree)
            self.switch()

    def write_stat(self, idle_s):
        with self.lock:
            self.idle_s = idle_s
            self.write("/proc/stat", self.stat(self.idle_s))

    def start_clock(self):
        """Lets the columns of /proc/stat advance, because those that stand still are not
        a kernel's. Ends with the tree."""
        self.clock.start()

    def run_clock(self):
        while not self.ended.wait(0.25):
            with self.lock:
                self.write("/proc/stat", self.stat(self.idle_s))

    @staticmethod
    def stat(idle_s):
        """Returns the text of /proc/stat. idle_s: for each core, its idle time since
        boot in seconds."""
        busy = int(time.monotonic() * TICK_HZ)
        rows = [f"cpu{core} {busy} 0 50 {int(idle * TICK_HZ)} 10 0 5 0 0 0\n"
                for core, idle in idle_s.items()]
        return (f"cpu  100 0 50 1000 10 0 5 0 0 0\n{''.join(rows)}"
                "intr 0\nctxt 0\nbtime 1700000000\nprocesses 1\n"
                "procs_running 3\nprocs_blocked 1\n")

    def write_cstate(self, core, entries, time_us):
        """Writes the files of one idle state of a core."""
        at = f"/sys/devices/system/cpu/cpu{core}/cpuidle/state0"
        self.write(f"{at}/name", "C1\n")
        self.write(f"{at}/desc", "HALT\n")
        self.write(f"{at}/time", f"{int(time_us)}\n")
        self.write(f"{at}/usage", f"{int(entries)}\n")
