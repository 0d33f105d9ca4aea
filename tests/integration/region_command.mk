# percore(1) and its regions, with producers and without any daemon.
if TOOL
check_PROGRAMS += tests/integration/region_producer
tests_integration_region_producer_SOURCES = tests/integration/region_producer.c
tests_integration_region_producer_LDADD = libregion.la
endif
