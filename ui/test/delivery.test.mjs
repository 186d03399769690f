// Delivery of the page: content negotiation, size, headers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import http from "node:http";
import { close, launch, open } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
const GZIP_BYTES_MAX = 100_000;

let server, prefixed;
before(async () => {
  [server, prefixed] = await Promise.all([new Server().start(), new Server({ prefix: "/gnocchi" }).start()]);
});
after(async () => {
  await Promise.all([server.remove(), prefixed.remove()]);
});

/** The raw bytes, not decompressed. */
const fetched = (url, headers = {}) =>
  new Promise((done, failed) => {
    http.get(url, { headers }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => done({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) }));
    }).on("error", failed);
  });

const filesOf = (html) => [...html.matchAll(/(?:href|src)="(page\/[^"]+)"/g)].map(([, path]) => path);

test("browsers get the page, all other clients Gnocchi's answer", async () => {
  for (const [accept, isPage] of [[BROWSER, true], ["text/html", true], ["*/*", false], ["application/json", false], [undefined, false]]) {
    const { status, headers } = await fetched(server.url, accept ? { accept } : {});
    assert.equal(status, 200);
    assert.match(headers["content-type"], isPage ? /^text\/html/ : /^application\/json/, accept);
  }
  const { body } = await fetched(server.url);
  assert.equal(JSON.parse(body).build, "4.7.1");
});

test("the page is below 100 kB in all, and each form of a file is the same", async () => {
  const page = await fetched(server.url, { accept: BROWSER });
  let total = page.body.length;
  for (const path of filesOf(page.body.toString())) {
    const url = new URL(path, server.url);
    const [plain, gzip, brotli] = await Promise.all([fetched(url), fetched(url, { "accept-encoding": "gzip" }), fetched(url, { "accept-encoding": "gzip, deflate, br" })]);
    assert.equal(gzip.headers["content-encoding"], "gzip");
    assert.equal(brotli.headers["content-encoding"], "br");
    assert.ok(gunzipSync(gzip.body).equals(plain.body) && brotliDecompressSync(brotli.body).equals(plain.body));
    assert.match(plain.headers["cache-control"], /immutable/);
    assert.equal(plain.headers["vary"], "Accept-Encoding");
    total += gzip.body.length;
  }
  console.log(`the page: ${total} bytes`);
  assert.ok(total < GZIP_BYTES_MAX, `${total} bytes`);
});

test("a browser that has it is told so", async () => {
  const page = await fetched(server.url, { accept: BROWSER });
  const again = await fetched(server.url, { accept: BROWSER, "if-none-match": page.headers.etag });
  assert.deepEqual([again.status, again.body.length], [304, 0]);
  const [file] = filesOf(page.body.toString());
  const url = new URL(file, server.url);
  const { headers } = await fetched(url);
  assert.equal((await fetched(url, { "if-none-match": headers.etag })).status, 304);
  assert.equal((await fetched(new URL("page/nothing.js", server.url))).status, 404);
  assert.equal((await fetched(new URL("page/..%2findex.html", server.url))).status, 404);
});

test("nothing but the page's own files runs, and nobody can embed it", async () => {
  const { headers, body } = await fetched(server.url, { accept: BROWSER });
  const policy = Object.fromEntries(headers["content-security-policy"].split(";").map((part) => part.trim().split(/ (.*)/)));
  assert.equal(policy["default-src"], "'none'");
  for (const name of ["script-src", "style-src", "img-src", "connect-src"]) assert.equal(policy[name], "'self'", name);
  for (const name of ["base-uri", "form-action", "frame-ancestors"]) assert.equal(policy[name], "'none'", name);
  assert.doesNotMatch(headers["content-security-policy"], /unsafe/);
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.equal(headers["referrer-policy"], "no-referrer");
  assert.doesNotMatch(body.toString(), /https?:\/\//);
});

test("it works under a path prefix", async () => {
  const bare = await fetched(prefixed.url.replace(/\/$/, ""), { accept: BROWSER });
  assert.equal(bare.status, 302);
  assert.equal(bare.headers.location, prefixed.url);
  const browser = await launch();
  try {
    const page = await open(browser, prefixed.url);
    await page.getByRole("heading", { name: "No metrics yet" }).waitFor();
    await close(page);
  } finally {
    await browser.close();
  }
});
