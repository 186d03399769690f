// One metric of many resources: grouped by an attribute, and more groups than a chart can show.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { TIMEOUT_MS, close, open, picture, waitDrawn } from "./support/browser.mjs";
import { ZONES, addPolicy, fillCloud, folded, moveToMinutes } from "./support/data.mjs";
import { start } from "./support/start.mjs";

const { server, browser, cloud } = await start({}, (server) => fillCloud(server, { days: 1 }));

const addType = (name, attribute) => server.post("v1/resource_type", { name, attributes: { [attribute]: { type: "string", required: false } } });

/** The groups as a file. */
async function saved(page, form) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.locator(".groups").getByRole("button", { name: form }).click()]);
  return readFileSync(await file.path(), "utf8");
}

/** The values of the first group. */
const valuesOf = async (page) => (await saved(page, "CSV")).trim().split("\r\n").slice(1).map((row) => row.split(",")[1]);

/** Waits until all values are the same: at first the counters may be shown as stored. */
async function waitValues(page, value) {
  let values = [];
  for (const until = Date.now() + TIMEOUT_MS; values.some((one) => one !== value) || values.length === 0; await page.waitForTimeout(100)) {
    values = await valuesOf(page);
    if (Date.now() > until) break;
  }
  assert.deepEqual([...new Set(values)], [value]);
}

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
  // Lines of InfluxDB create a resource per host.
  await server.request("POST", "v1/influxdb/query?q=create+database+many");
  for (let at = 0; at < COUNT; at += 2500) {
    const numbers = Array.from({ length: 2500 }, (_, more) => at + more);
    const lines = numbers.flatMap((number) => [300, 0].map((back) => `noise,host=small-${number} value=${number} ${now - back}000000000`));
    const headers = { Authorization: `Basic ${btoa("admin:")}` };
    const answer = await fetch(`${server.url}v1/influxdb/write?db=many`, { method: "POST", headers, body: lines.join("\n") });
    assert.equal(answer.status, 204, await answer.text());
  }
  await folded(server);
  const [metric] = await server.get("v1/metric?name=noise.value&limit=1");
  const page = await open(browser, `${server.url}#/chart?m=${metric.id}&last=3h&by=original_resource_id`);
  await page.getByText(/10.000 series: the 40 with the largest values are drawn/).waitFor();
  await page.locator(".groups").getByRole("button", { name: "small-9999" }).waitFor();
  assert.equal(await page.locator(".groups .legend li").count(), 40);
  await close(page);
});

test("the group without a value is not that of the text none", async () => {
  const now = Math.floor(Date.now() / 1000);
  await addType("rack", "room");
  const made = [];
  for (const room of [{ room: "none" }, {}]) {
    const metrics = { load: { archive_policy_name: "cloud" } };
    made.push(await server.post("v1/resource/rack", { id: `rack ${made.length}`, metrics, ...room }));
  }
  const measures = [600, 300, 0].map((back) => ({ timestamp: now - back, value: back }));
  await server.post("v1/batch/metrics/measures", Object.fromEntries(made.map(({ metrics }) => [metrics.load, measures])));
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${made[0].metrics.load}&last=3h&by=room`);
  const entries = page.locator(".groups .legend").getByRole("button", { name: "none" });
  await entries.nth(1).waitFor();
  await entries.nth(0).click();
  assert.deepEqual([await entries.nth(0).getAttribute("aria-pressed"), await entries.nth(1).getAttribute("aria-pressed")], ["false", "true"]);
  await close(page);
});

test("metrics of one name and several policies are grouped at a granularity that all have", async () => {
  const now = Math.floor(Date.now() / 1000);
  await addPolicy(server, "fine", [["10 seconds", "1 day"], ["5 minutes", "10 days"]]);
  await addPolicy(server, "coarse", [["5 minutes", "10 days"]]);
  await addType("sensor", "room");
  const made = [];
  for (const [room, policy] of [["attic", "fine"], ["cellar", "coarse"]]) {
    made.push(await server.post("v1/resource/sensor", { id: room, room, metrics: { heat: { archive_policy_name: policy } } }));
  }
  const measures = [1200, 900, 600, 300, 0].map((back) => ({ timestamp: now - back, value: back }));
  await server.post("v1/batch/metrics/measures", Object.fromEntries(made.map(({ metrics }) => [metrics.heat, measures])));
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${made[0].metrics.heat}&last=1h&by=room&gran=10`, { mayFail: true });
  const groups = page.locator(".groups");
  for (const room of ["attic", "cellar"]) await groups.getByRole("button", { name: room }).waitFor();
  await groups.getByRole("heading", { name: "5 minutes a point" }).waitFor();
  assert.equal(await groups.getByRole("alert").count(), 0);
  await close(page);
});

test("groups of metrics moved to a finer granularity show the coarser one where that begins later", async () => {
  await addPolicy(server, "five minutes", [["5 minutes", "30 days"]]);
  await addType("engine", "hall");
  const { metrics } = await server.post("v1/resource/engine", { id: "engine", hall: "east", metrics: { power: { archive_policy_name: "five minutes" } } });
  await moveToMinutes(server, metrics.power);
  const shown = (more) => `${server.url}#/chart?m=${metrics.power}&by=hall&${more}`;
  const page = await open(browser, shown("last=2h"));
  const title = page.locator(".groups").getByRole("heading");
  await title.getByText("5 minutes a point").waitFor();
  // What the user chose stays.
  await page.goto(shown("last=2h&gran=60"));
  await title.getByText("1 minute a point").waitFor();
  await close(page);
});

