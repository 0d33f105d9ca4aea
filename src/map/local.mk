# libmap reads BPF maps, such as the counters of XDP programs, and publishes them as
# regions.
noinst_LTLIBRARIES += libmap.la
libmap_la_SOURCES = \
	src/base/bpf.h \
	src/base/clock.h \
	src/base/core_set.h \
	src/base/file.h \
	src/base/portable.h \
	src/base/names.h \
	src/base/utf8.h \
	src/map/feed.c src/map/feed.h \
	src/map/fields.c src/map/fields.h \
	src/map/growth.c src/map/growth.h \
	src/map/keys.c src/map/keys.h \
	src/map/known.c src/map/known.h \
	src/map/learn.c \
	src/map/map.h src/map/open.c \
	src/map/publish.c src/map/publish.h \
	src/map/read.c \
	src/map/types.c src/map/types.h
libmap_la_CPPFLAGS = $(AM_CPPFLAGS) -DPERCORE_BUILDING
man_MANS += src/map/percore-maps.7
CLEANFILES += src/map/percore-maps.7
EXTRA_DIST += src/map/percore-maps.pod
src/map/percore-maps.7: src/map/percore-maps.pod
