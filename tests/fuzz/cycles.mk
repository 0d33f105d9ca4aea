# Fuzz targets of src/cycles, each run once on its seeds.
if TESTS_ENABLED
CYCLES_REPLAYS = \
	tests/fuzz/replay_core_set \
	tests/fuzz/replay_procstat \
	tests/fuzz/replay_topology \
	tests/fuzz/replay_cpuidle \
	tests/fuzz/replay_engine
check_PROGRAMS += $(CYCLES_REPLAYS)
TESTS += $(CYCLES_REPLAYS)
fuzz_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
fuzz_ldadd = libreplay.la libcyclesunit.la libcycles.la $(CMOCKA_LIBS) -lm
tests_fuzz_replay_core_set_SOURCES = tests/fuzz/fuzz_core_set.c
tests_fuzz_replay_core_set_LDADD = $(fuzz_ldadd)
tests_fuzz_replay_procstat_SOURCES = tests/fuzz/fuzz_procstat.c
tests_fuzz_replay_procstat_LDADD = $(fuzz_ldadd)
tests_fuzz_replay_topology_SOURCES = tests/fuzz/fuzz_topology.c
tests_fuzz_replay_topology_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_replay_topology_LDADD = $(fuzz_ldadd)
tests_fuzz_replay_cpuidle_SOURCES = tests/fuzz/fuzz_cpuidle.c
tests_fuzz_replay_cpuidle_LDADD = $(fuzz_ldadd)
tests_fuzz_replay_engine_SOURCES = tests/fuzz/fuzz_engine.c
tests_fuzz_replay_engine_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_replay_engine_LDADD = $(fuzz_ldadd)
endif
EXTRA_DIST += tests/fuzz/corpus_core_set tests/fuzz/corpus_procstat \
	tests/fuzz/corpus_topology tests/fuzz/corpus_cpuidle \
	tests/fuzz/corpus_engine
