"""Tests regions with the real collectd and real producers."""

import os
import pwd
import re
import signal
import time

from harness import (Collectd, Skip, check, is_root, least_of_tries,
                     online_cores, run_all, say, stop)
from producers import (BYTES, DEPTH, ETH0, GLOBALS, LATENCY, PACKETS, PORT, QUEUE,
                       SESSION, TIME, Producer, Published, RuntimeDir)

REGIONS = "percore_host-self/gauge-regions"
FAST = 0.2  # the interval of most tests, in seconds


def wait_for_number(collectd, identifier, number, seconds=30):
    """Waits until the newest value equals `number`."""
    def numbers():
        return [value.value for value in collectd.of(identifier)]
    try:
        collectd.wait_for(lambda: numbers()[-1:] == [number], seconds,
                          f"{identifier} {number}")
    except AssertionError as error:
        raise AssertionError(f"the last are {numbers()[-3:]}; {error}") \
            from None


def wait_until_read(collectd, regions=1):
    """Waits until `regions` regions are read. collectd reports all counts that are
    added after that, but not the counts from before its start."""
    wait_for_number(collectd, REGIONS, regions)


def host(field, row, table="port", kind="derive", region="gtpu", where="all"):
    return f"percore_host_{region}_{table}_{field}-{where}/{kind}-{row}"


def of_core(core, field, row, table="port", kind="derive", region="gtpu"):
    return f"percore_{region}_{table}_{field}-{core}/{kind}-{row}"


def identifiers_of(collectd, prefix):
    return sorted({value.identifier for value in list(collectd.values)
                   if value.identifier.startswith(prefix)})


def sum_of(collectd, prefix):
    """Returns the sum of the newest values of all series whose names begin with
    `prefix`."""
    return sum({value.identifier: value.value for value
                in list(collectd.values)
                if value.identifier.startswith(prefix)}.values())


def told(collectd, text):
    """Returns how many lines with this text percore has logged."""
    return sum(line.startswith("percore: ") and text in line
               for line in collectd.log().splitlines())


def check_never_back(collectd, identifier):
    counts = [value.value for value in collectd.of(identifier)]
    for before, after in zip(counts, counts[1:]):
        check(after >= before, f"{identifier} went from {before} to {after}")
    return counts


# ---------------------------------------------------------------------------
# Names and values


def test_names_and_values():
    """Every kind of field is reported with the right name, type and value, per core and
    for the host: counters as derive, up-down counters and gauges as gauge, histograms as
    percentiles of the interval, and cycles in nanoseconds"""
    with RuntimeDir(), Producer("gtpu") as producer:
        producer.do("core 0", "core 1")
        row = producer.add_row(PORT, "eth0")
        with Collectd(interval=FAST).start() as collectd:
            wait_until_read(collectd)
            producer.do(f"add {PORT} {row} {PACKETS} 10 0",
                        f"add {PORT} {row} {PACKETS} 7 1",
                        f"add {PORT} {row} {DEPTH} 5 0",
                        f"add {PORT} {row} {DEPTH} -8 1",
                        f"set {GLOBALS} 0 {QUEUE} 3 0",
                        f"set {GLOBALS} 0 {QUEUE} 9 1",
                        f"add {GLOBALS} 0 {TIME} 1000000000 0")
            session = producer.add_row(SESSION, "alice")
            producer.do(f"add {SESSION} {session} {BYTES} 1500 -1")
            wait_for_number(collectd, host("packets", "eth0"), 17)
            wait_for_number(collectd, of_core(0, "packets", "eth0"), 10)
            wait_for_number(collectd, of_core(1, "packets", "eth0"), 7)
            wait_for_number(collectd, host("depth", "eth0", kind="gauge"), -3)
            wait_for_number(collectd,
                            of_core(1, "depth", "eth0", kind="gauge"), -8)
            wait_for_number(
                collectd, host("queue", "all", "globals", "gauge"), 9)
            wait_for_number(
                collectd, of_core(0, "queue", "all", "globals", "gauge"), 3)
            wait_for_number(collectd, host("bytes", "alice", "session"), 1500)
            cycles = host("time", "all", "globals")
            collectd.wait_for(lambda: collectd.of(cycles)[-1].value > 0, 30,
                              "time")
            nanoseconds = collectd.of(cycles)[-1].value
            check(5e7 < nanoseconds < 1e9, f"1e9 cycles are {nanoseconds} ns")
            check(not identifiers_of(collectd, "percore_gtpu_session"),
                  "a table with a single copy is reported per core")
            check(not identifiers_of(collectd, "percore_host_gtpu_core"),
                  "the table core is reported before any poll")
            check(not identifiers_of(collectd,
                                     "percore_host_gtpu_port_latency"),
                  "percentiles are reported before any count")
            producer.do(f"hist {PORT} {row} {LATENCY} 8 90 0",
                        f"hist {PORT} {row} {LATENCY} 100 10 1")
            for name, most in (("p50", 9), ("p99", 112), ("max", 112)):
                identifier = host("latency", f"eth0_{name}", kind="gauge")
                collectd.wait_for_value(identifier)
                # If an interval ended between the two commands, the second interval
                # shows other percentiles, so check the first.
                value = collectd.of(identifier)[0].value
                check(8 <= value <= most, f"{name} is {value}")
            collectd.wait_for_value(
                of_core(1, "latency", "eth0_p50", kind="gauge"))
            collectd.wait_for_reads(3)
            seen = len(collectd.of(host("latency", "eth0_max", kind="gauge")))
            check(seen <= 2, f"percentiles of {seen} intervals")
            collectd.stop()
        for value in collectd.values:
            check(value.interval == FAST, str(vars(value)))


