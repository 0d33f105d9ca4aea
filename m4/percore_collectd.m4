# PERCORE_COLLECTD
# ----------------
# Finds collectd's plugin headers and its plugin directory. collectd ships no
# pkg-config file, and headers that are present may still not compile (they
# drag in other headers of the daemon), so this macro compiles a test program instead of
# looking for files. Sets COLLECTD_CPPFLAGS and plugindir.
AC_DEFUN([PERCORE_COLLECTD], [
  AC_ARG_WITH([collectd],
    [AS_HELP_STRING([--with-collectd=DIR],
      [a configured collectd source tree (default: the installed headers)])],
    [], [with_collectd=])
  AS_IF([test -n "$with_collectd"],
    [COLLECTD_CPPFLAGS="-DHAVE_CONFIG_H -isystem $with_collectd/src -isystem $with_collectd/src/daemon"],
    [COLLECTD_CPPFLAGS="-DHAVE_CONFIG_H -isystem /usr/include/collectd/core -isystem /usr/include/collectd/core/daemon -isystem /usr/include/collectd"])
  AC_SUBST([COLLECTD_CPPFLAGS])

  percore_saved_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$COLLECTD_CPPFLAGS $CPPFLAGS"
  AC_CACHE_CHECK([for usable collectd plugin headers], [percore_cv_collectd],
    [AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#undef PACKAGE
#undef PACKAGE_BUGREPORT
#undef PACKAGE_NAME
#undef PACKAGE_STRING
#undef PACKAGE_TARNAME
#undef PACKAGE_URL
#undef PACKAGE_VERSION
#undef VERSION
#include "collectd.h"
#include "plugin.h"
#include "utils/common/common.h"
#include "utils_complain.h"
int main(void) {
  value_list_t vl = VALUE_LIST_INIT;
  return plugin_dispatch_values(&vl);
}
]])], [percore_cv_collectd=yes], [percore_cv_collectd=no])])
  CPPFLAGS=$percore_saved_CPPFLAGS
  AS_IF([test "x$percore_cv_collectd" != xyes],
    [AC_MSG_ERROR([collectd's plugin headers are missing or do not compile (see config.log):
  apt-get install collectd-dev, or --with-collectd=DIR for a configured source
  tree, or --disable-plugin to build only libpercore and percore(1)])])

  AC_ARG_WITH([plugindir],
    [AS_HELP_STRING([--with-plugindir=DIR],
      [collectd's plugin directory (default: what collectd -h says, if that is
       below PREFIX, otherwise LIBDIR/collectd)])],
    [plugindir=$withval],
    [# make install must not write outside the prefix by default.
     collectd_plugindir=`PATH="$PATH:/usr/sbin:/sbin" collectd -h 2>/dev/null | sed -n 's/^ *Plugin directory *//p'`
     percore_prefix=$prefix
     test "x$percore_prefix" != xNONE || percore_prefix=$ac_default_prefix
     AS_CASE([$collectd_plugindir],
       ["${percore_prefix%/}"/*], [plugindir=$collectd_plugindir],
       [plugindir='${libdir}/collectd'])])
  AC_SUBST([plugindir])
])
