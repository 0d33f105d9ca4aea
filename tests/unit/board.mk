# Unit tests of src/board; tests of its loads are in cycles.mk.
if TESTS_ENABLED
BOARD_TESTS = tests/unit/test_board tests/unit/test_choose \
	tests/unit/test_public_calls
check_PROGRAMS += $(BOARD_TESTS)
TESTS += $(BOARD_TESTS)
BOARD_TEST_LDADD = libboard.la libregion.la libcycles.la $(UNIT_LIBS) -lm
tests_unit_test_board_LDADD = $(BOARD_TEST_LDADD)
tests_unit_test_board_LDFLAGS = -Wl,--wrap=getrandom
tests_unit_test_choose_LDADD = $(BOARD_TEST_LDADD)
tests_unit_test_public_calls_LDADD = libregionunit.la $(BOARD_TEST_LDADD)
tests_unit_test_public_calls_LDFLAGS = -Wl,-z,now
endif
