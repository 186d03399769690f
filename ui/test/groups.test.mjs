// One metric of many resources: by an attribute, and more of them than a chart can show.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, launch, open, picture, waitDrawn } from "./support/browser.mjs";
import { ZONES, fillCloud, folded } from "./support/data.mjs";
import { Server } from "./support/server.mjs";

let server, browser, cloud;
before(async () => {
  [server, browser] = await Promise.all([new Server().start(), launch()]);
  cloud = await fillCloud(server, { days: 1 });
});
after(async () => {
  await browser.close();
  await server.remove();
});

test("a metric of all resources is grouped by an attribute, with its values", async () => {
  const page = await open(browser, `${server.url}#/chart?m=${cloud[0].metrics["cpu_util"]}&last=6h`);
  await page.getByLabel("Group all instance by").selectOption("zone");
  const groups = page.locator(".groups");
  for (const zone of ZONES) await groups.getByRole("button", { name: zone }).waitFor();
  await waitDrawn(page, 2);
  await groups.scrollIntoViewIfNeeded();
  await picture(page, "groups");
  await groups.getByRole("button", { name: "north" }).click();
  assert.equal(await groups.getByRole("button", { name: "north" }).getAttribute("aria-pressed"), "false");
  await close(page);
});

test("of 10,000 series the largest are drawn, and the page says so", async () => {
  const COUNT = 10_000;
  const now = Math.floor(Date.now() / 1000);
  for (let at = 0; at < COUNT; at += 1000) {
    const measures = {};
    const made = [];
    for (let number = at; number < at + 1000; number++) {
      made.push(server.post("v1/resource/generic", { id: `small-${number}`, metrics: { noise: { archive_policy_name: "cloud" } } }));
      measures[`small-${number}`] = { noise: [0, 1, 2, 3].map((back) => ({ timestamp: now - back * 60, value: number + back })) };
    }
    await Promise.all(made);
    const byId = {};
    for (const resource of await Promise.all(made)) byId[resource.metrics["noise"]] = measures[resource.original_resource_id]["noise"];
    await server.post("v1/batch/metrics/measures", byId);
  }
  await folded(server);
  const [metric] = await server.get("v1/metric?name=noise&limit=1");
  const page = await open(browser, `${server.url}#/chart?m=${metric.id}&last=3h&by=original_resource_id`);
  await page.getByText(/10.000 series: the 40 with the largest values are drawn/).waitFor({ timeout: 30_000 });
  await page.locator(".groups").getByRole("button", { name: "small-9999" }).waitFor();
  assert.equal(await page.locator(".groups .legend li").count(), 40);
  await close(page);
});
