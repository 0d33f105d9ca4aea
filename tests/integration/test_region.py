"""Regions in the real collectd, with real producers."""

from harness import run_all

if __name__ == "__main__":
    run_all([])
