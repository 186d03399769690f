// Accessibility: axe finds no violations on any view, theme and size; everything works by keyboard.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { close, open, picture, waitDrawn } from "./support/browser.mjs";
import { fillCloud } from "./support/data.mjs";
import { start } from "./support/start.mjs";

const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const PHONE = { width: 390, height: 844 };
const WIDE = { width: 1680, height: 1000 };

const { server, browser, cloud } = await start({ hasHost: true }, async (server) => {
  await server.post("v1/metric", { name: "silent", archive_policy_name: "low" });
  return fillCloud(server, { days: 1 });
});
const cpu = cloud[2].metrics["cpu_util"];
const query = encodeURIComponent("(aggregate mean (metric cpu_util mean))");
const views = [
  ["metrics", "#/metrics?last=6h", 3],
  ["chart", `#/chart?m=${cpu}&last=6h&beside=1d&by=zone`, 2],
  ["query", `#/query?last=6h&type=instance&by=zone&gran=60&op=${query}`, 1],
  ["promql", `#/query?last=6h&lang=promql&expr=${encodeURIComponent("avg by (zone) (cpu_util)")}`, 1],
  ["resources", "#/resources/instance?last=6h", 0],
  ["resource", `#/resources/instance/${cloud[0].id}?last=6h`, 3],
  ["store", "#/store", 0],
];

async function violations(page) {
  // Through the debugger, to bypass the page's security policy.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).slice(0, 3).join(" | ")}`);
}

for (const scheme of ["light", "dark"]) {
  for (const [size, place] of [["phone", PHONE], ["wide", WIDE]]) {
    test(`axe finds nothing: ${scheme}, ${size}`, async () => {
      const page = await open(browser, server.url, { ...place, scheme });
      for (const [name, hash, charts] of views) {
        await page.goto(server.url + hash);
        await page.locator("main > *").first().waitFor();
        await waitDrawn(page, size === "phone" ? Math.min(charts, 1) : charts);
        if (name === "store") await page.getByRole("link", { name: "silent", exact: true }).waitFor();
        if (name === "resources") await page.getByRole("link", { name: "web 0" }).waitFor();
        assert.deepEqual(await violations(page), [], name);
        const sideways = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(sideways <= 0, `${name} is ${sideways} px too wide`);
        await picture(page, `${name}-${size}-${scheme}`);
      }
      await close(page);
    });
  }
}

test("the keyboard alone finds a metric and moves through time", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=6h`);
  await waitDrawn(page, 3);
  await page.keyboard.press("/");
  await page.keyboard.type("cpu_util");
  await page.locator(".hit.metric").first().waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "cpu_util" }).waitFor();
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction(() => location.hash.includes("from="));
  await page.keyboard.press("l");
  assert.equal(await page.getByRole("button", { name: "Live" }).getAttribute("aria-pressed"), "true");
  await page.keyboard.press("t");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await picture(page, "keys");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("3");
  await page.getByRole("link", { name: "instance", exact: true }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  // A closed dialog keeps the focus for a frame; the next key already belongs to the page.
  await page.evaluate(() => {
    document.querySelector("dialog").close();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "4", bubbles: true }));
  });
  await page.waitForFunction(() => location.hash.startsWith("#/store"));
  await close(page);
});

test("the menu of times gives the focus back", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=6h`);
  const opener = page.locator(".range .what");
  const menu = page.getByRole("dialog", { name: "Time to show" });
  for (const [name, key] of [["3 hours", "Enter"], ["1 day", "Escape"]]) {
    await opener.press("Enter");
    await menu.getByRole("button", { name, exact: true }).press(key);
    await menu.waitFor({ state: "detached" });
    assert.equal(await opener.evaluate((button) => document.activeElement === button), true, key);
  }
  assert.match(page.url(), /last=3h/);
  await close(page);
});

test("keys of an input method choose nothing", async () => {
  const page = await open(browser, `${server.url}#/resources?last=6h`);
  const box = page.getByRole("combobox", { name: /Search/ });
  const enter = (isComposing) => box.evaluate((input, isComposing) => input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing, bubbles: true })), isComposing);
  await box.fill("cpu_util");
  await page.locator(".hit.metric").first().waitFor();
  await enter(true);
  await page.waitForTimeout(500);
  assert.match(page.url(), /#\/resources/);
  await enter(false);
  await page.waitForFunction(() => location.hash.startsWith("#/metrics"));
  await close(page);
});

test("charts say in words what they show", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=6h&q=cpu_util`);
  await waitDrawn(page, 3);
  const labels = await page.locator('[role="img"]').evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  assert.ok(labels.length >= 3 && labels.every((label) => /^Chart of cpu_util: last .* %, from .* to .* %$/.test(label)), labels[0]);
  await close(page);
});

test("arrow keys scroll a table that has the focus, and do not move through time", async () => {
  const page = await open(browser, `${server.url}#/resources/instance?last=6h`, PHONE);
  await page.getByRole("link", { name: "web 0" }).waitFor();
  await page.getByRole("region", { name: "Resources", exact: true }).focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector(".scroll").scrollLeft > 0);
  assert.match(page.url(), /last=6h/);
  await close(page);
});
