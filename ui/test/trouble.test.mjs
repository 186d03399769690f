// Failures while the page is open: reported in context, without losing typed text.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { TIMEOUT_MS, close, open, picture, waitDrawn } from "./support/browser.mjs";
import { fillCloud } from "./support/data.mjs";
import { start } from "./support/start.mjs";

const { server, browser, cloud } = await start({}, (server) => fillCloud(server, { days: 1, instances: 3 }));

/** Parts of addresses: the last hour, not live, and ten minutes of it marked. */
const hour = () => {
  const now = Math.floor(Date.now() / 1000);
  return { range: `from=${now - 3600}&to=${now}`, mark: `mark=${now - 1200},${now - 600}` };
};

beforeEach(async () => {
  if (server.process.exitCode !== null) await server.start(); // A failed test may have stopped it.
});

test("a server that goes away is named, and the page goes on once it is back", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=1h`, { mayFail: true });
  await waitDrawn(page, 3);
  const value = await page.locator(".card .value").first().textContent();
  await server.stop();
  await page.getByText(/The server has not answered since \d{4}-\d\d-\d\d \d\d:/).waitFor(); // It may be away for days.
  assert.equal(await page.locator(".card .value").first().textContent(), value, "what was there stays");
  await waitDrawn(page, 9);
  await picture(page, "server-gone");
  await server.start();
  await page.getByText(/The server has not answered since/).waitFor({ state: "detached" });
  assert.equal(page.requests.filter((url) => /sort=name/.test(url)).length, 1, "the list stays as far as it was loaded");
  // Also if nothing on the page sends requests.
  await page.goto(`${server.url}#/metrics?${hour().range}`);
  await waitDrawn(page, 3);
  await server.stop();
  await page.keyboard.press("ArrowLeft");
  await page.locator(".card .problem").first().waitFor();
  await server.start();
  await page.waitForFunction(() => document.querySelectorAll(".card .problem").length === 0);
  await waitDrawn(page, 3);
  await close(page);
});

test("a view that is opened while the server is away is filled once it is back", async () => {
  const page = await open(browser, `${server.url}#/query?last=1h`, { mayFail: true });
  await page.getByLabel("Operations").waitFor();
  const views = [
    [`chart?m=${cloud[0].metrics["cpu_util"]}&last=1h`, () => waitDrawn(page)],
    ["resources/instance?last=1h", () => page.getByRole("link", { name: "web 0" }).waitFor()],
    [`resources/instance/${cloud[0].id}?last=1h`, () => waitDrawn(page, 3)],
    [`metrics?last=1h&q=cpu_util&${hour().mark}`, () => page.getByText(/metrics? of 3 did/).waitFor()],
    [`query?${hour().range}&type=instance&op=(aggregate+mean+(metric+cpu_util+mean))`, () => page.locator(".cost", { hasText: /1.series/ }).waitFor()],
  ];
  for (const [view, isFilled] of views) {
    await server.stop();
    await page.goto(`${server.url}#/${view}`);
    await page.getByRole("alert").getByText("The server does not answer.").first().waitFor();
    await server.start();
    await isFilled();
    await page.getByRole("alert").first().waitFor({ state: "detached" });
  }
  await close(page);
});

test("the page waits for the server behind a proxy, too", async () => {
  const page = await open(browser, `${server.url}#/query?last=1h`, { mayFail: true });
  let isAway = true;
  const answer = { status: 503, contentType: "text/html", body: "<h1>503 Service Unavailable</h1>" };
  await page.route(/\/(v1\/|healthcheck)/, (route) => (isAway ? route.fulfill(answer) : route.continue()));
  await page.goto(`${server.url}#/metrics?${hour().range}&q=cpu_util`);
  await page.getByText(/The server has not answered since/).waitFor();
  isAway = false;
  await waitDrawn(page, 3);
  await page.getByText(/The server has not answered since/).waitFor({ state: "detached" });
  await close(page);
});

