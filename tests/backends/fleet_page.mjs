/* How long all queries of a dashboard take, one after the other.
 *
 *   node fleet_page.mjs CONFIG
 *
 * CONFIG is JSON: files, until (seconds), minutes, step, again (how often; the last
 * time counts), influx {url, database}, graphite {url}, prometheus {url}.
 */
import fs from 'node:fs';
import { picked, sourcesOf, substitution } from './sources.mjs';

const config = JSON.parse(process.argv[2]);
const SOURCES = sourcesOf(config);

async function page(dashboard) {
  const type = dashboard.templating.list.find((v) => v.name === 'datasource').query;
  const source = SOURCES[type];
  const faults = [];
  const chosen = { datasource: '', prefix: 'collectd', interval: `${config.step}s` };
  const found = { queries: 0, series: 0, points: 0, slowest: 0, all: 0 };
  const timed = async (ask) => {
    const began = performance.now();
    const answer = await ask();
    const took = performance.now() - began;
    found.queries++;
    found.all += took;
    found.slowest = Math.max(found.slowest, took);
    return answer;
  };
  for (const variable of dashboard.templating.list.filter((v) => v.type === 'query')) {
    const text = substitution(source, chosen, faults)(variable.query.query ?? variable.query);
    const values = picked(variable, await timed(() => source.values(variable, text)));
    found.hosts = values.length;
    chosen[variable.name] = { all: variable.allValue };
  }
  for (const panel of dashboard.panels)
    for (const target of panel.targets ?? []) {
      const series = await timed(() => source.series(target, substitution(source, chosen, faults)));
      found.series += series.length;
      for (const { points } of series) found.points += points;
    }
  if (faults.length > 0) throw new Error(faults.join());
  return found;
}

console.log('store       hosts  queries  series   points  all queries  slowest');
for (const file of config.files) {
  const dashboard = JSON.parse(fs.readFileSync(file));
  let found;
  for (let i = 0; i < config.again; i++) found = await page(dashboard);
  const name = dashboard.title.match(/\((.*)\)/)[1];
  console.log(`${name.padEnd(10)} ${String(found.hosts).padStart(6)} ${String(found.queries).padStart(8)} ` +
    `${String(found.series).padStart(7)} ${String(found.points).padStart(8)} ` +
    `${(found.all / 1000).toFixed(2).padStart(10)} s ${(found.slowest / 1000).toFixed(2).padStart(6)} s`);
}
