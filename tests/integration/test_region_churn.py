"""Rows that change hands under the real collectd: what all series of a counter
come to is what was counted, to the packet, and so is what is made of two points
each."""

import functools
import time

from churn import LONG, PACKET, Arrived, Churner, TruthLog
from harness import Collectd, check, run_all, say
from producers import RuntimeDir

INTERVAL = 0.5
REGIONS = "percore_host-self/gauge-regions"
DROPPED = "percore_host-self/derive-values_dropped"
LATE = 0.01  # of an interval: a snapshot that is later bears its true time
EXACT = 0.001  # of the truth: what rates over a minute may be off


# ---------------------------------------------------------------------------
# What was counted and what arrived


def region(name, *lines, table=()):
    """A block <Region>: its own lines and those of its table."""
    return "\n".join([f'<Region "{name}">', *lines, '<Table "session">',
                      'Field "packets" "bytes"', *table, "</Table>",
                      "</Region>"])


def top(number, name="gtpu", *lines):
    return region(name, *lines, table=[f'Top {number} "packets"'])


def wait_until_read(collectd, count=1):
    collectd.wait_for(lambda: collectd.of(REGIONS) and
                      collectd.of(REGIONS)[-1].value == count, 30,
                      f"{count} regions")
    collectd.wait_for_reads(1)


def wait_until_arrived(collectd, name, packets):
    """As long as that may take, and longer, lest more comes."""
    for _ in range(4):
        if Arrived(collectd, name).total() >= packets:
            break
        collectd.wait_for_reads(1)
    collectd.wait_for_reads(2)


def faults_of(what, arrived, least, most=None):
    """Says how many packets came; returns what is wrong with that."""
    most = least if most is None else most
    faults = []
    for how, count in (("in all", arrived.total()),
                       ("between two points", arrived.two_point())):
        off = min(0, count - least) + max(0, count - most)
        share = 100 * off / max(1, least)
        say(f"{what}: {count} of {least} {how}")
        if off != 0:
            faults.append(f"{what}: {abs(off)} {'lost' if off < 0 else 'invented'}"
                          f" {how}, {count} of {least}, {share:+.3f} %")
    return faults


def check_exact(what, collectd, name, producers, before=0, after=None):
    """All that these producers counted, less what they had before, has come,
    once. after: what was surely counted before the first look, if more."""
    least = sum(producer.done() for producer in producers)
    most = sum(producer.begun() for producer in producers) - before
    least -= before if after is None else after
    wait_until_arrived(collectd, name, least)
    faults = faults_of(what, Arrived(collectd, name), least, most)
    in_bytes = Arrived(collectd, name, "bytes")
    faults += faults_of(f"{what}, bytes", in_bytes, least * PACKET,
                        most * PACKET)
    return faults


def check_none(faults):
    check(not faults, "\n".join(faults))


def churn_for(producer, seconds):
    producer.do("run")
    time.sleep(seconds)
    producer.do("stop")


# ---------------------------------------------------------------------------
# Before the first look


def reused_before_the_first_look():
    """What a row counted for objects before collectd's first look arrives, in
    tables of every kind"""
    kinds = {"owned": {}, "noreset": {"noreset": 1}, "percore": {"percore": 1},
             "named": {"named": 1}, "many": {"rows": 16, "live": 4}}
    options = "\n".join(region(name, "ReportPerCore false") for name in kinds)
    with RuntimeDir() as runtime, Collectd(options, 1).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online", count=2)
        producers, faults = {}, []
        for name, kind in kinds.items():
            producers[name] = Churner(runtime, name,
                                      **{"rows": 1, "live": 1, **kind})
            producers[name].do("count 0 1000 1", "reuse 0", "count 0 500 1")
        for name, producer in producers.items():
            faults += check_exact(name, collectd, name, [producer])
        check_none(faults)


# ---------------------------------------------------------------------------
# A table of translations: many rows, few of which are shown

NAT = {
    "owned": {},
    "noreset": {"noreset": 1},
    "percore": {"percore": 1, "workers": 2},
    "percorenoreset": {"percore": 1, "workers": 2, "noreset": 1},
}


