"""Checks graphite-web's dashboard in a browser."""
import json
import os
import subprocess
import time

import graphite_dashboard
import known
import node_packages
import servers
from report import proves, skip

HERE = os.path.dirname(os.path.abspath(__file__))
LOOK = os.path.join(os.path.dirname(servers.__file__), 'graphite_web.mjs')
SENTENCE = "graphite-web's dashboard opens without an error and draws all graphs"
PLAIN = 'no graph is empty for a host with default options'
MUTANTS = 'faults in a graphite-web dashboard are found: a wrong metric, a broken function'


def look(modules, url, graphs, picture=None):
    config = {'modules': modules, 'url': url, 'graphs': graphs, 'picture': picture,
              'width': 1280, 'height': 1000}
    process = subprocess.run(['node', LOOK, json.dumps(config)], stdout=subprocess.PIPE,
                             text=True, check=True, timeout=240)
    return json.loads(process.stdout)


def run(context):
    missing = node_packages.missing(HERE, 'backends') or servers.missing_package('chromium')
    if 'graphite' not in context.servers:
        missing = 'graphite-web is not installed'
    if missing:
        skip(SENTENCE, missing)
        return
    url = context.servers['graphite'].url
    modules = node_packages.install(HERE, 'backends')
    host = known.HOST.replace('.', '_')
    state = graphite_dashboard.of_host(
        os.path.join(context.dashboards, 'graphite-web.json'), host)
    graphs = len(state['graphs'])
    # Show only the time since the first value: in a graph of half an hour, the few
    # values would look like dots.
    minutes = int(time.time() - context.first) // 60 + 2
    state['timeConfig']['relativeStartQuantity'] = str(minutes)
    state['defaultGraphParams']['from'] = f'-{minutes}minutes'
    with proves(PLAIN):
        plain = graphite_dashboard.save(url, 'plain', json.loads(
            json.dumps(state).replace(host, known.PLAIN.replace('.', '_'))))
        found = look(modules, plain, graphs)
        assert not found['faults'], '\n'.join(found['faults'])
    with proves(SENTENCE):
        address = graphite_dashboard.save(url, f'percore-{host}', state)
        found = look(modules, address, graphs,
                     os.path.join(context.folder, 'graphite-web.png'))
        assert not found['faults'], '\n'.join(found['faults'])
    with proves(MUTANTS):
        text = json.dumps(state)
        for old, new in (('percent.load', 'percent.bussy'), ('sortByName', 'sortByNaem')):
            assert old in text
            address = graphite_dashboard.save(url, 'mutant', json.loads(text.replace(old, new)))
            found = look(modules, address, graphs)
            assert found['faults'], f'the fault {new} was not found'
