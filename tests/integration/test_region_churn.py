"""Tests reused rows with the real collectd: all series of a counter add up to the true
count, exact to the packet, and so do the rates between successive points."""

import functools
import time
from concurrent.futures import ThreadPoolExecutor

from churn import LONG, PACKET, Churner, TruthLog, arrived
from harness import Collectd, Skip, check, run_all, say, take_precedence
from producers import RuntimeDir

INTERVAL = 0.3
SECONDS = 60 if LONG else 2.5
ARRIVAL_S = 60  # how long to wait for values; a busy machine may delay them
REGIONS = "percore_host-self/gauge-regions"


# ---------------------------------------------------------------------------
# The counts of producers and the counts that arrived


def region(name, *lines, table=()):
    """Returns a <Region> block that contains `lines`, and a <Table> block that contains
    the lines `table`."""
    return "\n".join([f'<Region "{name}">', *lines, '<Table "session">',
                      'Field "packets" "bytes"', *table, "</Table>",
                      "</Region>"])


def top(number, name="gtpu", *lines):
    return region(name, *lines, table=[f'Top {number} "packets"'])


def wait_for_snapshots(collectd, count):
    """Waits until `count` snapshots that begin from now on have arrived completely. A
    separate thread reads the regions, so their snapshots may arrive later than the
    loads of cores."""
    begin = time.time()
    collectd.wait_for(
        lambda: sum(value.time > begin for value in collectd.of(REGIONS)) >
        count, ARRIVAL_S, f"{count} snapshots of the regions")


def wait_until_read(collectd, *names):
    """Waits until the regions `names` have been read."""
    collectd.wait_for(lambda: all(arrived(collectd, name).series
                                  for name in names), ARRIVAL_S,
                      f"values of {names}")


def wait_until_arrived(collectd, least):
    """Waits until the packets of each region have arrived, and a little longer in case
    too many arrive. least: the expected number of packets of each region. Does not fail
    if packets are missing: the caller reports them."""
    end = time.monotonic() + ARRIVAL_S
    while time.monotonic() < end and any(
            arrived(collectd, name).total() < packets
            for name, packets in least.items()):
        wait_for_snapshots(collectd, 1)
    wait_for_snapshots(collectd, 2)


def faults_of(what, got, least, most):
    """Returns messages about packets that were lost (fewer than `least` arrived) or
    invented (more than `most`), in total and between successive points."""
    faults = []
    for how, count in (("in all", got.total()),
                       ("between two points", got.two_point())):
        off = min(0, count - least) + max(0, count - most)
        if off != 0:
            verb = "lost" if off < 0 else "invented"
            faults.append(f"{what}: {abs(off)} {verb} {how}, {count} of "
                          f"{least}, {100 * off / max(1, least):+.3f} %")
    return faults


def faults_of_counts(collectd, producers, before=None, seen=None):
    """Returns a message for each region whose producers' counts have not all arrived
    exactly once. before: the count of each region before collectd was started. seen:
    the least count of a region at the first read, if it was greater than `before`."""
    before, seen = before or {}, seen or {}
    least, most = {}, {}
    for name, lives in producers.items():
        most[name] = sum(each.begun() for each in lives) - before.get(name, 0)
        least[name] = sum(each.done() for each in lives) - seen.get(
            name, before.get(name, 0))
    wait_until_arrived(collectd, least)
    faults = []
    for name in producers:
        got = arrived(collectd, name)
        say(f"{name}: of {least[name]} packets {got.total()} arrived, "
            f"{got.two_point()} of them between two points")
        faults += faults_of(name, got, least[name], most[name])
        faults += faults_of(f"{name} (bytes)", arrived(collectd, name, "bytes"),
                            PACKET * least[name], PACKET * most[name])
    return faults


def check_none(faults):
    check(not faults, "\n".join(faults))


def churn_for(seconds, *producers):
    for producer in producers:
        producer.do("run")
    time.sleep(seconds)
    for producer in producers:
        producer.do("stop")


