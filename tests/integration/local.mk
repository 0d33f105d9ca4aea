# Tests with the real collectd and the plugin of this build. Tests that measure time, or
# start many processes, do not run at the same time.
EXTRA_DIST += \
	tests/integration/churn.py \
	tests/integration/command.py \
	tests/integration/harness.py \
	tests/integration/held_locks.py \
	tests/integration/hostile_producer.py \
	tests/integration/producers.py \
	tests/integration/softirq.py \
	tests/integration/sysroot.py \
	tests/integration/terminal.py

if PLUGIN
integration_tests = \
	tests/integration/test_daemon.py \
	tests/integration/test_size.py \
	tests/integration/test_store.py \
	tests/integration/test_grid.py \
	tests/integration/test_truth.py \
	tests/integration/test_softirq.py \
	tests/integration/test_region.py \
	tests/integration/test_region_kill.py \
	tests/integration/test_region_attack.py \
	tests/integration/test_region_hostile.py \
	tests/integration/test_region_churn.py \
	tests/integration/test_region_fairness.py \
	tests/integration/test_region_users.py \
	tests/integration/test_rights.py
EXTRA_DIST += $(integration_tests)
TESTS += $(integration_tests)
LONG_TESTS += $(filter-out %/test_rights.py %/test_size.py,$(integration_tests))

tests/integration/test_size.log: \
	$(filter tests/integration/test_daemon.log,$(TEST_LOGS))
tests/integration/test_region_kill.log: \
	$(filter tests/integration/test_region.log,$(TEST_LOGS))
tests/integration/test_region_fairness.log: \
	$(filter tests/integration/test_region_hostile.log \
	tests/integration/test_region_kill.log \
	tests/integration/test_region_churn.log,$(TEST_LOGS))

check_PROGRAMS += tests/integration/burner
tests_integration_burner_SOURCES = tests/integration/burner.c

check_PROGRAMS += tests/integration/producer
tests_integration_producer_SOURCES = tests/integration/producer.c
tests_integration_producer_LDADD = libregion.la

check_PROGRAMS += tests/integration/churn_producer
tests_integration_churn_producer_SOURCES = tests/integration/churn_producer.c
tests_integration_churn_producer_LDADD = libregion.la

# Loads in softirqs.
check_PROGRAMS += tests/integration/udp_flood
tests_integration_udp_flood_SOURCES = tests/integration/udp_flood.c
EXTRA_DIST += tests/integration/softirq_timer.bpf.c
if BPF
check_PROGRAMS += tests/integration/softirq_burner
tests_integration_softirq_burner_SOURCES = \
	tests/integration/softirq_burner.c \
	tests/integration/softirq_timer.c tests/integration/softirq_timer.h
tests_integration_softirq_burner_CPPFLAGS = $(AM_CPPFLAGS) \
	-I$(top_builddir) -I$(top_srcdir)
EXTRA_DIST += tests/integration/softirq_timer.lskel.h
MAINTAINERCLEANFILES += tests/integration/softirq_timer.lskel.h
CLEANFILES += tests/integration/softirq_timer.bpf.o
softirq_timer_object = tests/integration/softirq_burner-softirq_timer.$(OBJEXT)
$(softirq_timer_object): tests/integration/softirq_timer.lskel.h
endif

# Counts the instructions of what is run often.
TESTS += tests/integration/test_instructions.py
EXTRA_DIST += tests/integration/test_instructions.py tests/integration/instructions.json
if TESTS_ENABLED
check_PROGRAMS += tests/integration/instructions
tests_integration_instructions_SOURCES = tests/integration/instructions.c
tests_integration_instructions_CPPFLAGS = $(plugin_unit_cppflags) -I$(top_srcdir)/tests/unit
tests_integration_instructions_LDADD = $(plugin_unit_ldadd)
tests_integration_instructions_LDFLAGS = -Wl,--wrap=plugin_dispatch_values
endif

# With -rpath, libtool makes a shared library although this plugin is not installed.
check_LTLIBRARIES += probe.la
probe_la_SOURCES = tests/integration/probe.c
probe_la_CPPFLAGS = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS)
probe_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
endif

