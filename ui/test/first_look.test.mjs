// A first visit: this machine's own metrics, without any action.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TIMEOUT_MS, close, open, picture, waitDrawn } from "./support/browser.mjs";
import { Server, sleep } from "./support/server.mjs";
import { start } from "./support/start.mjs";

const { server, browser } = await start({ hasHost: true }, twoRounds);

/** Waits for the second round of measures, which makes lines, and the metrics of shares of the time since the first. */
async function twoRounds(server) {
  for (const until = Date.now() + TIMEOUT_MS; (await server.get("v1/metric?name=hardware.cpu.util")).length === 0; await sleep(100)) {
    if (Date.now() > until) throw new Error("this machine is not measured");
  }
}

test("charts of this machine appear without a log-in, and move on", async () => {
  const page = await open(browser, server.url);
  await waitDrawn(page, 2);
  const count = await page.locator(".title").textContent();
  assert.match(count, /^\d+ metrics$/);
  assert.equal(await page.getByRole("button", { name: "Live" }).getAttribute("aria-pressed"), "true");
  const value = page.locator('.card:has-text("hardware.memory.used") .value').or(page.locator(".card .value")).first();
  await value.filter({ hasText: /\d/ }).waitFor();
  await picture(page, "metrics-first-look");
  await close(page);
});

test("an empty store shows its first metrics by itself", async () => {
  const empty = await new Server().start();
  try {
    const page = await open(browser, empty.url);
    await page.getByRole("heading", { name: "No metrics yet" }).waitFor();
    await empty.post("v1/metric", { name: "the.first", archive_policy_name: "low" });
    await page.locator(".card", { hasText: "the.first" }).waitFor();
    await close(page);
  } finally {
    await empty.remove();
  }
});

test("while live the charts stay, and only what is new is asked for", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=5m&q=hardware.cpu`);
  await waitDrawn(page, 4);
  await page.waitForLoadState("networkidle"); // The other charts and the bands load after the first lines.
  await page.evaluate(() => {
    window.firstCanvases = [...document.querySelectorAll(".card canvas")];
    window.drawings = 0;
    const clear = CanvasRenderingContext2D.prototype.clearRect;
    CanvasRenderingContext2D.prototype.clearRect = function (...what) {
      if (this.canvas === window.firstCanvases[0]) window.drawings += 1;
      clear.apply(this, what);
    };
  });
  const values = () => page.locator(".card .value").allTextContents();
  const [before, asked] = [await values(), []];
  page.on("response", async (answer) => {
    if (answer.url().includes("/v1/aggregates")) asked.push({ url: answer.url(), bytes: (await answer.body()).length });
  });
  const emptied = await page.evaluate(async (timeoutMs) => {
    let count = 0;
    const began = performance.now();
    const hasPassed = (ms) => performance.now() > began + ms;
    while (!hasPassed(8_000) || (window.drawings < 2 && !hasPassed(timeoutMs))) {
      await new Promise(requestAnimationFrame);
      if ([...document.querySelectorAll(".card .value")].some((value) => value.textContent === "–" || value.textContent === "")) count += 1;
    }
    return count;
  }, TIMEOUT_MS);
  assert.equal(emptied, 0, "no value disappears for a frame");
  await page.waitForFunction((before) => [...document.querySelectorAll(".card .value")].some((value, at) => value.textContent !== before[at]), before);
  assert.ok(await page.evaluate(() => window.firstCanvases.every((canvas) => canvas.isConnected)), "no chart is made anew");
  const drawings = await page.evaluate(() => window.drawings);
  // The bodies of answers come here later than the page has drawn them.
  for (const until = Date.now() + TIMEOUT_MS; asked.length < Math.max(2, drawings - 1) && Date.now() < until; ) await page.waitForTimeout(50);
  assert.ok(asked.length >= 2);
  assert.ok(drawings >= 2 && drawings <= asked.length + 1, `drawn ${drawings} times, for ${asked.length} answers`);
  for (const { url } of asked) {
    const { start, stop } = Object.fromEntries(new URL(url).searchParams);
    assert.ok(stop - start < 60, `${stop - start} s are asked for`);
  }
  await close(page);
});

test("the metrics are asked for once, and nothing on the page moves by itself", async () => {
  const page = await open(browser, server.url, { motion: "no-preference" });
  await waitDrawn(page, 2);
  const lists = page.requests.filter((url) => url.includes("/v1/metric?"));
  assert.equal(lists.length, 1, lists.join(" "));
  assert.equal(await page.evaluate(() => window.gnudiEarly), null, "the request that left before the page's script was there is taken");
  // An endless animation makes the browser draw sixty times a second, which takes more CPU than all charts.
  assert.equal(await page.getByRole("button", { name: "Live" }).getAttribute("aria-pressed"), "true");
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await close(page);
});
