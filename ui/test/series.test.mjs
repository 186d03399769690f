// Unit tests of points, granularities, changes and formats.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TimeUnit, float64, tableFromArrays, tableToIPC, timestamp } from "@uwdata/flechette";
import { load } from "./support/load.mjs";

const [labels, columns, wide, grain, change, format, range, aggregation, types] = await Promise.all(
  ["chart/labels.ts", "series/columns.ts", "series/wide.ts", "series/grain.ts", "series/change.ts", "series/format.ts", "series/range.ts", "series/aggregation.ts", "api/types.ts"].map(load),
);

const of = (values, step = 1) => ({ times: values.map((_, at) => at * step), values });

test("a gap is where points usually are and some are missing", () => {
  const found = columns.withGaps({ times: [0, 60, 120, 600, 660], values: [1, 2, 3, 4, 5] }, 60);
  assert.deepEqual(found, { times: [0, 60, 120, 360, 600, 660], values: [1, 2, 3, null, 4, 5] });
  // Points every five minutes at a granularity of one minute.
  const sparse = { times: [0, 300, 600, 900], values: [1, 2, 3, 4] };
  assert.deepEqual(columns.withGaps(sparse, 60), sparse);
  // A query's value at each step, where it has one.
  assert.deepEqual(columns.withGaps({ times: [0, 300, 360], values: [1, 2, 3] }, 60, true), { times: [0, 150, 300, 360], values: [1, null, 2, 3] });
});

test("counters are told from what grows for a while", () => {
  assert.equal(columns.isCounter(of([10, 20, 30, 30, 45]), "B"), true);
  assert.equal(columns.isCounter(of([10, 20, 30, 2, 5, 9, ...Array.from({ length: 40 }, (_, at) => 10 + at)]), "B"), true, "it began anew once");
  assert.equal(columns.isCounter(of([10, 20, 15, 30]), "B"), false);
  assert.equal(columns.isCounter(of([10, 20, 30, 40]), "%"), false);
  assert.equal(columns.isCounter(of([10, 20, 30, 40]), null), false, "too little to say");
  assert.equal(columns.isCounter(of([7, 7, 7, 7]), "B"), false);
  assert.deepEqual(columns.rate(of([10, 30, 5, 15], 10)), { times: [10, 20, 30], values: [2, null, 1] });
});

test("new points take the place of old ones, and old ones go", () => {
  const old = { times: [0, 1, 2, 3], values: [0, 1, 2, 3] };
  assert.deepEqual(columns.appended(old, { times: [3, 4], values: [30, 40] }, 1), { times: [1, 2, 3, 4], values: [1, 2, 30, 40] });
  assert.equal(columns.appended(old, { times: [], values: [] }, 0), old);
  assert.deepEqual(columns.appended(old, { times: [], values: [] }, 9), { times: [], values: [] });
});

test("series on different times are joined without gaps of their own", () => {
  const { times, columns: all } = columns.joined([{ times: [0, 2], values: [1, 2] }, { times: [1, 2], values: [5, null] }]);
  assert.deepEqual([times, all], [[0, 1, 2], [[1, undefined, 2], [undefined, 5, null]]]);
});

test("the granularity is the finest that is kept and fits the pixels", () => {
  const grains = types.grainsOf({
    definition: [{ granularity: "1:00:00", timespan: "365 days, 0:00:00" }, { granularity: "0:00:01", timespan: "1:00:00" }, { granularity: "0:01:00", timespan: "7 days, 0:00:00" }],
  });
  assert.deepEqual(grains.map(({ seconds }) => seconds), [1, 60, 3600]);
  const now = 1_000_000_000;
  const last = (seconds, pixels) => grain.chooseGrain(grains, { from: now - seconds, to: now }, pixels, now);
  assert.equal(last(300, 300), 1);
  assert.equal(last(3600, 300), 60);
  assert.equal(last(3600, 1300), 1);
  assert.equal(last(86400, 1300), 60);
  assert.equal(last(30 * 86400, 1300), 3600, "finer ones are gone by then");
  assert.equal(last(1000 * 86400, 300), 3600);
  assert.equal(grain.chooseGrain(grains, { from: now - 7200, to: now - 7100 }, 900, now), 60, "seconds are kept for an hour");
});

test("a granularity with too many points in the range is resampled to whole buckets", () => {
  const to = (seconds, span) => grain.resampledTo(seconds, { from: 1_000.25, to: 1_000.25 + span });
  assert.deepEqual([to(1, 86_400), to(1, 100_000), to(1, 100_001)], [1, 1, 2]);
  assert.deepEqual([to(1, 365 * 86_400), to(60, 365 * 86_400), to(7, 8_000_000), to(0.25, 100_000)], [600, 600, 84, 1]);
  assert.deepEqual(["count", "rate:max", "increase", "last", "95pct"].map(aggregation.resamplingOf), ["sum", "max", "sum", "mean", "mean"]);
  const least = (seconds, stepMin) => grain.resampledTo(seconds, { from: 0, to: 3600 }, stepMin);
  assert.deepEqual([least(1, 0), least(1, 1), least(1, 10), least(60, 61), least(7, 8)], [1, 1, 10, 120, 14]);
  const alike = [1, 60].map((seconds) => ({ seconds, spanSeconds: 86_400 }));
  assert.equal(grain.chooseGrain(alike, { from: 0, to: 90_000 }, 900, 90_000), 60, "both are kept for the same time");
});

