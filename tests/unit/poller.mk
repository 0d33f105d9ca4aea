# Unit tests of src/poller.
if TESTS_ENABLED
poller_unit_tests = \
	tests/unit/test_poller_answer \
	tests/unit/test_poller_find \
	tests/unit/test_pollers
check_PROGRAMS += $(poller_unit_tests)
TESTS += $(poller_unit_tests)
poller_unit_ldadd = libpollers.la libregion.la libcycles.la $(UNIT_LIBS)
tests_unit_test_poller_answer_LDADD = $(poller_unit_ldadd)
tests_unit_test_poller_find_LDADD = libregionunit.la $(poller_unit_ldadd)
tests_unit_test_poller_find_LDFLAGS = -Wl,--wrap=fstatat,--wrap=getsockopt
tests_unit_test_pollers_LDADD = libregionunit.la $(poller_unit_ldadd)
tests_unit_test_pollers_LDFLAGS = -Wl,--wrap=clock_gettime \
	-Wl,--wrap=poller_connect,--wrap=pollers_find,--wrap=sampling_thread_sleep_to_grid
endif
