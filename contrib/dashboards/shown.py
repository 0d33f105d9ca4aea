"""Describes what the dashboards show, independently of the database. To add a row to a
dashboard, add a Row that contains Panels, which contain Series.

No panel is empty: each has a series that every listed host reports. Grafana draws a
repeated panel also where its variable has no value, so `$figure` lists all figures of the
cores, of which options add some; and the dashboard of regions lists only hosts that have
some."""


class Series:
    """A set of values of percore. `instance` is a core, a set of cores or a wildcard;
    `$core` and `$set` are chosen at the top of the dashboard. `legend` is a text, or
    words that distinguish the series: host, instance, type_instance and, for a region,
    field or plugin (region, table and field). `type` and `type_instance` may be tuples,
    and `plugin` may contain a `*`. `thin` specifies how values are combined
    if there are more values than pixels. `over` (sum or mean) combines all series with
    the same legend.
    """

    WORDS = ('host', 'instance', 'type_instance', 'field', 'plugin')

    def __init__(self, instance, type, type_instance='', legend='instance', value='value',
                 thin='mean', rate=False, over=None, plugin=None):
        self.plugin = plugin or ('percore' if instance == '$core' else 'percore_host')
        self.instance, self.type, self.value = instance, type, value
        self.type_instance = type_instance
        self.legend, self.thin, self.rate, self.over = legend, thin, rate, over

    @property
    def words(self):
        """Returns the words of the legend, or an empty list if the legend is a text."""
        words = self.legend.split()
        return words if all(word in self.WORDS for word in words) else []

    @property
    def is_region(self):
        return '*' in self.plugin or '$' in self.plugin


class Panel:
    """A panel of a dashboard. In a table, the argument `columns` contains an entry for
    each series: a dict from reducer to the name of the column that the reducer
    produces; the least value of the first column comes first. `repeat` names a variable, for each of whose values the panel is shown."""

    def __init__(self, kind, title, series, size, description, unit='none', **more):
        self.kind, self.title, self.series, self.size = kind, title, series, size
        self.description, self.unit, self.more = description, unit, more


class Row:
    def __init__(self, title, panels):
        self.title, self.panels = title, panels


class Dashboard:
    """A dashboard. Its name is fleet if $host stands for several hosts; `links` names
    the dashboards that it leads to, with titles."""

    def __init__(self, name, title, description, rows, links):
        self.name, self.title, self.description = name, title, description
        self.rows, self.links, self.fleet = rows, links, name == 'fleet'


def percent(instance, name, **more):
    return Series(instance, 'percent', name, **more)


def own(names, **more):
    """Returns a Series of one or several gauges that percore reports about itself."""
    return Series('self', 'gauge', names, **more)


def averages(instance, type_instance=''):
    return [Series(instance, 'load', type_instance, value=value, legend=legend)
            for value, legend in (('shortterm', '1 min'), ('midterm', '5 min'),
                                  ('longterm', '15 min'))]


# A database receives names and numbers but no units, so units are derived from names:
# (pattern, unit). The last pattern that matches applies.
VALUE_UNITS = (('time|delay|latency|_ns', 'ns'), ('_us', 'µs'), ('_ms', 'ms'), ('bytes', 'bytes'),
               ('bits', 'bits'), ('percent', 'percent'), ('regions_memory', 'bytes'))
RATE_UNITS = (('time|delay|latency|_ns', 'ns'), ('_us', 'µs'), ('_ms', 'ms'), ('packets', 'pps'),
              ('bytes', 'Bps'), ('bits', 'bps'), ('percent', 'percent'))
FIGURE_UNITS = (('datapoints', 'short'), ('(timer|cstate)_.*_p[0-9]', 's'))

ROOM = 'green from 30 % up, yellow from 10 % up, red below'
CLASSES = ('user', 'system', 'irq', 'softirq')
STUCK = ('regions_silent', 'regions_stale', 'workers_stuck')
LOST = ('rows_left_out', 'new_rows_left_out', 'attaches_refused', 'row_adds_refused',
        'snapshots_dropped', 'windows_discarded', 'errors')
CORES = ('cores_online', 'cores_without_value', 'cores_unproven', 'cores_tick_sampled',
         'cores_mperf', 'cores_ref_cycles', 'cores_event', 'cores_bpf', 'cores_idle')
# Marked on the dashboard of a host, because a load may change with its source.
SOURCE_CHANGES = Series('self', 'derive', 'source_changes', legend='new source')

WHAT_TO_TYPE = """
On the host; `N` is the number of a core.

| what fills the core | what to type |
|---|---|
| which class of time | `percore load --time` |
| **user**, **system**: a program | `pidstat -u 5 1` (column CPU) |
| its functions | `perf top -C N` |
| **softirq**: packets, timers | `percore load --time`, and the option `ReportSoftirq true` for its kinds |
| **irq**: a device | `watch -d cat /proc/interrupts` |
| **hidden**: work too short for the timer tick | `perf top -C N`; top(1) does not show it |
| **steal**: other guests | ask the administrator of the hypervisor |
| a fast path that polls | `percore regions` (process and user), `percore top` |
| a figure is missing | `percore doctor` |
"""


