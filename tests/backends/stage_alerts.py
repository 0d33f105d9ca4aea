"""Tests that each rule of prometheus-rules.yml fires in its case and in no other case.
Two tests show this: promtool's tests, which simulate time, with the shipped durations;
and a real Prometheus that scrapes a real collectd, with seconds instead of minutes."""
import json
import os
import re
import subprocess
import time
import urllib.request

import outputs
import report
import servers
from report import proves, skip
from unixsock import Unixsock

RULES = 'prometheus-rules.yml'
INTERVAL_S = 30  # of promtool's tests
MINUTES = 40
EVENT_MINUTE = 20  # interval 0, at which the events of some cases happen


def grows(step):
    """A counter that grows by `step` in each interval."""
    return lambda k: 1000000 + step * k


# The values of a healthy host with two cores and a region "gtpu". Core 1 polls.
HEALTHY = {
    'percore-0/load': (0.5, 0.5, 0.5),
    'percore-1/load': (1.0, 1.0, 1.0),
    'percore-0/percent-room': 50.0,
    'percore-1/percent-room': 60.0,
    'percore_host-all/percent-room_mean': 55.0,
    'percore_host-isolated/percent-room_mean': 60.0,
    'percore_host-node0/percent-room_mean': 9.0,  # of no interest
    'percore-0/latency-timer_wake_p50': 2e-6,
    'percore-0/latency-cstate_C1_p50': 2e-6,
    'percore-0/latency-cstate_C6_p50': 1e-4,
    'percore_host-self/gauge-cores_online': 2.0,
    'percore_host-self/gauge-cores_unproven': 0.0,
    'percore_host-self/gauge-cores_without_value': 0.0,
    'percore_host-self/gauge-regions': 2.0,
    'percore_host-self/gauge-regions_silent': 0.0,
    'percore_host-self/gauge-regions_stale': 0.0,
    'percore_host-self/derive-attaches_refused': grows(0),
    'percore_host-self/derive-row_adds_refused': grows(0),
    'percore_host-self/derive-rows_left_out': grows(0),
    'percore_host-self/derive-new_rows_left_out': grows(0),
    'percore_host-self/derive-snapshots_dropped': grows(0),
    'percore_host-self/gauge-workers_stuck': 0.0,
    'percore_host_gtpu_port_rx_packets-all/derive-port:eth0|queue:3': grows(1000),
    'percore_host_gtpu_port_rx_drops-all/derive-port:eth0|queue:3': grows(0),
    'percore_host_gtpu_port_rx_errors-all/derive-port:eth0|queue:3': grows(2),
    'percore_host_gtpu_port_delay-all/gauge-port:eth0|queue:3_p50': 102.5,
    'percore_host_gtpu_port_delay-all/gauge-port:eth0|queue:3_p99': 812.5,
    'percore_host_gtpu_port_delay-all/derive-port:eth0|queue:3_le_1000': grows(40),
    'percore_host_gtpu_port_delay-all/derive-port:eth0|queue:3_le_inf': grows(50),
    'percore_host_gtpu_port_delay-all/gauge-port:eth0|queue:3_max': 950.0,
    'percore_host_gtpu_port_queued-all/gauge-port:eth0|queue:3': 7.0,
    'percore_gtpu_port_rx_packets-1@east/derive-port:eth0|queue:3': grows(500),
}
# For each host, the values that differ from HEALTHY, and the alerts that must fire.
CASES = {
    'healthy': ({}, []),
    'nearly-full': ({'percore-0/percent-room': 11.0,
                     'percore_host-all/percent-room_mean': 11.0}, []),
    'full-core': ({'percore-0/percent-room': 5.0}, ['PercoreCoreWithoutRoom']),
    'full-host': ({'percore_host-all/percent-room_mean': 9.0}, ['PercoreHostWithoutRoom']),
    'full-set': ({'percore_host-isolated/percent-room_mean': 9.0}, ['PercoreHostWithoutRoom']),
    # Probes meet the core in C6 more often than in C1.
    'other-mix': ({'percore-0/latency-timer_wake_p50':
                   lambda k: 2e-6 if k < 0 else 1e-4}, []),
    'dearer': ({'percore-0/latency-cstate_C6_p50':
                lambda k: 1e-4 if k < 0 else 1.7e-4}, ['PercoreIdleExitSlower']),
    'hardly-dearer': ({'percore-0/latency-cstate_C1_p50':
                       lambda k: 2e-6 if k < 0 else 6e-6}, []),
    'silent': ({'percore_host-self/gauge-regions_silent': 1.0,
                'percore_host-self/gauge-workers_stuck': 1.0}, ['PercoreProducerStuck']),
    'silent-without-workers': ({'percore_host-self/gauge-regions_silent': 1.0},
                               ['PercoreProducerStuck']),
    'gone': ({'percore_host-self/gauge-regions': lambda k: 2.0 if k < 0 else 1.0},
             ['PercoreRegionGone']),
    'refused': ({'percore_host-self/derive-attaches_refused': grows(1)}, ['PercoreCountsLost']),
    'full-table': ({'percore_host-self/derive-row_adds_refused': grows(1)},
                   ['PercoreCountsLost']),
    'left-out': ({'percore_host-self/derive-rows_left_out': grows(1)},
                 ['PercoreValuesLeftOut']),
    'new-names': ({'percore_host-self/derive-new_rows_left_out': grows(1)},
                  ['PercoreValuesLeftOut']),
    'late': ({'percore_host-self/derive-snapshots_dropped': grows(1)}, ['PercoreValuesLeftOut']),
    'drops': ({'percore_host_gtpu_port_rx_drops-all/derive-port:eth0|queue:3': grows(1)},
              ['PercoreDrops']),
    'counts-anew': ({'percore_host_gtpu_port_rx_drops-all/derive-port:eth0|queue:3':
                     lambda k: 1000 if k < 0 else 0}, []),
    'stuck': ({'percore_host-self/gauge-workers_stuck': 1.0}, ['PercoreProducerStuck']),
    'stale': ({'percore_host-self/gauge-workers_stuck': 2.0,
               'percore_host-self/gauge-regions_stale': 1.0}, ['PercoreProducerStuck']),
    'unproven': ({'percore_host-self/gauge-cores_unproven': 2.0}, ['PercoreCoresWithoutLoad']),
    'without-value': ({'percore_host-self/gauge-cores_without_value': 1.0},
                      ['PercoreCoresWithoutLoad']),
}
# This case takes five minutes, for which Prometheus repeats the last value.
SLOW_CASES = {
    'off': ({name: lambda k, value=value: value_at(value, k) if k < 0 else None
             for name, value in HEALTHY.items()}, ['PercoreHostSilent']),
}
# Values beyond a limit for slightly less time than the rule requires: (changes,
# minutes).
BRIEF = [({'percore-0/latency-cstate_C6_p50':
           lambda k: 1e-4 if k < -EVENT_MINUTE * 30 // INTERVAL_S else 1.7e-4}, 19),
         ({'percore-0/percent-room': 5.0}, 9),
         ({'percore_host-all/percent-room_mean': 5.0}, 9),
         ({'percore_host-self/gauge-regions_silent': 1.0}, 0.5),
         ({'percore_host-self/gauge-cores_unproven': 1.0}, 4),
         ({'percore_host-self/gauge-cores_without_value': 1.0}, 4),
         ({'percore_host-self/gauge-workers_stuck': 1.0}, 0.5),
         ({'percore_host-self/gauge-regions_stale': 1.0}, 0.5)]


def value_at(values, k):
    """Returns the value at interval k; None: there is none."""
    return values(k) if callable(values) else values


# -- promtool -----------------------------------------------------------------


QUANTILES = {'p50': '0.5', 'p90': '0.9', 'p99': '0.99', 'max': '1'}


def labelled(host, identifier):
    """Returns the name and the labels of the series to which prometheus.yml relabels
    this identifier. Does not cover the type load, whose three values become three
    series."""
    plugin, instance, type, type_instance = re.fullmatch(
        r'([^-]+)-([^/]+)/([^-]+)-?(.*)', identifier).groups()
    where = 'set' if plugin.startswith('percore_host') else 'core'
    instance, _, region_instance = instance.partition('@')
    labels = {'host': host, where: instance}
    if region_instance:
        labels['region_instance'] = region_instance
    name = f'collectd_{plugin}_{type}' + ('_total' if type == 'derive' else '')
    region = re.fullmatch(r'percore_(?:host_)?([a-z0-9]+)_([a-z0-9]+)_([a-z0-9_]+)', plugin)
    if region:
        labels |= dict(zip(('region', 'table', 'field'), region.groups()))
        row, percentile, bound = re.fullmatch(
            r'(.*?)(?:_(p50|p90|p99|max)|_le_(\d+|inf))?', type_instance).groups()
        labels['row'] = row
        labels |= dict(pair.split(':') for pair in row.split('|') if ':' in pair)
        if percentile:
            labels['quantile'] = QUANTILES[percentile]
        if bound:
            labels['le'] = '+Inf' if bound == 'inf' else bound
    elif type_instance:
        labels['type'] = type_instance
    return name, labels


def input_series(host, changes, brief_k=None):
    """Yields the input series in promtool's format. If brief_k is given, values are
    healthy again after brief_k intervals."""
    begin = -EVENT_MINUTE * 60 // INTERVAL_S
    for identifier, healthy in HEALTHY.items():
        name, labels = labelled(host, identifier)
        changed = changes.get(identifier, healthy)
        values = [value_at(changed if brief_k is None or k < begin + brief_k else healthy, k)
                  for k in range(begin, begin + MINUTES * 60 // INTERVAL_S)]
        names = [name]
        if identifier.endswith('/load'):
            names = [f'{name}_{period}' for period in ('shortterm', 'midterm', 'longterm')]
            values = [value and value[0] for value in values]
        for each in names:
            text = ','.join(f'{key}={json.dumps(value)}' for key, value in labels.items())
            yield {'series': f'{each}{{{text}}}', 
                   'values': ' '.join('_' if each is None else str(each) for each in values)}


def firing(alerts, minutes):
    return {'expr': 'count by (alertname) (ALERTS{alertstate="firing"})',
            'eval_time': f'{int(minutes * 60)}s',
            'exp_samples': [{'labels': f'{{alertname="{alert}"}}', 'value': 1}
                            for alert in alerts]}


def promtool_tests():
    for host, (changes, alerts) in (CASES | SLOW_CASES).items():
        yield {'name': host, 'interval': f'{INTERVAL_S}s',
               'input_series': list(input_series(host, changes)),
               'promql_expr_test': [firing(alerts, 30)]}
    for changes, minutes in BRIEF:
        brief_k = int(minutes * 60 / INTERVAL_S)
        yield {'name': f'brief {changes}', 'interval': f'{INTERVAL_S}s',
               'input_series': list(input_series('brief', changes, brief_k)),
               'promql_expr_test': [firing([], at / 2) for at in range(2 * MINUTES - 2)]}
    yield {'name': 'recorded', 'interval': f'{INTERVAL_S}s',
           'input_series': list(input_series('healthy', {})),
           'promql_expr_test': [
               {'expr': 'row:percore_drops:rate5m', 'eval_time': '10m', 'exp_samples': [
                   {'labels': 'row:percore_drops:rate5m{field="rx_drops",host="healthy",'
                              'port="eth0",queue="3",region="gtpu",row="port:eth0|queue:3",'
                              'table="port"}', 'value': 0}]}]}


def promtool(folder, rules):
    """Returns the errors that promtool reports when it runs the tests with these rules,
    or '' if there are none."""
    with open(os.path.join(folder, RULES), 'w') as file:
        file.write(rules)
    path = os.path.join(folder, 'tests.yml')
    with open(path, 'w') as file:
        json.dump({'rule_files': [RULES], 'evaluation_interval': f'{INTERVAL_S}s',
                   'tests': list(promtool_tests())}, file)
    process = subprocess.run(['promtool', 'test', 'rules', path], cwd=folder,
                             capture_output=True, text=True)
    return process.stdout + process.stderr if process.returncode else ''


MUTANTS = [('[1m]) < 10', '[1m]) < 4'), ('|isolated', ''), ('all|', ''), ('|dataplane', '|node0'),
           ('for: 10m', 'for: 8m'), ('for: 5m', 'for: 3m'),
           ('type="room"}[1m]) < 10', 'type="room"}[1m]) < 12'), ('[1h]', '[1m]'), ('[15m]', '[30s]'),
           ('unless on (host) collectd_percore_host_gauge{type="cores_online"}', ''),
           ('{type="regions_silent"} > 0', '{type="regions_silent"} > 1'), ('or on (host)', 'or'),
           ('attaches_refused|', ''), ('|row_adds_refused', ''), ('"rows_left_out|', '"'),
           ('|snapshots_dropped', ''), ('[10m])\n          > 0', '[10m])\n          > 100000'),
           ('.*drop.*', '.*'), ('rate5m > 0', 'rate5m >= 0'), ('for: 1m', 'for: 0m'),
           ('"workers_stuck"} > 0\n        for', '"workers_stuck"} > 1\n        for'),
           ('|cores_unproven', ''), ('cores_without_value|', ''),
           ('cores_unproven"} > 0', 'cores_unproven"} >= 0'), ('|new_rows_left_out', ''),
           ('1.5 * avg', '1.8 * avg'), ('[1d]', '[1m]'),
           ('0.000005 +', '0 +')]


def check_promtool(context):
    folder = os.path.join(context.folder, 'promtool')
    os.makedirs(folder, exist_ok=True)
    rules = servers.sample(RULES)
    with proves('each alert fires in its case and in no other, after the time in its rule '
                '(promtool)'):
        said = promtool(folder, rules)
        assert not said, said
    found = f'each of {len(MUTANTS)} faults put into {RULES} is found by its tests'
    if not os.environ.get('PERCORE_TEST_LONG'):
        skip(found, 'takes two minutes of processor time: set PERCORE_TEST_LONG=1')
        return
    with proves(found):
        missed = [old for old, new in MUTANTS
                  if old not in rules or not promtool(folder, rules.replace(old, new, 1))]
        assert not missed, missed


# -- the real Prometheus ------------------------------------------------------


def get(url, path):
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        return json.load(answer)['data']


def alerts_firing(url):
    """Returns the alerts that fire now, as {host: [alert]}."""
    found = {host: [] for host in CASES}
    for alert in get(url, '/api/v1/alerts')['alerts']:
        if alert['state'] == 'firing':
            found[alert['labels']['host']].append(alert['labels']['alertname'])
    return {host: sorted(set(alerts)) for host, alerts in found.items()}


def put(unixsock, k, time_s):
    for host, (changes, _) in CASES.items():
        for identifier, healthy in HEALTHY.items():
            value = value_at(changes.get(identifier, healthy), k)
            if value is not None:
                unixsock.put(host, identifier, time_s, value)
    unixsock.flush()


def check_prometheus(context):
    port = servers.free_port()
    rules = re.sub(r'for: \d+m', 'for: 3s', servers.sample(RULES)).replace('[5m]', '[15s]')
    prometheus = context.stack.prometheus(port, name='prometheus-alerts', rules=rules)
    collectd = context.stack.collectd(
        outputs.LONG_MEMORY + outputs.queue() + outputs.write_prometheus(port),
        host='alerts', name='collectd-rules')
    prometheus.ready()
    unixsock = Unixsock(collectd)
    expected = {host: alerts for host, (_, alerts) in CASES.items()}
    began = k = int(time.time())
    right_since, found = None, {}
    # Waits until all expected alerts fire, and checks that no other alert fires within
    # ten more seconds.
    while time.time() < began + 60:
        k += 1
        time.sleep(max(0, k - time.time()))
        put(unixsock, k - began - 8, k)
        found = alerts_firing(prometheus.url)
        right_since = (right_since or k) if found == expected else None
        if right_since and k - right_since >= 10:
            break
    unixsock.close()
    with proves('in a real Prometheus each alert fires for the host of its case and for no '
                'other host'):
        assert right_since and k - right_since >= 10, \
            {host: (found[host], expected[host]) for host in CASES if found[host] != expected[host]}
    with proves('core, set, region, table, field, row, quantile, le, the parts of a row and the '
                'instance of a region are labels of their own'):
        for identifier in HEALTHY:
            name, labels = labelled('healthy', identifier)
            if identifier.endswith('/load'):
                name += '_shortterm'
            series = get(prometheus.url, '/api/v1/series?match[]=' + urllib.request.quote(
                name + '{host="healthy",%s}' % ','.join(
                    f'{key}={json.dumps(labels[key])}' for key in ('core', 'set', 'row', 'quantile', 'le')
                    if key in labels)))
            wanted = labels | {'__name__': name, 'job': 'collectd',
                               'instance': f'127.0.0.1:{port}'}
            assert wanted in series, f'{wanted} is not in {series}'


def run(context):
    missing = servers.missing_package('prometheus')
    if missing:
        skip('each alert fires in its case and in no other', f'{missing} is not installed')
        return
    check_promtool(context)
    check_prometheus(context)
