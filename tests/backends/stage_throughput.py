"""128 cores with 200 counters each, every second for 20 s, into carbon and
InfluxDB at once: as many values stored as dispatched."""
import os
import struct
import time

import flood
import outputs
import stores
from report import note, proves, skip
from servers import Stack, missing_package

CORES, COUNTERS, READS = 128, 200, 20
SENTENCE = (f'{CORES * COUNTERS} values a second for {READS} s are all stored, '
            'by carbon and InfluxDB at once')
SCHEMAS = '[flood]\npattern = ^collectd\\.\nretentions = 1s:1m\n' \
          '[others]\npattern = .*\nretentions = 5s:1h\n'


def count_whisper(folder):
    """How many values there are in the files of all counters. A file is 16
    bytes of header, 12 per archive, then pairs of a time and a value; what was
    never written has time 0."""
    found = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), 'rb') as file:
                data = file.read()
            offset, _, points = struct.unpack_from('!LLL', data, 16)
            found += sum(1 for time_s, _ in struct.iter_unpack(
                '!Ld', data[offset:offset + 12 * points]) if time_s)
    return found


def udp_drops():
    with open('/proc/net/snmp') as snmp:
        rows = [line.split() for line in snmp if line.startswith('Udp:')]
    return int(rows[1][rows[0].index('RcvbufErrors')])


def wait_for(count, wanted, patience):
    """Until there are as many as wanted, or no more come."""
    deadline, last = time.monotonic() + patience, -1
    while time.monotonic() < deadline:
        now = count()
        if now >= wanted or now == last:
            return now
        last = now
        time.sleep(3)
    return last


def run(context):
    missing = flood.missing() or next(filter(None, map(missing_package, (
        'carbon', 'influxdb'))), None)
    if missing:
        skip(SENTENCE, missing)
        return
    folder = os.path.join(context.folder, 'flood')
    flood.build(folder)
    # Servers of its own, so that it is over when they have ended.
    with Stack(folder) as stack:
        carbon, influxdb = stack.carbon(SCHEMAS, '').ready(), stack.influxdb().ready()
        servers = {'carbon': carbon, 'influxd': influxdb}
        cpu = {name: server.cpu_seconds() for name, server in servers.items()}
        drops = udp_drops()
        body = outputs.queue(CORES * COUNTERS)
        collectd = stack.collectd(
            body + outputs.write_graphite(carbon.port) + outputs.network(influxdb.collectd_port)
            + flood.body(folder, context.collectd_folder, CORES, COUNTERS, READS))
        servers['collectd'] = collectd
        deadline = time.monotonic() + READS + 10
        while 'reads are done' not in collectd.tail() and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(2)
        # carbon has rates: of one value fewer for each counter.
        values = CORES * COUNTERS
        influx = stores.Influx(influxdb.url)
        in_influx = wait_for(lambda: sum(row[0]['values'][0][1] for row in [influx.query(
            'SELECT count("value") FROM "flood_value"')] if row), values * READS, 20)
        in_carbon = wait_for(lambda: count_whisper(carbon.whisper + '/collectd'),
                             values * (READS - 1), 40)
        note('CPU over all of it: ' + ', '.join(
            f'{name} {server.cpu_seconds() - cpu.get(name, 0):.1f} s'
            for name, server in servers.items())
            + f'; UDP packets dropped on this machine: {udp_drops() - drops}')
        with proves(SENTENCE):
            assert in_influx == values * READS, \
                f'InfluxDB has {in_influx} of {values * READS} values'
            assert in_carbon == values * (READS - 1), \
                f'carbon has {in_carbon} of {values * (READS - 1)} values'
