// Metrics: pages of them, and searches among their names.

import { get } from "../http/client";
import { type Search, likeText, pageQuery } from "./metric_list";
import type { Metric } from "./types";

export { likeText };

export interface Page {
  metrics: Metric[];
  /** The last one's id, where there are more. */
  marker: string | null;
}

/** By name. The server stops at a page of its own length, if that is less than asked for. */
export async function listMetrics(search: Search, signal?: AbortSignal): Promise<Page> {
  const { value, headers } = await get<Metric[]>("v1/metric", { query: pageQuery(search), signal, isUrgent: true });
  const hasMore = /rel="?next"?/.test(headers.get("Link") ?? "");
  return { metrics: value, marker: hasMore ? (value[value.length - 1]?.id ?? null) : null };
}

export async function getMetric(id: string, signal?: AbortSignal): Promise<Metric> {
  return (await get<Metric>(`v1/metric/${encodeURIComponent(id)}`, { signal })).value;
}

export const isId = (text: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text.trim());