# Checks the models of what threads share (*.pml).
TESTS += tests/integration/test_models.py
LONG_TESTS += tests/integration/test_models.py
EXTRA_DIST += tests/integration/test_models.py

# Tests of BPF maps with a real XDP program. They need clang, bpftool and root.
EXTRA_DIST += tests/integration/test_map.py \
	tests/integration/test_map_bad.py contrib/producers/xdp/load \
	contrib/producers/xdp/gateway.bpf.c
if PLUGIN
TESTS += tests/integration/test_map.py tests/integration/test_map_bad.py
LONG_TESTS += tests/integration/test_map.py tests/integration/test_map_bad.py
endif

# A test of wake latency in the plugin. It needs root.
EXTRA_DIST += tests/integration/test_wake_plugin.py
if PLUGIN
TESTS += tests/integration/test_wake_plugin.py
LONG_TESTS += tests/integration/test_wake_plugin.py
endif

# Tests of the board. Some of them need root.
EXTRA_DIST += tests/integration/test_board.py
if PLUGIN
if TOOL
check_PROGRAMS += tests/integration/board_client
tests_integration_board_client_SOURCES = tests/integration/board_client.c
tests_integration_board_client_LDADD = libpercore.la
TESTS += tests/integration/test_board.py
LONG_TESTS += tests/integration/test_board.py
endif
endif

# Tests of programs that poll, without percore_poll.
EXTRA_DIST += tests/integration/fake_poller.py
poller_tests = tests/integration/test_pollers.py \
	tests/integration/test_open_vswitch.py tests/integration/test_dpdk_usage.py
EXTRA_DIST += $(poller_tests)
if PLUGIN
if TOOL
TESTS += $(poller_tests)
LONG_TESTS += $(poller_tests)
endif
endif

# A test of percore doctor with collectd. It needs root.
EXTRA_DIST += tests/integration/test_doctor.py
if PLUGIN
if TOOL
TESTS += tests/integration/test_doctor.py
endif
endif

# Tests of percore(1) without collectd.
EXTRA_DIST += tests/integration/test_command.py \
	tests/integration/test_compare.py tests/integration/test_idle_clock.py \
	tests/integration/test_wake.py
if TOOL
TESTS += tests/integration/test_command.py tests/integration/test_compare.py \
	tests/integration/test_idle_clock.py tests/integration/test_wake.py
LONG_TESTS += tests/integration/test_compare.py \
	tests/integration/test_idle_clock.py tests/integration/test_wake.py
endif

EXTRA_DIST += tests/integration/abi tests/integration/test_abi.py \
	tests/integration/test_documents.py tests/integration/test_otel.py
TESTS += tests/integration/test_abi.py tests/integration/test_documents.py
if PLUGIN
TESTS += tests/integration/test_otel.py
endif

# These tests need a core of their own, so they run last, one after another.
truth_log = tests/integration/test_truth.log
compare_log = tests/integration/test_compare.log
clock_log = tests/integration/test_idle_clock.log
softirq_log = tests/integration/test_softirq.log
wake_log = tests/integration/test_wake.log
wake_plugin_log = tests/integration/test_wake_plugin.log
core_logs = $(truth_log) $(compare_log) $(clock_log) $(softirq_log) $(wake_log) \
	$(wake_plugin_log)
$(wake_plugin_log): $(filter-out $(core_logs),$(TEST_LOGS))
$(wake_log): $(filter-out $(truth_log) $(compare_log) $(clock_log) $(softirq_log) \
	$(wake_log),$(TEST_LOGS))
$(softirq_log): $(filter-out \
	$(truth_log) $(compare_log) $(clock_log) $(softirq_log),$(TEST_LOGS))
$(clock_log): $(filter-out $(truth_log) $(compare_log) $(clock_log),$(TEST_LOGS))
$(compare_log): $(filter-out $(truth_log) $(compare_log),$(TEST_LOGS))
$(truth_log): $(filter-out $(truth_log),$(TEST_LOGS))

include tests/integration/region_command.mk
include tests/integration/region.mk
