# One list of unit tests for each folder of src/.
if TESTS_ENABLED
check_LTLIBRARIES += libunit.la
libunit_la_SOURCES = tests/unit/unit.c tests/unit/unit.h \
	tests/unit/temp_tree.c tests/unit/temp_tree.h
UNIT_LIBS = libunit.la $(CMOCKA_LIBS)
endif
EXTRA_DIST += tests/unit/threads.supp
# Functions that tests/unit/faults.h replaces.
fault_ldflags = \
	-Wl,--wrap=calloc,--wrap=chmod,--wrap=connect,--wrap=fallocate \
	-Wl,--wrap=fchmod,--wrap=fcntl,--wrap=fgets,--wrap=flock \
	-Wl,--wrap=fopen,--wrap=fstat,--wrap=ftruncate,--wrap=madvise \
	-Wl,--wrap=malloc,--wrap=mmap,--wrap=mprotect,--wrap=open \
	-Wl,--wrap=pthread_create,--wrap=realloc,--wrap=reallocarray \
	-Wl,--wrap=socket,--wrap=stat,--wrap=statfs,--wrap=strdup
include tests/unit/board.mk
include tests/unit/cycles.mk
include tests/unit/map.mk
include tests/unit/poller.mk
include tests/unit/wake.mk
include tests/unit/plugin.mk
include tests/unit/region.mk
include tests/unit/tool.mk
include tests/unit/plugin_region.mk
include tests/unit/region_command.mk
