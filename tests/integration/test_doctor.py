#!/usr/bin/python3
"""Tests percore doctor --check with the real collectd. Each test has its own PID and
mount namespace with its own /run/percore, /etc/collectd and group percore."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE  # noqa: E402
from harness import (BUILD, Skip, check, collectd_plugins,  # noqa: E402
                     find_collectd, is_root, need_collectd, run_tests)

SETUP = """
set -e
place=$1
mount --make-rprivate /
mount -t proc none /proc
sed '/^percore:/d' /etc/group >$place/group
echo 'percore:x:4242:' >>$place/group
mount --bind $place/group /etc/group
mount -t tmpfs none /run
install -d -m 3770 -g percore /run/percore
mkdir -p $place/etc/collectd.conf.d $place/plugins
mount --bind $place/etc /etc/collectd
cp $plugins/csv.so $percore_so $place/plugins
cat >/etc/collectd/collectd.conf <<END
BaseDir "$place"
PIDFile "$place/pid"
PluginDir "$place/plugins"
LoadPlugin csv
<Plugin csv>
  DataDir "$place/csv"
</Plugin>
<Include "/etc/collectd/collectd.conf.d">
  Filter "*.conf"
</Include>
END
echo 'LoadPlugin percore' >/etc/collectd/collectd.conf.d/percore.conf
set +e
run() {  # PREFIX...: starts collectd, and waits until it reports
  "$@" $collectd -f >$place/log 2>&1 &
  daemon=$!
  for i in $(seq 100); do
    [ -d $place/csv ] && return
    kill -0 $daemon 2>/dev/null || return
    sleep 0.1
  done
}
produce() {  # OPTION...
  sleep 100 | $producer "$@" >$place/produced 2>&1 &
  producing=$!
  while ! grep -q ready $place/produced; do sleep 0.1; done
}
check() {
  $percore doctor --check
  echo "status $?"
}
"""


def verdict(script):
    """Runs a shell script after SETUP. Returns what percore doctor --check printed, and
    its exit status."""
    if not is_root():
        raise Skip("a mount namespace needs root")
    need_collectd()
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
             SETUP + script, "sh", place],
            capture_output=True, text=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "percore": PERCORE, "collectd": find_collectd(),
                 "plugins": collectd_plugins(),
                 "percore_so": f"{BUILD}/.libs/percore.so",
                 "producer": f"{BUILD}/tests/integration/region_producer"})
    said = done.stdout + done.stderr
    status = re.search(r"^status (\d+)$", said, re.MULTILINE)
    check(status, said)
    return re.sub(r"\s+", " ", said), int(status[1])


def missing(script, finding, *advice):
    said, status = verdict(script)
    check(status == 1 and f" missing {finding} " in said, said)
    for part in advice:
        check(part in said, f"'{part}' is not in: {said}")
    check("> /" not in said, said)


def test_healthy():
    """a host whose collectd reports passes, and so does a host with a live region"""
    said, status = verdict("run; produce demo; check")
    check(status == 0, said)


def test_dead_process_and_dead_file():
    """a collectd that has ended and for which nobody has waited is not taken for one that
    runs, and the file of a producer that was killed is no fault of the host"""
    said, status = verdict(
        "run; produce demo; kill -9 $(pidof region_producer); sleep 0.2\n"
        "python3 -c 'import os, time\n"
        "if os.fork() == 0:\n"
        "    open(\"/proc/self/comm\", \"w\").write(\"collectd\")\n"
        "    os._exit(0)\n"
        "time.sleep(30)' & until ps -o stat,comm | grep '^Z.*collectd'; do sleep 0.1; "
        "done; check; ls /run/percore")
    check("demo." in said, said)
    check(status == 0, said)


def test_refused_configuration():
    """if collectd does not start because PluginDir does not contain percore, the first
    thing to do is collectd -T, which says so"""
    missing("sed -i 's|^PluginDir .*|PluginDir \"/opt/plugins\"|' "
            "/etc/collectd/collectd.conf; run; $collectd -T; check",
            "running", "'collectd -T'", "/opt/plugins")
    missing("rm $place/plugins/percore.so; run; $collectd -T -C "
            "/etc/collectd/collectd.conf; check", "running", "percore")


def test_no_runtime_directory():
    """a host without the runtime directory fails, and the advice creates it"""
    missing("rmdir /run/percore; run; check", "directory", "install -d -m 3770")


def test_wrong_group():
    """a runtime directory of the group root fails"""
    missing("chgrp root /run/percore; run; check", "directory", "chgrp percore")


def test_outside_the_group():
    """a collectd that runs as a user outside the group percore fails"""
    missing("chown nobody $place; run setpriv --reuid=65534 --regid=65534 "
            "--clear-groups; check", "regions", "SupplementaryGroups=percore")


def test_not_loaded():
    """a host whose configuration does not load percore fails, and the advice overwrites
    no file"""
    missing("mv /etc/collectd/collectd.conf.d/percore.conf "
            "/etc/collectd/collectd.conf.d/percore.off; run; check",
            "LoadPlugin", "add the line 'LoadPlugin percore'")


def test_not_running():
    """a host whose collectd does not run fails, and the packages and collectd -T are
    named"""
    missing("check", "running", "install collectd and collectd-plugin-percore",
            "'collectd -T'")


def test_first_thing_says_where():
    """the first thing to do is below the name of its group"""
    said, _ = verdict("check")
    check(said.startswith("collectd missing running "), said)


def test_without_capabilities():
    """a collectd without CAP_PERFMON reports, because idle needs none"""
    said, status = verdict("run setpriv --bounding-set=-perfmon,-sys_admin "
                           "--inh-caps=-perfmon,-sys_admin; check")
    check(status == 0, said)


def test_another_mount_namespace():
    """a collectd that sees another runtime directory fails"""
    missing("""run unshare --mount sh -c 'mount -t tmpfs none /run
               mkdir /run/percore; exec "$0" "$@"'; check""", "namespace",
            "does not see the regions in /run/percore")


if __name__ == "__main__":
    run_tests(globals(), "percore doctor --check", PERCORE)
