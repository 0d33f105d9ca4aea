"""A fast path that counts at a known rate is killed with SIGKILL and started
again, and collectd is restarted in between: no store may show more than was
counted, and no counter may step back while collectd lives.

It runs beside the known values of stage_stores, second by second, on a collectd
of its own that writes to the same stores."""
import os
import signal
import time

import fastpath
import known
import stores
from report import note, proves, skip

HOST = 'restarts'
REGION = 'steady'
PAUSE_US = 1000  # after each packet, so that there are never more a second than
MOST = 1e6 / PAUSE_US
# A value may be of a moment a little earlier or later than it says.
TOLERANCE = 1.15
METRICS = [known.Metric(plugin, instance, 'derive', 'eth0', None, counter=True)
           for plugin, instance in ((f'percore_host_{REGION}_port_packets', 'all'),
                                    (f'percore_{REGION}_port_packets', '0'))]

# What happens after so many seconds. The first life counts more than collectd
# misses, and the second has counted for a while when collectd begins to read it:
# were that in the counter, it would step back, to no small number.
BEGUN, KILLED, BEGUN_AGAIN, COLLECTD_RESTARTS, KILLED_AND_BEGUN = 0, 4, 6, 10, 11
# When there are rates to be seen.
SPANS = (BEGUN, BEGUN_AGAIN), (BEGUN_AGAIN + 1, COLLECTD_RESTARTS), (KILLED_AND_BEGUN + 1, 60)


class Restarts:
    def __init__(self, context, body, until_end):
        self.context, self.body, self.until_end = context, body, until_end
        self.folder = context.stack.runtime_folder()
        self.producer, self.tallies, self.begun = None, [], []
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
        if self.missing:
            return
        if second in (KILLED, KILLED_AND_BEGUN):
            self.kill()
        if second in (BEGUN, BEGUN_AGAIN, KILLED_AND_BEGUN):
            self.begin()
        if second == COLLECTD_RESTARTS:
            self.collectd.stop()
            self.begin_collectd()

    def check(self, found, first):
        for store in found:
            sentence = (f'{store.name} shows no spike and no step back of a fast path that is '
                        'killed and restarted, nor over a restart of collectd')
            if self.missing:
                skip(sentence, self.missing)
                continue
            with proves(sentence):
                highest = [check_rates(store, metric, first) for metric in METRICS]
                if not store.rates:
                    for metric in METRICS:
                        check_counts(store, metric, first, self.tallies,
                                     int(self.begun[1]) - first)
                note(f'{store.name}: at most {max(highest):.0f} a second')


def rates_of(store, metric):
    """Per second, by the function that its users take."""
    if store.rates:
        return store.series(HOST, metric)
    if isinstance(store, stores.Influx):
        found = store.query('SELECT non_negative_derivative("value", 1s) FROM '
                            f'"{metric.plugin}_value" WHERE {store.where(HOST, metric)}')
        return dict(found[0]['values']) if found else {}
    return store.range(f'rate({store.selector(HOST, metric, 0)}[5s])')


def check_rates(store, metric, first):
    """Returns the highest one."""
    rates = {second - first: rate for second, rate in rates_of(store, metric).items()}
    shown = f'{metric}: {({s: round(r) for s, r in sorted(rates.items())})}'
    assert min(rates.values()) >= 0, f'{store.name} has less than none: {shown}'
    # A producer that is found an interval late brings the counts of both.
    in_order = [rate for second, rate in sorted(rates.items())]
    for before, rate in zip(in_order[:1] + in_order, in_order):
        assert min(rate, (before + rate) / 2) <= TOLERANCE * MOST, \
            f'{store.name} has more than {MOST:.0f} a second: {shown}'
    # Prometheus may have scraped too little of the first life for a rate; that it
    # has its last count, check_counts says.
    for since, until in SPANS[store.name == 'Prometheus':]:
        assert any(rates.get(s, 0) > MOST / 10 for s in range(since, until)), \
            f'{store.name} has no rate between {since} and {until} s: {shown}'
    return max(in_order)


def check_counts(store, metric, first, tallies, begun_again):
    """Stored as they are, counters never go back while collectd lives, and hold
    what was counted: all of the first life until the second has begun, but for a
    packet that it may have been about to count when it was killed."""
    series = [(second - first, count)
              for second, count in sorted(store.series(HOST, metric).items())]
    shown = f'{metric}: {series}, counted {[tally.packets() for tally in tallies]}'
    for since, until in (BEGUN, COLLECTD_RESTARTS), (COLLECTD_RESTARTS + 1, 60):
        counts = [count for second, count in series if since <= second <= until]
        assert counts == sorted(counts), f'{store.name} steps back: {shown}'
    at_the_end = max(count for second, count in series if second < begun_again)
    assert tallies[0].packets() - 1 <= at_the_end <= tallies[0].packets(), \
        f'{store.name} has {at_the_end} packets of the first life: {shown}'
