// Ranges of time: relative to now, or absolute.

export interface Range {
  /** Seconds since 1970. */
  from: number;
  to: number;
}

/** The range as written in the address. */
export type Span = { last: number } | Range | "auto";

const UNITS: [seconds: number, name: string][] = [[604800, "week"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

/** The largest unit of which this is a whole number. */
const wholeUnit = (seconds: number) => UNITS.find(([length]) => seconds >= length && seconds % length === 0);

/** Parses `15m`, `1h`, `2d` to seconds; `null` if invalid. */
export function secondsOfShort(text: string): number | null {
  const [, count, letter] = /^(\d+(?:\.\d+)?)\s*([smhdw])$/.exec(text.trim()) ?? [];
  const unit = UNITS.find(([, name]) => name[0] === letter);
  return unit ? Number(count) * unit[0] : null;
}

export function short(seconds: number): string {
  const [length, name] = wholeUnit(seconds) ?? [1, "second"];
  return `${Number((seconds / length).toFixed(3))}${name[0]}`;
}

/** `1 hour`, `15 minutes`. */
export function inWords(seconds: number): string {
  const [length, name] = wholeUnit(seconds) ?? [1, "second"];
  return `${Number((seconds / length).toFixed(3))} ${name}${seconds === length ? "" : "s"}`;
}

/** Rounded, in the largest unit that gives at least two. */
export function roughly(seconds: number): string {
  const [length, name] = UNITS.find(([one]) => seconds >= one * 2) ?? [1, "second"];
  return `${Math.round(seconds / length)} ${name}s`;
}

/** The ranges in the menu. */
export const LASTS = [300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400, 365 * 86400];

/** The default range is this many points of the finest granularity: minutes for one second, a day for five minutes. */
const POINTS_AT_FIRST = 300;

export function lastFor(finestSeconds: number): number {
  const wanted = finestSeconds * POINTS_AT_FIRST;
  return LASTS.find((last) => last >= wanted) ?? 7 * 86400;
}

export function spanOf(params: URLSearchParams): Span {
  const from = momentOf(params.get("from"));
  const to = momentOf(params.get("to"));
  if (from !== null && to !== null && to > from) return { from, to };
  const last = secondsOfShort(params.get("last") ?? "");
  return last && last <= MOMENT_MAX ? { last } : "auto";
}

/** The last moment of JavaScript's dates, in seconds. */
const MOMENT_MAX = 8.64e12;

/** Parses ISO 8601, or a number of seconds; `null` if invalid, or no date. */
export function momentOf(text: string | null): number | null {
  if (!text) return null;
  const number = Number(text);
  const seconds = Number.isFinite(number) ? number : Date.parse(text) / 1000;
  return Math.abs(seconds) <= MOMENT_MAX ? seconds : null;
}

/** The server's last time: nanoseconds of 64 bits. */
const SERVER_TIME_MAX = 9_223_372_036;

/** The server refuses times before 1970 and after its last one, at which it has no points either. */
const serverTime = (seconds: number): number => Math.min(Math.max(seconds, 0), SERVER_TIME_MAX);

/** For a request. */
export const queryTime = (seconds: number): string => serverTime(seconds).toFixed(3);

/** The part of a range of which the server may have points. */
export const servedPart = ({ from, to }: Range): Range => ({ from: serverTime(from), to: serverTime(to) });

/** A range that reaches beyond JavaScript's dates, moved to where they end. */
export function dated({ from, to }: Range): Range {
  const by = Math.max(-MOMENT_MAX - from, 0) + Math.min(MOMENT_MAX - to, 0);
  return { from: from + by, to: to + by };
}

/** Formats for the address: to the millisecond, without trailing zeros. */
export function printMoment(seconds: number): string {
  return new Date(Math.round(seconds * 1000)).toISOString().replace(/(:00)?\.000Z$/, "Z");
}

export function rangeOf(span: Span, autoSeconds: number, now: number): Range {
  if (span === "auto") return { from: now - autoSeconds, to: now };
  return "last" in span ? { from: now - span.last, to: now } : span;
}
