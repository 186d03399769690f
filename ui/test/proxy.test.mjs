// Unit tests of requests behind a proxy that names the users.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load, settle } from "./support/load.mjs";

settle({ version: "1", auth: { mode: "remoteuser" } });

const json = () => new Response("[1]", { headers: { "Content-Type": "application/json" } });
const page = () => new Response("<h1>Who are you?</h1>", { headers: { "Content-Type": "text/html; charset=utf-8" } });
/** As browsers give it. */
const redirect = () => Object.defineProperties(Response.error(), { type: { value: "opaqueredirect" } });

for (const [what, answer] of [["a redirect to its log-in", redirect], ["its log-in as the answer", page]]) {
  test(`${what} ends the log-in, and is neither an answer nor a server that is away`, async (context) => {
    const sent = context.mock.method(globalThis, "fetch", async () => json());
    const client = await load("http/client.ts");
    assert.deepEqual((await client.get("v1/metric")).value, [1]);
    assert.equal(sent.mock.calls[0].arguments[1].redirect, "manual");
    sent.mock.mockImplementation(async () => answer());
    await assert.rejects(client.get("v1/metric"), { status: 401, message: "Log in first." });
    assert.equal(client.goneSince.value, null);
  });
}
