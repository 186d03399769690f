// Unit tests of the server's figures on the view Store.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load, settle } from "./support/load.mjs";

settle({ version: "1", auth: { mode: "basic", passwords: false } });

/** Opens the view until its figures are there. */
async function look(figures) {
  const arrived = new Promise((resolve) => {
    const stop = figures.followed.follow(() => (stop(), resolve()));
  });
  const leave = figures.follow();
  await arrived;
  leave();
  await new Promise(setImmediate);
}

test("the time without answers is a gap", async (context) => {
  const figures = await load("views/store/figures.ts");
  let [now, bytes] = [1_700_000_000_000, 5];
  context.mock.method(Date, "now", () => now);
  context.mock.method(globalThis, "fetch", async (url) => new Response(url === "metrics" ? `gnudi_process_resident_bytes ${bytes}\n` : "{}"));
  await look(figures);
  [now, bytes] = [now + 2_000, 7];
  await look(figures);
  [now, bytes] = [now + 600_000, 9];
  await look(figures);
  assert.deepEqual(figures.followed.value.series["memory"], { times: [1_700_000_000, 1_700_000_002, 1_700_000_302, 1_700_000_602], values: [5, 7, null, 9] });
});

test("a clock that is set back begins the charts anew", async (context) => {
  const figures = await load("views/store/figures.ts");
  let [now, total] = [1_600_010_000_000, 100];
  context.mock.method(Date, "now", () => now);
  context.mock.method(globalThis, "fetch", async (url) => new Response(url === "metrics" ? `gnudi_process_resident_bytes ${total}\ngnudi_api_measures_total ${total}\n` : "{}"));
  await look(figures);
  [now, total] = [1_600_000_000_000, 110];
  await look(figures);
  [now, total] = [now + 2_000, 130];
  await look(figures);
  const { memory, taken } = figures.followed.value.series;
  assert.deepEqual(memory, { times: [1_600_000_000, 1_600_000_002], values: [110, 130] });
  assert.deepEqual(taken, { times: [1_600_000_002], values: [10] });
});
