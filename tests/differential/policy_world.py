"""Random requests about archive policies, their rules, metrics with units, and measures and spans in all spellings."""

import json
import random
import urllib.parse
import zlib

from differential import player
from differential.step import Step

# Metrics and policies that other tests made stay apart: a metric's creator, the beginning of a policy's name.
USER = "fuzzpol"
PREFIX = "fuzzpol-"
RULES = ["fuzz-r1", "fuzz r2", "fuzz?r3", "fuzz-é"]
PATTERNS = ["*", "cpu*", "[a-d]*", "disk.??", "[!c]*", "CPU*", "m é?", "", "[", "c[pu", "\\*"]
NAMES = ["cpu", "disk.io", "m é", "cpu.x", "CPU", "*", " "]
UNITS = ["B", "", "é" * 31, "ns", " ", "u" * 32]
METHODS = [["mean"], ["*"], ["-std"], ["+last"], ["-mean", "-sum"], ["mean", "mean"], ["+rate:max", "-sum"], [], ["mean", "*"], ["-95pct"],
           ["rate:last"], ["-*"], ["+*"]]
# What is before 1970, relative to now or none is left out: the first is refused in other words, the others differ.
TIMES = ["2015-03-06T14:33:57", "2015-03-06 14:33:57", "2015-03-06T14:33:57Z", "2015-03-06T14:33:57.5+02:00", "2015-03-06", "1425652437",
         1425652437, 1425652437.25, "1425652437.123456789", "2015-W10-5", "20150306", "20150306T143357", "2015-065", "2015-03", "2015",
         "1e9", " 2015-03-06", "2015-03-06 ", "2015-03-06T14:33", "2015-03-06T14", "2015/03/06", "06.03.2015", "2015-03-06T14:33:57,5",
         "Fri, 06 Mar 2015 14:33:57 GMT", "2015-03-06T14:33:57-00", "2015-03-06t14:33:57z", "2015-03-06T14:33:57 +01:00", "2015-3-6",
         "2015-03-06T14:33:57.1234567891", "1_000", "0x10", "١٤٢٥٦٥٢٤٣٧", "1425652437 ", "1970-01-01T00:00:00Z", 0, "0", "-5"]
VALUES = [1, 2.5, -1, "3", " 4 ", "1e3", True, "1_0", "0x1", "١", 1e300, None, "", "+5", "1.", ".5", "1e"]
SPANS = [60, "60", "60s", 60.0, "1 minute", "1min", "1m", "00:01:00", "0:01:00.5", "1:00", "1 h", "1H", "1d", "1 day", "2 days, 0:00:01", "1w",
         "1 week", "0.5", ".5", "1e2", "60 ", " 60", "60 s", "1us", "1000ms", "1ms", "1 M", "1 Y", "PT1M", "P1D", "3600", "300.0", "-60", "0",
         "1_0", "1 hour 5 minutes", "1h5m", "+60", "٦٠", "1 fortnight", "60.0s", "1.5 h", "1days", "1 Day", "1S"]
SORTS = ["unit:desc-nullslast", "unit:asc-nullslast", "name:desc-nullslast", "creator", "status", "foo", "archive_policy_name"]
STEPS = 30


def prepare(side):
    """Removes the rules and metrics that an earlier sequence has left. Policies stay: a policy's name says what it is."""
    for rule in side.client.get("/v1/archive_policy_rule").expect(200).json():
        player.delete(side.client, "/v1/archive_policy_rule", rule["name"])
    while left := side.client.get(f"/v1/metric?creator={USER}").expect(200).json():
        for metric in left:
            side.client.delete(f"/v1/metric/{metric['id']}").expect(204)


