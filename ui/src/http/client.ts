// Requests to the server that the page came from: at most so many at a time, with who asks, and with what they cost.

import { Cell } from "../state/cell";
import { GoneError, errorOf, isAborted } from "./errors";
import { ACCEPT_JSON, early } from "./early";
import { identity, refused, settings, someone } from "./session";
import { type Query, urlOf } from "./url";

/** Browsers open six connections to a host; one more would wait there, where it cannot be taken back. */
const RUNNING_MAX = 6;

export interface Cost {
  /** Until the first byte of the answer. */
  waitedMs: number;
  /** Until its last byte, and the reading of its JSON. */
  readMs: number;
  bytes: number;
}

export interface Reply<T> {
  value: T;
  headers: Headers;
  cost: Cost;
}

export interface Options {
  query?: Query | undefined;
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal | undefined;
  /** Also when others wait: what the user looks at comes before what he may look at next. */
  isUrgent?: boolean;
}

/** Since when the server has not answered, in ms; `null` while it does. */
export const goneSince = new Cell<number | null>(null);

/** How often it has come back: what failed meanwhile is asked again. */
export const returns = new Cell(0);

const PROBE_PERIOD_MS = 2000;

/** Also where nothing moves by itself the page notices that the server is back. */
async function probe(): Promise<void> {
  try {
    await fetch("healthcheck", { credentials: "omit", cache: "no-store" });
    answered();
  } catch {
    window.setTimeout(() => void probe(), PROBE_PERIOD_MS);
  }
}

function answered(): void {
  if (goneSince.value === null) return;
  goneSince.set(null);
  returns.set(returns.value + 1);
}

const waiting: { start: () => void; isUrgent: boolean }[] = [];
let running = 0;

function turn(isUrgent: boolean): Promise<void> {
  if (running < RUNNING_MAX) {
    running += 1;
    return Promise.resolve();
  }
  return new Promise((start) => {
    const at = isUrgent ? waiting.findIndex((other) => !other.isUrgent) : -1;
    waiting.splice(at < 0 ? waiting.length : at, 0, { start, isUrgent });
  });
}

function leave(): void {
  const next = waiting.shift();
  if (next) next.start();
  else running -= 1;
}

export async function request<T>(method: string, path: string, options: Options = {}): Promise<Reply<T>> {
  const reply = await requestText(method, path, options);
  const before = performance.now();
  const value = JSON.parse(reply.value || "null") as T;
  reply.cost.readMs += performance.now() - before;
  return { ...reply, value };
}

export const requestText = (method: string, path: string, options: Options = {}): Promise<Reply<string>> =>
  asked(method, path, options, ACCEPT_JSON, (answer) => answer.text(), (text) => text.length);

/** An answer of one media type, as it comes. */
export const requestBlob = (method: string, path: string, accept: string, options: Options = {}): Promise<Reply<Blob>> =>
  asked(method, path, options, accept, (answer) => answer.blob(), (blob) => blob.size);

/** An answer in Arrow's format. */
export const requestArrow = (method: string, path: string, options: Options = {}): Promise<Reply<ArrayBuffer>> =>
  asked(method, path, options, "application/vnd.apache.arrow.stream", (answer) => answer.arrayBuffer(), ({ byteLength }) => byteLength);

async function asked<T>(
  method: string, path: string, options: Options, accept: string, read: (answer: Response) => Promise<T>, size: (value: T) => number,
): Promise<Reply<T>> {
  const { query, body, signal, isUrgent = false } = options;
  for (;;) {
    const who = await someone(signal);
    await turn(isUrgent);
    try {
      signal?.throwIfAborted();
      const began = performance.now();
      const answer = await sent(urlOf(path, query), {
        method,
        headers: {
          Accept: accept,
          ...(body !== undefined && { "Content-Type": "application/json" }),
          ...who.headers,
        },
        credentials: settings.auth.mode === "remoteuser" ? "same-origin" : "omit",
        cache: "no-store",
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal && { signal }),
      });
      const waitedMs = performance.now() - began;
      signal?.throwIfAborted();
      if (answer.status === 401) {
        refused(who, identity.value ? "Your log-in has ended." : "");
        if (settings.auth.mode !== "remoteuser") continue;
      }
      if (!answer.ok) throw errorOf(answer.status, await whole(answer.text()));
      const value = await whole(read(answer));
      const readMs = performance.now() - began - waitedMs;
      return { value, headers: answer.headers, cost: { waitedMs, readMs, bytes: size(value) } };
    } finally {
      leave();
    }
  }
}

async function sent(url: string, init: RequestInit): Promise<Response> {
  try {
    const answer = await (early(url, init) ?? fetch(url, init));
    answered();
    return answer;
  } catch (error) {
    throw gone(error);
  }
}

async function whole<T>(body: Promise<T>): Promise<T> {
  try {
    return await body;
  } catch (error) {
    throw gone(error);
  }
}

function gone(error: unknown): unknown {
  if (isAborted(error)) return error;
  if (goneSince.value === null) {
    goneSince.set(Date.now());
    window.setTimeout(() => void probe(), PROBE_PERIOD_MS);
  }
  return new GoneError();
}

export const get = <T>(path: string, options: Options = {}) => request<T>("GET", path, options);
export const post = <T>(path: string, options: Options = {}) => request<T>("POST", path, options);
