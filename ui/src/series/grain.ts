// Chooses the granularity that a chart requests.

import type { Grain } from "../api/types";
import type { Range } from "./range";

/** The maximum density: lines still look exact, and sparse series keep all points. */
const POINTS_PER_PIXEL = 3;

/** The finest granularity that is kept for the range and within the density; else the coarsest kept for it; else the one kept longest. */
export function chooseGrain(grains: Grain[], range: Range, pixels: number, now: number): number {
  const span = range.to - range.from;
  const age = now - range.from;
  const kept = grains.filter((grain) => grain.spanSeconds >= age - grain.seconds);
  const fits = kept.find((grain) => span / grain.seconds <= pixels * POINTS_PER_PIXEL);
  if (fits) return fits.seconds;
  const last = kept[kept.length - 1];
  if (last) return last.seconds;
  return grains.reduce((best, grain) => (grain.spanSeconds > best.spanSeconds ? grain : best), grains[0] ?? { seconds: 60, spanSeconds: 0 }).seconds;
}
