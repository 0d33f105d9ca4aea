"""Helpers for tests of percore(1) with regions: a runtime directory and
producers that take commands."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import harness
from harness import BUILD, check

PERCORE = f"{BUILD}/percore"
PRODUCER = f"{BUILD}/tests/integration/region_producer"
TIMEOUT = 60


class RuntimeDir:
    """A temporary runtime directory and the producers that serve regions in it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(
            prefix="percore-test-",
            dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.environment = {**os.environ, "PERCORE_RUNTIME_DIR": self.path,
                            "TERM": "xterm"}
        self.producers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for producer in self.producers:
            producer.kill()
        shutil.rmtree(self.path, ignore_errors=True)

    def produce(self, *arguments, **options):
        producer = Producer([PRODUCER, *arguments], self.environment,
                            **options)
        self.producers.append(producer)
        return producer

    def run(self, *arguments, **options):
        return subprocess.run(
            [PERCORE, *arguments], capture_output=True, text=True,
            timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False,
            env=self.environment, **options)

    def succeed(self, *arguments, **options):
        done = self.run(*arguments, **options)
        check(done.returncode == 0,
              f"{arguments}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def documents(self, *arguments):
        return [json.loads(line) for line
                in self.succeed(*arguments, "--json").splitlines()]

    def dump(self, region):
        return tables_of(self.documents("dump", region)[0])

    def regions(self):
        return {found["name"]: found for found
                in self.documents("regions")[0]["regions"]}

    def fail(self, *arguments, status=1, says="", **options):
        done = self.run(*arguments, **options)
        check(done.returncode == status,
              f"{arguments}: exit {done.returncode}: {done.stderr}")
        check(says in done.stderr, f"{arguments}: {done.stderr}")
        return done.stderr


class Producer:
    """A producer that takes commands as lines, and answers each command with a line."""

    def __init__(self, command, environment, **options):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment, **options)
        check(self.process.stdout.readline() == "ready\n",
              "the producer did not start")

    def ask(self, line):
        self.tell(line)
        return self.process.stdout.readline().strip()

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def log(self):
        """Returns the producer's log: a list of times and of the packets that had been
        counted on port 0 by then."""
        return [(float(when), int(packets)) for when, packets in
                (look.split() for look in self.ask("log").split(","))]

    def wait_until_counted(self, packets):
        """Waits until at least `packets` packets have been counted on port 0."""
        end = time.monotonic() + TIMEOUT
        while int(self.ask("port").split()[0]) < packets:
            check(time.monotonic() < end, f"port 0 has fewer than {packets} packets")
            time.sleep(0.01)

    def end(self):
        self.process.stdin.close()
        check(self.process.wait(TIMEOUT) == 0, "the producer has failed")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def tables_of(document):
    return {table["name"]: table for table in document["tables"]}


def row_of(table, name):
    rows = [row for row in table["rows"] if row["row"] == name]
    check(len(rows) == 1, f"{len(rows)} rows {name!r}")
    return rows[0]


def run_tests(names):
    harness.run_tests(names, "regions and percore(1)", PERCORE, PRODUCER)
