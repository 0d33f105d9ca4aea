"""What regions cost in collectd with percore: 100 000 values, beside a plugin that only
dispatches the same values; and Top of many regions, less what collectd takes alone."""

import contextlib
import time

from bench import TOP, Daemon, loads, record, spread
from harness import need_collectd
from producers import SESSION, Producer, RuntimeDir

MISSING = []
ROWS = 25000  # of four values
SKIPPED_S, MEASURED_S = 2, 9
TURNS = 5  # each with new daemons, because their speed varies
MOST = 1.1  # times the processor time of the plugin that only dispatches
REGIONS, ROWS_OF_EACH = 64, 100000  # of four values
START_S, BLOCKS, BLOCK_S = 30, 5, 5  # the start, with the proof of loads, is not measured


def sleep_to(phase):
    """Sleeps until the clock is `phase` seconds past a full second."""
    time.sleep((phase - time.time()) % 1)


def cost_of_values():
    """Returns the microseconds of a value in the daemons. They dispatch half a second apart,
    so that a slow machine slows both. All intervals are measured together, because a large
    table may be dispatched only in every second one. A region may have half of MaxValues."""
    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(Daemon(*arguments)) for arguments in (
            ("MaxValues 400000", 1), (None, 1, (), f"<Plugin bare>\nRows {ROWS}\n</Plugin>"))]
        for daemon, phase in zip(daemons, (0.1, 0.6)):
            sleep_to(phase)
            daemon.start()
        time.sleep(SKIPPED_S)
        sleep_to(0.3)
        before = [daemon.count_values() for daemon in daemons]
        spent = loads(dict(enumerate(daemons)), 1, MEASURED_S)
        return [1e6 * MEASURED_S * load / (daemon.count_values() - count)
                for daemon, count, (load,) in zip(daemons, before, spent.values())]


def cost_of_top():
    """Returns the milliseconds an interval in each block."""
    with contextlib.ExitStack() as stack:
        for number in range(REGIONS):
            stack.enter_context(Producer(f"gtpu{number}", "million")).do(
                f"rows {SESSION} 0 {ROWS_OF_EACH}")
        daemons = {options: stack.enter_context(Daemon(options, 1)).start()
                   for options in (None, TOP)}
        time.sleep(START_S)
        bare, top = loads(daemons, BLOCKS, BLOCK_S).values()
    return [1e3 * (with_top - without) for with_top, without in zip(top, bare)]


def measure(_build, _seconds):
    need_collectd()
    with RuntimeDir():
        with Producer("gtpu", "many") as producer:
            producer.do(f"rows {SESSION} 0 {ROWS}")
            regions, bare = zip(*(cost_of_values() for _ in range(TURNS)))
        for who, us in (("percore, a region", regions), ("a plugin that dispatches", bare)):
            yield record("100 000 values", who, "us a value", spread(us))
        yield record("100 000 values, by a plugin that dispatches", "percore, a region", "times",
                     spread([ours / least for ours, least in zip(regions, bare)]))
        yield record(f"Top 100 of {REGIONS} regions of {ROWS_OF_EACH} rows", "percore",
                     "ms an interval", spread(cost_of_top()))


def claims(records):
    for each in records:
        if each["unit"] == "times":
            yield f"{each['who']} costs {each['median']:.2f}, at most {MOST}", \
                each["median"] <= MOST
