"""Random aggregations over metrics and resources: `test_aggregates.py` sends them to both servers."""

import random
import urllib.parse

from differential.filters import Filters, spell as spell_filter
from differential.operations import ABOUT, SUMS, Operations, can_spell, spell
from differential.step import Step

TYPE = "fuzzagg"
UUIDS = [f"f0330000-0000-4000-8000-00000000000{digit}" for digit in range(6)]
NAMES = ["cpu", "cpu.idle", "disk"]
POLICIES = {
    "fuzz-agg-a": [{"granularity": 60}, {"granularity": 300}],
    "fuzz-agg-b": [{"granularity": 60}, {"granularity": 3600}],
    "fuzz-agg-c": [{"granularity": 7}],
}
METHODS = ["mean", "max", "count", "rate:mean"]
FILLS = ["null", "dropna", "ffill", "bfill", "full_ffill", "full_bfill", "0", "-1.5", "1e3"]
FLAVORS = ["small", "large", None]
COLUMNS = {"id": "id", "original_resource_id": "text", "ended_at": "time"}
FIELDS = {"id": "id", "flavor": "text", "original_resource_id": "text", "ended_at": "time", "active": "bool"}
# Long before and long after this run: whole buckets lie on one side of all revisions, which are of now.
PAST, FUTURE = 1_400_000_000, 2_500_000_000
POINTS_MAX = 12
QUERIES_MAX = 14


def prepare(side):
    """Removes what an earlier sequence has left, and makes what all need."""
    client = side.client
    for name, definition in POLICIES.items():
        client.post("/v1/archive_policy", {"name": name, "definition": definition, "aggregation_methods": METHODS,
                                           "back_window": 0}).expect(201, 409)
    client.request("DELETE", "/v1/resource/generic", {"in": {"id": UUIDS}}).expect(200)
    client.post("/v1/resource_type", {"name": TYPE, "attributes": {
        "flavor": {"type": "string", "required": False}, "active": {"type": "bool", "required": False}}}).expect(201, 409)


