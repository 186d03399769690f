// A member's view of an instance in a running cloud: logs in with a token, and looks at the resource and its metrics.
// Arguments: the server's URL, the resource's id and name, names of metrics. TOKEN is in the environment.

import assert from "node:assert/strict";
import { close, launch, open, picture, waitDrawn } from "../support/browser.mjs";

const [url, id, name, ...metrics] = process.argv.slice(2);
const browser = await launch();
try {
  const page = await open(browser, `${url}/#/resources/instance/${id}?last=1h`, { mayFail: true });
  await page.getByRole("button", { name: "By a token that I have" }).click();
  await page.getByLabel(/^Token/).fill(process.env.TOKEN);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name, exact: true }).waitFor();
  for (const metric of metrics) await page.getByText(metric, { exact: true }).first().waitFor();
  await waitDrawn(page);
  await picture(page, "cloud-instance");
  await page.goto(`${url}/#/resources/instance`);
  await page.getByRole("link", { name, exact: true }).waitFor();
  assert.equal(await page.getByRole("region", { name: "Resources" }).locator("tbody tr").count(), 1);
  await close(page);
} finally {
  await browser.close();
}
