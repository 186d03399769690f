// The start view: all metrics as small charts, or those that the search finds.

import { useEffect, useState } from "preact/hooks";
import { listMetrics } from "../../api/metrics";
import type { Metric } from "../../api/types";
import { useSettings } from "../../chart/settings";
import { explain } from "../../http/errors";
import { type Pages, usePages } from "../../http/loading";
import { ChartBar } from "../../parts/chart_bar";
import { Problem } from "../../parts/problem";
import { formatCount } from "../../series/format";
import { linkTo, useAddress } from "../../state/address";
import { setDefaultRange } from "../../state/default_range";
import { ticks } from "../../state/time";
import { Changes } from "./changes";
import { Grid } from "./grid";

/** The metrics whose names contain the text. */
function useMetrics(text: string): Pages<Metric> {
  const listing = usePages("", text, (marker, signal) => listMetrics({ text, marker }, signal), setDefaultRange);
  // The view of an empty store says that metrics will appear.
  const isEmpty = !text && !listing.isLoading && listing.error === null && listing.items.length === 0;
  useEffect(() => (isEmpty ? ticks.follow(listing.poll) : undefined), [isEmpty]);
  return listing;
}

export function Metrics() {
  const { params } = useAddress();
  const text = params.get("q") ?? "";
  const settings = useSettings();
  const { items: metrics, marker, error, isLoading, more, retry } = useMetrics(text);
  const [isMarking, setMarking] = useState(false);
  const count = `${formatCount(metrics.length, "metric")}${marker ? " and more" : ""}`;
  return (
    <>
      <ChartBar metrics={metrics} isMarking={isMarking} onMarking={setMarking}>
        <h1 class="title" aria-live="polite">{metrics.length || !isLoading ? count : "Metrics"}</h1>
      </ChartBar>
      {error !== null && <Problem text={explain(error)} onRetry={retry} />}
      {settings.mark && <Changes mark={settings.mark} text={text} settings={settings} />}
      {!settings.mark && <Grid metrics={metrics} settings={settings} isMarking={isMarking} onEnd={more} />}
      {error === null && !isLoading && metrics.length === 0 && <NothingFound text={text} />}
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