class World:
    """Makes one sequence."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.policies, self.metrics = [], []
        # No two metrics have one name: those would come in the order of ids, which each server chooses.
        self.names = []

    def steps(self):
        steps = [self.policy(plain=True), self.policy(plain=True), self.metric(), self.metric()]
        makers = [(self.policy, 3), (self.show, 1), (self.rule, 4), (self.metric, 3), (self.list, 3), (self.push, 5), (self.read, 6)]
        for _ in range(STEPS):
            steps.append(self.rng.choices([maker for maker, _ in makers], [weight for _, weight in makers])[0]())
        return steps

    def policy(self, plain=False):
        rng = self.rng
        if plain:
            body = {"definition": [{"granularity": 60}, {"granularity": rng.choice([3600, 300]), "points": 50}],
                    "aggregation_methods": ["mean", "max", "rate:mean"]}
        else:
            body = {"definition": [self.item() for _ in range(rng.choice([1, 1, 2]))]}
            if rng.random() < 0.5:
                body["back_window"] = rng.choice([0, 1, 3, "2", 2.9, True, "2.5", " 3 "])
            if rng.random() < 0.5:
                body["aggregation_methods"] = rng.choice(METHODS)
        name = f"{PREFIX}{zlib.crc32(json.dumps(body).encode()):08x}"
        if plain:
            self.policies.append(name)
        return Step("POST", "/v1/archive_policy", {"name": name, **body})

    def item(self):
        keys = self.rng.sample(["granularity", "points", "timespan"], self.rng.choice([1, 2, 2, 2, 3]))
        return {key: self.rng.choice([1, 10, "10", 10.0, "5.5", 5.7, True] if key == "points" else SPANS) for key in keys}

    def show(self):
        return Step("GET", f"/v1/archive_policy/{self.rng.choice(self.policies)}")

    def rule(self):
        rng = self.rng
        path = "/v1/archive_policy_rule/" + urllib.parse.quote(rng.choice(RULES), safe="")
        new = {"name": rng.choice(RULES), "metric_pattern": rng.choice(PATTERNS), "archive_policy_name": rng.choice(self.policies)}
        return rng.choice([Step("POST", "/v1/archive_policy_rule", new), Step("POST", "/v1/archive_policy_rule", new),
                           Step("GET", "/v1/archive_policy_rule"), Step("GET", path), Step("DELETE", path),
                           Step("PATCH", path, {"name": rng.choice(RULES)})])

    def metric(self):
        rng = self.rng
        body = {"name": f"{rng.choice(NAMES)}{len(self.names)}"}
        if len(self.metrics) < 2:
            # One of each name that later steps use.
            body["name"] = f"fuzz-{len(self.metrics)}"
            body["archive_policy_name"] = rng.choice(self.policies)
            self.metrics.append(f"<m-{body['name']}>")
        elif rng.random() < 0.4:
            body["archive_policy_name"] = rng.choice(self.policies)
        self.names.append(body["name"])
        if rng.random() < 0.5:
            body["unit"] = rng.choice(UNITS)
        return Step("POST", "/v1/metric", body, user=USER)

    def list(self):
        rng = self.rng
        arguments = [("creator", USER)]
        for name, values in {"name": self.names, "unit": UNITS, "status": ["active"], "limit": ["1", "2", "7", "8", " 3", "+2", "1_0", "2.0"],
                             "archive_policy_name": self.policies, "foo": ["x"]}.items():
            if rng.random() < 0.2:
                arguments.append((name, rng.choice(values)))
        arguments += [("sort", rng.choice(SORTS)), ("sort", "name:asc-nullslast")]
        return Step("GET", "/v1/metric?" + urllib.parse.urlencode(arguments), unordered=True)

    def push(self):
        rng = self.rng
        metric, form = rng.choice(self.metrics), rng.choice(TIMES)
        measures = [{"timestamp": form if rng.random() < 0.8 else rng.choice(TIMES),
                     "value": rng.choice(VALUES[:8] if rng.random() < 0.8 else VALUES)}
                    for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        if rng.random() < 0.3:
            return Step("POST", "/v1/batch/metrics/measures", {metric: measures}, refresh=(metric,))
        return Step("POST", f"/v1/metric/{metric}/measures", measures, refresh=(metric,))

    def read(self):
        rng = self.rng
        arguments = []
        for name, values, chance in (("start", TIMES, 0.2), ("stop", TIMES, 0.2), ("aggregation", ["mean", "max", "rate:mean", "sum"], 0.5),
                                     ("granularity", [*SPANS, *[60] * 40], 0.5),
                                     ("resample", ["120", "5 minutes", "Y", "M", "W", "Q", "H", "D", *SPANS], 0.2),
                                     ("refresh", ["true", "false", "1", "yes", "on", "t", "TRUE", " true ", "0", "off", "n"], 0.2)):
            if rng.random() < chance:
                arguments.append((name, rng.choice(values)))
        return Step("GET", f"/v1/metric/{rng.choice(self.metrics)}/measures?" + urllib.parse.urlencode(arguments), user=USER)
