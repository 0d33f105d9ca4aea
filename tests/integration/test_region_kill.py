"""Producers that are killed at any instruction, under a running collectd."""

import random
import signal
import time

from harness import Collectd, check, run_all, say
from producers import PORT, Producer, RuntimeDir, Tally

INTERVAL = 0.1
KILLS = 400
SECONDS = 40
SLEEP_US = 20  # between two packets of a runner
PACKETS = "percore_host_gtpu_port_packets-all/derive-eth0"
BYTES = "percore_host_gtpu_port_bytes-all/derive-eth0"
REGIONS = "percore_host-self/gauge-regions"


def check_counts(collectd, begun, most, least):
    """No step back, no absurd rate, and no packet that nobody counted."""
    for identifier, per_packet in ((PACKETS, 1), (BYTES, 100)):
        values = collectd.of(identifier)
        check(values, f"no {identifier}")
        for before, after in zip(values, values[1:]):
            check(after.time > before.time, "a time twice")
            grown = after.value - before.value
            check(grown >= 0, f"{identifier} went back by {-grown}")
            rate = grown / per_packet / (after.time - before.time)
            # Two runners, and a producer may have begun an interval earlier.
            check(rate < 3 * 2e6 / SLEEP_US, f"{rate} packets a second")
        total = values[-1].value / per_packet
        say(f"{identifier}: {total:.0f} of {most:.0f} packets in {begun} lives")
        check(total <= most, f"{total} packets of {most} that there were")
        check(total >= least, f"{total} packets of at least {least}")


def finish(collectd):
    """Waits for the last values and looks whether all is well."""
    seen = len(collectd.of("percore_host-self/gauge-cores_online"))
    collectd.wait_for_value("percore_host-self/gauge-cores_online", 15,
                            seen + 5)
    check(collectd.process.poll() is None, "collectd has ended")
    check(collectd.stop() < 1, "collectd did not stop in time")


def killed_at_any_instruction():
    """A producer that is killed again and again, inside and outside of
    begin/end, never makes collectd hang, a counter step back or a rate absurd,
    and nothing is counted twice"""
    chance = random.Random(1)
    with RuntimeDir() as runtime, \
            Collectd(interval=INTERVAL).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online")
        tally = Tally(runtime.path)
        most = least = lives = 0
        end = time.monotonic() + SECONDS
        while lives < KILLS and time.monotonic() < end:
            tally.clear()
            life = chance.choice((0, 0.01, 0.05, 0.1, 0.6))
            if chance.random() < 0.5:
                life *= chance.random()
            begin = time.monotonic()
            producer = Producer("gtpu")
            producer.do(f"tally {tally.path}", f"row {PORT} {b'eth0'.hex()}",
                        f"run 0 {SLEEP_US}", f"run 1 {SLEEP_US}")
            if chance.random() < 0.3:
                producer.do("core 0", "begin 0")
            time.sleep(life)
            producer.signal(signal.SIGKILL)
            lived = time.monotonic() - begin
            producer.kill()
            most += tally.packets()
            # Each runner may have been about to count its last one.
            least += tally.packets() - 2 if lived > 5 * INTERVAL else 0
            lives += 1
        finish(collectd)
        say(f"{lives} kills")
        check(lives > 50, f"only {lives} kills")
        check_counts(collectd, lives, most, least)


def another_schema_under_load():
    """A producer that is restarted with another schema, again and again, under
    load, keeps the counters of the fields that both have growing"""
    with RuntimeDir() as runtime, \
            Collectd(interval=INTERVAL).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online")
        tally = Tally(runtime.path)
        most = least = 0
        for life in range(16):
            tally.clear()
            begin = time.monotonic()
            with Producer("gtpu", ("1", "2")[life % 2]) as producer:
                producer.do(f"tally {tally.path}",
                            f"row {PORT} {b'eth0'.hex()}",
                            f"run 0 {SLEEP_US}", f"run 1 {SLEEP_US}")
                time.sleep(0.55)
                lived = time.monotonic() - begin
            most += tally.packets()
            least += tally.packets() - 2 if lived > 5 * INTERVAL else 0
        finish(collectd)
        check_counts(collectd, 16, most, least)
        check(collectd.of("percore_host_gtpu_port_errors-all/derive-eth0"),
              "no errors of the second schema")


if __name__ == "__main__":
    run_all([
        killed_at_any_instruction,
        another_schema_under_load,
    ])
