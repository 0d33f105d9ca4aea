# `make bench` prints the figures of the README and the manual pages, as ratios
# of what runs side by side. Not part of `make check`: it wants a quiet machine.
BENCHES =
include tests/bench/region.mk
include tests/bench/plugin.mk
EXTRA_PROGRAMS += $(BENCHES)
CLEANFILES += $(BENCHES)
bench: $(BENCHES) $(PLUGIN_BENCH)
	@for bench in $(BENCHES); do echo "== $$bench"; ./$$bench || exit 1; done
.PHONY: bench bench-plugin
