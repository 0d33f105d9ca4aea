"""Tests that no character of a row's name makes a store take the name apart: names with
every character of Unicode's first two planes, and its tags, go through collectd into
carbon's parser and into InfluxDB."""
import os
import socket
import subprocess
import threading
import time

import fastpath
import outputs
import stores
from report import proves, skip
from servers import DEBIAN_PYTHON, Stack, missing_package

CODES = [*range(1, 0xd800), *range(0xe000, 0x20000), *range(0xe0000, 0xe1000)]
NAME_SIZE = 119  # in bytes
SESSION = 2  # a table of the producer's schema `many`
SENTENCE = 'a name with any character of Unicode is one name in {}'
OPTIONS = '''
<Region "names">
  <Table "session">
    Field "packets"
  </Table>
</Region>
'''
# Reads write_graphite's lines, and prints the names that carbon finds in them.
CARBON = '''
import sys
from carbon import log, protocols, util
log.listener = lambda message: sys.exit(message)
class Receiver(protocols.MetricLineReceiver):
    peerName = "collectd"
    def metricReceived(self, metric, datapoint):
        print(util.TaggedSeries.parse(metric).path)
sys.stdout.reconfigure(encoding="utf-8")
for line in sys.stdin.buffer.read().split(b"\\n"):
    if line.strip():
        Receiver().lineReceived(line)
'''


def names():
    """Returns names that begin with a number and end with `.z`, which contain all
    characters between letters."""
    found, text = [], ''
    for code in CODES:
        if len(f'{text}{chr(code)}x'.encode()) > NAME_SIZE - 10:
            found.append(f'n{len(found)}x{text}z')
            text = ''
        text += chr(code) + 'x'
    return [*found, f'n{len(found)}x{text}z']


class Sink:
    """Receives what write_graphite sends."""

    def __init__(self):
        self.server, self.received = socket.create_server(('127.0.0.1', 0)), b''
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        connection, _ = self.server.accept()
        while data := connection.recv(1 << 20):
            self.received += data

    def lines(self):
        """Returns the complete lines that contain rows."""
        return [line for line in self.received.rpartition(b'\n')[0].split(b'\n')
                if b'percore_host_names_session' in line and b'derive-other' not in line]


def whole(found, rows):
    """Asserts that each row has one name, which has its end."""
    parts = [name for name in found if not name.endswith('xz')]
    assert not parts, f'{len(parts)} names are cut, such as {parts[0]!r}'
    missing = rows - len({name.partition('x')[0] for name in found})
    assert not missing and len(found) == rows, f'{len(found)} names of {rows} rows'


def run(context):
    missing = fastpath.missing(context) or next(filter(None, map(
        missing_package, ('carbon', 'influxdb'))), None)
    if missing:
        for store in ('Graphite', 'InfluxDB'):
            skip(SENTENCE.format(store), missing)
        return
    with Stack(os.path.join(context.folder, 'names')) as stack:
        influxdb, sink, folder = stack.influxdb(), Sink(), stack.runtime_folder()
        influx = stores.Influx(influxdb.ready().url)
        stores.get(influx.url + '/query', {'q': 'CREATE DATABASE collectd'}, post=True)
        rows = names()
        with fastpath.FastPath(context, 'names', folder, schema='many') as producer:
            producer.tell(*(f'row {SESSION} {row.encode().hex()}' for row in rows))
            stack.collectd(
                outputs.queue(len(rows)) + outputs.network(influxdb.collectd_port) +
                outputs.write_graphite(sink.port) +
                outputs.percore(context.plugin_folder, context.collectd_folder, OPTIONS),
                env=os.environ | {'PERCORE_RUNTIME_DIR': folder})

            def in_influx():
                found = influx.query('SHOW TAG VALUES FROM "percore_host_names_session_packets'
                                     '_value" WITH KEY = "type_instance"')
                return {value for _, value in (found[0]['values'] if found else ())} - {'other'}
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and (
                    len(in_influx()) < len(rows) or len(sink.lines()) < 2 * len(rows)):
                time.sleep(0.5)
        with proves(SENTENCE.format('InfluxDB')):
            whole(in_influx(), len(rows))
        with proves(SENTENCE.format('Graphite')):
            answer = subprocess.run([DEBIAN_PYTHON, '-c', CARBON], capture_output=True,
                                    input=b'\n'.join(sink.lines()))
            assert answer.returncode == 0, answer.stderr.decode()
            found = set(answer.stdout.decode().split('\n')) - {''}
            assert not any(c.isspace() for name in found for c in name)
            whole({name.rpartition('.derive.')[2] for name in found}, len(rows))
