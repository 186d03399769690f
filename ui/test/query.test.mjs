// The editor for operations and filters: completion, marked mistakes, time and cost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { close, open, picture, waitDrawn } from "./support/browser.mjs";
import { fillCloud } from "./support/data.mjs";
import { start } from "./support/start.mjs";

const { server, browser, cloud } = await start({}, (server) => fillCloud(server, { days: 1 }));

const offer = (page, text) => page.locator(".offers li").filter({ hasText: text }).first();

/** Types `text` and takes what is offered then. */
async function complete(page, text, offered, key = "Tab") {
  await page.keyboard.type(text);
  await offer(page, offered).waitFor();
  await page.keyboard.press(key);
}

const wrong = (page, id) => page.locator(`.sheet:has(#${id}) .wrong`).allTextContents();

test("completion offers operations, metrics, aggregates, attributes and values", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h`);
  await page.getByLabel("Metrics of").selectOption("instance");
  const operations = page.getByLabel("Operations");
  await operations.click();
  await complete(page, "(agg", "aggregate");
  await complete(page, " me", "mean", "Enter");
  await page.keyboard.type(" (metric cpu");
  await offer(page, "cpu_util").waitFor();
  await picture(page, "query-completion");
  await page.keyboard.press("Tab");
  await complete(page, " 95", "95pct");
  await page.keyboard.type("))");
  assert.equal(await operations.inputValue(), "(aggregate mean (metric cpu_util 95pct))");
  await page.getByLabel("Of which resources").click();
  await complete(page, "zo", "zone");
  await complete(page, " = ", "'north'");
  await page.keyboard.press("Control+Enter");
  await page.locator(".cost").waitFor();
  await waitDrawn(page);
  assert.match(await page.locator(".cost").textContent(), /^1 series, \d+ points?, .*B in \d+ ms: \d+ ms until the server answered/);
  await picture(page, "query-result");
  await close(page);
});

test("mistakes are marked at their place, by the page and by the server", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h`, { mayFail: true });
  await page.getByLabel("Metrics of").selectOption("instance");
  const [operations, filter] = [page.getByLabel("Operations"), page.getByLabel("Of which resources")];
  await operations.fill("(agregate mean (metric cpu_util mean))");
  assert.deepEqual(await wrong(page, "operations"), ["agregate"]);
  await filter.fill("colour = 'red'");
  assert.deepEqual(await wrong(page, "filter"), ["colour"]);
  // An error that only the server can detect.
  await filter.fill("");
  await operations.fill("(aggregate mean (metric cpu_util median))");
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".mistakes", { hasText: /aggregat/i }).waitFor();
  assert.deepEqual(await wrong(page, "operations"), ["median"]);
  await picture(page, "query-refused");
  await operations.fill("(aggregate mean (metric cpu_util mean))");
  await filter.fill("zone like 7 and");
  await page.getByRole("button", { name: "Run" }).click();
  await page.waitForFunction(() => document.querySelector("#filter-mistakes").textContent !== "");
  assert.equal((await wrong(page, "filter")).length > 0, true);
  assert.equal(await filter.inputValue(), "zone like 7 and", "nothing that was typed is lost");
  await close(page);
});

test("a query is in the address, in groups, as a table", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h&type=instance&by=flavor&op=${encodeURIComponent("(aggregate max (metric cpu_util max))")}&gran=300`);
  await page.locator(".legend").getByRole("button", { name: "m1.large" }).waitFor();
  await page.getByRole("button", { name: "Table" }).click();
  assert.deepEqual((await page.locator("thead th").allTextContents()).sort(), ["Time", "m1.huge", "m1.large", "m1.small"].sort());
  await close(page);
});

test("a view without a query is empty, and back shows the query again", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h&type=instance`);
  const operations = page.getByLabel("Operations");
  await operations.fill("(aggregate mean (metric cpu_util mean))");
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".cost").waitFor();
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Query" }).click();
  await page.locator(".cost").waitFor({ state: "detached" });
  assert.deepEqual([await operations.inputValue(), await page.getByRole("alert").count()], ["", 0]);
  await page.goBack();
  await page.locator(".cost").waitFor();
  assert.equal(await operations.inputValue(), "(aggregate mean (metric cpu_util mean))");
  await close(page);
});

