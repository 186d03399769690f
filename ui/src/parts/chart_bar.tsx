// The settings for all charts of a view: aggregate, resolution, band, comparison with the past, marking.

import type { ComponentChildren } from "preact";
import { type Metric, grainsOf } from "../api/types";
import { type Settings, markChange, useSettings } from "../chart/settings";
import { bandsOf, mainMethod } from "../series/aggregation";
import { inWords } from "../series/range";
import { change } from "../state/address";
import { Choice, type Option, plain } from "./choice";

interface ChartBarProps {
  metrics: Metric[];
  isMarking: boolean;
  onMarking: (isMarking: boolean) => void;
  /** The granularity in use, if all charts share one. */
  grain?: number;
  children?: ComponentChildren;
}

export function ChartBar({ metrics, isMarking, onMarking, grain, children }: ChartBarProps) {
  const settings = useSettings();
  const methods = [...new Set(metrics.flatMap(({ archive_policy }) => archive_policy.aggregation_methods))].sort();
  // The charts take the default for what no policy has; choosing "auto" removes it from the address. Until the metrics are there, the address counts.
  const withUnknown = (options: Option[], value: string, text = value): Option[] =>
    metrics.length === 0 || options.some(([key]) => key === value) ? options : [...options, [value, `auto, without ${text}`]];
  const method = settings.method ?? "";
  const written = settings.grain ? String(settings.grain) : "";
  const choices: [string, string, string, Option[]][] = [
    ["Aggregate", "agg", method, withUnknown(methodOptions(methods), method)],
    ["Resolution", "gran", written, withUnknown(grainOptions(metrics, grain), written, inWords(settings.grain ?? 0))],
    ["Band", "band", settings.band ?? "", bandOptions(methods, settings)],
    ["Beside", "beside", besideOf(settings), BESIDES],
    ["Values", "rate", settings.rate === "auto" ? "" : settings.rate, RATES],
  ];
  return (
    <div class="bar" role="toolbar" aria-label="How charts are shown">
      {children}
      <span class="spring" />
      {choices.map(([label, name, value, options]) => (
        <Choice key={name} label={label} name={name} value={value} options={options} isMarked onChoose={(chosen) => change({ [name]: chosen })} />
      ))}
      {settings.mark ? (
        <button type="button" class="on" onClick={() => change(markChange(null))}>Unmark</button>
      ) : (
        <button type="button" aria-pressed={isMarking} class={isMarking ? "on" : ""} title="Then drag over a chart (or hold Shift while dragging, or press M for the shown time): which metrics changed most there?" onClick={() => onMarking(!isMarking)}>
          {isMarking ? "Drag over a chart…" : "What changed?"}
        </button>
      )}
    </div>
  );
}

const RATES: Option[] = [["", "auto"], ["off", "as stored"], ["on", "per second"]];
const BESIDES: Option[] = [["", "nothing"], ["1h", "an hour ago"], ["1d", "yesterday"], ["1w", "last week"]];

function besideOf({ besideSeconds }: Settings): string {
  const known: Record<number, string> = { 0: "", 3600: "1h", 86400: "1d", 604800: "1w" };
  return known[besideSeconds] ?? `${besideSeconds}s`;
}

function methodOptions(methods: string[]): Option[] {
  return [["", `auto${methods.length ? ` (${mainMethod(methods)})` : ""}`], ...plain(methods)];
}

function grainOptions(metrics: Metric[], used: number | undefined): Option[] {
  const all = new Set(metrics.flatMap(({ archive_policy }) => grainsOf(archive_policy).map(({ seconds }) => seconds)));
  const sorted = [...all].sort((a, b) => a - b);
  return [["", `auto${used ? ` (${inWords(used)})` : ""}`], ...sorted.map((seconds): Option => [String(seconds), inWords(seconds)])];
}

function bandOptions(methods: string[], { band }: Settings): Option[] {
  const bands = bandsOf(methods);
  const options: Option[] = [["", "auto"], ["none", "none"], ...bands.map(({ low, high, label }): Option => [`${low},${high}`, label])];
  if (band && !options.some(([value]) => value === band)) options.push([band, band.replace(",", " to ")]);
  return options;
}
