# Each target's corpus is run by `make check`. To fuzz, from the build folder:
#   clang -g -O1 -fsanitize=fuzzer,address,undefined -std=gnu11 -D_GNU_SOURCE \
#     -DPERCORE_BUILDING -I. -I$srcdir/src $srcdir/src/region/*.c \
#     $srcdir/tests/fuzz/fuzz_region_directory.c -pthread -lm -o fuzz
#   ./fuzz -max_len=8192 corpus $srcdir/tests/fuzz/corpus_region_directory
EXTRA_DIST += tests/fuzz/corpus_region_directory
if TESTS_ENABLED
check_PROGRAMS += tests/fuzz/fuzz_region_directory
TESTS += tests/fuzz/fuzz_region_directory
tests_fuzz_fuzz_region_directory_SOURCES = \
	tests/fuzz/fuzz_region_directory.c tests/fuzz/run_corpus.c
tests_fuzz_fuzz_region_directory_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"$(top_srcdir)/tests/fuzz/corpus_region_directory"'
tests_fuzz_fuzz_region_directory_LDADD = libregion.la
endif
