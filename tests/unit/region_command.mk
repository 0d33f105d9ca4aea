# Unit tests of the region commands in src/tool.
if TOOL
if TESTS_ENABLED
region_command_tests = \
	tests/unit/test_merge \
	tests/unit/test_rates \
	tests/unit/test_top_table \
	tests/unit/test_values \
	tests/unit/test_workers
check_PROGRAMS += $(region_command_tests)
TESTS += $(region_command_tests)
region_command_libs = libcommand.la libregionunit.la $(UNIT_LIBS) \
	$(YAJL_LIBS) -lm
tests_unit_test_merge_LDADD = $(region_command_libs)
tests_unit_test_rates_LDADD = $(region_command_libs)
tests_unit_test_top_table_LDADD = $(region_command_libs)
tests_unit_test_values_LDADD = $(region_command_libs)
tests_unit_test_workers_LDADD = $(region_command_libs)
endif
endif
