#!/usr/bin/env python3
"""Runs percore on this machine with a real Graphite or Prometheus, and shows its
dashboard or its pages, until Ctrl-C is pressed. contrib/demo --graphite and --prometheus
build what is needed and run this program:

    demo.py --plugin-dir DIR --dashboards DIR [--hog PROGRAM] [--producer PROGRAM]
            [--graphite] [--prometheus] [--simulate CORES] [--fleet HOSTS] [--seconds N]
            [--pictures DIR]
"""
import argparse
import contextlib
import json
import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'dashboards')]

import graphite_dashboard  # noqa: E402
import node_packages  # noqa: E402
import servers  # noqa: E402
from fleet import Fleet  # noqa: E402
from fakehost import FakeHost, example, pollers  # noqa: E402
from servers import sample  # noqa: E402
from unixsock import Unixsock  # noqa: E402

BROWSER_PACKAGES = os.path.join(HERE, '../../tests/backends')  # has playwright-core
HOST = 'demo'
MINUTES = 4
FLEET_INTERVAL_S = 5
PERCORE = '''
PluginDir "{plugin}"
LoadPlugin percore
PluginDir "{collectd}"
<Plugin percore>
  SysRoot "{root}"
  <Load>
    ReportSelf true
    SampleInterval 0.25
    ReportHidden true
    ReportCStates true
  </Load>
</Plugin>
'''


def collectd_folder():
    text = subprocess.run([servers.PROGRAMS['collectd'][0], '-h'], capture_output=True,
                          text=True).stdout
    return next(line.split()[-1] for line in text.splitlines() if 'Plugin directory' in line)


# -- loads to show ----------------------------------------------------------------


def wave(core, cores):
    """Keeps a core busy for a share of the time that rises and falls in a cycle of two
    minutes. The cycles of the cores are shifted relative to each other."""
    os.sched_setaffinity(0, [core])
    os.nice(19)
    slice_s = 0.05
    while True:
        phase = 2 * math.pi * (time.monotonic() / 120 + core / cores)
        until = time.monotonic() + slice_s * (0.4 + 0.35 * math.sin(phase))
        while time.monotonic() < until:
            pass
        time.sleep(max(0, until - time.monotonic()) + slice_s * (0.6 - 0.35 * math.sin(phase)))


