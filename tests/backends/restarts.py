"""Tests a fast path that counts at a known rate, is killed and is started again.
collectd is restarted while the second process runs. No store may show more than was
counted, and no counter may step back while collectd runs.

This test runs while stage_stores sends its known values, with a collectd of its own
that writes to the same stores."""
import math
import os
import signal
import subprocess
import time

import fastpath
import known
import stores
from report import note, proves, skip

HOST = 'restarts'
REGION = 'steady'
PAUSE_US = 1000  # after each packet
MOST = 1e6 / PAUSE_US  # packets per second
# A value may be a little older or newer than its timestamp.
TOLERANCE = 1.15
METRICS = [known.Metric(plugin, instance, 'derive', 'eth0', None, counter=True)
           for plugin, instance in ((f'percore_host_{REGION}_port_packets', 'all'),
                                    (f'percore_{REGION}_port_packets', '0'))]

# The events, and the seconds at which they are due. A late event delays the events
# after it. The first process counts for so long that the counter of the new collectd
# begins below that of the old collectd. When the new collectd starts, the second
# process has already counted for a while. If the counter of the new collectd included
# these counts, it would begin at a large number, and stores would show a spike.
BEGUN, KILLED, BEGUN_AGAIN, COLLECTD_RESTARTS, KILLED_AND_BEGUN = 0, 4, 6, 10, 11
STEPS = (BEGUN, KILLED, BEGUN_AGAIN, COLLECTD_RESTARTS, KILLED_AND_BEGUN)
LEAST_RATES = 2  # of the third process, for each metric


