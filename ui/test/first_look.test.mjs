// A first visit: this machine's own metrics, without any action.

import assert from "node:assert/strict";
import { test } from "node:test";
import { close, open, picture, waitDrawn } from "./support/browser.mjs";
import { Server, sleep } from "./support/server.mjs";
import { start } from "./support/start.mjs";

const { server, browser } = await start({ hasHost: true }, () => sleep(6000)); // Two rounds of measures make a line.

test("charts of this machine appear without a log-in, and move on", async () => {
  const page = await open(browser, server.url);
  await waitDrawn(page, 2);
  const count = await page.locator(".title").textContent();
  assert.match(count, /^\d+ metrics$/);
  assert.equal(await page.getByRole("button", { name: "Live" }).getAttribute("aria-pressed"), "true");
  const value = page.locator('.card:has-text("hardware.memory.used") .value').or(page.locator(".card .value")).first();
  assert.match(await value.textContent(), /\d/);
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
  const emptied = await page.evaluate(async () => {
    let count = 0;
    const until = performance.now() + 8_000;
    while (performance.now() < until) {
      await new Promise(requestAnimationFrame);
      if ([...document.querySelectorAll(".card .value")].some((value) => value.textContent === "–" || value.textContent === "")) count += 1;
    }
    return count;
  });
  assert.equal(emptied, 0, "no value disappears for a frame");
  assert.notDeepEqual(await values(), before);
  assert.ok(await page.evaluate(() => window.firstCanvases.every((canvas) => canvas.isConnected)), "no chart is made anew");
  assert.ok(asked.length >= 2);
  const drawings = await page.evaluate(() => window.drawings);
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
