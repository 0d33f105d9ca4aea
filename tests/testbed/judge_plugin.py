"""Checks what the plugin dispatched in a guest while cores went offline and came back
online. A burner kept core 1 busy for 60 % of the time for which the core was online."""

import collections
import json
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../integration"))
from harness import Results, Skip, check, say  # noqa: E402

VALUE = re.compile(r"PUTVAL guest/(\S+) interval=\S+ ([0-9.]+):(\S+)")
# In percentage points. Wake-ups are expensive in a guest that runs in real time.
TOLERANCE = 10

values = collections.defaultdict(list)  # identifier: (time, value)...
# For each second: the percentage of the second for which the burner was busy; the
# percentage by which its rounds were late (whether or not the core was busy then); and
# how late the second ended, as a percentage of a second.
truths = {}
marks, notifications, texts, wakes = [], [], [], []
for line in open(sys.argv[1], errors="replace"):
    line = line.strip()
    if match := VALUE.match(line):
        for part in match[3].split(":"):
            values[match[1]].append((float(match[2]), part))
    elif line.startswith("MARK "):
        time, text = line[5:].split(" ", 1)
        marks.append((float(time), text))
    elif line.startswith("TRUTH "):
        time, busy_share, late_share = map(float, line.split()[1:])
        truths[int(time)] = busy_share, late_share, 100 * (time - int(time))
    elif line.startswith("WAKE "):
        status, document = line[5:].split(" ", 1)
        wakes.append((int(status), json.loads(document)))
    elif "Notification:" in line:
        notifications.append(line)
    elif line.startswith("percore:"):
        texts.append(line)


def numbers(identifier):
    """Returns (time, value)... in the order of time: collectd has several threads that
    write, so a value may be written after its successor."""
    return sorted((time, float(value)) for time, value in values[identifier])


def away():
    """Returns a pair (gone, back) for each period in which core 1 was offline."""
    gone = [time for time, text in marks if text.startswith("gone")]
    back = [time for time, text in marks if text.startswith("back")]
    check(len(gone) == 3 and len(back) == 3, "the guest did not set core 1 offline")
    return list(zip(gone, back))


def at(text):
    return next(time for time, mark in marks if mark == text)


def lateness():
    """Returns the lateness of each interval in seconds, keyed by the time of its
    values."""
    return dict(numbers("percore_host-self/duration-lateness"))


def intervals_after(time, count):
    """Returns the times, including lateness, at which the next `count` intervals after
    `time` ended."""
    return sorted(each for each in lateness() if each > time)[:count]


def busy():
    seen = numbers("percore-1/percent-load")
    check(len(seen) > 15, f"only {len(seen)} values")
    return seen


def values_stop():
    """While a core is offline, none of its values are dispatched"""
    for name, seen in values.items():
        if name.startswith("percore-1/"):
            for gone, back in away():
                late = [time for time, _ in seen if gone < time < back]
                check(not late, f"{name} at {late}, away {gone} to {back}")


def need_time():
    """Skips a timed test if the host is too busy to run the guest in time."""
    late = sum(late for _, late, _ in truths.values()) / max(len(truths), 1)
    if late > 10:
        raise Skip(f"this host is too busy: rounds were {late:.0f} % late")


def whole_seconds():
    """Yields (time, load, truth, uncertainty) for each second in which core 1 was
    always online. Both the burner's second and the plugin's interval may end late; the
    difference adds to the uncertainty."""
    changes = [time for time, text in marks
               if text.split()[0] in ("gone", "back", "up", "flips", "stat")]
    flips_begin, flips_end = at("flips begin"), at("flips end")
    ends = sorted(lateness())
    for time, value in busy():
        begin = max((each for each in ends if each < time), default=time - 1)
        if (any(begin - 0.1 < change < time + 0.1 for change in changes)
                or flips_begin < time < flips_end + 1):
            continue
        second = int(time)
        if second in truths and second - 1 in truths:
            truth, late, ended = truths[second]
            began = truths[second - 1][2]
            late += abs(100 * (begin - second + 1) - began)
            late += abs(100 * (time - second) - ended)
        else:
            truth, late = 0, 100
        yield time, value, truth, late


def is_known(late):
    return late < 30


def is_right(load, truth, late):
    # Allow for `late`, because the burner's seconds and the plugin's intervals end at
    # different times.
    return -TOLERANCE - late < load - truth < TOLERANCE + late


