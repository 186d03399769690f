// The texts beside the axes.

import { format, isBytes, two } from "../series/format";

/** Axis labels show short units only; the value above the chart shows all. */
export const axisUnit = (unit: string | null): string | null => (unit && (isBytes(unit) || unit.length <= 3) ? unit : null);

/** Axis steps for bytes are powers of two, up to the largest double: without a fitting one there are no labels. */
export const BYTE_STEPS = Array.from({ length: 1044 }, (_, at) => 2 ** (at - 20));

const DIGITS_MIN = 3;
/** Of a double. */
const DIGITS_MAX = 15;

/** As few digits as make the labels distinct. `null` has none. */
export function labelsOf(splits: (number | null)[], unit: string | null): string[] {
  for (let digits = DIGITS_MIN; ; digits++) {
    const labels = splits.map((value) => (value == null ? "" : format(value, unit, digits)));
    const shown = labels.filter(Boolean);
    if (new Set(shown).size === shown.length || digits >= DIGITS_MAX) return labels;
  }
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** Hours and minutes, below a minute seconds, below a second their fraction; the date where a day begins. */
export function timesOf(splits: number[], step: number): string[] {
  const places = step < 1 ? Math.min(String(step).split(".")[1]?.length ?? 3, 3) : 0;
  return splits.map((seconds) => {
    const date = new Date(Math.round(seconds * 1000));
    const isMidnight = date.getHours() + date.getMinutes() + date.getSeconds() + date.getMilliseconds() === 0;
    if (step >= 86400 * 300) return String(date.getFullYear());
    if (step >= 86400 || isMidnight) return `${date.getDate()} ${MONTHS[date.getMonth()]}`;
    const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
    if (step >= 60) return minutes;
    const fraction = places ? `.${String(date.getMilliseconds()).padStart(3, "0").slice(0, places)}` : "";
    return `${minutes}:${two(date.getSeconds())}${fraction}`;
  });
}
