// Scores how much a series changed in a window, compared with the time before.

import type { Columns } from "./columns";
import type { Range } from "./range";

export interface Change {
  score: number;
  before: number | null;
  within: number | null;
}

/** The length of the baseline before the window, in lengths of the window. */
export const BASELINE_LENGTHS = 4;

export const baselineOf = ({ from, to }: Range): Range => ({ from: from - (to - from) * BASELINE_LENGTHS, to: from });

/** Changes below this are noise. */
const SCORE_MIN = 0.3;

/** `null` without points or without a change. */
export function changeOf(columns: Columns, mark: Range): Change | null {
  const before = valuesIn(columns, baselineOf(mark));
  const within = valuesIn(columns, mark);
  const [meanBefore, meanWithin] = [mean(before), mean(within)];
  if (meanBefore === null && meanWithin === null) return null;
  // A series that begins or ends in the window has no measurable change: sort it after large changes, before
  // small ones.
  if (meanBefore === null || meanWithin === null) return { score: 1, before: meanBefore, within: meanWithin };
  const distance = distanceOf(before, within);
  const spread = deviation(before, meanBefore) + 0.05 * Math.abs(meanBefore) + 1e-12;
  const score = distance * Math.log1p(Math.abs(meanWithin - meanBefore) / spread);
  return score > SCORE_MIN ? { score, before: meanBefore, within: meanWithin } : null;
}

function valuesIn({ times, values }: Columns, { from, to }: Range): number[] {
  const found: number[] = [];
  for (let at = 0; at < times.length; at++) {
    const [time, value] = [times[at] as number, values[at]];
    if (value != null && time >= from && time < to) found.push(value);
  }
  return found;
}

const mean = (values: number[]): number | null => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

const deviation = (values: number[], middle: number): number =>
  Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / values.length);

/** The Kolmogorov-Smirnov distance: the maximum difference of the two distribution functions, from 0 to 1. */
function distanceOf(one: number[], other: number[]): number {
  const [a, b] = [[...one].sort((x, y) => x - y), [...other].sort((x, y) => x - y)];
  let [i, j, farthest] = [0, 0, 0];
  while (i < a.length && j < b.length) {
    const value = Math.min(a[i] as number, b[j] as number);
    while (i < a.length && (a[i] as number) <= value) i += 1;
    while (j < b.length && (b[j] as number) <= value) j += 1;
    farthest = Math.max(farthest, Math.abs(i / a.length - j / b.length));
  }
  return farthest;
}
