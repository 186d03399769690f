// Metrics: pages of them, and searches by name.

import { type Page, get, pageOf } from "../http/client";
import { type Search, pageQuery } from "./metric_list";
import type { Metric } from "./types";

/** In the order of names. */
export async function listMetrics(search: Search, signal?: AbortSignal): Promise<Page<Metric>> {
  return pageOf(await get<Metric[]>("v1/metric", { query: pageQuery(search), signal, isUrgent: true }));
}

export async function getMetric(id: string, signal?: AbortSignal): Promise<Metric> {
  return (await get<Metric>(`v1/metric/${encodeURIComponent(id)}`, { signal })).value;
}

export const isId = (text: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text.trim());
