"""Queries each store for a metric as users of the store do. The method `series` of each
class returns {second: value}."""
import glob
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

# The names of a type's data sources in types.db, unless the only name is `value`.
VALUE_NAMES = {'load': ('shortterm', 'midterm', 'longterm'), 'duration': ('seconds',)}


def value_names(metric):
    return VALUE_NAMES.get(metric.type, ('value',))


def get(url, query=None, post=False):
    data = urllib.parse.urlencode(query or {}, doseq=True)
    try:
        if post:
            with urllib.request.urlopen(url, data.encode(), timeout=60) as answer:
                return answer.read().decode()
        with urllib.request.urlopen(f'{url}?{data}' if data else url, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise RuntimeError(f'{url}?{data}: {error.code} {error.read()[:300]!r}') from None


class Graphite:
    name, rates = 'Graphite', True

    def __init__(self, url, prefix='collectd'):
        self.url, self.prefix = url, prefix

    def path(self, host, metric, index):
        nodes = [self.prefix, host.replace('.', '_'), metric.plugin, metric.instance, metric.type]
        if metric.type_instance:
            nodes.append(metric.type_instance)
        names = value_names(metric)
        if len(names) > 1:
            nodes.append(names[index])
        return '.'.join(nodes)

    def series(self, host, metric, index=0):
        return self.render(self.path(host, metric, index))

    def render(self, target, since='-5min'):
        answer = json.loads(get(self.url + '/render', {
            'target': target, 'from': since, 'format': 'json', 'noNullPoints': 'true'}))
        if len(answer) > 1:
            raise RuntimeError(f'{target} is {len(answer)} series')
        return {int(t): v for v, t in answer[0]['datapoints']} if answer else {}


class Influx:
    """The values that InfluxDB received through collectd's network protocol. With
    parse-multivalue-plugin = "split", InfluxDB stores each value of a type in a
    measurement of its own."""
    name, rates = 'InfluxDB', False

    def __init__(self, url, database='collectd'):
        self.url, self.database = url, database

    def query(self, text):
        answer = json.loads(get(self.url + '/query', {
            'db': self.database, 'q': text, 'epoch': 's'}))
        result = answer.get('results', [answer])[0]
        if 'error' in result:
            raise RuntimeError(f'{text}: {result["error"]}')
        return result.get('series', [])

    def where(self, host, metric):
        tags = {'host': host, 'instance': metric.instance, 'type': metric.type,
                'type_instance': metric.type_instance}
        return ' AND '.join(f"\"{tag}\" = '{value}'" for tag, value in tags.items())

    def select(self, host, metric, index):
        return 'value', f'{metric.plugin}_{value_names(metric)[index]}'

    def series(self, host, metric, index=0):
        field, measurement = self.select(host, metric, index)
        found = self.query(f'SELECT "{field}" FROM "{measurement}" '
                           f'WHERE {self.where(host, metric)} GROUP BY *')
        if len(found) > 1:
            raise RuntimeError(f'{metric} is {len(found)} series')
        return {t: v for t, v in found[0]['values']} if found else {}


class InfluxLines(Influx):
    """The values that InfluxDB received through its line protocol."""
    name, rates = 'InfluxDB by line protocol', True

    def select(self, host, metric, index):
        return value_names(metric)[index], metric.plugin


class Prometheus:
    name, rates = 'Prometheus', False

    def __init__(self, url):
        self.url = url

    def selector(self, host, metric, index):
        name = f'collectd_{metric.plugin}_{metric.type}'
        names = value_names(metric)
        if names != ('value',):
            name += '_' + names[index]
        if metric.counter:
            name += '_total'
        # The selector always contains the label `type`, which may be empty, because
        # load and load-runqueue are one metric in Prometheus.
        labels = {'host': host,
                  'set' if metric.plugin.startswith('percore_host') else 'core': metric.instance}
        region = re.fullmatch('percore_(?:host_)?([a-z0-9]+)_([a-z0-9]+)_([a-z0-9_]+)',
                              metric.plugin)
        if region:
            labels |= dict(zip(('region', 'table', 'field'), region.groups()))
            labels['row'], p99, _ = metric.type_instance.partition('_p99')
            labels |= {'quantile': '0.99'} if p99 else {}
            labels['type'] = ''
        else:
            labels['type'] = metric.type_instance
        return '%s{%s}' % (name, ', '.join(f'{k}={json.dumps(v)}' for k, v in labels.items()))

    def query(self, text):
        return json.loads(get(self.url + '/api/v1/query', {'query': text}))['data']['result']

    def range(self, text):
        """Returns the values of a query as {second: value}, for each second of the last
        five minutes."""
        now = int(time.time())
        answer = json.loads(get(self.url + '/api/v1/query_range', {
            'query': text, 'start': now - 300, 'end': now, 'step': 1}))['data']['result']
        if len(answer) > 1:
            raise RuntimeError(f'{text} is {len(answer)} series')
        return {int(float(t)): float(v) for t, v in answer[0]['values']} if answer else {}

    def series(self, host, metric, index=0):
        answer = self.query(self.selector(host, metric, index) + '[5m]')
        if len(answer) > 1:
            raise RuntimeError(f'{metric} is {len(answer)} series')
        return {int(float(t)): float(v) for t, v in answer[0]['values']} if answer else {}


class VictoriaMetrics(Prometheus):
    name = 'VictoriaMetrics'

    def series(self, host, metric, index=0):
        return self.export(self.selector(host, metric, index))

    def export(self, selector):
        lines = get(self.url + '/api/v1/export', {'match[]': selector}).splitlines()
        if len(lines) > 1:
            raise RuntimeError(f'{selector} is {len(lines)} series')
        if not lines:
            return {}
        found = json.loads(lines[0])
        # null is a staleness marker: the scraped page lacked the series.
        return {t // 1000: v for t, v in zip(found['timestamps'], found['values'])
                if v is not None}


class VictoriaGraphite(VictoriaMetrics):
    """The values that VictoriaMetrics received as lines of Graphite's protocol."""
    name, rates = 'VictoriaMetrics by Graphite lines', True

    def series(self, host, metric, index=0):
        path = Graphite('').path(host, metric, index)
        return self.export('{__name__=%s}' % json.dumps(path))


class Files:
    def __init__(self, folder):
        self.folder = folder

    def stem(self, host, metric):
        tail = f'-{metric.type_instance}' if metric.type_instance else ''
        return f'{self.folder}/{host}/{metric.plugin}-{metric.instance}/{metric.type}{tail}'


class Rrd(Files):
    name, rates = 'rrdtool', True

    def series(self, host, metric, index=0):
        path = self.stem(host, metric) + '.rrd'
        if not os.path.exists(path):
            return {}
        text = subprocess.run(['rrdtool', 'fetch', path, 'AVERAGE', '-s', '-5min'],
                              check=True, capture_output=True, text=True).stdout
        found = {}
        for line in text.splitlines():
            second, colon, values = line.partition(':')
            if colon and second.isdigit() and 'nan' not in values.split()[index]:
                found[int(second)] = float(values.split()[index])
        return found


class Csv(Files):
    name, rates = 'csv', True

    def series(self, host, metric, index=0):
        found = {}
        # Match the date in the file name, to distinguish percent-cstate_C1 from
        # percent-cstate_C1_ACPI.
        for path in glob.glob(glob.escape(self.stem(host, metric)) + '-2[0-9][0-9][0-9]-*'):
            with open(path) as file:
                for line in file.readlines()[1:]:
                    if not line.endswith('\n'):
                        continue  # collectd is still writing this line
                    columns = line.strip().split(',')
                    if columns[index + 1] != 'nan':
                        found[int(float(columns[0]))] = float(columns[index + 1])
        return found


class Kafka:
    name, rates = 'Kafka', True

    def __init__(self, brokers, topic='collectd'):
        self.brokers, self.topic, self.values = brokers, topic, None

    def consume(self):
        """Reads all values that Kafka has received so far."""
        text = subprocess.run(['kcat', '-C', '-q', '-b', self.brokers, '-t', self.topic,
                               '-o', 'beginning', '-e'], check=True, capture_output=True,
                              text=True, timeout=60).stdout
        self.values = {}
        for line in text.splitlines():
            for value in json.loads(line):
                key = tuple(value[k] for k in ('host', 'plugin', 'plugin_instance', 'type',
                                               'type_instance'))
                self.values.setdefault(key, {})[int(value['time'])] = value['values']

    def series(self, host, metric, index=0):
        if self.values is None:
            self.consume()
        found = self.values.get((host, metric.plugin, metric.instance, metric.type,
                                 metric.type_instance), {})
        return {t: v[index] for t, v in found.items() if v[index] is not None}