def region(fields, type, names, **more):
    """Returns a Series of the fields of regions, summed over all cores."""
    return Series('all', type, names, plugin=f'percore_host_{fields}', **more)


HOST_ROWS = [
    Row('Which cores have room, and what fills the others', [
        Panel('stat', 'Room ($set)', [percent('$set', 'room_mean', legend='room')], (4, 4),
              f'Mean room of the chosen set of cores, without polls that found nothing: {ROOM}.',
              'percent', room=True),
        Panel('stat', 'Least room of a core', [percent('$set', 'room_min', legend='min')], (4, 4),
              'Room of the fullest core of the set. A pipeline is as fast as this core.',
              'percent', room=True),
        Panel('stat', 'Load ($set)', [percent('$set', 'load_mean', legend='mean')], (4, 4),
              'Mean load of the set. A core that polls is always busy.', 'percent'),
        Panel('stat', 'Busy cores', averages('all')[:1], (4, 4),
              'Sum of the load averages of all cores over one minute: the work of this host '
              'would fill this many cores.', decimals=2),
        Panel('stat', 'Cores online', [own('cores_online', legend='online')],
              (4, 4), 'Measured cores that are online.'),
        Panel('stat', 'Cores without a value', [own('cores_without_value', legend='without')],
              (4, 4), 'Cores that are online and could not be measured. If this is not 0, the '
              'figures on this page do not cover the whole host.', alarm_from=1),
        Panel('table', 'Cores by room', [percent('$core', 'room'), percent('$core', 'load')],
              (6, 12), 'Means over the time shown; the core with the least room first. Room is '
              'what the load leaves, and polls that found nothing.', 'percent', room=True,
              name='Core', columns=({'mean': 'Room'}, {'mean': 'Load'})),
        Panel('timeseries', 'What fills the cores, mean of all',
              [*(percent('all', f'{name}_mean', legend=name) for name in CLASSES),
               Series('all', 'gauge', 'hidden', legend='hidden'),
               percent('all', 'steal', legend='steal')], (9, 12),
              'The columns of /proc/stat, which the timer tick samples; hidden is the load that '
              'they lack, steal is time that the hypervisor gave to others.', 'percent',
              stacked=True),
        Panel('text', 'What to type', [], (9, 12), 'Commands that name the process.',
              text=WHAT_TO_TYPE),
    ]),
    Row('Over time', [
        Panel('heatmap', 'Room of each core over time', [percent('$core', 'room')], (24, 10),
              'One line per core. It shows work that moves from core to core, and cores that '
              'are never used.', 'percent'),
        Panel('timeseries', 'Spread of the load ($set)',
              [percent('$set', 'load_min', legend='min', thin='min'),
               percent('$set', 'load_mean', legend='mean'),
               percent('$set', 'load_max', legend='max', thin='max'),
               percent('$set', 'load_stddev', legend='standard deviation')], (12, 8),
              'If the band is wide, the work is badly spread.', 'percent', full=True, band=True),
        Panel('timeseries', 'Busy cores and run queue',
              [*averages('all'),
               Series('all', 'load', 'runqueue', value='shortterm', legend='run queue'),
               own('cores_online', legend='cores')], (12, 8),
              'Sums of the load averages of all cores: how many cores are busy. The run queue '
              'has tasks that run, want to run, or wait for input and output: if there are more '
              'than cores, tasks wait for each other.', 'short', dashed='cores',
              from_zero=True, axis='cores, tasks'),
        Panel('timeseries', '$figure of each core',
              [Series('$core', ('percent', 'gauge', 'latency'), '$figure',
                      legend='instance type_instance')], (24, 8),
              'Options and regions add figures: useful with a region, classes of time with '
              'ReportTime, kinds of softirq with ReportSoftirq, idle states with ReportCStates '
              'and WakeLatency. collectd-percore(5) says what each means.', 'percent',
              units=FIGURE_UNITS, from_zero=True, repeat='figure'),
    ]),
    Row('What should be 0, and percore itself', [
        Panel('timeseries', 'What should be 0',
              [own(('cores_without_value', *STUCK), legend='type_instance'),
               Series('self', 'derive', LOST, legend='type_instance', rate=True),
               *(region(f'*{word}*', 'derive', ('*',), legend='plugin', rate=True, over='sum')
                 for word in ('drop', 'error'))], (12, 8),
              'cores_without_value: cores that could not be measured. silent: the process of a '
              'region is stopped; stale: all of its workers are stuck; stuck: a worker is awake '
              'and no longer polls. left_out, refused, dropped: values or counts are missing. '
              'Beside these, per second, the counters of regions whose names contain drop or '
              'error.', 'short', from_zero=True, units=RATE_UNITS),
        Panel('timeseries', 'Cores by source of their load', [own(CORES, legend='type_instance')],
              (6, 8), 'Sources, unproven and tick_sampled with ReportSelf. A vertical line in each '
              "graph marks a change; collectd's log has the loads before and after it.",
              'short', from_zero=True),
        Panel('timeseries', "CPU time of percore's threads",
              [percent('self', ('sampler_cpu', 'wake_cpu'), legend='type_instance')], (6, 8),
              'In percent of one core.', 'percent', from_zero=True),
    ]),
]

