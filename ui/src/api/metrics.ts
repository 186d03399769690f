// Metrics: pages of them, and searches among their names.

import { type Options, get } from "../http/client";
import type { Metric } from "./types";

export interface Page {
  metrics: Metric[];
  /** The last one's id, where there are more. */
  marker: string | null;
}

/** As many as a large screen shows; the next come as they come into sight. */
export const PAGE_METRICS = 100;

export interface Search {
  /** Part of the name. */
  text?: string;
  resource?: string;
  limit?: number;
  marker?: string | null;
}

/** By name. The server stops at a page of its own length, if that is less than asked for. */
export async function listMetrics(search: Search, signal?: AbortSignal): Promise<Page> {
  const limit = search.limit ?? PAGE_METRICS;
  const query: Options["query"] = {
    limit,
    sort: "name:asc",
    marker: search.marker,
    name_like: search.text ? `%${likeText(search.text)}%` : null,
  };
  const { value, headers } = await get<Metric[]>("v1/metric", { query, signal, isUrgent: true });
  const hasMore = /rel="?next"?/.test(headers.get("Link") ?? "");
  return { metrics: value, marker: hasMore ? (value[value.length - 1]?.id ?? null) : null };
}

/** Words match in their order with anything between them. */
export function likeText(text: string): string {
  return text.trim().replace(/[\\%_]/g, "\\$&").replace(/\s+/g, "%");
}

export async function getMetric(id: string, signal?: AbortSignal): Promise<Metric> {
  return (await get<Metric>(`v1/metric/${encodeURIComponent(id)}`, { signal })).value;
}

export const isId = (text: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text.trim());
