# Example fast paths. They are built as users would build them, with only the library
# and its header, and a test runs them.
EXTRA_DIST += \
	contrib/producers/dpdk.c \
	contrib/producers/module.c \
	contrib/producers/packet.c \
	contrib/producers/percore.py \
	contrib/producers/region.c \
	contrib/producers/udp.cc \
	contrib/producers/udp.py \
	contrib/producers/udp.rs \
	tests/integration/test_producers.py
if TESTS_ENABLED
producer_cppflags = $(AM_CPPFLAGS) -UPERCORE_BUILDING
check_PROGRAMS += contrib/producers/packet contrib/producers/prefork \
	contrib/producers/server contrib/producers/board
contrib_producers_packet_SOURCES = contrib/producers/packet.c
contrib_producers_packet_CPPFLAGS = $(producer_cppflags)
contrib_producers_packet_LDADD = libpercore.la
contrib_producers_prefork_SOURCES = contrib/producers/prefork.c
contrib_producers_prefork_CPPFLAGS = $(producer_cppflags)
contrib_producers_prefork_LDADD = libpercore.la
contrib_producers_server_SOURCES = contrib/producers/server.c
contrib_producers_server_LDADD = -ldl
contrib_producers_board_SOURCES = contrib/producers/board.c
contrib_producers_board_CPPFLAGS = $(producer_cppflags)
contrib_producers_board_LDADD = libpercore.la

if DPDK
check_PROGRAMS += contrib/producers/dpdk
contrib_producers_dpdk_SOURCES = contrib/producers/dpdk.c
contrib_producers_dpdk_CPPFLAGS = $(producer_cppflags)
contrib_producers_dpdk_CFLAGS = $(AM_CFLAGS) $(DPDK_CFLAGS)
contrib_producers_dpdk_LDADD = libpercore.la $(DPDK_LIBS)
endif
if TOOL
TESTS += tests/integration/test_producers.py
tests/integration/test_producers.log: tests/integration/test_region_top.log
endif
endif
