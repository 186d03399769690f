// The store's contents: policies and types by size, silent metrics, and metrics with late points.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../../http/client";
import { type ArchivePolicy, secondsOf } from "../../api/types";
import { explain, isAborted } from "../../http/errors";
import { useLoaded, useReturn } from "../../http/loading";
import { Problem } from "../../parts/problem";
import { formatCount, formatTime } from "../../series/format";
import { inWords } from "../../series/range";
import { linkTo } from "../../state/address";
import { type Census, COUNTED_DEFAULT, takeCensus } from "./census";
import { Late, MetricTable } from "./late";

/** `workers` and `requests` are shown beside the contents. */
export function Contents({ workers, requests }: { workers: ComponentChildren; requests: ComponentChildren }) {
  const [most, setMost] = useState(COUNTED_DEFAULT);
  const [census, setCensus] = useState<Census | null>(null);
  const { value: policies = [], error: policiesError } = useLoaded(async (signal) => (await get<ArchivePolicy[]>("v1/archive_policy", { signal })).value, []);
  const [error, setError] = useState("");
  const returned = useReturn(error !== "");
  useEffect(() => {
    const controller = new AbortController();
    setError("");
    takeCensus(most, controller.signal, setCensus).catch((failure) => !isAborted(failure) && setError(explain(failure)));
    return () => controller.abort();
  }, [most, returned]);
  const progress = census?.isDone ? "" : ", still counting";
  return (
    <>
      {(error || policiesError) && <Problem text={error || policiesError} />}
      <div class="columns">
        <div class="stack">
        {workers}
        <section class="box" aria-label="Archive policies">
          <h2>Archive policies {census && <small>{formatCount(census.metrics, "metric")}{census.isCut ? " of more" : ""}{progress}</small>}</h2>
          <Sizes rows={sizes(policies.map(({ name }) => name), census?.byPolicy)} noteOf={(name) => keeps(policies.find((policy) => policy.name === name))} hrefOf={() => null} />
        </section>
        <section class="box" aria-label="Resource types">
          <h2>Resource types</h2>
          <Sizes rows={sizes([], census?.byType)} noteOf={() => ""} hrefOf={(name) => linkTo(["resources", name])} />
          {census?.isDone && Object.keys(census.byType).length === 0 && <p class="note">There are no resources.</p>}
        </section>
        </div>
        {requests}
      </div>
      {census?.isCut && <p class="lead"><button type="button" onClick={() => setMost(Infinity)}>Count all</button></p>}
      <section class="box" aria-label="Silent metrics">
        <h2>Silent metrics {census && <small>{formatCount(census.silentCount, "metric")} without a point for an hour, or for ten of their finest granularity</small>}</h2>
        {census && census.silent.length > 0 && (
          <MetricTable label="List of silent metrics" last="Last point" rows={census.silent.map(({ metric, last }) => [metric, last === null ? "none in a day" : formatTime(last)])} />
        )}
        {census && census.silentCount > census.silent.length && <p class="note">The first {census.silent.length} are listed.</p>}
        {census && census.unread > 0 && <p class="problem" role="alert">{formatCount(census.unread, "metric")} could not be read.</p>}
        {census?.isDone && census.silentCount + census.unread === 0 && <p class="note">None.</p>}
      </section>
      <Late />
    </>
  );
}

type Size = [name: string, count: number];

const sizes = (names: string[], counts: Record<string, number> = {}): Size[] =>
  [...new Set([...names, ...Object.keys(counts)])].map((name): Size => [name, counts[name] ?? 0]).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));

/** `1 second for 1 hour, …` */
const keeps = (policy: ArchivePolicy | undefined): string =>
  (policy?.definition ?? []).map(({ granularity, timespan }) => `${inWords(secondsOf(granularity))} ${timespan ? `for ${inWords(secondsOf(timespan))}` : "for ever"}`).join(", ");

function Sizes({ rows, noteOf, hrefOf }: { rows: Size[]; noteOf: (name: string) => string; hrefOf: (name: string) => string | null }) {
  const most = Math.max(1, ...rows.map(([, count]) => count));
  return (
    <ul class="sizes">
      {rows.map(([name, count]) => (
        <li key={name}>
          <span class="name">{hrefOf(name) ? <a href={hrefOf(name) ?? ""}>{name}</a> : name} <small>{noteOf(name)}</small></span>
          <b>{count.toLocaleString("en")}</b>
          <span class="meter" aria-hidden="true"><span style={{ width: `${(100 * count) / most}%` }} /></span>
        </li>
      ))}
    </ul>
  );
}
