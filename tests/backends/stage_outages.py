"""Tests that other outputs lose no values if Graphite is down, or is up but does not
read."""
import os
import socket
import time

import flood
import outputs
import stores
import udp
from fakehost import Core, FakeHost
from harness import Lateness
from report import note, proves, skip
from servers import Stack, free_port, missing_package

# Enough values to fill, within a few seconds, the 2.8 MB that Linux buffers for a
# loopback connection without a reader.
CORES, COUNTERS, READS = 100, 100, 12
VALUES = CORES * COUNTERS * READS
DEAD = 'if Graphite is down, other outputs lose no value'
RELAYED = 'with carbon-c-relay, a Graphite that does not read costs other outputs no value'
DIRECT = 'without the relay it costs other outputs values, which is why the relay is recommended'
PERCORE = 'percore misses no interval while Graphite is down or does not read'


class Scenario:
    """A collectd that writes to a Graphite at `port` and to InfluxDB."""

    def __init__(self, context, stack, name, port, influxdb, fake):
        self.name = name
        body = outputs.queue(CORES * COUNTERS) + outputs.write_graphite(port)
        body += outputs.network(influxdb.collectd_port)
        body += flood.body(stack.directory, context.collectd_folder, CORES, COUNTERS, READS)
        if context.plugin_folder:
            body += outputs.percore(context.plugin_folder, context.collectd_folder,
                                    f'SysRoot "{fake.root}"')
        self.collectd = stack.collectd(body, host=name, name=name)

    def flooded(self, influx):
        found = influx.query(f'SELECT count("value") FROM "flood_value" '
                             f"WHERE \"host\" = '{self.name}'")
        return found[0]['values'][0][1] if found else 0

    def seconds_of_percore(self, influx):
        found = influx.query("SELECT \"value\" FROM \"percore_value\" WHERE \"host\" = "
                             f"'{self.name}' AND \"instance\" = '0' AND "
                             "\"type_instance\" = 'load'")
        return sorted(t for t, _ in found[0]['values']) if found else []


def wait_for_all(influx, scenarios, wanted, patience_s=30):
    """Waits until all values have been sent, and then until InfluxDB has stored
    `wanted` values of each scenario, but for at most `patience_s` seconds."""
    time.sleep(READS + 3)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and any(
            scenario.flooded(influx) < wanted for scenario in scenarios):
        time.sleep(0.5)


def stalled_server():
    """Returns a socket that listens but never reads; the kernel accepts connections to
    it."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(('127.0.0.1', 0))
    listener.listen(8)
    return listener


def flood_once(context, folder, fake):
    """Returns, for each scenario, the number of values in InfluxDB, and the seconds for
    which InfluxDB contains percore's values. Uses servers of its own, which end before
    it returns."""
    flood.build(folder)
    with Stack(folder) as stack, stalled_server() as stalled:
        stalled_port = stalled.getsockname()[1]
        influxdb = stack.influxdb().ready()
        influx = stores.Influx(influxdb.url)
        relay = stack.carbon_c_relay(stalled_port, queue=20000).ready()
        dead, relayed, direct = (
            Scenario(context, stack, name, port, influxdb, fake)
            for name, port in (('dead', free_port()), ('relayed', relay.port),
                               ('direct', stalled_port)))
        wait_for_all(influx, (dead, relayed), VALUES)
        counts = {s.name: s.flooded(influx) for s in (dead, relayed, direct)}
        note(f'of {VALUES} values InfluxDB has: '
             + ', '.join(f'{count} ({name})' for name, count in counts.items()))
        return counts, {s.name: s.seconds_of_percore(influx) for s in (dead, relayed)}


def missed(seconds):
    """Returns the seconds that are missing between the first and the last second."""
    return sorted(set(range(seconds[0], seconds[-1])) - set(seconds)) if seconds else []


def is_whole(found):
    counts, seconds = found
    return counts['dead'] == counts['relayed'] == VALUES and not any(
        map(missed, seconds.values()))


def check_percore(name, seconds, lateness):
    # If percore takes a snapshot nearly an interval late, this snapshot also replaces
    # the next one.
    late = [second for second in missed(seconds)
            if lateness.of_clock(second - 1, second + 1) > 0.85]
    assert len(seconds) + len(late) >= READS and missed(seconds) == late and \
        len(set(seconds)) == len(seconds), f'{name}: {seconds}; this machine was late in {late}'


def run(context):
    missing = flood.missing() or next(filter(None, map(missing_package, (
        'influxdb', 'carbon-c-relay'))), None)
    if missing:
        for sentence in (DEAD, RELAYED, DIRECT, PERCORE):
            skip(sentence, missing)
        return
    with FakeHost([Core(user=0.5)]) as fake, Lateness() as lateness:
        found, dropped = udp.tried(
            lambda number: flood_once(
                context, os.path.join(context.folder, f'outages{number}'), fake), is_whole)
    counts, seconds = found
    for sentence, name in (DEAD, 'dead'), (RELAYED, 'relayed'):
        if counts[name] < VALUES and dropped:
            skip(sentence, udp.DROPPED)
            continue
        with proves(sentence):
            assert counts[name] == VALUES
    with proves(DIRECT):
        assert counts['direct'] < VALUES
    if not context.plugin_folder:
        skip(PERCORE, 'percore.so is not built')
    elif any(map(missed, seconds.values())) and dropped:
        skip(PERCORE, udp.DROPPED)
    else:
        with proves(PERCORE):
            for name in seconds:
                check_percore(name, seconds[name], lateness)
