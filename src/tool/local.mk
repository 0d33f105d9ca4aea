if TOOL
bin_PROGRAMS += percore
percore_SOURCES = src/tool/main.c
percore_LDADD = libcommand.la
man_MANS += src/tool/percore.1
CLEANFILES += src/tool/percore.1
# libcommand.la contains everything except main(), so that unit tests can link it.
noinst_LTLIBRARIES += libcommand.la
libcommand_la_SOURCES = \
	src/tool/arguments.c src/tool/arguments.h \
	src/tool/clock.c \
	src/tool/doctor.c src/tool/doctor.h \
	src/tool/doctor_collectd.c \
	src/tool/json.c src/tool/json.h \
	src/tool/latency_limit.c src/tool/latency_limit.h \
	src/tool/live.c src/tool/live.h \
	src/tool/load.c src/tool/load.h \
	src/tool/load_json.c \
	src/tool/load_table.c \
	src/tool/map.c src/tool/map.h \
	src/tool/merge.c src/tool/merge.h \
	src/tool/rates.c src/tool/rates.h \
	src/tool/pick.c \
	src/tool/regions.c src/tool/regions.h \
	src/tool/say.c src/tool/tool.h \
	src/tool/target.c src/tool/target.h \
	src/tool/text.c src/tool/text.h \
	src/tool/top.c src/tool/top.h \
	src/tool/top_json.c \
	src/tool/top_table.c \
	src/tool/values.c src/tool/values.h \
	src/tool/wake.c src/tool/wake.h \
	src/tool/wake_json.c \
	src/tool/wake_states.c \
	src/tool/wake_text.c
libcommand_la_CFLAGS = $(AM_CFLAGS) $(YAJL_CFLAGS)
libcommand_la_LIBADD = libpollers.la libmap.la libwake.la libboard.la libregion.la libcycles.la $(YAJL_LIBS) -lm
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = src/tool/completion/percore
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = src/tool/completion/_percore
# The JSON schema of the output of --json. percore(1) refers to this file.
schemadir = $(datadir)/percore
dist_schema_DATA = src/tool/percore.schema.json
endif
EXTRA_DIST += src/tool/percore.pod
src/tool/percore.1: src/tool/percore.pod