test("a proxy that limits rates is asked again, and the server is not said to be away", async () => {
  const page = await open(browser, `${server.url}#/resources?last=1h`, { mayFail: true });
  let refused = 0;
  const answer = { status: 503, contentType: "text/html", body: "<h1>503 Service Temporarily Unavailable</h1>" };
  await page.route(/\/v1\/aggregates/, (route) => ((refused += 1) === 1 ? route.fulfill(answer) : route.continue()));
  await page.evaluate(() => {
    window.sawGone = false;
    new MutationObserver(() => (window.sawGone ||= /has not answered since/.test(document.body.textContent))).observe(document.body, { childList: true, subtree: true });
  });
  await page.goto(`${server.url}#/metrics?${hour().range}&q=disk.read&band=none`);
  await waitDrawn(page, 3);
  assert.deepEqual([await page.evaluate(() => window.sawGone), await page.locator(".card .problem").count()], [false, 0]);
  await close(page);
});

test("a query that cannot be sent keeps its text", async () => {
  const page = await open(browser, `${server.url}#/query?last=1h`, { mayFail: true });
  await page.getByLabel("Operations").fill(`(metric ${cloud[0].metrics["cpu_util"]} mean)`);
  await server.stop();
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("alert").getByText("The server does not answer.").waitFor();
  await server.start();
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".cost").waitFor();
  await close(page);
});

test("an id that cannot be looked up is not said to be unknown", async () => {
  const page = await open(browser, `${server.url}#/query?last=1h`, { mayFail: true });
  const box = page.getByRole("combobox", { name: /Search/ });
  const hits = page.getByRole("listbox", { name: "What was found" });
  await server.stop();
  await box.fill(cloud[0].metrics["cpu_util"]);
  await hits.getByText("The server does not answer.").waitFor();
  await page.waitForTimeout(300);
  await hits.getByText("The server does not answer.").waitFor();
  await server.start();
  await box.fill("01a21682-48c4-78e0-8ec9-a8d2db9d226d");
  await hits.getByText("Nothing found").waitFor();
  await close(page);
});

test("a kind that cannot be searched is said below the hits of the others", async () => {
  const page = await open(browser, `${server.url}#/query?last=1h`, { mayFail: true });
  await refuse(page, /\/v1\/search\/resource\/instance/);
  await page.getByRole("combobox", { name: /Search/ }).fill("cpu_util");
  const hits = page.getByRole("listbox", { name: "What was found" });
  await hits.getByText("busy").waitFor();
  await hits.locator(".hit.metric", { hasText: "cpu_util" }).first().waitFor();
  await close(page);
});

test("a metric that is gone, or an address of nothing, is said in its place", async () => {
  const gone = "01a21682-48c4-78e0-8ec9-a8d2db9d226d";
  const page = await open(browser, `${server.url}#/chart?m=${gone}&m=${cloud[0].metrics["cpu_util"]}&last=1h`, { mayFail: true });
  await page.getByText(`Metric ${gone} does not exist`).waitFor();
  await waitDrawn(page, 1);
  await page.goto(`${server.url}#/nowhere`);
  await page.getByText("There is no view “nowhere”.").waitFor();
  await page.goto(`${server.url}#/constructor`);
  await page.getByText("There is no view “constructor”.").waitFor();
  await page.goto(`${server.url}#/resources/instance/nobody`);
  await page.getByText(/Resource .* does not exist|nobody/).first().waitFor();
  await page.goto(`${server.url}#/chart?m=%E0%A4%A&last=-5h&from=x&to=y&gran=abc&mark=1,,&beside=7q`);
  await page.getByRole("alert").first().waitFor();
  await page.goto(`${server.url}#/chart?m=&last=1h`);
  await page.getByText("The address names no metric.").waitFor();
  // As the view Query writes it.
  await page.goto(`${server.url}#/chart?m=${cloud[0].metrics["cpu_util"]}&last=1h&gran=5m`);
  await page.getByText("mean, 5 minutes a point").waitFor();
  // Nanoseconds are no seconds.
  await page.goto(`${server.url}#/metrics?from=1767225600000000000&to=1767225600000003600`);
  await waitDrawn(page, 3);
  await close(page);
});

/** Answers requests whose URL matches with 503 as long as the result says so. */
async function refuse(page, pattern) {
  const state = { isOn: true };
  const body = '{"code": 503, "title": "Service Unavailable", "description": "busy"}';
  await page.route(pattern, (route) => (state.isOn ? route.fulfill({ status: 503, contentType: "application/json", body }) : route.continue()));
  return state;
}

