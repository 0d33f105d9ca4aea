#!/usr/bin/python3
"""Tests contrib/collectd/write_http-otel.conf with an HTTP server that reads the values as
the receiver "collectd" of the OpenTelemetry collector does: metrics are named by type,
type instance and, if there are several, data source."""

import http.server
import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (Collectd, Skip, check, collectd_plugins,  # noqa: E402
                     online_cores, run_all, wait_for)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SAMPLE = os.path.join(ROOT, "contrib/collectd/write_http-otel.conf")
SUMS = ("derive", "counter")


class Receiver:
    """Keeps the points of each metric: (name, attributes) to a list of (time, value)."""

    def __init__(self):
        self.points, self.kinds, self.faults = {}, {}, []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    for record in json.loads(body):
                        receiver.take(record)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    receiver.faults.append(f"{error!r} in {body[:300]}")
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"OK")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, record):
        names, kinds, values = record["dsnames"], record["dstypes"], record["values"]
        if not len(names) == len(kinds) == len(values):
            raise ValueError("the numbers of names, kinds and values differ")
        name = ".".join(part for part in (record["type"], record["type_instance"]) if part)
        for each, kind, value in zip(names, kinds, values):
            if value is None:
                raise ValueError(f"{name} has no value")
            metric = (f"{name}.{each}" if len(names) > 1 else name, record["plugin"],
                      record["plugin_instance"], record["host"])
            self.points.setdefault(metric, []).append((record["time"], value))
            self.kinds[metric] = kind

    def of(self, name, plugin, instance):
        return [points for metric, points in self.points.items()
                if metric[:3] == (name, plugin, instance)]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_receiver():
    """the OpenTelemetry collector's receiver gets each value once, loads as gauges and
    counts as totals"""
    if not os.path.exists(f"{collectd_plugins()}/write_http.so"):
        raise Skip("collectd has no plugin write_http")
    with open(SAMPLE, encoding="utf-8") as file:
        sample = file.read()
    receiver = Receiver()
    for old, new in (("otel.example.com:8081", f"127.0.0.1:{receiver.port}"),
                     ("FlushInterval 10", "FlushInterval 1")):
        check(sample.count(old) == 1, f"the sample has {old} {sample.count(old)} times")
        sample = sample.replace(old, new)
    collectd = Collectd(extra=sample)
    collectd.copy_plugin("write_http")
    core = str(online_cores()[0])
    with collectd.start():
        wait_for(lambda: any(len(points) >= 3 for points in
                             receiver.of("load.shortterm", "percore", core)),
                 "three load averages of a core", 30)
    receiver.close()
    check(not receiver.faults, "\n".join(receiver.faults[:5]))
    for points in receiver.points.values():
        times = [time for time, _ in points]
        check(len(set(times)) == len(times), f"a point arrived twice: {points}")
    for name in "load.shortterm", "load.midterm", "load.longterm", "percent.load":
        (points,) = receiver.of(name, "percore", core)
        check(all(0 <= value <= 100 for _, value in points), f"{name}: {points}")
    for metric, kind in receiver.kinds.items():
        values = [value for _, value in receiver.points[metric]]
        check((kind in SUMS) == metric[0].startswith("derive"), f"{metric} is a {kind}")
        if kind in SUMS:
            check(all(isinstance(value, int) for value in values)
                  and values == sorted(values), f"{metric}: {values}")
    check(receiver.of("derive.errors", "percore_host", "self"), "no count")


run_all(globals())
