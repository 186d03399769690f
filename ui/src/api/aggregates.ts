// Queries across metrics: operations over all resources that a filter matches, optionally grouped.

import { type Cost, type RequestLine, post } from "../http/client";
import { isRecord } from "../http/errors";
import { type Columns, columnsOf } from "../series/columns";
import { queryTime } from "../series/range";
import type { Measure } from "./types";

export interface Query {
  operations: unknown;
  /** With a type, metrics are referred to by name among its resources; without, by id. */
  type?: string;
  search?: Record<string, unknown> | string;
  groupBy?: string[];
  grain: number | null;
  from: number;
  to: number;
  fill?: string | null;
}

export interface Result {
  /** Distinct for each series of an answer: a group without a value is not that of the text "none". */
  key: string;
  /** The path of the series in the response: group values, resource, metric, aggregate. */
  label: string;
  /** The values that the series is grouped by; `null` for none. */
  group: unknown[];
  columns: Columns;
  /** Seconds; 0 for calendar units. */
  grain: number;
  /** The series has a point at each step (`grain`) at which it has a value. */
  isStepped?: boolean;
}

export interface Answer {
  results: Result[];
  cost: Cost;
  /** What the server remarks about the result. */
  notes?: string[];
}

export function requestOf({ operations, type, search, groupBy, grain, from, to, fill }: Query): RequestLine {
  return {
    method: "POST",
    path: "v1/aggregates",
    options: {
      query: {
        granularity: grain,
        start: queryTime(from),
        stop: queryTime(to),
        groupby: groupBy,
        fill,
      },
      body: { operations, ...(type && { resource_type: type, search: search || {} }) },
    },
  };
}

interface Group {
  group: Record<string, unknown>;
  measures: { measures: unknown };
}

export async function aggregates(query: Query, signal?: AbortSignal): Promise<Answer> {
  const { path, options } = requestOf(query);
  const { value, cost } = await post<{ measures: unknown } | Group[]>(path, { ...options, signal });
  const results: Result[] = [];
  if (Array.isArray(value)) {
    for (const { group, measures } of value) {
      const values = Object.values(group);
      collect(measures.measures, [values.map((one) => String(one ?? "none")).join(", ")], values, results);
    }
  } else {
    collect(value.measures, [], [], results);
  }
  return { results, cost };
}

/** Collects the leaves of the response's tree, with the names on their path. */
function collect(tree: unknown, names: string[], group: unknown[], into: Result[]): void {
  if (Array.isArray(tree)) {
    const part = finestOf(tree as Measure[]);
    const grain = part[0]?.[1];
    into.push({
      key: JSON.stringify([names, group]), label: names.join(" ") || "result", group, columns: columnsOf(part), grain: typeof grain === "number" ? grain : 0,
    });
  } else if (isRecord(tree)) {
    for (const [name, branch] of Object.entries(tree)) collect(branch, name === "aggregated" ? names : [...names, name], group, into);
  }
}

/**
 * Without a granularity the response has all of them, from the coarsest to the finest; the finest makes the line. Resampled, all have the same
 * granularity, but each begins no later than the one before ends.
 */
function finestOf(measures: Measure[]): Measure[] {
  let begin = 0;
  measures.forEach(([time, grain], at) => {
    const before = measures[at - 1];
    if (before && (grain !== before[1] || time <= before[0])) begin = at;
  });
  return measures.slice(begin);
}
