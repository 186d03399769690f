"""Clients that send random requests like those of real clients, each with its own resources and metrics, and verify every response against
what was acknowledged to them. The server may end at any moment: the outcome of the requests in progress is determined once it is back.

Everything is bounded: resources and metrics of a client, recorded points of a metric, requests a second.
"""

import http.client
import random
import threading
import time
import uuid

from support.http import create_policy

START_S = 1_600_000_000
TYPE = "soak"
# Finest granularity and its points. The second has a raw window and all that is computed from it.
POLICIES = {"soak-fine": (1, 900), "soak-window": (10, 200)}
MINUTE_S = 60
METHODS = ["count", "sum", "max"]
WINDOW_METHODS = ["count", "sum", "mean", "std", "median", "95pct", "rate:mean"]
RESOURCES_MAX = 8
METRICS_MAX = 4
# Of the newest points so much is remembered; less than any granularity keeps.
REMEMBERED_S = 400
SIZES = [1] * 50 + [10] * 25 + [60] * 15 + [300] * 8 + [2000] * 2
NEW_CONNECTION_EVERY = 200
BEHIND_S_MAX = 1.0
FAULTS_MAX = 20


class Gone(Exception):
    """The server went away before it answered."""


class Refused(Exception):
    """429 or 503: the server has too much to do, and has done nothing."""


class Wrong(Exception):
    """An answer that is not what was acknowledged."""


