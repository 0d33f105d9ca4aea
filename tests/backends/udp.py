"""The kernel may drop UDP packets before influxd reads them. A test during which
packets were dropped says nothing and is repeated."""
from report import note

TRIES = 3
DROPPED = 'this machine dropped UDP packets before influxd could read them'


def drops():
    """Returns how many UDP packets this machine has dropped so far."""
    with open('/proc/net/snmp') as snmp:
        rows = [line.split() for line in snmp if line.startswith('Udp:')]
    return int(rows[1][rows[0].index('RcvbufErrors')])


def tried(once, is_whole):
    """Calls once(number), with number = 1, 2 ..., until its result is complete or no
    packet was dropped, but at most TRIES times. Returns the last result, and the number
    of packets dropped during the last call."""
    for number in range(1, TRIES + 1):
        before = drops()
        found = once(number)
        dropped = drops() - before
        if is_whole(found) or not dropped:
            break
        note(f'try {number} of {TRIES}: this machine dropped {dropped} UDP packets')
    return found, dropped
