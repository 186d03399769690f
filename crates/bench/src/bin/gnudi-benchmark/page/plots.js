// Draws the report's plots into their figures, from the numbers in the figures' attributes `data-plot` and `data-standings`.
//
// Lines differ by colour (Okabe and Ito's colour-blind safe palette), dash and point shape, so that they are distinguishable in grey, too.
// Colours and fonts are the page's. Texts become text nodes: none of them can be markup.
"use strict";

/** Dash by line number; its colour is the page's variable `--line-NUMBER`. */
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "14 4", "1 4", "4 2", "12 3 3 3"];
/** By line number, filled and then hollow. */
const SHAPES = [
  "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z", "M-3.6-3.6h7.2v7.2h-7.2z", "M0-4.4L4.2 3.4L-4.2 3.4z", "M0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",
];
/** The servers' line numbers, the same in all plots. */
const SERVERS = new Map(Object.entries(JSON.parse(document.body.dataset.servers)));
/** Height of a row of legend or marks, and distance of two rows of the standings. */
const ROW = 20;
/** Approximate width of a character. */
const LETTER = 6.6;
/** Individual points are shown for at most this many on a line. */
const DOTS_MAX = 40;
/** Digits of a tick's label, and of a value in a tooltip. */
const [TICK_DIGITS, EXACT_DIGITS] = [3, 4];
/** Approximate number of ticks on a linear axis. */
const TICKS = 6;

/** Adds an SVG element with this text, and with a tooltip where there is one; numbers among the attributes get one digit. */
function add(parent, name, attributes, text = "", says = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, typeof value === "number" ? value.toFixed(1) : value);
  element.textContent = text;
  if (says) add(element, "title", {}, says);
  return parent.appendChild(element);
}

const addText = (svg, x, y, anchor, kind, text, says) => add(svg, "text", { class: kind, x, y, "text-anchor": anchor }, text, says);
const addLine = (svg, kind, x1, y1, x2, y2) => add(svg, "line", { class: kind, x1, y1, x2, y2 });
const widthOf = (text) => text.length * LETTER;

/** A value with significant digits and a magnitude: `0`, `0.5`, `20k`, `1.5M`. */
function label(value, digits) {
  const magnitudes = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [divisor, magnitude] = magnitudes.find(([least]) => Math.abs(value) >= 0.9995 * least) ?? [1, ""];
  return Number((value / divisor).toPrecision(digits)) + magnitude;
}

/** A step of 1, 2 or 5 times a power of ten for about the desired number of ticks. */
function stepOf(span) {
  const decade = 10 ** Math.floor(Math.log10(span / TICKS));
  const digit = span / TICKS / decade;
  return decade * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/** The range from zero, or from negative values, widened to ticks, and these. */
function linear(least, greatest) {
  [least, greatest] = [Math.min(least, 0), Math.max(greatest, 0)];
  if (least === greatest) greatest = 1;
  const step = stepOf(greatest - least);
  const [first, last] = [Math.floor(least / step + 1e-9), Math.ceil(greatest / step - 1e-9)];
  const ticks = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  return [first * step, last * step, ticks];
}

/** The range, widened to digits of its decades, and its ticks. */
function logarithmic(least, greatest) {
  const decadeOf = (value, nudge) => 10 ** Math.floor(Math.log10(value) + nudge);
  const digits = [1, 2, 3, 5, 10];
  const [low, high] = [decadeOf(least, 1e-9), decadeOf(greatest, -1e-9)];
  least = digits.map((digit) => digit * low).findLast((bound) => bound <= least * 1.000001) ?? least;
  greatest = digits.map((digit) => digit * high).find((bound) => bound >= greatest * 0.999999) ?? greatest;
  if (greatest / least < 2) [least, greatest] = [least / 2, greatest * 2];
  // Few decades have room for ticks in between, many do not even have room for each decade.
  const decades = Math.log10(greatest / least);
  const within = decades < 1.5 ? [1, 2, 3, 5] : decades < 2.5 ? [1, 3] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(greatest) + 1e-9; power += Math.max(1, Math.ceil(decades / 9))) {
    ticks.push(...within.map((digit) => digit * 10 ** power).filter((tick) => tick >= least * (1 - 1e-9) && tick <= greatest * (1 + 1e-9)));
  }
  return [least, greatest, ticks];
}

