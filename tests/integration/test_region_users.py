"""Tests that no user's producers falsify, delay or silence the region of another user."""

import pwd
import time

from churn import LONG, Churner
from harness import Collectd, Skip, check, is_root, run_all, say, take_precedence
from producers import ETH0, PACKETS, PORT, Producer, RuntimeDir
from test_region_fairness import (GOOD, Hostile, empty_intervals, names_of)

INTERVAL = 0.5
LINES = 100  # in an hour, about all regions
# As many values as collectd can print.
OPTIONS = 'MaxValues 10000\n<Region "*">\nReportPerCore false\n</Region>'


def nobody():
    if not is_root():
        raise Skip("needs root, to start a producer as another user")
    return pwd.getpwnam("nobody").pw_uid


def packets(where="all", region="gtpu"):
    return f"percore_host_{region}_port_packets-{where}/derive-eth0"


def wait_for_number(collectd, identifier, number):
    collectd.wait_for(lambda: collectd.of(identifier) and
                      collectd.of(identifier)[-1].value == number, 30,
                      f"{identifier} = {number}, not {collectd.of(identifier)[-2:]}")


def test_another_user_with_the_name():
    """A region that another user serves under the name of a region is not read, which is
    logged once, and changes nothing in the region's series"""
    with RuntimeDir(), Producer("gtpu") as own, \
            Collectd(interval=INTERVAL).start() as collectd:
        own.do("core 0", ETH0)
        collectd.wait_for_value(packets(), count=2)
        with Producer("gtpu@other", "2", user=nobody()) as other:
            other.do("core 0", ETH0, f"add {PORT} 0 2 1000 0")
            own.do(f"add {PORT} 0 {PACKETS} 7 0")
            collectd.wait_for(lambda: "a region gtpu of user" in collectd.log(), 30,
                              "the message")
            wait_for_number(collectd, packets(), 7)
            other.kill()
        own.do(f"add {PORT} 0 {PACKETS} 1 0")
        wait_for_number(collectd, packets(), 8)
        said = collectd.log().count("a region gtpu of user")
        check(said == 1, f"said {said} times: {collectd.log()}")
        others = {value.identifier for value in collectd.values if "@" in value.identifier}
        check(not others, f"series of the other user: {others}")


def test_users_that_are_allowed_are_summed():
    """Instances of users that AllowUser names are summed"""
    options = f'<Region "gtpu">\nAllowUser "0" "{nobody()}"\n</Region>'
    with RuntimeDir(), Producer("gtpu@a") as a, \
            Producer("gtpu@b", user=nobody()) as b, \
            Collectd(options, INTERVAL).start() as collectd:
        for producer in (a, b):
            producer.do("core 0", ETH0)
        collectd.wait_for_value(packets(), count=2)
        for producer in (a, b):
            producer.do(f"add {PORT} 0 {PACKETS} 4 0")
        wait_for_number(collectd, packets(), 8)


def test_changing_schemas():
    """While the producers of 20 regions of 100 tables restart with other fields several
    times a second, a small region is reported in every interval and exactly, a producer
    that starts is read within seconds, and at most 100 lines are logged"""
    change_schemas(names_of(20), 8, tables=100, rows=20, period=300)


def test_many_changing_schemas():
    """The same while the producers of 26 regions of 255 tables with 33 fields each restart
    every nine seconds"""
    if not LONG:
        raise Skip("runs with --long")
    change_schemas(names_of(26), 60, tables=255, rows=1, counters=32, period=9000)


def change_schemas(names, seconds, **options):
    with RuntimeDir() as runtime, Producer("good") as good, \
            Churner(runtime, "model", rows=4, live=1), \
            Collectd(OPTIONS, INTERVAL) as collectd:
        good.do("core 0", ETH0)
        collectd.start()
        collectd.wait_for_value(GOOD, count=2)
        with Hostile(runtime, names, **options):
            begin, counted = time.time(), 0
            while time.time() < begin + seconds:
                good.do(f"add {PORT} 0 {PACKETS} 10 0")
                counted += 10
                time.sleep(0.1)
            end = time.time()
            with Producer("late") as late:
                late.do("core 0", ETH0, f"add {PORT} 0 {PACKETS} 5 0")
                wait_for_number(collectd, packets(region="late"), 5)
            late_s = time.time() - end
        wait_for_number(collectd, GOOD, counted)
        empty, _ = empty_intervals(collectd, GOOD, begin, end)
        lines = sum(line.startswith("percore: ") and "egion" in line
                    for line in collectd.log().splitlines())
        say(f"{empty} intervals without the small region; the new one after "
            f"{late_s:.1f} s; {lines} lines")
        check(empty == 0, f"{empty} intervals without the small region")
        check(late_s < 20 * INTERVAL, f"the new region came after {late_s:.1f} s")
        check(lines <= LINES, f"{lines} lines")
        check(collectd.stop() < 2, "collectd did not stop in time")


if __name__ == "__main__":
    take_precedence()
    run_all(globals())
