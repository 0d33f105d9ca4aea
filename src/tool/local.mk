if TOOL
bin_PROGRAMS += percore
percore_SOURCES = src/tool/main.c
percore_LDADD = libcommand.la
man_MANS += src/tool/percore.1
CLEANFILES += src/tool/percore.1
# All but main(), so that tests can link it.
noinst_LTLIBRARIES += libcommand.la
libcommand_la_SOURCES = \
	src/tool/arguments.c src/tool/arguments.h \
	src/tool/check.c \
	src/tool/clock.c \
	src/tool/compare.c src/tool/compare.h \
	src/tool/comparison.c \
	src/tool/doctor.c src/tool/doctor.h \
	src/tool/dump.c src/tool/dump.h \
	src/tool/dump_json.c \
	src/tool/dump_text.c \
	src/tool/findings.c \
	src/tool/json.c src/tool/json.h \
	src/tool/live.c src/tool/live.h \
	src/tool/load.c \
	src/tool/load_json.c src/tool/load_print.h \
	src/tool/load_table.c \
	src/tool/messages.c src/tool/messages.h \
	src/tool/method_readers.c src/tool/methods_private.h \
	src/tool/methods.c \
	src/tool/proctext.c src/tool/proctext.h \
	src/tool/rates.c src/tool/rates.h \
	src/tool/regions.c \
	src/tool/reset.c \
	src/tool/say.c src/tool/tool.h \
	src/tool/screen.c src/tool/screen.h \
	src/tool/soak.c \
	src/tool/target.c src/tool/target.h \
	src/tool/text.c src/tool/text.h \
	src/tool/top.c src/tool/top.h \
	src/tool/top_json.c \
	src/tool/top_table.c \
	src/tool/values.c src/tool/values.h \
	src/tool/window.c src/tool/window.h \
	src/tool/workers.c src/tool/workers.h
libcommand_la_CPPFLAGS = $(AM_CPPFLAGS) -DPLUGINDIR='"$(plugindir)"'
libcommand_la_CFLAGS = $(AM_CFLAGS) $(YAJL_CFLAGS)
libcommand_la_LIBADD = libmap.la libregion.la libcycles.la $(YAJL_LIBS) -lm
endif
EXTRA_DIST += src/tool/percore.pod
src/tool/percore.1: src/tool/percore.pod
