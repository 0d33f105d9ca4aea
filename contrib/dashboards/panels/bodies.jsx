/* Draws the contents of each kind of panel. */
import { useEffect, useRef } from 'react';
import { dateTime } from '@grafana/data';
import { BarGauge, BigValue, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

const last = (field) => field.values.findLast((value) => value !== null);
const valueOf = (frame) => frame.fields[1];

function Stat({ panel, frames, width, height, theme }) {
  const field = valueOf(frames[0]);
  const { colorMode, graphMode, justifyMode, textMode } = panel.options;
  return (
    <BigValue value={field.display(last(field))} sparkline={{ x: frames[0].fields[0], y: field }}
      colorMode={colorMode} graphMode={graphMode} justifyMode={justifyMode} textMode={textMode}
      width={width} height={height} theme={theme} />
  );
}

function Gauges({ panel, frames, width, height, theme }) {
  const { orientation, displayMode, showUnfilled, valueMode, namePlacement, minVizWidth, minVizHeight } = panel.options;
  return (
    <VizRepeater width={width} height={height} orientation={orientation} source={frames} renderCounter={0}
      itemSpacing={6} minVizWidth={minVizWidth} minVizHeight={minVizHeight}
      getValues={() => frames.map((frame) => {
        const field = valueOf(frame);
        return { field, display: { ...field.display(last(field)), title: field.config.displayName } };
      })}
      renderValue={({ value: { field, display }, width: w, height: h }) => (
        <BarGauge width={w} height={h} orientation={orientation} theme={theme} value={display}
          field={field.config} display={field.display} displayMode={displayMode} itemSpacing={6}
          lcdCellWidth={8} showUnfilled={showUnfilled} valueDisplayMode={valueMode} namePlacement={namePlacement} />
      )} />
  );
}

function Rows({ frames, width, height }) {
  return <TableNG data={frames[0]} width={width} height={height} />;
}

function Curves({ panel, frames, range, width, height }) {
  const [from, to] = [dateTime(range.from), dateTime(range.to)];
  return (
    <TimeSeries frames={frames} structureRev={frames.length} timeZone="utc" width={width} height={height}
      timeRange={{ from, to, raw: { from, to } }} legend={panel.options.legend}>
      {() => null}
    </TimeSeries>
  );
}

/* Green, yellow, red: ColorBrewer's RdYlGn reversed, as in Grafana's heat map. */
const SCALE = [[26, 152, 80], [145, 207, 96], [217, 239, 139], [254, 224, 139], [252, 141, 89], [215, 48, 39]];
function colour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (SCALE.length - 1);
  const [a, b] = [SCALE[Math.floor(at)], SCALE[Math.ceil(at)]];
  return `rgb(${a.map((c, i) => Math.round(c + (b[i] - c) * (at % 1)))})`;
}

function HeatMap({ panel, frames, range, width, height }) {
  const canvas = useRef();
  useEffect(() => {
    const context = canvas.current.getContext('2d');
    const [left, bottom] = [90, 22];
    const { min, max } = panel.options.color;
    const row = (height - bottom) / frames.length;
    const x = (time) => left + ((time - range.from) / (range.to - range.from)) * (width - left);
    context.clearRect(0, 0, width, height);
    context.font = '12px Inter, sans-serif';
    context.textBaseline = 'middle';
    frames.forEach((frame, index) => {
      const top = height - bottom - (index + 1) * row;
      const [times, values] = frame.fields.map((field) => field.values);
      const step = times.length > 1 ? Math.min(...times.slice(1).map((t, i) => t - times[i])) : 1000;
      times.forEach((time, i) => {
        if (values[i] === null) return;
        context.fillStyle = colour((values[i] - min) / (max - min));
        const from = Math.max(left, x(time - step));
        context.fillRect(from, top, Math.max(0, x(time) - from + 0.5), row > 4 ? row - 1 : row);
      });
      // Draw as many names as fit.
      if (index % Math.ceil(14 / row) || top + row / 2 < 6) return;
      context.fillStyle = '#ccccdc';
      context.textAlign = 'right';
      context.fillText(frame.fields[1].config.displayName, left - 8, top + row / 2);
    });
    context.fillStyle = '#ccccdc';
    context.textAlign = 'center';
    const minute = 60000;
    for (let t = Math.ceil(range.from / minute) * minute; t < range.to; t += minute)
      if (x(t) > left + 20 && x(t) < width - 20)
        context.fillText(new Date(t).toISOString().slice(11, 16), x(t), height - bottom / 2);
  }, [frames, width, height]);
  return <canvas ref={canvas} width={width} height={height} />;
}

const BODIES = { stat: Stat, bargauge: Gauges, table: Rows, timeseries: Curves, heatmap: HeatMap };

export function Body(properties) {
  const Kind = BODIES[properties.panel.type];
  if (properties.frames.length === 0)
    return <div style={{ padding: 16, color: '#8e8e99' }}>No data</div>;
  return <Kind {...properties} />;
}
