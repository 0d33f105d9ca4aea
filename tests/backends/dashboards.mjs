/* Checks that Grafana would accept a dashboard and that each of its queries returns
 * data. Grafana's server is not needed: its types define a valid dashboard, and the
 * queries are run as its data sources would run them.
 *
 *   node dashboards.mjs CONFIG
 *
 * CONFIG is JSON: modules (folder of node_modules), schema, files, siblings
 * (all dashboards that they may link to), host, plain (a host with default options and
 * without regions), cores, influx {url, database}, graphite {url}, prometheus {url}. Prints one JSON object per finding: {ok,
 * sentence, why}.
 */
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { mutations } from './mutations.mjs';
import { picked, sourcesOf, substitution } from './sources.mjs';

const config = JSON.parse(process.argv[2]);
const Ajv = createRequire(config.modules + '/')('ajv').default;
const ajv = new Ajv({ strict: false, allErrors: true });
const isDashboard = ajv.compile(JSON.parse(fs.readFileSync(config.schema)));

const SOURCES = sourcesOf({ ...config, until: Math.floor(Date.now() / 1000), minutes: 5, step: 2 });

const say = (sentence, faults) =>
  console.log(JSON.stringify({ ok: faults.length === 0, sentence, why: faults.slice(0, 12).join('\n') }));

// -- the form of a dashboard -------------------------------------------------

/* Returns up to six errors that show why a dashboard is invalid, or an empty list. If
 * no alternative of a schema matches, each alternative causes errors; those found
 * deepest in the document come first, because their alternatives match most of it. */
function faultsOfForm(dashboard) {
  if (isDashboard(dashboard)) return [];
  const faults = isDashboard.errors.map((e) => ({
    depth: e.instancePath.split('/').length,
    text: `${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`,
  }));
  faults.sort((a, b) => b.depth - a.depth);
  return [...new Set(faults.map((f) => f.text))].slice(0, 6);
}

const allPanels = (dashboard) => dashboard.panels.flatMap((p) => [p, ...(p.panels ?? [])]);
const overlap = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/* Returns mistakes in the layout that Grafana would accept. */
function faultsOfLayout(dashboard) {
  const faults = [];
  const panels = allPanels(dashboard);
  const ids = panels.map((p) => p.id);
  for (const id of new Set(ids))
    if (ids.filter((other) => other === id).length > 1) faults.push(`two panels have the id ${id}`);
  // Panels of a collapsed row occupy no space, so compare only panels of the same row.
  const folds = [dashboard.panels, ...dashboard.panels.filter((p) => p.collapsed).map((p) => p.panels)];
  for (const fold of folds)
    fold.forEach((a, i) => {
      if (a.gridPos.x + a.gridPos.w > 24) faults.push(`panel ${a.id} is wider than the screen`);
      for (const b of fold.slice(i + 1))
        if (overlap(a.gridPos, b.gridPos)) faults.push(`panels ${a.id} and ${b.id} overlap`);
    });
  for (const p of panels) {
    if (p.type === 'row') continue;
    if (!p.title || !p.description) faults.push(`panel ${p.id} has no title or no description`);
    if (p.type !== 'text' && !p.targets?.length) faults.push(`panel ${p.id} has no query`);
  }
  return faults;
}

/* Returns mistakes in links: a link that leads to no sibling, or to a sibling that
 * lacks a variable that the link sets. */
function faultsOfLinks(dashboard) {
  const links = [...dashboard.links, ...allPanels(dashboard).flatMap((p) =>
    (p.fieldConfig?.overrides ?? []).flatMap((o) =>
      o.properties.filter(({ id }) => id === 'links').flatMap(({ value }) => value)))];
  const faults = links.length > 0 ? [] : ['there is no link to another dashboard'];
  for (const { url } of links) {
    const [, uid, query] = /^\/d\/([^?]+)\??(.*)$/.exec(url) ?? [];
    const target = config.siblings.map((file) => JSON.parse(fs.readFileSync(file))).find((d) => d.uid === uid);
    if (!target) {
      faults.push(`${url} leads nowhere`);
      continue;
    }
    const names = [...query.matchAll(/var-(\w+)=|\$\{(\w+):queryparam\}/g)].map((m) => m[1] ?? m[2]);
    for (const name of names)
      if (!target.templating.list.some((v) => v.name === name)) faults.push(`${url}: the target has no variable ${name}`);
  }
  return faults;
}

