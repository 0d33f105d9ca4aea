#!/usr/bin/python3
"""Tests percore top with producers that log their own counts."""

import bisect
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (Child, Lateness, check, least_of_tries,  # noqa: E402
                     say, wait_until_caught)
from region_harness import (PERCORE, TIMEOUT, RuntimeDir,  # noqa: E402
                            row_of, run_tests, tables_of)
from terminal import on_terminal  # noqa: E402


# ---------------------------------------------------------------------------
# Rates


def counted(log, begin, end):
    """Returns the packets counted between two times, according to the producer's
    log."""
    times = [when for when, _ in log]

    def at(when):
        i = min(max(bisect.bisect(times, when), 1), len(log) - 1)
        (time_0, count_0), (time_1, count_1) = log[i - 1], log[i]
        return count_0 + (count_1 - count_0) * (when - time_0) / (
            time_1 - time_0)

    return at(end) - at(begin)


def rates_and_truth(producer, documents, lateness):
    """Yields for each interval: the packets per second on port 0 according to top, the
    same according to the log, and how late the reads may have been, as a share of the
    interval."""
    log = producer.log()
    for document in documents:
        table = tables_of(document)["port"]
        end, interval = document["time"], table["interval_s"]
        rate = row_of(table, "eth0")["values"]["rx_packets"]
        late = lateness.of_clock(end - 2 * interval, end + interval)
        yield (rate, counted(log, end - interval, end) / interval,
               late / interval)


def errors_of(pairs):
    """Returns the relative errors of rates in ascending order, minus what the lateness
    of the machine explains."""
    return sorted(max(0, abs(rate / truth - 1) - late)
                  for rate, truth, late in pairs)


def look_at_rates():
    """Checks the rates of percore top. Returns by how many seconds a read was early or
    late, at most, minus what the lateness of the machine explains."""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--workers", "2")
        with Lateness() as lateness:
            got = place.documents("top", "demo", "-i", "0.5", "-n", "5", "-p")
            time.sleep(0.5)
            pairs = list(rates_and_truth(producer, got, lateness))
        # The log has an error of half a step at either end of an interval.
        say(f"rates {[f'{rate:.0f}' for rate, *_ in pairs]}, off by "
            f"{[f'{100 * abs(a / b - 1):.2f} %' for a, b, _ in pairs]}")
        check(errors_of(pairs)[-2] < 0.03, str(pairs))
        for document in got:
            row = row_of(tables_of(document)["port"], "eth0")
            values, cores = row["values"], row["cores"].values()
            check(abs(values["rx_bytes"] / values["rx_packets"] - 100) < 1e-3,
                  str(values))
            total = sum(core["rx_packets"] for core in cores)
            check(abs(total / values["rx_packets"] - 1) < 1e-4, str(row))
        times = [document["time"] for document in got]
        off_s = max(abs(b - a - 0.5) - lateness.of_clock(a - 0.5, b)
                    for a, b in zip(times, times[1:]))
        say(f"off their time by {off_s:.3f} s at most: {times}")
        return off_s


def test_rates_are_right():
    """the rates that percore top shows equal the rates in the producer's log"""
    # Other load may delay top, so only the best try counts.
    off_s = least_of_tries(0.1, look_at_rates)
    check(off_s < 0.1, f"reads were early or late by {off_s} s")


def test_useful_load_and_stuck():
    """top shows the useful load of a polling thread, and marks a thread that is stuck,
    but not a thread that sleeps"""
    with RuntimeDir() as place:
        producer = place.produce("demo")

        def look():
            got = place.documents("top", "demo", "-t", "core", "-n", "1", "-i",
                                  "1.2")[0]["workers"]
            check(len(got) == 1, str(got))
            return got[0]

        def look_until(what):
            """Waits until the thread has carried out the command."""
            worker = look()
            for _ in range(10):
                if worker[what] == 1:
                    break
                worker = look()
            return worker

        # Allow for delays of the machine, which make the thread stay longer in each
        # state.
        with Lateness() as lateness:
            begin = time.monotonic()
            worker = look()
            late = lateness.within(begin, time.monotonic()) / 1.2
        check(abs(worker["useful"] - 0.5) < 0.15 + late
              and not worker["stuck"], f"{worker}, late by {late}")
        check(abs(worker["empty"] - 0.5) < 0.01, str(worker))
        producer.ask("stick")
        worker = look_until("stuck")
        check(worker["stuck"] and worker["useful"] is None, str(worker))
        text = place.succeed("top", "demo", "-n", "1", "-i", "1.2")
        check("STUCK" in text, text)
        producer.ask("go")
        producer.ask("sleep")
        worker = look_until("slept")
        check(worker["asleep"] and not worker["stuck"], str(worker))
        check(worker["slept"] == 1 and worker["useful"] == 0, str(worker))


def test_top_survives_restart():
    """when a producer has ended, top waits for its successor and continues with it,
    without an impossibly high rate"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "3")
        with Child([PERCORE, "top", "demo", "-i", "0.2", "--json"],
                   stdout=subprocess.PIPE, text=True,
                   env=place.environment) as top:
            states, rates, deadline = [], [], time.monotonic() + TIMEOUT
            for line in top.stdout:
                got = json.loads(line)
                states.append(got["state"])
                if got["state"] == "alive":
                    values = row_of(tables_of(got)["port"], "eth0")["values"]
                    rates.append(values["rx_packets"])
                if len(states) == 3:
                    producer.kill()
                elif states.count("gone") == 3 and states[-1] == "gone":
                    place.produce("demo", "--rows", "7", "--workers", "2")
                if (states[-4:] == ["alive"] * 4 and "gone" in states
                        or time.monotonic() > deadline):
                    break
            top.send_signal(signal.SIGTERM)
            top.communicate(timeout=TIMEOUT)
            check(top.returncode == 0, f"exit {top.returncode}")
        check("gone" in states and states[-1] == "alive", str(states))
        known = [rate for rate in rates if rate is not None]
        check(None in rates and all(0 <= rate < 1e6 for rate in known),
              str(rates))


def test_terminal():
    """on a terminal, top redraws in place, and Ctrl-C ends it immediately with exit
    status 0 and restores the terminal"""
    with RuntimeDir() as place:
        place.produce("demo", "--rows", "500")
        written, status, took = on_terminal(
            [PERCORE, "top", "demo", "-i", "0.5"], 3, place.environment)
        check(status == 0 and took < 1, f"exit {status} after {took:.2f} s")
        check(written.startswith("\033[2J\033[H"), repr(written[:40]))
        check(written.count("\033[H") >= 4, "the page was hardly redrawn")
        page = written.split("\033[H")[-2]  # Ctrl-C may cut the last
        check("rx_packets" in page and "useful %" in page, repr(page))
        check(len(page.splitlines()) <= 24, f"{len(page.splitlines())} lines")


def test_signals():
    """if the output is a pipe, SIGINT and SIGTERM end top with exit status 0 within a
    second"""
    with RuntimeDir() as place:
        place.produce("demo")
        for number in (signal.SIGINT, signal.SIGTERM):
            with Lateness() as lateness, Child(
                    [PERCORE, "top", "demo", "-i", "10"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    env=place.environment) as process:
                wait_until_caught(process, number)
                time.sleep(0.2)  # top may not be waiting yet
                begin = time.monotonic()
                process.send_signal(number)
                said = process.communicate(timeout=TIMEOUT)[1]
                end = time.monotonic()
                took = end - begin - lateness.within(begin, end)
                check(process.returncode == 0 and said == "" and took < 1,
                      f"{number}: exit {process.returncode} after {took} s")


if __name__ == "__main__":
    run_tests(globals())
