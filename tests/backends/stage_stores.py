"""Tests that known values, and percore's values of a simulated host, arrive in every
store exactly and under the right names."""
import contextlib
import os
import re
import statistics
import time

import known
import outputs
import stores
from alarms import Alarms
from fakehost import Core, FakeHost
from report import proves, skip
from restarts import Restarts
from servers import free_port, missing_package, sample
from unixsock import Unixsock

SECONDS = 12  # more than two windows of 60/13 s, so that load averages exist
FAKE = 'percore-test'
CORES = [Core(user=0.05), Core(user=0.15, hidden=0.1), Core(user=0.45, deep=0.25),
         Core(user=0.85)]
PERCORE_OPTIONS = '''
  SysRoot "{root}"
  Group "dataplane" "2-3"
  <Load>
    ReportSelf true
    SampleInterval 0.25
    ReportHidden true
    ReportTime true
    ReportFrequency true
    ReportCStates true
  </Load>
'''


def start_servers(context, exporter_ports):
    """Starts every server that is installed, and reports the other servers as skipped.
    Returns collectd's configuration without write_prometheus, and the stores."""
    stack, found, body = context.stack, [], outputs.queue()
    context.servers = {}

    def have(*programs):
        missing = [p for p in map(missing_package, programs) if p]
        if missing:
            skip(f'{programs[0]} stores all values', f'{missing[0]} is not installed')
        return not missing

    if have('prometheus'):  # start it first: it scrapes nothing for 5 s
        prometheus = context.servers['prometheus'] = stack.prometheus(*exporter_ports)
        found.append(stores.Prometheus(prometheus.url))
    if have('carbon', 'graphite-web', 'gunicorn'):
        carbon = stack.carbon(sample('storage-schemas.conf', {
            '10s:1d,1m:30d,10m:2y': '1s:1h'}) + '\n[others]\npattern = .*\nretentions = 5s:1h\n',
            sample('storage-aggregation.conf'))
        context.servers.update(carbon=carbon, graphite=stack.graphite_web(carbon))
        found.append(stores.Graphite(context.servers['graphite'].url))
        body += outputs.write_graphite(carbon.port)
    if have('influxdb'):
        influxdb = context.servers['influxdb'] = stack.influxdb()
        found += [stores.Influx(influxdb.url), stores.InfluxLines(influxdb.url, 'udp')]
        body += outputs.network(influxdb.collectd_port)
        body += outputs.write_influxdb_udp(influxdb.udp_port)
    if have('victoria-metrics'):
        victoria = context.servers['victoria'] = stack.victoria_metrics(*exporter_ports)
        found += [stores.VictoriaMetrics(victoria.url), stores.VictoriaGraphite(victoria.url)]
        body += outputs.write_graphite_node('victoria', victoria.graphite_port)
    if have('kcat'):
        broker = stack.kafka()
        found.append(stores.Kafka(broker.brokers))
        body += outputs.write_kafka(broker.brokers)
    if have('rrdtool'):
        found.append(stores.Rrd(os.path.join(context.folder, 'rrd')))
        body += outputs.rrdtool(os.path.join(context.folder, 'rrd'))
    context.csv = stores.Csv(os.path.join(context.folder, 'csv'))
    body += outputs.csv(context.csv.folder) + outputs.threshold()
    for server in context.servers.values():
        server.ready()
    return body, found + [context.csv]


def expected(metric, index, k, rates):
    """Returns the value that a store should contain for second k, or None if there is
    no earlier value from which to compute a rate."""
    value = metric.value(k)
    if isinstance(value, tuple):
        return value[index]
    if not (metric.counter and rates):
        return value
    return None if k == 0 else value - metric.value(k - 1)


