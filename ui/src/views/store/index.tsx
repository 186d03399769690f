// The store view: health, activity, workers and contents.

import { useEffect, useMemo } from "preact/hooks";
import { Plot } from "../../chart/plot";
import { Problem } from "../../parts/problem";
import { ScrollTable } from "../../parts/scroll_table";
import { summary } from "../../series/columns";
import { format } from "../../series/format";
import { useCell } from "../../state/cell";
import { lineColour, theme } from "../../state/theme";
import { Contents } from "./contents";
import { Requests } from "./requests";
import { type Cluster, FIGURES, type Figure, type Followed, follow, followed } from "./figures";
import { sumOf } from "./exposition";

/** The charts show the time since the page was opened, within these limits. */
const SHOWN_MIN_S = 120;
const SHOWN_MAX_S = 1800;

export function Store() {
  const now = useCell(followed);
  useEffect(follow, []);
  const { errors } = now;
  return (
    <div class="store">
      <Health now={now} />
      {errors["figures"] && <Problem text={`Figures: ${errors["figures"]}`} />}
      <section class="tiles" aria-label="Figures">
        {FIGURES.map((figure) => <Tile key={figure.name} figure={figure} now={now} />)}
      </section>
      <Contents workers={<Workers now={now} />} requests={<Requests samples={now.samples} />} />
    </div>
  );
}

function Health({ now }: { now: Followed }) {
  const problems = problemsOf(now);
  const { status, cluster } = now;
  const waiting = status?.storage.summary;
  return (
    <section class={`health${problems.length ? " bad" : ""}`} aria-label="Health">
      <h1>{problems.length ? "Look at this" : now.samples.length && !now.errors["figures"] ? "All is well" : "The store"}</h1>
      <p role="status">
        {problems.length > 0 && <strong>{problems.join(" ")} </strong>}
        {waiting && (waiting.measures === 0 ? "Nothing waits to be processed. " : `${format(waiting.measures)} measures of ${format(waiting.metrics)} metrics wait. `)}
        {cluster && `${cluster.sacks} sacks${cluster.split ? `, a split drains (${cluster.split.drained} of ${cluster.split.old_sacks} done)` : ""}.`}
      </p>
    </section>
  );
}

/** The same as in the alert GnudiDamaged. */
const DAMAGED = ["gnudi_metricd_damaged_total", "gnudi_incoming_damaged_total", "gnudi_aggregates_damaged_total", "gnudi_index_damaged_total"];

/** Problems that an operator should act on. */
function problemsOf({ samples, cluster }: Followed): string[] {
  const problems: string[] = [];
  const is = (name: string) => (sumOf(samples, name) ?? 0) > 0;
  if (is("gnudi_incoming_poisoned") || is("gnudi_aggregates_poisoned")) problems.push("A disk failure has stopped writes: restart once the disk is sound.");
  if (DAMAGED.some(is)) problems.push("Damaged data was found: gnudi verify says what.");
  if (is("gnudi_metricd_measures_set_aside_total")) problems.push("Measures were set aside, since folding them failed.");
  if (sumOf(samples, "gnudi_disk_reserve_held_bytes") === 0 && is("gnudi_disk_reserve_bytes")) problems.push("The disk is full.");
  if ((sumOf(samples, "gnudi_metricd_oldest_waiting_seconds") ?? 0) > 300) problems.push("Measures wait for more than five minutes.");
  if (cluster?.damaged) problems.push("A process has found damaged data.");
  return [...new Set(problems)];
}

function Tile({ figure, now }: { figure: Figure; now: Followed }) {
  useCell(theme);
  const columns = now.series[figure.name];
  const lines = useMemo(() => (columns ? [{ label: figure.title, colour: lineColour(0), columns, role: "line" as const }] : []), [columns]);
  const last = columns?.values[columns.values.length - 1];
  if (columns && columns.times.length === 0 && !figure.isRate) return null;
  const end = columns?.times[columns.times.length - 1] ?? Date.now() / 1000;
  const length = Math.min(Math.max(end - (columns?.times[0] ?? end), SHOWN_MIN_S), SHOWN_MAX_S);
  const figures = columns && summary(columns);
  return (
    <article class="tile">
      <header><h2>{figure.title}</h2><output class="value">{format(last, figure.unit)}</output></header>
      <p class="sub">{figure.note ?? "\u00a0"}</p>
      {lines.length > 0 && (
        <Plot lines={lines} range={{ from: end - length, to: end }} unit={figure.unit} height={84} isSmall isFixed
          label={`${figure.title}: ${format(last, figure.unit)}, at most ${format(figures?.max, figure.unit)}`} />
      )}
    </article>
  );
}

function Workers({ now: { status, cluster, errors } }: { now: Followed }) {
  const processors = status?.metricd.processors ?? [];
  const problem = errors["cluster"] ?? errors["status"];
  return (
    <section class="box" aria-label="Who works">
      <h2>Who works</h2>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {cluster && cluster.processes.length > 0 ? <Processes cluster={cluster} /> : status && (
        <p class="note">{processors.length ? `${processors.join(", ")} owns all ${cluster?.sacks ?? ""} sacks: one process has the store to itself.` : "Nobody processes measures."}</p>
      )}
    </section>
  );
}

function Processes({ cluster }: { cluster: Cluster }) {
  const owned = new Map<string, number>();
  for (const unit of cluster.units) {
    const owner = String(unit["owner"] ?? unit["process"] ?? "nobody");
    owned.set(owner, (owned.get(owner) ?? 0) + 1);
  }
  const columns = [...new Set(cluster.processes.flatMap((process) => Object.keys(process)))].slice(0, 6);
  return (
    <>
      <ScrollTable label="Processes" head={columns.map((name) => <th key={name}>{name.replace(/_/g, " ")}</th>)}>
        {cluster.processes.map((process, at) => <tr key={at}>{columns.map((name) => <td key={name}>{String(process[name] ?? "")}</td>)}</tr>)}
      </ScrollTable>
      <p class="note">{[...owned].map(([owner, count]) => `${owner}: ${count} units`).join(" · ")}</p>
    </>
  );
}
