"""Producers that are killed at any instruction while collectd runs."""

import itertools
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from harness import Collectd, check, run_all, say
from producers import ETH0, Producer, RuntimeDir, Tally

INTERVAL = 0.1
KILLS = 400  # in total for all instances, which run at the same time
REGIONS = ("gtpu", "gtpc")
INSTANCES = ("a", "b")
SLEEP_US = 100  # microseconds between two packets of a runner
RUNNERS = 2
REGIONS_READ = "percore_host-self/gauge-regions"


def packets_of(seconds):
    """Returns the largest number of packets that all runners of a producer can count in
    `seconds` seconds."""
    return RUNNERS * seconds * 1e6 / SLEEP_US


def check_counts(collectd, region, instances, lives, unread=0):
    """Checks that no counter decreases, no rate is impossibly high, no packet is
    invented, and none is lost of a producer to which collectd has connected. lives: for
    each producer, its number of packets and whether it saw collectd connect. unread: how
    many packets may be unreported because they seem older than the reader."""
    most = sum(packets for packets, _ in lives)
    # Each runner may have been killed before it counted the last packet that it had
    # begun to count, and collectd may connect just before the kill.
    seen = [packets for packets, met in lives if met]
    least = sum(packets - RUNNERS for packets in seen) - unread
    check(seen, "collectd has connected to no producer")
    for field, per_packet in (("packets", 1), ("bytes", 100)):
        identifier = f"percore_host_{region}_port_{field}-all/derive-eth0"
        values = collectd.of(identifier)
        check(values, f"no {identifier}")
        for before, after in zip(values, values[1:]):
            check(after.time > before.time, "two values have the same time")
            grown = after.value - before.value
            check(grown >= 0, f"{identifier} went back by {-grown}")
            rate = grown / per_packet / (after.time - before.time)
            # A producer may have begun to count an interval before its first value.
            check(rate < 3 * instances * packets_of(1),
                  f"{rate} packets a second")
        total = values[-1].value / per_packet
        say(f"{identifier}: {total:.0f} of {most:.0f} packets in "
            f"{len(lives)} lives, {len(seen)} of them read")
        check(total <= most, f"{total} packets, but only {most} were counted")
        check(total >= least, f"{total} packets of at least {least}")


def finish(collectd):
    """Waits until collectd knows that all producers are gone, because it then
    dispatches their last values, and stops collectd."""
    def gone():
        return [value.value for value in
                collectd.of(REGIONS_READ)][-2:] == [0, 0]
    collectd.wait_for(gone, 15, "no region")
    check(collectd.process.poll() is None, "collectd has ended")
    check(collectd.stop() < 1, "collectd did not stop in time")


def start_packets(producer, tally):
    producer.do(f"tally {tally.path}", ETH0,
                *(f"run {core} {SLEEP_US}" for core in range(RUNNERS)))


def live_and_be_killed(name, tally, chance):
    """Runs a producer and kills it. Returns how many packets it had counted or begun to
    count, and whether it saw collectd connect."""
    tally.clear()
    life = chance.choice((0, 0.01, 0.05, 0.1, 0.6))
    if chance.random() < 0.5:
        life *= chance.random()
    producer = Producer(name)
    start_packets(producer, tally)
    if chance.random() < 0.3:
        producer.do("core 0", "begin 0")
    time.sleep(life)
    producer.signal(signal.SIGKILL)
    producer.kill()
    return tally.read()


def test_killed_at_any_instruction():
    """If producers are killed 400 times, inside and outside of sections, collectd never
    hangs, no counter decreases, no rate is impossibly high, nothing is counted twice, and
    no count is lost of a producer to which collectd has connected"""
    with RuntimeDir() as runtime, \
            Collectd(interval=INTERVAL).start() as collectd, \
            ThreadPoolExecutor(4) as pool:
        collectd.wait_for_value("percore_host-self/gauge-cores_online")
        begin = time.monotonic()

        def live(region, instance):
            name = f"{region}@{instance}"
            tally = Tally(f"{runtime.path}/{name}.tally")
            chance = random.Random(name)
            return region, [live_and_be_killed(name, tally, chance) for _ in
                            range(KILLS // len(REGIONS) // len(INSTANCES))]

        lives = list(pool.map(lambda names: live(*names),
                              itertools.product(REGIONS, INSTANCES)))
        say(f"{sum(len(each) for _, each in lives)} kills in "
            f"{time.monotonic() - begin:.1f} s")
        finish(collectd)
        for region in REGIONS:
            check_counts(collectd, region, len(INSTANCES),
                         sum((each for name, each in lives
                              if name == region), []))


def test_another_schema_under_load():
    """If a producer that counts packets is killed and restarts with another schema, 15
    times, the counters of fields in both schemas continue"""
    with RuntimeDir() as runtime, \
            Collectd(interval=INTERVAL).start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online")
        tally = Tally(f"{runtime.path}/tally")
        lives, unread = [], 0
        for life in range(16):
            tally.clear()
            asked = time.time()
            with Producer("gtpu", ("1", "2")[life % 2]) as producer:
                # If a producer needed more than an interval from its start to
                # its socket, it seems older than the reader, and its counts are
                # not reported until it is read.
                if time.time() - asked > INTERVAL:
                    unread += packets_of(INTERVAL)
                    say(f"life {life} took {time.time() - asked:.2f} s to start")
                start_packets(producer, tally)
                time.sleep(0.55)
            lives.append(tally.read())
        finish(collectd)
        check_counts(collectd, "gtpu", 1, lives, unread)
        check(collectd.of("percore_host_gtpu_port_errors-all/derive-eth0"),
              "no errors of the second schema")


if __name__ == "__main__":
    run_all(globals())