/** An axis for all these values, between two positions; null if no value can be shown. */
function scaleOf(values, isLogarithmic, start, end) {
  const shows = (value) => Number.isFinite(value) && (!isLogarithmic || value > 0);
  const shown = values.filter(shows).sort((a, b) => a - b);
  if (!shown.length) return null;
  const [least, greatest, ticks] = (isLogarithmic ? logarithmic : linear)(shown[0], shown.at(-1));
  const on = (value) => isLogarithmic ? Math.log(value) : value;
  const place = (value) => start + (on(value) - on(least)) / (on(greatest) - on(least)) * (end - start);
  return { shows, place, ticks };
}

function addDot(svg, number, x, y, says) {
  const colour = `var(--line-${number % DASHES.length})`;
  const style = Math.floor(number / SHAPES.length) % 2 ? `fill:var(--paper);stroke:${colour};stroke-width:1.6` : `fill:${colour}`;
  const transform = `translate(${x.toFixed(1)} ${y.toFixed(1)})`;
  add(svg, "path", { class: "dot", d: SHAPES[number % SHAPES.length], transform, style }, "", says);
}

/** A line from place to place, with its name as tooltip; it is broken where one is missing. */
function addPath(svg, number, name, places) {
  const parts = places.map((place, index) => place && (places[index - 1] ? "L" : "M") + place.map((at) => at.toFixed(1)).join(" "));
  const style = `stroke:var(--line-${number % DASHES.length})`;
  const d = parts.filter(Boolean).join("");
  add(svg, "path", { class: "line", style, "stroke-dasharray": DASHES[number % DASHES.length], d }, "", name);
}

/** A sample of each line with its name, in rows; returns the number of rows. */
function addLegend(svg, names, numbers, left, right) {
  const SAMPLE = 34;
  let [at, rows] = [left, 0];
  names.forEach((name, index) => {
    const width = SAMPLE + 8 + widthOf(name) + 18;
    if (rows === 0 || (at > left && at + width > right)) [at, rows] = [left, rows + 1];
    const middle = 8 + ROW * (rows - 1) + 10;
    addPath(svg, numbers[index], name, [[at, middle], [at + SAMPLE, middle]]);
    addDot(svg, numbers[index], at + SAMPLE / 2, middle);
    addText(svg, at + SAMPLE + 8, middle + 4, "start", "label", name);
    at += width;
  });
  return rows;
}

/** Adds a drawing of this width to a figure: `draw` fills it, and returns its height. */
function open(figure, kind, title, width, draw) {
  const svg = add(figure, "svg", { class: kind, role: "img", "aria-label": title }, "", title);
  svg.setAttribute("viewBox", `0 0 ${width} ${draw(svg).toFixed(0)}`);
}

/** The horizontal axis below an area: its label, and for each tick a line across the area and a number with this unit. */
function addAxis(svg, scale, [left, right], [top, bottom], name, unit) {
  for (const tick of scale.ticks) {
    addLine(svg, "grid", scale.place(tick), bottom, scale.place(tick), top);
    addText(svg, scale.place(tick), bottom + 17, "middle", "tick", label(tick, TICK_DIGITS) + unit);
  }
  addText(svg, (left + right) / 2, bottom + 36, "middle", "label", name);
}

/** The number of each line: servers have fixed ones, other lines get the remaining ones. */
function numbersOf(lines) {
  const fixed = lines.map((line) => SERVERS.get(line.name));
  let next = -1;
  const free = () => {
    do next += 1; while (fixed.includes(next));
    return next;
  };
  return fixed.map((number) => number ?? free());
}