test("a list that is refused is asked for again without a new log-in", async () => {
  for (let number = 0; number < 110; number++) await server.post("v1/metric", { name: `more.${String(number).padStart(3, "0")}`, archive_policy_name: "cloud" });
  const page = await open(browser, `${server.url}#/metrics?last=1h&q=more.`, { mayFail: true });
  await page.locator(".title", { hasText: "100 metrics and more" }).waitFor();
  const refused = await refuse(page, /\/v1\/metric\?.*marker=/);
  const scroll = (isDown) => page.evaluate((isDown) => window.scrollTo(0, isDown ? document.documentElement.scrollHeight : 0), isDown);
  await scroll(true);
  await page.getByRole("alert").getByText("busy").waitFor();
  refused.isOn = false;
  await scroll(false);
  await page.waitForTimeout(300);
  await scroll(true);
  await page.locator(".title", { hasText: "110 metrics" }).waitFor();
  const all = await refuse(page, /\/v1\/metric\?/);
  await page.evaluate(() => (window.isSamePage = true));
  await page.goto(`${server.url}#/metrics?last=1h&q=cpu_util`);
  await page.getByRole("alert").getByText("busy").waitFor();
  all.isOn = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator(".title", { hasText: "3 metrics" }).waitFor();
  assert.equal(await page.evaluate(() => window.isSamePage), true);
  await close(page);
});

test("a type whose resources cannot be read does not show those of another", async () => {
  const page = await open(browser, `${server.url}#/resources/instance?last=1h`, { mayFail: true });
  await page.getByRole("link", { name: "web 0" }).waitFor();
  await refuse(page, /\/v1\/search\/resource\/generic/);
  await page.getByRole("navigation", { name: "Resource types" }).getByRole("link", { name: /^generic/ }).click();
  await page.getByRole("alert").getByText("busy").waitFor();
  assert.equal(await page.getByRole("link", { name: "web 0" }).count(), 0);
  await close(page);
});

test("resources that are refused are asked for again", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=1h&q=cpu_util`, { mayFail: true });
  const refused = await refuse(page, /\/v1\/search\/resource\/instance/);
  await page.goto(`${server.url}#/resources/instance?last=1h`);
  await page.getByRole("alert").getByText("busy").waitFor();
  refused.isOn = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("link", { name: "web 0" }).waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await close(page);
});

test("an error of the comparison with the past goes with the comparison", async () => {
  const page = await open(browser, `${server.url}#/chart?m=${cloud[0].metrics["cpu_util"]}&last=1h`, { mayFail: true });
  await waitDrawn(page);
  const refused = await refuse(page, /\/v1\/aggregates/);
  await page.getByLabel("Beside").selectOption("1d");
  await page.getByRole("alert").getByText("busy").waitFor();
  refused.isOn = false;
  await page.getByLabel("Beside").selectOption("");
  await page.getByRole("alert").waitFor({ state: "detached" });
  await close(page);
});

test("metrics that cannot be compared are counted", async () => {
  const page = await open(browser, `${server.url}#/resources?last=1h`, { mayFail: true });
  await refuse(page, /\/v1\/aggregates/);
  await page.goto(`${server.url}#/metrics?last=1h&q=cpu_util&${hour().mark}`);
  await page.getByRole("alert").getByText(/3.metrics could not be read: busy/).waitFor();
  await page.getByText("0 metrics of 0 did.").waitFor();
  await close(page);
});

test("a time before or after the server's own asks it for none that it refuses", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=9000w&q=cpu_util`);
  await page.locator(".card .value", { hasText: "%" }).nth(2).waitFor();
  await page.goto(`${server.url}#/metrics?last=1h&q=cpu_util&mark=-8e12,8e12`);
  await page.getByText(/metrics? of 3 did/).waitFor();
  await page.goto(`${server.url}#/query?lang=promql&expr=nothing_of_this_name&from=-8e12&to=8e12`);
  await page.locator(".cost", { hasText: "0 series" }).waitFor();
  // Nor does it leave JavaScript's own.
  await page.goto(`${server.url}#/query?from=8639999999900&to=8640000000000`);
  await page.getByRole("button", { name: "Zoom out" }).click();
  await page.waitForFunction(() => location.hash.includes("from=%2B275760-09-12T23:56:40Z"));
  await close(page);
});

