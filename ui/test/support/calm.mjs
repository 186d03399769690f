// Waits until the browser is idle: a new window loads the browser's own pages, such as the address bar, for
// about a second.

import { readFileSync, readdirSync } from "node:fs";
import { sleep } from "./server.mjs";

/** A tick of the kernel's clock, the unit of `/proc`. */
const TICK_MS = 10;
const LOOK_MS = 250;
const CALM_MS = 50;
const CALM_LOOKS = 2;
const LOOKS_MAX = 40;

/** The CPU time of all descendant processes, in ms; servers under test are idle meanwhile. */
function processorMs() {
  const children = new Map();
  const ticks = new Map();
  for (const id of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const text = readFileSync(`/proc/${id}/stat`, "utf8");
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      ticks.set(id, Number(fields[11]) + Number(fields[12]));
      children.set(fields[1], [...(children.get(fields[1]) ?? []), id]);
    } catch {
      // The process has ended.
    }
  }
  const sum = (id) => (children.get(id) ?? []).reduce((all, child) => all + ticks.get(child) + sum(child), 0);
  return sum(String(process.pid)) * TICK_MS;
}

/** Waits until the browser is idle, at most ten seconds. */
export async function calm() {
  let [before, looks] = [processorMs(), 0];
  for (let at = 0; at < LOOKS_MAX && looks < CALM_LOOKS; at++) {
    await sleep(LOOK_MS);
    const now = processorMs();
    looks = now - before <= CALM_MS ? looks + 1 : 0;
    before = now;
  }
}
