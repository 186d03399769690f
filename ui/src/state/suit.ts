// Where the address names no time: as much as the metrics' finest points fill.

import { type Metric, grainsOf } from "../api/types";
import { lastFor } from "../series/range";
import { autoSeconds, livePeriod } from "./time";

/** Granularities finer than this move fast enough to be looked at every other second. */
const FAST_GRAIN_S = 10;
const LOOKED_AT_MAX = 200;

/** To be called before the metrics are shown: else their charts ask for two ranges, one after the other. */
export function suitRange(metrics: Metric[]): void {
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
