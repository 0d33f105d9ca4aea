"""What the plugin dispatched in a guest while cores went and came; a burner
kept core 1 busy for 60 % of the time that it was there."""

import collections
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../integration"))
from harness import Results, Skip, check, say  # noqa: E402

VALUE = re.compile(r"PUTVAL guest/(\S+) interval=\S+ ([0-9.]+):(\S+)")
TOLERANCE = 10  # points: waking up costs much in a guest in real time

values = collections.defaultdict(list)  # identifier: (time, value)...
# second: percent of it that the burner was busy, and by how much its rounds
# were late, which may or may not have been load
truths = {}
marks, notifications, texts = [], [], []
for line in open(sys.argv[1], errors="replace"):
    line = line.strip()
    if match := VALUE.match(line):
        for part in match[3].split(":"):
            values[match[1]].append((float(match[2]), part))
    elif line.startswith("MARK "):
        time, text = line[5:].split(" ", 1)
        marks.append((float(time), text))
    elif line.startswith("TRUTH "):
        time, *shares = map(float, line.split()[1:])
        truths[int(time)] = shares
    elif "Notification:" in line:
        notifications.append(line)
    elif line.startswith("percore:"):
        texts.append(line)


def numbers(identifier):
    return [(time, float(value)) for time, value in values[identifier]]


def away():
    """Pairs of times between which core 1 was not there."""
    gone = [time for time, text in marks if text.startswith("gone")]
    back = [time for time, text in marks if text.startswith("back")]
    check(len(gone) == 3 and len(back) == 3, "the guest did not do its part")
    return list(zip(gone, back))


def at(text):
    return next(time for time, mark in marks if mark == text)


def busy():
    seen = numbers("percore-1/percent-busy")
    check(len(seen) > 15, f"only {len(seen)} values")
    return seen


def values_stop():
    """While a core is away no value of it is dispatched"""
    for name, seen in values.items():
        if name.startswith("percore-1/"):
            for gone, back in away():
                late = [time for time, _ in seen if gone < time < back]
                check(not late, f"{name} at {late}, away {gone} to {back}")


def need_time():
    """A guest in real time says nothing of times if its host does not run it."""
    late = sum(late for _, late in truths.values()) / max(len(truths), 1)
    if late > 10:
        raise Skip(f"this host is too busy: rounds were {late:.0f} % late")


def whole_seconds():
    """(time, load, truth, how much of that is not known) of the seconds in which
    core 1 was there all the time. With the tick of the guest's clock the
    burner's second may end late, and so may the plugin's, which then says so."""
    changes = [time for time, text in marks
               if text.split()[0] in ("gone", "back", "flips", "stat")]
    begin, end = at("flips begin"), at("flips end")
    off = 0  # of the second's begin and end, in percent of it
    for time, value in busy():
        off_before, off = off, 100 * (time - int(time))
        if (max(off_before, off) < 10
                and int(time) in truths and int(time) - 1 in truths
                and not any(time - 1.1 < change < time + 0.1
                            for change in changes)
                and not begin < time < end + 1):
            truth, late = truths[int(time)]
            yield time, value, truth, late + off_before + off


def is_right(load, truth, late):
    # A second of the burner's does not end when one of the plugin's does.
    return -TOLERANCE - late < load - truth < TOLERANCE + late


def values_come_back():
    """A core that comes back has a right value within three intervals"""
    need_time()
    for _, back in away():
        fresh = [each for each in whole_seconds()
                 if back < each[0] <= back + 3.2]
        check(fresh, f"no value after {back}")
        for time, load, truth, late in fresh:
            say(f"{time - back:.2f} s after it came back: load {load:.1f}, "
                f"truth {truth:.1f}, {late:.1f} not known")
        check(all(is_right(*each[1:]) for each in fresh), f"{fresh}")


def no_spike():
    """However often a core goes and comes, its load is never far from the
    truth"""
    need_time()
    seen = list(whole_seconds())
    wrong = [each for each in seen if not is_right(*each[1:])]
    say(f"{len(seen)} seconds, worst error "
        f"{max((each[1] - each[2] for each in seen), key=abs):+.2f}")
    check(len(seen) >= 8 and not wrong, f"{wrong} of {len(seen)}")


def flips():
    """A core that came and went within every interval has values again at the
    second whole interval after that"""
    need_time()
    end = at("flips end")
    seen = [time for time, _ in busy() if end < time < end + 2.2]
    check(seen, f"none until {end + 2.2}")


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
    """The other cores' values go on at every interval meanwhile"""
    need_time()
    times = [time for time, _ in numbers("percore-0/percent-busy")
             if time < at("stat lost") or time > at("stat found") + 2]
    gaps = [(a, b) for a, b in zip(times, times[1:])
            if b - a > 1.5 and not a <= at("stat found") <= b]
    check(not gaps, f"{gaps}")


def counts_cores():
    """percore tells how many cores are online"""
    online = numbers("percore_host-self/gauge-cores_online")
    gone, back = away()[2]
    check(online[0][1] == 3, f"{online[0]}")
    seen = [value for time, value in online if gone < time < back]
    check(seen and all(value == 1 for value in seen), f"{seen}")


def no_notification_of_hotplug():
    """Cores that go and come are no change of source, and no notification"""
    early = [text for text in notifications if "idle to none" not in text
             and "none to idle" not in text]
    check(not early, f"{early}")


def one_notification_each():
    """Losing the source of all cores is one notification, and having it again
    is one"""
    for line in notifications + texts:
        say(line)
    lost = [text for text in notifications if "idle to none" in text]
    found = [text for text in notifications if "none to idle" in text]
    check(len(lost) == 1 and "FAILURE" in lost[0], f"{lost}")
    check(len(found) == 1 and "OKAY" in found[0], f"{found}")


def nothing_without_source():
    """Without any source no load is dispatched, and afterwards right ones"""
    need_time()
    lost, found = at("stat lost"), at("stat found")
    seen = [time for time, _ in busy() if lost + 1 < time < found]
    check(not seen, f"{seen}")
    check([time for time, _ in busy() if found < time < found + 3.2],
          "no value in three intervals")


def ends_well():
    """collectd ends well when it is told to"""
    check(at("end 0") - at("stop") < 10, f'{at("end 0") - at("stop")}')


results = Results()
for test in (values_stop, values_come_back, no_spike, flips, all_finite,
             others_go_on, counts_cores, no_notification_of_hotplug,
             one_notification_each, nothing_without_source, ends_well):
    results.run(test)
