# Unit tests of src/plugin, linked with a fake collectd.
if TESTS_ENABLED
if PLUGIN
plugin_unit_tests = \
	tests/unit/test_plugin_config \
	tests/unit/test_plugin_dispatch \
	tests/unit/test_plugin_faults \
	tests/unit/test_plugin_life \
	tests/unit/test_plugin_map \
	tests/unit/test_plugin_wake
check_PROGRAMS += $(plugin_unit_tests)
TESTS += $(plugin_unit_tests)

plugin_unit_cppflags = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS) \
	-DTEST_FIXTURES='"$(abs_top_srcdir)/tests/unit/fixtures"'
check_LTLIBRARIES += libpluginunit.la
libpluginunit_la_SOURCES = \
	tests/unit/fake_collectd.c tests/unit/fake_collectd.h \
	tests/unit/plugin_unit.c tests/unit/plugin_unit.h \
	tests/unit/region_host.c tests/unit/region_host.h
libpluginunit_la_CPPFLAGS = $(plugin_unit_cppflags)
# A library precedes those whose functions it calls; libplugin calls the fake collectd.
plugin_unit_ldadd = libpluginunit.la libregionunit.la libplugin.la \
	libpluginunit.la libpollers.la libwake.la libmap.la libboard.la libregion.la libcycles.la $(UNIT_LIBS) -lm

tests_unit_test_plugin_config_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_config_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_dispatch_CPPFLAGS = $(plugin_unit_cppflags) \
	-DTEST_SOURCE='"$(abs_top_srcdir)"'
tests_unit_test_plugin_dispatch_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_faults_SOURCES = \
	tests/unit/test_plugin_faults.c tests/unit/faults.h
tests_unit_test_plugin_faults_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_faults_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_faults_LDFLAGS = $(fault_ldflags)
tests_unit_test_plugin_life_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_life_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_map_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_map_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_wake_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_wake_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_wake_LDFLAGS = -Wl,--wrap=clock_gettime
endif
endif
