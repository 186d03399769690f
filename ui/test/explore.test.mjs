// Exploring metrics: search, grid, zoom, address, cursor, resolution, band, comparison, changes, export.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { TIMEOUT_MS, close, open, picture, waitDrawn } from "./support/browser.mjs";
import { addPolicy, fillCloud, folded, moveToMinutes } from "./support/data.mjs";
import { start } from "./support/start.mjs";

const { server, browser, cloud } = await start({}, (server) => fillCloud(server));

const cpuOf = (number) => cloud[number].metrics["cpu_util"];
const chart = (number, more = "") => `${server.url}#/chart?m=${cpuOf(number)}${more}`;
const hashParams = (page) => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? "")));
const shownRange = async (page) => {
  const { from, to } = await hashParams(page);
  return [Date.parse(from) / 1000, Date.parse(to) / 1000];
};

/** Waits until a row of the large chart's table has all values: those of a band come after those of its line. */
const waitWhole = (page, row) => page.locator(".large tbody tr").nth(row).filter({ hasNotText: "–" }).waitFor();

/** Drags over a chart, between two fractions of its width. */
async function drag(page, from, to, modifier) {
  const box = await page.locator(".u-over").first().boundingBox();
  const y = box.y + box.height / 2;
  if (modifier) await page.keyboard.down(modifier);
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), y, { steps: 3 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 3 });
  await page.mouse.up();
  if (modifier) await page.keyboard.up(modifier);
}

test("search finds names, resources, types, attributes and ids with each key", async () => {
  const page = await open(browser, server.url, { mayFail: true }); // An id is looked up among metrics and resources.
  const box = page.getByRole("combobox", { name: /Search/ });
  await box.pressSequentially("memory");
  const hits = page.getByRole("listbox", { name: "What was found" });
  await hits.getByText("memory.usage").first().waitFor();
  await page.locator(".title", { hasText: "6 metrics" }).waitFor(); // The grid follows.
  await picture(page, "search");
  await box.fill("web 3");
  await hits.locator(".hit.resource", { hasText: "web 3" }).waitFor();
  await box.fill("m1.huge");
  await hits.locator(".hit.resource", { hasText: "flavor m1.huge" }).waitFor();
  await box.fill("flav");
  await hits.locator(".hit.type", { hasText: "instance" }).waitFor();
  await box.fill(cpuOf(1));
  await hits.locator(".hit.metric", { hasText: "cpu_util" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "cpu_util" }).waitFor();
  await close(page);
});

test("a grid of small charts is there before any query, in sections", async () => {
  const page = await open(browser, `${server.url}#/?last=6h`);
  await waitDrawn(page, 6);
  await page.locator(".title", { hasText: "18 metrics" }).waitFor();
  for (const section of ["cpu_util", "disk.read", "memory"]) await page.getByRole("button", { name: new RegExp(`^${section}`) }).waitFor();
  // Names of resources come after the charts.
  await page.locator(".card").first().getByRole("link", { name: "web 0" }).waitFor();
  // A counter is shown as a rate.
  await page.locator('.card:has-text("disk.read.bytes")').first().getByText("per second").waitFor();
  await page.getByRole("button", { name: /^cpu_util/ }).click();
  assert.equal(await page.locator('.card:has-text("cpu_util")').count(), 0);
  await picture(page, "metrics-cloud");
  await close(page);
});

test("the large chart keeps what was chosen for the small ones", async () => {
  const page = await open(browser, `${server.url}#/?last=6h&gran=300&agg=max`);
  await page.locator(`.card[data-metric="${cpuOf(0)}"] h3 a`).click();
  await page.getByRole("heading", { level: 1, name: "cpu_util" }).waitFor();
  const { gran, agg } = await hashParams(page);
  assert.deepEqual([gran, agg], ["300", "max"]);
  await close(page);
});

test("dragging zooms, and back, keys and buttons move", async () => {
  const page = await open(browser, chart(0, "&last=6h"));
  await waitDrawn(page);
  await drag(page, 0.25, 0.5);
  await page.waitForFunction(() => location.hash.includes("from="));
  const [from, to] = await shownRange(page);
  assert.ok(Math.abs(to - from - 5400) < 120, `a quarter of six hours, not ${to - from} s`);
  await page.keyboard.press("ArrowRight");
  const [later] = await shownRange(page);
  assert.ok(Math.abs(later - from - 1350) < 30);
  await page.keyboard.press("+");
  const zoomed = await shownRange(page);
  assert.ok(Math.abs(zoomed[1] - zoomed[0] - (to - from) / 2) < 5);
  await page.getByRole("button", { name: "Zoom out" }).click();
  const zoomedOut = await page.evaluate(() => location.hash);
  await page.getByRole("button", { name: "Earlier" }).click();
  await page.keyboard.press("Backspace");
  await page.waitForFunction((wanted) => location.hash === wanted, zoomedOut);
  await page.keyboard.press("Backspace");
  await page.waitForFunction((not) => location.hash !== not, zoomedOut);
  assert.deepEqual(await shownRange(page), zoomed);
  for (let back = 0; back < 3; back++) await page.goBack();
  await page.waitForFunction(() => location.hash.includes("last=6h"));
  await page.getByRole("button", { name: "Live", pressed: true }).waitFor();
  await close(page);
});

