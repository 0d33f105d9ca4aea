"""Installs the npm packages that a package-lock.json lists, once for each version of
this file. The packages are outside the source tree, in
${PERCORE_CACHE:-~/.cache/percore}."""
import hashlib
import os
import shutil
import subprocess


def missing(source=None, name=None):
    """Returns the reason why npm packages are unavailable, or None if they are
    available. If `source` is given, installs its packages to find out."""
    for program in ('node', 'npm'):
        if not shutil.which(program):
            return f'{program} is not installed'
    try:
        if source:
            install(source, name)
    except subprocess.CalledProcessError:
        return f'npm cannot install the packages of {os.path.basename(source)}/package.json'
    return None


def cache():
    return os.environ.get('PERCORE_CACHE') or os.path.expanduser('~/.cache/percore')


def install(source, name):
    """Returns the folder that contains node_modules for `source`; installs the packages
    if necessary."""
    with open(os.path.join(source, 'package-lock.json'), 'rb') as lock:
        version = hashlib.sha256(lock.read()).hexdigest()[:16]
    folder = os.path.join(cache(), 'npm', f'{name}-{version}')
    if os.path.isdir(folder):
        return folder
    # The folder has a temporary name until it is complete.
    partial = f'{folder}.{os.getpid()}'
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    for file in ('package.json', 'package-lock.json'):
        shutil.copy(os.path.join(source, file), partial)
    subprocess.run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], cwd=partial,
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        os.rename(partial, folder)
    except OSError:  # another process created the folder first
        shutil.rmtree(partial)
    return folder