def wait_for_the_first_read(collectd):
    """Waits until collectd has looked for regions once. It then reports all counts of
    producers that start later."""
    collectd.wait_for_value(REGIONS)


# ---------------------------------------------------------------------------
# Before the first read


def test_reused_before_the_first_look():
    """Counts of objects that were replaced before collectd first read the region are
    reported, in tables of every kind"""
    kinds = {"owned": {}, "noreset": {"noreset": 1}, "percore": {"percore": 1},
             "named": {"named": 1}, "many": {"rows": 16, "live": 4}}
    options = "\n".join(region(name, "ReportPerCore false") for name in kinds)
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd:
        wait_for_the_first_read(collectd)
        producers = {}
        for name, kind in kinds.items():
            producer = Churner(runtime, name, **{"rows": 1, "live": 1, **kind})
            producer.do("count 0 1000 1", "reuse 0", "count 0 500 1")
            producers[name] = [producer]
        check_none(faults_of_counts(collectd, producers))


# ---------------------------------------------------------------------------
# Tables of address translations: many rows, few of which are shown

NAT = {
    "owned": {},
    "noreset": {"noreset": 1},
    "percore": {"percore": 1, "workers": 2, "shared": 1},
    "percorenoreset": {"percore": 1, "workers": 2, "shared": 1, "noreset": 1},
}


class Nat:
    """Runs the producers in NAT, one for each kind of table, and replaces 20 000
    objects per second in each. Collects the errors of counts and of rates."""

    def __init__(self, interval, seconds, rows):
        self.what = f"{rows} rows at {interval} s"
        self.faults = {name: [] for name in NAT}
        self.rates = []
        self.producers = {}
        options = "\n".join(top(100, name, "ReportPerCore false")
                            for name in NAT)
        with RuntimeDir() as runtime, \
                Collectd(options, interval).start() as collectd:
            wait_for_the_first_read(collectd)
            for name, kind in NAT.items():
                self.start(runtime, name, rows=rows, live=rows * 50 // 65,
                           reuses=20000, packets=100000, hot=60, **kind)
            # While others still fill their tables, no core is left for collectd.
            self.logs = {name: TruthLog(producer)
                         for name, producer in self.producers.items()}
            time.sleep(seconds)
            for name, producer in self.producers.items():
                self.logs[name].end()
                self.do(name, producer, "stop")
                say(f"{name}: {producer.reuses() / seconds:.0f} rows reused a "
                    f"second, {producer.refused()} of them after a retry")
            for fault in faults_of_counts(collectd, {
                    name: [each] for name, each in self.producers.items()}):
                self.faults[fault.split()[0].rstrip(":")].append(fault)
            for producer in self.producers.values():
                producer.kill()
            for name, log in self.logs.items():
                self.rates += faults_of_rates(name, collectd, log, interval)

    def start(self, runtime, name, **options):
        producer = Churner(runtime, name, **options)
        self.producers[name] = producer
        self.do(name, producer, "run")

    def do(self, name, producer, line):
        """Sends a command to a producer. Records a failure instead of raising it, so
        that the other producers continue."""
        try:
            producer.do(line)
        except (AssertionError, BrokenPipeError) as error:
            self.faults[name].append(f"{name}: {line}: {error}")


def faults_of_rates(name, collectd, log, interval):
    """Compares the sum of all rates with the truth, in total and in each interval.
    Returns messages about errors that inexact timestamps do not explain."""
    got = arrived(collectd, name)
    # The first two intervals of a series are one average.
    times = [when for when in got.times() if log.covers(when)][2:]
    if len(times) < 3:
        return [f"{name}: values at {len(times)} times"]
    faults = []
    for begin, end in [(times[0], times[-1]), *zip(times, times[1:])]:
        off, bound = got.rates_off(log, collectd.lateness, interval, begin, end)
        fault = f"{name}: rates over {end - begin:.1f} s are off by " \
            f"{100 * off:+.3f} %, {100 * bound:.3f} % allowed"
        if begin == times[0]:
            say(fault)
        if abs(off) > bound:
            faults.append(fault)
    return faults[:2]


