# libmap reads BPF maps, such as the counters of XDP programs, and publishes them as
# regions.
noinst_LTLIBRARIES += libmap.la
libmap_la_SOURCES = \
	src/base/bpf.h \
	src/base/clock.h \
	src/base/names.h \
	src/base/utf8.h \
	src/map/entries.c src/map/entries.h \
	src/map/fields.c src/map/fields.h \
	src/map/growth.c src/map/growth.h \
	src/map/keys.c src/map/keys.h \
	src/map/learn.c \
	src/map/map.h src/map/open.c \
	src/map/publish.c src/map/publish.h \
	src/map/rows.c \
	src/map/source.c src/map/source.h \
	src/map/types.c src/map/types.h
libmap_la_CPPFLAGS = $(AM_CPPFLAGS) -DPERCORE_BUILDING
