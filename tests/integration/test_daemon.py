"""Tests how the plugin starts, stops and is configured in the real collectd."""

import glob
import os
import re
import shutil
import signal
import time

from harness import (Collectd, Lateness, Skip, check, is_root, is_running,
                     least_of_tries, online_cores, run_all, say)
from sysroot import SysRoot


def test_mode_passes():
    """collectd -T succeeds with the plugin and no options"""
    with Collectd() as collectd:
        status = collectd.run("-T")
        check(status == 0, f"exit status {status}: {collectd.log()}")


def test_mode_fails_without_a_source():
    """collectd -T fails if no source of load works"""
    with SysRoot(4) as root:
        root.write_machine()
        os.remove(f"{root.path}/proc/stat")
        with Collectd(f'SysRoot "{root.path}"') as collectd:
            status = collectd.run("-T")
            check(status != 0, f"exit status 0: {collectd.log()}")
            check("no source of load" in collectd.log(), collectd.log())
    with SysRoot(1) as empty, Collectd(f'SysRoot "{empty.path}"') as collectd:
        status = collectd.run("-T")
        check(status != 0, f"empty: exit status 0: {collectd.log()}")


def test_degraded_until_a_source_turns_up():
    """Without a source, the plugin stays registered, logs one message, and reports
    values as soon as a source works"""
    with SysRoot(2) as root, \
            Collectd(f'SysRoot "{root.path}"').start() as collectd:
        collectd.wait_for(lambda: "no source of load" in collectd.log(), 10,
                          "a message about the missing source")
        time.sleep(3)
        check(not collectd.of("percore-0/percent-load"),
              "there is a load without a source")
        root.write_machine()
        root.start_clock()
        collectd.wait_for_value("percore-0/percent-load", 30)
        said = collectd.log().count("no source of load")
        check(said == 1, f"logged {said} times: {collectd.log()}")
        failed = collectd.log().count("read-function of plugin `percore' failed")
        check(failed <= 1, f"{failed} reads failed: {collectd.log()}")


def test_real_values():
    """A load and load averages are reported for every core, all identifiers
    are distinct, every time is a multiple of the interval, and no value is NaN or out
    of range"""
    with Collectd().start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online", count=7)
        collectd.stop()
        values = collectd.values
        for core in online_cores():
            for name in ("percent-load", "percent-room", "load"):
                check(collectd.of(f"percore-{core}/{name}"),
                      f"core {core} has no {name}")
        for name in ("percent-load_mean", "percent-load_min",
                     "percent-load_max", "percent-load_stddev", "percent-room_mean",
                     "percent-room_min", "percent-user_mean", "percent-softirq_mean",
                     "load", "load-runqueue"):
            check(collectd.of(f"percore_host-all/{name}"), f"no {name}")
        collectd.check_grid(1)
        for value in values:
            check(value.interval == 1, f"interval {value.interval}")
            check(all(number == number and abs(number) < 1e12
                      for number in value.values), str(vars(value)))
            if "/percent-" in value.identifier:
                check(0 <= value.value <= 100, str(vars(value)))
        check(not collectd.of("percore-0/percent-load_peak"),
              "a peak although only the mean is sampled")