def test_few_rows_per_core():
    """By default, tables that have never had more than 16 live rows are reported per
    core; ReportPerCore and ReportHost change this"""
    with RuntimeDir(), Producer("gtpu", "many") as producer:
        producer.do("core 0")
        row = producer.add_row(PORT, "eth0")
        ten = f"add {PORT} {row} {PACKETS} 10 0"
        with Collectd(interval=FAST).start() as collectd:
            wait_until_read(collectd)
            producer.do(ten)
            wait_for_number(collectd, of_core(0, "packets", "eth0"), 10)
            for number in range(16):
                producer.add_row(PORT, f"many{number}")
            collectd.wait_for_value(host("packets", "many15"))
            collectd.wait_for_reads(1)
            for number in range(16):
                producer.do(f"remove {PORT} {row + 1 + number}")
            count = len(collectd.of(of_core(0, "packets", "eth0")))
            collectd.wait_for_reads(3)
            check(len(collectd.of(of_core(0, "packets", "eth0"))) == count,
                  "a table that had 17 rows is still reported per core")
        with Collectd(interval=FAST).start() as collectd:
            wait_until_read(collectd)
            collectd.wait_for_value(of_core(0, "rounds", "all", "globals"))
        options = ('<Region "gtpu">\nReportPerCore true\nReportHost false\n'
                   "</Region>")
        with Collectd(options, FAST).start() as collectd:
            wait_until_read(collectd)
            producer.do(ten)
            wait_for_number(collectd, of_core(0, "packets", "eth0"), 10)
            check(not identifiers_of(collectd, "percore_host_gtpu"), "host")
        options = '<Region "*">\nReportPerCore false\n</Region>'
        with Collectd(options, FAST).start() as collectd:
            wait_until_read(collectd)
            producer.do(ten)
            wait_for_number(collectd, host("packets", "eth0"), 10)
            check(not identifiers_of(collectd, "percore_gtpu"), "core")
        options = '<Region "other">\n</Region>'
        with Collectd(options, FAST).start() as collectd:
            collectd.wait_for_value(REGIONS, count=3)
            check(not identifiers_of(collectd, "percore_host_gtpu"),
                  "a region is read that is not configured")
            check("region other is not in" in collectd.log(),
                  collectd.log())


