// The start view: all metrics as small charts, or those that the search finds.

import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { type Page, listMetrics } from "../../api/metrics";
import type { Metric } from "../../api/types";
import { useSettings } from "../../chart/settings";
import { explain } from "../../http/errors";
import { ChartBar } from "../../parts/chart_bar";
import { Problem } from "../../parts/problem";
import { formatCount } from "../../series/format";
import { linkTo, useAddress } from "../../state/address";
import { useCell } from "../../state/cell";
import { returns } from "../../http/client";
import { setDefaultRange } from "../../state/default_range";
import { useNewest } from "../../state/newest";
import { ticks } from "../../state/time";
import { Changes } from "./changes";
import { Grid } from "./grid";

interface Listing {
  text: string;
  metrics: Metric[];
  marker: string | null;
  error: string | null;
  isLoading: boolean;
}

const BEGIN: Listing = { text: "", metrics: [], marker: null, error: null, isLoading: true };

/** The metrics whose names contain the text; `more` loads the next page, `retry` begins anew. */
function useListing(text: string): Listing & { more: () => void; retry: () => void } {
  const [listing, setListing] = useState<Listing>(BEGIN);
  const returned = useCell(returns);
  const newest = useNewest();
  const fetchPage = (marker: string | null, isQuiet = false) => {
    if (!isQuiet) setListing((before) => ({ ...before, text, isLoading: true }));
    newest.start(
      (signal) => listMetrics({ text, marker }, signal),
      (page: Page) => {
        if (!marker) setDefaultRange(page.metrics);
        setListing((before) => ({
          text,
          metrics: marker ? before.metrics.concat(page.metrics) : page.metrics,
          marker: page.marker,
          error: null,
          isLoading: false,
        }));
      },
      // What was found before stays. It may be of another text, and has no further page then.
      (error) => setListing((before) => ({ ...before, marker: marker && before.marker, error: explain(error), isLoading: false })),
    );
  };
  // Before the browser's layout, which takes as long as the response.
  useLayoutEffect(() => {
    fetchPage(null);
    return () => newest.stop();
  }, [text, returned]);
  // The view of an empty store says that metrics will appear.
  const isEmpty = !text && !listing.isLoading && listing.error === null && listing.metrics.length === 0;
  useEffect(() => (isEmpty ? ticks.follow(() => !newest.isRunning && fetchPage(null, true)) : undefined), [isEmpty]);
  const more = () => {
    if (listing.marker && !newest.isRunning) fetchPage(listing.marker);
  };
  return { ...listing, more, retry: () => fetchPage(null) };
}

export function Metrics() {
  const { params } = useAddress();
  const text = params.get("q") ?? "";
  const settings = useSettings();
  const listing = useListing(text);
  const [isMarking, setMarking] = useState(false);
  const { metrics, marker, error, isLoading } = listing;
  const count = `${formatCount(metrics.length, "metric")}${marker ? " and more" : ""}`;
  return (
    <>
      <ChartBar metrics={metrics} isMarking={isMarking} onMarking={setMarking}>
        <h1 class="title" aria-live="polite">{metrics.length || !isLoading ? count : "Metrics"}</h1>
      </ChartBar>
      {error && <Problem text={error} onRetry={listing.retry} />}
      {settings.mark && <Changes mark={settings.mark} text={text} settings={settings} />}
      {!settings.mark && <Grid metrics={metrics} settings={settings} isMarking={isMarking} onEnd={listing.more} />}
      {!error && !isLoading && metrics.length === 0 && <NothingFound text={text} />}
    </>
  );
}

function NothingFound({ text }: { text: string }) {
  if (text) return <p class="empty">No metric has “{text}” in its name. <a href={linkTo(["metrics"])}>Show all</a></p>;
  return (
    <div class="empty">
      <h2>No metrics yet</h2>
      <p>Metrics appear here as soon as somebody creates them, or this server collects its machine's own figures.</p>
    </div>
  );
}