def values_come_back():
    """A correct load is dispatched within three intervals after a core comes back
    online"""
    need_time()
    unknown = []
    for up in [time for time, text in marks if text.startswith("up")]:
        intervals = intervals_after(up, 3)
        check({time for time, _ in busy()} & set(intervals),
              f"no value after {up}")
        fresh = [each for each in whole_seconds() if each[0] in intervals]
        for time, load, truth, late in fresh:
            say(f"{time - up:.2f} s after it came back: load {load:.1f}, "
                f"truth {truth:.1f}, {late:.1f} uncertain")
        check(all(is_right(*each[1:]) for each in fresh), f"{fresh}")
        if not any(is_known(late) for *_, late in fresh):
            check(fresh or any(lateness()[each] > 0.1 for each in intervals),
                  f"no value of a whole second after {up}")
            unknown.append(up)
    if unknown:
        raise Skip(f"the guest was late after {unknown}")


def no_spike():
    """However often a core goes offline and comes back, its load is close to the truth"""
    need_time()
    seen = list(whole_seconds())
    known = [each for each in seen if is_known(each[3])]
    wrong = [each for each in seen if not is_right(*each[1:])]
    check(len(seen) >= 8 and not wrong, f"{wrong} of {len(seen)}")
    if len(known) < 8:
        raise Skip(f"only {len(known)} of {len(seen)} seconds were in time")
    say(f"{len(seen)} seconds, worst error "
        f"{max((each[1] - each[2] for each in known), key=abs):+.2f}")


def flips():
    """If a core went offline and came back online in every interval, its load is
    dispatched again within two whole intervals afterwards"""
    intervals = intervals_after(at("flips end"), 2)
    check({time for time, _ in busy()} & set(intervals), f"none at {intervals}")


def all_finite():
    """No value is NaN, infinite or out of range"""
    count = 0
    for name, seen in values.items():
        for time, text in seen:
            count += 1
            check(math.isfinite(float(text)), f"{name} {text} at {time}")
            if "/percent-" in name:
                check(0 <= float(text) <= 100, f"{name} {text} at {time}")
    say(f"{count} values of {len(values)} identifiers")


def others_go_on():
    """While core 1 goes offline and comes back online, the load of core 0 is dispatched
    at every interval"""
    times = [time for time, _ in numbers("percore-0/percent-load")]
    late = lateness()
    gaps = [(a, b) for a, b in zip(times, times[1:])
            if b - a > 1.5 + late.get(b, 0)]
    # If percore is more than an interval late, only the last interval is dispatched. It
    # has the time of its multiple if the guest goes on just after that; the burner
    # then reports no second either.
    halts = [(a, b) for a, b in gaps
             if not any(a < each < b for each in late)
             and (b % 1 > 0 or int(b) - 1 not in truths)]
    check(gaps == halts, f"{gaps}")
    if halts:
        raise Skip(f"the guest was halted: {halts}")


def counts_cores():
    """percore reports how many cores are online"""
    online = numbers("percore_host-self/gauge-cores_online")
    gone, back = away()[2]
    check(online[0][1] == 3, f"{online[0]}")
    seen = [value for time, value in online if gone < time < back]
    check(seen and all(value == 1 for value in seen), f"{seen}")


def no_notification_of_hotplug():
    """Hotplug changes no source and causes no notification"""
    check(not notifications, f"{notifications}")


def stat_stays_open():
    """A file that is mounted over /proc/stat changes no load and no source"""
    need_time()
    for line in notifications + texts:
        say(line)
    hidden, found = at("stat hidden"), at("stat found")
    seen = [time for time, _ in busy() if hidden < time < found]
    check(len(seen) >= 2, f"{seen}")
    check(not notifications, f"{notifications}")


def wake_latency_is_unchecked():
    """If cpuidle has no driver, wake latency is not measured, and the log says so
    once"""
    said = [text for text in texts if "wake latency" in text]
    check(len(said) == 1 and "cpuidle has no driver" in said[0], f"{said}")
    check(not [name for name in values if "latency" in name], f"{list(values)}")


def a_measurement_ends_with_its_core():
    """If the core of percore wake goes offline for 1 s, the measurement ends, and every
    event has a reason"""
    check(len(wakes) == 2, f"{len(wakes)}")
    for status, document in wakes:
        dropped = document["dropped"]
        say(f"{document['method']}: {document['datapoints']} of {document['armed']} in "
            f"{document['seconds']:.2f} s; {dropped}")
        check(status == 1 and document["core_left"], f"{status}")
        check(document["seconds"] < 10, f'{document["seconds"]}')
        check(document["armed"] == document["datapoints"] + sum(dropped.values()),
              document["method"])


def ends_well():
    """After SIGTERM, collectd ends with status 0 within 10 seconds"""
    check(at("end 0") - at("stop") < 10, f'{at("end 0") - at("stop")}')


results = Results()
for test in (values_stop, values_come_back, no_spike, flips, all_finite,
             others_go_on, counts_cores, no_notification_of_hotplug,
             stat_stays_open, wake_latency_is_unchecked,
             a_measurement_ends_with_its_core, ends_well):
    results.run(test)
