// The changes between revisions.

import type { Resource } from "../../api/types";

export interface Revision {
  /** Seconds. */
  from: number;
  /** `null` for the current one. */
  to: number | null;
  changes: { name: string; before: unknown; after: unknown }[];
}

const IGNORED = new Set(["revision_start", "revision_end", "metrics"]);

/** Newest first, like the history. */
export function revisionsOf(history: Resource[]): Revision[] {
  const ordered = [...history].sort((a, b) => Date.parse(b.revision_start) - Date.parse(a.revision_start));
  return ordered.map((revision, at) => {
    const before = ordered[at + 1];
    const names = Object.keys(revision).filter((name) => !IGNORED.has(name));
    const changes = before ? names.filter((name) => JSON.stringify(revision[name]) !== JSON.stringify(before[name])) : [];
    return {
      from: Date.parse(revision.revision_start) / 1000,
      to: revision.revision_end ? Date.parse(revision.revision_end) / 1000 : null,
      changes: changes.map((name) => ({ name, before: before?.[name], after: revision[name] })),
    };
  });
}
