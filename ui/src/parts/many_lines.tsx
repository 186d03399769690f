// Several series in one chart, with a legend that hides entries. Of too many, only the largest are drawn, and
// a note says so.

import { useMemo, useRef, useState } from "preact/hooks";
import { type Line, Plot, type Values } from "../chart/plot";
import { type Columns, summary, withGaps } from "../series/columns";
import { format, formatCount, formatTime } from "../series/format";
import type { Range } from "../series/range";
import { useCell } from "../state/cell";
import { lineColour, theme } from "../state/theme";
import { ScrollTable } from "./scroll_table";

export interface Series {
  key: string;
  label: string;
  columns: Columns;
  grain: number;
  isStepped?: boolean;
}

/** The most lines that remain distinguishable. */
export const LINES_MAX = 40;

interface ManyLinesProps {
  series: Series[];
  range: Range;
  unit: string | null;
  height: number;
  label: string;
  /** The number of all series, if `series` is a subset. */
  total?: number;
  /** The marked window; absent in views that have none. */
  mark?: Range | null;
  isLogarithmic?: boolean;
}

export function ManyLines({ series, range, unit, height, label, total = series.length, mark, isLogarithmic = false }: ManyLinesProps) {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const look = useCell(theme);
  const readout = useRef<HTMLUListElement>(null);
  const chosen = useMemo(() => largest(series), [series]);
  const [keys, lines] = useMemo(() => {
    const coloured = chosen.map((one, at) => ({ ...one, colour: lineColour(at) })).filter(({ key }) => !hidden.has(key));
    const drawn = coloured.map(({ label: name, colour, columns, grain, isStepped }): Line => ({
      label: name, colour, columns: withGaps(columns, grain, isStepped), role: "line",
    }));
    return [coloured.map(({ key }) => key), drawn];
  }, [chosen, hidden, look]);
  const toggle = (key: string) => {
    const next = new Set(hidden);
    if (!next.delete(key)) next.add(key);
    setHidden(next);
  };
  const showValues = ({ time, values }: Values) => {
    keys.forEach((key, at) => {
      const place = readout.current?.querySelector(`[data-key="${CSS.escape(key)}"] output`);
      if (place) place.textContent = format(time === null ? lastOf(lines[at]?.columns.values ?? []) : values[at], unit);
    });
  };
  return (
    <figure class="many">
      {total > chosen.length && (
        <p class="note" role="status">
          {formatCount(total, "series", "series")}: the {chosen.length} with the largest values are drawn. A filter or another grouping makes fewer.
        </p>
      )}
      <Plot
        lines={lines}
        range={range}
        unit={unit}
        height={height}
        label={`${label}: ${formatCount(total, "series", "series")}`}
        mark={mark}
        isLogarithmic={isLogarithmic}
        onCursor={showValues}
      />
      <ul class="legend" ref={readout}>
        {chosen.map(({ key, label: name, columns }, at) => (
          <li key={key} data-key={key}>
            <button type="button" aria-pressed={!hidden.has(key)} class={hidden.has(key) ? "off" : ""} onClick={() => toggle(key)}>
              <span class="swatch" style={{ background: lineColour(at) }} />
              <bdi>{name}</bdi>
            </button>
            <output>{format(lastOf(columns.values), unit)}</output>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function lastOf(values: (number | null)[]): number | null {
  for (let at = values.length - 1; at >= 0; at--) if (values[at] != null) return values[at] as number;
  return null;
}

/** Those with the largest values, if there are too many. */
export function largest<S extends { columns: Columns }>(series: S[]): S[] {
  if (series.length <= LINES_MAX) return series;
  const height = new Map(series.map((one) => [one, summary(one.columns)?.max ?? -Infinity]));
  return [...series].sort((a, b) => (height.get(b) as number) - (height.get(a) as number)).slice(0, LINES_MAX);
}

const ROWS_MAX = 200;
const COLUMNS_MAX = 8;

/** A chart's values as a table, newest first, for screen readers among others. */
export function Table({ series, unit }: { series: Series[]; unit: string | null }) {
  const shown = series.slice(0, COLUMNS_MAX);
  // A gap of a line has a time, but no value.
  const all = [...new Set(shown.flatMap(({ columns }) => columns.times.filter((_, at) => columns.values[at] != null)))].sort((a, b) => b - a);
  const times = all.slice(0, ROWS_MAX);
  const isCut = times.length < all.length || shown.length < series.length;
  const values = shown.map(({ columns }) => new Map(columns.times.map((time, at) => [time, columns.values[at]])));
  return (
    <>
      {isCut && <p class="note">The newest {times.length} of {formatCount(all.length, "time")}, {shown.length} of {formatCount(series.length, "series", "series")}: CSV has all.</p>}
      <ScrollTable label="The values as a table" head={<><th>Time</th>{shown.map(({ key, label }) => <th key={key} class="number">{label}</th>)}</>}>
        {times.map((time) => (
          <tr key={time}><td>{formatTime(time)}</td>{values.map((column, at) => <td key={at} class="number">{format(column.get(time), unit, 6)}</td>)}</tr>
        ))}
      </ScrollTable>
    </>
  );
}
