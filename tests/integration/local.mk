# The real collectd, with the plugin of this build. What measures time does not
# run beside other tests: each waits for the one before.
EXTRA_DIST += \
	tests/integration/harness.py \
	tests/integration/producers.py \
	tests/integration/sysroot.py

if PLUGIN
integration_tests = \
	tests/integration/test_daemon.py \
	tests/integration/test_size.py \
	tests/integration/test_grid.py \
	tests/integration/test_truth.py \
	tests/integration/test_region.py \
	tests/integration/test_region_kill.py
EXTRA_DIST += $(integration_tests)
TESTS += $(integration_tests)

tests/integration/test_size.log: tests/integration/test_daemon.log
tests/integration/test_grid.log: tests/integration/test_size.log
tests/integration/test_region.log: tests/integration/test_grid.log
tests/integration/test_region_kill.log: tests/integration/test_region.log
# What this one measures needs the machine for itself: it runs last and alone.
tests/integration/test_truth.log: \
	$(filter-out tests/integration/test_truth.log,$(TEST_LOGS))

check_PROGRAMS += tests/integration/burner
tests_integration_burner_SOURCES = tests/integration/burner.c

check_PROGRAMS += tests/integration/producer
tests_integration_producer_SOURCES = tests/integration/producer.c
tests_integration_producer_LDADD = libregion.la

# A plugin that is never installed; without -rpath there would be no shared one.
check_LTLIBRARIES += probe.la
probe_la_SOURCES = tests/integration/probe.c
probe_la_CPPFLAGS = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS)
probe_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
endif

# percore(1), without any daemon.
EXTRA_DIST += tests/integration/test_command.py
if TOOL
TESTS += tests/integration/test_command.py
endif

include tests/integration/region_command.mk
include tests/integration/region.mk
