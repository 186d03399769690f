// Which of a policy's granularities a chart asks for.

import type { Grain } from "../api/types";
import type { Range } from "./range";

/** Points that a pixel may stand for: lines are still exact to the eye, and sparse series keep what they have. */
const POINTS_PER_PIXEL = 3;

/** The finest that is kept for so long and makes no more points than pixels can show; else the longest kept. */
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
