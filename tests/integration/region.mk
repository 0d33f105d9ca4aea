# Tests in which producers and readers are separate processes, and a test of the machine
# code of the update paths.
EXTRA_DIST += tests/integration/test_update_code.py \
	tests/integration/update_code.c \
	tests/integration/update_code.cc \
	tests/integration/test_useful.py \
	tests/integration/test_deployment.py
if TESTS_ENABLED
region_integration_tests = tests/integration/test_region_processes
check_PROGRAMS += $(region_integration_tests)
TESTS += $(region_integration_tests) tests/integration/test_update_code.py \
	tests/integration/test_useful.py \
	tests/integration/test_deployment.py
LONG_TESTS += tests/integration/test_useful.py
check_PROGRAMS += tests/integration/useful tests/integration/workers tests/integration/deployed
tests_integration_deployed_SOURCES = tests/integration/deployed.c
tests_integration_deployed_LDADD = libregion.la
tests_integration_workers_SOURCES = tests/integration/workers.c
tests_integration_workers_LDADD = libregion.la
tests_integration_useful_SOURCES = tests/integration/useful.c
tests_integration_useful_LDADD = libregion.la
tests/integration/test_useful.log: \
	$(filter tests/integration/test_region_processes.log,$(TEST_LOGS))
tests_integration_test_region_processes_LDADD = \
	libregionunit.la libregion.la $(UNIT_LIBS)
endif
