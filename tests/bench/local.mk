# `make bench` prints the figures of the README and the manual pages, as ratios of
# variants that run side by side. It is not part of `make check` because it needs a
# quiet machine. The last benchmarks, bench-plugin, take seven minutes.
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
.PHONY: bench bench-plugin bench-packets
