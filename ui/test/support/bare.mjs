// Charts without the page around them, from memory: the baseline of the browser and uPlot for the same lines.

import http from "node:http";
import { build } from "esbuild";

const SCRIPT = `
import uPlot from "uplot";
const count = Number(new URLSearchParams(location.search).get("charts"));
const now = Math.floor(Date.now() / 60000) * 60;
const times = Array.from({ length: 1440 }, (_, at) => now - (1439 - at) * 60);
for (let number = 0; number < count; number++) {
  const place = document.body.appendChild(document.createElement("div"));
  place.style.cssText = "position:absolute;left:" + (number % 5) * 300 + "px;top:" + Math.floor(number / 5) * 190 + "px";
  const values = times.map((_, at) => Math.sin(at / 40 + number) * 10 + (at % 7));
  const series = [{}, { stroke: "#0f766e", width: 1.5, points: { show: false } }];
  new uPlot({ width: 282, height: 122, legend: { show: false }, cursor: { show: false }, series }, [times, values], place);
}`;
const HTML = '<!doctype html><html lang="en"><meta charset="utf-8"><title>bare</title><link rel="icon" href="data:,"><body><script type="module" src="bare.js"></script>';

/** Serves a page with as many charts as its URL says (`?charts=100`). */
export async function bareCharts() {
  const ui = new URL("../..", import.meta.url).pathname;
  const { outputFiles } = await build({ stdin: { contents: SCRIPT, resolveDir: ui }, bundle: true, minify: true, write: false, format: "esm", logLevel: "error" });
  const server = http.createServer((request, response) => {
    const isScript = request.url?.endsWith(".js");
    response.writeHead(200, { "Content-Type": isScript ? "text/javascript" : "text/html" }).end(isScript ? outputFiles[0].contents : HTML);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}
