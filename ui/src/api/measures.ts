// Measures of many metrics in few requests: what charts ask for within a moment is asked of the server together.

import { HttpError, isRecord } from "../http/errors";
import { type Cost, requestArrow } from "../http/client";
import type { Columns } from "../series/columns";
import { WideTable } from "../series/wide";
import { aTask } from "../state/task";

export interface Wanted {
  id: string;
  methods: string[];
  /** Seconds. */
  grain: number;
  from: number;
  to: number;
}

/** The columns of each method. */
export type Found = Record<string, Columns>;

interface Asked extends Wanted {
  resolve: (found: Found) => void;
  reject: (error: unknown) => void;
}

/** What one request names, and about how many points it may get: what has come is drawn while the next is on its way. */
const REFERENCES_MAX = 100;
const POINTS_MAX = 40_000;
const REFERENCES_MIN = 8;
/** So many charts of an answer are drawn and shown before the others. */
const SHOWN_FIRST = 4;

function referencesMax({ from, to, grain }: Wanted): number {
  return Math.min(REFERENCES_MAX, Math.max(REFERENCES_MIN, Math.round((POINTS_MAX * grain) / (to - from))));
}

let gathered: Asked[] = [];

/** What the last requests cost, for those who want to know. */
export const costs = { requests: 0, last: null as Cost | null };

export function measuresOf(wanted: Wanted): Promise<Found> {
  return new Promise((resolve, reject) => {
    // Charts ask for their points one after the other, without a pause.
    if (gathered.length === 0) queueMicrotask(askAll);
    gathered.push({ ...wanted, resolve, reject });
  });
}

function askAll(): void {
  const groups = new Map<string, Asked[]>();
  for (const asked of gathered) {
    const key = `${asked.grain}|${asked.from}|${asked.to}`;
    const group = groups.get(key);
    if (group) group.push(asked);
    else groups.set(key, [asked]);
  }
  gathered = [];
  for (const group of groups.values()) {
    let part: Asked[] = [];
    let references = 0;
    const most = referencesMax(group[0] as Asked);
    for (const asked of group) {
      part.push(asked);
      references += asked.methods.length;
      if (references >= most) {
        void ask(part);
        [part, references] = [[], 0];
      }
    }
    if (part.length) void ask(part);
  }
}

async function ask(all: Asked[]): Promise<void> {
  const [first] = all;
  if (!first) return;
  const references = new Map<string, [string, string]>();
  for (const { id, methods } of all) for (const method of methods) references.set(`${id} ${method}`, [id, method]);
  try {
    const reply = await requestArrow("POST", "v1/aggregates", {
      query: { form: "wide", granularity: first.grain, start: first.from.toFixed(3), stop: (first.to + first.grain).toFixed(3) },
      body: { operations: ["metric", ...references.values()] },
      isUrgent: true,
    });
    costs.requests += 1;
    costs.last = reply.cost;
    const table = new WideTable(reply.value);
    for (const [at, asked] of all.entries()) {
      if (at === SHOWN_FIRST) await aTask();
      asked.resolve(foundOf(asked, table));
    }
  } catch (error) {
    const bad = error instanceof HttpError && all.length > 1 ? refusedIds(error) : null;
    if (!bad) {
      // One metric that cannot be read must not take its neighbours along.
      if (error instanceof HttpError && all.length > 1) halves(all);
      else for (const asked of all) asked.reject(error);
      return;
    }
    const rest = all.filter((asked) => !bad.has(asked.id));
    if (rest.length === all.length) return halves(all);
    for (const asked of all) if (bad.has(asked.id)) asked.reject(error);
    void ask(rest);
  }
}

function halves(all: Asked[]): void {
  const middle = Math.ceil(all.length / 2);
  void ask(all.slice(0, middle));
  void ask(all.slice(middle));
}

/** The metrics that an error names: those that are gone, and those that lack an aggregate. */
function refusedIds(error: HttpError): Set<string> | null {
  if (!isRecord(error.description) || !Array.isArray(error.description["detail"])) return null;
  const ids = error.description["detail"].map((item: unknown) => String(Array.isArray(item) ? item[0] : item));
  return ids.length ? new Set(ids) : null;
}

function foundOf({ id, methods }: Asked, table: WideTable): Found {
  return Object.fromEntries(methods.map((method) => [method, table.columns(`${id}/${method}`)]));
}
