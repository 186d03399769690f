// The same metric of all resources of the type, one line per value of an attribute.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Answer, type Query, type Result, aggregates, requestOf } from "../../api/aggregates";
import { listTypes, lookUp } from "../../api/resources";
import { type Metric, type Resource, grainsOf } from "../../api/types";
import type { Settings } from "../../chart/settings";
import { HttpError, explain } from "../../http/errors";
import { useLoaded, useReturn } from "../../http/loading";
import { Choice, plain } from "../../parts/choice";
import { LINES_MAX, ManyLines, largest } from "../../parts/many_lines";
import { Problem } from "../../parts/problem";
import { ExportButtons } from "../../parts/export_buttons";
import { resamplingOf } from "../../series/aggregation";
import { unitOf } from "../../series/format";
import { beforeFirst, chooseGrain, coarserIn, hasPointsIn, resampledTo } from "../../series/grain";
import { type Range, inWords } from "../../series/range";
import { change } from "../../state/address";
import { useCell } from "../../state/cell";
import { useNewest } from "../../state/newest";
import { LIVE_PERIOD_MIN_S, isLive, range as shownRange, spanKey } from "../../state/time";

const GENERAL = ["original_resource_id", "project_id", "user_id", "creator"];

interface Owner {
  resource: Resource;
  /** Of its type, to group by. */
  attributes: string[];
}

/** The metric's resource; `null` if it has none that the user may see. */
async function ownerOf({ resource_id }: Metric): Promise<Owner | null> {
  const resource = resource_id ? await lookUp(resource_id) : null;
  if (!resource) return null;
  const own = (await listTypes()).find(({ name }) => name === resource.type);
  return { resource, attributes: [...Object.keys(own?.attributes ?? {}).sort(), ...GENERAL] };
}

const useOwner = (metric: Metric) => useLoaded(() => ownerOf(metric), [metric.id]);

export function GroupChoice({ metric, value }: { metric: Metric; value: string | null }) {
  const { value: owner } = useOwner(metric);
  if (!owner) return null;
  return (
    <Choice label={`Group all ${owner.resource.type} by`} name="by" value={value ?? ""} options={[["", "nothing"], ...plain(owner.attributes)]}
      isMarked onChoose={(by) => change({ by })} />
  );
}

interface Found {
  series: Result[];
  total: number;
  /** `null` if each group has its own. */
  grain: Granularity;
  /** Where the fitting granularity begins, if that is too late for the range; else -Infinity. */
  until: number;
}

/** Seconds; `null` for all. */
type Granularity = number | null;

interface GroupsProps {
  metric: Metric;
  by: string;
  method: string;
  settings: Settings;
  /** Seconds between the points of the metric, if rates are shown; else 0. */
  ratePeriod: number;
}

export function Groups({ metric, by, method, settings, ratePeriod }: GroupsProps) {
  const { value: owner, error: ownerError } = useOwner(metric);
  const range = useCell(shownRange);
  const live = useCell(isLive);
  const [found, setFound] = useState<(Found & { key: string }) | null>(null);
  const [error, setError] = useState("");
  const newest = useNewest();
  const returned = useReturn(error !== "");
  const lastAt = useRef(0);
  const grains = useMemo(() => grainsOf(metric.archive_policy), [metric.archive_policy]);
  const now = Date.now() / 1000;
  const wished = grains.find(({ seconds }) => seconds === settings.grain)?.seconds;
  const grain = wished ?? chooseGrain(grains, range, Math.min(window.innerWidth, 1400) / 2, now);
  const how: How = {
    type: owner?.resource.type ?? "", name: metric.name ?? "", by, method, ratePeriod, isFixed: wished !== undefined,
    grains: grainsIn(grains.map(({ seconds }) => seconds), range, grain),
  };
  const key = `${JSON.stringify(how)} ${spanKey(range, live)} ${returned}`;
  const lastKey = useRef("");
  useEffect(() => {
    if (!how.type) return;
    // An update while live neither aborts a request nor follows at once.
    if (lastKey.current === key && (newest.isRunning || range.to - lastAt.current < LIVE_PERIOD_MIN_S)) return;
    [lastKey.current, lastAt.current] = [key, range.to];
    const before = found?.key === key ? found : null;
    newest.start(
      (signal) => fetchGroups(how, range, before, signal),
      (next) => (setFound({ ...next, key }), setError("")),
      (failure) => setError(explain(failure)),
    );
  }, [key, live ? range.to : 0]);
  const unit = unitOf(metric.unit, method, ratePeriod > 0);
  const request = () => requestOf(queryOf(how, range, found?.grain ?? null));
  const problem = error || ownerError;
  return (
    <section class="groups" aria-label={`By ${by}`}>
      <h2>{metric.name} by {by} {found?.grain && <small>{inWords(stepOf(how, found.grain, range))} a point</small>}</h2>
      {problem && <Problem text={problem} />}
      {owner === null && <p class="note">The metric belongs to no resource.</p>}
      {found && (
        <>
          <ManyLines series={found.series} total={found.total} range={range} unit={unit} height={280} label={`${metric.name ?? ""} by ${by}`} mark={settings.mark} />
          <ExportButtons name={`${metric.name ?? metric.id} by ${by}`} series={() => found.series} request={request} />
        </>
      )}
      {!found && !problem && owner !== null && <p class="note">Asking…</p>}
    </section>
  );
}