test("only a whole bucket before the first point shows that a granularity begins there", () => {
  const grains = [60, 300, 3600].map((seconds) => ({ seconds, spanSeconds: Infinity }));
  const shown = { from: 3600.5, to: 11_000 };
  assert.deepEqual(grain.beforeFirst({ times: [7200, 7260], values: [1, 2] }, shown), { from: 3600.5, to: 7200 });
  assert.deepEqual(grain.beforeFirst({ times: [], values: [] }, shown), shown, "without points it has none in the whole range");
  assert.deepEqual(grain.coarserIn(grains, 60, { from: 3600.5, to: 7200 }), [300], "no whole hour lies in it");
  assert.deepEqual(grain.coarserIn(grains, 60, { from: 3600, to: 7200 }), [300, 3600]);
  assert.deepEqual(grain.coarserIn(grains, 300, { from: 3600, to: 7200 }), [3600]);
  assert.deepEqual(grain.coarserIn(grains, 60, { from: 3600, to: 3540 }), [], "the first point is at the begin");
  const has = (...times) => grain.hasPointsIn({ times, values: times }, 300, { from: 3600, to: 7200 });
  assert.deepEqual([has(), has(3300), has(3600), has(6900), has(6901)], [false, false, true, true, false]);
});

test("the step of a query is the chosen one if the range has it", () => {
  const step = (span, wished) => grain.stepOf({ from: 1_000, to: 1_000 + span }, wished);
  assert.equal(step(3600, 0), 10);
  assert.equal(step(3600, 300), 300);
  assert.equal(step(3600, 3600), 3600);
  assert.equal(step(900, 3600), 2, "whole hours may all be outside of a quarter");
  assert.equal(step(1000 * 86400, 0), 2 * 86400);
});

test("a shift counts more than noise, and what begins is named", () => {
  const values = (middle) => Array.from({ length: 100 }, (_, at) => middle + (at % 5));
  const mark = { from: 100, to: 120 };
  const flat = change.changeOf(of(values(50).concat(values(50).slice(0, 30))), mark);
  assert.equal(flat, null);
  const shifted = change.changeOf(of(values(50).concat(values(90).slice(0, 30))), mark);
  const slightly = change.changeOf(of(values(50).concat(values(54).slice(0, 30))), mark);
  assert.ok(shifted.score > slightly.score && slightly.score > 0, `${shifted.score} ${slightly.score}`);
  assert.deepEqual([shifted.before, shifted.within], [52, 92]);
  const begun = change.changeOf({ times: [110], values: [3] }, mark);
  assert.deepEqual([begun.before, begun.within], [null, 3]);
  assert.equal(change.changeOf({ times: [], values: [] }, mark), null);
});

test("numbers are shown with what fits their unit", () => {
  for (const [value, unit, expected] of [
    [0, "%", "0 %"], [99.456, "%", "99.5 %"], [1536, "B", "1.5 KiB"], [3_800_000, "KB", "3.62 GiB"], [1234567, null, "1.23 M"], [0.00002, "s", "20 µs"],
    [2048, "B/s", "2 KiB/s"], [12.5, "request/s", "12.5 request/s"], [null, "%", "–"], [-5, "°C", "-5 °C"], [1e9, "packet", "1 Gpacket"], [4321, null, "4321"], [7, "constructor", "7 constructor"],
  ]) assert.equal(format.format(value, unit), expected, `${value} ${unit}`);
});

test("only values as measured may be those of a counter, and each aggregate has its own unit", () => {
  const methods = ["mean", "last", "99.9pct", "sum", "count", "std", "increase", "rate_reset", "rate:mean"];
  assert.deepEqual(methods.filter(aggregation.isLevel), ["mean", "last", "99.9pct"]);
  const units = (...all) => all.map(([method, isRate]) => format.unitOf("B", method, isRate));
  assert.deepEqual(units(["mean", false], ["increase", false], ["count", false], ["rate_reset", false]), ["B", "B", null, "B/s"]);
  assert.deepEqual(units(["mean", true], ["count", true], ["rate:count", true]), ["B/s", "/s", "/s"]);
});

test("axes of bytes have steps for all values", () => {
  for (const most of [1, 2 ** 40, 2 ** 63, 1e300, Number.MAX_VALUE]) {
    assert.ok(labels.BYTE_STEPS.some((step) => step >= most / 8 && step <= most / 2), String(most));
  }
});

