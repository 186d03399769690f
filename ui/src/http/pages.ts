// Listings, page by page to their ends.

import type { Page } from "./client";
import { HttpError } from "./errors";

type List<T> = (marker: string | null) => Promise<Page<T>>;

/**
 * The pages of a listing. The item that marks the end of a page may be deleted before the next page is asked for: then an earlier one marks the
 * place, and what was given before is left out.
 */
export async function* pagesOf<T extends { id: string }>(list: List<T>): AsyncGenerator<Page<T>> {
  let given = new Set<string>();
  let next: Page<T> | null = await list(null);
  while (next) {
    const { items, marker }: Page<T> = next;
    yield { items: items.filter(({ id }) => !given.has(id)), marker };
    given = new Set(items.map(({ id }) => id));
    next = marker === null ? null : await pageBehind(items, list);
  }
}

/** Steps back twice as far each time: few requests, however many items are deleted. */
async function pageBehind<T extends { id: string }>(items: T[], list: List<T>): Promise<Page<T>> {
  for (let back = 1; ; back *= 2) {
    const item = items[Math.max(0, items.length - back)] as T;
    try {
      return await list(item.id);
    } catch (error) {
      const isDeleted = error instanceof HttpError && error.status === 400 && error.message.includes("Invalid marker");
      if (!isDeleted || back >= items.length) throw error;
    }
  }
}
