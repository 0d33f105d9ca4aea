# Unit tests of src/map.
if TESTS_ENABLED
MAP_TESTS = \
	tests/unit/test_map_faults \
	tests/unit/test_map_growth \
	tests/unit/test_map_names \
	tests/unit/test_map_open \
	tests/unit/test_map_read \
	tests/unit/test_map_feed
check_PROGRAMS += $(MAP_TESTS)
TESTS += $(MAP_TESTS)
MAP_TEST_LDADD = libmap.la libregion.la libcycles.la $(UNIT_LIBS) -lm
tests_unit_test_map_faults_SOURCES = \
	tests/unit/test_map_faults.c tests/unit/faults.h
tests_unit_test_map_faults_LDADD = libregionunit.la $(MAP_TEST_LDADD)
tests_unit_test_map_faults_LDFLAGS = $(fault_ldflags) \
	-Wl,--wrap=readlink,--wrap=syscall
tests_unit_test_map_growth_LDADD = $(MAP_TEST_LDADD)
tests_unit_test_map_names_LDADD = $(MAP_TEST_LDADD)
tests_unit_test_map_names_LDFLAGS = -Wl,--wrap=btf_open
tests_unit_test_map_open_LDADD = $(MAP_TEST_LDADD)
tests_unit_test_map_read_LDADD = $(MAP_TEST_LDADD)
tests_unit_test_map_feed_LDADD = libregionunit.la $(MAP_TEST_LDADD)
endif
