// Metrics: pages of them, and searches by name.

import { get } from "../http/client";
import { type Search, likeText, pageQuery } from "./metric_list";
import type { Metric } from "./types";

export { likeText };

export interface Page {
  metrics: Metric[];
  /** The last metric's id, if there are more. */
  marker: string | null;
}

/** In the order of names. The server's own page limit may be lower than the requested one. */
export async function listMetrics(search: Search, signal?: AbortSignal): Promise<Page> {
  const { value, headers } = await get<Metric[]>("v1/metric", { query: pageQuery(search), signal, isUrgent: true });
  const hasMore = /rel="?next"?/.test(headers.get("Link") ?? "");
  return { metrics: value, marker: hasMore ? (value[value.length - 1]?.id ?? null) : null };
}

export async function getMetric(id: string, signal?: AbortSignal): Promise<Metric> {
  return (await get<Metric>(`v1/metric/${encodeURIComponent(id)}`, { signal })).value;
}

export const isId = (text: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text.trim());
