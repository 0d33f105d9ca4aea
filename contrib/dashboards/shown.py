"""Describes what the dashboards show, independently of the database. To add a row to a
dashboard, add a Row that contains Panels, which contain Series."""


class Series:
    """A set of values of percore. `instance` is a core, a set of cores or a wildcard;
    `$core` and `$set` are chosen at the top of the dashboard. `legend` is a text, or
    words that distinguish the series: host, instance, type_instance and, for a region,
    field or plugin (region, table and field). `type_instance` may be a tuple of type
    instances, and `plugin` may contain a `*`. `thin` specifies how values are combined
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
    produces."""

    def __init__(self, kind, title, series, size, description, unit='none', **more):
        self.kind, self.title, self.series, self.size = kind, title, series, size
        self.description, self.unit, self.more = description, unit, more


class Row:
    def __init__(self, title, panels, collapsed=False):
        self.title, self.panels, self.collapsed = title, panels, collapsed


class Dashboard:
    """A dashboard. If `fleet` is true, $host stands for several hosts."""

    def __init__(self, title, description, rows, fleet=False):
        self.title, self.description, self.rows, self.fleet = title, description, rows, fleet


def percent(instance, name, **more):
    return Series(instance, 'percent', name, **more)


def own(names, **more):
    """Returns a Series of one or several gauges that percore reports about itself."""
    return Series('self', 'gauge', names, **more)


def averages(instance, type_instance=''):
    return [Series(instance, 'load', type_instance, value=value, legend=legend)
            for value, legend in (('shortterm', '1 min'), ('midterm', '5 min'),
                                  ('longterm', '15 min'))]


# A database receives names and numbers but no units, so a field's unit is derived from
# its name: (pattern, unit of a value, unit of its rate). The last pattern that matches
# applies.
FIELD_UNITS = (
    ('time|delay|latency|_ns', 'ns', 'ns'),
    ('_us', 'µs', 'µs'),
    ('_ms', 'ms', 'ms'),
    ('packets', 'short', 'pps'),
    ('bytes', 'bytes', 'Bps'),
    ('bits', 'bits', 'bps'),
    ('percent', 'percent', 'percent'),
)

ROOM = 'green up to 70 %, yellow up to 90 %, red above'
CLASSES = ('user', 'nice', 'system', 'irq', 'softirq', 'guest', 'iowait')
CONTEXTS = ('softirq_idle', 'softirq_tasks', 'softirq_ksoftirqd')
VECTORS = tuple(f'softirq_{name}' for name in (
    'hi', 'timer', 'net_tx', 'net_rx', 'block', 'irq_poll', 'tasklet', 'sched', 'hrtimer', 'rcu'))
CSTATES = ('cstate_*', 'idle_poll')
SOURCES = ('cores_mperf', 'cores_ref_cycles', 'cores_event', 'cores_bpf', 'cores_idle')
EVENTS = ('windows_discarded', 'errors', 'reopens', 'source_changes', 'snapshots_dropped',
          'rows_left_out', 'new_rows_left_out')
# Marked on the dashboard of a host, because a load may change with its source.
SOURCE_CHANGES = Series('self', 'derive', 'source_changes', legend='change of source')
REGION_EVENTS = ('attaches_refused', 'row_adds_refused')


def region(fields, type, names, **more):
    """Returns a Series of the fields of regions, summed over all cores."""
    return Series('all', type, names, plugin=f'percore_host_{fields}', **more)


