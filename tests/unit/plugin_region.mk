# Unit tests of the regions in src/plugin. Producers run in the test's own process. A
# test calls its producers and the plugin alternately, so that no result depends on
# threads or on the clock.
if TESTS_ENABLED
if PLUGIN
plugin_region_tests = \
	tests/unit/test_plugin_region_buckets \
	tests/unit/test_plugin_region_config \
	tests/unit/test_plugin_region_log \
	tests/unit/test_plugin_region_name \
	tests/unit/test_plugin_region_new_rows \
	tests/unit/test_plugin_region_property \
	tests/unit/test_plugin_region_rows \
	tests/unit/test_plugin_region_schema \
	tests/unit/test_plugin_region_thread \
	tests/unit/test_plugin_region_watch
check_PROGRAMS += $(plugin_region_tests)
TESTS += $(plugin_region_tests)

tests_unit_test_plugin_region_buckets_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_buckets_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_config_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_config_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_log_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_log_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_name_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_name_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_new_rows_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_new_rows_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_property_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_property_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_rows_SOURCES = \
	tests/unit/test_plugin_region_rows.c tests/unit/faults.h
tests_unit_test_plugin_region_rows_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_rows_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_rows_LDFLAGS = $(fault_ldflags)
tests_unit_test_plugin_region_schema_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_schema_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_thread_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_thread_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_thread_LDFLAGS = \
	-Wl,--wrap=clock_gettime,--wrap=sampling_thread_sleep
tests_unit_test_plugin_region_watch_CPPFLAGS = $(plugin_unit_cppflags)
tests_unit_test_plugin_region_watch_LDADD = $(plugin_unit_ldadd)
tests_unit_test_plugin_region_watch_LDFLAGS = \
	-Wl,--wrap=readdir,--wrap=fstatat,--wrap=inotify_add_watch
endif
endif