test("a metric deleted while it is looked at leaves its neighbours as they are", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=1h&q=cpu_util`, { mayFail: true });
  await waitDrawn(page, 3);
  await server.request("DELETE", `v1/metric/${cloud[2].metrics["cpu_util"]}`);
  await page.locator(".card .problem").waitFor();
  assert.equal(await page.locator(".card .problem").count(), 1);
  await close(page);
});

test("a request that a limit refuses is not repeated for each metric", async () => {
  const page = await open(browser, `${server.url}#/resources?last=1h`, { mayFail: true });
  let requests = 0;
  await page.route(/\/v1\/aggregates/, (route) => {
    requests += 1;
    return route.fulfill({ status: 429, contentType: "application/json", body: '{"code": 429, "title": "Too Many Requests", "description": "slower"}' });
  });
  await page.goto(`${server.url}#/metrics?${hour().range}&q=disk.read`);
  await page.locator(".card .problem", { hasText: "slower" }).nth(2).waitFor();
  await page.waitForTimeout(300);
  assert.equal(requests, 1);
  await close(page);
});

/** Counts requests for the finest points, and answers those with this status for which this returns a description. */
async function countPoints(page, status, refusalOf) {
  const seen = { requests: 0 };
  await page.route(/\/v1\/aggregates.*granularity=60&/, (route) => {
    seen.requests += 1;
    const description = refusalOf(route.request().postData());
    if (!description) return route.continue();
    return route.fulfill({ status, contentType: "application/json", body: JSON.stringify({ code: status, title: "Refused", description }) });
  });
  return seen;
}

test("a busy server is asked again for the same batch, later", async () => {
  const page = await open(browser, `${server.url}#/resources?last=1h`, { mayFail: true });
  let isBusy = true;
  const seen = await countPoints(page, 503, () => isBusy && !(isBusy = false) && "too many large queries are running");
  await page.goto(`${server.url}#/metrics?${hour().range}&q=disk.read&band=none`);
  await waitDrawn(page, 3);
  assert.deepEqual([seen.requests, await page.locator(".card .problem").count()], [2, 0]);
  await close(page);
});

test("of a batch with a damaged metric only that one is missing", async () => {
  const damaged = cloud[1].metrics["disk.read.bytes"];
  const page = await open(browser, `${server.url}#/resources?last=1h`, { mayFail: true });
  const seen = await countPoints(page, 500, (body) => body.includes(damaged) && `metric ${damaged}: its newest state is damaged`);
  await page.goto(`${server.url}#/metrics?${hour().range}&q=disk.read&band=none`);
  await waitDrawn(page, 2);
  await page.locator(`[data-metric="${damaged}"] .problem`, { hasText: "its newest state is damaged" }).waitFor();
  assert.deepEqual([seen.requests, await page.locator(".card .problem").count()], [2, 1]);
  await close(page);
});

test("a live view does not ask for a damaged metric at each update", async () => {
  const damaged = cloud[1].metrics["disk.read.bytes"];
  const page = await open(browser, `${server.url}#/resources?last=1h`, { mayFail: true });
  let refused = 0;
  const seen = await countPoints(page, 500, (body) => body.includes(damaged) && (refused += 1) && `metric ${damaged}: its newest state is damaged`);
  await page.goto(`${server.url}#/metrics?last=1h&q=disk.read&band=none`);
  await waitDrawn(page, 2);
  const before = seen.requests;
  for (const until = Date.now() + TIMEOUT_MS; seen.requests < before + 2 && Date.now() < until; ) await page.waitForTimeout(100);
  assert.ok(seen.requests >= before + 2, `${seen.requests} requests`);
  assert.deepEqual([refused, await page.locator(".card .problem").count()], [1, 1]);
  await close(page);
});

test("groups say why they cannot be shown", async () => {
  const page = await open(browser, `${server.url}#/resources/instance?last=1h`, { mayFail: true });
  await refuse(page, /\/v1\/search\/resource\/generic/);
  await page.goto(`${server.url}#/chart?m=${cloud[0].metrics["cpu_util"]}&last=1h&by=zone`);
  await page.locator(".groups").getByRole("alert").getByText("busy").waitFor();
  const { id } = await server.post("v1/metric", { name: "of.nothing", archive_policy_name: "cloud" });
  await page.goto(`${server.url}#/chart?m=${id}&last=1h&by=zone`);
  await page.locator(".groups").getByText("The metric belongs to no resource.").waitFor();
  await close(page);
});