test("a turn of the wheel is one step back", async () => {
  const page = await open(browser, chart(0, "&last=6h"));
  await waitDrawn(page);
  const before = await page.evaluate(() => {
    window.wheelMs = [];
    window.addEventListener("wheel", () => window.wheelMs.push(performance.now()), { capture: true, passive: true });
    return history.length;
  });
  const box = await page.locator(".u-over").first().boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.keyboard.down("Control");
  for (let event = 0; event < 10; event++) {
    await page.mouse.wheel(0, -100);
    await page.evaluate(() => new Promise(requestAnimationFrame)); // Events of one frame are one event.
  }
  await page.keyboard.up("Control");
  await page.waitForFunction(() => location.hash.includes("from="));
  // Events on a slow machine may be a second apart: they are several turns then.
  const [steps, turns] = await page.evaluate(
    (before) => [history.length - before, window.wheelMs.filter((at, place, all) => place === 0 || at - all[place - 1] > 900).length], before,
  );
  assert.ok(steps >= 1 && steps <= turns, `${steps} steps, ${turns} turns`);
  await close(page);
});

test("the menu of times keeps an hour that exists twice", async () => {
  // From 2:30 to 2:10, forty minutes later: summer time ends in between.
  const page = await open(browser, chart(0, "&from=2025-10-26T00:30Z&to=2025-10-26T01:10Z"), { zone: "Europe/Berlin" });
  await page.getByRole("button", { name: "2025-10-26 02:30 – 02:10" }).click();
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.locator(".menu").waitFor({ state: "detached" });
  const { from, to } = await hashParams(page);
  assert.deepEqual([from, to], ["2025-10-26T00:30Z", "2025-10-26T01:10Z"]);
  await close(page);
});

test("the address holds all that is shown", async () => {
  const page = await open(browser, chart(2, "&last=6h"));
  await waitDrawn(page);
  await page.getByLabel("Aggregate").selectOption("max");
  await page.getByLabel("Resolution").selectOption("300");
  await page.getByLabel("Beside").selectOption("1d");
  await page.getByLabel("Band").selectOption("5pct,95pct");
  await drag(page, 0.5, 0.9);
  await page.waitForFunction(() => location.hash.includes("from="));
  await page.mouse.move(5, 5);
  const other = await open(browser, page.url());
  await waitDrawn(other);
  await other.locator(".figures dd").first().waitFor();
  // Either may still load a part of its points.
  const textOf = (one) => one.locator(".large").innerText();
  let [seen, otherSeen] = ["", ""];
  for (const until = Date.now() + TIMEOUT_MS; ; await page.waitForTimeout(50)) {
    [seen, otherSeen] = [await textOf(page), await textOf(other)];
    if (seen === otherSeen || Date.now() > until) break;
  }
  assert.equal(otherSeen, seen);
  assert.match(seen, /max, 5 minutes a point/);
  await close(other);
  await close(page);
});