test("labels of an axis are distinct", () => {
  for (const [splits, unit, expected] of [
    [[0, 20, 40], "%", ["0 %", "20 %", "40 %"]],
    [[1_700_000_000, 1_700_000_001, 1_700_000_002], null, ["1.7 G", "1.700000001 G", "1.700000002 G"]],
    // A logarithmic axis has labels at some places only.
    [[1, null, null, 10], null, ["1", "", "", "10"]],
    [[7, 7], null, ["7", "7"]],
  ]) assert.deepEqual(labels.labelsOf(splits, unit), expected);
  // In the machine's time zone.
  const noon = new Date(2026, 2, 3, 12, 0, 0).getTime() / 1000;
  assert.deepEqual(labels.timesOf([noon, noon + 60], 60), ["12:00", "12:01"]);
  assert.deepEqual(labels.timesOf([noon, noon + 15], 15), ["12:00:00", "12:00:15"]);
  assert.deepEqual(labels.timesOf([noon, noon + 0.25, noon + 0.5], 0.25), ["12:00:00.00", "12:00:00.25", "12:00:00.50"]);
  assert.deepEqual(labels.timesOf([noon - 43_200, noon - 43_200 + 0.5], 0.5), ["3 Mar", "00:00:00.5"]);
  assert.deepEqual(labels.timesOf([noon], 86_400), ["3 Mar"]);
});

test("ranges are read from addresses and written back", () => {
  const span = (text) => range.spanOf(new URLSearchParams(text));
  assert.deepEqual(span("last=6h"), { last: 21600 });
  assert.deepEqual(span("from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z"), { from: 1767225600, to: 1767229200 });
  // Nanoseconds are no seconds.
  const beyond = ["from=1767225600000000000&to=1767225601000000000", "last=99999999999w"];
  for (const bad of ["", "last=-5h", "last=6y", "from=x&to=y", "from=10&to=5", "from=10", ...beyond]) assert.equal(span(bad), "auto", bad);
  assert.equal(range.printMoment(1767225600), "2026-01-01T00:00Z");
  assert.equal(range.momentOf(range.printMoment(1767225601.25)), 1767225601.25);
  assert.deepEqual([-60, 1.5, 8e12].map(range.queryTime), ["0.000", "1.500", "9223372036.000"]);
  assert.deepEqual(range.servedPart({ from: -8e12, to: 8e12 }), { from: 0, to: 9_223_372_036 });
  const [last, hour] = [8.64e12, { from: 1767225600, to: 1767229200 }];
  assert.deepEqual(range.dated(hour), hour);
  assert.deepEqual(range.dated({ from: last - 100, to: last + 200 }), { from: last - 300, to: last });
  assert.deepEqual(range.dated({ from: -last - 1, to: 9 - last }), { from: -last, to: 10 - last });
  assert.equal(range.roughly(969), "16 minutes");
  assert.deepEqual([1, 0.5, 90, 3600, 1_209_600].map(range.inWords), ["1 second", "0.5 seconds", "90 seconds", "1 hour", "2 weeks"]);
  assert.deepEqual([1.5, 90, 7200, 604_800].map(range.short), ["1.5s", "90s", "2h", "1w"]);
  assert.equal(range.lastFor(1), 300);
  assert.equal(range.lastFor(300), 2 * 86400);
});

test("bands are what the policy stores", () => {
  const labels = (methods) => aggregation.bandsOf(methods).map(({ label }) => label);
  assert.deepEqual(labels(["mean", "min", "max", "5pct", "95pct", "25pct", "75pct"]), ["min to max", "5th to 95th percentile", "25th to 75th percentile"]);
  assert.deepEqual(labels(["mean", "median", "95pct"]), ["median to 95th percentile"]);
  assert.deepEqual(labels(["mean", "min"]), []);
  assert.equal(aggregation.mainMethod(["count", "max"]), "max");
  assert.equal(aggregation.mainMethod(["mean", "rate:mean"], "rate:mean"), "rate:mean");
});

test("a wide table has the points of each series", () => {
  const table = tableFromArrays(
    {
      timestamp: [60_000, 120_000, 180_500], "a/mean": [1, NaN, -0.5], "a/max": [-Infinity, 2, Infinity], "b/max": [null, 7, null],
      "c/mean": [null, null, null],
    },
    { types: { timestamp: timestamp(TimeUnit.NANOSECOND, "UTC"), "a/mean": float64(), "a/max": float64(), "b/max": float64(), "c/mean": float64() } },
  );
  const found = new wide.WideTable(tableToIPC(table, { format: "stream" }));
  assert.deepEqual(found.columns("a/mean"), { times: [60, 120, 180.5], values: [1, null, -0.5] }, "what is no number is a gap");
  assert.deepEqual(found.columns("a/max"), { times: [60, 120, 180.5], values: [null, 2, null] }, "nor can a chart show infinities");
  assert.deepEqual(found.columns("b/max"), { times: [120], values: [7] }, "and what is absent none");
  assert.deepEqual(found.columns("c/mean"), columns.EMPTY);
  assert.deepEqual(found.columns("d/mean"), columns.EMPTY);
});
