// One resource: its attributes, revisions and metrics.

import { useState } from "preact/hooks";
import { getHistory, getMetricsOf, getResource, nameOf } from "../../api/resources";
import type { Metric } from "../../api/types";
import { useSettings } from "../../chart/settings";
import { useLoaded } from "../../http/loading";
import { ChartBar } from "../../parts/chart_bar";
import { Problem } from "../../parts/problem";
import { formatCount, formatTime } from "../../series/format";
import { linkTo } from "../../state/address";
import { show } from "../../state/time";
import { setDefaultRange } from "../../state/default_range";
import { Changes } from "../metrics/changes";
import { Grid } from "../metrics/grid";
import { type Revision, revisionsOf } from "./revisions";

/** One more is loaded: the changes of a revision are those since the one before. */
const REVISIONS_MAX = 200;

/** The fields that are not attributes of the type. */
const OWN = new Set(["metrics", "id", "type", "original_resource_id", "revision_start", "revision_end", "started_at", "ended_at"]);

const NO_METRICS: Metric[] = [];

export function OneResource({ type, id }: { type: string; id: string }) {
  const { value: resource, error } = useLoaded((signal) => getResource(type, id, signal), [type, id]);
  const { value: history = [], error: historyError } = useLoaded((signal) => getHistory(type, id, REVISIONS_MAX + 1, signal), [type, id]);
  const { value: metrics = NO_METRICS, error: metricsError } = useLoaded(async (signal) => {
    const found = await getMetricsOf(type, id, signal);
    setDefaultRange(found);
    return found.sort((a, b) => (a.name ?? "").localeCompare(b.name ?? ""));
  }, [type, id]);
  const errors = new Set([error, historyError, metricsError].filter(Boolean));
  const settings = useSettings();
  const [isMarking, setMarking] = useState(false);
  const attributes = Object.entries(resource ?? {}).filter(([name]) => !OWN.has(name));
  return (
    <div class="one">
      {[...errors].map((text) => <Problem key={text} text={text} />)}
      <div class="about">
        <section class="box" aria-label="Attributes">
          <p class="path"><a href={linkTo(["resources", type])}>{type}</a></p>
          <h1>{resource ? nameOf(resource) : id}</h1>
          {resource && (
            <>
              <p class="sub">
                since {formatTime(Date.parse(resource.started_at) / 1000)}
                {resource.ended_at && <span class="ended"> until {formatTime(Date.parse(resource.ended_at) / 1000)}</span>}
              </p>
              <dl class="attributes">
                {attributes.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{textOf(value)}</dd></div>)}
                <div><dt>id</dt><dd><code>{resource.id}</code></dd></div>
                {resource.original_resource_id !== resource.id && <div><dt>original id</dt><dd>{resource.original_resource_id}</dd></div>}
              </dl>
            </>
          )}
        </section>
        <section class="box" aria-label="Revisions">
          <h2>Revisions</h2>
          <ol class="revisions">{revisionsOf(history).slice(0, REVISIONS_MAX).map((revision) => <OneRevision key={revision.from} revision={revision} />)}</ol>
          {history.length > REVISIONS_MAX && <p class="note">Older ones are not listed.</p>}
        </section>
      </div>
      <ChartBar metrics={metrics} isMarking={isMarking} onMarking={setMarking}>
        <h2 class="title">{formatCount(metrics.length, "metric")}</h2>
      </ChartBar>
      {settings.mark && <Changes mark={settings.mark} metrics={metrics} settings={settings} />}
      {!settings.mark && <Grid metrics={metrics} settings={settings} isMarking={isMarking} hasSections={metrics.length > 12} />}
    </div>
  );
}

const textOf = (value: unknown): string => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));

function OneRevision({ revision: { from, to, changes } }: { revision: Revision }) {
  const end = to ?? Date.now() / 1000;
  return (
    <li>
      <button type="button" class="link" title="Show this time" onClick={() => show({ from, to: end })}>{formatTime(from)}{to === null ? " – now" : ""}</button>
      {changes.length === 0 && <span class="sub">as it was created</span>}
      <ul>
        {changes.map(({ name, before, after }) => (
          <li key={name}><b>{name}</b> <del>{textOf(before)}</del> → <ins>{textOf(after)}</ins></li>
        ))}
      </ul>
    </li>
  );
}
