# Unit tests of src/wake.
if TESTS_ENABLED
WAKE_TESTS = \
	tests/unit/test_wake_core \
	tests/unit/test_wake_steps \
	tests/unit/test_wake_summary \
	tests/unit/test_wake_survey
check_PROGRAMS += $(WAKE_TESTS)
TESTS += $(WAKE_TESTS)
WAKE_TEST_LDADD = libwake.la $(UNIT_LIBS) -lm
tests_unit_test_wake_core_LDADD = $(WAKE_TEST_LDADD)
tests_unit_test_wake_steps_LDADD = $(WAKE_TEST_LDADD)
tests_unit_test_wake_summary_LDADD = $(WAKE_TEST_LDADD)
tests_unit_test_wake_survey_LDADD = $(WAKE_TEST_LDADD)
endif
