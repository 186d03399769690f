"""Requests with known effects, and the model of the data that must exist once some of them were acknowledged.

Each writer has its own policies, resources and metrics and sends one request after the other. So at any moment a prefix of its requests
is acknowledged, at most one is in progress, and the server's data of the writer is the state after the prefix, or one step further. A
step is atomic; only a batch that creates metrics has two steps: the index first, then the measures.
"""

import copy
import dataclasses
import http.client
import json
import random
import threading
import time
import uuid

from support.http import JSON_HEADERS, basic

START_S = 1_600_000_000
METHODS = ["count", "sum"]
METRICS_MAX = 5
MEASURES_MAX = 30
REQUEST_TIMEOUT_S = 60
# Small limits, so that a short run flushes runs, merges them, trims logs and removes what was deleted.
CONFIG = """
[incoming]
sacks = 4
durability = {durability}
[metricd]
workers = 2
gather_ms = 5
checkpoint_ms = 150
metric_cleanup_delay = 1
[storage]
recent_bytes_max = 6000
dirty_bytes_max = 3000
"""
TYPE = "box"


def empty_state():
    return {"policies": [], "resources": {}, "metrics": {}}


@dataclasses.dataclass
class Request:
    """One request: the connection and process it went to, the writer's states from before it to after it."""

    run: int
    port: int
    text: str
    states: list
    status: int = None
    # When the head of its answer was handed to the system; None for one that was never answered.
    tick: int = None


class Writer:
    """Sends requests at random, and remembers what each makes of the writer's state."""

    def __init__(self, name, seed):
        self.name, self.rng = name, random.Random(f"{name} {seed}")
        self.state, self.requests, self.ids = empty_state(), [], {}
        self.count, self.second = 0, 0
        self.connection, self.run_number = None, None

    def connect(self, run_number, server_port):
        self.connection = http.client.HTTPConnection("127.0.0.1", server_port, timeout=REQUEST_TIMEOUT_S)
        self.connection.connect()
        self.run_number, self.port = run_number, self.connection.sock.getsockname()[1]

    def send(self, method, path, body, *steps):
        """Sends a request; each step changes the state it is given. Answers the answer's JSON, if any."""
        states = [self.state]
        for step in steps:
            states.append(copy.deepcopy(states[-1]))
            step(states[-1])
        request = Request(self.run_number, self.port, f"{self.name}: {method} {path}", states)
        self.requests.append(request)
        body = None if body is None else json.dumps(body).encode()
        self.connection.request(method, path, body=body, headers={**JSON_HEADERS, **basic("admin")})
        answer = self.connection.getresponse()
        content = answer.read()
        request.status = answer.status
        assert 200 <= answer.status < 300, f"{request.text}: {answer.status} {content[:300]!r}"
        self.state = states[-1]
        return json.loads(content) if content else None

    def begin(self):
        """What the rest needs: a policy, a resource with a metric, a metric without resource."""
        self.create_policy()
        self.create_resource()
        self.create_metric()

    def next(self):
        """One request, chosen at random among those that the state allows."""
        state, choices = self.state, [self.push, self.push, self.push, self.push_batch, self.push_batch]
        if len(state["metrics"]) < METRICS_MAX:
            choices += [self.create_metric, self.create_resource, self.push_and_create, self.push_and_create]
        else:
            choices += [self.delete_metric, self.delete_resource]
        if state["resources"]:
            choices += [self.patch]
        choices += [self.create_policy] if len(state["policies"]) < 2 else []
        if not state["metrics"]:
            choices = [self.create_metric]
        self.rng.choice(choices)()

    def new_name(self, kind):
        self.count += 1
        return f"{self.name}-{kind}{self.count}"

    def create_policy(self):
        name = self.new_name("p")
        body = {"name": name, "definition": [{"granularity": "1s"}, {"granularity": "60s"}],
                "aggregation_methods": METHODS, "back_window": 0}
        self.send("POST", "/v1/archive_policy", body, lambda state: state["policies"].append(name))

    def create_metric(self):
        name = self.new_name("m")
        body = {"archive_policy_name": self.rng.choice(self.state["policies"]), "unit": name}
        answer = self.send("POST", "/v1/metric", body, lambda state: state["metrics"].update({name: {}}))
        self.ids[name] = answer["id"]

    def create_resource(self):
        name, metric = self.new_name("r"), self.new_name("m")
        resource = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}{self.rng.random()}"))
        self.ids[name] = resource
        body = {"id": resource, "project_id": name, "state": "new", "metrics": {
            metric: {"archive_policy_name": self.state["policies"][0], "unit": metric}}}

        def step(state):
            state["resources"][name] = {"state": "new", "metrics": [metric]}
            state["metrics"][metric] = {}
        answer = self.send("POST", f"/v1/resource/{TYPE}", body, step)
        self.ids[metric] = answer["metrics"][metric]

    def patch(self):
        name = self.rng.choice(sorted(self.state["resources"]))
        value = self.new_name("s")
        self.send("PATCH", f"/v1/resource/{TYPE}/{self.ids[name]}", {"state": value},
                  lambda state: state["resources"][name].update(state=value))

    def measures(self):
        """New measures, each alone in its second: {second: value}, no value zero."""
        count = self.rng.choice([1, 1, 2, MEASURES_MAX])
        first, self.second = self.second, self.second + count
        return {first + index: self.rng.randint(1, 1 << 30) for index in range(count)}

    def push(self):
        metric, new = self.rng.choice(sorted(self.state["metrics"])), self.measures()
        self.send("POST", f"/v1/metric/{self.ids[metric]}/measures", as_json(new),
                  lambda state: state["metrics"][metric].update(new))

    def push_batch(self):
        metrics = sorted(self.state["metrics"])
        new = {metric: self.measures() for metric in self.rng.sample(metrics, self.rng.randint(1, len(metrics)))}
        body = {self.ids[metric]: as_json(measures) for metric, measures in new.items()}

        def step(state):
            for metric, measures in new.items():
                state["metrics"][metric].update(measures)
        self.send("POST", "/v1/batch/metrics/measures", body, step)

    def push_and_create(self):
        if not self.state["resources"]:
            self.create_resource()
            return
        resource, metric, new = self.rng.choice(sorted(self.state["resources"])), self.new_name("m"), self.measures()
        body = {self.ids[resource]: {metric: {"archive_policy_name": self.state["policies"][0], "unit": metric,
                                              "measures": as_json(new)}}}

        def create(state):
            state["resources"][resource]["metrics"].append(metric)
            state["metrics"][metric] = {}
        self.send("POST", "/v1/batch/resources/metrics/measures?create_metrics=true", body, create,
                  lambda state: state["metrics"][metric].update(new))
        self.ids[metric] = self.send("GET", f"/v1/resource/{TYPE}/{self.ids[resource]}/metric/{metric}", None)["id"]

    def delete_metric(self):
        metric = self.rng.choice(sorted(self.state["metrics"]))

        def step(state):
            del state["metrics"][metric]
            for resource in state["resources"].values():
                resource["metrics"] = [name for name in resource["metrics"] if name != metric]
        self.send("DELETE", f"/v1/metric/{self.ids[metric]}", None, step)

    def delete_resource(self):
        if not self.state["resources"]:
            self.delete_metric()
            return
        name = self.rng.choice(sorted(self.state["resources"]))

        def step(state):
            for metric in state["resources"].pop(name)["metrics"]:
                del state["metrics"][metric]
        self.send("DELETE", f"/v1/resource/{TYPE}/{self.ids[name]}", None, step)

    def allowed(self, tick):
        """(what was acknowledged before `tick`, that state and those one request further)."""
        known, last = empty_state(), None
        for request in self.requests:
            if request.tick is None or request.tick >= tick:
                return last, [known, *request.states[1:]]
            known, last = request.states[-1], request.text
        return last, [known]


