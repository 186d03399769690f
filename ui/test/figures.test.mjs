// Unit tests of the server's figures on the view Store.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load, settle } from "./support/load.mjs";

settle({ version: "1", auth: { mode: "basic", passwords: false } });

test("the time without answers is a gap", async (context) => {
  const figures = await load("views/store/figures.ts");
  let [now, bytes] = [1_700_000_000_000, 5];
  context.mock.method(Date, "now", () => now);
  context.mock.method(globalThis, "fetch", async (url) => new Response(url === "metrics" ? `gnudi_process_resident_bytes ${bytes}\n` : "{}"));
  /** Opens the view until its figures are there. */
  const look = async () => {
    const arrived = new Promise((resolve) => {
      const stop = figures.followed.follow(() => (stop(), resolve()));
    });
    const leave = figures.follow();
    await arrived;
    leave();
    await new Promise(setImmediate);
  };
  await look();
  [now, bytes] = [now + 2_000, 7];
  await look();
  [now, bytes] = [now + 600_000, 9];
  await look();
  assert.deepEqual(figures.followed.value.series["memory"], { times: [1_700_000_000, 1_700_000_002, 1_700_000_302, 1_700_000_602], values: [5, 7, null, 9] });
});
