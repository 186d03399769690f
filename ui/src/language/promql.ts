// PromQL, as far as completion and error marking need it.

import type { Mistake } from "./problem";

export const AGGREGATORS = ["sum", "avg", "min", "max", "count", "stddev", "stdvar", "group", "topk", "bottomk", "quantile", "count_values"];
export const FUNCTIONS = [
  "abs", "absent", "absent_over_time", "avg_over_time", "ceil", "changes", "clamp", "clamp_max", "clamp_min", "count_over_time", "day_of_month",
  "day_of_week", "day_of_year", "days_in_month", "delta", "deriv", "exp", "floor", "histogram_quantile", "hour", "idelta", "increase", "irate", "label_join",
  "label_replace", "last_over_time", "ln", "log10", "log2", "max_over_time", "min_over_time", "minute", "month", "predict_linear", "present_over_time",
  "quantile_over_time", "rate", "resets", "round", "scalar", "sgn", "sort", "sort_desc", "sqrt", "stddev_over_time", "stdvar_over_time", "sum_over_time", "time",
  "timestamp", "vector", "year",
];
export const DURATIONS = ["1m", "5m", "15m", "1h", "6h", "1d", "7d"];

const PLAIN = /^[A-Za-z_:][\w:]*$/;

/** How an expression names a metric, and a label: others than plain names are quoted. */
export const metricOf = (name: string): string => (PLAIN.test(name) ? name : `{${JSON.stringify(name)}}`);
export const labelOf = (name: string): string => (PLAIN.test(name) ? name : JSON.stringify(name));

/** A text as it is written between these quotes. */
export function within(quote: string, text: string): string {
  if (quote === "`") return text;
  const escaped = JSON.stringify(text).slice(1, -1);
  return quote === '"' ? escaped : escaped.replace(/\\"/g, '"').replace(/'/g, "\\'");
}

const CLOSING: Record<string, string> = { "(": ")", "[": "]", "{": "}" };
const LISTS_LABELS = /\b(by|without|on|ignoring|group_left|group_right)\s*$/;

interface Open {
  bracket: string;
  at: number;
  /** Whether the parentheses hold a list of labels. */
  isLabels: boolean;
}

interface Scan {
  open: Open[];
  /** Where an unclosed text begins; -1 without. */
  text: number;
  mistakes: Mistake[];
}

/** The brackets and texts that are open at the end. */
function scan(text: string): Scan {
  const open: Open[] = [];
  const mistakes: Mistake[] = [];
  let [quote, start] = ["", -1];
  for (let at = 0; at < text.length; at++) {
    const letter = text[at] as string;
    if (quote) {
      if (letter === "\\" && quote !== "`") at += 1;
      else if (letter === quote) [quote, start] = ["", -1];
    } else if (letter === "#") {
      const end = text.indexOf("\n", at);
      at = end < 0 ? text.length : end;
    } else if (`"'\``.includes(letter)) {
      [quote, start] = [letter, at];
    } else if (letter in CLOSING) {
      open.push({ bracket: letter, at, isLabels: LISTS_LABELS.test(text.slice(0, at)) });
    } else if (")]}".includes(letter)) {
      const last = open.pop();
      if (!last || CLOSING[last.bracket] !== letter) mistakes.push({ message: "Nothing is open here", from: at, to: at + 1 });
    }
  }
  return { open, text: start, mistakes };
}

/** Finds certain errors; the server reports the rest. */
export function check(text: string): Mistake[] {
  const { open, text: start, mistakes } = scan(text);
  if (start >= 0) mistakes.push({ message: "The quotation mark is not closed", from: start, to: text.length });
  for (const { at } of open) mistakes.push({ message: "This is not closed", from: at, to: at + 1 });
  return mistakes;
}

export interface Wanted {
  kind: "expression" | "label" | "value" | "duration" | "nothing";
  /** The incomplete word, and where it begins. */
  word: string;
  from: number;
  /** The metric before the braces; empty without. */
  metric: string;
  /** Whose value may stand here. */
  label: string;
}

/** What kind of word may stand at the position. */
export function wantedAt(text: string, place: number): Wanted {
  const before = text.slice(0, place);
  const { open, text: start } = scan(before);
  const top = open[open.length - 1];
  const metric = top?.bracket === "{" ? (/([\w:.]+)\s*$/.exec(before.slice(0, top.at))?.[1] ?? "") : "";
  const of = (kind: Wanted["kind"], from: number, label = ""): Wanted => ({ kind, word: before.slice(from), from, metric, label });
  if (start >= 0) {
    const label = /([\w.]+)\s*(=~|!~|!=|=)\s*$/.exec(before.slice(0, start))?.[1];
    return top?.bracket === "{" && label ? of("value", start + 1, label) : of("nothing", place);
  }
  const from = place - (/[\w:.]*$/.exec(before)?.[0].length ?? 0);
  if (top?.bracket === "[") return of("duration", from);
  if (top?.bracket === "{") return /[{,]\s*$/.test(before.slice(0, from)) ? of("label", from) : of("nothing", from);
  if (top?.isLabels) return of("label", from);
  return /[\w)\]}"']\s+$/.test(before.slice(0, from)) || /^\d/.test(before.slice(from)) ? of("nothing", from) : of("expression", from);
}

/** How many characters the first bytes of a text are in UTF-8. */
const lengthOf = (text: string, bytes: number): number => new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, bytes)).length;

/** The position in Prometheus' error text: line and column, both from 1, the column in bytes. */
export function mistakeOf(message: string, text: string): Mistake {
  const found = /(\d+):(\d+): parse error: ([^]*)$/.exec(message);
  if (!found) return { message, from: 0, to: text.length };
  const lines = text.split("\n");
  const line = Number(found[1]) - 1;
  const before = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  const start = before + lengthOf(`${lines[line] ?? ""} `, Number(found[2]) - 1);
  const from = Math.max(0, Math.min(start, text.length - 1));
  const word = /^[\w:.]+/.exec(text.slice(from));
  return { message: found[3] as string, from, to: from + (word?.[0].length ?? 1) };
}
