// The parts of the API's documents that the page uses.

interface Definition {
  /** As Python prints a timedelta: `0:01:00`, `30 days, 0:00:00`. */
  granularity: string;
  timespan: string | null;
}

export interface ArchivePolicy {
  name: string;
  definition: Definition[];
  aggregation_methods: string[];
}

export interface Metric {
  id: string;
  name: string | null;
  unit: string | null;
  resource_id?: string | null;
  resource?: Resource | null;
  archive_policy: ArchivePolicy;
  /** Only with `late_dropped=true`. */
  late_dropped?: number | null;
}

export interface Resource {
  id: string;
  original_resource_id: string;
  type: string;
  project_id: string | null;
  started_at: string;
  ended_at: string | null;
  revision_start: string;
  revision_end: string | null;
  [attribute: string]: unknown;
}

export interface ResourceType {
  name: string;
  attributes: Record<string, { type: string }>;
}

/** Time, granularity in seconds (or the name of a calendar unit), value. */
export type Measure = [string, number | string, number | null];

/** A granularity of a policy. */
export interface Grain {
  seconds: number;
  /** How long it is kept; infinite if the policy sets no limit. */
  spanSeconds: number;
}

const known = new Map<string, number>();

/** A timedelta as Python prints it, in seconds; cached, since metrics share policies. */
export function secondsOf(text: string): number {
  let seconds = known.get(text);
  if (seconds === undefined) {
    seconds = parsed(text);
    known.set(text, seconds);
  }
  return seconds;
}

function parsed(text: string): number {
  const found = /^(?:(\d+) days?, )?(\d+):(\d+):(\d+(?:\.\d+)?)$/.exec(text);
  if (!found) return Number(text) || 0;
  const [, days, hours, minutes, seconds] = found;
  return Number(days ?? 0) * 86400 + Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
}

/** A policy's granularities, finest first. */
export function grainsOf(policy: ArchivePolicy): Grain[] {
  const grains = policy.definition.map(({ granularity, timespan }) => ({
    seconds: secondsOf(granularity),
    spanSeconds: timespan === null ? Infinity : secondsOf(timespan),
  }));
  return grains.sort((a, b) => a.seconds - b.seconds);
}
