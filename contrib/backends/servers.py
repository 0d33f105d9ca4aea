"""Runs real databases from Debian's packages for the demo and the tests. Each server is
a child of this process, listens on loopback only, and keeps its files in its own folder
within one directory. No system service is started, and /var and /etc are not used.

    with Stack(directory) as stack:
        carbon = stack.carbon()
        ...
    # here all servers have ended, in reverse order
"""
import ctypes
import glob
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
DASHBOARDS = os.path.join(os.path.dirname(HERE), 'dashboards')
COLLECTD_SAMPLES = os.path.join(HERE, os.pardir, 'collectd')
DEBIAN_PYTHON = '/usr/bin/python3'  # Debian's graphite needs Debian's Python
TYPES_DB = '/usr/share/collectd/types.db'

# The program of each server, and the Debian package that contains it.
PROGRAMS = {
    'collectd': ('/usr/sbin/collectd', 'collectd-core'),
    'carbon': ('/usr/bin/carbon-cache', 'graphite-carbon'),
    'graphite-web': ('/usr/bin/graphite-manage', 'graphite-web'),
    'gunicorn': ('/usr/bin/gunicorn', 'gunicorn'),
    'influxdb': ('/usr/bin/influxd', 'influxdb'),
    'prometheus': ('/usr/bin/prometheus', 'prometheus'),
    'victoria-metrics': ('/usr/bin/victoria-metrics', 'victoria-metrics'),
    'carbon-c-relay': ('/usr/bin/carbon-c-relay', 'carbon-c-relay'),
    'kcat': ('/usr/bin/kcat', 'kafkacat'),
    'rrdtool': ('/usr/bin/rrdtool', 'rrdtool'),
    'chromium': ('/usr/bin/chromium', 'chromium'),
}


def missing_package(program):
    """Returns the package to install for a program, or None if the program is installed."""
    path, package = PROGRAMS[program]
    return None if os.access(path, os.X_OK) else package


def sample(name, changes=None):
    """Returns the text of a file of contrib/collectd, with each key of `changes`
    replaced by its value. Raises an error unless the text contains each key exactly
    once, so that the tests notice if the shipped sample changes."""
    with open(os.path.join(COLLECTD_SAMPLES, name)) as file:
        text = file.read()
    for old, new in (changes or {}).items():
        if text.count(old) != 1:
            raise ValueError(f'{name} contains {old!r} {text.count(old)} times instead of once')
        text = text.replace(old, new)
    return text


_handed_out = set()


