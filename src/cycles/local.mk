noinst_LTLIBRARIES += libcycles.la
libcycles_la_SOURCES = \
	src/percore_load.h \
	src/base/affinity.h \
	src/base/array.h \
	src/base/bpf.h \
	src/base/clock.h \
	src/base/core_set.c src/base/core_set.h \
	src/base/thread.h \
	src/base/portable.h \
	src/base/descriptors.c src/base/descriptors.h \
	src/base/file.h \
	src/base/metric_name.h \
	src/base/number.c src/base/number.h \
	src/base/why.h \
	src/cycles/aggregate.c src/cycles/aggregate.h \
	src/cycles/backoff.h \
	src/cycles/core.c src/cycles/core.h \
	src/cycles/cpuidle.c src/cycles/cpuidle.h \
	src/cycles/engine.c src/cycles/engine.h \
	src/cycles/engine_judge.c src/cycles/engine_private.h \
	src/cycles/engine_prove.c src/cycles/engine_sources.c \
	src/cycles/figures.c src/cycles/figures.h \
	src/cycles/idle_clock.c src/cycles/idle_clock.h \
	src/cycles/journal.c src/cycles/journal.h \
	src/cycles/loadavg.c src/cycles/loadavg.h \
	src/cycles/machine.c src/cycles/machine.h \
	src/cycles/perf_event.c src/cycles/perf_event.h \
	src/cycles/procstat.c src/cycles/procstat.h \
	src/cycles/programs.c src/cycles/programs.h \
	src/cycles/proof.c src/cycles/proof.h \
	src/cycles/sampler.c src/cycles/sampler.h \
	src/cycles/sampling_thread.c src/cycles/sampling_thread.h \
	src/cycles/schedule.c src/cycles/schedule.h \
	src/cycles/softirq_time.c src/cycles/softirq_time.h \
	src/cycles/source.h \
	src/cycles/source_bpf.c src/cycles/source_counter.c \
	src/cycles/source_idle.c \
	src/cycles/source_kind.c src/cycles/source_kind.h \
	src/cycles/topology.c src/cycles/topology.h \
	src/cycles/totals.c src/cycles/totals.h
libcycles_la_CPPFLAGS = $(AM_CPPFLAGS) -DPERCORE_BUILDING
libcycles_la_LIBADD = -lm
EXTRA_DIST += src/cycles/clocks.bpf.c src/cycles/idle_clock.bpf.c \
	src/cycles/idle_clock.pml src/cycles/softirq_time.bpf.c

# The tarball includes the compiled programs of the clock, so that percore can
# be built without clang and bpftool.
if BPF
libcycles_la_CPPFLAGS += -DPERCORE_BPF -I$(top_builddir)/src
EXTRA_DIST += src/cycles/clocks.lskel.h src/cycles/softirq_time.lskel.h
MAINTAINERCLEANFILES += src/cycles/clocks.lskel.h src/cycles/softirq_time.lskel.h
CLEANFILES += src/cycles/clocks.bpf.o src/cycles/softirq_time.bpf.o
# This target is written as a variable. Otherwise automake would mistake the
# dependency for the rule that builds the object.
programs_object = src/cycles/libcycles_la-programs.lo
$(programs_object): src/cycles/clocks.lskel.h
src/cycles/clocks.lskel.h: src/cycles/idle_clock.bpf.c
softirq_time_object = src/cycles/libcycles_la-softirq_time.lo
$(softirq_time_object): src/cycles/softirq_time.lskel.h
src/cycles/softirq_time.lskel.h: src/cycles/softirq_time.h
endif
