noinst_PROGRAMS += contrib/loads/hog
contrib_loads_hog_SOURCES = contrib/loads/hog.c
EXTRA_DIST += contrib/demo contrib/check contrib/setup.sh .ci/run
include contrib/producers/network.mk
EXTRA_DIST += contrib/demo-backends contrib/backends contrib/collectd \
	contrib/dashboards tests/backends
