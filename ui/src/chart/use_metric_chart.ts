// A metric as lines: its aggregate, the band around it, and the same range in the past.

import { useMemo } from "preact/hooks";
import { type Metric, grainsOf } from "../api/types";
import { type Band, bandsOf, isLevel, mainMethod } from "../series/aggregation";
import { type Columns, EMPTY, isCounter, rate, shifted, summary, type Summary, withGaps } from "../series/columns";
import { unitOf } from "../series/format";
import { chooseGrain, resampledTo } from "../series/grain";
import { type Range, inWords } from "../series/range";
import { useColumns } from "../series/use_columns";
import { useReachingColumns } from "../series/use_reaching_columns";
import type { Found } from "../api/measures";
import { useCell } from "../state/cell";
import { lineColour, theme } from "../state/theme";
import { useChosenRange } from "../state/time";
import type { Line } from "./plot";
import type { Settings } from "./settings";

export interface MetricChart {
  lines: Line[];
  range: Range;
  method: string;
  /** The stored granularity, and what its points are resampled to. */
  grain: number;
  step: number;
  band: Band | null;
  unit: string | null;
  isRate: boolean;
  summary: Summary | null;
  /** The points of the line. */
  columns: Columns;
  found: Found | null;
  error: string | null;
  isLoading: boolean;
}

/** The chosen band; by default the first one for mean, median and last, none for other aggregates. */
function bandOf(methods: string[], method: string, wished: string | null): Band | null {
  if (wished === "none") return null;
  const bands = bandsOf(methods);
  if (wished) return bands.find(({ low, high }) => `${low},${high}` === wished) ?? null;
  return ["mean", "median", "last"].includes(method) ? (bands[0] ?? null) : null;
}

/** Beyond this density the line itself is as wide as the band. */
const BAND_POINTS_PER_PIXEL_MAX = 1.5;

const NOTHING_YET = { lines: [] as Line[], isRate: false, columns: EMPTY, summary: null };

export function useMetricChart(metric: Metric, settings: Settings, pixels: number, colourAt = 0): MetricChart {
  const range = useChosenRange();
  const look = useCell(theme);
  const policy = metric.archive_policy;
  const grains = useMemo(() => grainsOf(policy), [policy]);
  const method = mainMethod(policy.aggregation_methods, settings.method);
  const wished = grains.find(({ seconds }) => seconds === settings.grain)?.seconds;
  const now = Date.now() / 1000;
  const isFixed = wished !== undefined;
  const fitting = wished ?? chooseGrain(grains, range, pixels, now);
  const { loaded: main, grain } = useReachingColumns({ id: metric.id, method, grains, fitting, isFixed });
  const isDense = (range.to - range.from) / grain > pixels * BAND_POINTS_PER_PIXEL_MAX;
  const band = isDense && settings.band === null ? null : bandOf(policy.aggregation_methods, method, settings.band);
  const edges = useColumns({ id: metric.id, methods: band ? [band.low, band.high] : [], grain, isWanted: main.found !== null });
  const { besideSeconds } = settings;
  const past = { from: range.from - besideSeconds, to: range.to - besideSeconds };
  const pastGrain = wished ?? chooseGrain(grains, past, pixels, now);
  const { loaded: beside } = useReachingColumns({
    id: metric.id, method, grains, fitting: pastGrain, isFixed, pastSeconds: besideSeconds, isWanted: besideSeconds > 0,
  });

  const made = useMemo(() => {
    if (!main.found) return NOTHING_YET;
    const stored = main.found[method] ?? EMPTY;
    const isRate = settings.rate === "on" || (settings.rate === "auto" && isLevel(method) && isCounter(stored, metric.unit));
    const shownOf = (columns: Columns, step: number) => withGaps(isRate ? rate(columns) : columns, step);
    const colour = lineColour(colourAt);
    const shown = shownOf(stored, main.grain);
    const lines: Line[] = [{ label: method, colour, columns: shown, role: "line" }];
    // The band is loaded after its line; the chart already reserves its series.
    if (band && !isRate) {
      lines.push({ label: band.low, colour, columns: withGaps(edges.found?.[band.low] ?? EMPTY, edges.grain), role: "low" });
      lines.push({ label: band.high, colour, columns: withGaps(edges.found?.[band.high] ?? EMPTY, edges.grain), role: "high" });
    }
    if (besideSeconds > 0) {
      const columns = shifted(shownOf(beside.found?.[method] ?? EMPTY, beside.grain), besideSeconds);
      lines.push({ label: `${inWords(besideSeconds)} before`, colour: lineColour(colourAt + 1), columns, role: "beside" });
    }
    return { lines, isRate, columns: shown, summary: summary(shown) };
  }, [main.found, edges.found, beside.found, method, band?.low, band?.high, settings.rate, besideSeconds, look, colourAt, metric.unit]);

  return {
    ...made,
    range: main.range,
    method,
    grain,
    step: resampledTo(grain, range),
    band: made.isRate ? null : band,
    unit: unitOf(metric.unit, method, made.isRate),
    found: main.found,
    error: main.error ?? edges.error ?? beside.error,
    isLoading: main.isLoading,
  };
}
