// The query arguments for a page of metrics.

import type { Query } from "../http/url";

/** Enough for a large screen; more are loaded on scrolling. */
export const PAGE_METRICS = 100;

export interface Search {
  /** A part of the name. */
  text?: string;
  limit?: number;
  marker?: string | null;
}

export const pageQuery = (search: Search): Query => ({
  limit: search.limit ?? PAGE_METRICS,
  sort: "name:asc",
  marker: search.marker,
  name_like: search.text ? `%${likeText(search.text)}%` : null,
});

/** Escapes a LIKE pattern; words match in order, with anything between them. */
export function likeText(text: string): string {
  return text.trim().replace(/[\\%_]/g, "\\$&").replace(/\s+/g, "%");
}
