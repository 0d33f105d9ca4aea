# The fuzz target of src/map, run on its seeds.
if TESTS_ENABLED
check_PROGRAMS += tests/fuzz/replay_map_types
TESTS += tests/fuzz/replay_map_types
tests_fuzz_replay_map_types_SOURCES = tests/fuzz/fuzz_map_types.c
tests_fuzz_replay_map_types_LDADD = libreplay.la libmap.la libregion.la libcycles.la -lm
endif
EXTRA_DIST += tests/fuzz/corpus_map_types
