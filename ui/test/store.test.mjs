// The store view, and a resource.

import assert from "node:assert/strict";
import { test } from "node:test";
import { close, open, picture, waitDrawn } from "./support/browser.mjs";
import { addPolicy, fillCloud, folded } from "./support/data.mjs";
import { start } from "./support/start.mjs";

const { server, browser, cloud } = await start({}, (server) => fillCloud(server, { days: 1 }));

test("the store shows rates, backlog, owners, disk, policies, types, silent metrics and late points", async () => {
  // Older than the back window of this policy.
  const metric = cloud[0].metrics["memory.usage"];
  await server.post(`v1/metric/${metric}/measures`, [{ timestamp: Math.floor(Date.now() / 1000) - 7200, value: 1 }]);
  const { id } = await server.post("v1/metric", { name: "nobody.measures.this", archive_policy_name: "cloud" });
  await folded(server);
  const page = await open(browser, `${server.url}#/store`);
  const tile = (title) => page.locator(".tile", { has: page.getByRole("heading", { name: title, exact: true }) }).locator(".value");
  await page.getByRole("heading", { name: "All is well" }).waitFor();
  await page.getByText("Nothing waits to be processed.").waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll(".tile")].some((tile) => /Requests/.test(tile.textContent) && /\d\/s/.test(tile.textContent)));
  assert.equal(await tile("Late measures dropped").textContent(), "1");
  assert.match(await tile("Disk free").textContent(), /[GT]iB/);
  assert.match(await tile("Memory").textContent(), /[MG]iB/);
  assert.equal(await tile("Backlog").textContent(), "0");
  await page.getByText(/owns all \d+ sacks/).waitFor();
  await page.locator(".sizes li", { hasText: "cloud" }).getByText("19").waitFor();
  await page.locator(".sizes li", { hasText: "instance" }).getByText("6").waitFor();
  const silent = page.getByRole("region", { name: "Silent metrics" }).or(page.locator('[aria-label="Silent metrics"]'));
  await silent.getByRole("link", { name: "nobody.measures.this" }).first().waitFor();
  assert.match(await silent.getByRole("link", { name: "nobody.measures.this" }).first().getAttribute("href"), new RegExp(id));
  const late = page.locator('section[aria-label="Late measures dropped"] tbody tr');
  await late.first().waitFor();
  assert.deepEqual([await late.count(), await late.locator("td").first().textContent(), await late.locator("td").last().textContent()], [1, "memory.usage", "1"]);
  await page.setViewportSize({ width: 1280, height: 1400 });
  await page.waitForTimeout(4500);
  await picture(page, "store");
  await close(page);
});

test("of many silent metrics the first are listed, and all are counted", async () => {
  for (let number = 0; number < 120; number++) await server.post("v1/metric", { name: `silent.${number}`, archive_policy_name: "low" });
  const page = await open(browser, `${server.url}#/store`);
  await page.getByRole("heading", { name: /Silent metrics 121.metrics without a point/ }).waitFor();
  assert.equal(await page.getByRole("region", { name: "Silent metrics" }).locator("tbody tr").count(), 100);
  await page.getByText("The first 100 are listed.").waitFor();
  await close(page);
});

test("of many revisions the newest are listed, and none of them passes for the first", async () => {
  for (let number = 0; number < 205; number++) await server.request("PATCH", "v1/resource/instance/vm-5", { flavor: `m${number}` });
  const page = await open(browser, `${server.url}#/resources/instance/${cloud[5].id}?last=1h`);
  await page.getByText("Older ones are not listed.").waitFor();
  assert.equal(await page.locator(".revisions > li").count(), 200);
  assert.match(await page.locator(".revisions > li").last().innerText(), /flavor m4 → m5/);
  assert.equal(await page.getByText("as it was created").count(), 0);
  await close(page);
});

