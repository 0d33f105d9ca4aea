# Everything around the plugin, the command and the library: files for systemd,
# documents, examples, packages, and the programs of contrib/demo.
EXTRA_DIST += \
	.ci/run \
	contrib/backends \
	contrib/check \
	contrib/collectd \
	contrib/dashboards/generate \
	contrib/dashboards/languages.py \
	contrib/dashboards/pictures \
	contrib/dashboards/shown.py \
	contrib/debian \
	contrib/demo \
	contrib/demo-backends \
	contrib/demo-xdp \
	contrib/lines \
	contrib/rpm \
	contrib/setup.sh \
	contrib/systemd \
	tests/backends

if SYSUSERS
sysusers_DATA = contrib/systemd/sysusers.d/percore.conf
endif
if TMPFILES
tmpfiles_DATA = contrib/systemd/tmpfiles.d/percore.conf
endif
if SYSTEMD
systemddropindir = $(systemdsystemunitdir)/collectd.service.d
systemddropin_DATA = contrib/collectd/collectd.service.d/percore.conf
systemdmountdir = $(systemdsystemunitdir)
systemdmount_DATA = contrib/systemd/run-percore.mount
# Such a link mounts it at each boot, and needs no command of an administrator.
install-data-hook: install-mount-wanted
install-mount-wanted:
	$(MKDIR_P) $(DESTDIR)$(systemdsystemunitdir)/local-fs.target.wants
	ln -sf ../run-percore.mount \
	  $(DESTDIR)$(systemdsystemunitdir)/local-fs.target.wants/run-percore.mount
uninstall-local: uninstall-mount-wanted
uninstall-mount-wanted:
	rm -f $(DESTDIR)$(systemdsystemunitdir)/local-fs.target.wants/run-percore.mount
endif

# The wildcard ensures that no example is forgotten.
dist_doc_DATA = README.md CONTRIBUTING.md SECURITY.md NEWS contrib/COMPARISON.md
examplesdir = $(docdir)/examples
examples_DATA = $(wildcard $(addprefix $(top_srcdir)/contrib/, \
	collectd/*.conf collectd/*.md collectd/*.yml collectd/*.service \
	producers/*.c producers/*.py producers/*.rs producers/xdp/*.c))
dist_examples_SCRIPTS = contrib/compare/percore-compare contrib/producers/xdp/load \
	contrib/wake/wult-result
AM_INSTALLCHECK_STD_OPTIONS_EXEMPT = $(dist_examples_SCRIPTS) $(dist_dashboards_SCRIPTS)

# The tarball includes the dashboards, so that percore can be built without Python.
dashboardsdir = $(docdir)/dashboards
dist_dashboards_DATA = contrib/dashboards/README.md contrib/dashboards/graphite_wsgi.py
dist_dashboards_SCRIPTS = contrib/dashboards/graphite_dashboard.py
if DASHBOARDS
dashboards_json = \
	contrib/dashboards/grafana-fleet-graphite.json \
	contrib/dashboards/grafana-fleet-influxdb.json \
	contrib/dashboards/grafana-fleet-prometheus.json \
	contrib/dashboards/grafana-graphite.json \
	contrib/dashboards/grafana-influxdb.json \
	contrib/dashboards/grafana-prometheus.json \
	contrib/dashboards/grafana-regions-graphite.json \
	contrib/dashboards/grafana-regions-influxdb.json \
	contrib/dashboards/grafana-regions-prometheus.json
dist_dashboards_DATA += contrib/dashboards/graphite-web.json $(dashboards_json)
MAINTAINERCLEANFILES += contrib/dashboards/graphite-web.json $(dashboards_json)
contrib/dashboards/graphite-web.json: contrib/dashboards/generate \
		contrib/dashboards/languages.py contrib/dashboards/shown.py
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(PYTHON3) $(srcdir)/contrib/dashboards/generate $(@D)
$(dashboards_json): contrib/dashboards/graphite-web.json
endif

noinst_PROGRAMS += contrib/loads/hog
contrib_loads_hog_SOURCES = contrib/loads/hog.c
noinst_PROGRAMS += contrib/producers/gateway contrib/producers/mover \
	contrib/producers/pthread
contrib_producers_gateway_SOURCES = contrib/producers/gateway.c
contrib_producers_gateway_LDADD = libpercore.la -lm
contrib_producers_mover_SOURCES = contrib/producers/mover.c
contrib_producers_mover_LDADD = libpercore.la
contrib_producers_pthread_SOURCES = contrib/producers/pthread.c
contrib_producers_pthread_LDADD = libpercore.la
include contrib/producers/network.mk