def test_useful_load():
    """A useful load is reported for a polling core and for the sets of cores that
    contain this core; the table `core` is reported as soon as a worker polls"""
    core = online_cores()[0]
    with RuntimeDir(), Producer("gtpu") as producer, \
            Collectd(interval=0.5).start() as collectd:
        wait_until_read(collectd)
        producer.do(f"core {core}", f"poll {core} 1 1")
        # For 3 s, 6 of 20 equally long rounds have work.
        producer.do(f"poll {core} 6 14 140")
        collectd.wait_for_value(f"percore-{core}/percent-useful", count=4)
        collectd.wait_for_value("percore_host-all/percent-cores_useful_mean")
        collectd.wait_for_value(of_core(core, "polls", "all", "core"))
        collectd.wait_for_reads(2)
        values = collectd.of(f"percore-{core}/percent-useful")[1:-1]
        useful = [each.value for each in values]
        say(f"useful {[round(each, 1) for each in useful]}, worked 30")
        mean = sum(useful) / len(useful)
        check(abs(mean - 30) < 3, f"useful is {mean}, not 30")
        producer.do(f"sleep {core}")
        wait_for_number(collectd, f"percore-{core}/percent-useful", 0)


def test_hostile_row_names():
    """Row names are changed to names that a backend accepts, and the counts of rows
    whose names then are equal are summed"""
    names = {b"x y;z=\"q\"": "x_y_z__q_", b"\xffab\xc3": "_ab_",
             b"a\tb\x7f": "a_b_", "zoë".encode(): "zoë"}
    with RuntimeDir(), Producer("gtpu") as producer, \
            Collectd(interval=FAST).start() as collectd:
        wait_until_read(collectd)
        for number, name in enumerate(names):
            row = producer.add_row(SESSION, name)
            producer.do(f"add {SESSION} {row} {BYTES} {number + 1} -1")
        for number, name in enumerate(("eth/0", "eth_0", "eth;0")):
            row = producer.add_row(PORT, name)
            producer.do("core 0", f"add {PORT} {row} {PACKETS} {10 ** number} 0")
        for number, name in enumerate(names.values()):
            wait_for_number(collectd, host("bytes", name, "session"),
                            number + 1)
        wait_for_number(collectd, host("packets", "eth_0"), 111)
        collectd.wait_for_reads(2)
        check_never_back(collectd, host("packets", "eth_0"))


def test_top_and_other():
    """Top reports the rows that grew most and sums all others as `other`, so
    every count is in exactly one series"""
    options = ('<Region "gtpu">\n<Table "session">\nField "bytes" "packets"\n'
               'Row "/^vip-/"\nTop 2 "bytes"\n</Table>\n</Region>')
    all_bytes = "percore_host_gtpu_session_bytes-all/"
    with RuntimeDir(), Producer("gtpu") as producer, \
            Collectd(options, FAST).start() as collectd:
        rows = [producer.add_row(SESSION, name) for name in
                ("vip-a", "vip-b", "vip-c", "vip-d", "other", "mob")]
        wait_for_number(collectd, host("bytes", "other", "session"), 0)
        total = 0
        for turn in range(16):
            for number, row in enumerate(rows):
                n = 1000 if number // 2 == turn // 8 else 10
                total += n
                producer.do(f"add {SESSION} {row} {BYTES} {n} -1")
            # Before the next turn, wait until collectd has read all counts.
            collectd.wait_for(lambda: sum_of(collectd, all_bytes) == total, 30,
                              f"{total} bytes")
        collectd.wait_for_reads(2)
        collectd.stop()
        found = identifiers_of(collectd, "percore_host_gtpu_session")
        check(found == sorted(
            f"percore_host_gtpu_session_{field}-all/derive-{row}"
            for field in ("bytes", "packets")
            for row in ("other", "vip-a", "vip-b", "vip-c", "vip-d")),
            str(found))
        counted = 0
        for identifier in found:
            counts = check_never_back(collectd, identifier)
            counted += counts[-1] if "bytes" in identifier else 0
        check(counted == total, f"{counted} of {total} counted")
        rest = collectd.of(host("bytes", "other", "session"))[-1].value
        check(rest < total / 4, f"{rest} of {total} are in `other`")
        times = {}
        for value in collectd.values:
            if "session_bytes" in value.identifier:
                times.setdefault(value.time, []).append(value.identifier)
        # A row that loses its place is dispatched once more.
        shown = [len(each) for each in times.values()]
        check(max(shown) <= 5 and sum(each > 3 for each in shown) <= 4,
              f"{shown} rows are shown")