def churn_nat(interval, seconds, rows):
    """Returns for each kind of table what was lost or invented, and how far
    rates were off. 20 000 objects a second give way to others."""
    options = "\n".join(top(100, name, "ReportPerCore false") for name in NAT)
    faults, rates = {}, {}
    with RuntimeDir() as runtime, \
            Collectd(options, interval).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online", count=2)
        producers, logs = {}, {}
        for name, kind in NAT.items():
            try:
                producers[name] = Churner(
                    runtime, name, rows=rows, live=rows * 50 // 65,
                    reuses=20000, packets=100000, hot=60, **kind)
                producers[name].do("run")
                logs[name] = TruthLog(producers[name])
            except (AssertionError, BrokenPipeError) as error:
                faults[name] = [f"{name}: {error}"]
        time.sleep(seconds)
        for name, producer in producers.items():
            logs[name].end()
            try:
                producer.do("stop")
            except (AssertionError, BrokenPipeError) as error:
                faults[name] = [f"{name}: {error}"]
        for name, producer in producers.items():
            say(f"{name}: {producer.reuses()} rows reused, "
                f"{producer.refused()} not at once")
            faults[name] = faults.get(name, []) + check_exact(
                name, collectd, name, [producer])
            rates[name] = rates_off(name, collectd, logs[name], interval)
    return faults, rates


def rates_off(name, collectd, log, interval):
    """What is wrong with the sum of all rates: as a whole, and in the worst
    interval, but for what stamps may be late."""
    arrived = Arrived(collectd, name)
    grown = arrived.grown()
    times = [when for when in arrived.times() if log.covers(when)]
    if len(times) < 3:
        return [f"{name}: {len(times)} times of values"]
    faults = []
    truth = log.at(times[-1]) - log.at(times[0])
    whole = sum(grown.get(when, 0) for when in times[1:])
    late_s = (LATE * interval + collectd.lateness.of_clock(
        times[0] - interval, times[0] + interval) + collectd.lateness.of_clock(
            times[-1] - interval, times[-1] + interval))
    off = abs(whole / truth - 1)
    bound = EXACT + late_s / (times[-1] - times[0])
    say(f"{name}: rates over {times[-1] - times[0]:.1f} s are off by "
        f"{100 * off:.3f} % of {100 * bound:.3f} %")
    if off > bound:
        faults.append(f"{name}: rates are off by {100 * off:.3f} %")
    worst = 0
    for a, b in zip(times, times[1:]):
        truth = log.at(b) - log.at(a)
        late_s = 2 * LATE * interval + collectd.lateness.of_clock(
            a - interval, b + interval)
        off = abs(grown.get(b, 0) / truth - 1) - EXACT - late_s / (b - a)
        worst = max(worst, off)
    if worst > 0:
        faults.append(f"{name}: in one interval by {100 * worst:.1f} % beyond "
                      "the stamps")
    return faults


@functools.cache
def churned_nat():
    """All runs of this program: their interval, and what came of them."""
    if LONG:
        runs = [(interval, 75, 65536) for interval in (1, 5, 10)]
        runs.append((1, 75, 1000000))
    else:
        runs = [(1, 8, 65536)]
    return [(f"{rows} rows at {interval} s", *churn_nat(interval, seconds, rows))
            for interval, seconds, rows in runs]


def check_nat(name, which):
    check_none([f"{what}, {fault}" for what, *results in churned_nat()
                for fault in results[which].get(name, [])])


def nat_exact():
    """Of a table of translations under Top, 20 000 objects of which come and go
    in a second, no packet is lost and none invented"""
    check_nat("owned", 0)


def nat_exact_without_reset():
    """The same holds with PERCORE_NO_RESET"""
    check_nat("noreset", 0)


def nat_exact_per_core():
    """The same holds for two workers that count in each other's rows"""
    check_nat("percore", 0)


def nat_exact_per_core_without_reset():
    """The same holds for them with PERCORE_NO_RESET"""
    check_nat("percorenoreset", 0)


def nat_rates():
    """Rates of all series of such tables, made of two points each, add up to
    the truth in each interval and over all of them"""
    check_none([f"{what}, {fault}" for what, _, rates in churned_nat()
                for faults in rates.values() for fault in faults])


# ---------------------------------------------------------------------------
# Without Top


def without_top():
    """Without Top, up to 1000 objects a second come and go and no packet is
    lost or invented, nor given to an object that did not count it"""
    kinds = {"slow": {"reuses": 100}, "fast": {"reuses": 1000},
             "noreset": {"reuses": 1000, "noreset": 1},
             "percore": {"reuses": 1000, "percore": 1, "workers": 2}}
    options = "\n".join(region(name, "ReportPerCore false") for name in kinds)
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online", count=2)
        producers = {name: Churner(runtime, name, rows=1500, live=1000,
                                   packets=20000, pool=30000, **kind)
                     for name, kind in kinds.items()}
        for producer in producers.values():
            producer.do("run")
        time.sleep(60 if LONG else 4)
        for producer in producers.values():
            producer.do("stop")
        faults = []
        for name, producer in producers.items():
            faults += check_exact(name, collectd, name, [producer])
            faults += keys_with_too_much(name, collectd, producer)
        check_none(faults)