@functools.cache
def churned_nat():
    """Runs the producers in NAT once, and returns the results for all tests that need
    them."""
    runs = [(1, 5, 65536)]
    if LONG:
        runs = [(interval, 75, 65536) for interval in (1, 5, 10)] + [
            (5, 75, 1000000)]  # 4 million rows take half a second
    return [Nat(*run) for run in runs]


def check_nat(name):
    check_none([f"{nat.what}, {fault}" for nat in churned_nat()
                for fault in nat.faults[name]])


def test_nat_exact():
    """With the option Top, no packet of an OWNED table is lost or invented while 20 000
    objects per second are replaced"""
    check_nat("owned")


def test_nat_exact_without_reset():
    """With the option Top, no packet of an OWNED table with PERCORE_NO_RESET is lost or
    invented while 20 000 objects per second are replaced"""
    check_nat("noreset")


def test_nat_exact_per_core():
    """With the option Top, no packet of a PER_CORE table is lost or invented while
    20 000 objects per second are replaced, two workers count in each other's rows, and
    a thread without a slot counts in rows that have just been removed"""
    check_nat("percore")


def test_nat_exact_per_core_without_reset():
    """With the option Top, no packet of a PER_CORE table with PERCORE_NO_RESET is lost
    or invented while 20 000 objects per second are replaced"""
    check_nat("percorenoreset")


def test_nat_rates():
    """While 20 000 objects per second are replaced, the rates between successive points
    of all series add up to the true rate, in total and in each interval from the second
    on"""
    check_none([f"{nat.what}, {fault}" for nat in churned_nat()
                for fault in nat.rates])


# ---------------------------------------------------------------------------
# Without Top


def churn_without_top(interval):
    """Runs producers whose regions are read without Top. Returns messages about wrong
    counts."""
    kinds = {"slow": {"reuses": 100}, "fast": {"reuses": 1000},
             "noreset": {"reuses": 1000, "noreset": 1},
             "percore": {"reuses": 1000, "percore": 1, "workers": 2}}
    options = "\n".join(region(name, "ReportPerCore false") for name in kinds)
    with RuntimeDir() as runtime, \
            Collectd(options, interval).start() as collectd:
        wait_for_the_first_read(collectd)
        producers = {name: Churner(runtime, name, rows=1500, live=1000,
                                   packets=20000, pool=2500, **kind)
                     for name, kind in kinds.items()}
        churn_for(SECONDS, *producers.values())
        faults = faults_of_counts(collectd, {
            name: [each] for name, each in producers.items()})
        for name, producer in producers.items():
            faults += keys_with_too_much(name, collectd, producer)
        return faults


def test_without_top():
    """Without the option Top, while up to 1000 objects per second are replaced, no
    packet is lost, invented, or attributed to the wrong object"""
    check_none([f"at {interval} s, {fault}"
                for interval in ((1, 5, 10) if LONG else (INTERVAL,))
                for fault in churn_without_top(interval)])


def keys_with_too_much(name, collectd, producer):
    rows = arrived(collectd, name).series
    rows.pop("other", None)
    wrong = [row for row, points in rows.items()
             if points[-1][1] > producer.of_key(int(row))]
    return [f"{name}: {len(wrong)} of {len(rows)} rows have more than they "
            f"counted, such as {wrong[0]}"] if wrong else []


def test_cut_by_max_values():
    """Rows whose values would exceed MaxValues are counted in `other`"""
    options = "MaxValues 600\n" + region("gtpu")
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "gtpu", rows=3000, live=2000, reuses=300,
                    packets=20000) as producer:
        churn_for(SECONDS, producer)
        faults = faults_of_counts(collectd, {"gtpu": [producer]})
        collectd.stop()
        # Each series begins with an additional 0, which does not count here.
        known, times = set(), []
        for value in collectd.values:
            if value.identifier in known or value.value != 0:
                times.append(value.time)
            known.add(value.identifier)
        most = max(times.count(when) for when in set(times))
        say(f"at most {most} values in an interval")
        if most > 600:
            faults.append(f"{most} values in an interval")
        check_none(faults)