def free_port():
    """Returns a loopback port on which no process listens, neither with TCP nor with
    UDP."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(('127.0.0.1', 0))
            port = tcp.getsockname()[1]
            try:
                udp.bind(('127.0.0.1', port))
            except OSError:
                continue
        if port not in _handed_out:
            _handed_out.add(port)
            return port


def is_udp_bound(port):
    """Returns whether a process receives datagrams on this loopback port."""
    with open('/proc/net/udp') as table:
        return any(line.split()[1] == f'0100007F:{port:04X}' for line in list(table)[1:])


def end_with_parent():
    """Makes this process end with its parent, even if the parent is killed. Call it in
    the child."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Server:
    """A server that runs as a child process and writes a log."""

    def __init__(self, name, directory, argv, port=None, env=None, patience=120,
                 stdin=subprocess.DEVNULL):
        self.name, self.port, self.directory = name, port, directory
        self.udp_ports = ()  # ready() also waits for these ports
        self.ready_path = None  # ready() also waits until this path is served
        self.log = os.path.join(directory, name + '.log')
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                argv, cwd=directory, stdin=stdin, stdout=log,
                stderr=log, env=os.environ | (env or {}),
                start_new_session=True, preexec_fn=end_with_parent)
        self.patience, self.patience_at_end = patience, 10

    @property
    def pid(self):
        return self.process.pid

    @property
    def url(self):
        return f'http://127.0.0.1:{self.port}'

    def check_alive(self):
        if self.process.poll() is not None:
            raise RuntimeError(f'{self.name} ended with {self.process.returncode}:\n'
                               + self.tail())

    def is_serving(self):
        if self.ready_path is None:
            return True
        try:
            with urllib.request.urlopen(self.url + self.ready_path, timeout=5):
                return True
        except OSError:
            return False

    def ready(self):
        """Waits until the server answers and all its ports are open. Returns the
        server. Raises RuntimeError if the server ends, or is not ready within
        `patience` seconds."""
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            self.check_alive()
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex(('127.0.0.1', self.port)) == 0 and \
                        all(map(is_udp_bound, self.udp_ports)) and self.is_serving():
                    return self
            time.sleep(0.02)
        raise RuntimeError(f'{self.name} does not answer on port {self.port}'
                           + ''.join(f', UDP {port}' for port in self.udp_ports)
                           + ':\n' + self.tail())

    def tail(self, lines=20):
        with open(self.log, errors='replace') as log:
            return ''.join(log.readlines()[-lines:])

    def cpu_seconds(self):
        """Returns the CPU time of all processes in the server's session, in seconds."""
        ticks = 0
        for path in glob.glob('/proc/[0-9]*/stat'):
            try:
                with open(path) as stat:
                    fields = stat.read().rsplit(')', 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process has ended
            if int(fields[3]) == self.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf('SC_CLK_TCK')

    def terminate(self):
        if self.process.poll() is not None:
            return
        if self.process.stdin:
            self.process.stdin.close()
        # Resume the process, because it cannot handle SIGTERM while it is stopped with
        # SIGSTOP.
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()

    def stop(self):
        """Ends the process. If the process still runs after `patience_at_end` seconds,
        kills it and its children, because their data are no longer needed."""
        self.terminate()
        try:
            self.process.wait(self.patience_at_end)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)  # the server leads a process group
            self.process.wait()


