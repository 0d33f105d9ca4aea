"""Sends 200 counters for each of 128 cores to carbon and InfluxDB, every second for 20
s: no value may be lost."""
import os
import struct
import time

import flood
import outputs
import stores
import udp
from report import note, proves, skip
from servers import Stack, missing_package

CORES, COUNTERS, READS = 128, 200, 20
SENTENCE = (f'{CORES * COUNTERS} values a second for {READS} s are all stored, '
            'by carbon and InfluxDB at once: ')
CARBON, INFLUXDB = SENTENCE + 'carbon', SENTENCE + 'InfluxDB'
# The archive is longer than a slow carbon may be late, because carbon does not store
# values older than the archive.
SCHEMAS = '[flood]\npattern = ^collectd\\.\nretentions = 1s:5m\n' \
          '[others]\npattern = .*\nretentions = 5s:1h\n'


def count_whisper(folder):
    """Returns the number of values in the files of all counters. A file consists of a
    header of 16 bytes, 12 bytes per archive, and pairs of a time and a value. The time
    of a pair that has never been written is 0."""
    found = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), 'rb') as file:
                data = file.read()
            if len(data) < 28:
                continue  # carbon is still creating this file
            offset, _, points = struct.unpack_from('!LLL', data, 16)
            found += sum(1 for time_s, _ in struct.iter_unpack(
                '!Ld', data[offset:offset + 12 * points]) if time_s)
    return found


def wait_for(count, wanted, patience):
    """Waits until count() has reached `wanted`, or has not changed for `patience`
    seconds. Returns the last count."""
    last, deadline = -1, 0
    while True:
        now = count()
        if now != last:
            last, deadline = now, time.monotonic() + patience
        if now >= wanted or time.monotonic() > deadline:
            return now
        time.sleep(1)


def run(context):
    missing = flood.missing() or next(filter(None, map(missing_package, (
        'carbon', 'influxdb'))), None)
    if missing:
        skip(CARBON, missing)
        skip(INFLUXDB, missing)
        return
    values = CORES * COUNTERS
    (in_influx, in_carbon), dropped = udp.tried(
        lambda number: flood_once(context, os.path.join(context.folder, f'flood{number}'), values),
        is_whole=lambda found: found[0] == values * READS)
    # carbon stores rates, so the number of rates of a counter is one less than the
    # number of its values.
    with proves(CARBON):
        assert in_carbon == values * (READS - 1), \
            f'carbon has {in_carbon} of {values * (READS - 1)} values'
    if in_influx < values * READS and dropped:
        skip(INFLUXDB, udp.DROPPED)
        return
    with proves(INFLUXDB):
        assert in_influx == values * READS, \
            f'InfluxDB has {in_influx} of {values * READS} values'


def flood_once(context, folder, values):
    """Returns the number of values in InfluxDB and in carbon. Uses servers of its own,
    which end before it returns."""
    flood.build(folder)
    with Stack(folder) as stack:
        carbon, influxdb = stack.carbon(SCHEMAS, '').ready(), stack.influxdb().ready()
        servers = {'carbon': carbon, 'influxd': influxdb}
        cpu = {name: server.cpu_seconds() for name, server in servers.items()}
        body = outputs.queue(values)
        collectd = stack.collectd(
            body + outputs.write_graphite(carbon.port) + outputs.network(influxdb.collectd_port)
            + flood.body(folder, context.collectd_folder, CORES, COUNTERS, READS))
        servers['collectd'] = collectd
        deadline = time.monotonic() + READS + 30
        while 'reads are done' not in collectd.tail() and time.monotonic() < deadline:
            time.sleep(0.2)
        influx = stores.Influx(influxdb.url)
        in_influx = wait_for(lambda: sum(row[0]['values'][0][1] for row in [influx.query(
            'SELECT count("value") FROM "flood_value"')] if row), values * READS, 30)
        in_carbon = wait_for(lambda: count_whisper(carbon.whisper + '/collectd'),
                             values * (READS - 1), 30)
        note('CPU time in all: ' + ', '.join(
            f'{name} {server.cpu_seconds() - cpu.get(name, 0):.1f} s'
            for name, server in servers.items()))
        return in_influx, in_carbon
