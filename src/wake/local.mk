# How fast a core wakes.
noinst_LTLIBRARIES += libwake.la
libwake_la_SOURCES = \
	src/wake/csv.c src/wake/csv.h \
	src/wake/filter.c src/wake/filter.h \
	src/wake/points.c src/wake/wake.h \
	src/wake/summary.c src/wake/summary.h
libwake_la_LIBADD = -lm
