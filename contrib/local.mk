noinst_PROGRAMS += contrib/loads/hog
contrib_loads_hog_SOURCES = contrib/loads/hog.c
EXTRA_DIST += contrib/demo contrib/check contrib/setup.sh .ci/run
noinst_PROGRAMS += contrib/producers/gateway contrib/producers/pthread
contrib_producers_gateway_SOURCES = contrib/producers/gateway.c
contrib_producers_gateway_LDADD = libpercore.la -lm
contrib_producers_pthread_SOURCES = contrib/producers/pthread.c
contrib_producers_pthread_LDADD = libpercore.la
include contrib/producers/network.mk
EXTRA_DIST += contrib/demo-backends contrib/backends contrib/collectd \
	contrib/dashboards tests/backends
