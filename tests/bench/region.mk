# A loop that straddles a cache line would cost a tenth more.
BENCH_CFLAGS = $(AM_CFLAGS) -falign-loops=64
BENCHES += tests/bench/region_updates tests/bench/region_reads \
	tests/bench/map_updates
tests_bench_region_updates_SOURCES = tests/bench/region_updates.c \
	tests/bench/bench.h
tests_bench_region_updates_LDADD = libregion.la
tests_bench_region_reads_SOURCES = tests/bench/region_reads.c \
	tests/bench/bench.h
tests_bench_region_reads_LDADD = libregion.la
tests_bench_map_updates_SOURCES = tests/bench/map_updates.c tests/bench/bench.h
tests_bench_map_updates_LDADD = libmap.la libregion.la
tests_bench_region_updates_CFLAGS = $(BENCH_CFLAGS)
tests_bench_region_reads_CFLAGS = $(BENCH_CFLAGS)
tests_bench_map_updates_CFLAGS = $(BENCH_CFLAGS)
# Takes 40 s.
BENCHES += tests/bench/choice
tests_bench_choice_SOURCES = tests/bench/choice.c
tests_bench_choice_LDADD = libboard.la -lm
BENCHES += tests/bench/board_readers
tests_bench_board_readers_SOURCES = tests/bench/board_readers.c tests/bench/bench.h
tests_bench_board_readers_LDADD = libboard.la libregion.la libcycles.la -lm
# Takes seconds.
BENCHES += tests/bench/load_averages
tests_bench_load_averages_SOURCES = tests/bench/load_averages.c
tests_bench_load_averages_LDADD = libcycles.la -lm
