"""Expresses a Series (see shown.py) in the query language of each database. A target of
a panel shows one Series; if `fleet` is true, $host stands for several hosts."""


def variable(name, label, query, source, **more):
    return {'name': name, 'label': label, 'type': 'query', 'datasource': source,
            'query': query, 'refresh': 2, 'options': [], **more}


def textbox(name, label, value):
    one = {'text': value, 'value': value}
    return {'name': name, 'label': label, 'type': 'textbox', 'query': value,
            'current': one, 'options': [{'selected': True, **one}]}


# A figure of each host that a dashboard lists.
SHOWN_BY = {'host': 'cores_online', 'regions': 'regions', 'fleet': 'cores_online'}
VARIABLES = {'host': ('host', 'set', 'core', 'figure'), 'regions': ('host', 'core', 'counter'),
             'fleet': ('host', 'set')}
SEVERAL = {'multi': True, 'includeAll': True, 'current': {'text': ['All'], 'value': ['$__all']}}


def choose(dashboard, variables, all_hosts='.*'):
    """Returns the variables of the dashboard. Several cores and figures may be chosen, and
    several hosts where the dashboard is of many."""
    more = {'core': SEVERAL, 'figure': SEVERAL | {'sort': 1}}
    if dashboard == 'fleet':
        more['host'] = SEVERAL | {'label': 'Hosts', 'allValue': all_hosts}
    return [variables[name] | {'sort': 3 if name == 'core' else 1} | more.get(name, {})
            for name in VARIABLES[dashboard]]


def several_of(names):
    return names if isinstance(names, tuple) else (names,)


def words_of(series, panel):
    """Returns the words of the legend for this series in this panel. If the instance is
    a core, replaces the word 'instance' by 'core', but not in tables, whose header
    already says so."""
    says_core = series.instance == '$core' and panel.kind != 'table'
    return ['core' if word == 'instance' and says_core else word for word in series.words]


# -- InfluxDB -----------------------------------------------------------------


class InfluxDB:
    """Queries for an InfluxDB 1.x that receives collectd's protocol, with the option
    `split`."""
    name, type = 'InfluxDB', 'influxdb'

    TAGS = {'host': 'host', 'instance': 'instance', 'core': 'instance',
            'type_instance': 'type_instance'}
    WORDS = {'host': '$tag_host', 'instance': '$tag_instance', 'core': 'core $tag_instance',
             'type_instance': '$tag_type_instance', 'field': 'field $m', 'plugin': '$m'}

    @staticmethod
    def variables(source, dashboard):
        host = 'WHERE "host" =~ /^$host$/'

        def values(name, label, tag, measurement, where):
            return variable(name, label, f'SHOW TAG VALUES FROM "{measurement}" '
                            f'WITH KEY = "{tag}" {where}', source)
        return choose(dashboard, {
            'host': values('host', 'Host', 'host', 'percore_host_value',
                           f'WHERE "type_instance" = \'{SHOWN_BY[dashboard]}\''),
            'set': values('set', 'Set of cores', 'instance', 'percore_host_value',
                          f'{host} AND "type_instance" = \'load_mean\''),
            'core': values('core', 'Cores', 'instance', 'percore_shortterm', host),
            'figure': values('figure', 'Figures of the cores', 'type_instance', 'percore_value',
                             f'{host} AND "type" =~ /^(percent|gauge|latency)$/'),
            'counter': variable(
                'counter', 'Counter of a region',
                f'SHOW SERIES FROM /^percore_host_.+_value$/ {host} AND "type" = \'derive\'',
                source, regex=r'/^percore_host_([^,]+)_value,/'),
        })

    @staticmethod
    def _where(series):
        yield '"host" =~ /^$host$/'
        if series.instance.startswith('$') or '*' in series.instance:
            yield '"instance" =~ /^%s$/' % series.instance.replace('*', '.*')
        else:
            yield f'"instance" = \'{series.instance}\''
        for tag, names in ('type', series.type), ('type_instance', series.type_instance):
            if isinstance(names, tuple) or names.startswith('$'):
                names = '|'.join(several_of(names)).replace('*', '.*')
                yield f'"{tag}" =~ /^({names})$/'
            else:
                yield f'"{tag}" = \'{names}\''
        yield '$timeFilter'

    @classmethod
    def target(cls, series, panel, fleet):
        fill = 'null' if panel.kind == 'timeseries' else 'none'
        where = ' AND '.join(cls._where(series))
        words = words_of(series, panel)
        # InfluxDB returns no empty points for a rate, but does so for an aggregate of
        # rates. So aggregate the rates of a graph, so that it shows gaps.
        over = series.over or ('mean' if series.rate and fill == 'null' else None)

        def group(tags):
            return ', '.join(['time($__interval)', *(f'"{tag}"' for tag in tags)])
        legend = [cls.TAGS[word] for word in words if word in cls.TAGS]
        tags = ['host'] * fleet + ['instance', 'type_instance'] if over else legend
        what = f'{series.thin}("value")'
        if series.rate:
            what = 'non_negative_derivative(last("value"), 1s)'
        source = f'"{series.plugin}_{series.value}"'
        if '*' in series.plugin:
            source = '/^%s_%s$/' % (series.plugin.replace('*', '.*'), series.value)
        text = f'SELECT {what} FROM {source} WHERE {where} GROUP BY {group(tags)} '
        if over:
            text = text.replace(' FROM', ' AS figure FROM', 1) + 'fill(none)'
            text = (f'SELECT {over}("figure") FROM ({text}) WHERE $timeFilter '
                    f'GROUP BY {group(legend)} ')
        text += f'fill({fill})'
        alias = ' '.join(cls.WORDS[word] for word in words) or series.legend
        return {'query': text, 'rawQuery': True, 'resultFormat': 'time_series', 'alias': alias}

    @classmethod
    def marks(cls, series):
        """Returns a query for the times at which a counter has increased."""
        changes = (f'SELECT non_negative_difference("value") AS "changes" FROM '
                   f'"{series.plugin}_{series.value}" WHERE {" AND ".join(cls._where(series))}')
        return {'query': f'SELECT "changes" FROM ({changes}) WHERE "changes" > 0',
                'queryType': 'tags'}


