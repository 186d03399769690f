// Batches requests for measures: charts that sendBatch at the same moment share a request.

import { HttpError, explain, isRecord } from "../http/errors";
import { requestArrow, returns } from "../http/client";
import { identity } from "../http/session";
import { resamplingOf } from "../series/aggregation";
import type { Columns } from "../series/columns";
import { queryTime } from "../series/range";
import { WideTable } from "../series/wide";
import { nextPiece } from "../state/task";

export interface Wanted {
  id: string;
  methods: string[];
  /** Seconds. */
  grain: number;
  /** Seconds; what the server resamples the points to, if it is more than the granularity. */
  step: number;
  from: number;
  to: number;
  /** Whether the chart is shown already, and only has new points to draw: that is spread over frames. */
  isUpdate?: boolean;
  /** Aborted once the answer is no longer of use. */
  signal?: AbortSignal | undefined;
}

/** Columns by method. */
export type Found = Record<string, Columns>;

interface PendingRequest extends Wanted {
  resolve: (found: Found) => void;
  reject: (error: unknown) => void;
}

/** Limits on a batch: series, and about how many points. The first batches are drawn while the next are loading. */
const REFERENCES_MAX = 100;
const POINTS_MAX = 80_000;
const REFERENCES_MIN = 8;

function referencesMax({ from, to, grain, step }: Wanted): number {
  if (step > grain) return 1; // In a common table, a series without a point at another one's time would have no value for the step.
  return Math.min(REFERENCES_MAX, Math.max(REFERENCES_MIN, Math.round((POINTS_MAX * grain) / (to - from))));
}

/**
 * The answers that say nothing of the metrics: of a log-in, a limit, a busy server, or a proxy whose server is away. Halves would get them too,
 * twice as many requests as there are metrics.
 */
const REFUSES_ALL = new Set([401, 429, 502, 503, 504]);

/** A busy server is asked again after these pauses; only the first two unless other queries hold all the points that it has room for. */
const PAUSES_MS = [1000, 2000, 4000, 8000];
const PAUSES_WITHOUT_QUERIES = 2;
const HOLDS_ALL = /too many large queries/;

/**
 * What an answer refused of single metrics, such as damaged ones. It names one of them: their batch is asked for again once for each, and a live
 * chart asks every few seconds.
 */
const refusals = new Map<string, { error: unknown; from: number; to: number; atMs: number }>();
/** For how long a refusal is believed, and by how much the range may have moved meanwhile. */
const BELIEVED_MS = 60_000;
const REFUSALS_MAX = 10_000;

for (const changed of [returns, identity]) changed.follow(() => refusals.clear());

const keyOf = ({ id, methods, grain }: Wanted): string => `${id} ${grain} ${methods.join()}`;

function refuse(pending: PendingRequest, error: unknown): void {
  if (refusals.size >= REFUSALS_MAX) refusals.clear();
  refusals.set(keyOf(pending), { error, from: pending.from, to: pending.to, atMs: performance.now() });
  pending.reject(error);
}

/** The error that was the answer to nearly the same request a moment ago. */
function refusalOf(wanted: Wanted): unknown {
  const found = refusals.get(keyOf(wanted));
  if (!found || performance.now() - found.atMs > BELIEVED_MS) return null;
  const movedS = Math.max(Math.abs(wanted.from - found.from), Math.abs(wanted.to - found.to));
  return movedS * 1000 <= BELIEVED_MS ? found.error : null;
}

let waiting: PendingRequest[] = [];

export function measuresOf(wanted: Wanted): Promise<Found> {
  const refusal = refusalOf(wanted);
  if (refusal !== null) return Promise.reject(refusal);
  if (wanted.step > wanted.grain && wanted.methods.length > 1) {
    return Promise.all(wanted.methods.map((method) => measuresOf({ ...wanted, methods: [method] }))).then((all) => Object.assign({}, ...all) as Found);
  }
  return new Promise((resolve, reject) => {
    // Charts ask for their points in a row within one task.
    if (waiting.length === 0) queueMicrotask(sendAll);
    waiting.push({ ...wanted, resolve, reject });
  });
}