interface How {
  type: string;
  name: string;
  by: string;
  method: string;
  ratePeriod: number;
  /** Whether the user chose the first of `grains`. */
  isFixed: boolean;
  /** Seconds, finest first: the one to show, and the coarser ones that have a point in the range. */
  grains: number[];
}

const grainsIn = (grains: number[], { from, to }: Range, grain: number): number[] =>
  [grain, ...grains.filter((seconds) => seconds > grain && seconds <= to - from)];

/** Escapes wildcards in a metric's name, which would match other metrics. */
const nameOnly = (name: string): string => name.replace(/[*?[]/g, "[$&]");

/** Counters that are polled at different seconds have rates at different points of the grid: one step has a rate of each. */
const stepOf = ({ ratePeriod }: How, grain: number, range: Range): number => resampledTo(grain, range, ratePeriod);

function queryOf(how: How, range: Range, grain: Granularity, search: Record<string, unknown> = {}): Query {
  // Without a granularity it is unknown how fine the finest are.
  const stored = grain ?? 1;
  const margin = stepOf(how, stored, range);
  const isRate = how.ratePeriod > 0;
  const metric = ["metric", nameOnly(how.name), how.method];
  // Of each counter before their mean, which jumps wherever one of them has no point. Its growth counts at its next point.
  const each = isRate ? ["rate_reset", metric] : metric;
  const across = (method: string) => ["aggregate", method, each];
  const resampled = (by: string, of: unknown) => ["resample", by, margin, of];
  // After their mean, which has a value wherever one of them has. Rates have none at the first point of each: their sum and count have.
  const mean = margin === stored
    ? across("mean")
    : isRate
      ? ["/", resampled("sum", across("sum")), resampled("sum", across("count"))]
      : resampled(resamplingOf(how.method), across("mean"));
  return {
    type: how.type,
    search,
    operations: mean,
    groupBy: [how.by],
    grain,
    from: range.from - margin,
    to: range.to + margin,
    fill: "dropna",
  };
}

/** There may be many groups: first loads all with few points, then the largest with all points. `before` is what a live chart shows already. */
async function fetchGroups(how: How, range: Range, before: Found | null, signal: AbortSignal): Promise<Found> {
  const least = before?.grain && range.from < before.until ? before.grain : 0;
  const grains = how.grains.filter((seconds) => seconds >= least);
  // Metrics of one name may have different policies. Without a granularity each group has the finest that its metrics share.
  const { answer: first, grain: coarse } = await atFirstOf([...[...grains].reverse(), null], (grain) => aggregates(queryOf(how, range, grain), signal));
  const until = before?.until ?? -Infinity;
  if (coarse === null || coarse === grains[0]) return { series: sorted(first.results), total: first.results.length, grain: coarse, until };
  let search: Record<string, unknown> = {};
  if (first.results.length > LINES_MAX && how.by !== "creator") {
    search = searchOf(how.by, largest(first.results).map(({ group }) => group[0] ?? null));
  }
  const finer = grains.filter((grain) => grain < coarse);
  const ask = async (seconds: Granularity) => (seconds === coarse ? first : aggregates(queryOf(how, range, seconds, search), signal));
  const fitting = await atFirstOf([...finer, coarse], ask);
  // Once for a range: points that come while live are no older.
  const farther = how.isFixed || before ? null : await fartherThan(fitting, [...finer, coarse], how, range, ask);
  const { answer: { results }, grain } = farther ?? fitting;
  return { series: sorted(results), total: Math.max(first.results.length, results.length), grain, until: farther?.until ?? until };
}

interface Shown {
  answer: Answer;
  grain: Granularity;
}

type Ask = (grain: Granularity) => Promise<Answer>;

/** The finest granularity that has points of a group before the fitting one begins there, as `series/farther.ts` finds it for one metric. */
async function fartherThan({ answer: { results }, grain }: Shown, grains: number[], how: How, range: Range, ask: Ask): Promise<(Shown & { until: number }) | null> {
  const begins = new Map(results.map(({ key, columns }) => [key, beforeFirst(columns, range)]));
  // Not as arguments of `Math.max`: there may be more groups than those of a call.
  const until = [...begins.values()].reduce((latest, { to }) => Math.max(latest, to), range.from);
  for (const seconds of coarserIn(grains.map((one) => ({ seconds: one })), grain ?? Infinity, { from: range.from, to: until })) {
    const answer = await ask(seconds).catch(() => null); // Not all metrics have it: the chart shows what it has.
    const isFarther = answer?.results.some(({ key, columns }) => hasPointsIn(columns, stepOf(how, seconds, range), begins.get(key) ?? { from: 0, to: 0 }));
    if (answer && isFarther) return { answer, grain: seconds, until };
  }
  return null;
}

/** The answer at the first of these granularities that all metrics have. */
async function atFirstOf([grain = null, ...others]: Granularity[], ask: Ask): Promise<Shown> {
  try {
    return { answer: await ask(grain), grain };
  } catch (error) {
    const isMissing = error instanceof HttpError && error.message.includes("Granularities are missing");
    if (!isMissing || others.length === 0) throw error;
    return atFirstOf(others, ask);
  }
}

/** Resources with one of the values; `null` for none. */
function searchOf(by: string, values: unknown[]): Record<string, unknown> {
  const given = { in: { [by]: values.filter((value) => value !== null) } };
  return values.includes(null) ? { or: [given, { "=": { [by]: null } }] } : given;
}

const sorted = (results: Result[]): Result[] => [...results].sort((a, b) => a.label.localeCompare(b.label));
