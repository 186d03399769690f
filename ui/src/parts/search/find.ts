// Searches metrics by name or id, resources by name, id or attribute, and resource types.

import { likeText } from "../../api/metric_list";
import { getMetric, isId, listMetrics } from "../../api/metrics";
import { getResource, listTypes, nameOf, searchResources } from "../../api/resources";
import type { Metric, Resource, ResourceType } from "../../api/types";
import { ifStatus } from "../../http/errors";
import { linkTo } from "../../state/address";

export interface Hit {
  kind: "metric" | "resource" | "type" | "all";
  key: string;
  title: string;
  note: string;
  href: string;
  /** A metric's resource; shown by name. */
  resource?: string | null;
}

const METRICS_MAX = 8;
const RESOURCES_MAX = 6;
const TYPES_MAX = 4;
/** How many types' attributes are searched. */
const TYPES_SEARCHED_MAX = 20;

/** How long the types are cached: a page may stay open for days. */
const TYPES_CACHED_MS = 60_000;

let types: { listed: Promise<ResourceType[]>; atMs: number } | null = null;

function cachedTypes(): Promise<ResourceType[]> {
  if (types && performance.now() - types.atMs < TYPES_CACHED_MS) return types.listed;
  const own = { listed: listTypes(), atMs: performance.now() };
  types = own;
  own.listed.catch(() => {
    if (types === own) types = null;
  });
  return own.listed;
}

/** Calls `report` with all hits so far, in display order, whenever some arrive. Fails after that if a kind could not be searched. */
export async function find(text: string, signal: AbortSignal, report: (hits: Hit[]) => void): Promise<void> {
  const parts: Hit[][] = [[], [], []];
  const put = (at: number) => (hits: Hit[]) => {
    parts[at] = hits;
    if (!signal.aborted) report(parts.flat());
  };
  // What the user may not see, or a type of the cache that has changed.
  const none = ifStatus<Hit[]>([400, 403, 404], []);
  const done = await Promise.allSettled([
    metrics(text, signal).then(put(0)),
    resources(text, signal).catch(none).then(put(1)),
    cachedTypes().then((all) => typeHits(all, text)).catch(none).then(put(2)),
  ]);
  for (const part of done) if (part.status === "rejected") throw part.reason;
}

async function metrics(text: string, signal: AbortSignal): Promise<Hit[]> {
  if (isId(text)) {
    const absent = ifStatus([403, 404], null);
    const [metric, resource] = await Promise.all([
      getMetric(text.trim(), signal).then(metricHit, absent),
      getResource("generic", text.trim(), signal).then(resourceHit, absent),
    ]);
    return [metric, resource].filter((hit) => hit !== null);
  }
  const { items: found } = await listMetrics({ text, limit: METRICS_MAX }, signal);
  const all: Hit = {
    kind: "all", key: "all", title: `All metrics with “${text.trim()}”`, note: "as charts", href: linkTo(["metrics"], { q: text.trim() }),
  };
  return found.length > 1 ? [all, ...found.map(metricHit)] : found.map(metricHit);
}

function metricHit(metric: Metric): Hit {
  return {
    kind: "metric",
    key: metric.id,
    title: metric.name ?? metric.id,
    note: metric.archive_policy.name,
    resource: metric.resource_id ?? metric.resource?.id ?? null,
    href: linkTo(["chart"], { m: metric.id }),
  };
}

/** By original id, project, user, and all text attributes of the type. */
async function resources(text: string, signal: AbortSignal): Promise<Hit[]> {
  if (isId(text)) return [];
  const pattern = `%${likeText(text)}%`;
  const like = (field: string) => ({ like: { [field]: pattern } });
  const texts = (type: ResourceType) => Object.entries(type.attributes).filter(([, { type: kind }]) => kind === "string").map(([name]) => name);
  const withTexts = (await cachedTypes()).filter((type) => texts(type).length > 0).slice(0, TYPES_SEARCHED_MAX);
  const general = searchResources("generic", { or: ["original_resource_id", "project_id", "user_id"].map(like) }, { limit: RESOURCES_MAX, details: true, signal });
  const typed = withTexts.map((type) => searchResources(type.name, { or: texts(type).map(like) }, { limit: RESOURCES_MAX, signal }));
  const pages = await Promise.all([general, ...typed]);
  const found = new Map(pages.flatMap((page) => page.items).map((resource) => [resource.id, resource]));
  return [...found.values()].slice(0, RESOURCES_MAX).map((resource) => resourceHit(resource, text));
}

function resourceHit(resource: Resource, text = ""): Hit {
  const words = text.trim();
  const matching = Object.entries(resource).find(([name, value]) => words && name !== "original_resource_id" && typeof value === "string" && value.includes(words));
  return {
    kind: "resource",
    key: resource.id,
    title: nameOf(resource),
    note: [resource.type, matching && `${matching[0]} ${String(matching[1])}`].filter(Boolean).join(" · "),
    href: linkTo(["resources", resource.type, resource.id]),
  };
}

function typeHits(all: ResourceType[], text: string): Hit[] {
  const wanted = text.trim().toLowerCase();
  const matches = all.filter(({ name, attributes }) => [name, ...Object.keys(attributes)].some((word) => word.toLowerCase().includes(wanted)));
  return matches.slice(0, TYPES_MAX).map(({ name, attributes }) => ({
    kind: "type",
    key: name,
    title: name,
    note: Object.keys(attributes).join(", ") || "resource type",
    href: linkTo(["resources", name]),
  }));
}