test("one cursor goes over all charts", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=6h&q=cpu_util`);
  await waitDrawn(page, 6);
  const values = page.locator(".card .value");
  const before = await values.allTextContents();
  const box = await page.locator(".u-over").first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 20);
  await page.waitForFunction((before) => [...document.querySelectorAll(".card .value")].filter((value, at) => value.textContent !== before[at]).length >= 5, before);
  const lefts = await page.locator(".u-cursor-x").evaluateAll((all) => all.map((line) => line.style.transform));
  assert.ok(lefts.length >= 6 && lefts.every((left) => left && left !== "translate(-10px, 0px)"), lefts.join());
  await page.mouse.move(5, 5);
  await page.waitForFunction((before) => document.querySelector(".card .value").textContent === before, before[0]);
  await close(page);
});

test("the resolution follows the pixels, is shown, and can be chosen", async () => {
  const page = await open(browser, chart(0, "&last=6h"));
  const said = page.locator(".large .sub");
  await said.getByText("1 minute a point").waitFor();
  // The bar gets it from the drawn chart. An option in a closed menu is not visible.
  await page.getByLabel("Resolution").locator("option", { hasText: "auto (1 minute)" }).waitFor({ state: "attached" });
  await page.goto(chart(0, "&last=30d"));
  await said.getByText("1 hour a point").or(said.getByText("5 minutes a point")).waitFor();
  await page.getByLabel("Resolution").selectOption("3600");
  await said.getByText("1 hour a point").waitFor();
  assert.deepEqual(await page.getByLabel("Resolution").locator("option").allTextContents().then((all) => all.slice(1)), ["1 minute", "5 minutes", "1 hour"]);
  // What no policy has is not what the charts show.
  await page.goto(chart(0, "&last=6h&gran=7&agg=foo"));
  await said.getByText("mean, 1 minute a point").waitFor();
  for (const name of ["Resolution", "Aggregate"]) await page.getByLabel(name).locator("option:checked", { hasText: /^auto/ }).waitFor({ state: "attached" });
  await page.getByLabel("Resolution").selectOption("");
  await page.getByLabel("Aggregate").selectOption("");
  await page.waitForFunction(() => !/gran=|agg=/.test(location.hash));
  await close(page);
});

test("a band of the stored extremes or percentiles is around the mean", async () => {
  const page = await open(browser, chart(0, "&last=12h&gran=300"));
  await waitDrawn(page);
  await page.locator(".legend", { hasText: "min to max" }).waitFor();
  await page.getByLabel("Band").selectOption({ label: "5th to 95th percentile" });
  await page.locator(".legend", { hasText: "5th to 95th percentile" }).waitFor();
  await page.getByRole("button", { name: "Table" }).click();
  await waitWhole(page, 2);
  const [time, mean, low, high] = await page.locator(".large tbody tr").nth(2).locator("td").allTextContents();
  assert.match(time, /^\d{4}-\d\d-\d\d/);
  assert.ok(parseFloat(low) <= parseFloat(mean) && parseFloat(mean) <= parseFloat(high), `${low} ${mean} ${high}`);
  await picture(page, "chart-band");
  await page.getByLabel("Band").selectOption("none");
  await page.waitForFunction(() => !/percentile/.test(document.querySelector(".large .legend").textContent));
  await close(page);
});

test("yesterday stands beside today", async () => {
  const page = await open(browser, chart(0, "&last=3h&beside=1d"));
  await waitDrawn(page);
  await page.locator(".legend", { hasText: "1 day before" }).waitFor();
  await page.getByRole("button", { name: "Table" }).click();
  // The daily wave is the same on both days.
  const cells = page.locator(".large tbody tr").nth(30).locator("td");
  const mean = parseFloat(await cells.nth(1).textContent());
  const column = await page.locator(".large thead th").allTextContents();
  const before = parseFloat(await cells.nth(column.indexOf("1 day before")).textContent());
  assert.ok(Number.isNaN(before) || Math.abs(mean - before) < 12, `${mean} and ${before}`);
  await close(page);
});

test("a marked window shows which metrics changed most in it", async () => {
  const page = await open(browser, chart(2, "&last=3h"));
  await waitDrawn(page);
  await page.getByRole("button", { name: "What changed?" }).click();
  // The incident was 60 to 40 minutes ago.
  await drag(page, 0.68, 0.77);
  await page.getByRole("link", { name: /Which metrics changed most/ }).click();
  await page.getByText(/metrics? of 18 did/).waitFor();
  const first = page.locator(".card").first();
  assert.equal(await first.getAttribute("data-metric"), cpuOf(2));
  assert.match(await first.locator(".sub").textContent(), /→/);
  await waitDrawn(page, 1);
  await picture(page, "what-changed");
  await page.getByRole("button", { name: "Unmark" }).click();
  await page.locator(".title", { hasText: "18 metrics" }).waitFor();
  await close(page);
});

test("the keyboard marks the shown time", async () => {
  const now = Math.floor(Date.now() / 1000);
  const page = await open(browser, `${server.url}#/metrics?from=${now - 3600}&to=${now - 2400}&q=cpu_util`);
  await waitDrawn(page, 6);
  await page.keyboard.press("m");
  await page.getByText(/metrics? of 6 did/).waitFor();
  assert.equal(await page.locator(".card").first().getAttribute("data-metric"), cpuOf(2));
  await page.getByRole("button", { name: "Unmark" }).waitFor();
  // A view that has no marks gets none.
  await page.goto(`${server.url}#/resources/instance?last=1h`);
  await page.getByRole("link", { name: "web 0" }).waitFor();
  await page.keyboard.press("m");
  assert.equal((await hashParams(page)).mark, undefined);
  await close(page);
});