HOST_ROWS = [
    Row('Which cores have room', [
        Panel('stat', 'Cores online', [own('cores_online', legend='online')],
              (4, 4), 'Measured cores that are online.'),
        Panel('stat', 'Busy cores', averages('all')[:1], (4, 4),
              'Sum of the load averages of all cores over one minute: the work of this host '
              'would fill this many cores.', decimals=2),
        Panel('stat', 'Mean load', [percent('$set', 'cores_mean', legend='mean')], (4, 4),
              f'Mean load of the chosen set of cores: {ROOM}.', 'percent', room=True),
        Panel('stat', 'Least busy core', [percent('$set', 'cores_min', legend='min')], (4, 4),
              'Load of the core with the most room. If it is red, no core has room.',
              'percent', room=True),
        Panel('stat', 'Busiest core', [percent('$set', 'cores_max', legend='max')], (4, 4),
              'Load of the core with the least room. A pipeline is as fast as this core.',
              'percent', room=True),
        Panel('stat', 'Cores without a value', [own('cores_without_value', legend='without')],
              (4, 4), 'Cores that are online and could not be measured. If this is not 0, the '
              'figures on this page do not cover the whole host.', alarm_from=1),
        Panel('bargauge', 'Load of each core, newest', [percent('$core', 'busy')], (11, 12),
              f'Share of time in which the core was not halted: {ROOM}. A core whose sibling '
              'hardware thread is busy has about half its room. A core that polls is always '
              'full; "Cores by room" shows how much of it is taken.', 'percent', room=True),
        Panel('bargauge', 'Useful load of polling cores', [percent('$core', 'useful')], (5, 12),
              f'Share of time in which a polling worker had work: {ROOM}. Only for a fast path '
              'that publishes it, see percore(3).', 'percent', room=True),
        Panel('table', 'Cores by room',
              [percent('$core', 'busy'), percent('$core', 'taken')], (8, 12),
              'Means over the time shown; the core with the most room first. Taken is the load '
              'without polls that found nothing; where nothing polls, all of the load is taken.',
              'percent', room=True, name='Core',
              columns=({'mean': 'Load'}, {'mean': 'Taken'}),
              sparse=('Taken',), by_least_of=('Load', 'Taken')),
    ]),
    Row('Load per core', [
        Panel('heatmap', 'Load of each core over time', [percent('$core', 'busy')], (24, 10),
              'One line per core. It shows work that moves from core to core, and cores that '
              'are never used.', 'percent'),
        Panel('timeseries', 'Load of each core', [percent('$core', 'busy')], (12, 9),
              'Mean over each interval.', 'percent', full=True),
        Panel('timeseries', 'Highest load within an interval (option SampleInterval)',
              [percent('$core', 'busy_max', thin='max')], (12, 9),
              'The busiest sample of each interval: bursts that the mean hides. Only with the '
              'option SampleInterval, see collectd-percore(5).', 'percent', full=True),
        Panel('timeseries', 'Spread over the cores ($set)',
              [percent('$set', 'cores_min', legend='min', thin='min'),
               percent('$set', 'cores_mean', legend='mean'),
               percent('$set', 'cores_max', legend='max', thin='max'),
               percent('$set', 'cores_stddev', legend='standard deviation')], (24, 8),
              'If the band is wide, the work is badly spread.', 'percent', full=True, band=True),
    ]),
    Row('Fast path: regions', [
        Panel('timeseries', 'What is taken of each core', [percent('$core', 'taken')], (8, 8),
              'A core that polls is always busy. This is its load without polls that found '
              'nothing.', 'percent', full=True),
        Panel('timeseries', 'Useful load of polling cores', [percent('$core', 'useful')], (8, 8),
              'The share of time in which the workers of a core had work.', 'percent', full=True),
        Panel('timeseries', 'Useful load, spread over the polling cores ($set)',
              [percent('$set', f'cores_useful_{figure}', legend=figure, thin=figure)
               for figure in ('min', 'mean', 'max')], (8, 8),
              'If the band is wide, the work is badly spread over the workers.', 'percent',
              full=True),
        Panel('timeseries', '$counter of each core, all rows',
              [Series('$core', 'derive', ('*',), legend='field instance', rate=True, over='sum',
                      plugin='percore_${counter}')], (12, 9),
              'Tables that had more than 16 rows have no values of single cores, unless '
              'ReportPerCore is true.', 'short', from_zero=True, fields='rates',
              axis='per second'),
        Panel('timeseries', '$counter of each row, all cores',
              [region('${counter}', 'derive', ('*',), legend='field type_instance', rate=True)],
              (12, 9), 'Of all cores.', 'short', from_zero=True, fields='rates',
              axis='per second'),
        Panel('timeseries', 'Drops and errors of all regions',
              [region(f'*{word}*', 'derive', ('*',), legend='plugin type_instance', rate=True)
               for word in ('drop', 'error')], (12, 8),
              'All counters whose names contain drop or error.', 'short', from_zero=True,
              fields='rates', axis='per second'),
        Panel('timeseries', '99th percentiles of all histograms',
              [region('*', 'gauge', ('*_p99',), legend='plugin type_instance', thin='max')],
              (12, 8), 'Over each interval. Units are derived from the names of the fields.',
              'short', from_zero=True, fields='values'),
        Panel('timeseries', 'Regions and their workers',
              [own(('regions', 'regions_silent', 'regions_stale', 'workers_stuck'),
                   legend='type_instance')], (24, 6),
              'silent: the producer is stopped by a signal. stale: all of its workers '
              'are stuck. stuck: a worker is awake and no longer polls.', 'short',
              from_zero=True),
    ], collapsed=True),
    Row('Load averages', [
        Panel('timeseries', 'Busy cores',
              averages('all') + [own('cores_online', legend='cores online')],
              (12, 8), 'Sum of the load averages of all cores: how many cores are busy. It is '
              'never above the number of cores.', 'short', dashed='cores online',
              from_zero=True, axis='cores'),
        Panel('timeseries', 'Run queue', averages('all', 'runqueue'), (12, 8),
              'Tasks that run, want to run, or wait for input and output. If there are more than '
              'cores, tasks wait for each other.', 'short', from_zero=True, axis='tasks'),
        *(Panel('timeseries', f'Load average of each core, {name}',
                [Series('$core', 'load', value=value)], (8, 8),
                'Exponentially weighted, from 0 to 1, accurate from the start.', 'percentunit',
                full=True)
          for value, name in (('shortterm', '1 min'), ('midterm', '5 min'),
                              ('longterm', '15 min'))),
    ]),
    Row('Hidden and unaccounted work', [
        Panel('timeseries', 'Host, in points of the load of all cores',
              [Series('all', 'gauge', 'hidden', legend='hidden'),
               Series('all', 'gauge', 'unaccounted', legend='unaccounted'),
               percent('all', 'steal', legend='steal')], (24, 7),
              'hidden: load that the columns of /proc/stat lack, because it slept when the '
              'timer tick came; top(1) does not show it. unaccounted: time that is in no '
              'column; not reported where all loads come from idle, because it then equals '
              'hidden. steal: time that the hypervisor gave to others, reported only under a '
              'hypervisor; hardware counters leave it out of the load, idle may include it.',
              'percent', dashed='unaccounted'),
    ]),
    Row('Hidden and unaccounted work of each core (ReportHidden true)', [
        Panel('timeseries', 'Hidden', [Series('$core', 'gauge', 'hidden')], (8, 8),
              'Load minus the busy columns of /proc/stat, in points.', 'percent'),
        Panel('timeseries', 'Unaccounted', [Series('$core', 'gauge', 'unaccounted')], (8, 8),
              'Time in no column of /proc/stat, in points.', 'percent'),
        Panel('timeseries', 'Steal', [percent('$core', 'steal')], (8, 8),
              'Time that the hypervisor gave to others.', 'percent', from_zero=True),
    ], collapsed=True),
    Row('What the timer tick saw (ReportTime true)', [
        Panel('timeseries', 'Classes of time, mean of the cores ($set)',
              [percent('$set', f'cores_{name}_mean', legend=name) for name in CLASSES], (24, 8),
              'The columns of /proc/stat. What the tick does not see is in hidden.', 'percent',
              stacked=True),
        *(Panel('timeseries', f'{name} of each core',
                [percent('$core', column)], (8, 8), 'As seen by the timer tick.', 'percent',
                from_zero=True)
          for name, column in (('User', 'user'), ('System', 'system'), ('Softirq', 'softirq'))),
    ], collapsed=True),
    Row('Hard interrupts and softirqs, measured (ReportSoftirq true)', [
        Panel('timeseries', 'Softirqs of each core', [percent('$core', 'softirq_all')], (12, 8),
              'Time in softirqs, whatever they ran in. Hard interrupts within them are in the '
              'next panel.', 'percent', from_zero=True),
        Panel('timeseries', 'Hard interrupts of each core', [percent('$core', 'hardirq')], (12, 8),
              'Time in the handlers of interrupts.', 'percent', from_zero=True),
        Panel('timeseries', 'What softirqs ran in, mean of the cores',
              [percent('$core', CONTEXTS, legend='type_instance', over='mean')], (12, 8),
              'idle: most tools count this time as idle. ksoftirqd: softirqs that were too many '
              'to be run at once.', 'percent', stacked=True),
        Panel('timeseries', 'Softirqs by kind, mean of the cores',
              [percent('$core', VECTORS, legend='type_instance', over='mean')], (12, 8),
              'net_rx: received packets and XDP.', 'percent', stacked=True),
    ], collapsed=True),
    Row('C-states, frequency, instructions (ReportCStates, ReportFrequency, ReportIPC)', [
        Panel('timeseries', 'Time in idle states, mean of the cores',
              [percent('$core', CSTATES, legend='type_instance', over='mean')], (12, 8),
              'idle_poll is the idle state that spins: the core is not halted. See idle_poll '
              'in collectd-percore(5).', 'percent', stacked=True),
        Panel('timeseries', 'Entries into idle states, all cores',
              [Series('$core', 'operations', CSTATES, legend='type_instance', rate=True,
                      over='sum')], (12, 8),
              'Each entry ends with a wake-up.', 'ops', from_zero=True),
        Panel('timeseries', 'Frequency while not halted', [Series('$core', 'cpufreq')], (8, 8),
              'From the counters mperf and aperf.', 'hertz'),
        Panel('timeseries', 'Instructions per cycle', [Series('$core', 'ipc')], (8, 8),
              'While not halted.', 'short', from_zero=True),
        Panel('timeseries', 'Share of time for which its counters ran',
              [percent('$core', 'ipc_running')], (8, 8),
              'Below 100 %, others use the counters too, and the figure is an estimate.',
              'percent', full=True),
    ], collapsed=True),
    Row('Scheduler (ReportSchedstat true)', [
        Panel('timeseries', 'Context switches of each core',
              [Series('$core', 'contextswitch', rate=True)], (12, 8),
              'Tasks that began to run.', 'ops', from_zero=True),
        Panel('timeseries', 'Tasks that waited to run on each core',
              [Series('$core', 'gauge', 'waiting')], (12, 8),
              'On average over each interval.', 'short', from_zero=True),
    ], collapsed=True),
    Row('How fast idle cores wake (block WakeLatency)', [
        Panel('timeseries', 'Out of each idle state, median, mean of the cores',
              [Series('$core', 'latency', ('cstate_*_p50',), legend='type_instance',
                      over='mean'),
               Series('self', 'latency', ('cstate_*_advertised',), legend='type_instance')],
              (12, 9), 'From the time of a timer until the core has left its idle state or, in '
              'states in which interrupts are on, until the interrupt. Moves if a state has '
              'become slower, not if cores use other states. advertised: by the idle driver.',
              's', from_zero=True),
        Panel('timeseries', 'Out of each idle state, 99 %, mean of the cores',
              [Series('$core', 'latency', ('cstate_*_p99',), legend='type_instance',
                      over='mean')], (12, 9),
              'Of states from which at least 1000 probes have woken a core.', 's',
              from_zero=True),
        *(Panel('timeseries', title, [Series('$core', 'latency', name)], (8, 8), text, 's',
                from_zero=True)
          for title, name, text in (
              ('Out of any idle state, 99 %', 'timer_wake_p99',
               'From the time of a timer until the core has left its idle state. Only idle states '
               'in which interrupts are off. Moves if cores use other states, too.'),
              ('To the interrupt, 99 %', 'timer_intr_p99',
               'From the time of a timer until its interrupt is entered.'),
              ('To the interrupt, median', 'timer_intr_p50',
               'From the time of a timer until its interrupt is entered.'))),
        Panel('timeseries', 'Probes of all cores',
              [Series('self', 'derive', 'wake_probes', legend='probes', rate=True)], (12, 7),
              'Each probe wakes a core.', 'ops', from_zero=True),
        Panel('timeseries', 'CPU time of the thread that probes',
              [percent('self', 'wake_cpu', legend='thread')], (12, 7),
              'In percent of one core.', 'percent', from_zero=True),
    ], collapsed=True),
    Row('Load averages over further periods (Period)', [
        Panel('timeseries', 'Busy cores', [Series('all', 'gauge', ('load_*',),
                                                  legend='type_instance')], (12, 8),
              'Over the periods of the option Period.', 'short', from_zero=True),
        Panel('timeseries', 'Each core', [Series('$core', 'gauge', ('load_*',),
                                                 legend='instance type_instance')], (12, 8),
              'Over the periods of the option Period.', 'percentunit', full=True),
    ], collapsed=True),
    Row('percore itself', [
        Panel('timeseries', 'Cores',
              [own(('cores_online', 'cores_without_value', 'cores_unproven',
                    'cores_tick_sampled'), legend='type_instance')], (8, 7),
              'unproven: the source could not be tested here. tick_sampled: on this kernel the '
              'source idle knows only what the timer tick saw.', 'short', from_zero=True),
        Panel('timeseries', 'Cores by source of their load',
              [own(SOURCES, legend='type_instance')], (8, 7),
              'Sources differ where a core polls in the idle loop, is stolen by a hypervisor or '
              'handles many softirqs; a step in a load at a change of source is due to that. '
              'A vertical line in each graph marks a change; collectd\'s log has both loads.', 'short', from_zero=True),
        Panel('timeseries', 'Events',
              [Series('self', 'derive', EVENTS, legend='type_instance', rate=True)], (8, 7),
              'Should be 0. windows_discarded: hotplug, suspend or a paused virtual machine. '
              'rows_left_out: rows of regions that are counted only in `other`; '
              'new_rows_left_out: because a program names its rows anew all the time.', 'ops',
              from_zero=True),
        Panel('timeseries', 'Worst lateness and cost of a sample',
              [Series('self', 'duration', ('lateness', 'sample_cost'), legend='type_instance',
                      value='seconds', thin='max')], (12, 7),
              'How late the sampling thread woke up, and how long it took to read all cores.',
              's', from_zero=True),
        Panel('timeseries', 'Memory of regions', [own('regions_memory', legend='memory')],
              (12, 7), 'Memory that collectd uses for rows of regions. MaxMemory is the limit; one '
              'region gets at most half of it.', 'bytes', from_zero=True),
        Panel('timeseries', 'Events of regions',
              [Series('self', 'derive', REGION_EVENTS, legend='type_instance', rate=True)], (12, 7),
              'Should be 0. attaches_refused: threads without a slot; their counts are lost. '
              'row_adds_refused: a table is full.', 'ops', from_zero=True),
        Panel('timeseries', 'CPU time of the sampling thread',
              [percent('self', 'sampler_cpu', legend='sampler')], (12, 7),
              'In percent of one core.', 'percent', from_zero=True),
    ]),
]

