# The collectd plugin is a library so that the unit tests can link it with a fake
# collectd. percore.so contains this library and those that it uses.
EXTRA_DIST += src/plugin/collectd-percore.pod

if PLUGIN
noinst_LTLIBRARIES += libplugin.la
libplugin_la_SOURCES = \
	src/base/array.h src/base/clock.h src/base/names.h \
	src/plugin/config.c src/plugin/config.h \
	src/plugin/config_option.c src/plugin/config_option.h \
	src/plugin/dispatch.c src/plugin/dispatch.h \
	src/plugin/put.c src/plugin/put.h \
	src/plugin/map_config.c src/plugin/map_config.h \
	src/plugin/map_sampler.c src/plugin/map_sampler.h \
	src/plugin/plugin.c \
	src/plugin/region_config.c src/plugin/region_config.h \
	src/plugin/region_health.c \
	src/plugin/region_list.c \
	src/plugin/region_log.c src/plugin/region_log.h \
	src/plugin/region_put.c \
	src/plugin/region_input.c \
	src/plugin/region_sum.c \
	src/plugin/region_thread.c src/plugin/region_thread.h \
	src/plugin/region_top.c \
	src/plugin/region_watch.c src/plugin/region_watch.h \
	src/plugin/region_workers.c src/plugin/region_workers.h \
	src/plugin/regions.h \
	src/plugin/wake_sampler.c src/plugin/wake_sampler.h
libplugin_la_CPPFLAGS = $(AM_CPPFLAGS) $(COLLECTD_CPPFLAGS)

plugin_LTLIBRARIES = percore.la
percore_la_SOURCES =
percore_la_LIBADD = libplugin.la libpollers.la libwake.la libmap.la libboard.la libregion.la libcycles.la
percore_la_LDFLAGS = -module -avoid-version -shared \
	-export-symbols-regex '^module_register$$'

man_MANS += src/plugin/collectd-percore.5
CLEANFILES += src/plugin/collectd-percore.5

# Remove the .la file after installation, because collectd does not need it. Without
# this file, libtool does not uninstall percore.so, so that is done here.
install-data-hook: remove-plugin-la
remove-plugin-la:
	rm -f $(DESTDIR)$(plugindir)/percore.la
uninstall-local: remove-plugin
remove-plugin:
	rm -f $(DESTDIR)$(plugindir)/percore.so
endif
