// Unit tests of what reads a listing to its end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load, settle } from "./support/load.mjs";

settle({ version: "1", auth: { mode: "basic", passwords: false } });

const PAGE = 5;

const refused = (code, description) => new Response(JSON.stringify({ code, description }), { status: code });

const policy = { name: "p", aggregation_methods: ["mean"], definition: [{ granularity: "0:01:00", timespan: "1 day, 0:00:00" }] };

test("the census goes on behind a page whose last items are deleted before the next one", async (context) => {
  const { takeCensus } = await load("views/store/census.ts");
  const left = { "v1/metric": [..."abcdefg"], "v1/resource/generic": [..."abcdefg"] };
  context.mock.method(globalThis, "fetch", async (url) => {
    const [path, query] = url.split("?");
    const all = left[path];
    if (!all) return refused(404, "no measures");
    const marker = new URLSearchParams(query).get("marker");
    const begin = all.indexOf(marker) + 1;
    if (marker !== null && begin === 0) return refused(400, `Invalid pagination: \`Invalid marker: \`${marker}''`);
    left[path] = all.filter((id) => id !== "d" && id !== "e");
    const items = all.slice(begin, begin + PAGE).map((id) => ({ id, type: "t", archive_policy: policy }));
    return new Response(JSON.stringify(items), { headers: begin + PAGE < all.length ? { Link: '<next>; rel="next"' } : {} });
  });
  let last = null;
  await takeCensus(1000, new AbortController().signal, (census) => (last = census));
  assert.deepEqual([last.metrics, last.byPolicy["p"], last.byType["t"], last.unread, last.isDone, last.isCut], [7, 7, 7, 0, true, false]);
});
