"""Writers that push measures as fast as they can and record which were acknowledged; and the check of what is stored afterwards.

Each metric belongs to one writer, which sends its measures in order, with timestamps a second apart. So every measure is the only one
in its 1 s bucket, and lost, duplicated and confused measures all show.
"""

import dataclasses
import datetime
import functools
import http.client
import random
import threading

from support.http import create_metric, create_policy

POLICY = "crash"
START_S = 1_600_000_000
METHODS = ["count", "sum", "max"]
BATCH_MAX = 40
METRICS_PER_WRITER = 3


def make_policy(client):
    create_policy(client, POLICY, [("1s", None), ("60s", None)], aggregation_methods=METHODS)


@dataclasses.dataclass
class Metric:
    """What its writer sent: values by second, and how many of them (the first ones) were acknowledged."""

    id: str
    values: list = dataclasses.field(default_factory=list)
    acknowledged: set = dataclasses.field(default_factory=set)


class Writer(threading.Thread):
    """Pushes to its own metrics until the server goes away or `stop` is set."""

    def __init__(self, client, metrics, seed):
        super().__init__(daemon=True)
        self.client, self.metrics, self.rng = client, metrics, random.Random(seed)
        self.stop = threading.Event()
        self.requests = 0
        # Answers other than 202, by status.
        self.refused = {}

    def run(self):
        while not self.stop.is_set():
            try:
                self.push_some()
            except (OSError, http.client.HTTPException):
                return

    def push_some(self):
        """Pushes to some of the metrics in one request; whether it was acknowledged."""
        chosen = self.rng.sample(self.metrics, self.rng.choice([1, 1, 2, len(self.metrics)]))
        # All measures of the request: {metric: its new seconds}.
        new = {metric.id: self.extend(metric) for metric in chosen}
        answer = self.push(chosen, new)
        self.requests += 1
        if answer.status == 202:
            for metric in chosen:
                metric.acknowledged.update(new[metric.id])
        else:
            self.refused[answer.status] = self.refused.get(answer.status, 0) + 1
        return answer.status == 202

    def extend(self, metric):
        first = len(metric.values)
        count = self.rng.choice([1, 2, BATCH_MAX])
        metric.values += [self.rng.uniform(-1e6, 1e6) for _ in range(count)]
        return range(first, first + count)

    def push(self, chosen, new):
        bodies = {metric.id: [{"timestamp": START_S + second, "value": metric.values[second]}
                              for second in new[metric.id]] for metric in chosen}
        if len(chosen) == 1:
            return self.client.post(f"/v1/metric/{chosen[0].id}/measures", bodies[chosen[0].id])
        return self.client.post("/v1/batch/metrics/measures", bodies)


def start_writers(server, seeds, timeout_s=30):
    """A writer for each seed, with metrics of its own."""
    writers = []
    for seed in seeds:
        client = server.client(timeout_s=timeout_s)
        metrics = [Metric(create_metric(client, POLICY)) for _ in range(METRICS_PER_WRITER)]
        writers.append(Writer(client, metrics, seed))
    for writer in writers:
        writer.start()
    return writers


def check(client, metric):
    """Every acknowledged measure is there once; every other one that was sent, once or not at all; nothing else is."""
    counts = read(client, metric, "count", 1)
    present = set(counts)
    lost = metric.acknowledged - present
    assert not lost, f"{metric.id}: lost {len(lost)} of {len(metric.acknowledged)} acknowledged: {sorted(lost)[:5]}"
    strange = present - set(range(len(metric.values)))
    assert not strange, f"{metric.id}: never sent: {sorted(strange)[:5]}"
    assert all(count == 1 for count in counts.values()), f"{metric.id}: measures counted more than once"
    wanted = {second: metric.values[second] for second in present}
    for method in ("sum", "max"):
        assert read(client, metric, method, 1) == wanted, f"{metric.id}: wrong {method}"
    minutes = {}
    for second in present:
        minute = (START_S + second) // 60 * 60 - START_S
        minutes[minute] = minutes.get(minute, 0) + 1
    assert read(client, metric, "count", 60) == minutes, f"{metric.id}: wrong count of a minute"


def read(client, metric, method, granularity):
    """{second since START_S: value} of an aggregate."""
    path = f"/v1/metric/{metric.id}/measures?refresh=true&aggregation={method}&granularity={granularity}"
    points = client.get(path).expect(200).json()
    return {parse_seconds(text) - START_S: value for text, _, value in points}


def parse_seconds(text):
    """Unix seconds of 2020-09-13T12:26:40+00:00, faster than datetime does it for a day of seconds."""
    days = _days(text[:10])
    return days * 86400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])


@functools.cache
def _days(date):
    return (datetime.date.fromisoformat(date) - datetime.date(1970, 1, 1)).days