def start_loads(hog, producer_cores):
    """Starts, on each core without a fast path, a process that keeps the core busy for
    a changing share of the time. If `hog` is given, also starts a shell that runs hog
    (a load that the timer tick never sees) on the last core repeatedly, with pauses of
    40 s. Returns a list of the former processes and a list of the latter."""
    cores = sorted(os.sched_getaffinity(0))
    waves = [multiprocessing.Process(target=wave, args=(core, len(cores)), daemon=True)
             for core in cores if core not in producer_cores]
    for process in waves:
        process.start()
    if not hog:
        return waves, []
    script = f'while sleep 40; do "{hog}" {cores[-1]} 20 >/dev/null; done'
    return waves, [subprocess.Popen(['sh', '-c', script], start_new_session=True,
                                    stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]


@contextlib.contextmanager
def loads(hog, producer_cores):
    waves, scripts = start_loads(hog, producer_cores)
    try:
        yield
    finally:
        for process in waves:
            process.terminate()
        for script in scripts:
            os.killpg(script.pid, signal.SIGTERM)


def feed(unixsock, hosts):
    fleet = Fleet(hosts)
    while True:
        time.sleep(FLEET_INTERVAL_S - time.time() % FLEET_INTERVAL_S)
        fleet.put(unixsock, int(time.time()), FLEET_INTERVAL_S)


# -- the servers ------------------------------------------------------------------


class Demo:
    """Runs collectd and the requested databases. .graphite and .prometheus are their
    servers, or None for a database that was not requested."""

    def __init__(self, stack, options, root, producer):
        self.stack, self.graphite, self.prometheus = stack, None, None
        self.dashboards = options.dashboards
        self.exporter_ports = servers.free_port(), servers.free_port()
        body = sample('queue.conf')
        if options.prometheus:
            self.prometheus = stack.prometheus(*self.exporter_ports).ready()
        if options.graphite:
            carbon = stack.carbon(
                sample('storage-schemas.conf', {'10s:1d,1m:30d,10m:2y': '1s:2h'})
                + '\n[others]\npattern = .*\nretentions = 10s:1h\n',
                sample('storage-aggregation.conf'))
            self.graphite = stack.graphite_web(carbon)
            body += sample('write_graphite.conf', {
                'graphite.example.com': '127.0.0.1', 'Port "2003"': f'Port "{carbon.port}"'})
            carbon.ready()
        if self.graphite:
            self.graphite.ready()
        self.outputs = body
        body = self.with_exporter(0) + PERCORE.format(
            plugin=os.path.abspath(options.plugin_dir), collectd=collectd_folder(), root=root)
        env = {'PERCORE_RUNTIME_DIR': stack.runtime_folder()}
        self.collectd = stack.collectd(body, host=HOST, env=env)
        if producer:
            stack.program('producer', producer, env)

    def with_exporter(self, number):
        """Returns the configuration of the outputs for one collectd; `number` (0 or 1)
        selects the port that this collectd offers to Prometheus."""
        if not self.prometheus:
            return self.outputs
        return self.outputs + sample('write_prometheus.conf', {
            'Port "9103"': f'Port "{self.exporter_ports[number]}"'})

    def start_fleet(self, hosts):
        """Starts a process that simulates `hosts` hosts and sends their values through
        a real collectd. Returns the process."""
        collectd = self.stack.collectd(self.with_exporter(1), name='collectd-fleet',
                                       interval=FLEET_INTERVAL_S)
        process = multiprocessing.Process(target=feed, args=(Unixsock(collectd), hosts),
                                          daemon=True)
        process.start()
        return process

    def graphite_address(self, refresh_s=5):
        """Saves the dashboard in Graphite and returns its URL."""
        state = graphite_dashboard.of_host(
            os.path.join(self.dashboards, 'graphite-web.json'), HOST)
        state['timeConfig']['relativeStartQuantity'] = str(MINUTES)
        state['defaultGraphParams']['from'] = f'-{MINUTES}minutes'
        state['refreshConfig']['interval'] = refresh_s * 1000
        return graphite_dashboard.save(self.graphite.url, f'percore-{HOST}', state)

    def has_values(self):
        """Returns whether every database has received the load of a core."""
        if self.graphite:
            with urllib.request.urlopen(f'{self.graphite.url}/metrics/expand?query='
                                        f'collectd.{HOST}.percore.*.percent.load') as answer:
                if b'load' not in answer.read():
                    return False
        if self.prometheus:
            with urllib.request.urlopen(f'{self.prometheus.url}/api/v1/query?query='
                                        'collectd_percore_percent') as answer:
                if b'load' not in answer.read():
                    return False
        return True

    def wait_for_values(self, patience_s=60):
        deadline = time.monotonic() + patience_s
        while not self.has_values():
            if time.monotonic() > deadline or self.collectd.process.poll() is not None:
                raise RuntimeError('no values arrive; the log of collectd:\n'
                                   + self.collectd.tail())
            time.sleep(0.2)


def say(text=''):
    print(text, flush=True)


# Pages of Prometheus's own web interface.
PAGES = (
    ('Cores by room', 'graph', 'sort(collectd_percore_percent{type="room"})'),
    ('Hosts by room', 'graph', 'sort(collectd_percore_host_percent{type="room_mean", set="all"})'),
    ('Alerts', 'alerts', None),
)


def describe(demo):
    """Prints the URLs to open."""
    if demo.graphite:
        say(f'\n  Graphite:  {demo.graphite_address()}')
    if demo.prometheus:
        say(f'\n  Prometheus:  {demo.prometheus.url}')
        for title, page, query in PAGES:
            arguments = query and '?' + urllib.parse.urlencode({
                'g0.expr': query, 'g0.tab': 0, 'g0.range_input': f'{MINUTES}m'})
            say(f'    {title + ":":15} {demo.prometheus.url}/classic/{page}{arguments or ""}')
        say('    A Grafana with this URL as a data source shows grafana-prometheus.json and\n'
            '    grafana-fleet-prometheus.json, in build-demo/build/contrib/dashboards.')
    say('\nEverything listens on loopback only. Press Ctrl-C to end it.')


def take_picture(demo, folder):
    """Draws the dashboard of graphite-web with Chromium."""
    reason = node_packages.missing() or servers.missing_package('chromium')
    if reason:
        raise RuntimeError(reason)
    say('Waiting for enough values ...')
    time.sleep(MINUTES * 60)
    os.makedirs(folder, exist_ok=True)
    picture = os.path.join(folder, 'graphite-web.png')
    graphs = len(graphite_dashboard.of_host(
        os.path.join(demo.dashboards, 'graphite-web.json'), HOST)['graphs'])
    config = {'modules': node_packages.install(BROWSER_PACKAGES, 'backends'),
              'url': demo.graphite_address(refresh_s=600), 'graphs': graphs,
              'width': 1230, 'height': 1000, 'picture': picture}
    found = json.loads(subprocess.run(
        ['node', os.path.join(HERE, 'graphite_web.mjs'), json.dumps(config)],
        stdout=subprocess.PIPE, check=True, timeout=240).stdout)
    if found['faults']:
        raise RuntimeError('\n'.join(found['faults']))
    # Fewer colours make the file much smaller.
    if shutil.which('pngquant'):
        subprocess.run(['pngquant', '--force', '--ext', '.png', '--speed', '1', '--strip',
                        picture], check=True)
    say(f'The picture is {picture}.')


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--plugin-dir', required=True)
    parser.add_argument('--dashboards', required=True, help='what generate wrote')
    parser.add_argument('--hog')
    parser.add_argument('--producer', help='contrib/producers/gateway')
    parser.add_argument('--graphite', action='store_true')
    parser.add_argument('--prometheus', action='store_true')
    parser.add_argument('--fleet', type=int, metavar='HOSTS', help='add simulated hosts')
    parser.add_argument('--simulate', type=int, metavar='CORES',
                        help='show a simulated host with at least 8 cores instead')
    parser.add_argument('--seconds', type=float, default=math.inf)
    parser.add_argument('--pictures', help='draw the picture of the README into this directory, then end')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    try:
        with contextlib.ExitStack() as end:
            folder = end.enter_context(tempfile.TemporaryDirectory(prefix='percore-demo-'))
            stack = end.enter_context(servers.Stack(folder))
            root, naps = '/', []
            if options.simulate:
                producer_cores, naps = pollers(options.simulate), ['--nap']
                fake = FakeHost(example(options.simulate), nodes=2)
                root = end.enter_context(fake).root
            else:
                producer_cores = sorted(os.sched_getaffinity(0))[:2] if options.producer else []
                end.enter_context(loads(options.hog, producer_cores))
            producer = options.producer and [options.producer, *naps, *map(str, producer_cores)]
            began = time.monotonic()
            demo = Demo(stack, options, root, producer)
            if options.fleet:
                end.callback(demo.start_fleet(options.fleet).terminate)
            demo.wait_for_values()
            say(f'Values arrive, {time.monotonic() - began:.0f} s after the start.')
            if options.pictures:
                take_picture(demo, options.pictures)
                return
            describe(demo)
            deadline = began + options.seconds
            while time.monotonic() < deadline:
                if demo.collectd.process.poll() is not None:
                    raise RuntimeError('collectd has ended; its log:\n' + demo.collectd.tail())
                time.sleep(0.5)
    except KeyboardInterrupt:
        say()
    except RuntimeError as error:
        sys.exit(f'demo: {error}')


if __name__ == '__main__':
    main()
