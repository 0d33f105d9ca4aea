# The fuzz target of src/poller, run on its seeds.
if TESTS_ENABLED
check_PROGRAMS += tests/fuzz/replay_poller_answer
TESTS += tests/fuzz/replay_poller_answer
tests_fuzz_replay_poller_answer_SOURCES = tests/fuzz/fuzz_poller_answer.c
tests_fuzz_replay_poller_answer_LDADD = libreplay.la libpollers.la libregion.la \
	libcycles.la
endif
EXTRA_DIST += tests/fuzz/corpus_poller_answer