def test_options_reach_the_values():
    """Options add metrics, the options of several blocks are combined, and the option
    Group adds metrics of a group"""
    core = online_cores()[0]
    options = (f'Cores "{core}"\n</Plugin>\n<Plugin percore>\n'
               f'Group "few" "{core}"\nGroup "far" "8000"\n'
               "<Load>\nReportHidden true\nReportCStates true\n"
               "SampleInterval 0.2\n</Load>")
    with Collectd(options).start() as collectd:
        at = f"percore-{core}"
        for name in ("percent-load_trough", "percent-load_peak", "gauge-hidden",
                     "percent-steal"):
            collectd.wait_for_value(f"{at}/{name}")
        collectd.wait_for_value("percore_host-few/percent-load_mean")
        if glob.glob("/sys/devices/system/cpu/cpu0/cpuidle/state0"):
            collectd.wait_for(lambda: any("cstate_" in value.identifier
                                          for value in list(collectd.values)),
                              10, "a C-state")
        collectd.stop()
        busy = {value.time: value.value
                for value in collectd.of(f"{at}/percent-load")}
        for name, sign in (("load_peak", 1), ("load_trough", -1)):
            for value in collectd.of(f"{at}/percent-{name}"):
                check(sign * (value.value - busy[value.time]) >= -1e-6,
                      f"{name} {value.value}, mean {busy[value.time]}")
        others = [value.identifier for value in collectd.values
                  if value.identifier.startswith("percore-")
                  and not value.identifier.startswith(f"{at}/")]
        check(not others, f"not configured: {others[:5]}")
        check(not collectd.of("percore_host-far/percent-load_mean"),
              "a group without cores has a mean")


def test_bad_options_stop_collectd():
    """A bad value of an option stops collectd with a message that names the option, the
    value and what is allowed"""
    for options, option, value, allowed in (
            ('Cores "5-2"', "Cores", '"5-2"', "0 to 8191"),
            ('Cores "8192"', "Cores", '"8192"', "0 to 8191"),
            ("Cores 0-15", "Cores", "0 -15", "one list"),
            ('Group "all" "0"', "Group", '"all"', "a name"),
            ('SysRoot "proc"', "SysRoot", '"proc"', "absolute"),
            ("MaxValues 0", "MaxValues", "0", "1 to 10000000"),
            ("<Load>\nReportHost 3\n</Load>", "ReportHost", "3", "true or false"),
            ('<Load>\nSource "cpuacct"\n</Load>', "Source", '"cpuacct"',
             '"idle"'),
            ("<Load>\nSampleInterval 0\n</Load>", "SampleInterval", "0",
             "0.05 to 60")):
        with Collectd(options) as collectd:
            status = collectd.run("-f", timeout=20)
            check(status != 0, f"{options}: exit status 0")
            said = [line for line in collectd.log().splitlines()
                    if f"percore: {option} " in line]
            check(len(said) == 1 and value in said[0] and allowed in said[0],
                  f"{options}: {collectd.log()}")


def test_unknown_options_are_warned_of():
    """An unknown option causes only a warning"""
    with Collectd("Colour 5\n<Load>\nSauce 1\n</Load>").start() as collectd:
        collectd.wait_for_value("percore_host-self/gauge-cores_online")
        for option in ("Colour", "Sauce"):
            check(f'unknown option "{option}"' in collectd.log(), collectd.log())


def time_of_end(wait_s):
    """Stops collectd wait_s seconds after its start. Returns how many seconds percore
    took to end."""
    with Collectd(plugins=("before", "after")).start() as collectd:
        collectd.wait_for(lambda: "Initialization complete"
                          in collectd.log(), 10, "the start")
        time.sleep(wait_s)
        taken = collectd.stop()
        own = collectd.own_shutdown()
    say(f"after {wait_s} s: collectd ended in {taken * 1e3:.0f} ms, "
        f"percore in {own * 1e3:.1f} ms")
    check(taken < 1, f"{taken:.2f} s to end")
    return own


def test_stops_in_time():
    """SIGTERM ends collectd within a second, and percore within 100 ms, both while
    percore tests its sources and afterwards"""
    for wait_s in (0.0, 0.1, 0.3, 2.5):
        own = least_of_tries(0.1, lambda wait_s=wait_s: time_of_end(wait_s))
        check(own < 0.1, f"{own * 1e3:.1f} ms for percore alone")


def read_number(path):
    """Returns the number in a file, or None if the file is not complete yet."""
    try:
        with open(path, encoding="ascii") as file:
            line = file.readline()
            return int(line) if line.endswith("\n") else None
    except FileNotFoundError:
        return None


