"""Shows the panels of a Grafana dashboard (InfluxDB or Prometheus) in a browser, for
the demo and for the pictures in the README. Grafana's own components draw the panels,
without a Grafana server. The page is contrib/dashboards/panels."""
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request

import node_packages
import servers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = os.path.join(ROOT, 'contrib', 'dashboards', 'panels')
BROWSER_PACKAGES = os.path.join(ROOT, 'tests', 'backends')  # has playwright-core

ESBUILD = ['--bundle', '--format=esm', '--splitting', '--minify', '--jsx=automatic',
           '--target=es2022', '--define:process.env.NODE_ENV="development"',
           '--define:global=globalThis', '--loader:.woff=dataurl', '--loader:.woff2=dataurl',
           '--loader:.svg=dataurl', '--loader:.ttf=dataurl', '--log-level=error']


def missing():
    return node_packages.missing()


def build():
    """Returns the path of the folder that contains the built page. Builds the page once
    for each version of its source."""
    modules = node_packages.install(SOURCE, 'panels')
    digest = hashlib.sha256()
    for name in sorted(os.listdir(SOURCE)):
        with open(os.path.join(SOURCE, name), 'rb') as file:
            digest.update(file.read())
    page = os.path.join(modules, 'site-' + digest.hexdigest()[:16])
    if os.path.isdir(page):
        return page
    # The folder has a temporary name until it is complete.
    partial = f'{page}.{os.getpid()}'
    subprocess.run([os.path.join(modules, 'node_modules/.bin/esbuild'),
                    os.path.join(SOURCE, 'main.jsx'), *ESBUILD, f'--outdir={partial}'],
                   env=os.environ | {'NODE_PATH': os.path.join(modules, 'node_modules')},
                   check=True)
    shutil.copy(os.path.join(SOURCE, 'index.html'), partial)
    try:
        os.rename(partial, page)
    except OSError:  # another process created the folder first
        shutil.rmtree(partial)
    return page


class Server:
    """Serves the page and its configuration on loopback, and passes queries on to the
    database. If `host` is None, the page shows the dashboard of all hosts. `more` is
    added to the configuration."""

    def __init__(self, page, store, dashboard, host, minutes, interval_s=1, **more):
        config = {'database': 'collectd', 'host': host, 'minutes': minutes,
                  'interval_s': interval_s, 'refresh_ms': 5000, 'open': True,
                  'prefer': {'counter': '_tunnel_rx_packets'}} | more
        with open(os.path.join(ROOT, 'contrib', 'dashboards', dashboard), 'rb') as file:
            fixed = {'/config.json': json.dumps(config).encode(), '/dashboard.json': file.read()}

        icons = os.path.join(os.path.dirname(page), 'node_modules/@grafana/ui/dist/public/img')

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=page)

            def translate_path(self, path):
                # Grafana's components load their icons from this path.
                prefix = '/public/build/img/'
                if path.startswith(prefix):
                    return os.path.join(icons, os.path.normpath('/' + path[len(prefix):])[1:])
                return super().translate_path(path)

            def do_GET(self):
                if self.path in fixed:
                    self.answer(200, fixed[self.path])
                elif self.path.startswith('/store/'):
                    self.ask(store + self.path[len('/store'):])
                else:
                    super().do_GET()

            def ask(self, address):
                try:
                    with urllib.request.urlopen(address, timeout=60) as answer:
                        self.answer(200, answer.read())
                except urllib.error.HTTPError as error:
                    self.answer(error.code, error.read())

            def answer(self, status, body):
                self.send_response(status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    pass  # the browser has closed the connection

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_port}/'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()


def look(script, config):
    """Runs a browser script from this folder and returns its result."""
    modules = node_packages.install(BROWSER_PACKAGES, 'backends')
    process = subprocess.run(['node', os.path.join(HERE, script),
                              json.dumps({**config, 'modules': modules})],
                             stdout=subprocess.PIPE, text=True, check=True, timeout=240)
    return json.loads(process.stdout)


# For each dashboard, the pictures to take and the rows that each picture shows.
PICTURES = {
    'grafana-influxdb.json': {
        'grafana-room.png': ('Which cores have room',),
        'grafana-loads.png': ('Load per core',),
        'grafana-regions.png': ('Fast path: regions',),
        'grafana-averages.png': ('Load averages', 'Hidden and unaccounted work',
                                 'Hidden and unaccounted work of each core (ReportHidden true)'),
    },
    'grafana-prometheus.json': {
        'grafana-prometheus.png': ('Which cores have room', 'Load per core'),
    },
    'grafana-fleet-prometheus.json': {
        'grafana-fleet.png': ('Which hosts have room', 'Over time'),
    },
}


def take_pictures(demo, serve, folder, minutes):
    reason = missing() or servers.missing_package('chromium')
    if reason:
        raise RuntimeError(reason)
    os.makedirs(folder, exist_ok=True)
    began = time.monotonic()
    print('Preparing the panels, and waiting for enough values ...', flush=True)
    page = build()
    time.sleep(max(0, minutes * 60 - (time.monotonic() - began)))
    faults = []
    found = look('graphite_web.mjs', {
        'url': demo.graphite_address(refresh_s=600), 'graphs': 11, 'width': 1230, 'height': 990,
        'picture': os.path.join(folder, 'graphite-web.png')})
    faults += found['faults']
    for dashboard, pictures in PICTURES.items():
        found = look('panels.mjs', {
            'url': serve(page, dashboard), 'width': 1288, 'pictures': {
                os.path.join(folder, name): rows for name, rows in pictures.items()}})
        faults += found['faults']
    if faults:
        raise RuntimeError('\n'.join(faults))
    # Reduce the number of colours, so that the files shrink to a third of their size.
    subprocess.run(['pngquant', '--force', '--ext', '.png', '--speed', '1', '--strip',
                    *(os.path.join(folder, name) for name in (
                        'graphite-web.png', *(n for each in PICTURES.values() for n in each)))],
                   check=True)
    print(f'Pictures are in {folder}.')