def as_json(measures):
    return [{"timestamp": START_S + second, "value": value} for second, value in measures.items()]


def create_type(run_number, server_port):
    """The resource type, which all writers use; answers a writer whose state is nothing."""
    maker = Writer("maker", 0)
    maker.connect(run_number, server_port)
    maker.send("POST", "/v1/resource_type", {"name": TYPE, "attributes": {"state": {"type": "string"}}})
    return maker


def run_writers(writers, requests, kill_after=None):
    """Each writer sends so many requests, in a thread of its own. `kill_after()` is called when the first writer has sent its
    requests and is at rest; the others go on until it has ended the server."""
    errors, killed = [], threading.Event()

    def work(writer, steady):
        try:
            if not writer.requests:
                writer.begin()
            count = 0
            while count < requests or (kill_after and not steady):
                writer.next()
                count += 1
        except (OSError, http.client.HTTPException) as error:
            if not killed.is_set():
                errors.append(error)
        except AssertionError as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(writer, index == 0)) for index, writer in enumerate(writers)]
    for thread in threads:
        thread.start()
    threads[0].join(REQUEST_TIMEOUT_S)
    if kill_after:
        time.sleep(writers[0].rng.uniform(0, 0.1))
        killed.set()
        kill_after()
    for thread in threads:
        thread.join(REQUEST_TIMEOUT_S)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads)


def match_answers(writers, run_number, answers):
    """Gives each answered request the tick of its answer: the answers of a connection are in the order of its requests."""
    by_port = {}
    for answer in answers:
        by_port.setdefault(answer.port, []).append(answer)
    for writer in writers:
        own = [request for request in writer.requests if request.run == run_number]
        found = by_port.get(own[0].port, []) if own else []
        assert len(found) >= sum(request.status is not None for request in own), f"{writer.name}: answers are missing"
        for request, answer in zip(own, found):
            assert request.status in (None, answer.status), (request.text, answer)
            if answer.status < 300:
                request.tick = answer.tick
