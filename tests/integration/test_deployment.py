#!/usr/bin/python3
"""Tests producers in the environments that percore(3) describes: users and groups,
chroot, system call filters, affinities."""

import errno
import fcntl
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from producers import OFD_SETLK, WRITE_LOCK  # noqa: E402
from harness import (BUILD, Child, Skip, check, is_root,  # noqa: E402
                     run_tests)

PRODUCER = f"{BUILD}/tests/integration/deployed"
NOBODY = 65534
TEAM = 64123  # a group without members


class Place:
    """A runtime directory with a given mode and group."""

    def __init__(self, mode=0o755, group=-1):
        # pylint: disable=consider-using-with
        self.parent = tempfile.mkdtemp(prefix="percore-test-")
        os.chmod(self.parent, 0o755)
        self.path = f"{self.parent}/run"
        os.mkdir(self.path)
        if group >= 0:
            os.chown(self.path, 0, group)
        os.chmod(self.path, mode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.parent, ignore_errors=True)

    def start(self, *steps, cpus=None):
        def set_cpus():
            os.sched_setaffinity(0, cpus)

        # pylint: disable=subprocess-popen-preexec-fn
        return Child([PRODUCER, *map(str, steps)], stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                     env={**os.environ, "PERCORE_RUNTIME_DIR": self.path},
                     preexec_fn=set_cpus if cpus else None)

    def run(self, *steps):
        """Runs a producer. Returns its exit status, the lines of its output, and the
        text on stderr."""
        with self.start(*steps) as child:
            out, err = child.communicate(timeout=60)
            return child.returncode, out.split("\n"), err


# ---------------------------------------------------------------------------
# Users, groups, directories


def need_root():
    if not is_root():
        raise Skip("other users need root")


def test_dropped_before_fork():
    """a service that changes its groups and its user before it forks can serve in a
    directory with mode 3773, and its file belongs to the directory's group"""
    need_root()
    with Place(0o3773, TEAM) as place:
        code, out, err = place.run("drop", NOBODY, NOBODY, "fork", "create",
                                   "attach", -1, "count", "status")
        check((code, out[0], err) == (0, "1 0 1", ""), f"{code} {out} {err}")
    with Place(0o3773, TEAM) as place:
        check_file(place, "drop", NOBODY, NOBODY, "fork")


def check_file(place, *steps):
    with place.start(*steps, "create", "wait") as child:
        check(child.stdout.readline() == "ready\n", "the producer is not ready")
        [name] = os.listdir(place.path)
        status = os.stat(f"{place.path}/{name}")
        check((status.st_gid, stat.S_IMODE(status.st_mode)) == (TEAM, 0o640),
              str(status))
        child.communicate()


def test_acl():
    """a service without groups can serve in a directory with mode 2770 if the ACL of
    the directory names the user of the service"""
    need_root()
    with Place(0o2770, TEAM) as place:
        try:
            os.setxattr(place.path, "system.posix_acl_access", acl_for(NOBODY))
        except OSError as error:
            raise Skip(f"no ACLs in {place.path}: {error}") from error
        check_file(place, "drop", NOBODY, NOBODY, "fork")


def acl_for(uid):
    """Returns the ACL that setfacl -m u:UID:rwx creates from mode 0770."""
    owner, user, group, mask, other, nobody = 1, 2, 4, 16, 32, 0xffffffff
    entries = ((owner, 7, nobody), (user, 7, uid), (group, 7, nobody),
               (mask, 7, nobody), (other, 0, nobody))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry)
                                           for entry in entries)


def test_primary_group():
    """a service whose primary group is the group of the directory can serve in a
    directory with mode 2770"""
    need_root()
    with Place(0o2770, TEAM) as place:
        check_file(place, "drop", NOBODY, TEAM, "fork")


def test_dropped_without_a_way():
    """a service that cannot write to the directory goes on, and prints once why its counts
    are lost and which manual page helps"""
    need_root()
    with Place(0o2770, TEAM) as place:
        code, out, err = place.run("drop", NOBODY, NOBODY, "fork", "create",
                                   "attach", -1, "count", "status")
        check((code, out[0]) == (0, f"0 {errno.EACCES} 0"), f"{code} {out}")
        check(err.count("\n") == 1 and "Permission denied" in err
              and "DEPLOYMENT" in err, err)


# ---------------------------------------------------------------------------
# Sandboxes


def test_chroot():
    """after a producer changes its root to an empty directory with chroot(2), its
    threads can attach, count and add rows, and its file stays locked"""
    need_root()
    with Place() as place, tempfile.TemporaryDirectory() as root:
        with place.start("create", "chroot", root, "attach", -1, "count", "rows",
                         "wait") as child:
            check(child.stdout.readline() == "ready\n", "the producer is not ready")
            [name] = os.listdir(place.path)
            with open(f"{place.path}/{name}", "r+b") as file:
                try:
                    fcntl.fcntl(file, OFD_SETLK, WRITE_LOCK)
                    check(False, "nobody has locked the file")
                except BlockingIOError:
                    pass
            out, err = child.communicate(timeout=60)
            check((child.returncode, err) == (0, ""), f"{out} {err}")


def test_filter():
    """a thread that attaches and makes its handles before it installs a system call filter
    needs only clock_gettime to count, and to add, reset and remove rows that are reserved"""
    with Place() as place:
        code, out, err = place.run("create", "attach", -1, "rows", "count",
                                   "filter", "count", "rows")
        check((code, out[0], err) == (0, "filtered", ""), f"{code} {out} {err}")


def test_attach_after_filter():
    """a thread that attaches after it has installed a system call filter is killed, as
    documented"""
    with Place() as place:
        code, _, _ = place.run("create", "filter", "attach", 0)
        check(code < 0, f"it ended with {code}")


run_tests(globals(), "deployments", PRODUCER)
