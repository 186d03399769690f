// Log-in: by name and password, by Keystone, by a proxy; and one that expires while the page is open.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { close, launch, open, picture } from "./support/browser.mjs";
import { Keystone } from "./support/keystone.mjs";
import { Server } from "./support/server.mjs";

const BINARY = resolve(process.env.GNUDI_BIN ?? new URL("../../target/debug/gnudi", import.meta.url).pathname);

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

async function withServer(options, work) {
  const server = await new Server(options).start();
  try {
    await work(server);
  } finally {
    await server.remove();
  }
}

/** A server at which these users log in by the password `right`. */
function withPasswords(users, work) {
  const file = join(mkdtempSync(join(tmpdir(), "gnudi-passwords-")), "passwords");
  for (const user of users) execFileSync(BINARY, ["passwd", file, user], { input: "right\nright\n" });
  return withServer({ config: `[api]\nauth_mode = basic\npassword_file = ${file}\n` }, work);
}

async function withKeystone(work) {
  const keystone = await new Keystone().start();
  try {
    await withServer({ config: keystone.config() }, (server) => work(server, keystone));
  } finally {
    await keystone.stop();
  }
}

/** Fills in the fields of the dialog, and waits until it is closed. */
async function logIn(page, fields) {
  for (const [label, text] of fields) await page.getByLabel(label, { exact: true }).fill(text);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" }).catch(async () => assert.fail(await page.getByRole("dialog").innerText()));
}

const logInAs = (page, user) => logIn(page, [["User", user], ["Password", "right"]]);

test("by name and password, kept in memory only; a wrong one loses nothing that was typed", async () => {
  await withPasswords(["admin"], async (server) => {
    const page = await open(browser, `${server.url}#/query?op=(metric)`, { mayFail: true });
    await page.getByRole("dialog").waitFor();
    await picture(page, "login-basic");
    await page.getByLabel("User", { exact: true }).fill("admin");
    // A browser lets the page prevent the first one only.
    for (let time = 0; time < 3; time++) await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor();
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").waitFor();
    assert.equal(await page.getByLabel("User", { exact: true }).inputValue(), "admin");
    await logIn(page, [["Password", "right"]]);
    assert.equal(await page.getByLabel("Operations").inputValue(), "(metric)");
    assert.deepEqual(await page.evaluate(() => [document.cookie, Object.keys(localStorage), Object.keys(sessionStorage)]), ["", [], []]);
    await close(page);
  });
});

test("somebody else's log-in leaves nothing of what the first one saw", async () => {
  await withPasswords(["admin", "bob"], async (server) => {
    const admin = { Authorization: `Basic ${btoa("admin:right")}` };
    const { id } = await server.request("POST", "v1/metric", { name: "of.the.admin", archive_policy_name: "low" }, admin);
    const page = await open(browser, `${server.url}#/chart?m=${id}`, { mayFail: true });
    await logInAs(page, "admin");
    await page.getByRole("heading", { name: "of.the.admin" }).waitFor();
    await page.getByRole("button", { name: "admin" }).click();
    await page.locator(".large").waitFor({ state: "detached" }); // Behind the dialog, too.
    await logInAs(page, "bob");
    await page.getByRole("alert").first().waitFor();
    assert.equal(await page.getByRole("heading", { name: "of.the.admin" }).count(), 0);
    await close(page);
  });
});

test("figures that arrive after logging out are not shown", async () => {
  await withPasswords(["admin"], async (server) => {
    const page = await open(browser, `${server.url}#/store`, { mayFail: true });
    await logInAs(page, "admin");
    const health = (text) => page.locator(".health h1", { hasText: text });
    await health("All is well").waitFor();
    const held = new Promise((resolve) => void page.route(/\/debug\/cluster/, resolve, { times: 1 }));
    const route = await held;
    await page.getByRole("button", { name: "admin" }).click();
    await health("The store").waitFor();
    const arrived = page.waitForResponse(/\/debug\/cluster/);
    await route.continue();
    await arrived;
    await page.waitForTimeout(200);
    assert.equal(await health("All is well").count(), 0);
    await close(page);
  });
});

