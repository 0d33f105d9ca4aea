# Unit tests of src/region: a producer and a reader in one process.
if TESTS_ENABLED
REGION_TESTS = \
	tests/unit/test_region_layout \
	tests/unit/test_region_writer \
	tests/unit/test_region_directory \
	tests/unit/test_region_reader \
	tests/unit/test_region_file \
	tests/unit/test_region_grace \
	tests/unit/test_region_handles \
	tests/unit/test_region_owners \
	tests/unit/test_region_inherit \
	tests/unit/test_region_keys \
	tests/unit/test_region_memory \
	tests/unit/test_region_poll \
	tests/unit/test_region_author \
	tests/unit/test_region_faults \
	tests/unit/test_all_calls \
	tests/unit/test_key_index
check_PROGRAMS += $(REGION_TESTS)
TESTS += $(REGION_TESTS)
check_LTLIBRARIES += libregionunit.la
libregionunit_la_SOURCES = tests/unit/calls.h tests/unit/region_unit.c tests/unit/region_unit.h \
	tests/unit/no_timer.c
REGION_TEST_LDADD = libregionunit.la libregion.la $(UNIT_LIBS)
tests_unit_test_region_layout_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_writer_LDADD = libcyclesunit.la $(REGION_TEST_LDADD)
tests_unit_test_region_directory_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_reader_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_reader_LDFLAGS = -Wl,--wrap=region_load_cells
tests_unit_test_region_file_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_file_LDFLAGS = -Wl,--wrap=time,--wrap=renameat
tests_unit_test_region_handles_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_grace_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_grace_LDFLAGS = -Wl,--wrap=region_pause
tests_unit_test_region_owners_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_inherit_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_keys_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_memory_LDADD = libcyclesunit.la $(REGION_TEST_LDADD)
tests_unit_test_region_memory_LDFLAGS = -Wl,--wrap=madvise
tests_unit_test_region_author_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_faults_SOURCES = \
	tests/unit/test_region_faults.c tests/unit/faults.h
tests_unit_test_region_faults_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_faults_LDFLAGS = $(fault_ldflags) \
	-Wl,--wrap=fstatat,--wrap=getrandom,--wrap=munlock,--wrap=openat \
	-Wl,--wrap=opendir,--wrap=pread,--wrap=renameat \
	-Wl,--wrap=sched_getaffinity,--wrap=unlinkat
tests_unit_test_region_poll_LDADD = $(REGION_TEST_LDADD)
tests_unit_test_region_poll_LDFLAGS = -Wl,--wrap=clock_gettime
tests_unit_test_all_calls_LDADD = libregionunit.la libboard.la libregion.la \
	libcycles.la $(UNIT_LIBS) -lm
tests_unit_test_key_index_LDADD = $(REGION_TEST_LDADD)
endif
