// What a newcomer sees: this machine's own figures, at once and without asking for anything.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, launch, open, picture, waitDrawn } from "./support/browser.mjs";
import { Server, sleep } from "./support/server.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([new Server({ hasHost: true }).start(), launch()]);
  await sleep(6000); // Two rounds of figures make a line.
});
after(async () => {
  await browser.close();
  await server.remove();
});

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
