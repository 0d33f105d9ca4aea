"""Known values: one for each identifier that percore dispatches (see METRICS in
collectd-percore(5)), put into collectd through unixsock. They let a test compare every
value in every store exactly, on any machine, regardless of its processor's counters."""
import re

HOST = 'known.example'
# Has the same values, but only those that are dispatched by default, without regions.
PLAIN = 'plain.example'
CORES = range(4)
SETS = ('all', 'node0', 'dataplane')
CLASSES = ('user', 'nice', 'system', 'irq', 'softirq', 'guest', 'iowait')
DEFAULTS = re.compile(r'percore-\d+/(load|percent-(load|room))|percore_host-all/(load(-runqueue)?'
                      r'|gauge-hidden|percent-(load_\w+|room_\w+|(user|system|irq|softirq)_mean))'
                      r'|percore_host-self/(gauge-cores_(online|without_value)|percent-sampler_cpu)')


class Metric:
    """An identifier with known values. `value` is a function that takes the seconds
    since the start and returns a float, three floats (type load), or an int for a
    counter."""

    def __init__(self, plugin, instance, type, type_instance, value, counter=False):
        self.plugin, self.instance = plugin, instance
        self.type, self.type_instance = type, type_instance
        self.value, self.counter = value, counter

    @property
    def identifier(self):
        tail = f'-{self.type_instance}' if self.type_instance else ''
        return f'{self.plugin}-{self.instance}/{self.type}{tail}'

    def __repr__(self):
        return self.identifier


def _core_metrics(core):
    def metric(type, type_instance, value, counter=False):
        return Metric('percore', str(core), type, type_instance, value, counter)

    # The last core has less room than the limit of threshold.conf.
    busy = 30 * core + 5.5
    yield metric('percent', 'load', lambda k: busy + k % 3)
    yield metric('percent', 'load_peak', lambda k: busy + 2 + k % 3)
    yield metric('percent', 'load_trough', lambda k: busy / 2)
    yield metric('load', '', lambda k: (busy / 100, 0.31 * core, busy / 256))
    yield metric('gauge', 'hidden', lambda k: core - 1.25)
    yield metric('percent', 'steal', lambda k: 0.25 * core)
    yield metric('percent', 'useful', lambda k: 12.5 * core)
    yield metric('percent', 'room', lambda k: 100 - busy - k % 3)
    for share, name in enumerate(CLASSES):
        yield metric('percent', name, lambda k, share=share: share + core / 4)
    for name, share in (('hardirq', 1.5), ('softirq_all', 12.5),
                        ('softirq_net_rx', 9.25), ('softirq_timer', 3.25)):
        yield metric('percent', name, lambda k, share=share: share + core / 8)
    yield metric('cpufreq', '', lambda k: 2.5e9 + 1e8 * core)
    for name, latency_s in (('wake_p50', 2e-5), ('wake_p99', 4e-5), ('wake_p99_9', 8e-5),
                            ('intr_p50', 3e-5), ('intr_p99', 5e-5), ('intr_p99_9', 9e-5),
                            ('silent_p50', 2e-3)):
        yield metric('latency', f'timer_{name}',
                     lambda k, latency_s=latency_s: latency_s * (core + 1))
    for name, latency_s in (('C1_p50', 2e-6), ('C1_p99', 4e-6), ('C6_p50', 9e-5),
                            ('C6_p99', 2e-4)):
        yield metric('latency', f'cstate_{name}',
                     lambda k, latency_s=latency_s: latency_s * (core + 1))
    for name, share in (('cstate_C1', 20.0), ('cstate_C6', 30.0), ('idle_poll', 1.5)):
        yield metric('percent', name, lambda k, share=share: share + core)
        yield metric('operations', name, lambda k, share=share: int(10 * share) * (k + 1), True)


def _set_metrics(name):
    for figure, value in (('load_mean', 40.0), ('load_min', 5.5), ('load_max', 95.5),
                          ('load_stddev', 22.25), ('room_mean', 50.0), ('room_min', 2.5),
                          ('useful_mean', 18.75)):
        yield Metric('percore_host', name, 'percent', figure,
                     lambda k, value=value: value + k % 2)
    for share, column in enumerate(CLASSES):
        yield Metric('percore_host', name, 'percent', f'{column}_mean',
                     lambda k, share=share: share + 0.375)


def _host_metrics():
    def metric(type, type_instance, value):
        return Metric('percore_host', 'all', type, type_instance, value)

    yield metric('load', '', lambda k: (1.42, 1.25, 1.125))
    yield metric('load', 'runqueue', lambda k: (2.5, 2.25, 2.0))
    yield metric('gauge', 'hidden', lambda k: -0.5)
    yield metric('percent', 'steal', lambda k: 0.375)


def _self_metrics():
    def metric(type, type_instance, value, counter=False):
        return Metric('percore_host', 'self', type, type_instance, value, counter)

    for name, value in (('cores_online', 4.0), ('cores_without_value', 0.0),
                        ('cores_unproven', 1.0), ('cores_tick_sampled', 0.0),
                        ('cores_mperf', 3.0), ('cores_idle', 1.0), ('regions', 1.0),
                        ('regions_silent', 0.0), ('regions_stale', 0.0),
                        ('workers_stuck', 0.0), ('regions_memory', 4e8)):
        yield metric('gauge', name, lambda k, value=value: value)
    for rate, name in enumerate(('windows_discarded', 'errors', 'reopens', 'source_changes',
                                 'snapshots_dropped', 'rows_left_out', 'new_rows_left_out',
                                 'attaches_refused', 'row_adds_refused', 'wake_probes')):
        yield metric('derive', name, lambda k, rate=rate: 1000 + rate * k, True)
    yield metric('duration', 'lateness', lambda k: 0.0005)
    for name, latency_s in ('C1', 2e-6), ('C6', 1.33e-4):
        yield metric('latency', f'cstate_{name}_advertised',
                     lambda k, latency_s=latency_s: latency_s)
    yield metric('duration', 'sample_cost', lambda k: 0.000125)
    for name in ('sampler_cpu', 'wake_cpu'):
        yield metric('percent', name, lambda k: 0.0625)


def _region_metrics():
    """Yields the metrics of a region "gtpu", whose table "port" contains counters for
    two rows and a histogram for one row."""
    for field, step in (('rx_packets', 1000), ('rx_drops', 3), ('tx_drops', 2),
                        ('rx_errors', 1)):
        for row, factor in (('eth0', 1), ('eth1', 2)):
            for core in CORES:
                yield Metric(f'percore_gtpu_port_{field}', str(core), 'derive', row,
                             lambda k, n=step * factor * (core + 1): 50 + n * k, True)
            yield Metric(f'percore_host_gtpu_port_{field}', 'all', 'derive', row,
                         lambda k, n=step * factor * 10: 200 + n * k, True)
    yield Metric('percore_host_gtpu_port_packet_time', 'all', 'gauge', 'eth0_p99',
                 lambda k: 812.5)


METRICS = [metric for core in CORES for metric in _core_metrics(core)]
METRICS += [metric for name in SETS for metric in _set_metrics(name)]
METRICS += [*_host_metrics(), *_self_metrics(), *_region_metrics()]


def put_second(unixsock, k, time_s):
    """Sends the values of all identifiers for second k."""
    for metric in METRICS:
        unixsock.put(HOST, metric.identifier, time_s, metric.value(k))
        if DEFAULTS.fullmatch(metric.identifier):
            unixsock.put(PLAIN, metric.identifier, time_s, metric.value(k))
    unixsock.flush()
