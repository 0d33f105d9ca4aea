/* The type of our Grafana dashboards: Grafana's own types, plus the options and
 * custom field configuration of each kind of panel, which Grafana's type of a
 * dashboard does not specify. */
import { Dashboard, Panel, RowPanel } from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';
import { FieldConfig as HeatmapField, Options as Heatmap } from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import { Options as Stat } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import { Options as Table } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import { Options as Text } from '@grafana/schema/dist/esm/raw/composable/text/panelcfg/x/TextPanelCfg_types.gen';
import { FieldConfig as TimeSeriesField, Options as TimeSeries } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

type Config = NonNullable<Panel['fieldConfig']>;
type PanelOf<Kind extends string, Options, Custom> = Omit<Panel, 'type' | 'options' | 'fieldConfig'> & {
  type: Kind;
  options: Options;
  fieldConfig: Omit<Config, 'defaults'> & { defaults: Omit<Config['defaults'], 'custom'> & { custom?: Custom } };
};
type AnyPanel =
  | PanelOf<'stat', Stat, never>
  | PanelOf<'text', Partial<Text>, never>
  | PanelOf<'table', Table, never>
  | PanelOf<'heatmap', Partial<Heatmap>, HeatmapField>
  | PanelOf<'timeseries', TimeSeries, TimeSeriesField>;
/* Grafana's type of an annotation has only the target of Grafana's own data source. */
type Annotation = Omit<NonNullable<NonNullable<Dashboard['annotations']>['list']>[number], 'target'> & {
  target: { refId: string; fromAnnotations: boolean } & ({ expr: string } | { target: string } | { query: string; queryType: 'tags' });
};
export type PercoreDashboard = Omit<Dashboard, 'panels' | 'annotations'> & {
  annotations: { list: Annotation[] };
  panels: Array<AnyPanel | (Omit<RowPanel, 'panels'> & { panels: AnyPanel[] })>;
};