def check_known(store, first):
    """Checks that every value in the store is the known value of its second, and that
    the store contains enough values."""
    sampled = isinstance(store, stores.Prometheus) and not store.rates
    compared = 0
    for metric in known.METRICS:
        for index in range(len(stores.value_names(metric))):
            series = store.series(known.HOST, metric, index)
            # Accept fewer values from Prometheus, whose scrapes are not synchronised
            # with collectd, and from a round robin archive, which lacks its first and
            # last steps.
            least = SECONDS - 6 if sampled or isinstance(store, stores.Rrd) else SECONDS - 1
            assert len(series) >= least, \
                f'{store.name} has {len(series)} values of {metric} [{index}] instead of {least}'
            for second, value in series.items():
                want = expected(metric, index, second - first, store.rates)
                assert want is not None and abs(value - want) <= 1e-6 * max(1, abs(want)), \
                    f'{store.name}: {metric} [{index}] is {value} instead of {want} ' \
                    f'in second {second - first}'
                compared += 1
    return compared


def seconds_off(store, csv):
    """Returns the seconds for which this store may contain the value of another second.
    If percore takes a value late, it is stored with its true time, which collectd
    rounds. The next second may then receive two values, and rrdtool drops the later one
    and all values that arrive with it."""
    if not isinstance(store, (stores.Rrd, stores.VictoriaGraphite)):
        return set()
    lateness = csv.series(FAKE, known.Metric('percore_host', 'self', 'duration', 'lateness', None))
    return {second + more for second, late_s in lateness.items() if late_s > 0.4
            for more in range(3)}


def check_fake(store, csv):
    """Checks that the store contains the same values as the files of the csv plugin."""
    compared, late = 0, seconds_off(store, csv)
    for metric in known.METRICS:
        if metric.type in ('cpufreq', 'latency') or metric.counter or \
                metric.type_instance in ('cores_mperf', 'hardirq') or \
                metric.type_instance.startswith('softirq_'):
            continue  # needs a real processor, or is not a rate in every store
        if metric.plugin not in ('percore', 'percore_host') or \
                'useful' in metric.type_instance:
            continue  # the simulated host has no fast path
        if metric.identifier.startswith('percore_host-self'):
            continue  # these values change every second; the known values cover them
        for index in range(len(stores.value_names(metric))):
            truth = csv.series(FAKE, metric, index)
            assert truth, f'csv has no {metric}'
            series = store.series(FAKE, metric, index)
            common = set(series) & set(truth)
            assert len(common) >= min(3, len(truth) - 2), \
                f'{store.name} has {len(series)} values of {metric}, and csv has {len(truth)}'
            for second in common - late:
                want = truth[second]
                assert abs(series[second] - want) <= 2e-5 * max(1, abs(want)), \
                    f'{store.name}: {metric} at {second} is {series[second]} instead of {want}'
                compared += 1
    return compared


def check_loads(csv):
    for number, core in enumerate(CORES):
        for metric in known.METRICS:
            if metric.identifier != f'percore-{number}/percent-load':
                continue
            # Skip the first values, because the first interval may be shorter.
            values = list(csv.series(FAKE, metric).values())[2:]
            assert len(values) >= 5, f'core {number} has too few values: {values}'
            # Compare the median, because a pause of the machine makes the value of one
            # second wrong, and the next second does not correct it.
            middle = statistics.median(values)
            assert abs(middle - 100 * core.busy()) < 1.5, \
                f'core {number} shows {middle:.1f} % instead of ' \
                f'{100 * core.busy():.0f} %: {values}'


def check_reset(store):
    """Checks that the store shows neither a spike nor a step back when a counter
    restarts."""
    metric = known.Metric('percore_host', 'self', 'derive', 'reset_test', None, True)
    series = store.series(known.HOST, metric)
    if store.rates:
        assert series and all(v == 100 for v in series.values()), f'{store.name}: {series}'
        return
    if isinstance(store, stores.Influx):
        found = store.query('SELECT non_negative_derivative("value", 1s) FROM '
                            f'percore_host_value WHERE {store.where(known.HOST, metric)}')
        rates = [v for _, v in found[0]['values']]
    else:
        selector = store.selector(known.HOST, metric, 0)
        answer = store.query(f'max_over_time(rate({selector}[5s])[5m:1s])')
        rates = [float(answer[0]['value'][1])]
    assert rates and max(rates) <= 200, f'{store.name}: {rates}'


