#!/usr/bin/python3
"""Counts the datagrams that arrive at a UDP port of the loopback, with libpercore.

Usage: udp.py PORT DATAGRAMS
Ends after this many datagrams. `percore top udppy` shows them meanwhile."""

import ctypes
import socket
import sys
from ctypes import (POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32,
                    c_uint64, c_void_p)

percore = ctypes.CDLL("libpercore.so.2", use_errno=True)


class Field(Structure):  # struct percore_field
    _fields_ = [("name", c_char_p), ("unit", c_char_p), ("help", c_char_p),
                ("kind", c_int), ("aggregation", c_int), ("sub_bits", c_uint32),
                ("max_bits", c_uint32), ("states", c_void_p), ("state_count", c_uint32)]


class Table(Structure):  # struct percore_table
    _fields_ = [("name", c_char_p), ("help", c_char_p), ("storage", c_int),
                ("fields", POINTER(Field)), ("field_count", c_uint32),
                ("max_rows", c_uint32), ("row_name_size", c_uint32), ("key", c_int),
                ("row_align", c_uint32), ("flags", c_uint32)]


class CoreTable(Structure):  # percore_core_table_t
    _fields_ = [("offset", c_size_t), ("stride", c_uint32), ("max_rows", c_uint32)]


class Pointer(Structure):  # percore_slot_t, percore_core_row_t
    _fields_ = [("to", c_void_p)]


fields = (Field * 2)(Field(b"rx_packets", b"packets"), Field(b"rx_bytes", b"bytes"))
tables = (Table * 1)(Table(b"port", fields=fields, field_count=2, max_rows=16,
                           row_name_size=24))
percore.percore_core_row_fn.restype = Pointer
percore.percore_add_fn.argtypes = Pointer, c_uint32, c_uint64

number_of_port, datagrams = map(int, sys.argv[1:])
region, slot, table, number = c_void_p(), Pointer(), CoreTable(), c_uint32()
percore.percore_create(byref(region), b"udppy", tables, 1, None)
percore.percore_row_add(region, 0, b"%d" % number_of_port, byref(number))
percore.percore_core_table(region, 0, byref(table))
percore.percore_attach(region, b"main", -1, byref(slot))  # by the thread that counts
row = percore.percore_core_row_fn(slot, table, number)

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
    port.bind(("127.0.0.1", number_of_port))
    for _ in range(datagrams):
        size = len(port.recv(65535))
        percore.percore_add_fn(row, 0, 1)  # rx_packets
        percore.percore_add_fn(row, 1, size)  # rx_bytes
percore.percore_detach(region, slot)
percore.percore_destroy(region)