# ---------------------------------------------------------------------------
# Instances


def test_instances_summed_and_apart():
    """Instances of a region are summed, the sum never decreases when an instance ends,
    and the option ReportPerInstance reports the instances individually"""
    apart = '<Region "gtpu">\nReportPerInstance true\n</Region>'
    with RuntimeDir(), Producer("gtpu@east") as east, \
            Producer("gtpu@west") as west:
        for producer in (east, west):
            producer.do("core 0", ETH0)
        with Collectd(interval=FAST).start() as summed, \
                Collectd(apart, FAST).start() as told_apart:
            wait_until_read(summed, 2)
            wait_until_read(told_apart, 2)
            east.do(f"add {PORT} 0 {PACKETS} 100 0")
            west.do(f"add {PORT} 0 {PACKETS} 23 0")
            wait_for_number(summed, host("packets", "eth0"), 123)
            wait_for_number(summed, of_core(0, "packets", "eth0"), 123)
            for name, n in (("east", 100), ("west", 23)):
                wait_for_number(told_apart, host(
                    "packets", "eth0", where=f"all@{name}"), n)
                wait_for_number(told_apart, of_core(
                    f"0@{name}", "packets", "eth0"), n)
            check(not told_apart.of(host("packets", "eth0")), "a sum, too")
            west.do(f"add {PORT} 0 {PACKETS} 1000 0")
            west.kill()
            wait_for_number(summed, host("packets", "eth0"), 1123)
            east.do(f"add {PORT} 0 {PACKETS} 1 0")
            wait_for_number(summed, host("packets", "eth0"), 1124)
            with Producer("gtpu@west") as again:
                again.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 5 0")
                wait_for_number(summed, host("packets", "eth0"), 1129)
                wait_for_number(told_apart, host(
                    "packets", "eth0", where="all@west"), 1028)
            check_never_back(summed, host("packets", "eth0"))


def test_instances_of_two_schemas():
    """If a second instance describes a table with different fields, its table is left
    out of the sum, with one message, until the first instance has ended"""
    with RuntimeDir(), Producer("gtpu@b") as first, \
            Collectd(interval=FAST).start() as collectd:
        wait_until_read(collectd)
        first.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 100 0")
        wait_for_number(collectd, host("packets", "eth0"), 100)
        with Producer("gtpu@a", "2") as second:
            second.do("core 0", ETH0, f"add {PORT} 0 2 23 0")
            wait_for_number(collectd, REGIONS, 2)
            collectd.wait_for_reads(3)
            check(told(collectd, "its fields differ") == 1, collectd.log())
            first.kill()
            collectd.wait_for_value(host("errors", "eth0"))
            second.do(f"add {PORT} 0 2 1 0")
            wait_for_number(collectd, host("packets", "eth0"), 101)
            check_never_back(collectd, host("packets", "eth0"))


# ---------------------------------------------------------------------------
# Coming and going


def test_reader_first_producer_later():
    """A producer that starts after collectd is read within two intervals. When it is
    killed, its last counts are dispatched once; its end and its return are each
    reported once; and a clean end is not reported as a failure"""
    packets = host("packets", "eth0")
    with RuntimeDir(), Collectd(interval=FAST).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online")
        check(not collectd.of(REGIONS), "regions are counted, but there is none")
        with Producer("gtpu") as producer:
            producer.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 5 0")
            begin = time.monotonic()
            wait_for_number(collectd, packets, 5)
            say(f"values after {time.monotonic() - begin:.2f} s, with an "
                f"interval of {FAST} s")
            collectd.wait_for_reads(4)
            producer.do(f"add {PORT} 0 {PACKETS} 7 0")
        wait_for_number(collectd, packets, 12)
        wait_for_number(collectd, REGIONS, 0)
        collectd.wait_for_reads(1)
        seen = len(collectd.of(packets))
        collectd.wait_for_reads(4)
        check(len(collectd.of(packets)) == seen, "values of a producer that is gone")
        check(collectd.of(packets)[-1].value == 12, "the last value is wrong")
        with Producer("gtpu") as producer:
            producer.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 1 0")
            wait_for_number(collectd, packets, 13)
        collectd.wait_for(lambda: told(collectd, "gtpu is gone") == 2, 30,
                          "the second end")
        check(told(collectd, "gtpu is back") == 1, collectd.log())
        with Producer("gtpu") as producer:
            collectd.wait_for(lambda: told(collectd, "gtpu is back") == 2, 30,
                              "the third producer")
            producer.do("end")
            collectd.wait_for(lambda: told(collectd, "gtpu has ended"), 30,
                              "the clean end")
        check(told(collectd, "gtpu is gone") == 2, collectd.log())


