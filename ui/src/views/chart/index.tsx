// One metric or a few, as large charts.

import { useEffect, useState } from "preact/hooks";
import { getMetric } from "../../api/metrics";
import type { Metric } from "../../api/types";
import { useSettings } from "../../chart/settings";
import { explain, isAborted } from "../../http/errors";
import { useReturn } from "../../http/loading";
import { ChartBar } from "../../parts/chart_bar";
import { Problem } from "../../parts/problem";
import { linkTo, useAddress } from "../../state/address";
import { setDefaultRange } from "../../state/default_range";
import { LargeChart } from "./large";

interface Loaded {
  metrics: Metric[];
  errors: string[];
  isLoading: boolean;
}

function useMetrics(ids: string[]): Loaded {
  const [loaded, setLoaded] = useState<Loaded>({ metrics: [], errors: [], isLoading: true });
  const key = ids.join(",");
  const returned = useReturn(loaded.errors.length > 0);
  useEffect(() => {
    const controller = new AbortController();
    const fetched = ids.map((id) => getMetric(id, controller.signal));
    void Promise.allSettled(fetched).then((results) => {
      if (controller.signal.aborted) return;
      setDefaultRange(results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])));
      setLoaded({
        metrics: results.flatMap((result) => (result.status === "fulfilled" ? [withOwner(result.value)] : [])),
        errors: results.flatMap((result) => (result.status === "rejected" && !isAborted(result.reason) ? [explain(result.reason)] : [])),
        isLoading: false,
      });
    });
    return () => controller.abort();
  }, [key, returned]);
  return loaded;
}

/** A single metric's document contains its resource, a listing's only the id. */
const withOwner = (metric: Metric): Metric => ({ ...metric, resource_id: metric.resource_id ?? metric.resource?.id ?? null });

export function Chart() {
  const { params } = useAddress();
  const settings = useSettings();
  const { metrics, errors, isLoading } = useMetrics([...new Set(params.getAll("m"))].filter(Boolean));
  const [isMarking, setMarking] = useState(false);
  const [grain, setGrain] = useState<number>();
  return (
    <>
      <ChartBar metrics={metrics} isMarking={isMarking} onMarking={setMarking} {...(grain !== undefined && { grain })}>
        <a class="button" href={linkTo(["metrics"])}>‹ All metrics</a>
      </ChartBar>
      {errors.map((error) => <Problem key={error} text={error} />)}
      {!isLoading && metrics.length + errors.length === 0 && <p class="empty">The address names no metric.</p>}
      {metrics.map((metric, at) => (
        <LargeChart key={metric.id} metric={metric} settings={settings} isMarking={isMarking} colourAt={at * 2} onGrain={setGrain} />
      ))}
    </>
  );
}
