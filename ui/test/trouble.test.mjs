// Failures while the page is open: reported in context, without losing typed text.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { close, open, picture, waitDrawn } from "./support/browser.mjs";
import { fillCloud } from "./support/data.mjs";
import { start } from "./support/start.mjs";

const { server, browser, cloud } = await start({}, (server) => fillCloud(server, { days: 1, instances: 3 }));

beforeEach(async () => {
  if (server.process.exitCode !== null) await server.start(); // A failed test may have stopped it.
});

test("a server that goes away is named, and the page goes on once it is back", async () => {
  const page = await open(browser, `${server.url}#/metrics?last=1h`, { mayFail: true });
  await waitDrawn(page, 3);
  const value = await page.locator(".card .value").first().textContent();
  await server.stop();
  await page.getByText(/The server has not answered since/).waitFor({ timeout: 15_000 });
  assert.equal(await page.locator(".card .value").first().textContent(), value, "what was there stays");
  await waitDrawn(page, 9);
  await picture(page, "server-gone");
  await server.start();
  await page.getByText(/The server has not answered since/).waitFor({ state: "detached", timeout: 15_000 });
  // Also if nothing on the page sends requests.
  const now = Math.floor(Date.now() / 1000);
  await page.goto(`${server.url}#/metrics?from=${now - 3600}&to=${now}`);
  await waitDrawn(page, 3);
  await server.stop();
  await page.keyboard.press("ArrowLeft");
  await page.locator(".card .problem").first().waitFor({ timeout: 15_000 });
  await server.start();
  await page.waitForFunction(() => document.querySelectorAll(".card .problem").length === 0, null, { timeout: 15_000 });
  await waitDrawn(page, 3);
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

test("a metric that is gone, or an address of nothing, is said in its place", async () => {
  const gone = "01a21682-48c4-78e0-8ec9-a8d2db9d226d";
  const page = await open(browser, `${server.url}#/chart?m=${gone}&m=${cloud[0].metrics["cpu_util"]}&last=1h`, { mayFail: true });
  await page.getByText(`Metric ${gone} does not exist`).waitFor();
  await waitDrawn(page, 1);
  await page.goto(`${server.url}#/nowhere`);
  await page.getByText("There is no view “nowhere”.").waitFor();
  await page.goto(`${server.url}#/resources/instance/nobody`);
  await page.getByText(/Resource .* does not exist|nobody/).first().waitFor();
  await page.goto(`${server.url}#/chart?m=%E0%A4%A&last=-5h&from=x&to=y&gran=abc&mark=1,,&beside=7q`);
  await page.getByRole("alert").first().waitFor();
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