REGION_ROWS = [
    Row('What regions count', [
        Panel('timeseries', 'All counters', [region('*', 'derive', ('*',), legend='plugin',
                                                    rate=True, over='sum')], (24, 9),
              'Sums over rows and cores: shows what has grown.', 'short', from_zero=True,
              units=RATE_UNITS, axis='per second'),
        Panel('timeseries', '$counter of each row',
              [region('${counter}', 'derive', ('*',), legend='field type_instance', rate=True)],
              (12, 9), 'Of all cores.', 'short', from_zero=True, units=RATE_UNITS,
              axis='per second'),
        Panel('timeseries', '$counter of each core',
              [Series('$core', 'derive', ('*',), legend='field instance', rate=True, over='sum',
                      plugin='percore_${counter}'),
               region('${counter}', 'derive', ('*',), legend='field', rate=True, over='sum')],
              (12, 9), 'All rows, and the sum over the cores. Tables that had more than 16 rows '
              'have no values of single cores, unless ReportPerCore is true.', 'short',
              from_zero=True, units=RATE_UNITS, axis='per second'),
        Panel('timeseries', 'Regions, workers, memory, and 99th percentiles of histograms',
              [own(('regions', 'regions_memory', *STUCK), legend='type_instance'),
               region('*', 'gauge', ('*_p99',), legend='plugin type_instance', thin='max')],
              (24, 9), 'Percentiles over each interval. silent: the process of a region is '
              'stopped; stale: all of its workers are stuck; stuck: a worker is awake and no '
              'longer polls. MaxMemory is the limit of the memory.', 'short', from_zero=True,
              units=VALUE_UNITS),
    ]),
]

FLEET_ROWS = [
    Row('Which hosts have room', [
        Panel('stat', 'Room ($set)', [percent('$set', 'room_mean', legend='room', over='mean')],
              (8, 4), f'Mean room of the chosen set of cores of all hosts: {ROOM}.', 'percent',
              room=True, newest='5m'),
        Panel('stat', 'Busy cores', [Series('all', 'load', value='shortterm', legend='busy',
                                            over='sum')], (8, 4),
              'Sum of the load averages of all cores over one minute.', decimals=1,
              newest='5m'),
        Panel('stat', 'Cores online', [own('cores_online', legend='cores', over='sum')], (8, 4),
              'Measured cores of all hosts.', newest='5m'),
        Panel('table', 'Hosts by room ($set)',
              [percent('$set', 'room_mean', legend='host'),
               percent('$set', 'room_min', legend='host'),
               percent('$set', 'load_mean', legend='host'),
               region('*drop*', 'derive', ('*',), legend='host', rate=True, over='sum'),
               own('workers_stuck', legend='host'),
               own('cores_without_value', legend='host')], (24, 15),
              'Newest values of the last two minutes, the host with the least room in the chosen '
              'set of cores first. Click a host to see its cores.', 'percent', room=True,
              name='Host', links_to_host=True, newest='2m', columns=(
                  {'lastNotNull': 'Room'}, {'lastNotNull': 'Least room of a core'},
                  {'lastNotNull': 'Load'}, {'lastNotNull': 'Drops per second'},
                  {'lastNotNull': 'Stuck workers'}, {'lastNotNull': 'Cores without a value'}),
              counts=('Drops per second', 'Stuck workers', 'Cores without a value')),
    ]),
    Row('Over time', [
        Panel('heatmap', 'Room of each host over time ($set)',
              [percent('$set', 'room_mean', legend='host')], (24, 12),
              'One line per host.', 'percent'),
    ]),
]

DASHBOARDS = [
    Dashboard('host', 'percore', 'Which cores of a host have room, and what fills the others.',
              HOST_ROWS, {'fleet': 'All hosts', 'regions': 'Regions'}),
    Dashboard('regions', 'percore, regions', 'What the regions and BPF maps of a host count.',
              REGION_ROWS, {'fleet': 'All hosts', 'host': 'Cores'}),
    Dashboard('fleet', 'percore, all hosts', 'Which hosts have room.', FLEET_ROWS, {}),
]
