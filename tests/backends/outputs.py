"""The configurations of contrib/collectd, changed for servers on loopback."""
from servers import sample

# By default, collectd forgets a series that pauses for two intervals. A pause may
# happen if this machine or a test delays collectd.
LONG_MEMORY = 'Timeout 60\n'


def write_graphite(port, host='127.0.0.1'):
    return sample('write_graphite.conf', {
        'graphite.example.com': host, 'Port "2003"': f'Port "{port}"'})


def write_graphite_node(name, port, prefix='collectd.'):
    """Returns a block that adds a <Node> to write_graphite."""
    text = write_graphite(port)
    node = text[text.index('  <Node'):text.index('</Plugin>')]
    return ('<Plugin write_graphite>\n' + node.replace('<Node "graphite">', f'<Node "{name}">')
            .replace('Prefix "collectd."', f'Prefix "{prefix}"') + '</Plugin>\n')


def network(port):
    return sample('network-influxdb.conf', {
        '"influxdb.example.com" "25826"': f'"127.0.0.1" "{port}"'})


def write_influxdb_udp(port):
    return sample('write_influxdb_udp.conf', {
        '"influxdb.example.com" "8089"': f'"127.0.0.1" "{port}"'})


def write_prometheus(port):
    return sample('write_prometheus.conf', {'Port "9103"': f'Port "{port}"'})


def write_kafka(brokers):
    return sample('write_kafka.conf', {'kafka.example.com:9092': brokers})


def rrdtool(folder):
    """Returns the shipped configuration for RRD files, with almost no cache and with
    the resolution of one second that the test needs."""
    return sample('rrdtool.conf', {
        '/var/lib/collectd/rrd': folder,
        'CacheTimeout 120': 'CacheTimeout 1', 'RandomTimeout 60': 'RandomTimeout 0',
        'WritesPerSecond 100': 'WritesPerSecond 0',
        '  RRATimespan 3600\n': '  StepSize 1\n  HeartBeat 3\n  RRATimespan 1200\n'})


def csv(folder):
    return sample('csv.conf', {'"/var/lib/collectd/csv"': f'"{folder}"'})


def queue(values=None):
    """Returns the shipped limits of the write queue or, if `values` is given, limits
    for bursts of `values` values."""
    limit = values * 4 if values else 20000
    return sample('queue.conf', {'LimitHigh 20000': f'LimitHigh {limit}',
                                 'LimitLow  20000': f'LimitLow {limit}'})


THRESHOLD_HITS = 8


def threshold():
    """Returns the shipped thresholds, with fewer values until a warning that there is no
    room."""
    return sample('threshold.conf', {
        f'{limit} 10\n      Hysteresis 5\n      Hits 60': f'{limit} 10\nHysteresis 5\nHits {THRESHOLD_HITS}'
        for limit in ('WarningMin', 'FailureMin')})


def percore(plugin_folder, collectd_folder, options):
    return (f'PluginDir "{plugin_folder}"\nLoadPlugin percore\nPluginDir "{collectd_folder}"\n'
            f'<Plugin percore>\n{options}\n</Plugin>\n')
