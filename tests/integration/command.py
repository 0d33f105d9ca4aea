"""Helpers for tests of percore(1) without regions."""

import json
import subprocess

from harness import BUILD, check

PERCORE = f"{BUILD}/percore"
TIMEOUT = 30


def run(*arguments, **options):
    return subprocess.run([PERCORE, *arguments], capture_output=True, text=True,
                          timeout=TIMEOUT, stdin=subprocess.DEVNULL,
                          check=False, **options)


def documents(*arguments):
    done = run(*arguments)
    check(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]
