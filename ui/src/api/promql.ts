// Queries in PromQL, by Prometheus' API.

import { type RequestLine, get } from "../http/client";
import type { Answer, Result } from "./aggregates";

export interface RangeQuery {
  expression: string;
  from: number;
  to: number;
  /** Seconds. */
  step: number;
}

interface Success<T> {
  data: T;
  warnings?: string[];
  infos?: string[];
}

interface Matrix {
  result: { metric: Record<string, string>; values: [number, string][] }[];
}

export const requestOf = ({ expression, from, to, step }: RangeQuery): RequestLine => ({
  method: "GET",
  // Whole steps, so that a live chart's points do not move.
  path: "api/v1/query_range",
  options: { query: { query: expression, start: Math.floor(from / step) * step, end: Math.floor(to / step) * step, step } },
});

export async function queryRange(query: RangeQuery, signal?: AbortSignal): Promise<Answer> {
  const { path, options } = requestOf(query);
  const { value, cost } = await get<Success<Matrix>>(path, { ...options, signal });
  const results = value.data.result.map(({ metric, values }): Result => {
    const columns = { times: values.map(([time]) => time), values: values.map(([, text]) => numberOf(text)) };
    return { key: labelOf(metric), label: labelOf(metric), group: [], columns, grain: query.step, isStepped: true };
  });
  const notes = [...(value.warnings ?? []), ...(value.infos ?? [])];
  return { results, cost, notes };
}

/** `null` for what a chart cannot show: NaN and infinities. */
function numberOf(text: string): number | null {
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}

/** A series as PromQL writes it. */
function labelOf({ __name__: name = "", ...labels }: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${name}${pairs.length ? `{${pairs.join(", ")}}` : ""}` || "result";
}

const NAMES_MAX = 200;

/** `match`: the operator and text that the metric's name is compared with; none without a text. */
async function names(path: string, match: string, text: string): Promise<string[]> {
  const query = { "match[]": text ? [`{__name__${match}${JSON.stringify(text)}}`] : null, limit: NAMES_MAX };
  return (await get<Success<string[]>>(path, { query })).value.data;
}

export const labelNames = (metric: string): Promise<string[]> => names("api/v1/labels", "=", metric);
export const labelValues = (label: string, metric: string): Promise<string[]> => names(`api/v1/label/${encodeURIComponent(label)}/values`, "=", metric);

/** Names of metrics that contain a word. */
export const metricNames = (word: string): Promise<string[]> => names("api/v1/label/__name__/values", "=~", word && `.*${word.replace(/[.]/g, "\\.")}.*`);
