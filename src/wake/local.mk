# libwake.la measures how fast a core wakes.
noinst_LTLIBRARIES += libwake.la
libwake_la_SOURCES = \
	src/base/affinity.h \
	src/base/bpf.h \
	src/base/clock.h \
	src/base/file.h \
	src/base/histogram.c src/base/histogram.h \
	src/base/metric_name.h \
	src/base/portable.h \
	src/wake/collect.c src/wake/collect.h \
	src/wake/core.c src/wake/core.h \
	src/wake/points.c src/wake/probe.h src/wake/steps.h src/wake/wake.h \
	src/wake/programs.c src/wake/programs.h \
	src/wake/summary.c src/wake/summary.h \
	src/wake/survey.c src/wake/survey.h
libwake_la_CPPFLAGS = $(AM_CPPFLAGS)
libwake_la_LIBADD = -lm
EXTRA_DIST += src/wake/wake.bpf.c src/wake/wake_timer.bpf.c
if BPF
libwake_la_CPPFLAGS += -DPERCORE_BPF -I$(top_builddir)/src
EXTRA_DIST += src/wake/wake.lskel.h src/wake/wake_timer.lskel.h
MAINTAINERCLEANFILES += src/wake/wake.lskel.h src/wake/wake_timer.lskel.h
CLEANFILES += src/wake/wake.bpf.o src/wake/wake_timer.bpf.o
# The target is a variable, because automake would mistake a rule with the name of the
# object for the rule that compiles the object.
wake_object = src/wake/libwake_la-programs.lo
$(wake_object): src/wake/wake.lskel.h src/wake/wake_timer.lskel.h
src/wake/wake_timer.lskel.h: src/wake/wake.bpf.c src/wake/probe.h src/wake/steps.h
src/wake/wake.lskel.h: src/wake/probe.h src/wake/steps.h
endif
man_MANS += src/wake/percore-wake.7
CLEANFILES += src/wake/percore-wake.7
EXTRA_DIST += src/wake/percore-wake.pod
src/wake/percore-wake.7: src/wake/percore-wake.pod
