# Tests of percore(1) with producers, without collectd.
EXTRA_DIST += \
	tests/integration/test_json_schema.py \
	tests/integration/region_format.py \
	tests/integration/region_harness.py \
	tests/integration/test_region_check.py \
	tests/integration/test_region_command.py \
	tests/integration/test_region_top.py
if TOOL
check_PROGRAMS += tests/integration/region_producer
tests_integration_region_producer_SOURCES = tests/integration/region_producer.c
tests_integration_region_producer_LDADD = libregion.la

TESTS += \
	tests/integration/test_json_schema.py \
	tests/integration/test_region_check.py \
	tests/integration/test_region_command.py \
	tests/integration/test_region_top.py
tests/integration/test_region_top.log: \
	$(filter tests/integration/test_region_command.log,$(TEST_LOGS))
endif
