# PERCORE_SYSTEM
# --------------
# Fails if the machine, the compiler, the kernel headers or the C library lack something
# without which make would fail. README names the versions that have been tried.
AC_DEFUN([PERCORE_SYSTEM], [
  AC_CACHE_CHECK([for 64-bit Linux], [percore_cv_system],
    [AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#if !defined(__linux__) || __SIZEOF_POINTER__ != 8 || !defined(__SIZEOF_INT128__)
#error
#endif
]])], [percore_cv_system=yes], [percore_cv_system=no])])
  AS_IF([test "x$percore_cv_system" != xyes],
    [AC_MSG_ERROR([percore needs 64-bit Linux, because a counter is a word of 64 bits that
  one instruction reads or writes; $CC compiles for another machine])])

  AC_CACHE_CHECK([for headers of Linux 5.10 or newer], [percore_cv_headers],
    [AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
int flags = BPF_F_TEST_RUN_ON_CPU | BPF_F_MMAPABLE | BPF_MAP_LOOKUP_BATCH;
]])], [percore_cv_headers=yes], [percore_cv_headers=no])])
  AS_IF([test "x$percore_cv_headers" != xyes],
    [AC_MSG_ERROR([the kernel headers are missing or older than Linux 5.10:
  apt-get install linux-libc-dev (Alpine: apk add linux-headers)])])

  AC_CACHE_CHECK([for glibc 2.28, musl 1.2.3 or newer], [percore_cv_libc],
    [AC_LINK_IFELSE([AC_LANG_SOURCE([[
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
static int compare(const void *a, const void *b, void *order) {
  return a < b && order != 0;
}
int main(void) {
  cpu_set_t *set = CPU_ALLOC(4096);
  qsort_r(set, 1, 1, compare, set);
  return AT_STATX_DONT_SYNC + (int)getrandom(set, 1, GRND_NONBLOCK) + sched_getcpu();
}
]])], [percore_cv_libc=yes], [percore_cv_libc=no])])
  AS_IF([test "x$percore_cv_libc" != xyes],
    [AC_MSG_ERROR([the C library is too old: glibc 2.28, musl 1.2.3 or newer is needed])])
])

# PERCORE_BPF
# -----------
# Sets bpf_missing to the packages that are missing for source bpf, with a space before
# each, and CLANG and BPFTOOL. A tarball carries the compiled programs, so that building
# from it needs libbpf's headers alone.
AC_DEFUN([PERCORE_BPF], [
  AC_CHECK_PROG([CLANG], [clang], [clang])
  AC_CHECK_PROGS([BPFTOOL], [bpftool /usr/sbin/bpftool])
  bpf_missing=
  AC_CACHE_CHECK([for libbpf's headers, 1.0 or newer], [percore_cv_libbpf],
    [AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <bpf/skel_internal.h>
void *context(void) { return skel_alloc(1); }
]])], [percore_cv_libbpf=yes], [percore_cv_libbpf=no])])
  AS_IF([test "x$percore_cv_libbpf" != xyes], [bpf_missing=' libbpf-dev'])
  AS_IF([test ! -f "$srcdir/src/cycles/clocks.lskel.h"],
    [AC_CACHE_CHECK([whether clang and bpftool make light skeletons], [percore_cv_lskel],
      [echo 'char l@<:@@:>@ __attribute__((section("license"), used)) = "GPL";' >conftest.c
      dnl Ubuntu's bpftool is a script that may not find the tool of the running kernel.
      AS_IF([${CLANG:-clang} -O2 -g -target bpf -c conftest.c -o conftest.bpf.o \
          2>&AS_MESSAGE_LOG_FD &&
          ${BPFTOOL:-bpftool} gen skeleton -L conftest.bpf.o name l >&AS_MESSAGE_LOG_FD 2>&1],
        [percore_cv_lskel=yes], [percore_cv_lskel=no])
      rm -f conftest.c conftest.bpf.o])
    AS_IF([test "x$percore_cv_lskel" != xyes], [bpf_missing="$bpf_missing clang bpftool"])])
])
