// Resources, their types and their revisions.

import { type Page, get, pageOf, post } from "../http/client";
import { identity } from "../http/session";
import type { Metric, Resource, ResourceType } from "./types";

export async function listTypes(signal?: AbortSignal): Promise<ResourceType[]> {
  const { value } = await get<ResourceType[]>("v1/resource_type", { signal });
  return value.sort((a, b) => a.name.localeCompare(b.name));
}

/** A filter in the search language: as JSON, or as text. */
export type Filter = Record<string, unknown> | string;

export async function searchResources(
  type: string,
  filter: Filter,
  { limit = 100, marker, details = false, signal }: { limit?: number; marker?: string | null; details?: boolean; signal?: AbortSignal } = {},
): Promise<Page<Resource>> {
  const [text, body] = typeof filter === "string" ? [filter, undefined] : [null, filter];
  const query = { limit, marker, details: details ? "true" : null, filter: text };
  return pageOf(await post<Resource[]>(`v1/search/resource/${encodeURIComponent(type)}`, { query, body, signal }));
}

const pathOf = (type: string, id: string): string => `v1/resource/${encodeURIComponent(type)}/${encodeURIComponent(id)}`;

export async function getResource(type: string, id: string, signal?: AbortSignal): Promise<Resource> {
  return (await get<Resource>(pathOf(type, id), { signal })).value;
}

export async function getMetricsOf(type: string, id: string, signal?: AbortSignal): Promise<Metric[]> {
  return (await get<Metric[]>(`${pathOf(type, id)}/metric`, { signal, isUrgent: true })).value;
}

/** The newest revisions. */
export async function getHistory(type: string, id: string, limit: number, signal?: AbortSignal): Promise<Resource[]> {
  return (await get<Resource[]>(`${pathOf(type, id)}/history`, { query: { sort: "revision_start:desc", limit }, signal })).value;
}

/** A resource's display name. */
export function nameOf(resource: Resource): string {
  for (const key of ["display_name", "name", "host_name"]) {
    const value = resource[key];
    if (typeof value === "string" && value) return value;
  }
  return resource.original_resource_id || resource.id;
}

const known = new Map<string, { found: Promise<Resource | null>; atMs: number }>();
let wanted = new Map<string, { resolve: (resource: Resource | null) => void; reject: (error: unknown) => void }>();
const GATHER_MS = 5;
const IDS_MAX = 100;
const KNOWN_MAX = 20_000;
/** How long a resource is believed to be as it was: a page may stay open for days. */
const KNOWN_MS = 60_000;

// Another user may see others.
identity.follow(() => known.clear());

/** A resource of any type, with all its attributes; `null` if there is none that the user may see. Concurrent look-ups share a request. */
export function lookUp(id: string): Promise<Resource | null> {
  const before = known.get(id);
  if (before && performance.now() - before.atMs < KNOWN_MS) return before.found;
  const found = new Promise<Resource | null>((resolve, reject) => {
    if (wanted.size === 0) window.setTimeout(() => void lookUpAll(), GATHER_MS);
    wanted.set(id, { resolve, reject });
  });
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(id, { found, atMs: performance.now() });
  return found;
}

async function lookUpAll(): Promise<void> {
  const all = [...wanted];
  wanted = new Map();
  for (let at = 0; at < all.length; at += IDS_MAX) {
    const part = all.slice(at, at + IDS_MAX);
    try {
      const page = await searchResources("generic", { in: { id: part.map(([id]) => id) } }, { details: true, limit: IDS_MAX });
      const byId = new Map(page.items.map((resource) => [resource.id, resource]));
      for (const [id, { resolve }] of part) resolve(byId.get(id) ?? null);
    } catch (error) {
      for (const [id, { reject }] of part) {
        known.delete(id); // Look it up again next time.
        reject(error);
      }
    }
  }
}
