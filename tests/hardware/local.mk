# This test skips itself, with a message, on a machine without hardware counters.
check_PROGRAMS += tests/hardware/accuracy
tests_hardware_accuracy_SOURCES = \
	tests/hardware/accuracy.c \
	tests/testbed/burner.c tests/testbed/burner.h \
	tests/testbed/duty_cycles.c tests/testbed/duty_cycles.h \
	tests/testbed/report.c tests/testbed/report.h \
	tests/testbed/watch.c tests/testbed/watch.h
tests_hardware_accuracy_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_hardware_accuracy_LDADD = libboard.la libregion.la libcycles.la
TESTS += tests/hardware/accuracy
LONG_TESTS += tests/hardware/accuracy
