"""Tests that rates are right even if the rows of a region are reused for other objects:
the rates that InfluxDB and Prometheus compute, each from two points, must add up to the
true counts."""
import json
import os
import time

import churn
import fastpath
import outputs
import stores
from harness import Lateness
from producers import RuntimeDir
from report import note, proves, skip
from servers import Stack, free_port, missing_package

INTERVAL = 2  # at least Prometheus's scrape interval, so that it misses no value
SECONDS = 64 if churn.LONG else 20
TABLES = {'owned': {}, 'noreset': {'noreset': 1}}
SENTENCE = 'rates of a table with Top whose rows change hands add up to the truth in {}'
OPTIONS = '''
<Region "*">
  ReportPerCore false
  <Table "session">
    Field "packets"
    Top 100 "packets"
  </Table>
</Region>
'''


class Influx(stores.Influx):
    def arrived(self, region):
        """Returns the stored points of all rows of the region."""
        found = self.query(f'SELECT "value" FROM "percore_host_{region}_session_packets_value" '
                           "WHERE \"type\" = 'derive' GROUP BY \"type_instance\"")
        return churn.Arrived({each['tags']['type_instance']: each['values'] for each in found})


class Prometheus(stores.Prometheus):
    def arrived(self, region):
        """Returns the stored points of all rows of the region, like Influx.arrived."""
        name = f'collectd_percore_host_{region}_session_packets_derive_total'
        return churn.Arrived({
            json.dumps(each['metric']): [(when, int(value)) for when, value in each['values']]
            for each in self.query(f'{name}[10m]')})


def check_rates(store, logs, lateness):
    faults = []
    for name, log in logs.items():
        got = store.arrived(name)
        # The first two intervals of a series are one average, and the last values may
        # not have been stored yet.
        times = [when for when in got.times() if log.covers(when)][2:-2]
        assert len(times) > 3, f'{store.name} has values of {name} at only {len(times)} times'
        off, bound = got.rates_off(log, lateness, INTERVAL, times[0], times[-1])
        fault = f'{store.name}: rates of {name} over {times[-1] - times[0]:.0f} s are off by ' \
            f'{100 * off:+.3f} %, {100 * bound:.3f} % allowed'
        note(fault)
        if abs(off) > bound:
            faults.append(fault)
    assert not faults, '\n'.join(faults)


def churn_beside(runtime):
    """Runs a producer for each table. Returns the true counts over time, for each
    table."""
    producers = {name: churn.Churner(runtime, name, rows=65536, live=50000, reuses=20000,
                                     packets=100000, hot=60, **kind)
                 for name, kind in TABLES.items()}
    logs = {name: churn.TruthLog(producer) for name, producer in producers.items()}
    for producer in producers.values():
        producer.do('run')
    time.sleep(SECONDS)
    for log in logs.values():
        log.end()
    for producer in producers.values():
        producer.kill()
    return logs


def run(context):
    missing = fastpath.missing(context) or next(filter(None, map(
        missing_package, ('influxdb', 'prometheus'))), None)
    if missing:
        for store in (Influx, Prometheus):
            skip(SENTENCE.format(store.name), missing)
        return
    churn.Churner.PROGRAM = os.path.join(os.path.dirname(fastpath.program(context)),
                                         'churn_producer')
    with Stack(os.path.join(context.folder, 'rates')) as stack, RuntimeDir() as runtime, \
            Lateness() as lateness:
        exporter_port = free_port()
        prometheus, influxdb = stack.prometheus(exporter_port), stack.influxdb()
        found = [Influx(influxdb.ready().url), Prometheus(prometheus.ready().url)]
        stack.collectd(
            outputs.queue() + outputs.network(influxdb.collectd_port) +
            outputs.write_prometheus(exporter_port) +
            outputs.percore(context.plugin_folder, context.collectd_folder, OPTIONS),
            interval=INTERVAL)
        deadline = time.monotonic() + 60
        while not any(target['value'][1] == '1' for target in found[1].query('up')):
            assert time.monotonic() < deadline, 'Prometheus scrapes nothing'
            time.sleep(0.1)
        logs = churn_beside(runtime)
        for store in found:
            with proves(SENTENCE.format(store.name)):
                check_rates(store, logs, lateness)