test("a resource has its attributes, its revisions over time and its metrics", async () => {
  const page = await open(browser, `${server.url}#/resources?last=6h`);
  await page.getByRole("link", { name: "instance", exact: true }).first().click();
  await page.getByLabel("Filter of instance").fill("zone = 'north' and flavor like 'm1.h%'");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("heading", { name: "1 resource" }).waitFor();
  await picture(page, "resources");
  await page.getByRole("link", { name: "web 0" }).click();
  await page.getByRole("heading", { level: 1, name: "web 0" }).waitFor();
  assert.match(await page.locator(".attributes").innerText(), /flavor\s+m1\.huge/);
  const revisions = page.locator(".revisions > li");
  await revisions.nth(1).waitFor(); // Not of the same answer as the name.
  assert.equal(await revisions.count(), 2);
  assert.match(await revisions.first().innerText(), /flavor m1\.small → m1\.huge/);
  await waitDrawn(page, 3);
  assert.equal(await page.locator(".card").count(), 3);
  await picture(page, "resource");
  await revisions.first().getByRole("button").click();
  await page.waitForFunction(() => location.hash.includes("from="));
  await close(page);
});

test("metrics that cannot be read do not pass for ones with points", async () => {
  const page = await open(browser, `${server.url}#/resources`, { mayFail: true });
  await page.route(/\/v1\/aggregates/, (route) => route.fulfill({ status: 503, contentType: "application/json", body: '{"code": 503, "title": "busy"}' }));
  await page.goto(`${server.url}#/store`);
  await page.getByRole("alert").getByText(/^\d+.metrics could not be read\.$/).waitFor();
  assert.equal(await page.locator('section[aria-label="Silent metrics"]').getByText("None.").count(), 0);
  await close(page);
});

test("a user who may not see who works is not told that nobody does", async () => {
  const page = await open(browser, `${server.url}#/resources`, { mayFail: true });
  await page.route(/\/(v1\/status|debug\/cluster)/, (route) => route.fulfill({ status: 403, contentType: "application/json", body: '{"code": 403, "description": "not for you"}' }));
  await page.goto(`${server.url}#/store`);
  await page.locator('[aria-label="Who works"]').getByRole("alert").getByText("not for you").waitFor();
  assert.equal(await page.getByText("Nobody processes measures.").count(), 0);
  await close(page);
});

test("a server whose figures cannot be read is not said to be well", async () => {
  const page = await open(browser, `${server.url}#/store`, { mayFail: true });
  await page.getByRole("heading", { name: "All is well" }).waitFor();
  await page.route(/\/metrics$/, (route) => route.fulfill({ status: 503, contentType: "application/json", body: '{"code": 503, "title": "busy"}' }));
  await page.getByRole("alert").getByText("Figures: busy").waitFor();
  assert.equal(await page.getByRole("heading", { name: "All is well" }).count(), 0);
  await close(page);
});

test("damage of the index is a problem, too", async () => {
  const page = await open(browser, `${server.url}#/resources`);
  await page.route(/\/metrics$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replace(/^gnudi_index_damaged_total .*$/m, "gnudi_index_damaged_total 1") });
  });
  await page.goto(`${server.url}#/store`);
  await page.getByText("Damaged data was found").waitFor();
  await close(page);
});

test("a metric of one point a day is not silent on the next day", async () => {
  await addPolicy(server, "days", [["1 day", "365 days"]]);
  const day = 86_400;
  const add = async (name, daysAgo) => {
    const { id } = await server.post("v1/metric", { name, archive_policy_name: "days" });
    await server.post(`v1/metric/${id}/measures`, [{ timestamp: Math.floor(Date.now() / 1000) - daysAgo * day, value: 1 }]);
  };
  await add("daily.spoken", 3);
  await add("daily.silent", 20);
  await folded(server);
  const page = await open(browser, `${server.url}#/store`);
  const silent = page.locator('[aria-label="Silent metrics"]');
  await silent.getByRole("link", { name: "daily.silent" }).first().waitFor();
  assert.equal(await silent.getByRole("link", { name: "daily.spoken" }).count(), 0);
  await close(page);
});