def find_process(argument):
    """Returns the pid of a process that was started with this argument, or None."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, encoding="utf8", errors="replace") as file:
                if argument in file.read().split("\0"):
                    return int(path.split("/")[2])
        except OSError:  # the process has ended
            pass
    return None


def end_daemon(collectd, pid):
    """Ends the daemon. Returns how many seconds that took, minus the machine's
    delays."""
    try:
        with Lateness() as lateness:
            begin = time.monotonic()
            os.kill(pid, signal.SIGTERM)
            collectd.wait_for(lambda: not is_running(pid), 10,
                              "the end of the daemon")
            end = time.monotonic()
            return end - begin - lateness.within(begin, end)
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def test_daemonised():
    """A collectd that runs as a daemon in the background writes percore's values, and
    SIGTERM ends it"""
    with Collectd(to_files=True) as collectd:
        pid_file = f"{collectd.directory}/pid"
        try:
            check(collectd.run() == 0, collectd.log())
            # The pid file exists for a moment before it contains the pid.
            collectd.wait_for(lambda: read_number(pid_file), 20,
                              "the PID file")
            busy = f"{collectd.directory}/csv/host/percore-*/percent-load-*"
            collectd.wait_for(lambda: glob.glob(busy), 15, "a file of values")
        finally:
            pid = read_number(pid_file) or find_process(collectd.config_file)
            if pid is not None:
                taken = end_daemon(collectd, pid)
        say(f"the daemon ended in {taken * 1e3:.0f} ms")
        check(taken < 1, f"took {taken:.2f} s to end")
        check(not os.path.exists(pid_file), "the PID file was not removed")


def test_without_root():
    """Under user nobody, without any privilege, a load is reported for every core"""
    if not is_root():
        raise Skip("this process is not root, so all other tests run without privileges")
    if shutil.which("setpriv") is None:
        raise Skip("setpriv is missing: apt-get install util-linux")
    with Collectd() as collectd:
        for path, _, names in os.walk(collectd.directory):
            for name in [path] + [f"{path}/{name}" for name in names]:
                os.chown(name, 65534, 65534)
        collectd.start(before=("setpriv", "--reuid=65534", "--regid=65534",
                               "--clear-groups", "--inh-caps=-all",
                               "--bounding-set=-all"))
        for core in online_cores():
            value = collectd.wait_for_value(f"percore-{core}/percent-load", 20)
            check(0 <= value.value <= 100, str(vars(value)))


def test_sample_configuration():
    """The sample configuration works as it is, and with every option uncommented"""
    sample = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "../../contrib/collectd/percore.conf")
    with open(sample, encoding="ascii") as file:
        text = re.search(r"<Plugin percore>\n(.*)</Plugin>", file.read(),
                         re.S).group(1)
    with SysRoot(2) as root:
        root.write_machine()
        everything = re.sub(r"(?m)^( *)#(?=[A-Z<]|  )", r"\1", text)
        check(not re.search(r"(?m)^ *#[^ ]", everything), everything)
        for options in (text, everything + f'SysRoot "{root.path}"\n'):
            with Collectd(options) as collectd:
                status = collectd.run("-T")
                wrong = [line for line in collectd.log().splitlines()
                         if "unknown option" in line or "must be" in line]
                check(not wrong, "\n".join(wrong))
                check(options != text or status == 0, collectd.log())


def test_notified_once():
    """One notification is sent when cores lose their source, and one when the source
    returns, however many cores are affected, and no load is reported without a
    source"""
    with SysRoot(8) as root:
        root.write_machine()
        root.start_clock()
        with Collectd(f'SysRoot "{root.path}"').start() as collectd:
            collectd.wait_for_value("percore-7/percent-load")
            # As in a container, the rows of /proc/stat do not match the cores in sysfs.
            root.write_stat({core: 0 for core in range(3)})
            collectd.wait_for(lambda: "Notification" in collectd.log(), 10,
                              "the first notification")
            collectd.wait_for_reads(1)
            loads = len(collectd.of("percore-7/percent-load"))
            collectd.wait_for_reads(2)
            check(len(collectd.of("percore-7/percent-load")) == loads,
                  "there are loads without a source")
            root.write_stat({core: 0 for core in range(8)})
            collectd.wait_for(lambda: collectd.log().count("Notification") > 1,
                              10, "the second notification")
            collectd.wait_for(lambda: len(collectd.of("percore-7/percent-load"))
                              > loads, 10, "a load after the source is back")
            said = [line for line in collectd.log().splitlines()
                    if "Notification" in line]
            check(len(said) == 2, "\n".join(said))
            check("FAILURE" in said[0] and "cores 0-7: source idle gives way to none"
                  in said[0], said[0])
            check("OKAY" in said[1] and "cores 0-7: source none gives way to idle"
                  in said[1], said[1])


def test_core_goes_and_comes():
    """When a core goes offline, its values stop and those of other cores continue; when
    it goes online again, its values return"""
    with SysRoot(4) as root:
        root.write_machine()
        root.start_clock()
        with Collectd(f'SysRoot "{root.path}"').start() as collectd:
            collectd.wait_for_value("percore-3/percent-load")
            root.write_online(3)
            online = "percore_host-self/gauge-cores_online"
            collectd.wait_for(lambda: [value.value for value in
                                       collectd.of(online)][-1:] == [3], 10,
                              "3 cores online")
            collectd.wait_for_reads(1)
            before = len(collectd.of("percore-3/percent-load"))
            others = len(collectd.of("percore-2/percent-load"))
            collectd.wait_for_reads(3)
            check(len(collectd.of("percore-3/percent-load")) == before,
                  "a core that is offline has a load")
            check(len(collectd.of("percore-2/percent-load")) >= others + 2,
                  "the other cores' loads stopped")
            root.write_online(4)
            collectd.wait_for(lambda: len(collectd.of("percore-3/percent-load"))
                              > before, 10, "the load of the core that came back")
            check("Notification" not in collectd.log(), collectd.log())


def valgrind(collectd, *options, seconds=None):
    """Runs collectd under valgrind until it ends or, if `seconds` is given, until
    percore has reported `seconds` values of a metric. Returns the exit status and the
    reports of valgrind that involve percore; other reports are left out, because
    collectd itself leaks memory."""
    report = f"{collectd.directory}/valgrind"
    before = ("valgrind", f"--log-file={report}", "--quiet",
              "--leak-check=full", "--keep-debuginfo=yes",
              "--child-silent-after-fork=yes",  # they end with _exit and free nothing
              "--show-leak-kinds=definite,indirect,possible")
    if seconds is None:
        status = collectd.run(*options, before=before, timeout=120)
    else:
        collectd.start(before=before)
        collectd.wait_for_value("percore_host-self/gauge-cores_online", 60,
                                count=seconds)
        process = collectd.process
        collectd.stop(120)
        status = process.returncode
    with open(report, encoding="utf8", errors="replace") as file:
        blocks = re.split(r"\n==\d+== \n", file.read())
    return status, [block for block in blocks
                    if "percore" in block or "src/cycles" in block]


def test_valgrind_is_clean():
    """valgrind finds no errors and no leaks of the plugin, in collectd -T and after
    several intervals in service"""
    if shutil.which("valgrind") is None:
        raise Skip("valgrind is missing: apt-get install valgrind")
    options = ('Group "a" "0"\n<Load>\nReportCStates true\n'
               "ReportHidden true\nSampleInterval 0.2\n</Load>")
    with Collectd(options) as collectd:
        status, ours = valgrind(collectd, "-T")
        check(status == 0, f"exit status {status}: {collectd.log()}")
        check(not ours, "\n".join(ours))
    with Collectd(options) as collectd:
        status, ours = valgrind(collectd, seconds=5)
        check(status == 0, f"exit status {status}: {collectd.log()}")
        check(not ours, "\n".join(ours))


if __name__ == "__main__":
    run_all(globals())
