// Servers under test: `gnudi serve` on a free loopback port, and requests to it.

import { spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const BINARY = resolve(process.env.GNUDI_BIN ?? new URL("../../../target/debug/gnudi", import.meta.url).pathname);
const START_TIMEOUT_MS = 30_000;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export class Server {
  /** `hasHost`: collects this machine's own metrics. `port`: 0 is any; while the server is stopped, another process may take that. */
  constructor({ prefix = "", config = "", hasHost = false, port = 0 } = {}) {
    this.folder = mkdtempSync(join(tmpdir(), "gnudi-page-"));
    this.prefix = prefix;
    this.hasHost = hasHost;
    this.listen = `127.0.0.1:${port}`;
    this.configPath = join(this.folder, "gnocchi.conf");
    writeFileSync(this.configPath, config);
  }

  async start() {
    const log = join(this.folder, `log-${Date.now()}`);
    const out = openSync(log, "w");
    const more = [...(this.hasHost ? [] : ["--without", "host"]), ...(this.prefix ? ["--path-prefix", this.prefix] : [])];
    const command = ["serve", "--config-file", this.configPath, "--data-dir", join(this.folder, "data"), "--listen", this.listen, ...more];
    this.process = spawn(BINARY, command, { stdio: ["ignore", out, out] });
    const until = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      const found = /serving HTTP.*address=(127\.0\.0\.1:\d+)/.exec(readFileSync(log, "utf8").replace(/\x1b\[[\d;]*m/g, ""));
      if (found) {
        this.listen = found[1];
        this.url = `http://${found[1]}${this.prefix}/`;
        return this;
      }
      if (this.process.exitCode !== null || Date.now() > until) throw new Error(`gnudi did not start: ${readFileSync(log, "utf8")}`);
      await sleep(20);
    }
  }

  /** Stops it; `start` serves its data again, at the same address. */
  async stop() {
    if (this.process.exitCode !== null) return;
    const ended = new Promise((done) => this.process.once("exit", done));
    this.process.kill("SIGTERM");
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async request(method, path, body, headers = {}) {
    const answer = await fetch(new URL(path, this.url), {
      method,
      headers: { Authorization: `Basic ${btoa("admin:")}`, "Content-Type": "application/json", ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  get(path) {
    return this.request("GET", path);
  }

  post(path, body) {
    return this.request("POST", path, body);
  }
}