class Restarts:
    def __init__(self, context, found, body, until_end):
        self.context, self.found = context, found
        self.body, self.until_end = body, until_end
        self.folder = context.stack.runtime_folder()
        self.producer, self.tallies, self.begun = None, [], []
        self.restarted = self.last_step_at = 0.0
        self.missing = fastpath.missing(context)
        if not self.missing:
            self.begin_collectd()

    def begin_collectd(self):
        self.collectd = self.until_end(self.context.stack.collectd(
            self.body, host=HOST, name='collectd-restarts',
            env={'PERCORE_RUNTIME_DIR': self.folder}))

    def begin(self):
        tally = fastpath.Tally(os.path.join(self.folder, f'tally{len(self.tallies)}'))
        self.tallies.append(tally)
        self.begun.append(time.time())
        self.producer = self.until_end(fastpath.FastPath(self.context, REGION, self.folder))
        self.producer.tell(f'tally {tally.path}', f'row {fastpath.PORT} {b"eth0".hex()}',
                           f'run 0 {PAUSE_US}')

    def kill(self):
        self.producer.signal(signal.SIGKILL)
        self.producer.process.wait()

    def step(self, second):
        if self.missing or second not in STEPS:
            return
        if second != BEGUN:
            planned = second - STEPS[STEPS.index(second) - 1]
            time.sleep(max(0, self.last_step_at + planned - time.time()))
        if second in (KILLED, KILLED_AND_BEGUN):
            self.kill()
        if second in (BEGUN, BEGUN_AGAIN, KILLED_AND_BEGUN):
            self.begin()
        if second == COLLECTD_RESTARTS:
            self.restart_collectd()
        self.last_step_at = time.time()

    def restart_collectd(self):
        self.wait_for_kafka(self.begun_again + 1)
        began = time.monotonic()
        self.collectd.stop()
        note(f'collectd took {time.monotonic() - began:.1f} s to stop')
        self.restarted = time.time()
        self.begin_collectd()

    def finish(self, patience_s=60):
        """Waits until csv and Kafka contain rates of the third process."""
        deadline = time.monotonic() + patience_s
        while not self.missing and time.monotonic() < deadline and any(
                sum(second >= self.third_life for second in self.context.csv.series(HOST, metric))
                < LEAST_RATES for metric in METRICS):
            time.sleep(0.2)
        if not self.missing:
            self.wait_for_kafka(self.third_life)

    def wait_for_kafka(self, since, patience_s=30):
        """Waits until Kafka contains rates that are newer than `since`. When collectd
        ends, it loses the messages that librdkafka has not sent yet."""
        deadline = time.monotonic() + patience_s
        for kafka in (store for store in self.found if isinstance(store, stores.Kafka)):
            while time.monotonic() < deadline:
                try:
                    kafka.consume()
                    if all(has_rate(kafka.series(HOST, metric), since) for metric in METRICS):
                        break
                except subprocess.SubprocessError:
                    pass  # the topic does not exist yet
                time.sleep(0.2)
            kafka.values = None  # so that the next query reads the topic again

    # The next three properties are times in whole seconds, like the times of values.

    @property
    def begun_again(self):
        return int(self.begun[1])

    @property
    def second_collectd(self):
        """Returns the first second in which all values come from the second
        collectd."""
        return int(self.restarted) + 1

    @property
    def third_life(self):
        """Returns the first second in which stores can show a rate between two values
        of the third process."""
        return int(self.begun[2]) + 2

    def check(self, found, first):
        for store in found:
            sentence = (f'{store.name} shows no spike and no step back if a fast path is '
                        'killed and restarted, or collectd is restarted')
            if self.missing:
                skip(sentence, self.missing)
                continue
            with proves(sentence):
                highest = [self.check_rates(store, metric, first) for metric in METRICS]
                if not store.rates:
                    for metric in METRICS:
                        self.check_counts(store, metric, first)
                note(f'{store.name}: at most {max(highest):.0f} a second')

    def check_rates(self, store, metric, first):
        """Checks the rates of a metric in a store. Returns the highest rate."""
        rates = {second - first: rate for second, rate in rates_of(store, metric).items()}
        shown = f'{metric}: {({s: round(r) for s, r in sorted(rates.items())})}'
        assert min(rates.values()) >= 0, f'{store.name} has a negative rate: {shown}'
        # If collectd finds a producer an interval late, the rate includes the counts of
        # two intervals.
        in_order = [rate for second, rate in sorted(rates.items())]
        for before, rate in zip(in_order[:1] + in_order, in_order):
            assert min(rate, (before + rate) / 2) <= TOLERANCE * MOST, \
                f'{store.name} has more than {MOST:.0f} a second: {shown}'
        begun_again, second_collectd = self.begun_again - first, self.second_collectd - first
        spans = ((BEGUN, begun_again), (begun_again + 1, second_collectd),
                 (self.third_life - first, math.inf))
        # Prometheus may have scraped the first process only once, which yields no rate;
        # check_counts checks its last count instead.
        for since, until in spans[store.name == 'Prometheus':]:
            assert has_rate(rates, since, until), \
                f'{store.name} has no rate between {since} and {until} s: {shown}'
        return max(in_order)

    def check_counts(self, store, metric, first):
        """Checks counters that are not stored as rates. They must never step back while
        collectd runs. Before the second process begins, they must contain all packets
        of the first process, except for a packet that the first process was about to
        count."""
        series = sorted(store.series(HOST, metric).items())
        most = self.tallies[0].packets()
        shown = f'{metric}: {[(second - first, count) for second, count in series]}, ' \
            f'counted {[tally.packets() for tally in self.tallies]}'
        # During the last second before the restart, a value may come from either
        # collectd.
        for since, until in (first, self.second_collectd - 1), (self.second_collectd, math.inf):
            counts = [count for second, count in series if since <= second < until]
            assert counts == sorted(counts), f'{store.name} steps back: {shown}'
        assert all(count <= most for second, count in series if second < self.begun_again), \
            f'{store.name} has more than the first process counted: {shown}'
        of_first_life = [count for second, count in series
                         if second <= self.begun_again and count <= most]
        assert of_first_life and max(of_first_life) >= most - 1, \
            f'{store.name} lacks packets of the first process: {shown}'


def has_rate(rates, since, until=math.inf):
    return any(since <= second < until and rate > MOST / 10 for second, rate in rates.items())


def rates_of(store, metric):
    """Returns rates per second as {second: rate}. If the store does not store rates,
    computes them with the function that its users would use."""
    if store.rates:
        return store.series(HOST, metric)
    if isinstance(store, stores.Influx):
        found = store.query('SELECT non_negative_derivative("value", 1s) FROM '
                            f'"{metric.plugin}_value" WHERE {store.where(HOST, metric)}')
        return dict(found[0]['values']) if found else {}
    return store.range(f'rate({store.selector(HOST, metric, 0)}[5s])')
