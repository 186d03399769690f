// The same metric of all resources of the type, one line per value of an attribute.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Query, type Result, aggregates, keyOf, requestOf } from "../../api/aggregates";
import { listTypes, lookUp } from "../../api/resources";
import { type Metric, type Resource, grainsOf } from "../../api/types";
import type { Settings } from "../../chart/settings";
import { explain } from "../../http/errors";
import { useReturn } from "../../http/use_return";
import { unitOf } from "../../chart/use_metric_chart";
import { LINES_MAX, ManyLines, type Series } from "../../parts/many_lines";
import { Problem } from "../../parts/problem";
import { ExportButtons } from "../../parts/export_buttons";
import { rate } from "../../series/columns";
import { perSecond } from "../../series/format";
import { chooseGrain } from "../../series/grain";
import type { Range } from "../../series/range";
import { change } from "../../state/address";
import { useCell } from "../../state/cell";
import { useNewest } from "../../state/newest";
import { isLive, range as shownRange } from "../../state/time";

const GENERAL = ["original_resource_id", "project_id", "user_id", "creator"];

/** The metric's resource, and the attributes of its type to group by. */
function useOwner(metric: Metric): { resource: Resource; attributes: string[] } | null {
  const [owner, setOwner] = useState<{ resource: Resource; attributes: string[] } | null>(null);
  const [hasFailed, setFailed] = useState(false);
  const returned = useReturn(hasFailed);
  useEffect(() => {
    let isThere = true;
    setFailed(false);
    const find = async () => {
      const resource = metric.resource_id ? await lookUp(metric.resource_id) : null;
      if (!resource) return;
      const types = await listTypes();
      const own = types.find(({ name }) => name === resource.type);
      if (isThere) setOwner({ resource, attributes: [...Object.keys(own?.attributes ?? {}).sort(), ...GENERAL] });
    };
    find().catch(() => isThere && setFailed(true)); // Without attributes the menu says that there is nothing to group by.
    return () => void (isThere = false);
  }, [metric.id, returned]);
  return owner;
}

export function GroupChoice({ metric, value }: { metric: Metric; value: string | null }) {
  const owner = useOwner(metric);
  if (!owner) return null;
  return (
    <label class={`choice${value ? " on" : ""}`}>
      <span>Group all {owner.resource.type} by</span>
      <select name="by" value={value ?? ""} onChange={(event) => change({ by: event.currentTarget.value })}>
        <option value="">nothing</option>
        {owner.attributes.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

interface Found {
  series: Series[];
  total: number;
}

interface GroupsProps {
  metric: Metric;
  by: string;
  method: string;
  settings: Settings;
  isRate: boolean;
}

/** The minimum period while live: each update recomputes all groups. */
const LIVE_PERIOD_MIN_S = 5;

export function Groups({ metric, by, method, settings, isRate }: GroupsProps) {
  const owner = useOwner(metric);
  const range = useCell(shownRange);
  const live = useCell(isLive);
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState("");
  const newest = useNewest();
  const returned = useReturn(error !== "");
  const lastAt = useRef(0);
  const grains = useMemo(() => grainsOf(metric.archive_policy), [metric.archive_policy]);
  const now = Date.now() / 1000;
  const grain = grains.find(({ seconds }) => seconds === settings.grain)?.seconds ?? chooseGrain(grains, range, Math.min(window.innerWidth, 1400) / 2, now);
  const how = { type: owner?.resource.type ?? "", name: metric.name ?? "", by, method, grain, coarse: coarsest(grains.map(({ seconds }) => seconds), range, grain) };
  const key = JSON.stringify(how) + (live ? Math.round(range.to - range.from) : `${range.from} ${range.to}`) + ` ${returned}`;
  const lastKey = useRef("");
  useEffect(() => {
    if (!how.type) return;
    // An update while live neither aborts a request nor follows at once.
    if (lastKey.current === key && (newest.isRunning || range.to - lastAt.current < LIVE_PERIOD_MIN_S)) return;
    [lastKey.current, lastAt.current] = [key, range.to];
    newest.start(
      (signal) => fetchGroups(how, range, signal),
      (next) => (setFound(next), setError("")),
      (failure) => setError(explain(failure)),
    );
  }, [key, live ? range.to : 0]);
  const series = useMemo(
    () => (found?.series ?? []).map((one) => (isRate ? { ...one, columns: rate(one.columns) } : one)),
    [found, isRate],
  );
  const unit = isRate ? perSecond(metric.unit) : unitOf(metric.unit, method);
  const request = () => ({ method: "POST", ...requestOf(queryOf(how, range, grain)) });
  return (
    <section class="groups" aria-label={`By ${by}`}>
      <h2>{metric.name} by {by}</h2>
      {error && <Problem text={error} />}
      {found && (
        <>
          <ManyLines series={series} total={found.total} range={range} unit={unit} height={280} label={`${metric.name ?? ""} by ${by}`} mark={settings.mark} />
          <ExportButtons name={`${metric.name ?? metric.id} by ${by}`} series={() => series} request={request} />
        </>
      )}
      {!found && !error && <p class="note">Asking…</p>}
    </section>
  );
}

interface How {
  type: string;
  name: string;
  by: string;
  method: string;
  grain: number;
  coarse: number;
}

/** The coarsest granularity that has a point in the range. */
function coarsest(grains: number[], { from, to }: Range, grain: number): number {
  return grains.filter((seconds) => seconds >= grain && seconds <= to - from).pop() ?? grain;
}

/** Escapes wildcards in a metric's name, which would match other metrics. */
const nameOnly = (name: string): string => name.replace(/[*?[]/g, "[$&]");

function queryOf(how: How, range: Range, grain: number, search: Record<string, unknown> = {}): Query {
  return {
    type: how.type,
    search,
    operations: ["aggregate", "mean", ["metric", nameOnly(how.name), how.method]],
    groupBy: [how.by],
    grain,
    from: range.from - grain,
    to: range.to + grain,
    fill: "dropna",
  };
}

/** There may be many groups: first loads all with few points, then the largest with all points. */
async function fetchGroups(how: How, range: Range, signal: AbortSignal): Promise<Found> {
  const first = await aggregates(queryOf(how, range, how.coarse), signal);
  if (how.coarse === how.grain) return { series: seriesOf(first.results), total: first.results.length };
  let search: Record<string, unknown> = {};
  if (first.results.length > LINES_MAX && how.by !== "creator") {
    const largest = [...first.results].sort((a, b) => most(b) - most(a)).slice(0, LINES_MAX);
    search = searchOf(how.by, largest.map(({ group }) => group[0] ?? null));
  }
  const { results } = await aggregates(queryOf(how, range, how.grain, search), signal);
  return { series: seriesOf(results), total: Math.max(first.results.length, results.length) };
}

/** Resources with one of the values; `null` for none. */
function searchOf(by: string, values: unknown[]): Record<string, unknown> {
  const given = { in: { [by]: values.filter((value) => value !== null) } };
  return values.includes(null) ? { or: [given, { "=": { [by]: null } }] } : given;
}

const most = ({ columns }: Result): number => columns.values.reduce<number>((best, value) => Math.max(best, value ?? -Infinity), -Infinity);

const seriesOf = (results: Result[]): Series[] =>
  results
    .map((result) => ({ key: keyOf(result), label: result.names.join(" "), columns: result.columns, grain: result.grain }))
    .sort((a, b) => a.label.localeCompare(b.label));