def wait_for_scrapes(found, targets, patience_s=60):
    """Waits until Prometheus scrapes `targets` targets, which takes a few seconds."""
    deadline = time.monotonic() + patience_s
    for store in found:
        while isinstance(store, stores.Prometheus) and time.monotonic() < deadline and \
                [target['value'][1] for target in store.query('up')].count('1') < targets:
            time.sleep(0.1)


def feed(unixsock, beside):
    """Sends known values at whole seconds, for SECONDS seconds. In each second, calls
    step() of each test in `beside`; at the end, calls finish() of each test. Returns
    the first second."""
    first = int(time.time()) + 1
    for k in range(SECONDS):
        time.sleep(max(0, first + k - time.time()))
        known.put_second(unixsock, k, first + k)
        # The counter has the values 5000, 5100 ... and, after a restart, 0, 100 ...
        count = 5000 + 100 * k if k < SECONDS // 2 else 100 * (k - SECONDS // 2)
        unixsock.put(known.HOST, 'percore_host-self/derive-reset_test', first + k, count)
        unixsock.flush()
        for other in beside:
            other.step(k)
    for other in beside:
        other.finish()
    # Allow time for FlushInterval, for a scrape, and for InfluxDB to write its batches.
    time.sleep(2.5)
    unixsock.flush_outputs()
    time.sleep(0.5)
    unixsock.close()
    return first


def run(context):
    exporter_ports = free_port(), free_port()
    body, found = start_servers(context, exporter_ports)
    context.stores = {type(store).__name__: store for store in found}
    context.fake = context.until_end(FakeHost(CORES, nodes=2))
    if context.plugin_folder:
        body += outputs.percore(context.plugin_folder, context.collectd_folder,
                                PERCORE_OPTIONS.format(root=context.fake.root))
    # The servers of these two tests end when the `with` block ends.
    with contextlib.ExitStack() as end:
        restarts = Restarts(context, found,
                            body + outputs.write_prometheus(exporter_ports[1]),
                            end.enter_context)
        alarms = Alarms(context, end.enter_context)
        collectd = context.collectd = context.stack.collectd(
            # Known values pause while the other collectd restarts, so this collectd
            # must remember their series for longer.
            outputs.LONG_MEMORY + body + outputs.write_prometheus(exporter_ports[0]), host=FAKE)
        unixsock = Unixsock(collectd)
        wait_for_scrapes(found, 1 if restarts.missing else 2)
        first = context.first = feed(unixsock, [restarts, alarms])
    check_stores(context, found, first)
    restarts.check(found, first)
    check_thresholds(collectd)
    alarms.check()


def check_stores(context, found, first):
    for store in found:
        with proves(f'{store.name} has every known value under its name, and no other value'):
            check_known(store, first)
    for store in found:
        with proves(f'a counter that restarts leaves no spike in {store.name}'):
            check_reset(store)
    if not context.plugin_folder:
        skip('percore\'s own values are in every store', 'percore.so is not built')
        return
    with proves('percore reports the known loads of a simulated host'):
        check_loads(context.csv)
    for store in found[:-1]:
        with proves(f'{store.name} has the same values of percore as csv'):
            check_fake(store, context.csv)


def check_thresholds(collectd):
    """Checks the notifications for the known values that are beyond the limits of
    threshold.conf: the room of a core and two counters."""
    with open(collectd.log) as log:
        found = re.findall(r'severity = (?:WARNING|FAILURE), host = (\S+), plugin = (\S+), '
                           r'plugin_instance = (\S+), type = (\w+)'
                           r'.*threshold of', log.read())
    with proves('threshold.conf warns once of a core without room, once of rows that are left '
                'out, once of new ones, and of nothing else'):
        found = sorted(entry for entry in found if entry[0] == known.HOST)
        assert found == [(known.HOST, 'percore', '3', 'percent'),
                         (known.HOST, 'percore_host', 'self', 'derive'),
                         (known.HOST, 'percore_host', 'self', 'derive')], found
