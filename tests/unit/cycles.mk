# Unit tests of src/cycles, in which a fake machine replaces Linux.
if TESTS_ENABLED
CYCLES_TESTS = \
	tests/unit/test_core_set \
	tests/unit/test_loadavg \
	tests/unit/test_procstat \
	tests/unit/test_perf_event \
	tests/unit/test_topology \
	tests/unit/test_schedule \
	tests/unit/test_source \
	tests/unit/test_cpuidle \
	tests/unit/test_idle_clock \
	tests/unit/test_idle_clock_program \
	tests/unit/test_softirq_time \
	tests/unit/test_programs \
	tests/unit/test_machine \
	tests/unit/test_proof \
	tests/unit/test_probe \
	tests/unit/test_engine_idle \
	tests/unit/test_engine_choice \
	tests/unit/test_engine_clock \
	tests/unit/test_engine_hardware \
	tests/unit/test_descriptors \
	tests/unit/test_engine_arm64 \
	tests/unit/test_engine_descriptors \
	tests/unit/test_engine_hotplug \
	tests/unit/test_engine_suspend \
	tests/unit/test_engine_condemnation \
	tests/unit/test_load_window \
	tests/unit/test_engine_property \
	tests/unit/test_engine_steal \
	tests/unit/test_engine_pmu \
	tests/unit/test_figures \
	tests/unit/test_figures_columns \
	tests/unit/test_aggregate \
	tests/unit/test_sampler \
	tests/unit/test_sampling_thread \
	tests/unit/test_load
check_PROGRAMS += $(CYCLES_TESTS)
TESTS += $(CYCLES_TESTS)
check_LTLIBRARIES += libcyclesunit.la
libcyclesunit_la_SOURCES = \
	tests/unit/fake_machine.c tests/unit/fake_machine.h \
	tests/unit/fake_clock.c \
	tests/unit/fake_presets.c \
	tests/unit/play.c tests/unit/play.h tests/unit/figures_play.h
CYCLES_TEST_LDADD = libcyclesunit.la libboard.la libregion.la libcycles.la $(UNIT_LIBS) -lm
tests_unit_test_core_set_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_loadavg_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_procstat_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_perf_event_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_topology_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_schedule_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_source_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_cpuidle_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_idle_clock_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_idle_clock_program_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_softirq_time_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_programs_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_programs_LDFLAGS = \
	-Wl,--wrap=statfs,--wrap=lstat,--wrap=mkdir,--wrap=mount,--wrap=umount2 \
	-Wl,--wrap=chmod,--wrap=unlink,--wrap=syscall,--wrap=fopen
tests_unit_test_machine_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_machine_LDFLAGS = -Wl,--wrap=pread,--wrap=fstatfs
tests_unit_test_probe_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_proof_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_idle_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_clock_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_choice_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_hardware_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_hotplug_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_descriptors_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_arm64_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_descriptors_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_suspend_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_condemnation_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_steal_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_property_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_load_window_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_engine_pmu_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_figures_columns_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_figures_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_aggregate_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_sampler_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_sampler_LDFLAGS = -Wl,--wrap=calloc
tests_unit_test_sampling_thread_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_load_LDADD = $(CYCLES_TEST_LDADD)
tests_unit_test_topology_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTEST_FIXTURES='"$(abs_top_srcdir)/tests/unit/fixtures"'
endif
EXTRA_DIST += tests/unit/fixtures
