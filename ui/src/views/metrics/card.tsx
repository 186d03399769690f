// A small chart of one metric, with its name and its value: the last, or the one under the cursor.

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Metric } from "../../api/types";
import { Plot } from "../../chart/plot";
import { markChange, type Settings } from "../../chart/settings";
import { useMetricChart } from "../../chart/use_metric_chart";
import { prefixOf } from "./groups";
import { Owner } from "../../parts/owner";
import { format } from "../../series/format";
import { inWords } from "../../series/range";
import { linkTo } from "../../state/address";

export const CARD_HEIGHT = 178;
const PLOT_HEIGHT = 122;
/** Padding and border of a card. */
const SIDES_PX = 22;

interface CardProps {
  metric: Metric;
  settings: Settings;
  pixels: number;
  isMarking: boolean;
  /** An additional text beside the name. */
  note: string | null;
  /** Called when there are points, or none. */
  onLoaded: () => void;
}

export function Card({ metric, settings, pixels, isMarking, note, onLoaded }: CardProps) {
  const chart = useMetricChart(metric, settings, pixels);
  useLayoutEffect(() => {
    if (!chart.isLoading) onLoaded();
  }, [chart.isLoading]);
  const value = useRef<HTMLOutputElement>(null);
  const last = format(chart.summary?.last, chart.unit);
  const isUnder = useRef(false);
  useLayoutEffect(() => {
    if (value.current && !isUnder.current) value.current.textContent = last;
  }, [last]);
  const name = metric.name ?? metric.id;
  const prefix = `${prefixOf(name)}.`;
  const common = name.startsWith(prefix) ? prefix : "";
  const label = describe(name, chart.summary, chart.unit);
  return (
    <article class={`card${chart.isLoading && !chart.found ? " loading" : ""}`} data-metric={metric.id}>
      <header>
        <h3>
          <a href={linkTo(["chart"], { m: metric.id, ...chartParams(settings) })} title={name}>
            <bdi><span class="common">{common}</span>{name.slice(common.length)}</bdi>
          </a>
        </h3>
        <output ref={value} class="value" />
      </header>
      <p class="sub">
        <Owner id={metric.resource_id ?? null} />
        {note ? <span>{note}</span> : <span>{chart.isRate ? "per second" : chart.method} · {inWords(chart.step)}</span>}
      </p>
      {chart.error ? (
        <p class="problem" role="alert">{chart.error}</p>
      ) : (
        <Plot
          lines={chart.lines}
          range={chart.range}
          unit={chart.unit}
          height={PLOT_HEIGHT}
          width={pixels - SIDES_PX}
          isSmall
          label={label}
          mark={settings.mark}
          isMarking={isMarking}
          onCursor={({ time, values }) => {
            if (time === null && !isUnder.current) return;
            isUnder.current = time !== null;
            if (value.current) value.current.textContent = time === null ? last : format(values[0], chart.unit);
          }}
        />
      )}
      {!chart.error && chart.found && !chart.summary && <p class="nothing">no points in this time</p>}
    </article>
  );
}

/** The parameters passed on from a small chart to the large one. */
function chartParams({ method, grain, band, besideSeconds, rate, mark }: Settings) {
  return {
    agg: method,
    gran: grain ? String(grain) : null,
    band,
    beside: besideSeconds ? `${besideSeconds}s` : null,
    rate: rate === "auto" ? null : rate,
    ...markChange(mark),
  };
}

export function describe(name: string, summary: { min: number; max: number; last: number } | null, unit: string | null): string {
  if (!summary) return `Chart of ${name}: no points`;
  return `Chart of ${name}: last ${format(summary.last, unit)}, from ${format(summary.min, unit)} to ${format(summary.max, unit)}`;
}
