// Loads a metric's points for a chart; while live, only new ones.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { measuresOf, type Found } from "../api/measures";
import { GoneError, explain, isAborted } from "../http/errors";
import { appended } from "./columns";
import { resampledTo } from "./grain";
import { returns } from "../http/client";
import { useCell } from "../state/cell";
import { isLive, range as shownRange, spanKey, ticks, useChosenRange } from "../state/time";
import type { Range } from "./range";

export interface Loaded {
  found: Found | null;
  /** The granularity of `found`, or what it is resampled to. */
  grain: number;
  /** What to show: while live, the range of `found`, so that a chart moves when its new points are there. */
  range: Range;
  /** Names the request that `found` answers; `null` if that was an earlier one. */
  answered: string | null;
  error: string | null;
  isLoading: boolean;
}

interface Work {
  key: string;
  found: Found | null;
  isBusy: boolean;
  request: AbortController;
}

interface WantedColumns {
  id: string;
  methods: string[];
  grain: number;
  /** How far before the shown range. */
  pastSeconds?: number;
  /** False for a part of the chart that is not shown, or not yet. */
  isWanted?: boolean;
}

export function useColumns({ id, methods, grain, pastSeconds = 0, isWanted = true }: WantedColumns): Loaded {
  const shown = useChosenRange();
  const live = useCell(isLive);
  const returned = useCell(returns);
  const [loaded, setLoaded] = useState<Omit<Loaded, "answered"> & { key: string }>({ key: "", found: null, grain, range: shown, error: null, isLoading: true });
  const work = useRef<Work>({ key: "", found: null, isBusy: false, request: new AbortController() });
  const key = `${id}|${methods.join(",")}|${grain}|${pastSeconds}|${spanKey(shown, live)}`;

  const step = resampledTo(grain, shown);
  const isUsed = isWanted && methods.length > 0;

  const load = () => {
    const now = shownRange.value;
    const range = { from: now.from - pastSeconds, to: now.to - pastSeconds };
    const state = work.current;
    const isSame = live && state.key === key;
    if (isSame && state.isBusy) return; // The next tick loads these points, too.
    const isTail = isSame && state.found !== null;
    const own: Work = { key, found: isTail ? state.found : null, isBusy: true, request: new AbortController() };
    work.current = own;
    const from = isTail ? tailFrom(own.found as Found, range, step) : range.from - step;
    if (!isTail) setLoaded((before) => (before.isLoading ? before : { ...before, isLoading: true }));
    measuresOf({ id, methods, grain, step, from, to: range.to, isUpdate: isTail, signal: own.request.signal }).then(
      (next) => {
        own.isBusy = false;
        if (work.current !== own) return;
        own.found = isTail ? merged(own.found as Found, next, range.from - step) : next;
        setLoaded({ key, found: own.found, grain: step, range: now, error: null, isLoading: false });
      },
      (error: unknown) => {
        own.isBusy = false;
        if (isAborted(error)) return;
        // Keep the old points: the banner already says that the server is unreachable.
        if (error instanceof GoneError && isTail) return;
        if (work.current === own) setLoaded((before) => ({ ...before, error: explain(error), isLoading: false }));
      },
    );
  };
  // Before the browser's layout, which takes as long as the response.
  useLayoutEffect(() => {
    if (!isUsed) return;
    load();
    const stop = live ? ticks.follow(load) : undefined;
    return () => {
      stop?.();
      // Of a range that is no longer shown: it would keep those of the present one waiting.
      work.current.request.abort();
      work.current.isBusy = false;
    };
  }, [key, isWanted, returned]);
  const isAnswered = loaded.key === key;
  return { ...loaded, range: isAnswered ? loaded.range : shown, answered: isAnswered ? key : null, error: isUsed ? loaded.error : null };
}

/** Reload from the second last bucket on: late points may still change it. */
function tailFrom(found: Found, range: Range, grain: number): number {
  const lasts = Object.values(found).map(({ times }) => times[times.length - 1] ?? range.from);
  return Math.max(range.from - grain, Math.min(...lasts) - grain);
}

function merged(old: Found, next: Found, from: number): Found {
  const out: Found = {};
  for (const [method, columns] of Object.entries(next)) {
    const before = old[method];
    out[method] = before ? appended(before, columns, from) : columns;
  }
  return out;
}
