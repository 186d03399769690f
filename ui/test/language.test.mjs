// Help while typing: mistakes with their positions, and completions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./support/load.mjs";

const [operations, filter, problem] = await Promise.all(["language/operations.ts", "language/filter.ts", "language/problem.ts"].map(load));

/** The marked parts of the text. */
const marked = (mistakes, text) => mistakes.map(({ from, to }) => text.slice(from, to));

test("mistakes in operations are where they are made", () => {
  for (const [text, expected] of [
    ["(aggregate mean (metric cpu mean))", []],
    ["(metric (ID1 mean) (ID2 max))", []],
    ["(+ (metric cpu mean) 1)", []],
    ["(agregate mean (metric cpu mean))", ["agregate"]],
    ["(metric cpu mean))", [")"]],
    ["(metric 'cpu mean)", ["'cpu mean)", "("]],
    ["", []],
  ]) assert.deepEqual(marked(operations.check(text), text), expected, text);
});

test("what may come next in operations follows from what is around", () => {
  for (const [text, kind, word] of [
    ["", "operation", ""], ["(", "operation", ""], ["(agg", "operation", "agg"], ["(aggregate ", "aggregate", ""], ["(aggregate me", "aggregate", "me"],
    ["(aggregate mean (", "operation", ""], ["(metric cp", "metric", "cp"], ["(metric cpu ", "method", ""], ["(metric cpu mean ", "nothing", ""],
    ["(metric (cp", "metric", "cp"], ["(metric (cpu m", "method", "m"], ["(metric cpu mean)", "nothing", ""],
  ]) {
    const wanted = operations.wantedAt(text, text.length);
    assert.deepEqual([wanted.kind, wanted.word], [kind, word], text);
  }
});

test("mistakes in filters are where they are made", () => {
  const attributes = ["zone", "flavor"];
  for (const [text, expected] of [
    ["zone = 'north' and not (flavor in ['small', 'huge'])", []],
    ["colour = 'red'", ["colour"]],
    ["zone = 'north", ["'north"]],
    ["(zone = 'north'", ["("]],
    ["zone like 'n%'", []],
  ]) assert.deepEqual(marked(filter.check(text, attributes), text), expected, text);
});

test("what may come next in filters follows from what is before", () => {
  for (const [text, kind, word] of [
    ["", "attribute", ""], ["zo", "attribute", "zo"], ["zone ", "operator", ""], ["zone = ", "value", ""], ["zone = 'no", "value", "'no"],
    ["zone = 'north' ", "joiner", ""], ["zone = 'north' and ", "attribute", ""], ["not (", "attribute", ""],
  ]) {
    const wanted = filter.wantedAt(text, text.length);
    assert.deepEqual([wanted.kind, wanted.word], [kind, word], text);
  }
});

test("a server's message is put where it points", () => {
  const of = (message, text) => {
    const { from, to } = problem.mistakeOf(message, text);
    return text.slice(from, to);
  };
  assert.equal(of("Expected ')', found end of text  (at char 14), (line:1, col:15)", "(metric nosuch"), "h");
  assert.equal(of("'foo' operation invalid for dictionary value", "(foo 1 2)"), "foo");
  assert.equal(of('Metrics with unknown aggregation: [["01a", "median"]]', "(metric 01a median)"), "01a");
  assert.equal(of("Resource type generic has no nosuch attribute", "nosuch = 3"), "nosuch");
  assert.equal(of("something else", "(abc)"), "(abc)");
});