test("what is shown can be taken along as CSV, JSON, Arrow and as a command", async () => {
  const minute = Math.floor(Date.now() / 300_000) * 300;
  const page = await open(browser, chart(1, `&from=${minute - 3600}&to=${minute}&gran=300`));
  await page.getByRole("button", { name: "Table" }).click();
  await waitWhole(page, 0);
  const taken = async (name, encoding = "utf8") => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name, exact: true }).click()]);
    return [download.suggestedFilename(), readFileSync(await download.path(), encoding)];
  };
  const [name, csv] = await taken("CSV");
  assert.equal(name, "cpu_util.csv");
  const [head, ...rows] = csv.trim().split("\r\n");
  assert.equal(head, "time,cpu_util mean,cpu_util min,cpu_util max");
  assert.ok(rows.length >= 11 && rows.every((row) => /^\d{4}-\d\d-\d\dT[\d:.]+Z(,[\d.]+){3}$/.test(row)), rows[0]);
  const [, json] = await taken("JSON");
  assert.equal(JSON.parse(json)[0].measures.length, rows.length);
  const [arrows, stream] = await taken("Arrow", null);
  assert.equal(arrows, "cpu_util.arrows");
  // Each encapsulated message begins with these bytes; the first is the schema, and an empty one ends the
  // stream.
  assert.equal(stream.readUInt32LE(0), 0xffffffff);
  for (const column of ["timestamp", "value"]) assert.ok(stream.includes(column), column);
  assert.ok(stream.subarray(-8).equals(Buffer.from([255, 255, 255, 255, 0, 0, 0, 0])) && stream.length >= 16 * rows.length);
  await page.getByRole("button", { name: "curl" }).click();
  const command = await page.locator(".command pre").textContent();
  const { execFileSync } = await import("node:child_process");
  const answer = JSON.parse(execFileSync("bash", ["-c", command], { encoding: "utf8" }));
  const values = new Set(JSON.parse(json)[0].measures.map(([, value]) => value));
  assert.ok(answer.filter(([, , value]) => values.has(value)).length >= rows.length - 2, `${answer.length} points`);
  await close(page);
});

test("a metric moved to a finer granularity shows the coarser one where that begins later", async () => {
  await addPolicy(server, "five minutes", [["5 minutes", "30 days"]]);
  const { id } = await server.post("v1/metric", { name: "moved.to.minutes", archive_policy_name: "five minutes" });
  await moveToMinutes(server, id);
  const page = await open(browser, `${server.url}#/chart?m=${id}&last=2h`);
  await page.getByText("mean, 5 minutes a point").waitFor();
  await waitDrawn(page);
  // Hours begin no earlier than five minutes do.
  await page.goto(`${server.url}#/chart?m=${id}&last=12h`);
  await page.getByText("mean, 5 minutes a point").waitFor();
  await page.goto(`${server.url}#/chart?m=${id}&last=15m`);
  await page.getByText("mean, 1 minute a point").waitFor();
  // What the user chose stays.
  await page.goto(`${server.url}#/chart?m=${id}&last=2h&gran=60`);
  await page.locator(".figures", { hasText: "points" }).waitFor();
  await page.waitForTimeout(500);
  await page.getByText("mean, 1 minute a point").waitFor();
  await close(page);
});

test("a line of more points than a browser can hold is resampled by the server", async () => {
  const begin = Math.floor(Date.now() / 600_000) * 600 - 86_400;
  await addPolicy(server, "seconds", [["1 second", "365 days"]], ["mean", "count"]);
  const ids = [];
  for (const points of [[[0, 10], [1, 20], [600, 40]], [[2, 7]]]) {
    const { id } = await server.post("v1/metric", { archive_policy_name: "seconds" });
    await server.post(`v1/metric/${id}/measures`, points.map(([at, value]) => ({ timestamp: begin + at, value })));
    ids.push(id);
  }
  await folded(server);
  const shown = `${server.url}#/chart?m=${ids[0]}&m=${ids[1]}&last=365d`;
  const page = await open(browser, shown);
  const figures = (number) => page.locator(`[data-metric="${ids[number]}"] .figures dd`);
  await page.getByText("mean, 10 minutes a point").nth(1).waitFor();
  await figures(1).first().waitFor();
  await figures(0).first().waitFor();
  assert.deepEqual([await figures(0).allTextContents(), await figures(1).allTextContents()], [["40", "15", "27.5", "40", "2"], ["7", "7", "7", "7", "1"]]);
  // The command asks for what is shown, not for all stored points, and for whole buckets, although the range ends within one.
  await page.goto(`${server.url}#/chart?m=${ids[0]}&from=${begin - 364 * 86_400}&to=${begin + 1}`);
  await page.locator(`[data-metric="${ids[1]}"]`).waitFor({ state: "detached" });
  await figures(0).first().waitFor();
  await page.getByRole("button", { name: "curl" }).first().click();
  const { execFileSync } = await import("node:child_process");
  const { measures } = JSON.parse(execFileSync("bash", ["-c", await page.locator(".command pre").textContent()], { encoding: "utf8" }));
  assert.deepEqual(measures[ids[0]].mean.map(([, ...point]) => point), [[600, 15], [600, 40]]);
  await page.goto(`${shown}&agg=count`);
  await figures(0).first().filter({ hasText: /^1$/ }).waitFor();
  assert.deepEqual(await figures(0).allTextContents(), ["1", "1", "1.5", "2", "2"]);
  await close(page);
});