/** Lines over common axes, with a legend, ticks, and marks. */
function drawPlot(svg, { x: across, y: up, lines, marks }) {
  const [WIDTH, LEFT, RIGHT, HEIGHT, BELOW] = [760, 64, 736, 260, 44];
  const points = lines.flatMap((line) => line.points);
  const numbers = numbersOf(lines);
  const rows = addLegend(svg, lines.map((line) => line.name), numbers, LEFT, RIGHT);
  // Each mark has a row for its label.
  const top = 8 + ROW * (rows + marks.length) + 6;
  const bottom = top + HEIGHT;
  const x = scaleOf([...points.map((point) => point[0]), ...marks.map((mark) => mark.x)], across.logarithmic, LEFT, RIGHT);
  const y = scaleOf(points.map((point) => point[1]), up.logarithmic, bottom, top);
  if (!x || !y) {
    addText(svg, WIDTH / 2, top + HEIGHT / 2, "middle", "label", "nothing was measured");
    return bottom + BELOW;
  }
  for (const tick of y.ticks) {
    addLine(svg, "grid", LEFT, y.place(tick), RIGHT, y.place(tick));
    addText(svg, LEFT - 8, y.place(tick) + 4, "end", "tick", label(tick, TICK_DIGITS));
  }
  addAxis(svg, x, [LEFT, RIGHT], [top, bottom], across.label, "");
  add(svg, "path", { class: "axis", d: `M${LEFT} ${top}V${bottom}H${RIGHT}` });
  add(svg, "text", { class: "label", transform: `translate(14 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, up.label);
  marks.forEach((mark, row) => {
    if (!x.shows(mark.x)) return;
    const [at, baseline] = [x.place(mark.x), 8 + ROW * (rows + row) + 14];
    const isLeft = at + 4 + widthOf(mark.label) <= WIDTH;
    addLine(svg, "mark", at, baseline + 3, at, bottom);
    addText(svg, isLeft ? at + 4 : at - 4, baseline, isLeft ? "start" : "end", "label", mark.label);
  });
  lines.forEach((line, index) => {
    const shown = line.points.filter(([at, value]) => x.shows(at) && y.shows(value));
    addPath(svg, numbers[index], line.name, shown.map(([at, value]) => [x.place(at), y.place(value)]));
    for (const [at, value] of shown.length <= DOTS_MAX ? shown : []) {
      const says = `${line.name}: ${label(value, EXACT_DIGITS)} at ${label(at, EXACT_DIGITS)} ${across.label}`;
      addDot(svg, numbers[index], x.place(at), y.place(value), says);
    }
  });
  return bottom + BELOW;
}

/** Servers over named rows, on a logarithmic axis. Narrow and tall, so that it is readable on a phone. */
function drawStandings(svg, { axis, rows, servers }) {
  const [RIGHT, BELOW] = [504, 40];
  const left = 14 + Math.max(0, ...rows.map(([key]) => widthOf(key)));
  const names = servers.map((server) => server.name);
  const top = 8 + ROW * addLegend(svg, names, names.map((name) => SERVERS.get(name)), left, RIGHT) + 8;
  const bottom = top + ROW * rows.length;
  // gnudi's own figure is always in range.
  const x = scaleOf([1, ...servers.flatMap((server) => server.ratios)], true, left, RIGHT);
  addAxis(svg, x, [left, RIGHT], [top, bottom], axis, "x");
  const middle = (row) => top + ROW * (row + 0.5);
  rows.forEach(([key, title], row) => addText(svg, left - 8, middle(row) + 4, "end", "tick", key, title));
  for (const { name, ratios } of servers) {
    const places = ratios.map((ratio, row) => x.shows(ratio) ? [x.place(ratio), middle(row)] : null);
    addPath(svg, SERVERS.get(name), name, places);
    places.forEach((place, row) => {
      if (place) addDot(svg, SERVERS.get(name), ...place, `${name}: ${label(ratios[row], EXACT_DIGITS)}x, ${rows[row][1]}`);
    });
  }
  return bottom + BELOW;
}

for (const figure of document.querySelectorAll("[data-plot]")) {
  const plot = JSON.parse(figure.dataset.plot);
  open(figure, "plot", plot.title, 760, (svg) => drawPlot(svg, plot));
}
for (const figure of document.querySelectorAll("[data-standings]")) {
  const standings = JSON.parse(figure.dataset.standings);
  open(figure, "plot standings", standings.title, 520, (svg) => drawStandings(svg, standings));
}
