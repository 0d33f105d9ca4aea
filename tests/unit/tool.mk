# Unit tests of src/tool.
if TOOL
if TESTS_ENABLED
tool_tests = \
	tests/unit/test_arguments \
	tests/unit/test_findings \
	tests/unit/test_json \
	tests/unit/test_latency_limit \
	tests/unit/test_load_table \
	tests/unit/test_text \
	tests/unit/test_wake_states \
	tests/unit/test_wake_text
check_PROGRAMS += $(tool_tests)
TESTS += $(tool_tests)
tool_tests_libs = libcommand.la $(UNIT_LIBS) $(YAJL_LIBS) -lm
tests_unit_test_arguments_LDADD = $(tool_tests_libs)
tests_unit_test_findings_CFLAGS = $(AM_CFLAGS) $(YAJL_CFLAGS)
tests_unit_test_findings_LDFLAGS = -Wl,--wrap=statfs
tests_unit_test_findings_LDADD = libcyclesunit.la $(tool_tests_libs)
tests_unit_test_json_CFLAGS = $(AM_CFLAGS) $(YAJL_CFLAGS)
tests_unit_test_json_LDADD = $(tool_tests_libs)
tests_unit_test_latency_limit_LDADD = $(tool_tests_libs)
tests_unit_test_load_table_CFLAGS = $(AM_CFLAGS) $(YAJL_CFLAGS)
tests_unit_test_load_table_LDADD = $(tool_tests_libs)
tests_unit_test_text_LDADD = $(tool_tests_libs)
tests_unit_test_wake_states_LDADD = $(tool_tests_libs)
tests_unit_test_wake_text_LDADD = $(tool_tests_libs)
endif
endif
