"""Builds flood.c with the headers of Debian's collectd-dev."""
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = '/usr/include/collectd'


def missing():
    """Returns the reason why flood.c cannot be built, or None."""
    if not os.path.isdir(INCLUDE):
        return 'collectd-dev is not installed'
    if subprocess.run(['which', 'cc'], capture_output=True).returncode:
        return 'no C compiler is installed'
    return None


def build(folder):
    os.makedirs(folder, exist_ok=True)
    subprocess.run(['cc', '-std=gnu11', '-O2', '-fPIC', '-shared', '-DHAVE_CONFIG_H=1',
                    *(part for sub in ('', '/core', '/core/daemon')
                      for part in ('-isystem', INCLUDE + sub)),
                    os.path.join(HERE, 'flood.c'), '-o', os.path.join(folder, 'flood.so')],
                   check=True)


def body(folder, collectd_folder, cores, counters, reads):
    return (f'PluginDir "{folder}"\nLoadPlugin flood\nPluginDir "{collectd_folder}"\n'
            f'<Plugin flood>\nCores {cores}\nCounters {counters}\nReads {reads}\n</Plugin>\n')
