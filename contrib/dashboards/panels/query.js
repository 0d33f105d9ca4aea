/* Replaces Grafana's data sources and field configuration: turns the queries of
 * a panel into data frames whose fields specify how they are drawn. */
import { lastValueFrom } from 'rxjs';
import { FieldType, getDisplayProcessor, getFieldDisplayName, standardTransformers,
  standardTransformersRegistry, stringToJsRegex, toDataFrame, transformDataFrame } from '@grafana/data';

const transformers = new Map(Object.values(standardTransformers).map((each) => [each.id, each]));
standardTransformersRegistry.setInit(() => [...transformers.values()].map((transformation) => ({ id: transformation.id, name: transformation.name, transformation: async () => transformation, editor: () => null })));

const escapeRegex = (s) => s.replace(/[\\^$*+?.()|[\]{}/]/g, '\\$&');
const ask = async (path, parameters) =>
  (await fetch(`./store/${path}?${new URLSearchParams(parameters)}`)).json();

const influxdb = {
  several: (values) => `(${values.map(escapeRegex).join('|')})`,
  async query(config, q) {
    const answer = await ask('query', { db: config.database, q, epoch: 'ms' });
    const result = answer.results?.[0] ?? answer;
    if (answer.error || result.error) throw new Error(`${answer.error ?? result.error}: ${q}`);
    return result.series ?? [];
  },
  async values(config, variable, substitute) {
    const series = await this.query(config, substitute(variable.query));
    return series.flatMap((s) => s.values.map((row) => row.at(-1)));
  },
  async series(config, target, substitute) {
    const found = await this.query(config, substitute(target.query));
    return found.map((s) => ({
      name: target.alias.replace(/\$tag_(\w+)/g, (whole, tag) => s.tags?.[tag] ?? whole)
        .replace(/\$m\b/g, s.name),
      times: s.values.map((row) => row[0]),
      values: s.values.map((row) => row[1]),
    }));
  },
};

const prometheus = {
  several: (values) => influxdb.several(values).replaceAll('\\', '\\\\'),
  async api(path, parameters) {
    const answer = await ask(`api/v1/${path}`, parameters);
    if (answer.status !== 'success') throw new Error(`${answer.error}: ${parameters.query}`);
    return answer.data;
  },
  async values(config, variable, substitute) {
    const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(substitute(variable.query.query));
    return this.api(`label/${label}/values`, { 'match[]': selector });
  },
  async series(config, target, substitute, range, step) {
    const end = Math.floor(range.to / 1000 / step) * step;
    const start = end - Math.floor((range.to - range.from) / 1000 / step) * step;
    const { result } = await this.api('query_range', { query: substitute(target.expr), start, end, step });
    const times = Array.from({ length: (end - start) / step + 1 }, (unused, i) => (start + i * step) * 1000);
    return result.map(({ metric, values }) => {
      const known = new Map(values.map(([time, value]) => [time * 1000, Number(value)]));
      return {
        name: target.legendFormat.replace(/{{(\w+)}}/g, (whole, label) => metric[label] ?? ''),
        times,
        values: times.map((time) => known.get(time) ?? null),
      };
    });
  },
};

const STORES = { influxdb, prometheus };
const storeOf = (dashboard) => STORES[dashboard.templating.list.find((v) => v.type === 'datasource').query];

const substitution = (store, variables) => (text) =>
  text.replace(/\$\{?([A-Za-z_]\w*)\}?/g, (whole, name) => {
    const value = variables[name];
    if (value === undefined) return whole;
    return Array.isArray(value) ? store.several(value) : value;
  });

export async function chooseVariables(dashboard, config) {
  const store = storeOf(dashboard);
  const variables = { interval: `${config.interval_s}s` };
  if (config.host) variables.host = config.host;
  for (const variable of dashboard.templating.list) {
    if (variable.type !== 'query' || variables[variable.name] !== undefined) continue;
    if (variable.allValue) {
      variables[variable.name] = variable.allValue;
      continue;
    }
    let values = await store.values(config, variable, substitution(store, variables));
    if (variable.regex) {
      const regex = stringToJsRegex(variable.regex);
      values = values.map((value) => regex.exec(value)?.[1]).filter(Boolean);
    }
    const preferred = values.find((value) => value.endsWith(config.prefer?.[variable.name] ?? value));
    variables[variable.name] = variable.includeAll ? values : preferred ?? values[0];
  }
  return variables;
}

/* Returns the time between two points in seconds, rounded up: at least one interval,
 * because the store contains no more values, and at least the time that one pixel
 * stands for. */
function interval(config, range, width) {
  return Math.max(config.interval_s, Math.ceil((range.to - range.from) / 1000 / width));
}

const matches = (matcher, name) =>
  (matcher.id === 'byName' ? matcher.options === name : stringToJsRegex(matcher.options).test(name));

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

function dress(frames, panel, theme) {
  frames.forEach((frame, index) => {
    for (const field of frame.fields) {
      if (field.type === FieldType.time) continue;
      const name = getFieldDisplayName(field, frame, frames);
      field.config = { ...field.config, ...configOf(panel, name) };
      const known = field.values.filter((value) => typeof value === 'number');
      const [min, max] = [Math.min(...known), Math.max(...known)];
      field.state = { ...field.state, seriesIndex: index, displayName: name, range: { min, max, delta: max - min } };
      field.display = getDisplayProcessor({ field, theme });
      if (field.config.links)
        field.getLinks = ({ valueRowIndex }) => field.config.links.map(({ title, url }) => ({
          href: url.replace('${__value.text}', field.values[valueRowIndex]),
          title: title.replace('${__value.text}', field.values[valueRowIndex]), origin: field }));
    }
  });
  return frames;
}

/* Sort cores by number instead of by name. */
const byName = (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true });

export async function framesOf(dashboard, panel, config, variables, range, theme) {
  const store = storeOf(dashboard);
  const step = interval(config, range, panel.gridPos.w * 25);
  const substitute = substitution(store, {
    ...variables,
    timeFilter: `time >= ${range.from}ms and time <= ${range.to}ms`,
    __interval: `${step}s`,
    __rate_interval: `${4 * step}s`,
  });
  const frames = [];
  for (const target of panel.targets) {
    const found = await store.series(config, target, substitute, range, step);
    frames.push(...found.sort(byName).map(({ name, times, values }) => toDataFrame({
      refId: target.refId,
      fields: [
        { name: 'time', type: FieldType.time, values: times },
        { name: 'value', type: FieldType.number, values, config: { displayNameFromDS: name } },
      ],
    })));
  }
  return dress(await lastValueFrom(transformDataFrame(panel.transformations ?? [], frames)), panel, theme);
}
