# libboard.la publishes loads as a region and reads them there; with the rule by
# which a core is chosen, it is the public loads of libpercore.
noinst_LTLIBRARIES += libboard.la
libboard_la_SOURCES = \
	src/board/best.c \
	src/board/board.c src/board/board.h \
	src/board/choose.c src/board/choose.h \
	src/board/load.c src/board/load.h \
	src/board/publish.c src/board/publish.h \
	src/board/read.c src/board/read.h \
	src/base/sized.h
libboard_la_LIBADD = -lm
