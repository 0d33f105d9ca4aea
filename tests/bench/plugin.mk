# Compares the plugin in the real collectd with a plugin that only dispatches.
EXTRA_DIST += tests/bench/agent.py tests/bench/packets.py \
	tests/bench/peers_agents.py tests/bench/peers_truth.py \
	tests/bench/region_dispatch.py
if PLUGIN
EXTRA_LTLIBRARIES += bare.la
bare_la_SOURCES = tests/bench/bare.c
bare_la_CPPFLAGS = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS)
bare_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
CLEANFILES += bare.la
PLUGIN_BENCH = bench-plugin
bench-plugin: bare.la percore.la tests/integration/producer
	@echo "== region_dispatch"
	@PERCORE_BUILD=$(abs_builddir) /usr/bin/python3 -B \
	  $(srcdir)/tests/bench/region_dispatch.py
	@echo "== agent"
	@PERCORE_BUILD=$(abs_builddir) /usr/bin/python3 -B \
	  $(srcdir)/tests/bench/agent.py
# Prints the table in percore(1). It is not part of `make bench`, because it needs root.
bench-packets: percore$(EXEEXT) tests/integration/udp_flood
	@PERCORE_BUILD=$(abs_builddir) /usr/bin/python3 -B \
	  $(srcdir)/tests/bench/packets.py
PEERS_NEED = bare.la tests/integration/burner tests/integration/producer \
	tests/integration/udp_flood
if BPF
PEERS_NEED += tests/integration/softirq_burner
endif
endif
