"""What is sent by UDP may be dropped by the kernel before influxd has had a turn to
read it: then nothing is proved, one way or the other."""
from report import note

TRIES = 3
DROPPED = 'this machine dropped UDP packets before influxd could read them'


def drops():
    """Of this machine, so far."""
    with open('/proc/net/snmp') as snmp:
        rows = [line.split() for line in snmp if line.startswith('Udp:')]
    return int(rows[1][rows[0].index('RcvbufErrors')])


def tried(once, is_whole):
    """What once(number) finds, called again as long as it is not whole and packets
    were dropped meanwhile; and how many were, the last time."""
    for number in range(1, TRIES + 1):
        before = drops()
        found = once(number)
        dropped = drops() - before
        if is_whole(found) or not dropped:
            break
        note(f'try {number} of {TRIES}: this machine dropped {dropped} UDP packets')
    return found, dropped
