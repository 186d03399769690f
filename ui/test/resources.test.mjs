// Unit tests of looking up resources.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load, settle } from "./support/load.mjs";

settle({ version: "1", auth: { mode: "basic", passwords: false } });

test("look-ups share a request, and a resource that was renamed is seen after a while", async (context) => {
  const { lookUp } = await load("api/resources.ts");
  let [now, name] = [0, "old"];
  context.mock.method(performance, "now", () => now);
  const sent = context.mock.method(globalThis, "fetch", async () => new Response(JSON.stringify([{ id: "a", name }])));
  assert.deepEqual(await Promise.all([lookUp("a"), lookUp("b")]), [{ id: "a", name: "old" }, null]);
  name = "new";
  now = 30_000;
  assert.deepEqual([(await lookUp("a")).name, sent.mock.callCount()], ["old", 1]);
  now = 61_000;
  assert.deepEqual([(await lookUp("a")).name, sent.mock.callCount()], ["new", 2]);
});
