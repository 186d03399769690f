// A small cloud: instances with attributes and revisions, and two days of measures; the same in each run
// except for the times.

export const MINUTE = 60;
const DAY = 86400;
export const ZONES = ["north", "south", "west"];

export const POLICY = {
  name: "cloud",
  back_window: 0,
  definition: [
    { granularity: "1 minute", timespan: "3 days" },
    { granularity: "5 minutes", timespan: "30 days" },
    { granularity: "1 hour", timespan: "365 days" },
  ],
  aggregation_methods: ["mean", "min", "max", "count", "std", "5pct", "95pct"],
};

/** Creates a policy of `[granularity, timespan]`, finest first. */
export const addPolicy = (server, name, grains, methods = ["mean"]) =>
  server.post("v1/archive_policy", {
    name, back_window: 0, definition: grains.map(([granularity, timespan]) => ({ granularity, timespan })), aggregation_methods: methods,
  });

/** A seeded pseudo-random generator. */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

/** The CPU usage of an instance at a time: a daily wave, noise, and in one instance an incident an hour ago. */
function cpu(instance, seconds, now, random) {
  const wave = 30 + 20 * Math.sin((2 * Math.PI * (seconds % DAY)) / DAY + instance);
  const incident = instance === 2 && seconds > now - 3600 && seconds < now - 2400 ? 45 : 0;
  return Math.min(100, Math.max(0, wave + incident + 8 * (random() - 0.5)));
}

/** `everyS`: seconds between measures. Returns what was created. */
export async function fillCloud(server, { instances = 6, days = 2, everyS = MINUTE, now = Math.floor(Date.now() / 1000) } = {}) {
  await server.post("v1/archive_policy", POLICY);
  await server.post("v1/resource_type", {
    name: "instance",
    attributes: {
      display_name: { type: "string", required: false },
      flavor: { type: "string", required: false },
      zone: { type: "string", required: false },
    },
  });
  const made = [];
  for (let number = 0; number < instances; number++) {
    const metrics = Object.fromEntries([["cpu_util", "%"], ["memory.usage", "MB"], ["disk.read.bytes", "B"]].map(([name, unit]) => [name, { archive_policy_name: "cloud", unit }]));
    made.push(
      await server.post("v1/resource/instance", {
        id: `vm-${number}`, display_name: `web ${number}`, flavor: number % 2 ? "m1.large" : "m1.small", zone: ZONES[number % ZONES.length],
        project_id: `project-${number % 2}`, started_at: new Date((now - days * DAY) * 1000).toISOString(), metrics,
      }),
    );
  }
  await server.request("PATCH", "v1/resource/instance/vm-0", { flavor: "m1.huge" });
  for (const [number, { metrics }] of made.entries()) {
    const random = generator(number + 1);
    const [cpus, memories, reads] = [[], [], []];
    let [memory, read] = [4000, 0];
    for (let seconds = now - days * DAY; seconds <= now; seconds += everyS) {
      memory += 40 * (random() - 0.5);
      read += Math.floor(5e6 * random());
      for (let part = 0; part < 3; part++) cpus.push({ timestamp: seconds + part * 20 - 40, value: cpu(number, seconds, now, random) });
      memories.push({ timestamp: seconds, value: memory });
      reads.push({ timestamp: seconds, value: read });
    }
    await server.post("v1/batch/metrics/measures", { [metrics["cpu_util"]]: cpus, [metrics["memory.usage"]]: memories, [metrics["disk.read.bytes"]]: reads });
  }
  await folded(server);
  return made;
}

/** Gives a metric of five minutes points of two hours, moves it to the minutes of the policy `cloud`, and gives it those of the last hour. */
export async function moveToMinutes(server, id) {
  const now = Math.floor(Date.now() / 1000);
  const post = async (from, to) => {
    const minutes = Array.from({ length: (to - from) / 60 }, (_, at) => ({ timestamp: from + at * 60, value: 10 + (at % 3) }));
    await server.post(`v1/metric/${id}/measures`, minutes);
    await folded(server);
  };
  await post(now - 10_800, now - 3600);
  await server.request("PATCH", `v1/metric/${id}`, { archive_policy_name: "cloud" });
  await post(now - 3600, now);
}

/** Waits until all measures are processed. */
export async function folded(server) {
  for (;;) {
    const { storage } = await server.get("v1/status?details=false");
    if (storage.summary.measures === 0) return;
    await new Promise((done) => setTimeout(done, 50));
  }
}
