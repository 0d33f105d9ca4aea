#!/usr/bin/env python3
"""Saves a dashboard in graphite-web for each host. FILE is graphite-web.json, which
`make` writes to contrib/dashboards in the build directory. Give the names of hosts as
Graphite stores them, with `_` instead of dots:

    graphite_dashboard.py URL FILE HOST [HOST ...]

The dashboard of a host is then at URL/dashboard/percore-HOST. (There is no template
for all hosts because graphite-web 1.1.8 cannot open a template: it escapes the
quotes of its JSON.)
"""
import json
import sys
import urllib.parse
import urllib.request

# The placeholder that stands for the host in graphite-web.json.
HOST = 'PERCORE_HOST'


def of_host(path, host):
    with open(path) as file:
        return json.loads(file.read().replace(HOST, host))


def save(url, name, state):
    """Saves the dashboard in graphite-web and returns its URL."""
    data = urllib.parse.urlencode({'state': json.dumps({**state, 'name': name})}).encode()
    with urllib.request.urlopen(f'{url}/dashboard/save/{name}', data, timeout=60) as answer:
        result = json.load(answer)
    if not result.get('success'):
        raise RuntimeError(f'{url}: the dashboard was not saved: {result}')
    return f'{url}/dashboard/{name}'


if __name__ == '__main__':
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    for wanted in sys.argv[3:]:
        print(save(sys.argv[1].rstrip('/'), f'percore-{wanted}', of_host(sys.argv[2], wanted)))
