"""Simulates many hosts. Their values are invented, but resemble those that percore
would dispatch on each host. They are sent to the plugin unixsock of a real collectd."""
import math
import random
import statistics

# The kinds of hosts, and how many of every ten hosts are of each kind. Gateways poll on
# a quarter of their cores; the cores of batch hosts are nearly always busy.
KINDS = (('web', 6), ('gateway', 3), ('batch', 1))


class Host:
    def __init__(self, number, cores):
        slot = number % 10
        for self.kind, share in KINDS:
            if slot < share:
                break
            slot -= share
        self.name, self.cores = f'{self.kind}-{number + 1:03}', cores
        self.random = random.Random(number)
        self.middle = self.random.uniform(0.15, 0.6) if self.kind != 'batch' else 0.85
        self.phases = [self.random.random() for _ in range(cores)]
        self.pollers = range(cores // 4) if self.kind == 'gateway' else ()
        self.full = number % 20 == 9  # every core is nearly always busy
        self.drops = number % 20 == 7
        self.stuck = number % 40 == 18
        self.packets = self.dropped = 0

    def _wave(self, core, t, period_s):
        return math.sin(2 * math.pi * (t / period_s + self.phases[core]))

    def useful(self, core, t):
        return 100 * (0.5 + 0.35 * self._wave(core, t, 240) + 0.1 * self.drops)

    def load(self, core, t):
        if core in self.pollers:
            return 99.8
        if self.full:
            return 95 + 4 * self._wave(core, t, 300)
        return 100 * min(0.99, max(0.01, self.middle + 0.3 * self._wave(core, t, 180)))

    def room(self, core, t):
        return 100 - (self.useful(core, t) if core in self.pollers else self.load(core, t))

    def of_cores(self, t):
        """Yields (identifier, value) for each value of each core."""
        for core in range(self.cores):
            load = self.load(core, t)
            yield f'percore-{core}/percent-load', load
            yield f'percore-{core}/percent-load_peak', min(100, 1.1 * load + 2)
            yield f'percore-{core}/load', (load / 100,) * 3
            yield f'percore-{core}/percent-room', self.room(core, t)
            if core in self.pollers:
                yield f'percore-{core}/percent-useful', self.useful(core, t)

    def of_host(self, t, interval_s):
        loads = [self.load(core, t) for core in range(self.cores)]
        busy = sum(loads) / 100
        for figure, of in (('mean', statistics.fmean), ('min', min), ('max', max),
                           ('stddev', statistics.pstdev)):
            yield f'percore_host-all/percent-load_{figure}', of(loads)
        room = [self.room(core, t) for core in range(self.cores)]
        yield 'percore_host-all/percent-room_mean', statistics.fmean(room)
        yield 'percore_host-all/percent-room_min', min(room)
        for name, share in ('user', 0.7), ('system', 0.1), ('irq', 0.02), ('softirq', 0.1):
            yield f'percore_host-all/percent-{name}_mean', share * statistics.fmean(loads)
        yield 'percore_host-all/load', (busy,) * 3
        yield 'percore_host-all/load-runqueue', (1.1 * busy,) * 3
        yield 'percore_host-all/gauge-hidden', 1.5
        own = {'cores_online': self.cores, 'cores_without_value': 0}
        if self.pollers:
            own |= {'regions': 1, 'regions_silent': 0, 'regions_stale': 0,
                    'workers_stuck': int(self.stuck), 'regions_memory': 1e6}
            useful = [self.useful(core, t) for core in self.pollers]
            yield 'percore_host-all/percent-useful_mean', statistics.fmean(useful)
            self.packets += int(interval_s * 2000 * sum(useful))
            self.dropped += int(interval_s * 40 * max(0, max(useful) - 80)) if self.drops else 0
            yield 'percore_host_gateway_port_rx_packets-all/derive-eth0', self.packets
            yield 'percore_host_gateway_port_rx_drops-all/derive-eth0', self.dropped
        yield 'percore_host-self/percent-sampler_cpu', 0.2
        for name, value in own.items():
            yield f'percore_host-self/gauge-{name}', value


class Fleet:
    def __init__(self, hosts, cores=16):
        self.hosts = [Host(number, cores) for number in range(hosts)]

    def put(self, unixsock, time_s, interval_s, of_cores=True):
        for host in self.hosts:
            for identifier, value in host.of_host(time_s, interval_s):
                unixsock.put(host.name, identifier, time_s, value, interval_s)
            for identifier, value in host.of_cores(time_s) if of_cores else ():
                unixsock.put(host.name, identifier, time_s, value, interval_s)
        unixsock.flush()
