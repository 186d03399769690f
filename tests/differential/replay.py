"""Runs one scenario on two servers and finds where they differ; minimises a differing scenario."""

import dataclasses
import itertools

from differential.scenario import Scenario, body_of

NUMBERS = itertools.count()
SHRINK_REPLAYS_MAX = 150


@dataclasses.dataclass
class Difference:
    """The first request that the servers answered differently."""

    request: str
    ours: str
    theirs: str

    def __str__(self):
        return f"{self.request}\n  gnudi:   {self.ours}\n  gnocchi: {self.theirs}"


class Metric:
    """A fresh metric of the scenario's policy on one server."""

    def __init__(self, client, policy, number):
        self.client = client
        name = f"differential-{number}"
        self.created = client.post("/v1/archive_policy", {"name": name, **policy})
        self.created.expect(201)
        answer = client.post("/v1/metric", {"archive_policy_name": name}).expect(201)
        self.path = f"/v1/metric/{answer.json()['id']}/measures"
        self.id = answer.json()["id"]
        self.refresh = f"?refresh=true&stop=0&aggregation={policy['aggregation_methods'][0]}"

    def play(self, kind, content):
        """(status, body without this server's metric id) of one step."""
        if kind in ("push", "batch"):
            answer = self.push(kind, body_of(content))
            # One pass for each push, as gnudi defines it, whatever Gnocchi's workers would have merged.
            self.client.get(self.path + self.refresh).expect(200)
        else:
            answer = self.client.get(f"{self.path}?refresh=true&{content}")
        return answer.status, answer.body.decode().replace(self.id, "ID")

    def push(self, kind, body):
        if kind == "push":
            return self.client.post(self.path, body)
        return self.client.post("/v1/batch/metrics/measures", b'{"%s": %s}' % (self.id.encode(), body))


def first_difference(scenario, ours, theirs):
    """The first step that the clients `ours` and `theirs` answer differently, or None."""
    number = next(NUMBERS)
    mine, other = (Metric(client, scenario.policy, number) for client in (ours, theirs))
    for kind, content in scenario.steps:
        got, wanted = mine.play(kind, content), other.play(kind, content)
        if not same(kind, got, wanted):
            request = f"GET {content}" if kind == "query" else f"{kind} {body_of(content).decode()}"
            return Difference(request, show(got), show(wanted))
    return None


def same(kind, got, wanted):
    """Whether gnudi's (status, body) is right, given Gnocchi's."""
    if wanted[0] == 500:
        # Calendar resampling of a rate, or with a start, for one: gnudi may answer it or refuse it.
        # (Equal is what two Gnocchis are, which `--oracle` compares.)
        return got[0] < 500 or got == wanted
    # The texts of refused pushes are compared by test_bad_requests.py.
    return got == wanted if kind == "query" else got[0] == wanted[0]


def show(answer):
    return str(answer)[:3000]


def candidates(scenario):
    """Smaller scenarios, the boldest cuts first."""
    steps = scenario.steps
    half = len(steps) // 2
    if half:
        yield Scenario(scenario.policy, steps[half:])
    for index in reversed(range(len(steps))):
        yield Scenario(scenario.policy, steps[:index] + steps[index + 1:])
    for index, (kind, points) in enumerate(steps):
        if kind != "query" and len(points) > 1:
            middle = len(points) // 2
            cuts = [points[:middle], points[middle:]]
            cuts += [points[:at] + points[at + 1:] for at in range(len(points))]
            for fewer in cuts:
                yield Scenario(scenario.policy, steps[:index] + [(kind, fewer)] + steps[index + 1:])


def shrink(scenario, ours, theirs):
    """The smallest scenario found that still differs, and its difference."""
    difference = first_difference(scenario, ours, theirs)
    replays = 0
    progress = True
    while progress and replays < SHRINK_REPLAYS_MAX:
        progress = False
        for smaller in candidates(scenario):
            replays += 1
            found = first_difference(smaller, ours, theirs)
            if found is not None:
                scenario, difference, progress = smaller, found, True
                break
            if replays >= SHRINK_REPLAYS_MAX:
                break
    return scenario, difference
