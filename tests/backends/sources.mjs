/* The parts of Grafana's data sources that a dashboard needs: they substitute
 * variables in a query, and run the query. */

const escapeRegex = (s) => s.replace(/[\\^$*+?.()|[\]{}/]/g, '\\$&');

/* Returns Grafana's data sources. Their queries cover config.minutes, or the panel's
 * own period, before `until` (seconds), with a point every `step` seconds. */
export function sourcesOf(config, panel = {}) {
  const { until, step } = config;
  const since = until - 60 * (parseInt(panel.timeFrom, 10) || config.minutes);
  const builtIn = {
    timeFilter: `time >= ${since}s and time <= ${until}s`, __interval: `${step}s`, __rate_interval: `${4 * step}s` };
  const influx = {
    format: (value) =>
      Array.isArray(value) ? `(${value.map(escapeRegex).join('|')})` : escapeRegex(value),
    async query(text) {
      const address = `${config.influx.url}/query?` +
        new URLSearchParams({ db: config.influx.database, q: text, epoch: 'ms' });
      const answer = await (await fetch(address)).json();
      const result = answer.results?.[0] ?? answer;
      if (answer.error || result.error) throw new Error(answer.error ?? result.error);
      return result.series ?? [];
    },
    async values(variable, text) {
      const series = await this.query(text);
      return series.flatMap((s) => s.values.map((row) => row.at(-1)));
    },
    async series(target, substitute) {
      const found = await this.query(substitute(target.query));
      return found.map((s) => ({
        name: target.alias
          .replace(/\$tag_(\w+)/g, (whole, tag) => s.tags?.[tag] ?? whole)
          .replace(/\$m\b/g, s.name),
        points: s.values.filter((row) => row[1] !== null).length,
      }));
    },
    text: (target) => target.query,
    /* Returns the number of marks that an annotation draws. */
    async marks(target, substitute) {
      const found = await this.query(substitute(target.query));
      return found.reduce((n, s) => n + s.values.length, 0);
    },
  };

  const graphite = {
    format: (value) => (Array.isArray(value) ? `{${value.join(',')}}` : value),
    async get(path, parameters) {
      const answer = await fetch(`${config.graphite.url}${path}?${new URLSearchParams(parameters)}`);
      const body = await answer.text();
      if (!answer.ok) throw new Error(`${answer.status} ${body.slice(0, 200)}`);
      return JSON.parse(body);
    },
    /* expand(...) returns whole paths; any other query returns only the last node of
     * each path. */
    async values(variable, text) {
      const expand = /^expand\((.*)\)$/.exec(text);
      if (!expand) return (await this.get('/metrics/find', { query: text })).map((node) => node.text);
      return (await this.get('/metrics/expand', { query: expand[1] })).results;
    },
    async series(target, substitute) {
      const found = await this.get('/render', {
        target: substitute(target.target), from: since, until, format: 'json', maxDataPoints: 1000 });
      return found.map((s) => ({ name: s.target, points: s.datapoints.filter((p) => p[0] !== null).length }));
    },
    text: (target) => target.target,
    /* Grafana draws no mark for a point that is null or 0. */
    async marks(target, substitute) {
      const found = await this.get('/render', {
        target: substitute(target.target), from: since, until, format: 'json', maxDataPoints: 1000 });
      return found.reduce((n, s) => n + s.datapoints.filter((p) => p[0]).length, 0);
    },
  };

  const prometheus = {
    /* Formats a value, or several values as a regular expression, for use in a
     * string. */
    format: (value) =>
      Array.isArray(value) ? influx.format(value).replaceAll('\\', '\\\\') : value,
    async get(path, parameters) {
      const answer = await fetch(`${config.prometheus.url}/api/v1/${path}?${new URLSearchParams(parameters)}`);
      const body = await answer.json();
      if (body.status !== 'success') throw new Error(body.error);
      return body.data;
    },
    /* Queries label_values(selector, label) as Grafana does. */
    async values(variable, text) {
      const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(text);
      return this.get(`label/${label}/values`, { 'match[]': selector });
    },
    async series(target, substitute) {
      const { result } = await this.get('query_range', {
        query: substitute(target.expr), start: since, end: until, step });
      return result.map((s) => ({
        name: target.legendFormat.replace(/{{(\w+)}}/g, (whole, label) => s.metric[label] ?? ''),
        points: s.values.length,
      }));
    },
    text: (target) => target.expr,
    async marks(target, substitute) {
      const { result } = await this.get('query_range', {
        query: substitute(target.expr), start: since, end: until, step });
      return result.reduce((n, s) => n + s.values.length, 0);
    },
  };
  for (const source of [influx, graphite, prometheus]) source.builtIn = builtIn;
  return { influxdb: influx, graphite, prometheus };
}

/* Returns a function that substitutes the chosen variables in a query. */
export function substitution(source, chosen, faults) {
  return (text) =>
    text.replace(/\$\{?([A-Za-z_]\w*)\}?/g, (whole, name) => {
      if (name in source.builtIn) return source.builtIn[name];
      // The dashboard may specify a value for "All".
      if (name in chosen) return chosen[name]?.all ?? source.format(chosen[name] ?? '');
      faults.push(`${whole} is not a variable of this dashboard, in ${text}`);
      return whole;
    });
}

export function picked(variable, values) {
  if (variable.regex) {
    const regex = new RegExp(variable.regex.slice(1, variable.regex.lastIndexOf('/')));
    values = values.map((v) => regex.exec(v)).filter(Boolean).map((m) => m[1] ?? m[0]);
  }
  return [...new Set(values)];
}

