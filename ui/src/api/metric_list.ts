// What a page of metrics is asked for with.

import type { Query } from "../http/url";

/** As many as a large screen shows; the next come as they come into sight. */
export const PAGE_METRICS = 100;

export interface Search {
  /** Part of the name. */
  text?: string;
  resource?: string;
  limit?: number;
  marker?: string | null;
}

export const pageQuery = (search: Search): Query => ({
  limit: search.limit ?? PAGE_METRICS,
  sort: "name:asc",
  marker: search.marker,
  name_like: search.text ? `%${likeText(search.text)}%` : null,
});

/** Words match in their order with anything between them. */
export function likeText(text: string): string {
  return text.trim().replace(/[\\%_]/g, "\\$&").replace(/\s+/g, "%");
}