def test_reset_changes_no_rate():
    """A reset by the producer does not change the values that collectd dispatches"""
    with RuntimeDir(), Producer("gtpu") as producer, \
            Collectd(interval=FAST).start() as collectd:
        wait_until_read(collectd)
        producer.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 5 0")
        wait_for_number(collectd, host("packets", "eth0"), 5)
        producer.do("reset", f"add {PORT} 0 {PACKETS} 3 0")
        wait_for_number(collectd, host("packets", "eth0"), 8)
        producer.do(f"remove {PORT} 0")
        removed = time.time()
        collectd.wait_for_reads(4)
        # Allow 1 ms, because times of values are rounded to milliseconds.
        after = [value.time - removed for value
                 in collectd.of(host("packets", "eth0"))
                 if value.time > removed + 0.001]
        check(len(after) <= 1, f"a removed row still has values: {after}")
        row = producer.add_row(PORT, "eth0")
        producer.do(f"add {PORT} {row} {PACKETS} 2 0")
        wait_for_number(collectd, host("packets", "eth0"), 10)


def test_silent_and_stale():
    """A stopped producer is reported as silent within three intervals; a region whose
    workers are all stuck is stale; one message is logged when each of these states
    begins, and one when it ends"""
    silent, stale, stuck = (f"percore_host-self/gauge-{name}" for name in (
        "regions_silent", "regions_stale", "workers_stuck"))
    with RuntimeDir(), Collectd(interval=FAST).start() as collectd:
        collectd.wait_for_value(f"percore-{online_cores()[0]}/percent-busy")
        with Producer("quiet") as quiet, \
                Producer("gtpu") as producer:
            quiet.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 7 0")
            wait_for_number(collectd, REGIONS, 2)
            wait_for_number(collectd, host("packets", "eth0", region="quiet"), 7)
            producer.do("core 0", ETH0, "poll 0 1 1", "run 1 1000")
            wait_for_number(collectd, stuck, 1)
            wait_for_number(collectd, stale, 0)
            stop(producer.process)
            stopped = time.time()
            wait_for_number(collectd, silent, 1)
            since = next(value.time for value in collectd.of(silent)
                         if value.value == 1 and value.time > stopped)
            check(since - stopped <= 3 * FAST, f"silent after {since - stopped} s")
            producer.signal(signal.SIGCONT)
            wait_for_number(collectd, silent, 0)
            producer.do("poll 0 1 1", "sleep 0")
            wait_for_number(collectd, stuck, 0)
            quiet.do("poll 0 1 1")
            wait_for_number(collectd, stale, 1)
            collectd.wait_for_reads(3)
            quiet.do("poll 0 1 1", "sleep 0")
            wait_for_number(collectd, stale, 0)
        for line in ("gtpu are stuck on cores 0", "no longer stuck on cores 0",
                     "gtpu is silent", "gtpu is no longer silent",
                     "quiet is stale", "quiet is no longer stale"):
            check(told(collectd, line) == 1, f"{line}: {collectd.log()}")
        check("Unable to determine Interval" not in collectd.log(),
              collectd.log())


# ---------------------------------------------------------------------------
# What is refused


def say_how_it_ended(collectd):
    """Prints and returns how many milliseconds percore took to stop."""
    taken_ms = 1e3 * collectd.own_shutdown()
    say(f"percore ended in {taken_ms:.1f} ms")
    return taken_ms


