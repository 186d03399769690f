// The server's metrics on the store view, polled while it is open.

import { requestText, get, goneSince } from "../../http/client";
import { users as viewers } from "../../http/session";
import { Cell } from "../../state/cell";
import type { Columns } from "../../series/columns";
import { explain } from "../../http/errors";
import { type Sample, samplesOf, sumOf } from "./exposition";

export interface Figure {
  name: string;
  title: string;
  unit: string;
  /** Whether to show a counter's rate per second. */
  isRate: boolean;
  read: (samples: Sample[]) => number | null;
  /** A note beside the title. */
  note?: string;
}

const of = (name: string) => (samples: Sample[]) => sumOf(samples, name);

export const FIGURES: Figure[] = [
  { name: "taken", title: "Measures accepted", unit: "/s", isRate: true, read: of("gnudi_api_measures_total") },
  { name: "folded", title: "Measures folded", unit: "/s", isRate: true, read: of("gnudi_metricd_measures_folded_total"), note: "into aggregates" },
  { name: "backlog", title: "Backlog", unit: "", isRate: false, read: of("gnudi_backlog_measures"), note: "measures that wait" },
  { name: "oldest", title: "Longest wait", unit: "s", isRate: false, read: of("gnudi_metricd_oldest_waiting_seconds"), note: "of a sack for a worker" },
  { name: "requests", title: "Requests", unit: "/s", isRate: true, read: of("gnudi_api_requests_total") },
  { name: "refused", title: "Errors", unit: "/s", isRate: true, read: (samples) => sumOf(samples, "gnudi_api_requests_total", ({ labels }) => /^[45]/.test(labels["status"] ?? "")) ?? 0, note: "answers 4xx and 5xx" },
  { name: "late", title: "Late measures dropped", unit: "", isRate: false, read: of("gnudi_metricd_measures_late_total"), note: "too old, since the start" },
  { name: "processor", title: "Processor", unit: "%", isRate: true, read: (samples) => percent(sumOf(samples, "gnudi_process_cpu_seconds_total")), note: "of one core" },
  { name: "memory", title: "Memory", unit: "B", isRate: false, read: of("gnudi_process_resident_bytes") },
  { name: "written", title: "Written to disk", unit: "B/s", isRate: true, read: of("gnudi_aggregates_written_bytes_total"), note: "aggregates" },
  { name: "free", title: "Disk free", unit: "B", isRate: false, read: of("gnudi_disk_free_bytes") },
  { name: "runs", title: "Aggregates on disk", unit: "B", isRate: false, read: of("gnudi_aggregates_runs_bytes"), note: "sorted runs" },
];

const percent = (seconds: number | null): number | null => (seconds === null ? null : seconds * 100);

export interface Cluster {
  sacks: number;
  split: { old_sacks: number; drained: number } | null;
  processes: Record<string, unknown>[];
  units: Record<string, unknown>[];
  damaged: number;
}

export interface Status {
  storage: { summary: { metrics: number; measures: number } };
  metricd: { processors: string[] | null };
}

export interface Followed {
  samples: Sample[];
  series: Record<string, Columns>;
  status: Status | null;
  cluster: Cluster | null;
  errors: Record<string, string>;
}

const PERIOD_MS = 2000;
const POINTS_MAX = 1800;
/** Without an answer for longer there is a gap: the view was left, or the server was away. Browsers let hidden pages poll once a minute. */
const GAP_S = 90;

const NOTHING_YET: Followed = { samples: [], series: {}, status: null, cluster: null, errors: {} };

export const followed = new Cell(NOTHING_YET);

let before: { at: number; samples: Sample[] } | null = null;

viewers.follow(() => {
  followed.set(NOTHING_YET);
  before = null;
});
let timer = 0;
let users = 0;

/** Polls while a view uses it. */
export function follow(): () => void {
  users += 1;
  if (users === 1) void round();
  return () => {
    users -= 1;
    if (users === 0) window.clearTimeout(timer);
  };
}

async function round(): Promise<void> {
  const viewer = viewers.value;
  const errors: Record<string, string> = {};
  const tried = async <T>(name: string, promise: Promise<T>): Promise<T | null> => {
    try {
      return await promise;
    } catch (error) {
      errors[name] = explain(error);
      return null;
    }
  };
  const [text, status, cluster] = await Promise.all([
    tried("figures", requestText("GET", "metrics").then(({ value }) => value)),
    tried("status", get<Status>("v1/status", { query: { details: "false" } }).then(({ value }) => value)),
    tried("cluster", get<Cluster>("debug/cluster").then(({ value }) => value)),
  ]);
  if (viewer !== viewers.value) return; // The answers are a former user's. The next one's view has begun its own round.
  const old = followed.value;
  const next: Followed = { ...old, status: status ?? old.status, cluster: cluster ?? old.cluster, errors };
  if (text !== null) {
    const now = { at: Date.now() / 1000, samples: samplesOf(text) };
    next.samples = now.samples;
    next.series = Object.fromEntries(FIGURES.map((figure) => [figure.name, withPoint(old.series[figure.name], figure, now)]));
    before = now;
  }
  followed.set(next);
  window.clearTimeout(timer);
  if (users > 0) timer = window.setTimeout(() => void round(), goneSince.value === null ? PERIOD_MS : PERIOD_MS * 2);
}

function withPoint(columns: Columns = { times: [], values: [] }, figure: Figure, now: { at: number; samples: Sample[] }): Columns {
  const value = figure.read(now.samples);
  let shown = value;
  if (figure.isRate) {
    const last = before && figure.read(before.samples);
    if (!before || last == null || value === null || value < last || now.at <= before.at) return columns;
    shown = (value - last) / (now.at - before.at);
  }
  if (shown === null) return columns;
  const lastAt = columns.times[columns.times.length - 1] ?? now.at;
  // The browser's clock was set back: charts need ascending times.
  if (now.at < lastAt) return { times: [now.at], values: [shown] };
  const isGap = now.at - lastAt > GAP_S;
  return {
    times: [...columns.times, ...(isGap ? [(lastAt + now.at) / 2] : []), now.at].slice(-POINTS_MAX),
    values: [...columns.values, ...(isGap ? [null] : []), shown].slice(-POINTS_MAX),
  };
}
