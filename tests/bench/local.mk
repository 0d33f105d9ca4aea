# `make bench` prints figures of the manual pages and comments that peers.json does not
# have. It is not part of `make check` because it needs a quiet machine.
BENCHES = tests/bench/region_updates tests/bench/region_reads tests/bench/map_updates \
	tests/bench/choice tests/bench/board_readers tests/bench/load_averages
# A loop that straddles a cache line would cost a tenth more.
BENCH_CFLAGS = $(AM_CFLAGS) -falign-loops=64
tests_bench_region_updates_SOURCES = tests/bench/region_updates.c tests/bench/bench.h
tests_bench_region_updates_LDADD = libregion.la
tests_bench_region_updates_CFLAGS = $(BENCH_CFLAGS)
tests_bench_region_reads_SOURCES = tests/bench/region_reads.c tests/bench/bench.h
tests_bench_region_reads_LDADD = libregion.la
tests_bench_region_reads_CFLAGS = $(BENCH_CFLAGS)
tests_bench_map_updates_SOURCES = tests/bench/map_updates.c tests/bench/bench.h
tests_bench_map_updates_LDADD = libmap.la libregion.la libcycles.la -lm
tests_bench_map_updates_CFLAGS = $(BENCH_CFLAGS)
tests_bench_choice_SOURCES = tests/bench/choice.c
tests_bench_choice_LDADD = libboard.la -lm
tests_bench_board_readers_SOURCES = tests/bench/board_readers.c tests/bench/bench.h
tests_bench_board_readers_LDADD = libboard.la libregion.la libcycles.la -lm
tests_bench_load_averages_SOURCES = tests/bench/load_averages.c
tests_bench_load_averages_LDADD = libcycles.la -lm
EXTRA_PROGRAMS += $(BENCHES)
CLEANFILES += $(BENCHES)
bench: $(BENCHES)
	@for bench in $(BENCHES); do \
	  echo "== $$bench; load average`uptime | sed 's/.*://; s/,.*//'`"; \
	  ./$$bench || exit 1; done
.PHONY: bench
# A plugin that discards values, or dispatches some as cheaply as possible.
if PLUGIN
EXTRA_LTLIBRARIES += bare.la
bare_la_SOURCES = tests/bench/bare.c
bare_la_CPPFLAGS = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS)
bare_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
CLEANFILES += bare.la
PEERS_NEED = bare.la tests/integration/burner tests/integration/producer \
	tests/integration/udp_flood
if BPF
PEERS_NEED += tests/integration/softirq_burner
endif
endif
# Compares percore with what others use. PEERS has options of peers.py, such as
# PEERS='--section counters' or PEERS=--record.
EXTRA_DIST += tests/bench/bench.py tests/bench/peers.py tests/bench/peers.cc \
	tests/bench/peers.json tests/bench/peers_agents.py tests/bench/peers_counters.py \
	tests/bench/peers_documents.py tests/bench/peers_growth.py tests/bench/peers_lttng.h \
	tests/bench/peers_packets.py tests/bench/peers_seed.py \
	tests/bench/peers_truth.py
bench-peers bench-packets: all $(PEERS_NEED)
	@PERCORE_BUILD=$(abs_builddir) /usr/bin/python3 -B \
	  $(srcdir)/tests/bench/peers.py $(PEERS)
# The table in percore(1).
bench-packets: PEERS = --section packets
.PHONY: bench-peers bench-packets
