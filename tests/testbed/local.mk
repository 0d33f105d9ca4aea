# The program that runs in the guests, linked statically. `make` does not build it. The
# script for arm64 builds it in a build tree of its own.
EXTRA_PROGRAMS = tests/testbed/guest
tests_testbed_guest_SOURCES = \
	tests/testbed/board.c \
	tests/testbed/burner.c tests/testbed/burner.h \
	tests/testbed/chapters.h \
	tests/testbed/cores.c tests/testbed/cores.h \
	tests/testbed/duty.c \
	tests/testbed/duty_cycles.c tests/testbed/duty_cycles.h \
	tests/testbed/hotplug.c \
	tests/testbed/isolated.c \
	tests/testbed/library.c \
	tests/testbed/main.c \
	tests/testbed/overlay.c tests/testbed/overlay.h \
	tests/testbed/pmu.c tests/testbed/pmu.h \
	tests/testbed/refusal.c \
	tests/testbed/region.c \
	tests/testbed/report.c tests/testbed/report.h \
	tests/testbed/sharing.c \
	tests/testbed/suspend.c \
	tests/testbed/tick.c \
	tests/testbed/watch.c tests/testbed/watch.h
tests_testbed_guest_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
if BPF
tests_testbed_guest_SOURCES += tests/testbed/clock.c tests/testbed/wake.c \
	tests/testbed/soaker.c tests/testbed/soaker.h \
	tests/integration/softirq_timer.c tests/integration/softirq_timer.h
tests_testbed_guest_CPPFLAGS += -DPERCORE_BPF -I$(top_builddir) \
	-I$(top_srcdir)
guest_timer_object = tests/integration/testbed_guest-softirq_timer.$(OBJEXT)
$(guest_timer_object): tests/integration/softirq_timer.lskel.h
endif
tests_testbed_guest_LDFLAGS = -all-static
tests_testbed_guest_LDADD = libboard.la libregion.la libcycles.la libwake.la

testbed_guests = \
	tests/testbed/arm64 \
	tests/testbed/amd64 \
	tests/testbed/plugin
TESTS += $(testbed_guests)
LONG_TESTS += $(testbed_guests)
tests/testbed/amd64.log tests/testbed/plugin.log: tests/testbed/guest$(EXEEXT)
EXTRA_DIST += $(testbed_guests) \
	tests/testbed/hog.guest tests/testbed/plugin.guest \
	tests/testbed/idle.asl tests/testbed/idle.dts tests/testbed/init \
	tests/testbed/judge_hog.py tests/testbed/judge_plugin.py \
	tests/testbed/judge_wake.py tests/testbed/wake.guest \
	tests/testbed/packages \
	tests/testbed/plugin.conf \
	tests/testbed/testbed.sh

CLEANFILES += tests/testbed/guest$(EXEEXT)
clean-local: clean-testbed
clean-testbed:
	rm -rf testbed.d
.PHONY: clean-testbed
