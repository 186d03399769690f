// The default range of time, if the address has none: it depends on the metrics' finest granularity.

import { type Metric, grainsOf } from "../api/types";
import { lastFor } from "../series/range";
import { autoSeconds, livePeriod } from "./time";

/** Finer granularities are polled every other second when live. */
const FAST_GRAIN_S = 10;
const LOOKED_AT_MAX = 200;

/** Call this before rendering the metrics: otherwise their charts load two ranges, one after the other. */
export function setDefaultRange(metrics: Metric[]): void {
  if (metrics.length === 0) return;
  const counts = new Map<number, number>();
  for (const metric of metrics.slice(0, LOOKED_AT_MAX)) {
    const finest = grainsOf(metric.archive_policy)[0]?.seconds ?? 300;
    counts.set(finest, (counts.get(finest) ?? 0) + 1);
  }
  const [usual] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? [300];
  autoSeconds.set(lastFor(usual));
  livePeriod.set(usual <= FAST_GRAIN_S ? 2000 : 5000);
}
