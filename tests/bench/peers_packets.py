"""What tools show of a core that receives packets in softirq, whose load nothing logs. Needs
root."""

import peers_truth

MISSING = peers_truth.MISSING
LOADS = {f"{rate} packets a second": (peers_truth.receive, rate)
         for rate in (100000, 300000, 370000)}


def measure(build, seconds):
    return peers_truth.measure(build, seconds, LOADS)
