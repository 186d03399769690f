// uPlot options: a chart's appearance and its reaction to input.

import uPlot from "uplot";
import { isBytes } from "../series/format";
import { change } from "../state/address";
import { colour } from "../state/theme";
import { show, turn } from "../state/time";
import { BYTE_STEPS, axisUnit, labelsOf, timesOf } from "./labels";
import type { Line, PlotProps } from "./plot";
import { markChange } from "./settings";

/** A change of any of these needs a new plot. */
export interface Shape {
  lines: Pick<Line, "label" | "colour" | "role">[];
  unit: string | null;
  isSmall: boolean;
  isLogarithmic: boolean;
}

/** All charts share one cursor. */
const CURSOR = "time";

let family = "";

/** Shorter drags are clicks. */
const DRAG_MIN_PX = 4;

/** `onDrawn` is called once, after the first drawing. */
export function optionsOf(shape: Shape, width: number, height: number, props: () => PlotProps, onDrawn: (self: uPlot) => void): uPlot.Options {
  const axis = colour("muted");
  const grid = { stroke: colour("grid"), width: 1 };
  family ||= getComputedStyle(document.body).fontFamily;
  const fontSize = shape.isSmall ? 10.5 : 11.5;
  const font = `${fontSize}px ${family}`;
  let isMarking = false;
  return {
    width,
    height,
    // Else each chart compiles the default formats of times, which it does not use.
    fmtDate: () => () => "",
    padding: shape.isSmall ? [6, 16, 0, 0] : [10, 20, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: true },
      y: { range: rangeOfValues(shape), distr: shape.isLogarithmic ? 3 : 1 },
    },
    axes: [
      {
        stroke: axis, font, grid: { show: !shape.isSmall, ...grid }, ticks: { show: false },
        size: shape.isSmall ? 22 : 28, gap: 4, space: shape.isSmall ? 64 : 80, values: (_self, splits, _axis, _space, step) => timesOf(splits, step),
      },
      {
        stroke: axis, font, grid, ticks: { show: false }, gap: 5, space: shape.isSmall ? 30 : 40,
        size: (_, values) => widthOf(values, fontSize),
        values: (_, splits) => labelsOf(splits, axisUnit(shape.unit)),
        ...(isBytes(shape.unit) && { incrs: BYTE_STEPS }),
      },
    ],
    series: [{}, ...shape.lines.map((line) => seriesOf(line, shape.isSmall))],
    bands: bandsOf(shape),
    cursor: {
      y: false,
      points: { size: 7, width: 2 },
      drag: { x: true, y: false, setScale: false, dist: DRAG_MIN_PX },
      sync: { key: CURSOR, setSeries: false, scales: ["x", null] },
      bind: {
        mousedown: (_self, _target, handler) => (event) => {
          isMarking = event.shiftKey || props().isMarking === true;
          return handler(event);
        },
        dblclick: () => () => null,
      },
    },
    hooks: {
      setSelect: [(self) => selected(self, isMarking, props())],
      setCursor: [(self) => reportCursor(self, props())],
      drawAxes: [(self) => shape.isSmall && simplify(self)],
      drawClear: [(self) => drawMark(self, props().mark ?? null)],
      ready: [(self) => followWheel(self, props), onDrawn],
    },
  };
}

const WIDTH_SMALL = 1.5;
/** Browsers draw lines of one pixel ten times as fast as others. */
const WIDTH_DENSE = 1;
/** Beyond this density a line's width is hidden by the spread of its values. */
const DENSE_POINTS_PER_PIXEL = 2;

/** Makes drawing fast: on thin lines the joins are invisible, and round ones are slowest. uPlot sets the join before it draws the axes. */
function simplify(self: uPlot): void {
  self.ctx.lineJoin = "bevel";
  const isDense = self.data[0].length > self.bbox.width * DENSE_POINTS_PER_PIXEL;
  for (const series of self.series) if (series.width) series.width = isDense ? WIDTH_DENSE : WIDTH_SMALL;
}

function seriesOf({ label, colour: stroke, role }: Shape["lines"][number], isSmall: boolean): uPlot.Series {
  if (role === "low" || role === "high") return { label, stroke: "transparent", width: 0, points: { show: false }, spanGaps: false };
  const isBeside = role === "beside";
  return {
    label,
    stroke,
    width: isSmall ? WIDTH_SMALL : 1.75,
    spanGaps: false,
    ...(isBeside && { dash: [5, 4], alpha: 0.75 }),
    points: { size: 4.5, fill: stroke, filter: onlyAlone },
  };
}

