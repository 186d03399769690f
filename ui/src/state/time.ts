// The range of time of all charts, and the clock that moves it while live.

import { Cell, useCell } from "./cell";
import { address, change } from "./address";
import { goneSince } from "../http/client";
import { type Range, dated, printMoment, rangeOf, secondsOfShort, short, spanOf } from "../series/range";

/** The default range, if the address has none; set by views from the metrics' granularities. */
export const autoSeconds = new Cell(900);

/** How often charts load new points, in ms. */
export const livePeriod = new Cell(2000);

/** How often queries over many metrics are repeated while live, at most: each computes all points anew. */
export const LIVE_PERIOD_MIN_S = 5;

const now = () => Date.now() / 1000;

export const isLive = new Cell(readLive());
export const range = new Cell<Range>(readRange());

/** The range when it was last chosen: the clock does not move it. */
const chosen = new Cell<Range>(range.value);

/** How often the clock has moved the range. */
export const ticks = new Cell(0);

/** The range; re-renders the component when another one is chosen, but not at each tick of the clock. */
export function useChosenRange(): Range {
  useCell(chosen);
  return range.value;
}

/** Names a range as it was chosen: while live by its length, since it moves. */
export const spanKey = ({ from, to }: Range, live: boolean): string => (live ? `last ${Math.round(to - from)}` : `${from} ${to}`);

function readLive(): boolean {
  const { params } = address.value;
  return params.get("live") !== "0" && !("from" in Object(spanOf(params)));
}

function readRange(): Range {
  return rangeOf(spanOf(address.value.params), autoSeconds.value, now());
}

function update(): void {
  isLive.set(readLive());
  const next = readRange();
  const { from, to } = range.value;
  if (next.from === from && next.to === to) return;
  range.set(next);
  chosen.set(next);
}

let seen = "";
address.follow(({ params }) => {
  const key = ["last", "from", "to", "live"].map((name) => params.get(name)).join("|");
  if (key !== seen) update();
  seen = key;
});
autoSeconds.follow(() => {
  if (spanOf(address.value.params) === "auto") update();
});

/** The slower period while the server is unreachable. */
const GONE_PERIOD_MS = 3000;

function tick(): void {
  const period = goneSince.value === null ? livePeriod.value : Math.max(livePeriod.value, GONE_PERIOD_MS);
  window.setTimeout(tick, period);
  move();
}
window.setTimeout(tick, livePeriod.value);
document.addEventListener("visibilitychange", move);

function move(): void {
  if (!isLive.value || document.hidden) return;
  range.set(readRange());
  ticks.set(ticks.value + 1);
}

/** Shows a fixed range; stops live mode. */
export function show(wanted: Range, how: "push" | "replace" = "push"): void {
  const { from, to } = dated(wanted);
  change({ from: printMoment(from), to: printMoment(to), last: null, live: null }, how);
}

export function showLast(seconds: number | null): void {
  change({ last: seconds === null ? null : short(seconds), from: null, to: null, live: null });
}

const LENGTH_MIN_S = 2;
const LENGTH_MAX_S = 20 * 365 * 86400;

/** A turn of the wheel is many events. */
const TURN_PAUSE_MS = 1000;
let turnedMs = -Infinity;

/** Zooms around the time under the pointer. A turn of the wheel is one entry of the history. */
export function turn(factor: number, at: number): void {
  const now = performance.now();
  zoom(factor, at, now - turnedMs < TURN_PAUSE_MS ? "replace" : "push");
  turnedMs = now;
}

/** Zooms around the middle, or around `at`. */
export function zoom(factor: number, at?: number, how: "push" | "replace" = "push"): void {
  const { from, to } = range.value;
  const length = Math.min(Math.max((to - from) * factor, LENGTH_MIN_S), LENGTH_MAX_S);
  const span = spanOf(address.value.params);
  if (at === undefined && !("from" in Object(span)) && isLive.value) {
    showLast(Math.round(length));
    return;
  }
  const pivot = at ?? (from + to) / 2;
  const start = pivot - ((pivot - from) / (to - from)) * length;
  show({ from: start, to: start + length }, how);
}

/** Moves by a fraction of the range. */
export function pan(part: number): void {
  const { from, to } = range.value;
  const by = (to - from) * part;
  show({ from: from + by, to: to + by });
}

export function toggleLive(): void {
  const { from, to } = range.value;
  if (isLive.value) show({ from, to });
  else showLast(secondsOfShort(address.value.params.get("last") ?? "") ?? Math.max(1, Math.round(to - from)));
}
