// Fills stores with very many metrics by a few large requests.

import { POLICY } from "./data.mjs";

const WORDS = ["cpu", "memory", "disk", "network", "vcpus", "ephemeral", "perf", "power"];
const VERBS = ["usage", "util", "read.bytes", "write.bytes", "incoming.packets", "outgoing.packets", "latency", "errors"];

/** The names of a resource's metrics, as varied as in a cloud. */
const namesOf = (resource, count) => Array.from({ length: count }, (_, at) => `${WORDS[at % 8]}.${VERBS[(at >> 3) % 8]}.${resource % 50}.${at}`);

/** Creates `count` metrics of `count / each` resources. */
export async function fillMany(server, count, each = 200) {
  await server.post("v1/archive_policy", POLICY);
  const resources = Array.from({ length: count / each }, (_, at) => at);
  while (resources.length) {
    await Promise.all(
      resources.splice(0, 8).map((number) => {
        const metrics = Object.fromEntries(namesOf(number, each).map((name) => [name, { archive_policy_name: "cloud" }]));
        return server.post("v1/resource/generic", { id: `host-${number}`, metrics });
      }),
    );
  }
}

/** Creates metrics with points one minute apart, up to now; returns their ids. */
export async function fillCharts(server, metrics, points) {
  await server.post("v1/archive_policy", POLICY);
  const now = Math.floor(Date.now() / 60_000) * 60;
  const ids = [];
  for (let number = 0; number < metrics; number++) {
    const { id } = await server.post("v1/metric", { name: `load.${String(number).padStart(3, "0")}`, archive_policy_name: "cloud" });
    ids.push(id);
  }
  const measures = (number) => Array.from({ length: points }, (_, at) => ({ timestamp: now - (points - 1 - at) * 60, value: Math.sin(at / 40 + number) * 10 + (at % 7) }));
  for (let at = 0; at < ids.length; at += 10) {
    await server.post("v1/batch/metrics/measures", Object.fromEntries(ids.slice(at, at + 10).map((id, number) => [id, measures(at + number)])));
  }
  return ids;
}
