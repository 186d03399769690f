// Operations over many metrics, or PromQL: an editor, the result and its cost.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, type Query as Request, aggregates, requestOf } from "../../api/aggregates";
import * as promqlApi from "../../api/promql";
import { listTypes } from "../../api/resources";
import type { ResourceType } from "../../api/types";
import { HttpError, explain } from "../../http/errors";
import { useLoaded, useReturn } from "../../http/loading";
import * as filterLanguage from "../../language/filter";
import * as operationLanguage from "../../language/operations";
import { type Mistake, mistakeOf } from "../../language/problem";
import * as promql from "../../language/promql";
import type { RequestLine } from "../../http/client";
import { Choice, type Option, plain } from "../../parts/choice";
import { ManyLines, Table } from "../../parts/many_lines";
import { Problem } from "../../parts/problem";
import { ExportButtons } from "../../parts/export_buttons";
import { format, formatCount } from "../../series/format";
import { stepOf } from "../../series/grain";
import { type Range, secondsOfShort, servedPart } from "../../series/range";
import { change, useAddress } from "../../state/address";
import { useCell } from "../../state/cell";
import { useNewest } from "../../state/newest";
import { LIVE_PERIOD_MIN_S, isLive, range as shownRange, spanKey } from "../../state/time";
import { Editor } from "./editor";
import { Examples } from "./examples";
import { attributesOf, filterOffers, operationOffers, promqlOffers } from "./offers";

interface Draft {
  /** `promql`, or empty for operations. */
  language: string;
  operations: string;
  /** In PromQL. */
  expression: string;
  filter: string;
  type: string;
  by: string;
  fill: string;
  /** Seconds, or with a unit, as `5m`; in PromQL the step. */
  grain: string;
}

const isPromql = ({ language }: Draft): boolean => language === "promql";

/** What the browser lets the user run. */
const GRAIN = "\\s*\\d+(\\.\\d+)?\\s*[smhdw]?\\s*";

/** Seconds; `null` without. */
const grainOf = ({ grain }: Draft): number | null => Number(grain) || secondsOfShort(grain);

const FILLS: Option[] = [["", "only where all are"], ...plain(["0", "null", "dropna", "ffill", "bfill"])];

const NO_TYPES: ResourceType[] = [];

export function Query() {
  const { params } = useAddress();
  const [draft, setDraft] = useState<Draft>(() => draftOf(params));
  const { value: types = NO_TYPES } = useLoaded(listTypes, []);
  const [runs, setRuns] = useState(hasQuery(params) ? 1 : 0);
  const outcome = useOutcome(draft, runs);
  const key = FIELDS.map(([, name]) => params.get(name)).join("|");
  const own = useRef(key);
  useEffect(() => {
    // The address was changed by a link or "back", not by this editor.
    if (own.current !== key) {
      setDraft(draftOf(params));
      setRuns((count) => (hasQuery(params) ? count + 1 : 0));
    }
    own.current = key;
  }, [key]);
  const form = useRef<HTMLFormElement>(null);
  const submit = () => form.current?.requestSubmit();
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const run = () => {
    const changes = Object.fromEntries(FIELDS.map(([field, name]) => [name, draft[field].trim() || null]));
    own.current = FIELDS.map(([field]) => draft[field].trim() || null).join("|");
    change(changes);
    setRuns(runs + 1);
  };
  const type = types.find(({ name }) => name === draft.type);
  const attributes = attributesOf(type);
  const marks = marksOf(outcome.error, outcome.ran === textOf(draft) ? draft : null);
  return (
    <div class="query">
      <form ref={form} class="box" onSubmit={(event) => (event.preventDefault(), run())}>
        <h1>Query</h1>
        <div class="fields">
          <Choice label="Language" name="language" value={draft.language} options={[["", "Gnocchi"], ["promql", "PromQL"]]} onChoose={(language) => set({ language })} />
          {!isPromql(draft) && <OperationFields draft={draft} types={types} attributes={attributes} set={set} />}
          <label class="choice"><span>{isPromql(draft) ? "Step" : "Granularity"}</span>
            <input name="granularity" size={7} value={draft.grain} placeholder={isPromql(draft) ? "auto" : "all"} pattern={GRAIN} title="Seconds, or with a unit: 5m, 1h" onInput={(event) => set({ grain: event.currentTarget.value })} />
          </label>
        </div>
        {isPromql(draft) ? (
          <Editor id="promql" label="PromQL" rows={4} value={draft.expression} placeholder="sum by (zone) (rate(requests_total[5m]))"
            mistakes={[...promql.check(draft.expression), ...marks.operations]} onValue={(expression) => set({ expression })} onRun={submit}
            offersAt={promqlOffers} />
        ) : (
          <>
            {draft.type && (
              <Editor id="filter" label="Of which resources" rows={1} value={draft.filter} placeholder={"all of them; or: zone = 'north' and not flavor like 'm1%'"}
                mistakes={[...filterLanguage.check(draft.filter, attributes), ...marks.filter]} onValue={(filter) => set({ filter })} onRun={submit}
                offersAt={(text, place) => filterOffers(text, place, type)} />
            )}
            <Editor id="operations" label="Operations" rows={4} value={draft.operations} placeholder={draft.type ? "(aggregate mean (metric cpu_util mean))" : "(rolling mean 10 (metric ID mean))"}
              mistakes={[...operationLanguage.check(draft.operations), ...marks.operations]} onValue={(operations) => set({ operations })} onRun={submit}
              offersAt={(text, place) => operationOffers(text, place, draft.type !== "")} />
          </>
        )}
        {marks.other && <Problem text={marks.other} />}
        <div class="actions">
          <button type="submit" class="main" disabled={!(isPromql(draft) ? draft.expression : draft.operations).trim()}>Run</button>
          <small>Ctrl+Enter</small>
          <span class="spring" />
          {outcome.isRunning && <small role="status">Running…</small>}
        </div>
      </form>
      {!draft.operations && !isPromql(draft) && <Examples types={types} onChoose={set} />}
      {outcome.answer && <Shown answer={outcome.answer} tookMs={outcome.tookMs} draft={outcome.answered ?? draft} />}
    </div>
  );
}