DROPS = dict(type='derive', names=('*',), rate=True, over='sum')

FLEET_ROWS = [
    Row('Which hosts have room', [
        Panel('stat', 'Cores online', [own('cores_online', legend='cores', over='sum')], (8, 4),
              'Measured cores of all hosts.', newest='5m'),
        Panel('stat', 'Busy cores', [Series('all', 'load', value='shortterm', legend='busy',
                                            over='sum')], (8, 4),
              'Sum of the load averages of all cores over one minute.', decimals=1,
              newest='5m'),
        Panel('stat', 'Cores without room',
              [Series('all', 'gauge', 'cores_without_room', legend='full', over='sum')], (8, 4),
              'Cores of which 90 % or more is taken: their load without polls that found '
              'nothing.',
              newest='5m'),
        Panel('table', 'Hosts by room',
              [percent('all', 'cores_min', legend='host'),
               percent('all', 'cores_mean', legend='host'),
               Series('all', 'gauge', 'cores_without_room', legend='host'),
               own('cores_online', legend='host'),
               percent('all', 'cores_taken_min', legend='host'),
               region('*drop*', legend='host', **DROPS),
               own('workers_stuck', legend='host')], (24, 15),
              'Newest values of the last two minutes, the host with the least room first: by how '
              'much of its least taken core is taken, or by its least busy core where no worker '
              'polls. Click a host to see its cores. Of cores without room, 90 % or more is '
              'taken.', 'percent', room=True,
              name='Host', links_to_host=True, newest='2m', descending=True,
              by_least_of=('Least busy core', 'Least taken core'), columns=(
                  {'lastNotNull': 'Least busy core'}, {'lastNotNull': 'Mean load'},
                  {'lastNotNull': 'Cores without room'}, {'lastNotNull': 'Cores'},
                  {'lastNotNull': 'Least taken core'}, {'lastNotNull': 'Drops per second'},
                  {'lastNotNull': 'Stuck workers'}),
              sparse=('Least taken core',),
              counts=('Cores without room', 'Cores', 'Drops per second', 'Stuck workers')),
    ]),
    Row('Over time', [
        Panel('heatmap', 'Mean load of each host over time',
              [percent('all', 'cores_mean', legend='host')], (24, 12),
              'One line per host.', 'percent'),
        Panel('timeseries', 'Drops of all hosts',
              [region('*drop*', legend='plugin', **DROPS)], (24, 8),
              'All counters whose names contain drop.', 'short', from_zero=True,
              fields='rates', axis='per second'),
    ]),
]

DASHBOARDS = {
    'host': Dashboard('percore', 'How busy each CPU core really is, as measured by the '
                      'collectd plugin percore.', HOST_ROWS),
    'fleet': Dashboard('percore, all hosts', 'Which hosts have room, as measured by the '
                       'collectd plugin percore.', FLEET_ROWS, fleet=True),
}
