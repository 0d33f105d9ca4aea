# libwake.la measures how fast a core wakes.
noinst_LTLIBRARIES += libwake.la
libwake_la_SOURCES = \
	src/base/bpf.h \
	src/base/clock.h \
	src/wake/burst.c src/wake/burst.h \
	src/wake/classify.c src/wake/classify.h \
	src/wake/collect.c src/wake/collect.h \
	src/wake/core.c src/wake/core.h \
	src/wake/csv.c src/wake/csv.h \
	src/wake/distribution.c src/wake/distribution.h \
	src/wake/filter.c src/wake/filter.h \
	src/wake/points.c src/wake/probe.h src/wake/steps.h src/wake/wake.h \
	src/wake/programs.c src/wake/programs.h \
	src/wake/summary.c src/wake/summary.h \
	src/wake/survey.c src/wake/survey.h \
	src/wake/tracepoints.c src/wake/tracepoints.h
libwake_la_CPPFLAGS = $(AM_CPPFLAGS)
libwake_la_LIBADD = -lm
EXTRA_DIST += src/wake/wake.bpf.c
if BPF
libwake_la_CPPFLAGS += -DPERCORE_BPF -I$(top_builddir)/src
EXTRA_DIST += src/wake/wake.lskel.h
MAINTAINERCLEANFILES += src/wake/wake.lskel.h
CLEANFILES += src/wake/wake.bpf.o
# The target is a variable, because automake would mistake a rule with the name of the
# object for the rule that compiles the object.
wake_object = src/wake/libwake_la-programs.lo
$(wake_object): src/wake/wake.lskel.h
endif