// -- the queries of a dashboard ----------------------------------------------

/* Each query is run once, even if several mutations (mutations.mjs) of the dashboard
 * contain it. */
const answers = new Map();
function once(key, ask) {
  if (!answers.has(key)) answers.set(key, ask().then((value) => ({ value }), (error) => ({ error })));
  return answers.get(key).then(({ value, error }) => {
    if (error) throw error;
    return value;
  });
}

async function choose(dashboard, type, faults, host = config.host) {
  const chosen = {};
  for (const variable of dashboard.templating.list) {
    if (variable.type === 'datasource') {
      if (variable.query !== type) faults.push(`the variable ${variable.name} lists ${variable.query}`);
      chosen[variable.name] = '';
      continue;
    }
    if (variable.type === 'textbox') {
      chosen[variable.name] = variable.query;
      continue;
    }
    const source = SOURCES[type];
    const text = substitution(source, chosen, faults)(variable.query.query ?? variable.query);
    let values = [];
    try {
      values = picked(variable, await once(`${type} variable ${text}`, () => source.values(variable, text)));
    } catch (error) {
      faults.push(`variable ${variable.name}: ${error.message}`);
    }
    if (values.length === 0) faults.push(`the variable ${variable.name} has no value`);
    const wanted = { host, set: 'all' }[variable.name];
    if (wanted && !values.includes(wanted))
      faults.push(`the variable ${variable.name} has ${values}, and not ${wanted}`);
    if (variable.name === 'core' && [...values].sort().join() !== config.cores.join())
      faults.push(`the variable core has ${values}, and not ${config.cores}`);
    chosen[variable.name] = variable.allValue ? { all: variable.allValue }
      : variable.includeAll ? values : wanted ?? values[0];
  }
  return chosen;
}

/* Returns mistakes in the names of a legend. A number, or `core` and a number, is the
 * name of a core. */
function faultsOfNames(panel, names) {
  const faults = [];
  const cores = names.filter((name) => /^(core )?\d+$/.test(name)).map((name) => name.replace('core ', '')).sort();
  if (cores.length > 0 && cores.join() !== config.cores.join())
    faults.push(`panel ${panel.id} shows cores ${cores}`);
  if (new Set(names).size !== names.length) faults.push(`panel ${panel.id} has duplicate names in its legend: ${names}`);
  if (names.some((name) => name.includes('$') || name.includes('collectd.')))
    faults.push(`panel ${panel.id} has an unreadable legend: ${names}`);
  for (const { matcher } of panel.fieldConfig.overrides)
    if (matcher.id === 'byName' && panel.type !== 'table' && !names.includes(matcher.options))
      faults.push(`panel ${panel.id} has no series "${matcher.options}" to override`);
  return faults;
}

