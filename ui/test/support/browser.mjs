// A real browser: Debian's chromium, driven by its own protocol.

import { accessSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** How long a test waits for what should happen: only a failure takes so long. */
export const TIMEOUT_MS = 60_000;

/** Screenshots of the tests, for inspection. */
const PICTURES = new URL("../../../target/page/", import.meta.url).pathname;

function executable() {
  const found = [process.env.CHROMIUM, ...CHROMIUM].find((path) => {
    try {
      accessSync(path);
      return true;
    } catch {
      return false;
    }
  });
  if (!found) throw new Error("missing: chromium (Debian's name)");
  return found;
}

/** Chromium's own sandbox does not work as root. */
export const launch = () => chromium.launch({ executablePath: executable(), args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });

/** A page that fails the test on any error, blocked script or request to another origin. */
export async function open(browser, url, options = {}) {
  const { width = 1280, height = 800, scheme = "light", mayFail = false, permissions = [], motion = "reduce", zone = "UTC" } = options;
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: scheme, timezoneId: zone, reducedMotion: motion, permissions, acceptDownloads: true,
  });
  const page = await context.newPage();
  page.problems = [];
  page.requests = [];
  page.on("pageerror", (error) => page.problems.push(`${error.message}\n${error.stack}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !(mayFail && /Failed to load resource/.test(message.text()))) page.problems.push(message.text());
  });
  const origins = [new URL(url).origin, ...(options.origins ?? [])];
  page.on("request", (request) => {
    page.requests.push(request.url());
    const { origin, protocol } = new URL(request.url());
    if (!origins.includes(origin) && protocol !== "blob:") page.problems.push(`a request to ${request.url()}`);
  });
  page.setDefaultTimeout(TIMEOUT_MS);
  if (process.env.GNUDI_PAGE) await serveFrom(process.env.GNUDI_PAGE, context);
  await page.goto(url);
  return page;
}

/** Serves the page's files from a folder instead of the binary: for work on it without compiling. */
async function serveFrom(folder, context) {
  const types = { js: "text/javascript", css: "text/css", svg: "image/svg+xml", txt: "text/plain" };
  await context.route(/\/page\/[\w.-]+$/, (route) => {
    const name = new URL(route.request().url()).pathname.split("/").pop();
    return route.fulfill({ body: readFileSync(join(folder, name)), contentType: types[name.split(".").pop()] });
  });
  await context.route((url) => /^\/([\w-]+\/)?$/.test(url.pathname), async (route) => {
    if (!/text\/html/.test(route.request().headers().accept ?? "")) return route.continue();
    const original = await route.fetch();
    const settings = /name="gnudi" content="([^"]*)"/.exec(await original.text())?.[1] ?? "";
    return route.fulfill({ response: original, body: readFileSync(join(folder, "index.html"), "utf8").replace("@SETTINGS@", () => settings) });
  });
}

export async function close(page) {
  const { problems } = page;
  await page.context().close();
  if (problems.length) throw new Error(`the page had problems:\n${problems.join("\n")}`);
}

export async function picture(page, name) {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

/** The number of charts with a drawn line. */
export const drawn = (page) =>
  page.evaluate(() => [...document.querySelectorAll(".plot canvas")].filter((canvas) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, Math.floor(height * 0.75));
    // Saturated pixels are lines; the grid and texts are grey.
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue, alpha] = [data[at], data[at + 1], data[at + 2], data[at + 3]];
      if (alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) return true;
    }
    return false;
  }).length);

export async function waitDrawn(page, count = 1) {
  const until = Date.now() + TIMEOUT_MS;
  while ((await drawn(page)) < count) {
    if (Date.now() > until) throw new Error(`only ${await drawn(page)} of ${count} charts are drawn`);
    await page.waitForTimeout(20);
  }
}
