// Chooses the granularity or the step that a chart requests.

import type { Grain } from "../api/types";
import type { Columns } from "./columns";
import type { Range } from "./range";

/** The maximum density: lines still look exact, and sparse series keep all points. */
const POINTS_PER_PIXEL = 3;

/** The finest granularity that is kept for the range and within the density; else the coarsest kept for it; else the coarsest of those kept longest. */
export function chooseGrain(grains: Grain[], range: Range, pixels: number, now: number): number {
  const span = range.to - range.from;
  const age = now - range.from;
  const kept = grains.filter((grain) => grain.spanSeconds >= age - grain.seconds);
  const fits = kept.find((grain) => span / grain.seconds <= pixels * POINTS_PER_PIXEL);
  if (fits) return fits.seconds;
  const last = kept[kept.length - 1];
  if (last) return last.seconds;
  return grains.reduce((best, grain) => (grain.spanSeconds >= best.spanSeconds ? grain : best), grains[0] ?? { seconds: 60, spanSeconds: 0 }).seconds;
}

/** The part of a range before the first point; the whole range without points. */
export function beforeFirst({ times }: Columns, { from, to }: Range): Range {
  return { from, to: Math.min(times[0] ?? to, to) };
}

/** The coarser granularities, finest first, that have a whole bucket in a range: only these can prove that a finer one lacks points there. */
export function coarserIn(grains: Pick<Grain, "seconds">[], grain: number, { from, to }: Range): number[] {
  return grains.map(({ seconds }) => seconds).filter((seconds) => seconds > grain && (Math.ceil(from / seconds) + 1) * seconds <= to);
}

/** Whether there are points in a range. A bucket that begins or ends outside of it may have its points there. */
export function hasPointsIn({ times }: Columns, step: number, { from, to }: Range): boolean {
  return times.some((time) => time >= from && time + step <= to);
}

const STEPS_MAX = 600;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];

/** The wished step (0 for none) if the range has one, otherwise one with which it has some hundred points. */
export function stepOf({ from, to }: Range, wished: number): number {
  const span = to - from;
  if (wished > 0 && wished <= span) return wished;
  const least = span / STEPS_MAX;
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / 86400) * 86400;
}

/** The maximum number of points of a line: a year of seconds takes all of a browser's memory. */
const POINTS_MAX = 100_000;

/** The granularity, or what its points are resampled to: where the range may have too many of them, or to `stepMin` at least. */
export function resampledTo(grain: number, { from, to }: Range, stepMin = 0): number {
  // The ends of a live range have fractions.
  const least = Math.max(Math.round(to - from) / POINTS_MAX, stepMin);
  if (grain >= least) return grain;
  return STEPS.find((step) => step >= least && step % grain === 0) ?? Math.ceil(least / grain) * grain;
}
