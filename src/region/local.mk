# libpercore: regions (this folder) and loads of cores (cycles/, board/) in one library.
# A program that includes percore.h links only with a library that has the same ABI.
# The sources of percore itself are built without this check.
AM_CPPFLAGS += -DPERCORE_BUILDING
include_HEADERS += src/percore.h src/percore_tune.h src/percore_load.h \
	src/percore_reader.h src/percore.hpp

noinst_LTLIBRARIES += libregion.la
libregion_la_SOURCES = \
	src/base/cancellation.h \
	src/base/clock.h \
	src/base/file.h \
	src/base/portable.h \
	src/base/key_index.c src/base/key_index.h \
	src/base/utf8.c src/base/utf8.h \
	src/percore.h src/percore_reader.h src/percore_tune.h \
	src/region/allowance.h \
	src/region/cells.c src/region/cells.h \
	src/region/clean.c \
	src/region/create.c \
	src/region/debug.c \
	src/region/directory.c src/region/directory.h \
	src/region/fault.c src/region/fault.h \
	src/region/file.c src/region/file.h \
	src/region/grace.c \
	src/region/growth.c src/region/growth.h \
	src/region/process.c src/region/process.h \
	src/region/handles.c \
	src/region/histogram.c \
	src/region/layout.c src/region/layout.h \
	src/region/memory.c src/region/memory.h \
	src/region/name.c src/region/name.h \
	src/region/open.c \
	src/region/owner.c \
	src/region/plan.c \
	src/region/poll.c \
	src/region/provide.c \
	src/region/reader.c src/region/reader.h \
	src/region/reader_rows.c \
	src/region/reset.c \
	src/region/row.c \
	src/region/schema.c \
	src/region/slot.c \
	src/region/status.c \
	src/region/sum.c \
	src/region/tile.c \
	src/region/view.c src/region/view.h \
	src/region/worker.c src/region/worker.h \
	src/region/writer.c src/region/writer.h

# nodelete: a thread and a fork handler of the library may run after a dlclose, which
# must not unload their code.
lib_LTLIBRARIES += libpercore.la
libpercore_la_SOURCES =
libpercore_la_LIBADD = libboard.la libregion.la libcycles.la -lm
libpercore_la_LDFLAGS = -shared -version-info 1:0:0 -no-undefined \
	-Wl,-z,nodelete,-z,now \
	-Wl,--version-script=$(top_srcdir)/src/libpercore.map
libpercore_la_DEPENDENCIES = libboard.la libregion.la libcycles.la src/libpercore.map
EXTRA_DIST += src/libpercore.map

# The archive is one object in which only percore_* is global, so that a program
# that links it can use all other names for its own functions.
staticlibdir = $(libdir)
staticlib_DATA = libpercore.a
CLEANFILES += libpercore.a libpercore-all.o
libpercore.a: libboard.la libregion.la libcycles.la
	$(AM_V_AR)$(LD) -r -o libpercore-all.o --whole-archive \
	  .libs/libboard.a .libs/libregion.a .libs/libcycles.a && \
	$(OBJCOPY) --wildcard --keep-global-symbol='percore_*' \
	  libpercore-all.o && \
	rm -f $@ && $(AR) crD $@ libpercore-all.o && $(RANLIB) $@

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = src/region/percore.pc

man_MANS += src/region/percore.3 src/region/percore-region.7 \
	src/region/percore-regions.7
CLEANFILES += src/region/percore.3 src/region/percore-region.7 \
	src/region/percore-regions.7
EXTRA_DIST += src/region/percore.pod src/region/percore-region.pod \
	src/region/percore-regions.pod
EXTRA_DIST += src/region/slot.pml src/region/birth.pml src/region/memory_order.pml
src/region/percore.3: src/region/percore.pod
src/region/percore-region.7: src/region/percore-region.pod
src/region/percore-regions.7: src/region/percore-regions.pod
