#!/usr/bin/python3
"""Counts the datagrams that arrive at a UDP port of the loopback, with percore.py.

Usage: udp.py PORT DATAGRAMS
Ends after this many datagrams. `percore top udppy` shows them meanwhile."""

import socket
import sys

import percore

PACKETS, BYTES = range(2)
number, datagrams = map(int, sys.argv[1:])
region = percore.Region("udppy", "port", ("rx_packets", "rx_bytes"), max_rows=16)
if region.error:
    print(region.error, file=sys.stderr)
row = region.row(str(number))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
    port.bind(("127.0.0.1", number))
    for _ in range(datagrams):
        size = len(port.recv(65535))
        row[PACKETS] += 1
        row[BYTES] += size