def test_other_users():
    """With the option AllowUser, producers of the given user are read, and producers of
    other users are refused"""
    if not is_root():
        raise Skip("needs root, to start a producer as another user")
    nobody = pwd.getpwnam("nobody").pw_uid
    refuses = '<Region "gtpu">\nAllowUser "root"\n</Region>'
    allows = f'<Region "gtpu">\nAllowUser "{nobody}"\n</Region>'
    with RuntimeDir(), Producer("gtpu", user=nobody) as producer:
        producer.do("core 0", ETH0)
        with Collectd(refuses, FAST).start() as collectd:
            collectd.wait_for_value(REGIONS, count=5)
            check(not identifiers_of(collectd, "percore_host_gtpu"), "it is read")
            said = collectd.log().count("who is not allowed")
            check(said == 1, f"logged {said} times: {collectd.log()}")
        with Collectd(allows, FAST).start() as collectd:
            wait_until_read(collectd)
            producer.do(f"add {PORT} 0 {PACKETS} 5 0")
            wait_for_number(collectd, host("packets", "eth0"), 5)


def run_beside_garbage():
    """Checks a good region next to files that are garbage. Returns how many milliseconds
    percore took to stop."""
    garbage = {"noise": os.urandom(32), "random": os.urandom(8192), "empty": b"",
               "claims": b"PERCORE1" + bytes(8184)}
    with RuntimeDir() as runtime, Producer("good") as producer, \
            Collectd(interval=FAST, plugins=("before", "after")) as collectd:
        for name, content in garbage.items():
            Published(runtime.new_file(name), content)
        producer.do("core 0", ETH0, "run 0 1000")
        collectd.start()
        packets = host("packets", "eth0", region="good")
        collectd.wait_for_value(packets, 20, count=15)
        collectd.check_gaps(collectd.of(packets), 3 * FAST)
        collectd.stop()
        log = collectd.log()
        for name in garbage:
            said = log.count(f"region {name} is not read")
            check(said == 1, f"{name}: logged {said} times: {log}")
        return say_how_it_ended(collectd)


def test_garbage():
    """Files of garbage do not affect other regions, and shutdown takes less than 100 ms"""
    taken_ms = least_of_tries(100, run_beside_garbage)
    check(taken_ms < 100, f"{taken_ms} ms to end")


def test_max_values():
    """Rows whose values exceed half of MaxValues are counted in `other`: one message is
    logged, rows_left_out counts these rows, and loads are not affected"""
    with RuntimeDir(), Producer("gtpu", "many") as producer:
        producer.do("core 0", f"rows {SESSION} 0 3000")
        with Collectd("MaxValues 500", 0.5).start() as collectd:
            left_out = "percore_host-self/derive-rows_left_out"
            collectd.wait_for(lambda: len(collectd.of(left_out)) > 5
                              and collectd.of(left_out)[-1].value > 0, 30,
                              "a row that is left out")
            collectd.stop()
            last = collectd.of(left_out)[-2].time
            count = sum(value.time == last and "_gtpu_" in value.identifier
                        for value in collectd.values)
            check(100 < count <= 250, f"{count} values")
            for core in online_cores():
                check(len(collectd.of(f"percore-{core}/percent-busy")) > 2,
                      f"loads of core {core} are missing")
            check_never_back(collectd, left_out)
            said = told(collectd, "of its rows are counted only in `other`")
            check(said == 1, f"logged {said} times")


def count_until_shown(collectd, producer, command, identifier):
    """Repeats a command that counts in one row, until that row takes the place of
    another shown row and is reported in its own series."""
    def counts():
        producer.do(command)
        return any(value.value > 0 for value in collectd.of(identifier))
    collectd.wait_for(counts, 60, f"a count of {identifier}")


def run_a_million_rows(options, busy):
    """Checks collectd with a region of a million rows. Returns how many milliseconds
    percore took to stop."""
    with RuntimeDir(), Producer("gtpu", "million") as producer:
        producer.do(f"rows {SESSION} 0 1000000",
                    f"add {SESSION} 77 {BYTES} 5 -1")
        with Collectd(options, plugins=("before", "after")).start() as collectd:
            collectd.wait_for_value(host("bytes", "other", "session"), 60)
            count_until_shown(collectd, producer, f"add {SESSION} 77 {BYTES} 5 -1",
                              host("bytes", "s77", "session"))
            series = identifiers_of(collectd, "percore_host_gtpu_session_bytes")
            check(len(series) <= 12, f"{len(series)} series")
            collectd.check_gaps(collectd.of(busy), 1.5)
            collectd.stop()
            return say_how_it_ended(collectd)


