// Log-in: by name and password, by Keystone, by a proxy; and one that expires while the page is open.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { close, launch, open, picture } from "./support/browser.mjs";
import { Keystone } from "./support/keystone.mjs";
import { Server, sleep } from "./support/server.mjs";

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

test("by name and password, kept in memory only; a wrong one loses nothing that was typed", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "gnudi-passwords-")), "passwords");
  execFileSync(BINARY, ["passwd", file, "admin"], { input: "right\nright\n" });
  await withServer({ config: `[api]\nauth_mode = basic\npassword_file = ${file}\n` }, async (server) => {
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
    await page.getByLabel("Password").fill("right");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Operations").inputValue(), "(metric)");
    assert.deepEqual(await page.evaluate(() => [document.cookie, Object.keys(localStorage), Object.keys(sessionStorage)]), ["", [], []]);
    await close(page);
  });
});

test("somebody else's log-in leaves nothing of what the first one saw", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "gnudi-passwords-")), "passwords");
  for (const user of ["admin", "bob"]) execFileSync(BINARY, ["passwd", file, user], { input: "right\nright\n" });
  await withServer({ config: `[api]\nauth_mode = basic\npassword_file = ${file}\n` }, async (server) => {
    const admin = { Authorization: `Basic ${btoa("admin:right")}` };
    const { id } = await server.request("POST", "v1/metric", { name: "of.the.admin", archive_policy_name: "low" }, admin);
    const page = await open(browser, `${server.url}#/chart?m=${id}`, { mayFail: true });
    const logIn = async (user) => {
      await page.getByLabel("User", { exact: true }).fill(user);
      await page.getByLabel("Password").fill("right");
      await page.getByRole("button", { name: "Log in" }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
    };
    await logIn("admin");
    await page.getByRole("heading", { name: "of.the.admin" }).waitFor();
    await page.getByRole("button", { name: "admin" }).click();
    await page.locator(".large").waitFor({ state: "detached" }); // Behind the dialog, too.
    await logIn("bob");
    await page.getByRole("alert").first().waitFor();
    assert.equal(await page.getByRole("heading", { name: "of.the.admin" }).count(), 0);
    await close(page);
  });
});

test("figures that arrive after logging out are not shown", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "gnudi-passwords-")), "passwords");
  execFileSync(BINARY, ["passwd", file, "admin"], { input: "right\nright\n" });
  await withServer({ config: `[api]\nauth_mode = basic\npassword_file = ${file}\n` }, async (server) => {
    const page = await open(browser, `${server.url}#/store`, { mayFail: true });
    await page.getByLabel("User", { exact: true }).fill("admin");
    await page.getByLabel("Password").fill("right");
    await page.getByRole("button", { name: "Log in" }).click();
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
  const file = join(mkdtempSync(join(tmpdir(), "gnudi-passwords-")), "passwords");
  execFileSync(BINARY, ["passwd", file, "admin"], { input: "right\nright\n" });
  await withServer({ config: `[api]\nauth_mode = basic\npassword_file = ${file}\n` }, async (server) => {
    const admin = { Authorization: `Basic ${btoa("admin:right")}` };
    for (let number = 100; number < 210; number++) await server.request("POST", "v1/metric", { name: `a.${number}`, archive_policy_name: "low" }, admin);
    const page = await open(browser, `${server.url}#/metrics?last=1h`, { mayFail: true });
    const logIn = async () => {
      await page.getByLabel("User", { exact: true }).fill("admin");
      await page.getByLabel("Password").fill("right");
      await page.getByRole("button", { name: "Log in" }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
    };
    await logIn();
    await page.locator(".title", { hasText: "100 metrics and more" }).waitFor();
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    await page.locator(".title", { hasText: "110 metrics" }).waitFor();
    await page.route(/\/v1\/aggregates/, (route) => route.fulfill({ status: 401, body: "" }), { times: 1 });
    await page.getByText("Your log-in has ended.").waitFor();
    const before = page.requests.length;
    await logIn();
    await page.waitForTimeout(500);
    const lists = page.requests.slice(before).filter((url) => /sort=name/.test(url));
    assert.deepEqual([lists, await page.locator(".title").textContent()], [[], "110 metrics"]);
    await close(page);
  });
});

test("of tokens nobody knows whose they are: the views of somebody else begin anew", async () => {
  const keystone = await new Keystone().start();
  const tokenOf = async () => {
    const body = JSON.stringify({ auth: { identity: { password: { user: { name: "alice", password: "secret" } } } } });
    return (await fetch(`${keystone.uri}/auth/tokens`, { method: "POST", body })).headers.get("x-subject-token");
  };
  try {
    await withServer({ config: keystone.config() }, async (server) => {
      const page = await open(browser, `${server.url}#/query`, { mayFail: true, origins: [keystone.origin] });
      const logIn = async () => {
        await page.getByRole("button", { name: "By a token that I have" }).click();
        await page.getByLabel(/^Token/).fill(await tokenOf());
        await page.getByRole("button", { name: "Log in" }).click();
        await page.getByRole("dialog").waitFor({ state: "detached" });
      };
      await logIn();
      await page.getByLabel("Operations").fill("(of the first");
      await page.getByRole("button", { name: "token", exact: true }).click();
      await logIn();
      await page.waitForFunction(() => document.querySelector("#operations").value === "");
      await close(page);
    });
  } finally {
    await keystone.stop();
  }
});

test("by Keystone; when the token ends the page asks again, and goes on where it was", async () => {
  const keystone = await new Keystone().start();
  try {
    await withServer({ config: keystone.config() }, async (server) => {
      const page = await open(browser, `${server.url}#/query`, { mayFail: true, origins: [keystone.origin] });
      const logIn = async () => {
        await page.getByLabel("User", { exact: true }).fill("alice");
        await page.getByLabel("Password").fill("secret");
        await page.getByLabel("Project", { exact: true }).fill("demo");
        await page.getByRole("button", { name: "Log in" }).click();
        await page.getByRole("dialog").waitFor({ state: "detached" }).catch(async () => assert.fail(await page.getByRole("dialog").innerText()));
      };
      await page.getByLabel("Keystone").waitFor();
      assert.equal(await page.getByLabel("Keystone").inputValue(), keystone.uri);
      await picture(page, "login-keystone");
      keystone.lifetimeMs = 8_000;
      await logIn();
      await page.getByRole("button", { name: "alice, demo" }).waitFor();
      await page.getByLabel("Operations").fill("(half typed");
      await sleep(8_500);
      keystone.lifetimeMs = 3_600_000;
      await page.getByRole("combobox", { name: /Search/ }).fill("cpu");
      await page.getByText("Your log-in has ended.").waitFor();
      await picture(page, "login-ended");
      await logIn();
      assert.equal(await page.getByLabel("Operations").inputValue(), "(half typed");
      assert.equal(keystone.issued, 2);
      await close(page);
    });
  } finally {
    await keystone.stop();
  }
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
