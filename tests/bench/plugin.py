"""What regions cost in collectd with percore, in processor time: 100 000 values of a region,
beside a plugin that only dispatches the same values; and Top, beside a daemon without Top."""

import contextlib
import os
import statistics
import time

from bench import TOP, Daemon, loads  # adds the folder of the harness to the path
from harness import Skip, need_collectd
from producers import SESSION, Producer, RuntimeDir

ROWS = 25000
SKIPPED_S, MEASURED_S = 2, 9
TURNS = 5  # each with new daemons, because their speed varies
MOST = 1.1  # times the CPU time of the plugin that only dispatches

TOPS = ((1, 1000000), (64, 100000))  # regions, rows of each
START_S, BLOCKS, BLOCK_S = 30, 5, 5  # the start, with the proof of loads, is not measured


def say(text):
    print(text, flush=True)


def sleep_to(phase):
    """Sleeps until the clock is `phase` seconds past a full second."""
    time.sleep((phase - time.time()) % 1)


def cost_of_values():
    """Returns for both daemons the CPU microseconds of a value and the values an interval.
    They dispatch half a second apart, so that a slow machine slows both. All intervals are
    measured together, because a large table may be dispatched only in every second one. A
    region may have half of MaxValues."""
    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(Daemon(*arguments)) for arguments in (
            ("MaxValues 400000", 1), (None, 1, (), f"<Plugin bare>\nRows {ROWS}\n</Plugin>"))]
        for daemon, phase in zip(daemons, (0.1, 0.6)):
            sleep_to(phase)
            daemon.start()
        time.sleep(SKIPPED_S)
        sleep_to(0.3)
        before = [daemon.count_values() for daemon in daemons]
        (region,), (bare,) = loads(dict(enumerate(daemons)), 1, MEASURED_S).values()
        values = [(daemon.count_values() - count) / MEASURED_S
                  for daemon, count in zip(daemons, before)]
    return [(load / count * 1e6, count) for load, count in zip((region, bare), values)]


def print_values():
    say(f"takes about {(SKIPPED_S + MEASURED_S + 3) * TURNS} s")
    ratios = []
    with RuntimeDir(), Producer("gtpu", "many") as producer:
        producer.do(f"rows {SESSION} 0 {ROWS}")
        for turn in range(TURNS):
            region, bare = cost_of_values()
            ratios.append(region[0] / bare[0])
            say(f"turn {turn + 1} of {TURNS}: region {region[0]:.2f} us CPU "
                f"per value ({region[1]:.0f} an interval), bare {bare[0]:.2f} "
                f"({bare[1]:.0f}), ratio {ratios[-1]:.3f}")
    ratio = statistics.median(ratios)
    say(f"ratio: {ratio:.3f}, at most {MOST} wanted: {'ok' if ratio <= MOST else 'TOO MUCH'}")


def print_top(regions, rows):
    with RuntimeDir(), contextlib.ExitStack() as stack:
        for number in range(regions):
            stack.enter_context(Producer(f"gtpu{number}", "million")).do(
                f"rows {SESSION} 0 {rows}")
        daemons = {options: stack.enter_context(Daemon(options, 1)).start()
                   for options in (None, TOP)}
        time.sleep(START_S)
        bare, top = loads(daemons, BLOCKS, BLOCK_S).values()
    ms = statistics.median(1000 * (with_top - without) for with_top, without in zip(top, bare))
    say(f"{regions} x Top 100 of {rows} rows of 4 counters: {ms:.1f} ms CPU an interval")


def main():
    try:
        need_collectd()
    except Skip as reason:
        say(f"skipped: {reason}")
        return
    say(f"load average {os.getloadavg()[0]:.1f}")
    print_values()
    say("takes about two minutes")
    for regions, rows in TOPS:
        print_top(regions, rows)


if __name__ == "__main__":
    main()