class Series:
    """A metric, and the newest measures that it has got: one a second of its own time."""

    def __init__(self, id_, policy):
        self.id, self.policy, self.next_second, self.points = id_, policy, 0, {}

    def new_points(self, rng):
        return {self.next_second + index: rng.randint(1, 1000) for index in range(rng.choice(SIZES))}

    def add(self, points):
        self.points.update(points)
        self.next_second = max(points) + 1
        for second in [s for s in self.points if s < self.next_second - REMEMBERED_S]:
            del self.points[second]

    def first_whole(self, granularity):
        """The first second of a bucket of which all points are remembered."""
        first = max(0, self.next_second - REMEMBERED_S)
        return -(-first // granularity) * granularity

    def expected(self, granularity, fold):
        """{second at which a bucket begins: fold(values)}. START_S is a multiple of no minute."""
        first, found = self.first_whole(granularity), {}
        for second, value in self.points.items():
            begin = (START_S + second) // granularity * granularity - START_S
            if begin >= first:
                found.setdefault(begin, []).append(value)
        return {begin: fold(values) for begin, values in found.items()}


class Clock:
    """The moment of the next request: `rate` a second; who is late does not catch up more than BEHIND_S_MAX."""

    def __init__(self, rate):
        self.interval_s, self.due = 1 / rate, time.monotonic()

    def wait(self):
        now = time.monotonic()
        self.due = max(self.due + self.interval_s, now - BEHIND_S_MAX)
        if self.due > now:
            time.sleep(self.due - now)


class Caller(threading.Thread):
    """A thread that calls the server until it is told to stop. `step` is one thing that it does."""

    def __init__(self, name, server, up, rate, seed):
        super().__init__(name=name, daemon=True)
        self.server, self.up, self.clock, self.rng = server, up, Clock(rate), random.Random(f"{name} {seed}")
        # To stop is to begin nothing new: what was under way is found out first, unless all is given up.
        self.stop, self.given_up, self.client, self.calls = threading.Event(), threading.Event(), None, 0
        self.refused, self.faults = 0, []

    def run(self):
        while not self.stop.is_set() and len(self.faults) < FAULTS_MAX:
            try:
                self.step()
            except Gone:
                self.wait_for_server()
            except Refused:
                self.refused += 1
            except Exception as error:  # pylint: disable=broad-except
                self.faults.append(f"{self.name}: {type(error).__name__}: {str(error)[:600]}")

    def step(self):
        raise NotImplementedError

    def wait_for_server(self):
        self.close()
        while not self.up.wait(0.2) and not self.given_up.is_set():
            pass

    def close(self):
        if self.client is not None:
            self.client.close()
            self.client = None

    def call(self, method, path, body=None, status=200, headers=None):
        """One request: the answer, which must have this status."""
        self.clock.wait()
        if self.calls % NEW_CONNECTION_EVERY == 0:
            self.close()
        if self.client is None:
            self.client = self.server.client()
        self.calls += 1
        try:
            answer = self.client.request(method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise Gone(str(error)) from None
        if answer.status in (429, 503) and status not in (429, 503):
            raise Refused(path)
        if answer.status != status:
            raise Wrong(f"{method} {path}: {answer.status}, not {status}: {answer.body[:300]!r}")
        return answer

    def sure(self, question):
        """The answer to a question that is asked again until the server is there to answer it."""
        while not self.given_up.is_set():
            try:
                return question()
            except Gone:
                self.wait_for_server()
            except Refused:
                time.sleep(0.5)
        raise Gone("the run was given up")


def as_json(points):
    return [{"timestamp": START_S + second, "value": value} for second, value in points.items()]


class Client(Caller):
    """Pushes, reads, creates, changes and deletes; verifies what it reads."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # {resource's id: {metric's name: Series}}, {resource's id: attribute}
        self.resources, self.states, self.count = {}, {}, 0
        self.steps = [
            (30, self.push), (14, self.push_batch), (10, self.push_by_name), (18, self.read), (6, self.aggregate),
            (5, self.search), (4, self.create_resource), (3, self.delete_resource), (4, self.patch), (2, self.history),
            (2, self.delete_metric), (2, self.read_all_of_a_resource)]

    def step(self):
        if not self.series():
            self.create_resource()
            return
        weights, steps = zip(*self.steps)
        self.rng.choices(steps, weights)[0]()

    def resource(self):
        return self.rng.choice(sorted(self.resources))

    def series(self):
        return [series for metrics in self.resources.values() for series in metrics.values()]

    def new_name(self):
        self.count += 1
        return f"m{self.count}"

    def post(self, path, body, points, created=()):
        """Measures {series: {second: value}}: acknowledged, or found out. `created`: series that the request makes, whose ids
        are looked up: [(resource, name, series)]."""
        try:
            self.call("POST", path, body, status=202)
            happened = True
        except Gone:
            self.wait_for_server()
            happened = None
        for resource, name, series in created:
            series.id = self.sure(lambda resource=resource, name=name: self.metric_id(resource, name))
            if happened and series.id is None:
                raise Wrong(f"metric {name} of {resource} was acknowledged and is missing")
            if series.id is not None:
                self.resources[resource][name] = series
        points = {series: new for series, new in points.items() if series.id is not None}
        if happened is None and points:
            happened = self.sure(lambda: self.whole_or_absent(points))
        if happened:
            for series, new in points.items():
                series.add(new)

    def metric_id(self, resource, name):
        found = self.call("GET", f"/v1/resource/{TYPE}/{resource}").json()["metrics"]
        return found.get(name)

    def whole_or_absent(self, points):
        """Whether measures that were under way when the server ended are there: all, or none."""
        found = []
        for series, new in points.items():
            granularity = POLICIES[series.policy][0]
            last = {second for second in new if second >= max(new) - REMEMBERED_S // 2}
            begins = {(START_S + s) // granularity * granularity - START_S for s in last}
            there = self.buckets(series, "count", granularity, series.first_whole(granularity))
            expected = series.expected(granularity, len)
            found += [there.get(begin, 0) - expected.get(begin, 0) > 0 for begin in begins]
        if any(found) and not all(found):
            raise Wrong(f"a request that was under way at the end is there in part: {sum(found)} of {len(found)}")
        return all(found)

    def push(self):
        series = self.rng.choice(self.series())
        points = series.new_points(self.rng)
        self.post(f"/v1/metric/{series.id}/measures", as_json(points), {series: points})

    def push_batch(self):
        every = self.series()
        points = {series: series.new_points(self.rng) for series in self.rng.sample(every, self.rng.randint(1, len(every)))}
        body = {series.id: as_json(new) for series, new in points.items()}
        self.post("/v1/batch/metrics/measures", body, points)

    def push_by_name(self):
        points, created, body = {}, [], {}
        for resource in self.rng.sample(sorted(self.resources), min(2, len(self.resources))):
            metrics = self.resources[resource]
            for name, series in metrics.items():
                points[series] = series.new_points(self.rng)
                body.setdefault(resource, {})[name] = as_json(points[series])
            if len(metrics) < METRICS_MAX:
                name, series = self.new_name(), Series(None, self.rng.choice(list(POLICIES)))
                created.append((resource, name, series))
                points[series] = series.new_points(self.rng)
                body.setdefault(resource, {})[name] = {"archive_policy_name": series.policy,
                                                       "measures": as_json(points[series])}
        if body:
            self.post("/v1/batch/resources/metrics/measures?create_metrics=true", body, points, created)

    def buckets(self, series, method, granularity, first):
        path = (f"/v1/metric/{series.id}/measures?refresh=true&aggregation={method}&granularity={granularity}"
                f"&start={START_S + first}")
        return {seconds_of(row[0]): row[2] for row in self.call("GET", path).json()}

    def verify(self, series):
        for method, granularity, fold in [("sum", POLICIES[series.policy][0], sum), ("count", MINUTE_S, len)]:
            found = self.buckets(series, method, granularity, series.first_whole(granularity))
            expected = series.expected(granularity, fold)
            found = {second: value for second, value in found.items() if second >= series.first_whole(granularity)}
            if found != expected:
                odd = sorted(s for s in found.keys() | expected.keys() if found.get(s) != expected.get(s))
                raise Wrong(f"metric {series.id}: {method} by {granularity} s differs at {len(odd)} of {len(expected)} "
                            f"buckets: {[(s, found.get(s), expected.get(s)) for s in odd[:4]]}")

    def read(self):
        self.verify(self.rng.choice(self.series()))

    def read_all_of_a_resource(self):
        for series in self.resources[self.resource()].values():
            self.verify(series)

    def aggregate(self):
        """The sum over some metrics of one policy, of which all points are remembered by the minute."""
        every = [series for series in self.series() if series.policy == "soak-fine" and series.points]
        if not every:
            return
        chosen = self.rng.sample(every, self.rng.randint(1, len(every)))
        first = max(series.first_whole(MINUTE_S) for series in chosen)
        expected = {}
        for series in chosen:
            self.buckets(series, "sum", MINUTE_S, first)
            for second, value in series.expected(MINUTE_S, sum).items():
                expected[second] = expected.get(second, 0) + value
        operation = ["aggregate", "sum", ["metric", *([series.id, "sum"] for series in chosen)]]
        path = f"/v1/aggregates?granularity={MINUTE_S}&start={START_S + first}&fill=0"
        rows = self.call("POST", path, {"operations": operation}).json()["measures"]["aggregated"]
        found = {seconds_of(row[0]): row[2] for row in rows}
        found = {second: value for second, value in found.items() if second >= first}
        expected = {second: value for second, value in expected.items() if second >= first}
        if found != expected:
            raise Wrong(f"the sum over {len(chosen)} metrics: {sorted(found.items())[:5]}, not {sorted(expected.items())[:5]}")

    def search(self):
        query = {"=": {"project_id": self.name}}
        found = self.call("POST", f"/v1/search/resource/{TYPE}", query).json()
        if {resource["id"] for resource in found} != self.resources.keys():
            raise Wrong(f"a search finds {len(found)} resources of {len(self.resources)}")

    def create_resource(self):
        if len(self.resources) >= RESOURCES_MAX:
            self.delete_resource()
            return
        resource, state = str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), self.new_name()
        names = {self.new_name(): self.rng.choice(list(POLICIES)) for _ in range(self.rng.randint(1, METRICS_MAX))}
        body = {"id": resource, "project_id": self.name, "state": state,
                "metrics": {name: {"archive_policy_name": policy} for name, policy in names.items()}}
        try:
            found = self.call("POST", f"/v1/resource/{TYPE}", body, status=201).json()
        except Gone:
            self.wait_for_server()
            found = self.sure(lambda: self.show_or_none(resource))
        if found:
            self.states[resource] = state
            self.resources[resource] = {name: Series(found["metrics"][name], policy) for name, policy in names.items()}

    def show_or_none(self, resource):
        found = self.call("POST", f"/v1/search/resource/{TYPE}", {"=": {"id": resource}}).json()
        return found[0] if found else None

    def delete_resource(self):
        resource = self.resource()
        try:
            self.call("DELETE", f"/v1/resource/{TYPE}/{resource}", status=204)
        except Gone:
            self.wait_for_server()
            if self.sure(lambda: self.show_or_none(resource)):
                return
        gone = self.resources.pop(resource)
        del self.states[resource]
        self.sure(lambda: self.call("GET", f"/v1/resource/{TYPE}/{resource}", status=404))
        for series in gone.values():
            self.sure(lambda series=series: self.call("GET", f"/v1/metric/{series.id}/measures", status=404))

    def delete_metric(self):
        resource = self.resource()
        if not self.resources[resource]:
            return
        name = self.rng.choice(sorted(self.resources[resource]))
        try:
            self.call("DELETE", f"/v1/resource/{TYPE}/{resource}/metric/{name}", status=204)
        except Gone:
            self.wait_for_server()
            if self.sure(lambda: self.metric_id(resource, name)):
                return
        del self.resources[resource][name]

    def patch(self):
        resource, state = self.resource(), self.new_name()
        try:
            self.call("PATCH", f"/v1/resource/{TYPE}/{resource}", {"state": state})
        except Gone:
            self.wait_for_server()
            found = self.sure(lambda: self.show_or_none(resource))["state"]
            if found not in (state, self.states[resource]):
                raise Wrong(f"a change that was under way left {found!r}") from None
            state = found
        self.states[resource] = state

    def history(self):
        resource = self.resource()
        rows = self.call("GET", f"/v1/resource/{TYPE}/{resource}/history?sort=revision_start:desc&limit=5").json()
        if rows[0]["state"] != self.states[resource] or set(rows[0]["metrics"]) != self.resources[resource].keys():
            raise Wrong(f"the newest revision of {resource} is {rows[0]}")


class Watcher(Caller):
    """What operators and strangers do: flame graphs, figures, requests that are refused."""

    PATHS = [("GET", "/metrics", 200), ("GET", "/v1/status", 200), ("GET", "/healthcheck", 200),
             ("GET", "/v1/metric?limit=50", 200),
             ("GET", "/v1/capabilities", 200), ("GET", "/v1/openapi.json", 200), ("GET", "/v1/metric/none", 404),
             ("POST", "/v1/metric", 400), ("POST", "/v1/batch/metrics/measures", 400), ("DELETE", "/v1/archive_policy/none", 404)]
    FLAME_EVERY = 40

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.turn = 0

    def wait_for_server(self):
        super().wait_for_server()
        self.turn = 0

    def step(self):
        # Soon after each start, too: the first one reads the program's symbols, which stay. That is warm-up.
        self.turn += 1
        if self.turn % self.FLAME_EVERY == 2:
            self.call("GET", "/debug/flamegraph?seconds=1&frequency=200")
            return
        method, path, status = self.rng.choice(self.PATHS)
        self.call(method, path, b'["bad"' if method == "POST" else None, status=status, headers={"Accept": "*/*"})


def seconds_of(text, days={}):
    """Of a timestamp, relative to START_S."""
    day = days.get(text[:10])
    if day is None:
        if len(days) > 10_000:
            days.clear()
        day = days[text[:10]] = int(time.mktime(time.strptime(text[:10], "%Y-%m-%d"))) - time.timezone
    return day + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19]) - START_S


def prepare(client):
    """Policies and the resource type."""
    for name, (granularity, points) in POLICIES.items():
        window = name == "soak-window"
        create_policy(client, name, [(f"{granularity}s", points), (f"{MINUTE_S}s", 120)],
                      aggregation_methods=WINDOW_METHODS if window else METHODS, back_window=2 if window else 0)
    client.post("/v1/resource_type", {"name": TYPE, "attributes": {"state": {"type": "string", "required": False}}}).expect(201)