def test_short_of_memory():
    """With the option Top, the packets of all rows are reported even if not all rows
    fit into MaxMemory"""
    options = "MaxMemory 1048576\n" + top(20)
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "gtpu", rows=200000, live=190000, reuses=5000,
                    packets=50000) as producer:
        churn_for(SECONDS, producer)
        faults = faults_of_counts(collectd, {"gtpu": [producer]})
        if "MaxMemory" not in collectd.log():
            faults.append("no message about MaxMemory")
        check_none(faults)


# ---------------------------------------------------------------------------
# Producers that end and start


def live_and_be_killed(collectd, runtime, name, pause_s, schemas):
    """Runs producers one after another, each for long enough to be read, and kills
    them. Returns the producers."""
    producers = []
    for number, schema in enumerate(schemas * (5 if LONG else 1)):
        producer = Churner(runtime, name, rows=3000, live=2000, reuses=2000,
                           packets=50000, schema=schema, seed=number + 1)
        producer.do("run")
        producers.append(producer)
        wait_for_snapshots(collectd, 3)
        time.sleep((0.6 + 0.3 * (number % 4)) * INTERVAL)
        producer.kill()
        time.sleep(pause_s)
    return producers


def test_killed_and_restarted():
    """If producers are killed and restarted (immediately, after a while, with another
    schema, or while another instance runs), no packet is lost or counted twice"""
    lives = {"atonce": (0, [1, 1, 1, 1]), "later": (2.5 * INTERVAL, [1, 1]),
             "other": (0, [1, 2, 1]), "both@east": (0, [1, 1, 1]),
             "both@west": (0.5 * INTERVAL, [1, 1])}
    options = "\n".join(top(20, name, "ReportPerCore false")
                        for name in ("atonce", "later", "other", "both"))
    with RuntimeDir() as runtime, ThreadPoolExecutor(len(lives)) as pool, \
            Collectd(options, INTERVAL).start() as collectd:
        wait_for_the_first_read(collectd)
        producers = {}
        for name, each in zip(lives, pool.map(
                lambda name: live_and_be_killed(collectd, runtime, name,
                                                *lives[name]), lives)):
            producers.setdefault(name.split("@")[0], []).extend(each)
        check_none(faults_of_counts(collectd, producers))


def test_started_later():
    """If producers are started before collectd, the rates contain all counts after the
    first read, and none from more than an interval before collectd's start"""
    how = {"rows": 3000, "live": 2000, "packets": 50000}
    options = "\n".join([top(20, "idle"), region("plain"), top(20, "busy")])
    with RuntimeDir() as runtime, \
            Churner(runtime, "idle", reuses=2000, **how) as idle, \
            Churner(runtime, "plain", reuses=500, **how) as plain, \
            Churner(runtime, "busy", reuses=2000, **how) as busy:
        producers = {"idle": [idle], "plain": [plain], "busy": [busy]}
        busy.do("run")
        churn_for(3 * INTERVAL, idle, plain)
        before = {name: each.done() for name, (each,) in producers.items()}
        with Collectd(options, INTERVAL).start() as collectd:
            wait_until_read(collectd, *producers)
            seen = {"busy": busy.done()}
            churn_for(SECONDS, idle, plain)
            busy.do("stop")
            check_none(faults_of_counts(collectd, producers, before, seen))


def test_reset_in_between():
    """Resets of a table lose no count, and are refused if the table has the flag
    PERCORE_NO_RESET"""
    options = top(20, "resets") + "\n" + top(20, "noreset")
    how = {"rows": 3000, "live": 2000, "reuses": 2000, "packets": 50000}
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "resets", **how) as producer, \
            Churner(runtime, "noreset", noreset=1, **how) as without:
        for each in (producer, without):
            each.do("run")
        faults = []
        for _ in range(15):
            time.sleep(0.2)
            producer.do("reset")
            try:
                without.do("reset")
                faults.append("a reset with PERCORE_NO_RESET")
            except AssertionError as error:
                if "not supported" not in str(error):
                    faults.append(str(error))
        for each in (producer, without):
            each.do("stop")
        check_none(faults + faults_of_counts(collectd, {
            "resets": [producer], "noreset": [without]}))


