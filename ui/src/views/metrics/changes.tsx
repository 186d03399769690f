// Ranks metrics by their change in the marked window: compares all that the search finds with the time
// before.

import { useEffect, useMemo, useState } from "preact/hooks";
import { listMetrics } from "../../api/metrics";
import { measuresOf } from "../../api/measures";
import { type Metric, grainsOf } from "../../api/types";
import type { Settings } from "../../chart/settings";
import type { Page } from "../../http/client";
import { HttpError, explain, isAborted } from "../../http/errors";
import { useReturn } from "../../http/loading";
import { pagesOf } from "../../http/pages";
import { Problem } from "../../parts/problem";
import { isLevel, mainMethod } from "../../series/aggregation";
import { BASELINE_LENGTHS, type Change, baselineOf, changeOf } from "../../series/change";
import { EMPTY, isCounter, rate } from "../../series/columns";
import { format, formatCount, formatTime, unitOf } from "../../series/format";
import { fartherThan } from "../../series/farther";
import { chooseGrain, resampledTo } from "../../series/grain";
import { type Range, roughly } from "../../series/range";
import { Grid } from "./grid";

/** The maximum number of metrics to compare; the search must exclude the others. */
const COMPARED_MAX = 5000;
const PAGE_METRICS = 1000;
/** The maximum number of metrics to show. */
const SHOWN_MAX = 60;
/** The resolution of the comparison, as the width of a chart in pixels. */
const PIXELS = 120;

interface Ranked {
  metric: Metric;
  change: Change;
  unit: string | null;
}

interface State {
  ranked: Ranked[];
  compared: number;
  isDone: boolean;
  /** There may be more than are compared. */
  isCut: boolean;
  error: string | null;
}

const NOTHING_YET: State = { ranked: [], compared: 0, isDone: false, isCut: false, error: null };

interface ChangesProps {
  mark: Range;
  settings: Settings;
  /** The metrics to compare; otherwise those with `text` in their names. */
  metrics?: Metric[];
  text?: string;
}

export function Changes({ mark, text = "", metrics, settings }: ChangesProps) {
  const state = useRanking(mark, text, metrics, settings.method);
  const shown = useMemo(() => state.ranked.slice(0, SHOWN_MAX), [state.ranked]);
  const byId = useMemo(() => new Map(shown.map((ranked) => [ranked.metric.id, ranked])), [shown]);
  const noteOf = ({ id }: Metric) => {
    const ranked = byId.get(id);
    return ranked ? `${format(ranked.change.before, ranked.unit)} → ${format(ranked.change.within, ranked.unit)}` : null;
  };
  const length = mark.to - mark.from;
  return (
    <section aria-label="What changed">
      <p class="lead" role="status">
        What changed most in the {roughly(length)} from {formatTime(mark.from)}, against the {roughly(length * BASELINE_LENGTHS)} before:{" "}
        {state.isDone ? `${formatCount(state.ranked.length, "metric")} of ${state.compared} did.` : `${state.compared} compared…`}
        {state.isCut && " More are not compared: search for a part of the name."}
      </p>
      {state.error && <Problem text={state.error} />}
      <Grid metrics={shown.map(({ metric }) => metric)} settings={settings} isMarking={false} hasSections={false} noteOf={noteOf} />
    </section>
  );
}

function useRanking(mark: Range, text: string, given: Metric[] | undefined, method: string | null): State {
  const [state, setState] = useState(NOTHING_YET);
  const returned = useReturn(state.error !== null);
  useEffect(() => {
    const controller = new AbortController();
    const ranked: Ranked[] = [];
    let compared = 0;
    let unread = 0;
    let problem: string | null = null;
    const report = (isDone: boolean, error: string | null = null) => {
      if (controller.signal.aborted) return;
      ranked.sort((a, b) => b.change.score - a.change.score);
      setState({ ranked: [...ranked], compared: compared - unread, isDone, isCut: compared >= COMPARED_MAX, error });
    };
    const work = async () => {
      const list = async (marker: string | null): Promise<Page<Metric>> =>
        given ? { items: given, marker: null } : listMetrics({ text, marker, limit: PAGE_METRICS }, controller.signal);
      for await (const page of pagesOf(list)) {
        const failed = (error: unknown) => {
          // Deleted meanwhile.
          if (error instanceof HttpError && [400, 404].includes(error.status)) return;
          unread += 1;
          problem = `${formatCount(unread, "metric")} could not be read: ${explain(error)}`;
        };
        await Promise.all(page.items.map((metric) => compare(metric, mark, method).then((found) => found && ranked.push(found), failed)));
        controller.signal.throwIfAborted();
        compared += page.items.length;
        const isDone = page.marker === null || compared >= COMPARED_MAX;
        report(isDone, problem);
        if (isDone) break;
      }
    };
    setState(NOTHING_YET);
    work().catch((error: unknown) => {
      if (!isAborted(error)) report(true, explain(error));
    });
    return () => controller.abort();
  }, [mark.from, mark.to, text, method, given, returned]);
  return state;
}

async function compare(metric: Metric, mark: Range, wished: string | null): Promise<Ranked | null> {
  const policy = metric.archive_policy;
  const method = mainMethod(policy.aggregation_methods, wished);
  const whole = { from: baselineOf(mark).from, to: mark.to };
  const grains = grainsOf(policy);
  const grain = chooseGrain(grains, whole, PIXELS, Date.now() / 1000);
  const found = await measuresOf({ id: metric.id, methods: [method], grain, step: resampledTo(grain, whole), ...whole });
  const fitting = found[method] ?? EMPTY;
  const stored = (await fartherThan(fitting, { id: metric.id, method, grains, grain, range: whole }))?.columns ?? fitting;
  const isRate = isLevel(method) && isCounter(stored, metric.unit);
  const change = changeOf(isRate ? rate(stored) : stored, mark);
  return change && { metric, change, unit: unitOf(metric.unit, method, isRate) };
}
