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

test("a metric's name is one operand, whatever is in it", () => {
  for (const [name, expected] of [["cpu.util", "cpu.util"], ["disk io", "disk?io"], ["up{job=\"a b\"}", "up{job=?a?b?}"], ["a*[b", "a[*][[]b"], ["(x)", "?x?"]]) {
    assert.equal(operations.nameOf(name), expected);
    assert.equal(operations.tokensOf(`(metric ${operations.nameOf(name)} mean)`).length, 5, name);
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

test("values in filters stand between quotation marks that they do not have", () => {
  const values = ["north", "it's", 'a "b"', "both ' and \"", "C:\\new", "C:\\Users", "two\nlines"];
  assert.deepEqual(values.map(filter.quoted), ["'north'", '"it\'s"', `'a "b"'`, undefined, undefined, "'C:\\Users'", undefined]);
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

const promql = await load("language/promql.ts");

test("mistakes in PromQL are where they are made", () => {
  for (const [text, expected] of [
    ['sum by (zone) (rate(requests_total{zone=~"a|b"}[5m]))', []],
    ["# a comment (\nup", []],
    ['up{zone="north', ['"north', "{"]],
    ["rate(up[5m)", [")", "("]],
    ["up)", [")"]],
    ["`(`", []],
    ["", []],
  ]) assert.deepEqual(marked(promql.check(text), text), expected, text);
  for (const [message, text, expected] of [
    ['invalid parameter "query": 1:6: parse error: expected type range vector', "rate(foo)", ["expected type range vector", "foo"]],
    ['invalid parameter "query": 2:3: parse error: no', "a +\n  bc(", ["no", "bc"]],
    ['invalid parameter "query": 1:9: parse error: unclosed', "rate(foo", ["unclosed", "o"]],
    ["1:16: parse error: no", '"süd" + "東" + bc', ["no", "+"]],
    ["too many samples", "up", ["too many samples", "up"]],
  ]) {
    const found = promql.mistakeOf(message, text);
    assert.deepEqual([found.message, text.slice(found.from, found.to)], expected, message);
  }
});

test("names that are not plain are quoted in PromQL", () => {
  assert.deepEqual(["up", "memory.usage", 'a"b'].map(promql.metricOf), ["up", '{"memory.usage"}', '{"a\\"b"}']);
  assert.deepEqual(["zone", "a.b"].map(promql.labelOf), ["zone", '"a.b"']);
  assert.deepEqual(['"', "'", "`"].map((quote) => promql.within(quote, "a\"b'c\\d")), ["a\\\"b'c\\\\d", "a\"b\\'c\\\\d", "a\"b'c\\d"]);
});

test("what may come next in PromQL follows from what is around", () => {
  for (const [text, kind, word, metric = "", label = ""] of [
    ["", "expression", ""], ["ra", "expression", "ra"], ["sum(ra", "expression", "ra"], ["up + ra", "expression", "ra"], ["up ", "nothing", ""], ["5", "nothing", "5"],
    ["up{", "label", "", "up"], ["up{zo", "label", "zo", "up"], ['up{zone="a", fl', "label", "fl", "up"], ["up{zone=", "nothing", "", "up"],
    ['up{zone="no', "value", "no", "up", "zone"], ['{zone!~"', "value", "", "", "zone"], ["rate(up[", "duration", ""], ["sum by (", "label", ""], ['"te', "nothing", ""],
  ]) {
    const wanted = promql.wantedAt(text, text.length);
    assert.deepEqual([wanted.kind, wanted.word, wanted.metric, wanted.label], [kind, word, metric, label], text);
  }
});