class Stack:
    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        self.servers = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for server in reversed(self.servers):
            server.terminate()
        for server in reversed(self.servers):
            server.stop()

    def _folder(self, name):
        path = os.path.join(self.directory, name)
        os.makedirs(path, exist_ok=True)
        return path

    def _start(self, name, argv, **more):
        server = Server(name, self._folder(name), argv, **more)
        self.servers.append(server)
        return server

    @staticmethod
    def _write(folder, name, text):
        path = os.path.join(folder, name)
        with open(path, 'w') as file:
            file.write(text)
        return path

    # -- Graphite ---------------------------------------------------------

    def carbon(self, schemas, aggregation):
        """Runs carbon-cache with these storage schemas and aggregation rules. .port of
        the returned server accepts lines; from .link_port, graphite-web fetches values
        that are not on disk yet."""
        folder = self._folder('carbon')
        port, pickle_port, link_port = free_port(), free_port(), free_port()
        self._write(folder, 'storage-schemas.conf', schemas)
        self._write(folder, 'storage-aggregation.conf', aggregation)
        config = self._write(folder, 'carbon.conf', CARBON_CONF.format(
            folder=folder, port=port, pickle_port=pickle_port, link_port=link_port))
        server = self._start('carbon', [
            PROGRAMS['carbon'][0], f'--config={config}', '--nodaemon',
            f'--pidfile={folder}/carbon.pid', 'start'], port=port)
        server.link_port = link_port
        server.whisper = os.path.join(folder, 'whisper')
        return server

    def graphite_web(self, carbon):
        folder = self._folder('graphite-web')
        os.makedirs(os.path.join(folder, 'log'), exist_ok=True)
        os.makedirs(carbon.whisper, exist_ok=True)
        link = os.path.join(folder, 'whisper')
        if not os.path.islink(link):
            os.symlink(carbon.whisper, link)
        env = {'PERCORE_GRAPHITE': folder, 'PYTHONPATH': f'{HERE}:{DASHBOARDS}',
               'PERCORE_CARBONLINK_PORT': str(carbon.link_port),
               'PYTHONDONTWRITEBYTECODE': '1',
               'GRAPHITE_SETTINGS_MODULE': 'graphite_settings'}
        subprocess.run([PROGRAMS['graphite-web'][0], 'migrate', '--run-syncdb'], check=True,
                       env=os.environ | env, stdin=subprocess.DEVNULL, capture_output=True)
        port = free_port()
        return self._start('graphite-web', [
            PROGRAMS['gunicorn'][0], '--bind', f'127.0.0.1:{port}', '--workers', '1',
            '--threads', '4', 'graphite_wsgi:application'], port=port, env=env)

    def carbon_c_relay(self, carbon_port, queue=100000):
        folder, port = self._folder('carbon-c-relay'), free_port()
        config = self._write(folder, 'relay.conf', sample('carbon-c-relay.conf', {
            '127.0.0.1:2003 proto tcp': f'127.0.0.1:{port} proto tcp',
            'graphite.example.com:2003': f'127.0.0.1:{carbon_port}'}))
        return self._start('carbon-c-relay', [
            PROGRAMS['carbon-c-relay'][0], '-f', config, '-w', '1', '-q', str(queue)],
            port=port)

    # -- InfluxDB ---------------------------------------------------------

    def influxdb(self):
        """Runs InfluxDB. On .collectd_port, the shipped listener receives collectd's
        protocol; on .udp_port, another listener receives the line protocol (database
        `udp`)."""
        folder = self._folder('influxdb')
        port, rpc_port, collectd_port, udp_port = (free_port() for _ in range(4))
        config = self._write(folder, 'influxdb.conf', INFLUXDB_CONF.format(
            folder=folder, port=port, rpc_port=rpc_port, udp_port=udp_port)
            + sample('influxdb-listener.conf', {
                'bind-address = ":25826"': f'bind-address = "127.0.0.1:{collectd_port}"',
                'batch-timeout = "1s"': 'batch-timeout = "200ms"'}))
        server = self._start('influxdb', [PROGRAMS['influxdb'][0], 'run', '-config', config],
                             port=port)
        server.collectd_port, server.udp_port = collectd_port, udp_port
        # Wait for the UDP ports as well: the HTTP port may open earlier, and datagrams
        # to a port that is not open yet are lost.
        server.udp_ports = collectd_port, udp_port
        # InfluxDB 1.6.7 hangs when it closes its collectd listener, so kill InfluxDB
        # soon.
        server.patience_at_end = 1
        return server

    # -- Prometheus -------------------------------------------------------

    def _scrape_config(self, folder, exporter_ports):
        return self._write(folder, 'prometheus.yml', sample('prometheus.yml', {
            "'127.0.0.1:9103'": ', '.join(f"'127.0.0.1:{port}'" for port in exporter_ports),
            'scrape_interval: 10s': 'scrape_interval: 1s',
            'scrape_configs:': 'global:\n  evaluation_interval: 1s\n\nscrape_configs:'}))

    def prometheus(self, *exporter_ports, name='prometheus', rules=None):
        """Runs Prometheus with `rules`, or with the shipped rules if `rules` is
        None."""
        folder, port = self._folder(name), free_port()
        config = self._scrape_config(folder, exporter_ports)
        self._write(folder, 'prometheus-rules.yml', rules or sample('prometheus-rules.yml'))
        server = self._start(name, [
            PROGRAMS['prometheus'][0], f'--config.file={config}',
            f'--storage.tsdb.path={folder}/data',
            f'--web.listen-address=127.0.0.1:{port}'], port=port)
        server.ready_path = '/-/ready'
        return server

    def victoria_metrics(self, *exporter_ports):
        """Runs VictoriaMetrics, which scrapes like Prometheus. Its .graphite_port
        accepts Graphite lines."""
        folder, port, graphite_port = self._folder('victoria-metrics'), free_port(), free_port()
        config = self._scrape_config(folder, exporter_ports)
        server = self._start('victoria-metrics', [
            PROGRAMS['victoria-metrics'][0], f'-storageDataPath={folder}/data',
            '-retentionPeriod=1', f'-httpListenAddr=127.0.0.1:{port}',
            f'-graphiteListenAddr=127.0.0.1:{graphite_port}',
            f'-promscrape.config={config}', '-promscrape.config.strictParse=false',
            '-search.latencyOffset=0s', '-memory.allowedBytes=128MB'], port=port)
        server.graphite_port = graphite_port
        return server

    # -- Kafka ------------------------------------------------------------

    def kafka(self):
        """Runs librdkafka's mock of a Kafka broker inside a producer that sends
        nothing. .brokers is the broker's address."""
        server = self._start('kafka', [
            PROGRAMS['kcat'][0], '-P', '-b', 'unused', '-t', 'unused', '-d', 'mock',
            '-X', 'test.mock.num.brokers=1'], stdin=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            server.check_alive()
            # Match a character after the port, because the line may still be
            # incomplete.
            found = re.search(r'bootstrap.servers=(127\.0\.0\.1:\d+)\D', server.tail())
            if found:
                server.brokers = found.group(1)
                return server
            time.sleep(0.05)
        raise RuntimeError('kcat printed no broker address within 60 s; its log:\n' + server.tail())

    # -- collectd ---------------------------------------------------------

    def collectd(self, body, host='percore-test', interval=1, name='collectd', env=None):
        """Runs collectd with a common configuration followed by `body`. .socket is the
        path of the socket of its plugin unixsock."""
        folder = self._folder(name)
        config = self._write(folder, 'collectd.conf', COLLECTD_CONF.format(
            folder=folder, host=host, interval=interval, types=TYPES_DB) + body)
        server = self._start(name, [PROGRAMS['collectd'][0], '-f', '-C', config], env=env)
        server.socket = os.path.join(folder, 'socket')
        return server

    # -- fast paths -------------------------------------------------------

    def runtime_folder(self, name='regions'):
        """Returns a directory for regions, for use as PERCORE_RUNTIME_DIR."""
        return self._folder(name)

    def program(self, name, argv, env):
        return self._start(name, argv, env=env)


CARBON_CONF = """\
[cache]
STORAGE_DIR = {folder}
LOCAL_DATA_DIR = {folder}/whisper
WHITELISTS_DIR = {folder}/lists
CONF_DIR = {folder}
LOG_DIR = {folder}/log
PID_DIR = {folder}
ENABLE_LOGROTATION = False
# Do not change to another user.
USER =
DATABASE = whisper
MAX_CACHE_SIZE = inf
MAX_UPDATES_PER_SECOND = inf
# With the default of 50 new files per minute, one host takes a quarter of an hour.
MAX_CREATES_PER_MINUTE = inf
MIN_TIMESTAMP_RESOLUTION = 1
LINE_RECEIVER_INTERFACE = 127.0.0.1
LINE_RECEIVER_PORT = {port}
ENABLE_UDP_LISTENER = False
PICKLE_RECEIVER_INTERFACE = 127.0.0.1
PICKLE_RECEIVER_PORT = {pickle_port}
CACHE_QUERY_INTERFACE = 127.0.0.1
CACHE_QUERY_PORT = {link_port}
USE_FLOW_CONTROL = True
LOG_UPDATES = False
LOG_CREATES = False
LOG_CACHE_HITS = False
CACHE_WRITE_STRATEGY = sorted
WHISPER_SPARSE_CREATE = True
CARBON_METRIC_INTERVAL = 5
CARBON_METRIC_PREFIX = carbon
"""

INFLUXDB_CONF = """\
reporting-disabled = true
bind-address = "127.0.0.1:{rpc_port}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
  max-series-per-database = 0
  max-values-per-tag = 0
[monitor]
  store-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
[continuous_queries]
  enabled = false
[[udp]]
  enabled = true
  bind-address = "127.0.0.1:{udp_port}"
  database = "udp"
  precision = "ms"
  batch-timeout = "200ms"
  read-buffer = 8388608
"""

COLLECTD_CONF = """\
Hostname "{host}"
FQDNLookup false
BaseDir "{folder}"
PIDFile "{folder}/collectd.pid"
TypesDB "{types}"
Interval {interval}
LoadPlugin logfile
<Plugin logfile>
  LogLevel info
  File STDOUT
  Timestamp true
</Plugin>
LoadPlugin unixsock
<Plugin unixsock>
  SocketFile "{folder}/socket"
  SocketPerms "0600"
  DeleteSocket true
</Plugin>
"""
