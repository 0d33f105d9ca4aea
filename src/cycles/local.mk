noinst_LTLIBRARIES += libcycles.la
libcycles_la_SOURCES = \
	src/percore.h \
	src/base/descriptors.c src/base/descriptors.h \
	src/base/number.c src/base/number.h \
	src/cycles/aggregate.c src/cycles/aggregate.h \
	src/cycles/btf.c src/cycles/btf.h \
	src/cycles/backoff.h \
	src/cycles/candidate.c src/cycles/candidate.h \
	src/cycles/candidates.c \
	src/cycles/core.c src/cycles/core.h \
	src/cycles/core_columns.c \
	src/cycles/core_set.c src/cycles/core_set.h \
	src/cycles/cpuidle.c src/cycles/cpuidle.h \
	src/cycles/domains.c src/cycles/domains.h \
	src/cycles/engine.c src/cycles/engine.h \
	src/cycles/engine_cores.c src/cycles/engine_judge.c \
	src/cycles/engine_private.h src/cycles/engine_prove.c \
	src/cycles/engine_sources.c src/cycles/engine_stat.c \
	src/cycles/engine_state.c \
	src/cycles/figures.c src/cycles/figures.h \
	src/cycles/figures_files.c src/cycles/figures_private.h \
	src/cycles/journal.c src/cycles/journal.h \
	src/cycles/load.c src/cycles/load.h \
	src/cycles/loadavg.c src/cycles/loadavg.h \
	src/cycles/machine.c src/cycles/machine.h \
	src/cycles/perf_event.c src/cycles/perf_event.h \
	src/cycles/procstat.c src/cycles/procstat.h \
	src/cycles/proof.c src/cycles/proof.h \
	src/cycles/sampler.c src/cycles/sampler.h \
	src/cycles/sampling_thread.c src/cycles/sampling_thread.h \
	src/cycles/schedstat.c src/cycles/schedstat.h \
	src/cycles/schedule.c src/cycles/schedule.h \
	src/cycles/source.c src/cycles/source.h \
	src/cycles/topology.c src/cycles/topology.h
libcycles_la_CPPFLAGS = $(AM_CPPFLAGS) -DPERCORE_BUILDING
libcycles_la_LIBADD = -lm
include_HEADERS += src/percore.h