# ---------------------------------------------------------------------------
# Parts of a table


def test_filtered():
    """With the option Row, counts of matching rows are exact if each row is reused at
    most once per interval, and never too high if rows are reused more often; `other`
    has everything else"""
    wanted = ['Row "/[02468]$/"']
    options = "\n".join([
        region("slow", "MaxNewRows 10000", table=wanted),
        region("fast", table=wanted),
        region("slowtop", table=wanted + ['Top 20 "packets"']),
        region("fasttop", table=wanted + ['Top 20 "packets"'])])
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd:
        # There are 100 free rows. Each is reused once in several intervals ("slow") or 20
        # times per interval ("fast").
        producers = {name: Churner(
            runtime, name, rows=1000, live=900, packets=20000, pool=90000,
            reuses=40 if name.startswith("slow") else 4000)
            for name in ("slow", "slowtop", "fast", "fasttop")}
        wait_until_read(collectd, *producers)
        churn_for(SECONDS, *producers.values())
        truths = {name: each.done_even() for name, each in producers.items()}
        faults = faults_of_counts(collectd, {
            name: [each] for name, each in producers.items()})
        for name, truth in truths.items():
            got = arrived(collectd, name)
            rest = got.series.pop("other")[-1][1]
            # With Top, matching rows that are not shown are in `other`, too.
            least = truth if name == "slow" else 1
            faults += faults_of(name, got, least, truth)
            if rest == 0:
                faults.append(f"{name}: nothing in `other`")
            odd = [row for row in got.series if row[-1] in "13579"]
            if odd:
                faults.append(f"{name}: unwanted rows {odd[:3]}")
        check_none(faults)


def test_per_core():
    """Counts of each core since the first read are in the core's own series"""
    options = top(20, "shown", "ReportPerCore true") + "\n" + \
        region("all", "ReportPerCore true")
    how = {"percore": 1, "workers": 2, "packets": 50000}
    # The region `all` has few rows, because without Top six values are reported for
    # each row in every interval.
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "shown", rows=3000, live=2000, reuses=2000,
                    **how) as shown, \
            Churner(runtime, "all", rows=300, live=200, reuses=500,
                    **how) as all_rows:
        wait_until_read(collectd, "shown", "all")
        before = {name: [producer.done(core) for core in range(2)] for
                  name, producer in (("shown", shown), ("all", all_rows))}
        churn_for(SECONDS, shown, all_rows)
        wait_until_arrived(collectd, {"shown": shown.done(),
                                      "all": all_rows.done()})
        faults = []
        for name, producer in (("shown", shown), ("all", all_rows)):
            for core in range(2):
                truth = producer.done(core) - before[name][core]
                faults += faults_of(f"{name}, core {core}", arrived(
                    collectd, name, where=core), truth, truth)
            faults += faults_of(name, arrived(collectd, name), producer.done(),
                                producer.done())
        check_none(faults)


def test_gauges_of_other():
    """With the option Top, the gauges of shown rows and of `other` include only live
    objects"""
    options = ('<Region "gtpu">\n<Table "session">\nField "packets" "held"\n'
               'Top 20 "packets"\n</Table>\n</Region>')
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "gtpu", rows=3000, live=2000, reuses=2000,
                    packets=20000) as producer:
        prefix = "percore_host_gtpu_session_held-all/gauge-"
        churn_for(SECONDS, producer)
        wait_for_snapshots(collectd, 3)
        # Use the last snapshot but one, because the newest snapshot may not have
        # arrived completely.
        newest = collectd.of(REGIONS)[-1].time
        last = max(value.time for value in collectd.of(f"{prefix}other")
                   if value.time < newest)
        values = [value.value for value in list(collectd.values)
                  if value.time == last and value.identifier.startswith(prefix)]
        say(f"{sum(values):.0f} of {producer.held()} in {len(values)} gauges")
        check(sum(values) == producer.held(),
              f"{sum(values)} of {producer.held()}")