test("groups of more points than a browser can hold are resampled by the server", async () => {
  const begin = Math.floor(Date.now() / 600_000) * 600 - 86_400;
  await addPolicy(server, "seconds", [["1 second", "365 days"]]);
  await addType("scale", "room");
  const ids = [];
  for (const at of [0, 1]) {
    const { metrics } = await server.post("v1/resource/scale", { id: `scale ${at}`, room: "attic", metrics: { load: { archive_policy_name: "seconds" } } });
    await server.post(`v1/metric/${metrics.load}/measures`, [{ timestamp: begin + at, value: 10 + at * 10 }]);
    ids.push(metrics.load);
  }
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${ids[0]}&last=365d&by=room`);
  const groups = page.locator(".groups");
  await groups.getByRole("heading", { name: "10 minutes a point" }).waitFor();
  assert.deepEqual(await valuesOf(page), ["15"]);
  await close(page);
});

test("groups without a common granularity are resampled, too", async () => {
  const begin = Math.floor(Date.now() / 3_600_000) * 3600 - 86_400;
  await addPolicy(server, "seconds and hours", [["1 second", "365 days"], ["1 hour", "365 days"]]);
  await addPolicy(server, "minutes", [["1 minute", "365 days"]]);
  await addType("valve", "room");
  const measures = { attic: [[0, 10], [1, 20], [7200, 40]], cellar: [[0, 30]], loft: [[0, 5], [1200, 9]] };
  const made = [];
  for (const [room, policy] of [["attic", "seconds and hours"], ["cellar", "minutes"], ["loft", "seconds and hours"]]) {
    made.push(await server.post("v1/resource/valve", { id: `valve ${room}`, room, metrics: { flow: { archive_policy_name: policy } } }));
    await server.post(`v1/metric/${made.at(-1).metrics.flow}/measures`, measures[room].map(([at, value]) => ({ timestamp: begin + at, value })));
  }
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${made[0].metrics.flow}&last=365d&by=room`, { mayFail: true });
  const groups = page.locator(".groups");
  await groups.getByRole("button", { name: "cellar" }).waitFor();
  const rows = (await saved(page, "CSV")).trim().split("\r\n");
  const time = (at) => new Date((begin + at) * 1000).toISOString();
  assert.deepEqual(rows, ["time,attic,cellar,loft", `${time(0)},15,30,5`, `${time(1200)},,,9`, `${time(7200)},40,,`]);
  // The only hour of the last one begins where its seconds do.
  assert.deepEqual(JSON.parse(await saved(page, "JSON")).map(({ measures }) => measures.length), [2, 1, 2]);
  await close(page);
});

test("a second without a rate of any counter does not empty its resampled bucket", async () => {
  const begin = Math.floor(Date.now() / 600_000) * 600 - 86_400;
  await addPolicy(server, "counted seconds", [["1 second", "365 days"]]);
  await addType("meter", "room");
  const ids = [];
  for (const points of [[[0, 0], [1, 10], [2, 20]], [[3, 0], [4, 40]]]) {
    const { metrics } = await server.post("v1/resource/meter", { id: `meter ${ids.length}`, room: "attic", metrics: { energy: { archive_policy_name: "counted seconds" } } });
    await server.post(`v1/metric/${metrics.energy}/measures`, points.map(([at, value]) => ({ timestamp: begin + at, value })));
    ids.push(metrics.energy);
  }
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${ids[0]}&last=365d&by=room&rate=on`);
  await page.locator(".groups").getByRole("heading", { name: "10 minutes a point" }).waitFor();
  await waitValues(page, "20");
  assert.equal((await valuesOf(page)).length, 1);
  await close(page);
});

test("counters that are polled at different seconds have a rate as a group", async () => {
  const begin = Math.floor(Date.now() / 60_000) * 60 - 600;
  await addPolicy(server, "polled seconds", [["1 second", "1 day"]]);
  await addType("switch", "room");
  const made = [];
  for (const [second, rate] of [[0, 10], [5, 30]]) {
    const { metrics } = await server.post("v1/resource/switch", { id: `switch ${second}`, room: "attic", metrics: { octets: { archive_policy_name: "polled seconds", unit: "B" } } });
    const measures = Array.from({ length: 30 }, (_, at) => ({ timestamp: begin + second + at * 10, value: at * 10 * rate }));
    await server.post(`v1/metric/${metrics.octets}/measures`, measures);
    made.push(metrics.octets);
  }
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${made[0]}&from=${begin - 60}&to=${begin + 360}&by=room`);
  await page.locator(".groups").getByRole("heading", { name: "10 seconds a point" }).waitFor();
  await waitValues(page, "20");
  assert.equal((await valuesOf(page)).length, 29);
  await close(page);
});

test("a counter without a point in between does not change the rate of its group", async () => {
  const now = Math.floor(Date.now() / 60_000) * 60;
  await addType("port", "zone");
  const bodies = {};
  const made = [];
  for (const [number, start] of [1_000_000_000, 0].entries()) {
    made.push(await server.post("v1/resource/port", { id: `port ${number}`, zone: "north", metrics: { octets: { archive_policy_name: "cloud", unit: "B" } } }));
    const minutes = Array.from({ length: 20 }, (_, at) => at).filter((at) => number === 0 || at !== 10);
    bodies[made[number].metrics.octets] = minutes.map((at) => ({ timestamp: now - (20 - at) * 60, value: start + at * 600 }));
  }
  await server.post("v1/batch/metrics/measures", bodies);
  await folded(server);
  const page = await open(browser, `${server.url}#/chart?m=${made[0].metrics.octets}&last=1h&by=zone&gran=60`);
  await page.locator(".groups").getByRole("button", { name: "north" }).waitFor();
  await waitValues(page, "10");
  assert.equal((await valuesOf(page)).length, 19);
  await close(page);
});
