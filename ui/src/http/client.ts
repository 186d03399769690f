// Requests to the server of the page: limited concurrency, authentication, and costs.

import { Cell } from "../state/cell";
import { GoneError, errorOf, isAborted } from "./errors";
import { ACCEPT_JSON, takeEarly } from "./early";
import { identity, rejectIdentity, settings, waitForIdentity } from "./session";
import { SENDING } from "./settings";
import { type Query, urlOf } from "./url";

/** Browsers open six connections per host. A seventh request would wait in the browser, where it cannot be reordered. */
const RUNNING_MAX = 6;

export interface Cost {
  /** Until the first byte of the response. */
  waitedMs: number;
  /** Until its last byte, including parsing JSON. */
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
  /** Goes before waiting requests that are not urgent. */
  isUrgent?: boolean;
}

/** A request as a whole, to be sent or shown. */
export interface RequestLine {
  method: string;
  path: string;
  options?: Options;
}

/** A page of a listing. The server's own limit may be lower than the requested one. */
export interface Page<T> {
  items: T[];
  /** The last item's id, if there are more. */
  marker: string | null;
}

export function pageOf<T extends { id: string }>({ value, headers }: Reply<T[]>): Page<T> {
  const hasMore = /rel="?next"?/.test(headers.get("Link") ?? "");
  return { items: value, marker: hasMore ? (value[value.length - 1]?.id ?? null) : null };
}

/** When the server became unreachable, in ms; `null` while it is reachable. */
export const goneSince = new Cell<number | null>(null);

/** How often the server has become reachable again: then failed requests are repeated. */
export const returns = new Cell(0);

const PROBE_PERIOD_MS = 2000;

/** The server's answers to requests are none. */
const isHtml = ({ headers }: Response): boolean => /^text\/html/.test(headers.get("Content-Type") ?? "");

/** A proxy's own 503. */
const isProxys = (answer: Response): boolean => answer.status === 503 && isHtml(answer);

/** The log-in of a proxy that names the users, or a redirect to it: the one before has ended. */
const isLogIn = (answer: Response): boolean =>
  settings.auth.mode === "remoteuser" && (answer.type === "opaqueredirect" || (answer.ok && isHtml(answer)));

let looking: Promise<boolean> | null = null;

/** Whether the server answers. Concurrent requests share a look. */
function isThere(): Promise<boolean> {
  looking ??= fetch("healthcheck", SENDING)
    .then((answer) => answer.status !== 502 && !isProxys(answer), () => false)
    .finally(() => (looking = null));
  return looking;
}

/** Polls until the server is reachable again, even if nothing else sends requests. */
async function probe(): Promise<void> {
  if (await isThere()) answered();
  else window.setTimeout(() => void probe(), PROBE_PERIOD_MS);
}

function answered(): void {
  if (goneSince.value === null) return;
  goneSince.set(null);
  returns.set(returns.value + 1);
}

const waiting: { start: () => void; isUrgent: boolean }[] = [];
let running = 0;

function acquireSlot(isUrgent: boolean): Promise<void> {
  if (running < RUNNING_MAX) {
    running += 1;
    return Promise.resolve();
  }
  return new Promise((start) => {
    const at = isUrgent ? waiting.findIndex((other) => !other.isUrgent) : -1;
    waiting.splice(at < 0 ? waiting.length : at, 0, { start, isUrgent });
  });
}

function releaseSlot(): void {
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
  requestAs(method, path, options, ACCEPT_JSON, (answer) => answer.text(), (text) => text.length);

/** A response of this media type, as a blob. */
export const requestBlob = (method: string, path: string, accept: string, options: Options = {}): Promise<Reply<Blob>> =>
  requestAs(method, path, options, accept, (answer) => answer.blob(), (blob) => blob.size);

/** A response as an Arrow stream. */
export const requestArrow = (method: string, path: string, options: Options = {}): Promise<Reply<ArrayBuffer>> =>
  requestAs(method, path, options, "application/vnd.apache.arrow.stream", (answer) => answer.arrayBuffer(), ({ byteLength }) => byteLength);

async function requestAs<T>(
  method: string, path: string, options: Options, accept: string, read: (answer: Response) => Promise<T>, size: (value: T) => number,
): Promise<Reply<T>> {
  const { query, body, signal, isUrgent = false } = options;
  for (;;) {
    const who = await waitForIdentity(signal);
    await acquireSlot(isUrgent);
    try {
      signal?.throwIfAborted();
      const began = performance.now();
      const answer = await whole(sent(urlOf(path, query), {
        method,
        headers: {
          Accept: accept,
          ...(body !== undefined && { "Content-Type": "application/json" }),
          ...who.headers,
        },
        ...SENDING,
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal && { signal }),
      }));
      const waitedMs = performance.now() - began;
      signal?.throwIfAborted();
      const status = isLogIn(answer) ? 401 : answer.status;
      if (status === 401) {
        rejectIdentity(who, identity.value ? "Your log-in has ended." : "");
        if (settings.auth.mode !== "remoteuser") continue;
      }
      if (status === 401 || !answer.ok) throw errorOf(status, await whole(answer.text()));
      const value = await whole(read(answer));
      const readMs = performance.now() - began - waitedMs;
      return { value, headers: answer.headers, cost: { waitedMs, readMs, bytes: size(value) } };
    } finally {
      releaseSlot();
    }
  }
}

async function sent(url: string, init: RequestInit): Promise<Response> {
  const answer = await (takeEarly(url, init) ?? fetch(url, init));
  // A proxy answers 503 while the server behind it is away, and also where it limits rates.
  if (answer.status === 502 || (isProxys(answer) && !(await isThere()))) throw new GoneError();
  answered();
  return answer;
}

/** A response or its body; if it breaks off, the server is unreachable. */
async function whole<T>(part: Promise<T>): Promise<T> {
  try {
    return await part;
  } catch (error) {
    if (isAborted(error)) throw error;
    if (goneSince.value === null) {
      goneSince.set(Date.now());
      window.setTimeout(() => void probe(), PROBE_PERIOD_MS);
    }
    throw new GoneError();
  }
}

export const get = <T>(path: string, options: Options = {}) => request<T>("GET", path, options);
export const post = <T>(path: string, options: Options = {}) => request<T>("POST", path, options);