function sendAll(): void {
  // What a chart wants follows one another, so that it is drawn once.
  const places = new Map([...new Set(waiting.map(({ id }) => id))].map((id, at) => [id, at]));
  waiting.sort((a, b) => (places.get(a.id) as number) - (places.get(b.id) as number));
  const groups = new Map<string, PendingRequest[]>();
  for (const pending of waiting) {
    const key = `${pending.grain}|${pending.step}|${pending.from}|${pending.to}`;
    const group = groups.get(key);
    if (group) group.push(pending);
    else groups.set(key, [pending]);
  }
  waiting = [];
  for (const group of groups.values()) {
    let part: PendingRequest[] = [];
    const parts = [part];
    let references = 0;
    const first = group[0] as PendingRequest;
    const most = referencesMax(first);
    for (const pending of group) {
      if (references >= most) {
        [part, references] = [[], 0];
        parts.push(part);
      }
      part.push(pending);
      references += pending.methods.length;
    }
    if (first.step > first.grain) inTurn = [...parts, ...inTurn];
    else for (const each of parts) void sendBatch(each);
  }
  void sendInTurn();
}

/**
 * Resampled batches, the newest wave first: the one before may be of a range that is no longer shown. The server reads all points of a line, and all
 * of its queries together may hold those of two years of seconds. One at a time leaves room for others.
 */
let inTurn: PendingRequest[][] = [];
let isInTurn = false;

async function sendInTurn(): Promise<void> {
  if (isInTurn) return;
  isInTurn = true;
  for (let next = inTurn.shift(); next; next = inTurn.shift()) await sendBatch(next);
  isInTurn = false;
}

/** Rejects what nobody wants any more, and returns the others. */
function stillWanted(all: PendingRequest[]): PendingRequest[] {
  return all.filter(({ signal, reject }) => {
    if (signal?.aborted) reject(signal.reason);
    return !signal?.aborted;
  });
}

/** Aborted once all of these are: one that is still wanted needs the request that they share. */
function commonSignal(all: PendingRequest[]): AbortSignal {
  const controller = new AbortController();
  const check = () => all.every(({ signal }) => signal?.aborted) && controller.abort();
  for (const { signal } of all) signal?.addEventListener("abort", check);
  return controller.signal;
}

/** `pauses`: how often a busy server was asked before. */
async function sendBatch(asked: PendingRequest[], pauses = 0): Promise<void> {
  const all = stillWanted(asked);
  const [first] = all;
  if (!first) return;
  const references = new Map<string, [string, string]>();
  for (const { id, methods } of all) for (const method of methods) references.set(`${id} ${method}`, [id, method]);
  const metrics = ["metric", ...references.values()];
  const { grain, step, from, to, methods: [method = ""] } = first;
  try {
    const reply = await requestArrow("POST", "v1/aggregates", {
      query: { form: "wide", granularity: grain, start: queryTime(from), stop: queryTime(to + step) },
      body: { operations: step > grain ? ["resample", resamplingOf(method), step, metrics] : metrics },
      isUrgent: true,
      signal: commonSignal(all),
    });
    const table = new WideTable(reply.value);
    for (const [at, pending] of all.entries()) {
      pending.resolve(foundOf(pending, table));
      if (pending.isUpdate && all[at + 1]?.id !== pending.id) await nextPiece();
    }
  } catch (error) {
    await sendAgain(all, error, pauses);
  }
}

/** One unreadable metric must not fail the others of its batch. */
async function sendAgain(all: PendingRequest[], error: unknown, pauses: number): Promise<void> {
  const status = error instanceof HttpError ? error.status : 0;
  const bad = error instanceof HttpError ? refusedIds(error) : new Set<string>();
  const rest = all.filter((pending) => !bad.has(pending.id));
  const pauseMs = pauses < PAUSES_WITHOUT_QUERIES || HOLDS_ALL.test(explain(error)) ? PAUSES_MS[pauses] : undefined;
  if (rest.length < all.length) {
    for (const pending of all) if (bad.has(pending.id)) refuse(pending, error);
    await sendBatch(rest);
  } else if (status === 503 && pauseMs !== undefined) {
    await new Promise((done) => window.setTimeout(done, pauseMs));
    await sendBatch(all, pauses + 1);
  } else if (status > 0 && all.length > 1 && !REFUSES_ALL.has(status)) {
    const middle = Math.ceil(all.length / 2);
    await Promise.all([sendBatch(all.slice(0, middle)), sendBatch(all.slice(middle))]);
  } else {
    for (const pending of all) pending.reject(error);
  }
}

const ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

/** The metrics that an error names: deleted and damaged ones, and those that lack an aggregate. */
function refusedIds({ message, description }: HttpError): Set<string> {
  const detail = isRecord(description) && Array.isArray(description["detail"]) ? description["detail"] : [];
  return new Set([...(message.match(ID) ?? []), ...detail.map((item: unknown) => String(Array.isArray(item) ? item[0] : item))]);
}

function foundOf({ id, methods }: PendingRequest, table: WideTable): Found {
  return Object.fromEntries(methods.map((method) => [method, table.columns(`${id}/${method}`)]));
}
