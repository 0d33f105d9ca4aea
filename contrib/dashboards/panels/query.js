/* What Grafana's data sources and its field configuration do with a panel:
 * queries become data frames whose fields know how they are drawn. InfluxQL. */
import { FieldType, getDisplayProcessor, toDataFrame } from '@grafana/data';

const escapeRegex = (s) => s.replace(/[\\^$*+?.()|[\]{}/]/g, '\\$&');

async function influx(config, q) {
  const answer = await (await fetch(`./store/query?${new URLSearchParams(
    { db: config.database, q, epoch: 'ms' })}`)).json();
  const result = answer.results?.[0] ?? answer;
  if (answer.error || result.error) throw new Error(`${answer.error ?? result.error}: ${q}`);
  return result.series ?? [];
}

function substitute(text, variables, more = {}) {
  return text.replace(/\$\{?([A-Za-z_]\w*)\}?/g, (whole, name) => {
    const value = more[name] ?? variables[name];
    if (value === undefined) return whole;
    return Array.isArray(value) ? `(${value.map(escapeRegex).join('|')})` : value;
  });
}

export async function chooseVariables(dashboard, config) {
  const variables = { host: config.host };
  for (const variable of dashboard.templating.list) {
    if (variable.type !== 'query' || variable.name === 'host') continue;
    const series = await influx(config, substitute(variable.query, variables));
    let values = series.flatMap((s) => s.values.map((row) => row.at(-1)));
    if (variable.regex) {
      const regex = new RegExp(variable.regex.slice(1, variable.regex.lastIndexOf('/')));
      values = values.map((value) => regex.exec(value)?.[1]).filter(Boolean);
    }
    const preferred = values.find((value) => value.endsWith(config.prefer?.[variable.name] ?? value));
    variables[variable.name] = variable.includeAll ? values : preferred ?? values[0];
  }
  return variables;
}

/* A point per so many pixels, of whole seconds. */
function interval(range, width) {
  return Math.max(1, Math.ceil((range.to - range.from) / 1000 / width));
}

const matches = (matcher, name) =>
  (matcher.id === 'byName' ? matcher.options === name : new RegExp(matcher.options).test(name));

function configOf(panel, name) {
  const config = structuredClone(panel.fieldConfig.defaults);
  for (const { matcher, properties } of panel.fieldConfig.overrides) {
    if (!matches(matcher, name)) continue;
    for (const { id, value } of properties) {
      const path = id.split('.');
      const last = path.pop();
      path.reduce((at, key) => (at[key] ??= {}), config)[last] = value;
    }
  }
  return { ...config, displayName: name };
}

export function dress(frames, panel, theme) {
  frames.forEach((frame, index) => {
    for (const field of frame.fields) {
      if (field.type !== FieldType.time)
        field.config = { ...field.config, ...configOf(panel, field.config.displayName ?? field.name) };
      field.state = { ...field.state, seriesIndex: index, displayName: field.config.displayName ?? field.name };
      field.display = getDisplayProcessor({ field, theme });
    }
  });
  return frames;
}

function rename(panel, name) {
  for (const { id, options } of panel.transformations ?? [])
    if (id === 'renameByRegex') name = name.replace(new RegExp(options.regex), options.renamePattern);
  return name;
}

/* Cores by their number and not by their name. */
const byName = (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true });

export async function framesOf(panel, config, variables, range, theme) {
  const more = {
    timeFilter: `time >= ${range.from}ms and time <= ${range.to}ms`,
    __interval: `${interval(range, panel.gridPos.w * 25)}s`,
  };
  const found = [];
  for (const target of panel.targets) {
    const series = await influx(config, substitute(target.query, variables, more));
    found.push(...series.map((s) => ({
      name: rename(panel, target.alias.replace(/\$tag_(\w+)/g, (whole, tag) => s.tags?.[tag] ?? whole)
        .replace(/\$m\b/g, s.name)),
      times: s.values.map((row) => row[0]),
      values: s.values.map((row) => row[1]),
    })).sort(byName));
  }
  return dress(found.map(({ name, times, values }) => toDataFrame({
    name,
    fields: [
      { name: 'time', type: FieldType.time, values: times },
      { name: 'value', type: FieldType.number, values, config: { displayName: name } },
    ],
  })), panel, theme);
}
