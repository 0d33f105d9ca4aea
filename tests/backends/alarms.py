"""Tests the shipped threshold.conf: a core and a host that stay full; and percore's own
notifications: a worker that stops polling, a region with all workers stuck, and a fast
path that is killed. Each causes one notification when it begins and one when it ends.

This test runs while stage_stores sends its known values, but uses its own collectd and
simulated host. Each event is caused after the notification of the previous event. The
shipped file waits longer for a full core (outputs.py)."""
import multiprocessing
import re
import signal
import time

import fastpath
import outputs
from fakehost import Core, FakeHost
from report import proves, skip

FULL = multiprocessing.Value('b', True, lock=False)  # whether the cores are still busy
CORES = [Core(user=lambda t: 0.88 if FULL.value else 0.05),
         Core(user=lambda t: 0.96 if FULL.value else 0.05)]
ROOM = ('1', 'percent', 'room')
# The numbers of regions of these names.
STEADY, LONELY, HALTING = ((name, 'gauge', 'regions') for name in ('steady', 'lonely', 'halting'))
TOLD = re.compile(r'Notification: severity = (\w+), host = \S+, plugin = \S+, '
                  r'plugin_instance = (\S+), type = (\w+)(?:, type_instance = (\w+))?')
# The expected notifications for each identifier, in order.
ONCE = ['WARNING', 'OKAY']
EXPECTED = {
    ROOM: (
        'threshold.conf warns of a core that stays full, and reports when it no longer is', ONCE),
    ('all', 'percent', 'room_mean'): (
        'threshold.conf tells that a host stays full, and when it no longer is',
        ['FAILURE', 'OKAY']),
    STEADY: (
        'percore notifies when a fast path is stopped, goes on, is killed and is back',
        ONCE + ['FAILURE', 'OKAY']),
    LONELY: (
        'percore notifies when all workers of a fast path are stuck, and when they poll again',
        ONCE),
    HALTING: (
        'percore notifies when a worker of a fast path stops polling and when it polls again',
        ONCE),
}


class Alarms:
    def __init__(self, context, until_end):
        self.context, self.until_end = context, until_end
        self.missing = fastpath.missing(context)
        if self.missing:
            return
        self.began, self.warned_after_s, self.heard = time.monotonic(), None, {}
        self.folder = context.stack.runtime_folder('alarms-regions')
        self.steady = self.begin('steady', 'run 1 1000')
        self.halting = self.begin('halting', 'run 1 1000', 'core 0', 'poll 0 1 1')
        fake = until_end(FakeHost(CORES))
        self.collectd = until_end(context.stack.collectd(
            outputs.LONG_MEMORY + outputs.queue() + outputs.threshold() + outputs.percore(
                context.plugin_folder, context.collectd_folder, f'SysRoot "{fake.root}"'),
            host='alarms', name='collectd-alarms',
            env={'PERCORE_RUNTIME_DIR': self.folder}))
        # For each event: the notification to wait for (identifier, severity), and the
        # function that then causes the event.
        self.script = [
            (HALTING, 'WARNING', lambda: self.halting.tell('poll 0 1 1', 'sleep 0')),
            (HALTING, 'OKAY', lambda: self.steady.signal(signal.SIGSTOP)),
            (STEADY, 'WARNING', lambda: self.steady.signal(signal.SIGCONT)),
            (STEADY, 'OKAY', lambda: self.steady.signal(signal.SIGKILL)),
            (STEADY, 'FAILURE', lambda: self.begin('steady', 'run 1 1000')),
            (STEADY, 'OKAY', self.begin_lonely),
            (LONELY, 'WARNING', lambda: self.lonely.tell('poll 0 1 1', 'sleep 0'))]

    def begin_lonely(self):
        """Begins a region whose only worker stops polling."""
        self.lonely = self.begin('lonely', 'core 0', 'poll 0 1 1')

    def begin(self, region, *lines):
        producer = self.until_end(fastpath.FastPath(self.context, region, self.folder))
        producer.tell(*lines)
        return producer

    def step(self, unused_second=None):
        if self.missing:
            return
        told = self.told()
        if ROOM in told:
            self.warned_after_s = self.warned_after_s or time.monotonic() - self.began
            FULL.value = False
        if not self.script:
            return
        name, severity, action = self.script[0]
        if told.get(name, [''])[-1] == severity:
            self.script.pop(0)
            action()

    def finish(self, patience_s=60):
        """Causes the remaining events, and waits for the remaining notifications. Later
        ones may be about producers that end before collectd."""
        deadline = time.monotonic() + patience_s
        while not self.missing and time.monotonic() < deadline and any(
                self.told().get(name) != severities
                for name, (_, severities) in EXPECTED.items()):
            self.step()
            time.sleep(0.2)
        if not self.missing:
            self.heard = self.told()

    def told(self):
        """Returns the severities of all notifications so far, in order, for each
        identifier."""
        found = {}
        with open(self.collectd.log) as log:
            for severity, *name in (m.groups('') for m in map(TOLD.search, log) if m):
                # The threshold plugin sends OKAY for everything that it sees for the first time.
                if tuple(name) in found or severity != 'OKAY':
                    found.setdefault(tuple(name), []).append(severity)
        return found

    def check(self):
        if self.missing:
            for sentence, _ in EXPECTED.values():
                skip(sentence, self.missing)
            return
        told = self.heard
        for name, (sentence, severities) in EXPECTED.items():
            with proves(sentence):
                assert told.get(name) == severities, f'{name}: {told.get(name)}'
        with proves('threshold.conf warns of a full core after as many values as it says, not at '
                    'the start'):
            assert self.warned_after_s and self.warned_after_s >= outputs.THRESHOLD_HITS, \
                self.warned_after_s
        with proves('threshold.conf and percore send no other notifications'):
            assert set(told) == set(EXPECTED), told