def test_a_million_rows():
    """A region of a million rows does not delay loads, Top limits the number of its
    series, and shutdown takes less than 100 ms"""
    options = ('<Region "gtpu">\n<Table "session">\nTop 10 "bytes"\n</Table>\n'
               "</Region>")
    busy = f"percore-{online_cores()[0]}/percent-busy"
    taken_ms = least_of_tries(100, lambda: run_a_million_rows(options, busy))
    check(taken_ms < 100, f"{taken_ms} ms to end")


MEBIBYTE = 1 << 20
MEMORY = "percore_host-self/gauge-regions_memory"


def anonymous_memory(collectd):
    with open(f"/proc/{collectd.process.pid}/status", encoding="ascii") as file:
        return 1024 * int(re.search(r"RssAnon:\s*(\d+)", file.read()).group(1))


def test_memory_is_bounded():
    """If a region has too many rows for MaxMemory, collectd stays within that limit:
    the remaining rows are counted in `other`, one warning names a sufficient MaxMemory,
    and a small region is still read"""
    rows, last = 1000000, "0.15.66.63"
    table = '<Table "session">\nTop 10 "packets"\n</Table>'
    regions = f'<Region "*">\n</Region>\n<Region "gtpu">\n{table}\n</Region>'
    packets = "percore_host_gtpu_session_packets-all/"
    other = host("packets", "other", "session")
    small = host("packets", "eth0", region="small")
    with RuntimeDir(), Producer("gtpu", "keys") as producer, \
            Producer("small") as neighbour:
        producer.do(f"keys {SESSION} 0 {rows}")
        neighbour.do("core 0", ETH0, "run 0 1000")
        with Collectd(f"MaxMemory {8 * MEBIBYTE}\n{regions}",
                      0.5).start() as collectd:
            collectd.wait_for_value(other, 60)
            producer.do(f"adds {SESSION} 0 {rows} {PACKETS} 2")
            # If an interval begins while the counts are added, ten other rows are
            # shown in the next interval.
            collectd.wait_for(lambda: sum_of(collectd, packets) == 2 * rows, 60,
                              "the arrival of all counts")
            rest = collectd.of(other)[-1].value
            check(rest >= 2 * (rows - 30), f"only {rest} are in `other`")
            producer.do(f"adds {SESSION} {rows - 1} 1 {PACKETS} 1000")
            wait_for_number(collectd, other, rest + 1000)
            check(not collectd.of(host("packets", last, "session")), "the row is shown")
            taken = collectd.of(MEMORY)[-1].value
            anonymous = anonymous_memory(collectd)
            say(f"{taken / MEBIBYTE:.1f} MiB of 8 for rows, "
                f"{anonymous / MEBIBYTE:.0f} MiB in all")
            check(taken <= 5 * MEBIBYTE, f"{taken} bytes for rows")
            check(anonymous < 48 * MEBIBYTE, f"{anonymous} bytes")
            check(told(collectd, "MaxMemory is too small") == 1, collectd.log())
            would_do = re.search(r"set MaxMemory (\d+)", collectd.log())
            collectd.wait_for_value(small, count=3)
            check_never_back(collectd, other)
            check_never_back(collectd, small)
        with Collectd(f"MaxMemory {would_do.group(1)}\n{regions}",
                      0.5).start() as collectd:
            collectd.wait_for_value(other, 60)
            count_until_shown(collectd, producer,
                              f"adds {SESSION} {rows - 1} 1 {PACKETS} 1000",
                              host("packets", last, "session"))
            check(told(collectd, "MaxMemory is too small") == 0, collectd.log())
            taken = collectd.of(MEMORY)[-1].value
            say(f"{taken / rows:.1f} bytes for a row, where "
                f"{int(would_do.group(1)) / MEBIBYTE:.0f} MiB would do")


if __name__ == "__main__":
    run_all(globals())