def keys_with_too_much(name, collectd, producer):
    rows = Arrived(collectd, name).series
    rows.pop("other", None)
    wrong = [row for row, points in rows.items()
             if points[-1][1] > producer.of_key(int(row))]
    return [f"{name}: {len(wrong)} of {len(rows)} rows have more than they "
            f"counted, such as {wrong[0]}"] if wrong else []


def cut_by_max_values():
    """Rows for which MaxValues leaves no room are counted in `other`"""
    options = "MaxValues 600\n" + region("gtpu")
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "gtpu", rows=3000, live=2000, reuses=300,
                    packets=20000) as producer:
        churn_for(producer, 3)
        faults = check_exact("3000 rows", collectd, "gtpu", [producer])
        collectd.stop()
        times = [value.time for value in collectd.values]
        most = max(times.count(when) for when in set(times))
        say(f"{most} values at most")
        if most > 600:
            faults.append(f"{most} values in an interval")
        check_none(faults)


# ---------------------------------------------------------------------------
# Lives of producers


def killed_and_restarted():
    """Producers that are killed and started again at once, after a while or
    with another schema lose no packet, and none is counted twice"""
    lives = {"atonce": (0, [1, 1, 1, 1]), "later": (2.5, [1, 1, 1]),
             "other": (0, [1, 2, 1, 2])}
    options = "\n".join(top(20, name, "ReportPerCore false") for name in lives)
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online", count=2)
        faults = []
        for name, (pause, schemas) in lives.items():
            producers = []
            for number, schema in enumerate(schemas):
                producer = Churner(
                    runtime, name, rows=3000, live=2000, reuses=2000,
                    packets=50000, schema=schema, seed=number + 1)
                producer.do("run")
                producers.append(producer)
                # Once within an interval, then over several of them.
                time.sleep((0.3, 2.3)[number % 2] * INTERVAL)
                producer.kill()
                time.sleep(pause * INTERVAL)
            faults += check_exact(name, collectd, name, producers)
        check_none(faults)


def started_later():
    """What was counted more than an interval before collectd was started is in
    no rate; all that is counted from then on is"""
    with RuntimeDir() as runtime, \
            Churner(runtime, "idle", rows=3000, live=2000, reuses=2000,
                    packets=50000) as idle, \
            Churner(runtime, "busy", rows=3000, live=2000, reuses=2000,
                    packets=50000) as busy:
        idle.do("run")
        busy.do("run")
        time.sleep(3 * INTERVAL)
        idle.do("stop")
        idle_before, busy_before = idle.done(), busy.done()
        options = top(20, "idle") + "\n" + top(20, "busy")
        with Collectd(options, INTERVAL).start() as collectd:
            wait_until_read(collectd, 2)
            busy_seen = busy.done()
            churn_for(idle, 2)
            busy.do("stop")
            check_none(
                check_exact("idle until the first look", collectd, "idle",
                            [idle], idle_before) +
                check_exact("busy all the time", collectd, "busy", [busy],
                            busy_before, busy_seen))


def reset_in_between():
    """Resets lose nothing; with PERCORE_NO_RESET they are refused"""
    options = top(20, "resets") + "\n" + top(20, "norests")
    how = {"rows": 3000, "live": 2000, "reuses": 2000, "packets": 50000}
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "resets", **how) as producer, \
            Churner(runtime, "norests", noreset=1, **how) as without:
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
        faults += check_exact("with resets", collectd, "resets", [producer])
        faults += check_exact("refused resets", collectd, "norests", [without])
        check_none(faults)


# ---------------------------------------------------------------------------
# Parts of a table