# -- Graphite -----------------------------------------------------------------


class Graphite:
    """Queries for a Graphite that receives values from write_graphite with
    SeparateInstances."""
    name, type = 'Graphite', 'graphite'

    FUNCTIONS = {'mean': 'average', 'sum': 'sum'}
    # For each word of a legend: the pattern that matches its part of an alias, and the
    # replacement.
    PARTS = {'field': (r'percore_(?:host_)?[a-z0-9]+_[a-z0-9]+_([a-z0-9_]+)', '{}'),
             'plugin': ('percore_(?:host_)?([a-z0-9_]+)', '{}'),
             'core': ('([^.]*)', 'core {}')}

    @staticmethod
    def variables(source, dashboard):
        def expand(name, label, path, regex):
            query = {'query': f'expand({path})', 'queryType': 'Default', 'refId': name}
            return variable(name, label, query, source, regex=regex)
        return [textbox('prefix', 'Prefix', 'collectd')] + choose(dashboard, {
            'host': expand('host', 'Host',
                           f'$prefix.*.percore_host.self.gauge.{SHOWN_BY[dashboard]}',
                           r'/([^.]+)\.percore_host\./'),
            'set': expand('set', 'Set of cores',
                          '$prefix.$host.percore_host.*.percent.load_mean',
                          r'/\.percore_host\.([^.]+)\./'),
            'core': expand('core', 'Cores', '$prefix.$host.percore.*', r'/\.percore\.([^.]+)$/'),
            'figure': expand('figure', 'Figures of the cores',
                             '$prefix.$host.percore.*.{percent,gauge,latency}.*',
                             r'/\.([^.]+)$/'),
            'counter': expand('counter', 'Counter of a region',
                              '$prefix.$host.percore_host_*.all.derive.*',
                              r'/\.percore_host_([^.]+)\./'),
        }, all_hosts='*')

    @staticmethod
    def path(series, prefix='$prefix.$host'):
        nodes = [prefix, series.plugin, series.instance]
        for names in several_of(series.type), several_of(series.type_instance):
            nodes.append('{%s}' % ','.join(names) if len(names) > 1 else names[0])
        if not series.type_instance:
            nodes.pop()
        if series.type == 'load':
            nodes.append(series.value)
        return '.'.join(nodes)

    @classmethod
    def _named(cls, text, words):
        """Returns an expression that gives readable names to the results of the
        expression `text`, whose names are `words` joined by dots."""
        if not set(words) & set(cls.PARTS):
            # Every dot separates two words, because names of rows and hosts contain no
            # dots.
            return f"aliasSub({text}, '\\.', ' ')" if len(words) > 1 else text
        parts = [cls.PARTS.get(word, ('([^.]*)', '{}')) for word in words]
        pattern = r'\.'.join(part for part, _ in parts)
        name = ' '.join(to.format(f'\\{i + 1}') for i, (_, to) in enumerate(parts))
        return f"aliasSub({text}, '^{pattern}$', '{name}')"

    @classmethod
    def expression(cls, series, words, prefix='$prefix.$host'):
        path = cls.path(series, prefix)
        # Nodes are counted from the right, so that the numbers are valid for any
        # prefix.
        depth = len(cls.path(series, '').split('.')) - 1
        nodes = {'host': -depth - 1, 'field': -depth, 'plugin': -depth, 'instance': 1 - depth,
                 'core': 1 - depth, 'type_instance': -1}
        numbers = ', '.join(str(nodes[word]) for word in words)
        if series.thin != 'mean':
            path = f"consolidateBy({path}, '{series.thin}')"
        if series.over and words:
            function = cls.FUNCTIONS[series.over]
            return cls._named(f"groupByNodes({path}, '{function}', {numbers})", words)
        if series.over:
            return f"alias(aggregate({path}, '{cls.FUNCTIONS[series.over]}'), '{series.legend}')"
        if words:
            return cls._named(f'aliasByNode({path}, {numbers})', words)
        return f"alias({path}, '{series.legend}')"

    @classmethod
    def target(cls, series, panel, fleet):
        return {'target': cls.expression(series, words_of(series, panel))}

    @classmethod
    def marks(cls, series, prefix='$prefix.$host'):
        """Returns a query for the times at which a counter, of which write_graphite
        stores the rate, has increased: Grafana marks no point that is 0."""
        return {'target': f"alias({cls.path(series, prefix)}, '{series.legend}')"}