test("a list stays as it is when the log-in ends", async () => {
  await withPasswords(["admin"], async (server) => {
    const admin = { Authorization: `Basic ${btoa("admin:right")}` };
    for (let number = 100; number < 210; number++) await server.request("POST", "v1/metric", { name: `a.${number}`, archive_policy_name: "low" }, admin);
    const page = await open(browser, `${server.url}#/metrics?last=1h`, { mayFail: true });
    await logInAs(page, "admin");
    await page.locator(".title", { hasText: "100 metrics and more" }).waitFor();
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    await page.locator(".title", { hasText: "110 metrics" }).waitFor();
    await page.route(/\/v1\/aggregates/, (route) => route.fulfill({ status: 401, body: "" }), { times: 1 });
    await page.getByText("Your log-in has ended.").waitFor();
    const before = page.requests.length;
    await logInAs(page, "admin");
    await page.waitForTimeout(500);
    const lists = page.requests.slice(before).filter((url) => /sort=name/.test(url));
    assert.deepEqual([lists, await page.locator(".title").textContent()], [[], "110 metrics"]);
    await close(page);
  });
});

test("of tokens nobody knows whose they are: the views of somebody else begin anew", async () => {
  await withKeystone(async (server, keystone) => {
    const logInByToken = async () => {
      const body = JSON.stringify({ auth: { identity: { password: { user: { name: "alice", password: "secret" } } } } });
      const token = (await fetch(`${keystone.uri}/auth/tokens`, { method: "POST", body })).headers.get("x-subject-token");
      await page.getByRole("button", { name: "By a token that I have" }).click();
      await logIn(page, [["Token (openstack token issue -f value -c id)", token]]);
    };
    const page = await open(browser, `${server.url}#/query`, { mayFail: true, origins: [keystone.origin] });
    await logInByToken();
    await page.getByLabel("Operations").fill("(of the first");
    await page.getByRole("button", { name: "token", exact: true }).click();
    await logInByToken();
    await page.waitForFunction(() => document.querySelector("#operations").value === "");
    await close(page);
  });
});

test("by Keystone; when the token ends the page asks again, and goes on where it was", async () => {
  await withKeystone(async (server, keystone) => {
    const page = await open(browser, `${server.url}#/query`, { mayFail: true, origins: [keystone.origin] });
    const fields = [["User", "alice"], ["Password", "secret"], ["Project", "demo"]];
    await page.getByLabel("Keystone").waitFor();
    assert.equal(await page.getByLabel("Keystone").inputValue(), keystone.uri);
    await picture(page, "login-keystone");
    await logIn(page, fields);
    await page.getByRole("button", { name: "alice, demo" }).waitFor();
    await page.getByLabel("Operations").fill("(half typed");
    keystone.endTokens();
    await page.getByRole("combobox", { name: /Search/ }).fill("cpu");
    await page.getByText("Your log-in has ended.").waitFor();
    await picture(page, "login-ended");
    await logIn(page, fields);
    assert.equal(await page.getByLabel("Operations").inputValue(), "(half typed");
    assert.equal(keystone.issued, 2);
    await close(page);
  });
});

test("behind a proxy that names the user there is nothing to type", async () => {
  await withServer({ config: "[api]\nauth_mode = remoteuser\nremoteuser_proxies = 127.0.0.1\n" }, async (server) => {
    const page = await open(browser, server.url, { mayFail: true });
    await page.getByText("has named none for you").waitFor();
    await close(page);
    const context = await browser.newContext({ extraHTTPHeaders: { "X-Remote-User": "admin" } });
    const named = await context.newPage();
    await named.goto(server.url);
    await named.getByRole("heading", { name: "No metrics yet" }).waitFor();
    assert.equal(await named.getByRole("dialog").count(), 0);
    await context.close();
  });
});
