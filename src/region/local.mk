noinst_LTLIBRARIES += libregion.la
libregion_la_SOURCES = \
	src/percore.h src/percore_update.h \
	src/region/create.c \
	src/region/grace.c \
	src/region/handles.c \
	src/region/layout.c src/region/layout.h \
	src/region/memory.c src/region/memory.h \
	src/region/provide.c \
	src/region/reset.c \
	src/region/row.c \
	src/region/row_index.c src/region/row_index.h \
	src/region/rules.c \
	src/region/serve.c \
	src/region/slot.c \
	src/region/sum.c \
	src/region/writer.h
