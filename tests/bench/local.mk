# `make bench` prints the figures of the README and the manual pages, as ratios of
# variants that run side by side. It is not part of `make check` because it needs a
# quiet machine. The last benchmarks, bench-plugin, take three minutes.
BENCHES =
include tests/bench/region.mk
include tests/bench/plugin.mk
EXTRA_PROGRAMS += $(BENCHES)
CLEANFILES += $(BENCHES)
bench: $(BENCHES)
	@for bench in $(BENCHES); do \
	  echo "== $$bench, takes some seconds; load average`uptime | sed 's/.*://; s/,.*//'`"; \
	  ./$$bench || exit 1; done
	@test -z "$(PLUGIN_BENCH)" || $(MAKE) $(AM_MAKEFLAGS) $(PLUGIN_BENCH)
.PHONY: bench bench-plugin
# Compares percore with what others use. PEERS has options of peers.py, such as
# PEERS='--section counters' or PEERS=--record.
EXTRA_DIST += tests/bench/bench.py tests/bench/peers.py tests/bench/peers.cc \
	tests/bench/peers.json tests/bench/peers_agents.py tests/bench/peers_counters.py \
	tests/bench/peers_documents.py tests/bench/peers_growth.py tests/bench/peers_lttng.h \
	tests/bench/peers_packets.py tests/bench/peers_seed.py tests/bench/peers_truth.py \
	tests/bench/plugin.py
run_bench = PERCORE_BUILD=$(abs_builddir) /usr/bin/python3 -B $(srcdir)/tests/bench
bench-peers bench-packets: all $(PEERS_NEED)
	@$(run_bench)/peers.py $(PEERS)
# The table in percore(1).
bench-packets: PEERS = --section packets
.PHONY: bench-peers bench-packets
