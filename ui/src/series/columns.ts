// A series as columns: ascending times in seconds, and values. `null` is a gap in the line.

import type { Measure } from "../api/types";

export interface Columns {
  times: number[];
  values: (number | null)[];
}

export const EMPTY: Columns = { times: [], values: [] };

const known = new Map<string, number>();
const KNOWN_MAX = 100_000;

/** Parses a time to seconds; cached, since times repeat across series. */
function secondsOfTime(text: string): number {
  let seconds = known.get(text);
  if (seconds === undefined) {
    seconds = Date.parse(text) / 1000;
    if (known.size >= KNOWN_MAX) known.clear();
    known.set(text, seconds);
  }
  return seconds;
}

/** The last parsed series: those of a response mostly have the same times. */
let lastRead: { measures: Measure[]; times: number[] } = { measures: [], times: [] };

function hasTimesOf(measures: Measure[], other: Measure[]): boolean {
  if (measures.length !== other.length || measures.length === 0) return false;
  for (let at = measures.length - 1; at >= 0; at--) if ((measures[at] as Measure)[0] !== (other[at] as Measure)[0]) return false;
  return true;
}

export function columnsOf(measures: Measure[]): Columns {
  if (hasTimesOf(measures, lastRead.measures)) return { times: lastRead.times, values: measures.map((measure) => measure[2]) };
  const times = new Array<number>(measures.length);
  const values = new Array<number | null>(measures.length);
  for (let at = 0; at < measures.length; at++) {
    const measure = measures[at] as Measure;
    times[at] = secondsOfTime(measure[0]);
    values[at] = measure[2];
  }
  lastRead = { measures, times };
  return { times, values };
}

/** A step longer than this many usual ones is a gap. */
const GAP_STEPS = 2.5;

/** The usual step: the median of the last ones. */
export function usualStep(times: number[], grain: number): number {
  const steps: number[] = [];
  for (let at = Math.max(1, times.length - 200); at < times.length; at++) steps.push((times[at] as number) - (times[at - 1] as number));
  steps.sort((a, b) => a - b);
  return Math.max(steps[Math.floor(steps.length / 2)] ?? grain, grain);
}

function hasGap(times: number[], longest: number): boolean {
  for (let at = 1; at < times.length; at++) if ((times[at] as number) - (times[at - 1] as number) > longest) return true;
  return false;
}

/** Inserts a `null` into each gap. If there would be a point at each step (`isStepped`), a missing one is a gap. */
export function withGaps({ times, values }: Columns, grain: number, isStepped = false): Columns {
  const longest = isStepped ? grain * 1.5 : usualStep(times, grain) * GAP_STEPS;
  if (!hasGap(times, longest)) return { times, values };
  const out: Columns = { times: [], values: [] };
  for (let at = 0; at < times.length; at++) {
    const time = times[at] as number;
    if (at > 0 && time - (times[at - 1] as number) > longest) {
      out.times.push(((times[at - 1] as number) + time) / 2);
      out.values.push(null);
    }
    out.times.push(time);
    out.values.push(values[at] as number | null);
  }
  return out;
}

/** Units of counters; without a unit more growth is required. */
const COUNTED = new Set(["B", "byte", "packet", "request", "ns", "error", "operation", "event"]);
const GROWTH_MIN = 2;
const GROWTH_MIN_WITHOUT_UNIT = 20;

/** Whether the series is a counter, such as bytes since start, which is useful only as a rate. */
export function isCounter({ values }: Columns, unit: string | null): boolean {
  if (unit && !COUNTED.has(unit)) return false;
  let [grown, resets, before] = [0, 0, null as number | null];
  for (const now of values) {
    if (now == null) continue;
    if (before !== null && now > before) grown += 1;
    if (before !== null && now < before) {
      if (now > before / 10) return false; // A reset counter starts near zero.
      resets += 1;
    }
    before = now;
  }
  return grown >= (unit ? GROWTH_MIN : GROWTH_MIN_WITHOUT_UNIT) && resets <= grown / 20;
}

/** The change per second between points; `null` at a reset. */
export function rate({ times, values }: Columns): Columns {
  const out: Columns = { times: [], values: [] };
  for (let at = 1; at < times.length; at++) {
    const [before, now] = [values[at - 1], values[at]];
    if (before == null || now == null) continue;
    const seconds = (times[at] as number) - (times[at - 1] as number);
    out.times.push(times[at] as number);
    out.values.push(now < before ? null : (now - before) / seconds);
  }
  return out;
}

export function shifted({ times, values }: Columns, seconds: number): Columns {
  return { times: times.map((time) => time + seconds), values };
}

/** Appends new points, which replace old ones at the same times; drops those before `from`. */
export function appended(old: Columns, next: Columns, from: number): Columns {
  const first = next.times[0];
  let keep = old.times.length;
  if (first !== undefined) while (keep > 0 && (old.times[keep - 1] as number) >= first) keep -= 1;
  let begin = 0;
  while (begin < keep && (old.times[begin] as number) < from) begin += 1;
  if (begin === 0 && keep === old.times.length && first === undefined) return old;
  return {
    times: old.times.slice(begin, keep).concat(next.times),
    values: old.values.slice(begin, keep).concat(next.values),
  };
}

interface Joined {
  times: number[];
  columns: (number | null | undefined)[][];
}

/** Several series on the union of their times; `undefined` where one has no point, which is no gap. */
export function joined(all: Columns[]): Joined {
  const only = all.find(({ times }) => times.length > 0);
  if (only && all.every(({ times }) => times.length === 0 || haveSameTimes(times, only.times))) {
    const none = new Array<undefined>(only.times.length).fill(undefined);
    return { times: only.times, columns: all.map(({ times, values }) => (times.length ? values : none)) };
  }
  const times = [...new Set(all.flatMap((columns) => columns.times))].sort((a, b) => a - b);
  const places = new Map(times.map((time, at) => [time, at]));
  const columns = all.map((one) => {
    const column = new Array<number | null | undefined>(times.length).fill(undefined);
    for (let at = 0; at < one.times.length; at++) column[places.get(one.times[at] as number) as number] = one.values[at] as number | null;
    return column;
  });
  return { times, columns };
}

function haveSameTimes(a: number[], b: number[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}

export interface Summary {
  count: number;
  min: number;
  max: number;
  mean: number;
  last: number;
}

export function summary({ values }: Columns): Summary | null {
  let [count, min, max, sum, last] = [0, Infinity, -Infinity, 0, NaN];
  for (const value of values) {
    if (value == null) continue;
    count += 1;
    sum += value;
    last = value;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  return count ? { count, min, max, mean: sum / count, last } : null;
}
