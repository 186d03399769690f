// Unit tests of the requests for measures that charts share.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load, settle } from "./support/load.mjs";

settle({ version: "1", auth: { mode: "basic", passwords: false } });

test("measures that nobody wants any more are not asked for", async (context) => {
  const { measuresOf } = await load("api/measures.ts");
  const unanswered = (_url, { signal }) => new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason)));
  const sent = context.mock.method(globalThis, "fetch", unanswered);
  const ask = (id, step) => {
    const request = new AbortController();
    const answer = measuresOf({ id, methods: ["mean"], grain: 60, step, from: 0, to: 3600, signal: request.signal });
    return { abort: () => request.abort(), failure: answer.then(() => null, (error) => error.name) };
  };
  const sending = () => new Promise(setImmediate);
  const [one, other] = [ask("a", 60), ask("b", 60)];
  await sending();
  assert.equal(sent.mock.callCount(), 1, "they share a request");
  const { signal } = sent.mock.calls[0].arguments[1];
  one.abort();
  assert.equal(signal.aborted, false, "the other wants it");
  other.abort();
  assert.equal(signal.aborted, true);
  assert.deepEqual([await one.failure, await other.failure], ["AbortError", "AbortError"]);
  // Resampled ones are sent one at a time.
  const [first, second, third] = ["a", "b", "c"].map((id) => ask(id, 120));
  await sending();
  assert.equal(sent.mock.callCount(), 2);
  second.abort();
  first.abort();
  assert.deepEqual([await first.failure, await second.failure], ["AbortError", "AbortError"]);
  await sending();
  assert.equal(sent.mock.callCount(), 3);
  assert.match(sent.mock.calls[2].arguments[1].body, /"c"/);
  third.abort();
  assert.equal(await third.failure, "AbortError");
});
