/* Shows a Grafana dashboard's panels with Grafana's own components, with data from the
 * store that the dashboard is for. Only the heat map is drawn here, because Grafana's
 * own heat map is part of its server. /config.json says what to show: {database, host,
 * minutes, interval_s, refresh_ms, open, prefer, until_ms}. Without a host, the
 * dashboard is that of all hosts; without until_ms, the time range ends now. */
import { createRoot } from 'react-dom/client';
import { useEffect, useState } from 'react';
import { createTheme, ThemeContext } from '@grafana/data';
import { GlobalStyles, PanelChrome } from '@grafana/ui';
import { chooseVariables, framesOf } from './query.js';
import { Body } from './bodies.jsx';

const theme = createTheme({ colors: { mode: 'dark' } });
const COLUMN = 53;
const LINE = 38;

/* Returns the rows as displayed: if config.open is true, collapsed rows are open. */
function unfold(dashboard, open) {
  let shift = 0;
  return dashboard.panels.flatMap((panel) => {
    const place = (p) => ({ ...p, gridPos: { ...p.gridPos, y: p.gridPos.y + shift } });
    const placed = place(panel);
    if (!panel.collapsed || !open) return [placed];
    const inside = panel.panels.map(place);
    shift += Math.max(...panel.panels.map((p) => p.gridPos.y + p.gridPos.h)) - panel.gridPos.y - 1;
    return [placed, ...inside];
  });
}

const box = ({ x, y, w, h }) => ({
  position: 'absolute', left: x * COLUMN + 8, top: y * LINE + 8,
  width: w * COLUMN - 8, height: h * LINE - 8 });

function Panel({ dashboard, panel, config, variables, tick }) {
  const [state, setState] = useState();
  useEffect(() => {
    const to = (config.until_ms ?? Date.now()) - parseInt(panel.timeShift ?? 0, 10) * 1000;
    const range = { from: to - parseInt(panel.timeFrom ?? config.minutes, 10) * 60000, to };
    framesOf(dashboard, panel, config, variables, range, theme).then(
      (frames) => setState({ frames, range }),
      (error) => { console.error(`panel ${panel.id} ${panel.title}: ${error.message}`); });
  }, [tick]);
  const title = panel.title.replace(/\$(\w+)/g, (whole, name) => variables[name] ?? whole);
  const { width, height, ...place } = box(panel.gridPos);
  return (
    <div className="percore-panel" data-id={panel.id} data-series={state?.frames.length ?? 0}
      style={{ ...place, width, height }}>
      <PanelChrome title={title} width={width} height={height}>
        {(w, h) => state && <Body panel={panel} {...state} width={w} height={h} theme={theme} />}
      </PanelChrome>
    </div>
  );
}

function Row({ panel }) {
  return (
    <div className="percore-row" style={{ ...box(panel.gridPos), color: '#ccccdc', font: '500 15px/30px Inter, sans-serif' }}>
      {panel.title}
    </div>
  );
}

function Dashboard({ dashboard, config, variables }) {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (!config.refresh_ms) return undefined;
    const timer = setInterval(() => setTick((t) => t + 1), config.refresh_ms);
    return () => clearInterval(timer);
  }, []);
  const panels = unfold(dashboard, config.open);
  const bottom = Math.max(...panels.map((p) => p.gridPos.y + p.gridPos.h));
  return (
    <div style={{ position: 'relative', width: 24 * COLUMN + 8, height: bottom * LINE + 8 }}>
      {panels.map((panel) => (panel.type === 'row'
        ? <Row key={panel.id} panel={panel} />
        : <Panel key={panel.id} dashboard={dashboard} panel={panel} config={config} variables={variables} tick={tick} />))}
    </div>
  );
}

const load = async (address) => (await fetch(address)).json();
const config = await load('./config.json');
const dashboard = await load('./dashboard.json');
const variables = await chooseVariables(dashboard, config);
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <Dashboard dashboard={dashboard} config={config} variables={variables} />
  </ThemeContext.Provider>,
);