test("PromQL is completed, run and marked where it is wrong", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h`, { mayFail: true });
  await page.getByLabel("Operations").fill("(half typed");
  await page.getByLabel("Language").selectOption("promql");
  const expression = page.getByLabel("PromQL", { exact: true });
  await expression.click();
  await complete(page, "avg by (zo", "zone");
  await complete(page, ") (cpu_ut", "cpu_util");
  await complete(page, '{zone="no', "north");
  await page.keyboard.type('"})');
  assert.match(await expression.inputValue(), /^avg by \(zone\) \((ceilometer_)?cpu_util\{zone="north"\}\)$/);
  await picture(page, "query-promql");
  await page.keyboard.press("Control+Enter");
  await page.locator(".cost").waitFor();
  await waitDrawn(page);
  assert.match(await page.locator(".cost").textContent(), /^1 series, \d+ points?, /);
  assert.match(page.url(), /lang=promql/);
  await page.getByRole("button", { name: "curl" }).click();
  assert.match(await page.locator(".command pre").textContent(), /api\/v1\/query_range\?query=avg/);
  await expression.fill("quantile_over_time(2, cpu_util[1h])");
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".note", { hasText: "quantile value should be between 0 and 1, got 2" }).waitFor();
  await expression.fill("rate(cpu_util)");
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".mistakes", { hasText: "expected type range vector" }).waitFor();
  assert.deepEqual(await wrong(page, "promql"), ["cpu_util"]);
  await page.getByLabel("Language").selectOption("");
  assert.equal(await page.getByLabel("Operations").inputValue(), "(half typed", "nothing that was typed is lost");
  await close(page);
});

test("an answer that comes late does not replace that of a newer query", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h`);
  let release;
  const held = new Promise((done) => (release = done));
  let isFirst = true;
  await page.route(/\/v1\/aggregates/, async (route) => {
    if (isFirst) {
      isFirst = false;
      await held;
    }
    await route.continue().catch(() => undefined); // The page may have given it up.
  });
  await page.getByLabel("Metrics of").selectOption("instance");
  const run = async (operations) => {
    await page.getByLabel("Operations").fill(operations);
    await page.getByRole("button", { name: "Run" }).click();
  };
  await run("(metric cpu_util mean)");
  await page.getByText("Running…").waitFor();
  await run("(aggregate mean (metric cpu_util mean))");
  await page.locator(".cost", { hasText: "1 series," }).waitFor();
  release();
  await page.waitForTimeout(1000);
  assert.match(await page.locator(".cost").textContent(), /^1 series/);
  await close(page);
});

test("what is taken away is what is shown, not what was typed since", async () => {
  const page = await open(browser, `${server.url}#/query?type=instance&op=${encodeURIComponent("(aggregate mean (metric cpu_util mean))")}&last=6h`);
  await page.locator(".cost", { hasText: "1 series," }).waitFor();
  await page.getByLabel("Operations").fill("(aggregate max (metric cpu_util max))");
  await page.getByRole("button", { name: "curl" }).click();
  const command = await page.locator(".command pre").textContent();
  assert.ok(command.includes("(aggregate mean (metric cpu_util mean))"), command);
  await close(page);
});

test("a granularity has a unit, or is of seconds; anything else is not run", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h`);
  await page.getByLabel("Operations").fill(`(metric ${cloud[0].metrics["cpu_util"]} mean)`);
  const grain = page.getByLabel("Granularity");
  await grain.fill("five");
  await page.getByLabel("Operations").press("Control+Enter");
  await page.waitForTimeout(200);
  assert.deepEqual(page.requests.filter((url) => /v1\/aggregates/.test(url)), []);
  await grain.fill("5m");
  await page.getByLabel("Operations").press("Control+Enter");
  await page.locator(".cost").waitFor();
  assert.match(page.requests.find((url) => /v1\/aggregates/.test(url)), /granularity=300/);
  await close(page);
});

test("a screen reader hears which completion is chosen", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h`);
  const editor = page.getByLabel("Operations");
  await editor.pressSequentially("(ro");
  await page.getByRole("option", { name: /^rolling/ }).waitFor();
  await editor.press("ArrowDown");
  const chosen = page.locator(`[id="${await editor.getAttribute("aria-activedescendant")}"]`);
  assert.equal(await chosen.getAttribute("aria-selected"), "true");
  await editor.press("Escape");
  assert.equal(await editor.getAttribute("aria-activedescendant"), null);
  await close(page);
});

test("Enter in the search waits for all answers", async () => {
  const page = await open(browser, `${server.url}#/query?last=6h`);
  const search = page.getByRole("combobox", { name: /Search/ });
  await search.fill("cpu_util");
  await page.locator('[data-for="cpu_util"] .hit').first().waitFor();
  let answer = () => undefined;
  const answered = new Promise((done) => (answer = done));
  await page.route(/\/v1\/(metric|search)/, async (route) => {
    await answered;
    await route.continue().catch(() => undefined); // Aborted meanwhile.
  });
  await search.fill("memory");
  await page.waitForTimeout(100);
  assert.equal(await page.getByText("Nothing found").count(), 0);
  await search.fill("instance");
  await page.locator('[data-for="instance"] .hit').first().waitFor();
  await search.press("Enter");
  assert.match(await page.evaluate(() => location.hash), /^#\/query/);
  answer();
  await page.waitForURL(/#\/resources\/instance/);
  await close(page);
});
