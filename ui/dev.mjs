// Development server: builds `ui/` anew at each load, and proxies a running gnudi.
//
//     node ui/dev.mjs http://127.0.0.1:8041

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, existsSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const server = new URL(process.argv[2] ?? "http://127.0.0.1:8041");
const dist = mkdtempSync(join(tmpdir(), "gnudi-ui-"));
const TYPES = { js: "text/javascript", css: "text/css", svg: "image/svg+xml", txt: "text/plain" };

http
  .createServer(async (request, response) => {
    const wantsPage = request.url === "/" && /text\/html/.test(request.headers.accept ?? "");
    const file = /^\/page\/([\w.-]+)$/.exec(request.url ?? "")?.[1];
    if (wantsPage) {
      try {
        execFileSync(process.execPath, [join(here, "build.mjs"), dist], { stdio: ["ignore", "ignore", "inherit"] });
      } catch {
        return response.writeHead(500).end("esbuild refuses it: see the terminal");
      }
      const original = await fetch(server, { headers: { accept: "text/html" } }).catch(() => null);
      if (!original) return response.writeHead(502).end(`${server} does not answer`);
      const settings = /name="gnudi" content="([^"]*)"/.exec(await original.text())?.[1] ?? "";
      const index = readFileSync(join(dist, "index.html"), "utf8").replace("@SETTINGS@", () => settings);
      const policy = original.headers.get("content-security-policy") ?? "";
      return response.writeHead(200, { "content-type": "text/html", "content-security-policy": policy }).end(index);
    }
    if (file && existsSync(join(dist, file))) {
      return response.writeHead(200, { "content-type": TYPES[file.split(".").pop()] }).end(readFileSync(join(dist, file)));
    }
    const onward = http.request(new URL(request.url, server), { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  })
  .listen(Number(process.argv[3] ?? 0), "127.0.0.1", function () {
    console.log(`http://127.0.0.1:${this.address().port}/`);
  });
