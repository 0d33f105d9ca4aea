# Unit tests of src/plugin, linked with a fake collectd.
if TESTS_ENABLED
if PLUGIN
plugin_unit_tests = \
	tests/unit/test_plugin_config \
	tests/unit/test_plugin_dispatch \
	tests/unit/test_plugin_faults \
	tests/unit/test_plugin_life \
	tests/unit/test_plugin_map \
	tests/unit/test_plugin_notify \
	tests/unit/test_plugin_wake
check_PROGRAMS += $(plugin_unit_tests)
TESTS += $(plugin_unit_tests)

fake_collectd = \
	tests/unit/fake_collectd.c tests/unit/fake_collectd.h \
	tests/unit/plugin_unit.c tests/unit/plugin_unit.h
plugin_unit_cppflags = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS) $(CMOCKA_CFLAGS) \
	-DTEST_FIXTURES='"$(abs_top_srcdir)/tests/unit/fixtures"'
plugin_unit_ldadd = libplugin.la libwake.la libmap.la libboard.la libregion.la libcycles.la $(UNIT_LIBS) -lm

tests_unit_test_plugin_config_SOURCES = \
	tests/unit/test_plugin_config.c $(fake_collectd)
tests_unit_test_plugin_config_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_config_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_dispatch_SOURCES = \
	tests/unit/test_plugin_dispatch.c $(fake_collectd)
tests_unit_test_plugin_dispatch_CPPFLAGS = $(plugin_unit_cppflags) \
	-DTEST_SOURCE='"$(abs_top_srcdir)"'
tests_unit_test_plugin_dispatch_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_faults_SOURCES = \
	tests/unit/test_plugin_faults.c tests/unit/faults.h $(fake_collectd)
tests_unit_test_plugin_faults_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_faults_LDADD = libregionunit.la $(plugin_unit_ldadd)
tests_unit_test_plugin_faults_LDFLAGS = $(fault_ldflags)
tests_unit_test_plugin_life_SOURCES = \
	tests/unit/test_plugin_life.c $(fake_collectd)
tests_unit_test_plugin_life_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_life_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_map_SOURCES = \
	tests/unit/test_plugin_map.c $(fake_collectd)
tests_unit_test_plugin_map_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_map_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_notify_SOURCES = \
	tests/unit/test_plugin_notify.c $(fake_collectd)
tests_unit_test_plugin_notify_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_notify_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_wake_SOURCES = \
	tests/unit/test_plugin_wake.c $(fake_collectd)
tests_unit_test_plugin_wake_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_wake_LDADD = $(plugin_unit_ldadd)
endif
endif