/** Draws only isolated points, which have no line. */
const onlyAlone: uPlot.Series.Points.Filter = (self, at, _show, gaps) => {
  const column = self.data[at] as (number | null | undefined)[];
  // Without gaps a line has all points. Both look-ups are much faster than the loop.
  if (column.length > 1 && !column.includes(null) && !column.includes(undefined)) return gaps ? [] : null;
  const [first, last] = (self.series[at] as uPlot.Series).idxs ?? [0, column.length - 1];
  const alone: number[] = [];
  let [before, beforeAlone] = [false, -1];
  for (let place = first as number; place <= (last as number); place++) {
    const value = column[place];
    if (value === undefined) continue;
    if (value === null) {
      if (beforeAlone >= 0) alone.push(beforeAlone);
      [before, beforeAlone] = [false, -1];
    } else {
      beforeAlone = before ? -1 : place;
      before = true;
    }
  }
  if (beforeAlone >= 0) alone.push(beforeAlone);
  return alone.length ? alone : gaps ? [] : null;
};

/** The edges of a band follow its line: low, then high. */
function bandsOf({ lines }: Shape): uPlot.Band[] {
  const bands: uPlot.Band[] = [];
  lines.forEach(({ role, colour: fill }, at) => {
    if (role === "high" && lines[at - 1]?.role === "low") bands.push({ series: [at + 1, at], fill: translucent(fill) });
  });
  return bands;
}

function translucent(hex: string): string {
  const value = parseInt(hex.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, 0.17)`;
}

/** Starts at zero if the values are near it, so that heights can be compared; otherwise fits the line closely. */
function rangeOfValues(shape: Shape): uPlot.Scale.Range {
  return (_self, min, max) => {
    // On a logarithmic scale these are of the positive values alone.
    if (min == null || max == null) return shape.isLogarithmic ? [1, 10] : [0, 1];
    if (shape.isLogarithmic) return [min / 1.2, max * 1.2];
    if (shape.unit === "%" && min >= 0 && max <= 100 && max > 40) return [0, Math.max(max * 1.05, max > 90 ? 100 : 0)];
    if (min === max) return min === 0 ? [0, 1] : min > 0 ? [0, max * 1.25] : [min * 1.25, 0];
    const room = (max - min) * 0.08;
    const low = min >= 0 && min < (max - min) * 1.5 ? 0 : min - room;
    const high = max <= 0 && -max < (max - min) * 1.5 ? 0 : max + room;
    return [low, high];
  };
}

/** Digits have a constant width; measuring each text is slower than drawing it. */
const CHARACTER_WIDTH = 0.6;

function widthOf(values: string[] | null, sizePx: number): number {
  const longest = Math.max(0, ...(values ?? []).map((value) => value.length));
  return Math.ceil(longest * sizePx * CHARACTER_WIDTH) + 12;
}

function selected(self: uPlot, isMarking: boolean, props: PlotProps): void {
  const { left, width } = self.select;
  if (width < DRAG_MIN_PX) return;
  const chosen = { from: self.posToVal(left, "x"), to: self.posToVal(left + width, "x") };
  self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (isMarking && props.mark !== undefined) change(markChange(chosen));
  else if (!props.isFixed) show(chosen);
}

function reportCursor(self: uPlot, props: PlotProps): void {
  if (!props.onCursor) return;
  const at = self.cursor.idx;
  const time = at == null || (self.cursor.left ?? -1) < 0 ? null : (self.data[0][at] ?? null);
  props.onCursor({ time, values: props.lines.map((_, line) => (time === null ? null : nearest(self, line + 1, at as number))) });
}

/** The line's last value at or before the cursor: lines with other times have none at exactly this one. */
function nearest(self: uPlot, series: number, at: number): number | null {
  const column = self.data[series] as (number | null | undefined)[] | undefined;
  for (let back = 0; column && back <= 8 && at - back >= 0; back++) {
    const value = column[at - back];
    if (value !== undefined) return value;
  }
  return null;
}

function drawMark(self: uPlot, mark: { from: number; to: number } | null): void {
  if (!mark) return;
  const [left, right] = [self.valToPos(mark.from, "x", true), self.valToPos(mark.to, "x", true)];
  const { left: first, top, width, height } = self.bbox;
  const begin = Math.max(left, first);
  const end = Math.min(right, first + width);
  if (end <= begin) return;
  self.ctx.save();
  self.ctx.fillStyle = colour("mark");
  self.ctx.fillRect(begin, top, end - begin, height);
  self.ctx.restore();
}

/** Zooms with Ctrl only, so that the wheel still scrolls the page. */
function followWheel(self: uPlot, props: () => PlotProps): void {
  self.over.addEventListener(
    "wheel",
    (event) => {
      if (props().isFixed || !event.ctrlKey) return;
      event.preventDefault();
      turn(event.deltaY > 0 ? 1.25 : 0.8, self.posToVal(event.offsetX, "x"));
    },
    { passive: false },
  );
}
