"""Random ends of resources and measures around them: gnudi revokes an end when a real Gnocchi does, with the same history.

Measures are processed as soon as they are posted, so that both servers process them in the same order.
"""

import datetime
import random
import uuid

ROUNDS = 3
STEPS = 25
BASE = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
# What a measure's time may be apart from an end, in nanoseconds. A day is beyond the back window.
DISTANCES_NS = [-86_400 * 10**9, -10**9, -1_000, -900, -100, 0, 100, 1_000, 10**9, 86_400 * 10**9]
POLICY = {
    "back_window": 0,
    "aggregation_methods": ["mean"],
    "definition": [{"granularity": "1s", "points": 100}],
}


def text(time_ns):
    seconds, rest = divmod(time_ns, 10**9)
    return f"{BASE + datetime.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:09d}"


class World:
    """The same resources on two servers; the metrics' ids are each server's own."""

    def __init__(self, sides, name):
        self.sides, self.name = sides, name
        self.resources = [str(uuid.uuid4()) for _ in range(3)]
        self.ends = {resource: 0 for resource in self.resources}
        self.metrics = [{} for _ in sides]
        for side, metrics in zip(sides, self.metrics):
            side.post("/v1/archive_policy", {"name": name, **POLICY}).expect(201)
            side.post("/v1/resource_type", {"name": name, "attributes": {"host": {"type": "string"}}}).expect(201)
            for number, resource in enumerate(self.resources):
                kind, attributes = [("generic", {}), (name, {"host": "h"})][number % 2]
                named = {metric: {"archive_policy_name": name} for metric in ("cpu", "disk")}
                body = {"id": resource, "started_at": "2020-01-01", "metrics": named, **attributes}
                created = side.post(f"/v1/resource/{kind}", body).expect(201).json()
                metrics.update({(resource, metric): id for metric, id in created["metrics"].items()})
            metrics["alone"] = side.post("/v1/metric", {"archive_policy_name": name}).expect(201).json()["id"]

    def end(self, resource, time_ns):
        self.ends[resource] = time_ns
        for side in self.sides:
            body = {"ended_at": text(time_ns)[:-3]}
            side.patch(f"/v1/resource/generic/{resource}", body).expect(200)
        return f"end {resource} at {text(time_ns)}"

    def measure(self, points):
        """One batch; then each of its metrics is processed."""
        for side, metrics in zip(self.sides, self.metrics):
            body = {
                metrics[metric]: [{"timestamp": text(time), "value": 1} for time in times]
                for metric, times in points.items()
            }
            side.post("/v1/batch/metrics/measures", body).expect(202)
            for metric in points:
                side.get(f"/v1/metric/{metrics[metric]}/measures?refresh=true").expect(200)
        return f"measure { {metric: [text(time) for time in times] for metric, times in points.items()} }"

    def histories(self):
        """For each server: of each resource the ends of its revisions, latest first, and whether they are over."""
        page = "history?sort=revision_start:desc"
        return [
            {
                resource: [
                    (revision["ended_at"], revision["revision_end"] is not None, revision["type"])
                    for revision in side.get(f"/v1/resource/generic/{resource}/{page}").expect(200).json()
                ]
                for resource in self.resources
            }
            for side in self.sides
        ]


def step(world, chance):
    if chance.random() < 0.4:
        return world.end(chance.choice(world.resources), chance.randrange(10**6) * 1_000)
    points = {}
    for metric in chance.sample(sorted(world.metrics[0], key=str), chance.randrange(1, 5)):
        end = world.ends.get(metric[0], 0)
        distances = chance.choices(DISTANCES_NS, k=chance.randrange(1, 4))
        points[metric] = [end + distance for distance in distances]
    return world.measure(points)


def test_ends_are_taken_back_as_in_gnocchi(ours, theirs, seed, rounds):
    revived = 0
    for number in range(rounds):
        chance = random.Random(f"{seed}-{number}")
        world = World((ours, theirs), f"ended-{uuid.uuid4().hex[:8]}")
        steps, before = [], {}
        for _ in range(STEPS):
            steps.append(step(world, chance))
            our_history, their_history = world.histories()
            assert our_history == their_history, f"--seed {seed}, round {number}:\n" + "\n".join(steps)
            now = {resource: revisions[0][0] for resource, revisions in their_history.items()}
            revived += sum(end is None and before.get(resource) is not None for resource, end in now.items())
            before = now
    assert revived > rounds, "hardly any end was taken back: the test shows nothing"
