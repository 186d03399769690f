// Groups metrics into sections by the beginning of their names.

import type { Metric } from "../../api/types";

export interface Section {
  name: string;
  metrics: Metric[];
}

/** The number of name parts in a section's name. */
const PARTS = 2;

export function sectionsOf(metrics: Metric[]): Section[] {
  const sections = new Map<string, Metric[]>();
  for (const metric of metrics) {
    const name = prefixOf(metric.name ?? "");
    const section = sections.get(name);
    if (section) section.push(metric);
    else sections.set(name, [metric]);
  }
  return [...sections].map(([name, members]) => ({ name, metrics: members }));
}

/** `hardware.cpu` of `hardware.cpu.load.1min`; of a name with two parts the first. */
export function prefixOf(name: string): string {
  const parts = name.split(/[.@{]/);
  return parts.slice(0, Math.min(PARTS, Math.max(1, parts.length - 1))).join(".") || "without a name";
}

export type Row = { kind: "heading"; section: Section } | { kind: "cards"; metrics: Metric[] };

/** The rows of a grid with this many columns. */
export function rowsOf(sections: Section[], columns: number, isFolded: (name: string) => boolean): Row[] {
  const rows: Row[] = [];
  for (const section of sections) {
    rows.push({ kind: "heading", section });
    if (isFolded(section.name)) continue;
    for (let at = 0; at < section.metrics.length; at += columns) {
      rows.push({ kind: "cards", metrics: section.metrics.slice(at, at + columns) });
    }
  }
  return rows;
}