def run_job(runtime, number, seconds):
    """Runs a job that counts packets, and ends or is killed after this time. Returns how
    many it has counted."""
    with Churner(runtime, f"job{number}", rows=4, live=1) as job:
        job.do("count 0 1000 3")
        time.sleep(seconds)
        if number % 2:
            job.process.stdin.close()
            job.process.wait()
        return job.done()


def test_short_jobs():
    """Of 2000 jobs with their number in the name of their region, each of which lives
    for 2.2 intervals, every count arrives, and so does that of a region beside them"""
    if not LONG:
        raise Skip("it takes a minute: set PERCORE_TEST_LONG=1")
    jobs, interval, rate = range(2000), 1, 40
    with RuntimeDir() as runtime, Collectd("", interval).start() as collectd, \
            Churner(runtime, "all", packets=1000) as beside, \
            ThreadPoolExecutor(len(jobs)) as pool:
        wait_for_the_first_read(collectd)
        beside.do("run")
        begin, ends = time.monotonic(), []
        for job in jobs:
            time.sleep(max(0, begin + job / rate - time.monotonic()))
            ends.append(pool.submit(run_job, runtime, job, 2.2 * interval))
        counted = [end.result() for end in ends]
        beside.do("stop")
        wait_for_snapshots(collectd, 4)
        got = [arrived(collectd, f"job{job}").total() for job in jobs]
        wrong = [each for each in zip(jobs, counted, got) if each[1] != each[2]]
        say(f"exact: {len(jobs) - len(wrong)} of {len(jobs)}")
        check(not wrong, f"{wrong[:20]}")
        check(arrived(collectd, "all").total() == beside.done(), "the other region")


def percentiles(collectd, name, row):
    """Returns, for each percentile of a row, the list of all its values."""
    prefix = f"percore_host_{name}_session_latency-all/gauge-{row}_"
    found = {}
    for value in list(collectd.values):
        if value.identifier.startswith(prefix):
            found.setdefault(value.identifier[len(prefix):], []).append(
                value.value)
    return found


def test_histograms():
    """The histogram counts of an object that was replaced are in the percentiles of
    `other`, not in those of the object that replaced it"""
    options = '<Region "all">\n</Region>\n<Region "shown">\n' \
        '<Table "session">\nTop 1 "packets"\n</Table>\n</Region>'
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd:
        wait_for_the_first_read(collectd)
        # Each producer begins with the objects 0, 1 and 2; object 3 replaces object 0.
        # Under Top 1, object 1 is shown.
        with Churner(runtime, "all", rows=3, live=3, pool=8) as every, \
                Churner(runtime, "shown", rows=3, live=3, pool=8) as shown:
            handed_over = ("count 0 600 500", "reuse 0", "count 0 400 3",
                           "count 1 5000 3")
            every.do(*handed_over)
            while not arrived(collectd, "shown").series.get("1"):
                shown.do("count 1 10 3")
                wait_for_snapshots(collectd, 1)
            collectd.wait_for(lambda: percentiles(collectd, "all", 3), 10,
                              "percentiles of the second object")
            shown.do(*handed_over)
            wait_for_snapshots(collectd, 3)
        successor = percentiles(collectd, "all", 3)
        # The percentiles of object 0: in its own series if collectd read it before it
        # was replaced, otherwise in `other`.
        first = percentiles(collectd, "all", 0) or \
            percentiles(collectd, "all", "other")
        # Under Top 1, `other` includes the 600 counts of object 0 and the 400 counts of
        # object 3.
        rest = percentiles(collectd, "shown", "other")
        say(f"successor {successor}, first {first}, under Top {rest}")
        check(all(max(values) < 8 for values in successor.values()),
              "the successor has counts of another object")
        check(first, "the counts of the first object are missing")
        check(all(256 <= value < 1024 for values in first.values()
                  for value in values), str(first))
        check(rest and 256 <= max(rest["p50"]) < 1024, f"under Top: {rest}")


if __name__ == "__main__":
    take_precedence()
    run_all(globals())
