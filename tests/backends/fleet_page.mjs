/* Measures how long all queries of a dashboard take, one after the other.
 *
 *   node fleet_page.mjs CONFIG
 *
 * CONFIG is JSON: file, until (seconds), minutes, step, influx {url, database},
 * graphite {url}, prometheus {url}. Prints {hosts, queries, series, points, all,
 * slowest}; all and slowest are the times, in milliseconds, of all queries together and
 * of the slowest query.
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
    if (variable.name === 'host') found.hosts = values.length;
    chosen[variable.name] = variable.allValue ? { all: variable.allValue } : values[0];
  }
  for (const panel of dashboard.panels)
    for (const target of panel.targets ?? []) {
      const own = sourcesOf(config, panel)[type];
      const series = await timed(() => own.series(target, substitution(own, chosen, faults)));
      found.series += series.length;
      for (const { points } of series) found.points += points;
    }
  if (faults.length > 0) throw new Error(faults.join());
  return found;
}

console.log(JSON.stringify(await page(JSON.parse(fs.readFileSync(config.file)))));
