# Each included file lists the fuzz targets of one folder of src/.
if TESTS_ENABLED
check_LTLIBRARIES += libreplay.la
libreplay_la_SOURCES = tests/fuzz/replay.c tests/fuzz/pieces.h
libreplay_la_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_FOLDER='"$(abs_top_srcdir)/tests/fuzz"'
endif
include tests/fuzz/cycles.mk
include tests/fuzz/map.mk
include tests/fuzz/poller.mk
include tests/fuzz/region.mk
EXTRA_DIST += tests/fuzz/README tests/fuzz/run
