# Example fast paths. They are built as users would build them, with only the library
# and its header, and a test runs them.
EXTRA_DIST += \
	contrib/producers/dpdk.c \
	contrib/producers/packet.c \
	contrib/producers/udp.py \
	contrib/producers/udp.rs \
	tests/integration/test_producers.py
if TESTS_ENABLED
producer_cppflags = $(AM_CPPFLAGS) -UPERCORE_BUILDING
check_PROGRAMS += contrib/producers/packet
contrib_producers_packet_SOURCES = contrib/producers/packet.c
contrib_producers_packet_CPPFLAGS = $(producer_cppflags)
contrib_producers_packet_LDADD = libpercore.la

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
