# libpollers asks programs that poll, such as DPDK's and Open vSwitch, how useful they
# are, and publishes that as a region.
noinst_LTLIBRARIES += libpollers.la
libpollers_la_SOURCES = \
	src/poller/answer.c \
	src/poller/ask.c \
	src/poller/find.c \
	src/poller/join.c \
	src/poller/poller.h
libpollers_la_LIBADD = -lm
