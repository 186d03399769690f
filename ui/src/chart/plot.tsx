// A chart: lines over time on a canvas, by uPlot.

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { type Columns, joined } from "../series/columns";
import type { Range } from "../series/range";
import { useCell } from "../state/cell";
import { theme } from "../state/theme";
import { type Shape, optionsOf } from "./options";

export interface Line {
  label: string;
  colour: string;
  columns: Columns;
  /** `low` and `high` are the edges of a band around the line before them; `beside` is a line of another time. */
  role: "line" | "low" | "high" | "beside";
}

export interface Values {
  time: number | null;
  /** One per line. */
  values: (number | null)[];
}

export interface PlotProps {
  lines: Line[];
  range: Range;
  unit: string | null;
  height: number;
  /** Measured if absent, which forces a layout of the page. */
  width?: number;
  isSmall?: boolean;
  /** The accessible name. */
  label: string;
  /** The marked window; absent in views that have none. */
  mark?: Range | null;
  /** Whether dragging marks instead of zooming. */
  isMarking?: boolean;
  isLogarithmic?: boolean;
  /** Whether the mouse does not change the page's range: the chart has its own. */
  isFixed?: boolean;
  /** Called with the values under the cursor, of this chart or another. */
  onCursor?: (values: Values) => void;
}

export function Plot(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawnMark = useRef<Range | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const look = useCell(theme);
  const { lines, range, unit, height, isSmall = false, isLogarithmic = false } = props;
  const data = useMemo(() => {
    const all = joined(lines.map((line) => line.columns));
    return [all.times, ...all.columns] as uPlot.AlignedData;
  }, [lines]);
  const shape: Shape = {
    lines: lines.map(({ label, colour, role }) => ({ label, colour, role })),
    unit,
    isSmall,
    isLogarithmic,
  };
  const shapeKey = JSON.stringify([shape, look]);

  useLayoutEffect(() => {
    const parent = box.current;
    if (!parent || shape.lines.length === 0) return;
    const width = Math.round(latest.current.width ?? parent.clientWidth) || 300;
    // Attach it after it is drawn: in the page, the browser recomputes all styles for each font set on the
    // canvas.
    const show = (self: uPlot) => plot.current === self && parent.appendChild(self.root);
    const made = new uPlot(optionsOf(shape, width, height, () => latest.current, show), data, (_self, begin) => begin());
    made.setScale("x", scaleOf(latest.current.range));
    drawnMark.current = latest.current.mark ?? null;
    plot.current = made;
    const observer = latest.current.width === undefined ? new ResizeObserver(([entry]) => fit(made, entry?.contentRect.width ?? 0, latest.current.height)) : null;
    observer?.observe(parent);
    return () => {
      observer?.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shapeKey, height]);

  useLayoutEffect(() => {
    if (plot.current && props.width !== undefined) fit(plot.current, props.width, height);
  }, [props.width]);

  useLayoutEffect(() => {
    const made = plot.current;
    // A new plot is drawn with this data, but not yet.
    if (!made || made.status === 0) return;
    const { min, max } = made.scales["x"] as uPlot.Scale;
    const isSameData = made.data === data;
    if (isSameData && min === range.from && max === range.to) return;
    made.batch(() => {
      if (!isSameData) made.setData(data, false);
      made.setScale("x", scaleOf(range));
    });
  }, [data, range.from, range.to]);

  const mark = props.mark ?? null;
  useEffect(() => {
    if (drawnMark.current?.from === mark?.from && drawnMark.current?.to === mark?.to) return;
    drawnMark.current = mark;
    plot.current?.redraw(false);
  }, [mark?.from, mark?.to]);

  return <div ref={box} class={`plot${isSmall ? " small" : ""}${props.isMarking ? " marking" : ""}`} role="img" aria-label={props.label} style={{ height: `${height}px` }} />;
}

function fit(plot: uPlot, width: number, height: number): void {
  const next = Math.round(width);
  if (next > 0 && next !== plot.width) plot.setSize({ width: next, height });
}

const scaleOf = ({ from, to }: Range) => ({ min: from, max: to });