async function faultsOfQueries(dashboard) {
  const faults = [];
  const type = dashboard.templating?.list?.find((v) => v.name === 'datasource')?.query;
  const source = SOURCES[type];
  if (!source) return [`there is no data source ${type}`];
  const chosen = await choose(dashboard, type, faults);
  const substitute = substitution(source, chosen, faults);
  for (const panel of allPanels(dashboard)) {
    if (panel.type === 'row') continue;
    substitute(panel.title);
    const names = [];
    const tables = panel.type === 'table';
    for (const target of panel.targets) {
      if (target.datasource?.type !== type) faults.push(`panel ${panel.id} queries ${target.datasource?.type}`);
      try {
        const text = source.text(target);
        const key = `${type} ${substitute(text)} ${target.alias ?? target.legendFormat}`;
        const found = await once(key, () => source.series(target, substitute));
        if (!found.some((s) => s.points > 0)) faults.push(`panel ${panel.id} gets no data for ${text}`);
        const own = found.map((s) => s.name);
        // Each query of a table fills a column. A query of InfluxDB returns a row for
        // each measurement, and a transformation of the panel adds these rows up.
        if (tables) faults.push(...faultsOfNames(panel, type === 'influxdb' && text.includes('FROM /') ? [...new Set(own)] : own));
        else names.push(...own);
      } catch (error) {
        faults.push(`panel ${panel.id}: ${error.message}`);
      }
    }
    faults.push(...faultsOfNames(panel, names));
  }
  for (const annotation of dashboard.annotations.list)
    try {
      if (annotation.datasource?.type !== type) faults.push(`${annotation.name} queries ${annotation.datasource?.type}`);
      if (await source.marks(annotation.target, substitute) === 0) faults.push(`${annotation.name} marks nothing`);
    } catch (error) {
      faults.push(`${annotation.name}: ${error.message}`);
    }
  return faults;
}

/* Returns the panels that are empty for a host with default options. A panel that is
 * repeated is looked at for each value. The dashboard of regions must not list the host. */
async function emptyPanels(dashboard) {
  const type = dashboard.templating.list.find((v) => v.name === 'datasource').query;
  const [faults, missing] = [[], []];
  const chosen = { ...await choose(dashboard, type, missing, config.plain), host: config.plain };
  const listed = !missing.some((fault) => fault.startsWith('the variable host'));
  if (dashboard.uid.includes('regions')) return listed ? [`${config.plain} has no region, and is listed`] : [];
  for (const panel of allPanels(dashboard).filter((p) => p.targets?.length > 0))
    for (const value of chosen[panel.repeat] ?? ['']) {
      const substitute = substitution(SOURCES[type], { ...chosen, [panel.repeat]: value }, faults);
      const found = await Promise.all(panel.targets.map((target) => SOURCES[type].series(target, substitute)));
      if (!found.flat().some((s) => s.points > 0)) faults.push(`${panel.title} ${value}`);
    }
  return listed ? faults : missing;
}

// ---------------------------------------------------------------------------

async function faultsOf(dashboard) {
  const form = faultsOfForm(dashboard);
  // If the form of the dashboard is invalid, its queries cannot be found.
  return form.length > 0 ? form : [...faultsOfLayout(dashboard), ...faultsOfLinks(dashboard), ...(await faultsOfQueries(dashboard))];
}

for (const file of config.files) {
  const name = file.split('/').at(-1);
  const text = fs.readFileSync(file, 'utf8');
  const dashboard = JSON.parse(text);
  say(`${name} is a valid dashboard according to the types of Grafana ${config.grafana}`, faultsOfForm(dashboard));
  say(`the panels of ${name} do not overlap, and have titles and descriptions`, faultsOfLayout(dashboard));
  say(`the links of ${name} lead to dashboards that exist`, faultsOfLinks(dashboard));
  const queries = allPanels(dashboard).flatMap((p) => p.targets ?? []).length;
  say(`all ${queries} queries and all variables of ${name} return data of ${config.host}`,
    await faultsOfQueries(dashboard));
  say(`no panel of ${name} is empty for a host with default options`,
    await emptyPanels(dashboard));
  // The dashboard of a single host is the one that is mutated.
  if (!config.mutate) continue;
  const marked = JSON.stringify(dashboard.annotations.list).includes('source_changes');
  say(`${name} marks changes of the source of a load`, marked ? [] : ['there is no such annotation']);
  const before = new Set(await faultsOf(dashboard));
  const missed = [];
  for (const [what, mutate] of Object.entries(mutations)) {
    const mutant = JSON.parse(text);
    mutate(mutant, allPanels(mutant));
    if (JSON.stringify(mutant) === JSON.stringify(dashboard)) missed.push(`${what}: changes nothing`);
    else if ((await faultsOf(mutant)).every((fault) => before.has(fault))) missed.push(`${what}: not found`);
  }
  say(`each of ${Object.keys(mutations).length} faults put into ${name} is found`, missed);
}