class World:
    """Makes one sequence: resources with metrics and measures, then questions about them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.metrics = []
        self.filters = Filters(self.rng, UUIDS, UUIDS)

    def steps(self):
        rng = self.rng
        # Most resources share a policy, else nothing can be aggregated.
        self.policy = rng.choice(["fuzz-agg-a", "fuzz-agg-b"])
        self.clocks = [PAST, FUTURE] if rng.random() < 0.3 else [PAST]
        steps = [self.create(rid) for rid in rng.sample(UUIDS, rng.randint(2, len(UUIDS)))]
        steps += [self.push() for _ in range(rng.randint(2, 6))]
        makers = [(self.by_metrics, 5), (self.by_resources, 6), (self.legacy_metrics, 3), (self.legacy_resources, 3),
                  (self.search_values, 3), (self.push, 1), (self.patch, 2)]
        for _ in range(rng.randint(4, QUERIES_MAX)):
            steps.append(rng.choices([maker for maker, _ in makers], [weight for _, weight in makers])[0]())
        return steps

    def create(self, rid):
        rng = self.rng
        names = rng.sample(NAMES, rng.randint(1, 3))
        metrics = {name: {"archive_policy_name": self.policy if rng.random() < 0.93 else rng.choice([*POLICIES])}
                   for name in names}
        self.metrics += [f"<{rid}/{name}>" for name in names]
        body = {"id": rid, "started_at": "2014-01-01", "flavor": rng.choice(FLAVORS), "metrics": metrics}
        if body["flavor"] is None:
            del body["flavor"]
        if rng.random() < 0.5:
            body["active"] = rng.random() < 0.5
        if rng.random() < 0.2:
            body["project_id"] = rng.choice(["p", "q"])
        return Step("POST", f"/v1/resource/{TYPE}", body)

    def patch(self):
        body = {"flavor": self.rng.choice(["small", "large", "huge"])}
        if self.rng.random() < 0.3:
            body["active"] = self.rng.random() < 0.5
        return Step("PATCH", f"/v1/resource/{TYPE}/{self.rng.choice(UUIDS)}", body)

    def push(self):
        """Measures for some metrics; two of them mostly at the same times, so that they overlap."""
        rng = self.rng
        chosen = rng.sample(self.metrics, rng.randint(1, len(self.metrics)))
        clock = rng.choice(self.clocks)
        common = [clock + rng.randrange(0, 7200, rng.choice([20, 60, 300])) for _ in range(rng.randint(1, POINTS_MAX))]
        body = {}
        for metric in chosen:
            times = common if rng.random() < 0.6 else [clock + rng.randrange(7200) for _ in range(rng.randint(1, POINTS_MAX))]
            body[metric] = [{"timestamp": moment, "value": self.value()} for moment in sorted(set(times))]
        return Step("POST", "/v1/batch/metrics/measures", body, refresh=tuple(chosen))

    def value(self):
        rng = self.rng
        choice = rng.random()
        if choice < 0.5:
            return rng.randint(-5, 20)
        if choice < 0.97:
            return round(rng.uniform(-50, 50), rng.choice([1, 3, 12]))
        return rng.choice([0, -0.0, 1e300, 1e-300, float("nan")])

    def arguments(self, legacy=False):
        rng = self.rng
        arguments = []
        if rng.random() < 0.35:
            arguments.append(("granularity", rng.choice(["60", "60", "300", "1 hour", "7", "61"])))
        if rng.random() < 0.35:
            arguments.append(("fill", rng.choice(FILLS[6:] + ["null"] if legacy else FILLS)))
        if rng.random() < 0.35:
            arguments.append(("needed_overlap", rng.choice(["0", "10", "50.5", "100", "33.3"])))
        for bound in ("start", "stop"):
            if rng.random() < 0.2:
                moment = rng.choice(self.clocks) + rng.choice([-600, 0, 600, 1234, 3600, 8000])
                arguments.append((bound, rng.choice([str(moment), str(moment) + ".5"])))
        return arguments

    @staticmethod
    def query(path, arguments):
        return path + ("?" + urllib.parse.urlencode(arguments) if arguments else "")

    def tree(self, references):
        """(operations in one of their forms, how exact their numbers are)."""
        operations = Operations(self.rng, references, METHODS[:3] if self.rng.random() < 0.8 else METHODS)
        tree = operations.tree()
        return spell(tree) if can_spell(tree) and self.rng.random() < 0.4 else tree, operations.about

    def by_metrics(self):
        operations, about = self.tree(self.metrics)
        arguments = self.arguments()
        if self.rng.random() < 0.15:
            arguments.append(("details", "true"))
        return Step("POST", self.query("/v1/aggregates", arguments), {"operations": operations}, about=about,
                    unordered=("details", "true") in arguments)

    def by_resources(self):
        rng = self.rng
        operations, about = self.tree([*NAMES, "*", "cpu*", "c?u", "[cd]*", "none"])
        history = rng.random() < 0.2
        # Searching history, Gnocchi drops attributes of types from `or` and `not`.
        fields = COLUMNS if history else FIELDS
        tree = self.filters.tree(fields, depth=1) if rng.random() < 0.5 else {"!=": {"original_resource_id": "-"}}
        search = spell_filter(rng, tree) if rng.random() < 0.4 else None
        arguments, about = self.arguments(), max(about, SUMS)
        if history or rng.random() < 0.4:
            groups = rng.choice([["flavor"], ["project_id"], ["flavor", "project_id"], ["id"], ["nope"], ["active"]])
            arguments += [("groupby", group) for group in groups]
            if history:
                # What lies on both sides of now would depend on the microsecond of each revision.
                arguments.append(("use_history", "true"))
                about = max(about, ABOUT)
        if rng.random() < 0.2:
            arguments.append(("details", "true"))
        body = {"operations": operations, "resource_type": rng.choice([TYPE, TYPE, "generic"]),
                "search": tree if search is None else search}
        if body["resource_type"] == "generic":
            body["search"] = {"in": {"id": UUIDS}}
        return Step("POST", self.query("/v1/aggregates", arguments), body, about=about,
                    unordered=("details", "true") in arguments)

    def legacy_arguments(self):
        rng = self.rng
        arguments = self.arguments(legacy=True)
        if rng.random() < 0.7:
            arguments.append(("aggregation", rng.choice(METHODS[:3] + ["mean", "sum"])))
        if rng.random() < 0.4:
            arguments.append(("reaggregation", rng.choice(["mean", "max", "sum", "min", "median", "count"])))
        if rng.random() < 0.15:
            arguments.append(("resample", rng.choice(["120", "1 hour", "600"])))
        if rng.random() < 0.1:
            arguments.append(("refresh", "true"))
        return arguments

    def legacy_metrics(self):
        rng = self.rng
        chosen = rng.sample(self.metrics, rng.randint(1, min(4, len(self.metrics))))
        arguments = self.legacy_arguments()
        if rng.random() < 0.5:
            arguments += [("metric", metric) for metric in chosen]
            path = self.query("/v1/aggregation/metric", arguments)
            return Step("GET", urllib.parse.unquote(path), about=SUMS)
        return Step("POST", self.query("/v1/aggregation/metric", arguments), chosen, about=SUMS)

    def legacy_resources(self):
        rng = self.rng
        arguments = self.legacy_arguments()
        if rng.random() < 0.5:
            arguments += [("groupby", group) for group in rng.choice([["flavor"], ["project_id", "flavor"], ["nope"]])]
        name = rng.choice([*NAMES, "none"])
        # One fault at a time.
        tree = {} if ("groupby", "nope") in arguments else self.filters.tree(FIELDS, depth=1)
        return Step("POST", self.query(f"/v1/aggregation/resource/{TYPE}/metric/{name}", arguments), tree, about=SUMS)

    def search_values(self):
        rng = self.rng
        chosen = rng.sample(self.metrics, rng.randint(1, min(3, len(self.metrics))))
        arguments = [("metric_id", metric) for metric in chosen]
        if rng.random() < 0.4:
            arguments.append(("aggregation", rng.choice(METHODS)))
        if rng.random() < 0.4:
            arguments.append(("granularity", rng.choice(["60", "300", "1 hour"])))
        if rng.random() < 0.2:
            arguments.append(("start", str(PAST + 600)))
        path = urllib.parse.unquote(self.query("/v1/search/metric", arguments)).replace(" ", "%20")
        return Step("POST", path, self.predicate())

    def predicate(self, depth=2):
        rng = self.rng
        if depth and rng.random() < 0.4:
            return {rng.choice(["and", "or", "∧", "∨"]): [self.predicate(depth - 1) for _ in range(rng.randint(1, 2))]}
        operator = rng.choice(["=", "<", "≤", "ge", "!=", ">", "lt"])
        if rng.random() < 0.3:
            return {operator: [{rng.choice(["mod", "+", "×", "sub"]): rng.choice([2, 3, 0.5])}, rng.choice([0, 1, 2.5])]}
        return {operator: rng.choice([0, 1, 5, -2.5, 10])}
