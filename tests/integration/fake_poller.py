#!/usr/bin/python3
"""A program that pretends to be Open vSwitch or DPDK: a thread that is bound to a core
uses a part of it, and another tells how busy that thread is, or does not:

  fake_poller.py ovs|dpdk SOCKET CORE PERCENT [HABIT]

PERCENT: the part of its time that the thread works; it is busy in half of that. It
prints "ready", and for each line that it reads from its standard input how many
seconds of CPU time the thread has had so far. It appends the time of each question to
SOCKET.log."""

import json
import os
import socket
import sys
import threading
import time

CYCLE_S = 0.01
SHARE = 0.5
GREETING = {"version": "DPDK 24.11.3", "pid": 1, "max_output_len": 16384}
LCORE = 7


class Thread(threading.Thread):
    """A thread whose name the kernel knows."""

    def __init__(self, name, work):
        super().__init__(daemon=True)
        self.comm = name
        self.work = work
        self.cpu_s = lambda: 0.0
        self.is_named = threading.Event()
        self.start()
        self.is_named.wait()

    def run(self):
        with open("/proc/thread-self/comm", "w", encoding="ascii") as file:
            file.write(self.comm)
        self.is_named.set()
        clock = time.pthread_getcpuclockid(threading.get_ident())
        self.cpu_s = lambda: time.clock_gettime(clock)
        self.work()


def poll(core, percent):
    os.sched_setaffinity(0, {core})
    while True:
        end = time.thread_time() + CYCLE_S * percent / 100
        due = time.monotonic() + CYCLE_S
        while time.thread_time() < end:
            pass
        time.sleep(max(0, due - time.monotonic()))


# ---------------------------------------------------------------------------
# Answers

BEGIN = time.monotonic()


def cycles(habit):
    """Returns busy and total cycles, which are microseconds."""
    total = int((time.monotonic() - BEGIN) * 1e6)
    if habit == "fast":
        total *= 1000000
    return {"beyond": 2 * total, "backwards": (1 << 50) - total}.get(
        habit, int(SHARE * total)), total


def of_dpdk(question, core, habit):
    if question.startswith("/eal/lcore/info"):
        return {"/eal/lcore/info": {"lcore_id": LCORE, "cpuset": [core]}}
    busy, total = cycles(habit)
    usage = {"lcore_ids": [LCORE], "busy_cycles": [busy],
             "total_cycles": [total], "usage_ratio": ["50.00%"]}
    return {"/eal/lcore/usage": {"old": None, "empty": {}}.get(habit, usage)}


def of_ovs(core, habit):
    busy, total = cycles(habit)
    return {"id": 0, "error": None,
            "result": f"pmd thread numa_id 0 core_id {core}:\n"
                      "  packets received: 7\n"
                      f"  idle cycles: {total - busy} (50.00%)\n"
                      f"  processing cycles: {busy} (50.00%)\n"
                      "main thread:\n  packets received: 0\n"}


def answer(connection, question, dialect, core, habit):
    if habit == "mute":
        return
    text = json.dumps(of_dpdk(question, core, habit) if dialect == "dpdk"
                      else of_ovs(core, habit)).encode()
    if habit == "half":
        text = text[:len(text) // 2]
    elif habit == "long":
        text = b'{"result":"' + 2000000 * b"x"
    connection.sendall(text)


def talk(connection, path, dialect, core, habit):
    if habit == "full":
        connection.close()
        return
    if dialect == "dpdk":
        connection.sendall(json.dumps(GREETING).encode())
    while question := connection.recv(4096):
        with open(f"{path}.log", "a", encoding="ascii") as log:
            print(time.monotonic(), file=log)
        answer(connection, question.decode(), dialect, core, habit)


def serve(listener, *how):
    while True:
        connection, _ = listener.accept()
        try:
            talk(connection, *how)
        except OSError:
            pass  # this one was refused


def main():
    dialect, path, core, percent = sys.argv[1:5]
    habit = sys.argv[5] if len(sys.argv) > 5 else None
    name, kind = {"dpdk": ("dpdk-telemet-v2", socket.SOCK_SEQPACKET),
                  "ovs": ("ovs-vswitchd", socket.SOCK_STREAM)}[dialect]
    sys.setswitchinterval(0.0005)
    with socket.socket(socket.AF_UNIX, kind) as listener:
        listener.bind(path)
        listener.listen(1)
        Thread(name, lambda: serve(listener, path, dialect, int(core), habit))
        worker = Thread("worker", lambda: poll(int(core), float(percent)))
        print("ready", flush=True)
        for _ in sys.stdin:
            print(worker.cpu_s(), flush=True)


main()