interface FieldsProps {
  draft: Draft;
  types: ResourceType[];
  attributes: string[];
  set: (part: Partial<Draft>) => void;
}

function OperationFields({ draft, types, attributes, set }: FieldsProps) {
  return (
    <>
      <Choice label="Metrics of" name="type" value={draft.type} options={[["", "no resource: by id"], ...plain(types.map(({ name }) => name))]} onChoose={(type) => set({ type })} />
      <Choice label="Group by" name="groupby" value={draft.by} options={[["", "nothing"], ...plain(attributes)]} isDisabled={!draft.type} onChoose={(by) => set({ by })} />
      <Choice label="Fill" name="fill" value={draft.fill} options={FILLS} onChoose={(fill) => set({ fill })} />
    </>
  );
}

/** The draft's fields, and their parameters in the address. */
const FIELDS: [keyof Draft, string][] = [["language", "lang"], ["operations", "op"], ["expression", "expr"], ["filter", "filter"], ["type", "type"], ["by", "by"], ["fill", "fill"], ["grain", "gran"]];

function draftOf(params: URLSearchParams): Draft {
  return Object.fromEntries(FIELDS.map(([field, name]) => [field, params.get(name) ?? ""])) as unknown as Draft;
}

const hasQuery = (params: URLSearchParams): boolean => Boolean(params.get(params.get("lang") === "promql" ? "expr" : "op"));

const textOf = (draft: Draft): string => FIELDS.map(([field]) => draft[field]).join("\n");

interface Outcome {
  answer: Answer | null;
  /** The draft of the answer: what is exported belongs to what is shown, not to what was typed since. */
  answered: Draft | null;
  error: unknown;
  /** The draft of this outcome. */
  ran: string;
  tookMs: number;
  isRunning: boolean;
}

const NOTHING_YET: Outcome = { answer: null, answered: null, error: null, ran: "", tookMs: 0, isRunning: false };

