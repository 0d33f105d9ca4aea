"""Every dashboard is one that its program takes, and all that it asks for is
there."""
import json
import os
import subprocess

import known
import node_packages
import report
import stage_stores

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ('grafana-influxdb.json', 'grafana-graphite.json')
SENTENCE = 'the Grafana dashboards are valid and all their queries bring data'


def make_schema(modules):
    """Grafana's types as a JSON schema; made once, beside node_modules."""
    schema = os.path.join(modules, 'schema.json')
    with open(os.path.join(HERE, 'schema.ts')) as file:
        source = file.read()
    copy = os.path.join(modules, 'schema.ts')
    if os.path.exists(schema) and os.path.exists(copy):
        with open(copy) as file:
            if file.read() == source:
                return schema
    with open(copy, 'w') as file:
        file.write(source)
    with open(os.path.join(HERE, 'tsconfig.json')) as file:
        config = file.read()
    with open(os.path.join(modules, 'tsconfig.json'), 'w') as file:
        file.write(config)
    subprocess.run(['node', 'node_modules/ts-json-schema-generator/bin/ts-json-schema-generator.js',
                    '--path', 'schema.ts', '--type', 'PercoreDashboard', '--tsconfig',
                    'tsconfig.json', '--expose', 'none', '-o', schema], cwd=modules, check=True)
    return schema


def check(context, host, mutate, files=FILES):
    modules = node_packages.install(HERE, 'backends')
    with open(os.path.join(modules, 'package.json')) as file:
        grafana = json.load(file)['dependencies']['@grafana/schema']
    config = {
        'modules': modules, 'schema': make_schema(modules), 'grafana': grafana,
        'files': [os.path.join(context.root, 'contrib/dashboards', name) for name in files],
        'host': host, 'cores': [str(core) for core in known.CORES], 'mutate': mutate,
        'influx': {'url': context.servers['influxdb'].url, 'database': 'collectd'},
        'graphite': {'url': context.servers['graphite'].url},
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
        report.not_ok(SENTENCE, f'dashboards.mjs exits with {process.returncode}')


def run(context):
    generated = subprocess.run([os.path.join(context.root, 'contrib/dashboards/generate'),
                                '--check'], capture_output=True, text=True)
    with report.proves('the dashboards are what contrib/dashboards/generate writes'):
        assert generated.returncode == 0, generated.stderr
    missing = node_packages.missing(HERE, 'backends')
    if not missing and not {'influxdb', 'graphite'} <= set(context.servers):
        missing = 'influxdb or graphite-web is not installed'
    if missing:
        report.skip(SENTENCE, missing)
        return
    check(context, known.HOST.replace('.', '_'), mutate=True, files=FILES[1:])
    check(context, known.HOST, mutate=True, files=FILES[:1])
