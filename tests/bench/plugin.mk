# A plugin that discards values, or dispatches some as cheaply as possible.
if PLUGIN
EXTRA_LTLIBRARIES += bare.la
bare_la_SOURCES = tests/bench/bare.c
bare_la_CPPFLAGS = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS)
bare_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
CLEANFILES += bare.la
PLUGIN_BENCH = bench-plugin
bench-plugin: bare.la percore.la tests/integration/producer
	@echo "== plugin"
	@$(run_bench)/plugin.py
PEERS_NEED = bare.la tests/integration/burner tests/integration/producer \
	tests/integration/udp_flood
if BPF
PEERS_NEED += tests/integration/softirq_burner
endif
endif
