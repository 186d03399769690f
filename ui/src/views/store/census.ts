// Counts metrics by policy and resources by type, and finds silent metrics, by listing all of them.

import { get, pageOf } from "../../http/client";
import { ifStatus } from "../../http/errors";
import { pagesOf } from "../../http/pages";
import { listMetrics } from "../../api/metrics";
import { measuresOf } from "../../api/measures";
import { type Metric, grainsOf } from "../../api/types";
import { mainMethod } from "../../series/aggregation";

export interface Silent {
  metric: Metric;
  /** Seconds; `null` without a point in the searched time. */
  last: number | null;
}

export interface Census {
  metrics: number;
  byPolicy: Record<string, number>;
  byType: Record<string, number>;
  /** How many are silent, and the first of them: a store may have millions. */
  silentCount: number;
  silent: Silent[];
  /** Metrics that may be silent or not. */
  unread: number;
  isDone: boolean;
  /** Not all are counted. */
  isCut: boolean;
}

const PAGE = 1000;

/** Without a prototype: names are the users'. */
const noCounts = (): Record<string, number> => Object.create(null) as Record<string, number>;

const count = (counts: Record<string, number>, name: string) => (counts[name] = (counts[name] ?? 0) + 1);

const SILENT_LISTED_MAX = 100;

/** The number counted by default. */
export const COUNTED_DEFAULT = 3000;
/** A metric is silent without a point for this long, or for this many points of its finest granularity. */
const SILENT_S = 3600;
const SILENT_POINTS = 10;
/** The searched time, at least. */
const LOOKED_AT_S = 86400;

export async function takeCensus(most: number, signal: AbortSignal, report: (census: Census) => void): Promise<void> {
  const census: Census = { metrics: 0, byPolicy: noCounts(), byType: noCounts(), silentCount: 0, silent: [], unread: 0, isDone: false, isCut: false };
  const publish = () => !signal.aborted && report({ ...census, silent: [...census.silent] });
  for await (const page of pagesOf((marker) => listMetrics({ marker, limit: PAGE }, signal))) {
    for (const metric of page.items) count(census.byPolicy, metric.archive_policy.name);
    census.metrics += page.items.length;
    const failed = () => {
      census.unread += 1;
      return null;
    };
    const found = await Promise.all(page.items.map((metric) => silence(metric).catch(failed)));
    signal.throwIfAborted();
    const silent = found.filter((one) => one !== null);
    census.silentCount += silent.length;
    census.silent.push(...silent.slice(0, SILENT_LISTED_MAX - census.silent.length));
    publish();
    if (census.metrics < most) continue;
    census.isCut = page.marker !== null;
    break;
  }
  await countTypes(census, most, signal);
  census.isDone = true;
  publish();
}

async function countTypes(census: Census, most: number, signal: AbortSignal): Promise<void> {
  const list = async (marker: string | null) => {
    const query = { limit: PAGE, marker, attrs: ["id", "type"] };
    return pageOf(await get<{ id: string; type: string }[]>("v1/resource/generic", { query, signal }));
  };
  let resources = 0;
  for await (const page of pagesOf(list)) {
    for (const { type } of page.items) count(census.byType, type);
    resources += page.items.length;
    if (resources < most) continue;
    if (page.marker !== null) census.isCut = true;
    break;
  }
}

async function silence(metric: Metric): Promise<Silent | null> {
  const now = Math.floor(Date.now() / 60_000) * 60;
  const grains = grainsOf(metric.archive_policy);
  const fitting = grains.filter(({ seconds, spanSeconds }) => seconds <= SILENT_S && spanSeconds >= LOOKED_AT_S);
  const grain = (fitting[fitting.length - 1] ?? grains[0])?.seconds ?? 60;
  const method = mainMethod(metric.archive_policy.aggregation_methods);
  const limit = Math.max(SILENT_S, (grains[0]?.seconds ?? 0) * SILENT_POINTS);
  // A metric of one point a day may be silent for days before it counts.
  const from = now - Math.max(LOOKED_AT_S, limit + grain);
  // Deleted meanwhile, or not readable by the user.
  const found = await measuresOf({ id: metric.id, methods: [method], grain, step: grain, from, to: now + 60 }).catch(ifStatus([400, 403, 404], null));
  if (!found) return null;
  const times = found[method]?.times ?? [];
  const last = times[times.length - 1] ?? null;
  return last === null || last + grain < now - limit ? { metric, last } : null;
}