# -- Prometheus ---------------------------------------------------------------


class Prometheus:
    """Queries for Prometheus, and for other databases that understand Prometheus's
    queries, with the labels that prometheus.yml sets."""
    name, type = 'Prometheus', 'prometheus'

    COUNTERS = ('derive', 'operations')
    THIN = {'mean': 'avg_over_time', 'max': 'max_over_time', 'min': 'min_over_time'}
    FUNCTIONS = {'mean': 'avg', 'sum': 'sum'}

    @staticmethod
    def variables(source, dashboard):
        host = 'host=~"$host"'

        def values(name, label, selector, of, **more):
            query = {'query': f'label_values({selector}, {of})', 'refId': name}
            return variable(name, label, query, source, **more)
        return choose(dashboard, {
            'host': values('host', 'Host', 'collectd_percore_host_gauge'
                           f'{{type="{SHOWN_BY[dashboard]}"}}', 'host'),
            'set': values('set', 'Set of cores',
                          f'collectd_percore_host_percent{{{host}, type="load_mean"}}', 'set'),
            'core': values('core', 'Cores', f'collectd_percore_load_shortterm{{{host}}}', 'core'),
            'figure': values('figure', 'Figures of the cores', '{__name__=~"collectd_percore_'
                             f'(percent|gauge|latency)", {host}}}', 'type'),
            'counter': values('counter', 'Counter of a region',
                              f'{{__name__=~"collectd_percore_host_.+_derive_total", {host}}}',
                              '__name__', regex='/^collectd_percore_host_(.+)_derive_total$/'),
        }, all_hosts='.+')

    @staticmethod
    def _matcher(label, text):
        if text.startswith('$') or '*' in text or '|' in text:
            return '%s=~"%s"' % (label, text.replace('*', '.*'))
        return f'{label}="{text}"'

    @classmethod
    def _labels(cls, series):
        """Returns a dict from each word of a legend to its label in Prometheus."""
        where = 'set' if series.plugin.startswith('percore_host') else 'core'
        return {'host': 'host', 'instance': where, 'core': where, 'field': 'field',
                'type_instance': 'row' if series.is_region else 'type'}

    @classmethod
    def _selector(cls, series, fleet):
        labels = cls._labels(series)
        types = '|'.join(several_of(series.type))
        name = f'collectd_{series.plugin}_' + (f'({types})' if '|' in types else types)
        if series.value != 'value':
            name += f'_{series.value}'
        if series.type in cls.COUNTERS:
            name += '_total'
        matchers = []
        if '*' in name or '|' in name:
            matchers.append('__name__=~"%s"' % name.replace('*', '.*'))
            name = ''
        matchers.append('host=~"$host"' if fleet else 'host="$host"')
        matchers.append(cls._matcher(labels['instance'], series.instance))
        names = series.type_instance
        if names == ('*_p99',):
            matchers.append('quantile="0.99"')
        elif names != ('*',):
            text = '|'.join(names) if isinstance(names, tuple) else names
            matchers.append(cls._matcher('type', text))
        return '%s{%s}' % (name, ', '.join(matchers))

    @classmethod
    def target(cls, series, panel, fleet):
        labels, words = cls._labels(series), words_of(series, panel)
        selector = cls._selector(series, fleet)
        # Use a function over an interval, because Prometheus would otherwise repeat the
        # newest value for 5 minutes.
        text = f'{cls.THIN[series.thin]}({selector}[$__interval])'
        if series.rate:
            text = f'rate({selector}[$__rate_interval])'
        if series.over:
            group = ', '.join(labels.get(word, 'region, table, field') for word in words)
            text = f'{cls.FUNCTIONS[series.over]} by ({group}) ({text})'
        names = {'core': 'core {{%s}}' % labels['core'],
                 'plugin': '{{region}} {{table}} {{field}}'}
        legend = ' '.join(names.get(word) or '{{%s}}' % labels[word] for word in words)
        return {'expr': text, 'legendFormat': legend or series.legend, 'range': True,
                'format': 'time_series'}

    @classmethod
    def marks(cls, series):
        """Returns a query for the times at which a counter has increased. In two
        minutes there are two values if the interval is at most a minute."""
        return {'expr': f'increase({cls._selector(series, False)}[2m]) > 0'}