def filtered():
    """With Row, what wanted rows counted arrives exactly while each row changes
    hands once in an interval, and never more than that when it does so more
    often"""
    wanted = ['Row "/[02468]$/"']
    options = "\n".join([
        region("slow", table=wanted), region("fast", table=wanted),
        region("slowtop", table=wanted + ['Top 20 "packets"']),
        region("fasttop", table=wanted + ['Top 20 "packets"'])])
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online", count=2)
        producers = {}
        for name in ("slow", "slowtop", "fast", "fasttop"):
            # 100 free rows, one of which is used in an interval or 20 times.
            producers[name] = Churner(
                runtime, name, rows=1000, live=900, packets=20000, pool=90000,
                reuses=40 if name.startswith("slow") else 4000)
            producers[name].do("run")
        time.sleep(4)
        faults = []
        for name, producer in producers.items():
            producer.do("stop")
            truth = producer.done_even()
            wait_until_arrived(collectd, name, truth)
            arrived = Arrived(collectd, name)
            least = truth if name.startswith("slow") else truth // 2
            faults += faults_of(name, arrived, least, truth)
            odd = [row for row in arrived.series if row[-1] in "13579"]
            if odd:
                faults.append(f"{name}: unwanted rows {odd[:3]}")
        check_none(faults)


def per_core():
    """What each core counted from the first look on is in its own series"""
    options = top(20, "shown", "ReportPerCore true") + "\n" + \
        region("all", "ReportPerCore true")
    how = {"rows": 3000, "live": 2000, "percore": 1, "workers": 2,
           "packets": 50000}
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "shown", reuses=2000, **how) as shown, \
            Churner(runtime, "all", reuses=500, **how) as all_rows:
        wait_until_read(collectd, 2)
        before = {name: [producer.done(core) for core in range(2)] for
                  name, producer in (("shown", shown), ("all", all_rows))}
        for producer in (shown, all_rows):
            producer.do("run")
        time.sleep(3)
        for producer in (shown, all_rows):
            producer.do("stop")
        faults = []
        for name, producer in (("shown", shown), ("all", all_rows)):
            wait_until_arrived(collectd, name, producer.done())
            for core in range(2):
                faults += faults_of(
                    f"{name}, core {core}", Arrived(collectd, name, where=core),
                    producer.done(core) - before[name][core])
            faults += faults_of(name, Arrived(collectd, name), producer.done())
        check_none(faults)


def gauges_of_other():
    """The gauges of shown rows and of `other` are those of live objects alone"""
    options = ('<Region "gtpu">\n<Table "session">\nField "packets" "held"\n'
               'Top 20 "packets"\n</Table>\n</Region>')
    with RuntimeDir() as runtime, \
            Collectd(options, INTERVAL).start() as collectd, \
            Churner(runtime, "gtpu", rows=3000, live=2000, reuses=2000,
                    packets=20000) as producer:
        prefix = "percore_host_gtpu_session_held-all/gauge-"
        churn_for(producer, 2)
        collectd.wait_for_reads(3)
        collectd.stop()
        last = max(value.time for value in collectd.values
                   if value.identifier == f"{prefix}other")
        values = [value.value for value in collectd.values
                  if value.time == last and value.identifier.startswith(prefix)]
        say(f"{sum(values):.0f} of {producer.held()} in {len(values)} gauges")
        check(sum(values) == producer.held(),
              f"{sum(values)} of {producer.held()}")


def percentiles(collectd, row):
    """The newest values of a row's percentiles."""
    prefix = f"percore_host_gtpu_session_latency-all/gauge-{row}_"
    return {value.identifier[len(prefix):]: value.value
            for value in list(collectd.values)
            if value.identifier.startswith(prefix)}


def histograms():
    """What objects counted in a histogram before they gave way to others is in
    the percentiles of `other`, and not in those of their successors"""
    options = '<Region "gtpu">\n</Region>'
    with RuntimeDir() as runtime, Collectd(options, 1).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online", count=2)
        with Churner(runtime, "gtpu", rows=1, live=1, pool=8) as producer:
            producer.do("count 0 600 500", "reuse 0", "count 0 400 3")
            collectd.wait_for(lambda: percentiles(collectd, "1"), 10,
                              "percentiles of the second object")
            collectd.wait_for_reads(2)
        successor, rest = percentiles(collectd, "1"), \
            percentiles(collectd, "other")
        first = percentiles(collectd, "0")
        say(f"0: {first}, 1: {successor}, other: {rest}")
        check(all(value < 8 for value in successor.values()),
              "the successor has what another object counted")
        check(first or rest, "nobody has what the first object counted")
        check(all(256 <= value < 1024 for name, value in
                  {**first, **rest}.items()), f"{first} and {rest}")


if __name__ == "__main__":
    run_all([
        reused_before_the_first_look,
        nat_exact,
        nat_exact_without_reset,
        nat_exact_per_core,
        nat_exact_per_core_without_reset,
        nat_rates,
        without_top,
        cut_by_max_values,
        killed_and_restarted,
        started_later,
        reset_in_between,
        filtered,
        per_core,
        gauges_of_other,
        histograms,
    ])
