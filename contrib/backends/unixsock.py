"""Sends values to a collectd through its plugin unixsock."""
import socket
import time


class Unixsock:
    # How many lines to send before reading collectd's answers.
    AHEAD = 200

    def __init__(self, collectd, patience_s=60):
        """Connects to collectd. Tries again until collectd accepts connections, because
        collectd listens on its socket some time after it creates the socket."""
        deadline = time.monotonic() + patience_s
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(60)
            try:
                self.socket.connect(collectd.socket)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                self.socket.close()
                collectd.check_alive()
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
        self.file = self.socket.makefile('rw')
        self.sent = []

    def put(self, host, identifier, time_s, value, interval_s=1):
        values = value if isinstance(value, tuple) else (value,)
        text = ':'.join(repr(v) for v in values)
        self._send(f'PUTVAL "{host}/{identifier}" interval={interval_s} {time_s}:{text}')

    def flush(self):
        """Waits until collectd has accepted all values that were sent with put()."""
        self.file.flush()
        for line in self.sent:
            answer = self.file.readline()
            if not answer.startswith('0 '):
                raise RuntimeError(f'{line}: {answer.strip()}')
        self.sent = []

    def flush_outputs(self):
        self._send('FLUSH')
        self.flush()

    def _send(self, line):
        self.file.write(line + '\n')
        self.sent.append(line)
        if len(self.sent) >= self.AHEAD:
            self.flush()

    def close(self):
        self.socket.close()