/** Runs the draft on request, again while live, and once the server answers again. `runs`: how often it was requested; 0 for a view without a query. */
function useOutcome(draft: Draft, runs: number): Outcome {
  const [outcome, setOutcome] = useState(NOTHING_YET);
  const range = useCell(shownRange);
  const live = useCell(isLive);
  const newest = useNewest();
  const returned = useReturn(outcome.error !== null);
  const last = useRef({ runs: 0, span: "", at: 0 });
  const ran = useRef<Draft>(draft);
  useEffect(() => {
    if (runs === 0) {
      newest.stop();
      last.current.runs = 0;
      setOutcome(NOTHING_YET);
      return;
    }
    const span = `${spanKey(range, live)} ${returned}`;
    const isRun = last.current.runs !== runs;
    const isNew = isRun || last.current.span !== span;
    // An update while live neither aborts a request nor follows at once.
    if (!isNew && (newest.isRunning || range.to - last.current.at < LIVE_PERIOD_MIN_S)) return;
    if (isRun) ran.current = draft;
    last.current = { runs, span, at: range.to };
    const began = performance.now();
    const asked = ran.current;
    const text = textOf(asked);
    if (isNew) setOutcome((before) => ({ ...before, isRunning: true }));
    newest.start(
      (signal) => answerOf(asked, range, signal),
      (answer) => setOutcome({ answer, answered: asked, error: null, ran: text, tookMs: performance.now() - began, isRunning: false }),
      (error) => setOutcome((before) => ({ ...before, error, ran: text, isRunning: false })),
    );
  }, [runs, range.from, range.to, returned]);
  return outcome;
}

const answerOf = (draft: Draft, range: Range, signal: AbortSignal): Promise<Answer> =>
  isPromql(draft) ? promqlApi.queryRange(rangeQueryFor(draft, range), signal) : aggregates(requestFor(draft, range), signal);

const requestLineOf = (draft: Draft, range: Range): RequestLine =>
  isPromql(draft) ? promqlApi.requestOf(rangeQueryFor(draft, range)) : requestOf(requestFor(draft, range));

function rangeQueryFor(draft: Draft, range: Range): promqlApi.RangeQuery {
  const part = servedPart(range);
  return { expression: draft.expression, ...part, step: stepOf(part, grainOf(draft) ?? 0) };
}

function requestFor(draft: Draft, { from, to }: Range): Request {
  return {
    operations: draft.operations,
    ...(draft.type && { type: draft.type, search: draft.filter.trim() || {}, groupBy: draft.by ? [draft.by] : [] }),
    grain: grainOf(draft),
    from,
    to,
    fill: draft.fill || null,
  };
}

interface Marks {
  operations: Mistake[];
  filter: Mistake[];
  other: string;
}

/** Where an error is in the draft, unless another one has been typed since (`null`). */
function marksOf(error: unknown, draft: Draft | null): Marks {
  const marks: Marks = { operations: [], filter: [], other: "" };
  if (!error) return marks;
  const text = explain(error);
  if (!draft || !(error instanceof HttpError) || !(isPromql(draft) ? [400] : [400, 404]).includes(error.status)) return { ...marks, other: text };
  if (isPromql(draft)) return { ...marks, operations: [promql.mistakeOf(text, draft.expression)] };
  if (/filter|attribute|search/i.test(text) && draft.filter.trim() !== "") return { ...marks, filter: [mistakeOf(text, draft.filter)] };
  if (/operation|metric|aggregat/i.test(text)) return { ...marks, operations: [mistakeOf(text, draft.operations)] };
  return { ...marks, other: text };
}

function Shown({ answer, tookMs, draft }: { answer: Answer; tookMs: number; draft: Draft }) {
  const range = useCell(shownRange);
  const [isTable, setTable] = useState(false);
  const { results: series, cost, notes } = answer;
  const points = series.reduce((sum, { columns }) => sum + columns.times.length, 0);
  return (
    <section class="box" aria-label="Result">
      <p class="cost" role="status">
        {formatCount(series.length, "series", "series")}, {formatCount(points, "point")}, {format(cost.bytes, "B")} in {Math.round(tookMs)} ms:
        {" "}{Math.round(cost.waitedMs)} ms until the server answered, {Math.round(cost.readMs)} ms to read it
      </p>
      {notes?.map((note) => <p key={note} class="note">{note}</p>)}
      {points === 0 ? <p class="empty">No points in this time.</p> : <ManyLines series={series} range={range} unit={null} height={320} label="Result" />}
      <div class="actions">
        <ExportButtons name="query" series={() => series} request={() => requestLineOf(draft, range)} hasArrow={!isPromql(draft)} />
        <button type="button" aria-expanded={isTable} class={isTable ? "on" : ""} onClick={() => setTable(!isTable)}>Table</button>
      </div>
      {isTable && <Table series={series} unit={null} />}
    </section>
  );
}
