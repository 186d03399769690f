// A large chart of one metric: lines, legend, statistics and actions.

import { useEffect, useRef, useState } from "preact/hooks";
import { requestOf } from "../../api/aggregates";
import type { Metric } from "../../api/types";
import { Plot } from "../../chart/plot";
import { type Settings, markChange } from "../../chart/settings";
import { type MetricChart, useMetricChart } from "../../chart/use_metric_chart";
import { type Series, Table } from "../../parts/many_lines";
import { Problem } from "../../parts/problem";
import { ExportButtons } from "../../parts/export_buttons";
import type { RequestLine } from "../../http/client";
import { resamplingOf } from "../../series/aggregation";
import { usualStep } from "../../series/columns";
import { format, formatTime } from "../../series/format";
import { inWords, queryTime } from "../../series/range";
import { change, linkTo, useAddress } from "../../state/address";
import { Owner } from "../../parts/owner";
import { describe } from "../metrics/card";
import { Groups, GroupChoice } from "./groups";

const HEIGHT_PX = 340;
const HEIGHT_SMALL_PX = 240;

interface LargeChartProps {
  metric: Metric;
  settings: Settings;
  isMarking: boolean;
  colourAt: number;
  onGrain: (grain: number) => void;
}

export function LargeChart({ metric, settings, isMarking, colourAt, onGrain }: LargeChartProps) {
  const { params } = useAddress();
  const pixels = Math.min(window.innerWidth, 1700);
  const chart = useMetricChart(metric, settings, pixels, colourAt);
  const [isTable, setTable] = useState(false);
  useEffect(() => onGrain(chart.step), [chart.step]);
  const readout = useRef<HTMLParagraphElement>(null);
  const name = metric.name ?? metric.id;
  const groupBy = params.get("by");
  return (
    <section class="box large" aria-label={name} data-metric={metric.id}>
      <header>
        <div>
          <h1>{name}</h1>
          <p class="sub">
            <Owner id={metric.resource_id ?? null} />
            <span>policy {metric.archive_policy.name}</span>
            <span>{chart.isRate ? `change a second of ${chart.method}` : chart.method}, {inWords(chart.step)} a point</span>
            <code title="The metric's id">{metric.id}</code>
          </p>
        </div>
        <output class="value">{format(chart.summary?.last, chart.unit)}</output>
      </header>
      <p class="readout" ref={readout} aria-hidden="true" />
      {chart.error && <Problem text={chart.error} />}
      <Plot
        lines={chart.lines}
        range={chart.range}
        unit={chart.unit}
        height={window.innerWidth < 700 ? HEIGHT_SMALL_PX : HEIGHT_PX}
        label={describe(name, chart.summary, chart.unit)}
        mark={settings.mark}
        isMarking={isMarking}
        isLogarithmic={settings.isLogarithmic}
        onCursor={({ time, values }) => {
          if (!readout.current) return;
          const parts = chart.lines.map((line, at) => `${line.label} ${format(values[at], chart.unit, 4)}`);
          readout.current.textContent = time === null ? "" : `${formatTime(time)}   ${parts.join("   ")}`;
        }}
      />
      {chart.found && !chart.summary && <p class="nothing">No points in this time: zoom out, or choose another resolution.</p>}
      <Legend chart={chart} />
      <Figures chart={chart} />
      {settings.mark && (
        <p class="lead"><a href={linkTo(["metrics"], { ...markChange(settings.mark) })}>Which metrics changed most in the marked window?</a></p>
      )}
      <div class="actions">
        <ExportButtons name={name} series={() => namedOf(chart, name)} request={() => requestFor(metric, chart)} />
        <button type="button" aria-pressed={settings.isLogarithmic} class={settings.isLogarithmic ? "on" : ""} onClick={() => change({ scale: settings.isLogarithmic ? null : "log" })}>Log scale</button>
        <button type="button" aria-expanded={isTable} class={isTable ? "on" : ""} onClick={() => setTable(!isTable)}>Table</button>
        <span class="spring" />
        <GroupChoice metric={metric} value={groupBy} />
      </div>
      {isTable && <Table series={tableOf(chart)} unit={chart.unit} />}
      {groupBy && <Groups key={groupBy} metric={metric} by={groupBy} method={chart.method} settings={settings} ratePeriod={chart.isRate ? usualStep(chart.columns.times, chart.step) : 0} />}
    </section>
  );
}

function Legend({ chart }: { chart: MetricChart }) {
  return (
    <ul class="legend">
      {chart.lines.filter(({ role }) => role === "line" || role === "beside").map(({ label, colour, role }) => (
        <li key={label}><span class={`swatch ${role}`} style={{ background: colour, color: colour }} /> {label}{role === "line" && chart.isRate ? " a second" : ""}</li>
      ))}
      {chart.band && <li><span class="swatch band" style={{ background: chart.lines[0]?.colour ?? "" }} /> {chart.band.label}</li>}
    </ul>
  );
}

function Figures({ chart }: { chart: MetricChart }) {
  const { summary: figures, unit } = chart;
  if (!figures) return null;
  const all: [string, string][] = [
    ["last", format(figures.last, unit, 4)],
    ["least", format(figures.min, unit, 4)],
    ["mean", format(figures.mean, unit, 4)],
    ["most", format(figures.max, unit, 4)],
    ["points", String(figures.count)],
  ];
  return <dl class="figures">{all.map(([term, value]) => <div key={term}><dt>{term}</dt><dd>{value}</dd></div>)}</dl>;
}

const tableOf = (chart: MetricChart): Series[] =>
  chart.lines.map((line) => ({ key: line.label, label: line.label, columns: line.columns, grain: chart.step }));

const namedOf = (chart: MetricChart, name: string) => chart.lines.map((line) => ({ label: `${name} ${line.label}`, columns: line.columns }));

function requestFor(metric: Metric, { method, grain, step, range }: MetricChart): RequestLine {
  if (step > grain) {
    const operations = ["resample", resamplingOf(method), step, ["metric", metric.id, method]];
    // As the chart loads them: the buckets at the ends of the range have all their points.
    return requestOf({ operations, grain, from: range.from - step, to: range.to + step });
  }
  return {
    method: "GET",
    path: `v1/metric/${metric.id}/measures`,
    options: { query: { aggregation: method, granularity: grain, start: queryTime(range.from), stop: queryTime(range.to) } },
  };
}
