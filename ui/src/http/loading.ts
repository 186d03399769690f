// Loads documents for a component, and repeats what has failed once the server answers again.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useCell } from "../state/cell";
import { useNewest } from "../state/newest";
import { type Page, returns } from "./client";
import { explain } from "./errors";

/** Changes when the server is back and something had failed: for the dependencies of an effect that sends requests. */
export function useReturn(hasFailed: boolean): number {
  const count = useCell(returns);
  const seen = useRef(count);
  if (hasFailed) seen.current = count;
  return seen.current;
}

/** What `load` returns, loaded anew when one of `inputs` changes; `undefined` until it is there. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[]): { value: T | undefined; error: string } {
  const [value, setValue] = useState<T>();
  const [error, setError] = useState("");
  const newest = useNewest();
  const returned = useReturn(error !== "");
  useEffect(() => {
    setError("");
    newest.start(load, (found) => setValue(() => found), (failure) => setError(explain(failure)));
    return () => newest.stop();
  }, [...inputs, returned]);
  return { value, error };
}

interface Listing<T> extends Page<T> {
  error: unknown;
  isLoading: boolean;
}

export interface Pages<T> extends Listing<T> {
  /** Loads the next page. */
  more: () => void;
  /** Begins anew. */
  retry: () => void;
  /** Begins anew without saying so. */
  poll: () => void;
}

const BEGIN = { items: [], marker: null, error: null, isLoading: true };

/** A listing page by page, from its first one when `search` changes. That of another `kind` does not show the former items meanwhile. */
export function usePages<T>(
  kind: string, search: string, load: (marker: string | null, signal: AbortSignal) => Promise<Page<T>>, onFirst?: (items: T[]) => void,
): Pages<T> {
  const [listing, setListing] = useState<Listing<T>>(BEGIN);
  const newest = useNewest();
  const returned = useReturn(listing.error !== null);
  const fetchPage = (marker: string | null, isQuiet = false) => {
    if (!isQuiet) setListing((before) => ({ ...before, isLoading: true }));
    newest.start(
      (signal) => load(marker, signal),
      (page) => {
        if (!marker) onFirst?.(page.items);
        setListing((before) => ({ items: marker ? before.items.concat(page.items) : page.items, marker: page.marker, error: null, isLoading: false }));
      },
      // What was found before stays. It may be of another search, and has no further page then.
      (error) => setListing((before) => ({ ...before, marker: marker && before.marker, error, isLoading: false })),
    );
  };
  useLayoutEffect(() => setListing(BEGIN), [kind]);
  // Before the browser's layout, which takes as long as the response.
  useLayoutEffect(() => {
    fetchPage(null);
    return () => newest.stop();
  }, [kind, search, returned]);
  const more = () => {
    if (listing.marker && !newest.isRunning) fetchPage(listing.marker);
  };
  return { ...listing, more, retry: () => fetchPage(null), poll: () => !newest.isRunning && fetchPage(null, true) };
}
