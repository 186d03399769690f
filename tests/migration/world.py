"""A real Gnocchi, filled at random over its API, and the responses of it and of a gnudi."""

import json
import uuid

from support.http import create_policy

START_S = 1_700_000_000
# name: (definition, methods, back window)
POLICIES = {
    "plain": ([("1s", 500), ("1m", 300), ("1h", 100)], ["mean", "min", "max", "sum", "count", "std", "last"], 0),
    "window": ([("10s", 4000), ("5m", 400)], ["mean", "count", "first", "median"], 3),
    "rates": ([("5s", 1000), ("1m", None)], ["mean", "rate:mean", "rate:count", "rate:max"], 1),
    "percentiles": ([("1m", 2000)], ["95pct", "5pct", "mean"], 1),
    "unused": ([("1d", 10)], ["mean"], 0),
}
TYPE = {"name": "machine", "attributes": {
    "host": {"type": "string", "required": True, "max_length": 40},
    "owner": {"type": "uuid", "required": False},
    "load": {"type": "number", "required": False, "min": -5},
    "is_up": {"type": "bool", "required": False},
    "seen": {"type": "datetime", "required": False},
}}


class World:
    """What was made in Gnocchi, and how more is made at random."""

    def __init__(self, client, rng):
        self.client, self.rng = client, rng
        # {id: policy}, {id: type}
        self.metrics, self.resources, self.now_s = {}, {}, START_S
        for name, (definition, methods, window) in POLICIES.items():
            create_policy(client, name, definition, aggregation_methods=methods, back_window=window)
        rule = {"name": "disk-rule", "metric_pattern": "disk.*", "archive_policy_name": "plain"}
        client.post("/v1/archive_policy_rule", rule).expect(201)
        client.post("/v1/resource_type", TYPE).expect(201)

    def policy(self):
        return self.rng.choice([name for name in POLICIES if name != "unused" and not name.startswith("definition:")])

    def make(self, resources=14, metrics_alone=6):
        for number in range(resources):
            self.make_resource(number)
        for _ in range(metrics_alone):
            policy = self.policy()
            made = self.client.post("/v1/metric", {"archive_policy_name": policy, "name": f"alone {len(self.metrics)} é"})
            self.metrics[made.expect(201).json()["id"]] = policy
        for resource in self.rng.sample(sorted(self.resources), resources * 2 // 3):
            for _ in range(self.rng.randint(1, 3)):
                self.change(resource)
        gone = self.rng.choice(sorted(self.metrics))
        self.client.delete(f"/v1/metric/{gone}").expect(204)
        del self.metrics[gone]

    def make_resource(self, number):
        of_type = self.rng.choice(["machine", "generic"])
        # Also ids that are no UUIDs, and slashes within them.
        name = self.rng.choice([str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), f"host {number}/é"])
        metrics = {f"{self.rng.choice(['cpu', 'disk'])}.{metric}": {"archive_policy_name": self.policy(), "unit": "B"}
                   for metric in range(self.rng.randint(0, 3))}
        body = {"id": name.replace("/", "_"), "metrics": metrics, "project_id": self.rng.choice([None, "p"]), "user_id": "u"}
        body |= self.attributes(True) if of_type == "machine" else {}
        made = self.client.post(f"/v1/resource/{of_type}", body).expect(201).json()
        self.resources[made["id"]] = of_type
        for metric, found in made["metrics"].items():
            self.metrics[found] = metrics[metric]["archive_policy_name"]

    def attributes(self, is_new):
        values = {"owner": str(uuid.UUID(int=self.rng.getrandbits(128))), "load": self.rng.uniform(-5, 1e9), "is_up": self.rng.random() < 0.5,
                  "seen": f"2020-01-{self.rng.randint(1, 28):02}T10:11:12.{self.rng.randint(0, 999999):06}+00:00"}
        chosen = {name: value for name, value in values.items() if self.rng.random() < 0.6}
        if is_new or self.rng.random() < 0.5:
            chosen["host"] = f"h{self.rng.randint(0, 9)}"
        return chosen

    def change(self, resource):
        of_type = self.resources[resource]
        body = self.attributes(False) if of_type == "machine" else {}
        if self.rng.random() < 0.5 or not body:
            body["project_id"] = f"p{self.rng.randint(0, 3)}"
        if self.rng.random() < 0.2:
            body["ended_at"] = "2030-01-01T00:00:00+00:00"
        self.client.patch(f"/v1/resource/{of_type}/{resource}", body).expect(200)

    def requests(self, count):
        """Requests of measures for all metrics: [{metric: [measure]}]. Times go on, with points that are late, and fractions."""
        made = []
        for _ in range(count):
            self.now_s += self.rng.choice([3, 40, 400, 4000])
            request = {}
            for metric in self.rng.sample(sorted(self.metrics), len(self.metrics) * 2 // 3):
                times = {self.now_s + self.rng.randint(-900, 60) + self.rng.choice([0, 0.25, 0.000001])
                         for _ in range(self.rng.choice([1, 5, 40]))}
                request[metric] = [{"timestamp": time, "value": self.rng.choice([1.5, -3, 7e-3, 1e12]) * self.rng.random()}
                                   for time in sorted(times)]
            made.append(request)
        return made

    def post(self, clients, requests):
        """Each is processed before the next comes."""
        for request in requests:
            for client in clients:
                client.post("/v1/batch/metrics/measures", request).expect(202)
                for metric in request:
                    client.get(f"/v1/metric/{metric}/measures?refresh=true&limit=1").expect(200)


def series(client, metrics):
    """{(metric, method, granularity): measures}. Without expired ones that Gnocchi still shows of a method which lacks newer buckets: it
    keeps each method's for a time before that method's own newest (docs/compatibility.md), gnudi all of a bucket or none."""
    found = all_series(client, metrics)
    for (metric, method, granularity), rows in found.items():
        if method == "std" or method.startswith("rate:"):
            kept = {row[0] for row in found[metric, "mean", granularity]}
            rows[:] = [row for row in rows if row[0] in kept]
    return found


def all_series(client, metrics):
    found = {}
    for metric, policy in metrics.items():
        definition, methods, _ = POLICIES[policy]
        for method in methods:
            for granularity, _ in definition:
                answer = client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation={method}&granularity={granularity}")
                found[metric, method, granularity] = answer.expect(200).json()
    return found


def metadata(client, world):
    """What both answer about everything but measures."""
    paths = ["/v1/archive_policy", "/v1/archive_policy_rule", "/v1/resource_type", "/v1/metric?sort=id:asc",
             "/v1/resource/generic?sort=id:asc", "/v1/resource/machine?sort=id:asc&details=true"]
    paths += [f"/v1/metric/{metric}" for metric in world.metrics]
    for resource, of_type in world.resources.items():
        paths += [f"/v1/resource/{of_type}/{resource}", f"/v1/resource/{of_type}/{resource}/history?sort=revision_start:asc"]
    answers = {path: client.get(path).expect(200).json() for path in paths}
    search = client.post("/v1/search/resource/machine?history=true&sort=revision_start:asc", {"like": {"host": "h%"}})
    return {**answers, "search": search.expect(200).json()}


def ordered(answer):
    """Without the order of what is a set or was not asked for in one, and the numbers of revisions, which are each server's own."""
    if isinstance(answer, dict):
        return {key: ordered(value) for key, value in answer.items() if key != "revision"}
    if isinstance(answer, list):
        return sorted((ordered(item) for item in answer), key=json.dumps)
    return answer


def check_same(ours, theirs, what):
    different = [key for key in theirs if ours.get(key) != theirs[key]]
    shown = [f"{key}: ours has {extra(ours.get(key), theirs[key])}, theirs {extra(theirs[key], ours.get(key))}" for key in different[:3]]
    assert not different, f"{what}: {len(different)} of {len(theirs)} differ, such as {shown}"


def extra(these, those):
    """What the first list has and the second has not; all of what are no lists."""
    return [item for item in these if item not in those] if isinstance(these, list) and isinstance(those, list) else these
