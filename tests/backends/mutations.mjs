/* Mistakes that people might make when they edit a dashboard. dashboards.mjs must find
 * each of them. */

const first = (panels, type) => panels.find((p) => p.type === type);
/* Replaces `from` in the first query that contains it. */
function inQueries(panels, from, to) {
  for (const panel of panels)
    for (const target of panel.targets ?? [])
      for (const key of ['query', 'target', 'expr'])
        if (target[key]?.includes(from)) {
          target[key] = target[key].replace(from, to);
          return;
        }
}

export const mutations = {
  'a kind of panel that does not exist': (d, panels) => { first(panels, 'stat').type = 'statt'; },
  'an option with a wrong value': (d, panels) => {
    first(panels, 'timeseries').options.legend.displayMode = 'tabular'; },
  'an option that does not exist': (d, panels) => { first(panels, 'timeseries').options.legendd = {}; },
  'a missing option': (d, panels) => { delete first(panels, 'timeseries').options.tooltip; },
  'a drawing style that does not exist': (d, panels) => {
    first(panels, 'timeseries').fieldConfig.defaults.custom.drawStyle = 'lines'; },
  'a unit that is a number': (d, panels) => { first(panels, 'timeseries').fieldConfig.defaults.unit = 1; },
  'a threshold without a colour': (d, panels) => {
    delete first(panels, 'stat').fieldConfig.defaults.thresholds.steps[0].color; },
  'a version that is text': (d) => { d.schemaVersion = '39'; },
  '`panels` under another name': (d) => { d.panel = d.panels; delete d.panels; },
  'two panels with one id': (d, panels) => { panels[3].id = panels[2].id; },
  'panels on top of each other': (d, panels) => { panels[2].gridPos.x -= 1; },
  'a panel wider than the screen': (d, panels) => { first(panels, 'heatmap').gridPos.w = 30; },
  'a variable that is misspelt': (d, panels) => inQueries(panels, '$core', '$cores'),
  'a missing variable': (d) => {
    d.templating.list = d.templating.list.filter((v) => v.name !== 'set'); },
  'a variable whose query finds nothing': (d) => {
    const core = d.templating.list.find((v) => v.name === 'core');
    if (core.query.query) core.query.query = core.query.query.replace('percore', 'percor');
    else core.query = core.query.replace('percore', 'percor');
  },
  'the data source of another store': (d, panels) => {
    const source = first(panels, 'stat').targets[0].datasource;
    source.type = source.type === 'graphite' ? 'influxdb' : 'graphite';
  },
  'a figure that is not dispatched': (d, panels) => inQueries(panels, 'cores_online', 'cores_onlin'),
  'a plugin that does not exist': (d, panels) => inQueries(panels, 'percore_host', 'percorehost'),
  'a missing parenthesis': (d, panels) => inQueries(panels, ')', ''),
  'a function that does not exist': (d, panels) => {
    inQueries(panels, 'mean(', 'meen('); inQueries(panels, 'alias(', 'alas(');
    inQueries(panels, 'avg_over_time(', 'mean_over_time('); },
  'an override for a series that does not exist': (d, panels) => {
    panels.find((p) => p.fieldConfig?.overrides.length).fieldConfig.overrides[0].matcher.options = 'moist';
    const band = panels.find((p) => p.title.startsWith('Spread'));
    band.fieldConfig.overrides[0].matcher.options = 'leest';
  },
  'a legend that does not tell the cores apart': (d, panels) => {
    const heatmap = first(panels, 'heatmap').targets[0];
    if (heatmap.alias) heatmap.alias = 'core';
    else if (heatmap.legendFormat) heatmap.legendFormat = 'core';
    else heatmap.target = heatmap.target.replace(/aliasByNode\((.*), -\d+\)/, "alias($1, 'core')");
  },
  'a mark for a counter that does not exist': (d) => {
    d.annotations = JSON.parse(JSON.stringify(d.annotations).replace('source_changes', 'source_change')); },
  'a link to nowhere': (d) => { d.links[0].url = d.links[0].url.replace('percore', 'precore'); },
  'a panel without a description': (d, panels) => { delete first(panels, 'stat').description; },
};