test("the search for older points is resampled, too", async () => {
  await addPolicy(server, "seconds and minutes", [["1 second", "365 days"], ["1 minute", "300 days"]]);
  const { id } = await server.post("v1/metric", { archive_policy_name: "seconds and minutes" });
  await server.post(`v1/metric/${id}/measures`, [{ timestamp: Math.floor(Date.now() / 1000) - 86_400, value: 1 }]);
  await folded(server);
  const page = await open(browser, `${server.url}#/resources?last=1h`);
  const asked = page.waitForRequest(/\/v1\/aggregates.*granularity=60/);
  await page.goto(`${server.url}#/chart?m=${id}&last=360d`);
  assert.equal(JSON.parse((await asked).postData()).operations[0], "resample");
  await close(page);
});

test("resampled lines are asked for one after the other, and again while large queries run", async () => {
  const begin = Math.floor(Date.now() / 600_000) * 600 - 86_400;
  await addPolicy(server, "seconds of extremes", [["1 second", "365 days"]], ["mean", "min", "max"]);
  const ids = [];
  for (const value of [3, 4]) {
    const { id } = await server.post("v1/metric", { archive_policy_name: "seconds of extremes" });
    await server.post(`v1/metric/${id}/measures`, [{ timestamp: begin, value }]);
    ids.push(id);
  }
  await folded(server);
  const page = await open(browser, `${server.url}#/resources?last=1h`, { mayFail: true });
  let [requests, running, most] = [0, 0, 0];
  await page.route(/\/v1\/aggregates/, async (route) => {
    requests += 1;
    running += 1;
    most = Math.max(most, running);
    await new Promise((done) => setTimeout(done, 100));
    running -= 1;
    const body = JSON.stringify({ code: 503, title: "Service Unavailable", description: "too many large queries are running" });
    return requests <= 3 ? route.fulfill({ status: 503, contentType: "application/json", body }) : route.continue();
  });
  await page.goto(`${server.url}#/chart?m=${ids[0]}&m=${ids[1]}&from=${begin - 364 * 86_400}&to=${begin + 86_400}&band=min,max`);
  for (const [number, value] of ["3", "4"].entries()) await page.locator(`[data-metric="${ids[number]}"] .figures dd`, { hasText: value }).first().waitFor();
  assert.deepEqual([most, await page.getByRole("alert").count()], [1, 0]);
  await close(page);
});

test("a table has no rows of gaps, and says that it has not all rows", async () => {
  const now = Math.floor(Date.now() / 60_000) * 60;
  const { id } = await server.post("v1/metric", { name: "with.a.gap", archive_policy_name: "cloud" });
  const minutes = Array.from({ length: 300 }, (_, at) => at + 1).filter((at) => at < 100 || at >= 120);
  await server.post(`v1/metric/${id}/measures`, minutes.map((at) => ({ timestamp: now - at * 60, value: at })));
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${id}&from=${now - 140 * 60}&to=${now}&gran=60&band=none`);
  await page.getByRole("button", { name: "Table" }).click();
  const table = page.getByRole("region", { name: "The values as a table" });
  await table.waitFor();
  const values = await table.locator("tbody td.number").allTextContents();
  assert.deepEqual(values.filter((value) => value === "–"), []);
  await page.goto(`${server.url}#/chart?m=${id}&from=${now - 300 * 60}&to=${now}&gran=60&band=none`);
  await page.getByText(/The newest 200 of 280.times, 1 of 1.series: CSV has all./).waitFor();
  assert.equal(await table.locator("tbody tr").count(), 200);
  await close(page);
});
