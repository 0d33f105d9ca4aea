# The fuzz target of src/region, run on its seeds.
if TESTS_ENABLED
check_PROGRAMS += tests/fuzz/replay_region_directory
TESTS += tests/fuzz/replay_region_directory
tests_fuzz_replay_region_directory_SOURCES = tests/fuzz/fuzz_region_directory.c
tests_fuzz_replay_region_directory_LDADD = libreplay.la libregion.la
endif
EXTRA_DIST += tests/fuzz/corpus_region_directory
