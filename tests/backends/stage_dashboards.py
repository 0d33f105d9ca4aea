"""Tests that every dashboard is valid for its program, and that all data it queries
exist."""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import tempfile

import known
import node_packages
import report
from fleet import Fleet

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ('graphite', 'influxdb', 'prometheus')
SCHEMA_SOURCES = ('schema.ts', 'tsconfig.json')
SENTENCE = 'the Grafana dashboards are valid and all their queries return data'


def make_schema(modules):
    """Returns the path of a JSON schema of Grafana's types. The schema is generated
    once for each version of its source and kept next to node_modules."""
    digest = hashlib.sha256()
    for name in SCHEMA_SOURCES:
        with open(os.path.join(HERE, name), 'rb') as file:
            digest.update(file.read())
    schema = os.path.join(modules, f'schema-{digest.hexdigest()[:16]}.json')
    if os.path.exists(schema):
        return schema
    # The file is in a temporary folder until it is complete.
    with tempfile.TemporaryDirectory(prefix='schema.', dir=modules) as folder:
        for name in SCHEMA_SOURCES:
            shutil.copy(os.path.join(HERE, name), folder)
        made = os.path.join(folder, 'schema.json')
        generator = 'node_modules/ts-json-schema-generator/bin/ts-json-schema-generator.js'
        subprocess.run(['node', os.path.join(modules, generator), '--path', 'schema.ts',
                        '--type', 'PercoreDashboard', '--tsconfig', 'tsconfig.json',
                        '--expose', 'none', '-o', made], cwd=folder, check=True)
        os.rename(made, schema)
    return schema


def check(context, host, mutate, files):
    modules = node_packages.install(HERE, 'backends')
    with open(os.path.join(modules, 'package.json')) as file:
        grafana = json.load(file)['dependencies']['@grafana/schema']
    config = {
        'modules': modules, 'schema': make_schema(modules), 'grafana': grafana,
        'files': [os.path.join(context.dashboards, name) for name in files],
        'siblings': glob.glob(os.path.join(context.dashboards, 'grafana-*.json')),
        'host': host, 'plain': host.replace('known', 'plain'), 'cores': [str(core) for core in known.CORES], 'mutate': mutate,
        'influx': {'url': context.servers['influxdb'].url, 'database': 'collectd'},
        'graphite': {'url': context.servers['graphite'].url},
        'prometheus': {'url': context.servers['prometheus'].url},
    }
    process = subprocess.run(['node', os.path.join(HERE, 'dashboards.mjs'), json.dumps(config)],
                             stdout=subprocess.PIPE, text=True)
    findings = [json.loads(line) for line in process.stdout.splitlines()]
    for finding in findings:
        if finding['ok']:
            report.ok(finding['sentence'])
        else:
            report.not_ok(finding['sentence'], finding['why'])
    if process.returncode:
        report.not_ok(SENTENCE, f'dashboards.mjs exited with {process.returncode}')


def run(context):
    with report.proves('the simulated hosts of contrib/backends/fleet.py have only values that '
                       'percore dispatches'):
        sent = {identifier for host in Fleet(10, cores=len(known.CORES)).hosts
                for identifier, _ in (*host.of_host(0, 1), *host.of_cores(0))
                if not identifier.startswith('percore_host_')}  # known.py uses other regions
        assert sent <= {metric.identifier for metric in known.METRICS}, \
            sent - {metric.identifier for metric in known.METRICS}
    missing = node_packages.missing(HERE, 'backends')
    if not missing and not set(KINDS) <= set(context.servers):
        missing = 'influxdb, graphite-web or prometheus is not installed'
    if missing:
        report.skip(SENTENCE, missing)
        return
    for kind in KINDS:
        host = known.HOST.replace('.', '_') if kind == 'graphite' else known.HOST
        check(context, host, True, [f'grafana-{kind}.json'])
        check(context, host, False, [f'grafana-regions-{kind}.json',
                                     f'grafana-fleet-{kind}.json'])
