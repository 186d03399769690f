"""Projects are separated: random requests of the project alpha, which knows every id and name of the project beta, change nothing of
beta and show nothing of it.

Beta's ids, texts and values are unique. So an answer to alpha with one of them that alpha did not send is a leak. The test runs with
Gnocchi's rules and with those of an operator that check the project.
"""

import random
import time
import uuid

import pytest

from auth import calls, cloud
from auth.cloud import Caller
from inputs.remote_write import label, sample, series, snappy
from support.process import wait_until

ROUNDS = 500
PROCESSED_TIMEOUT_S = 120
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
POLICY = {"name": "p", "definition": [{"granularity": "1m", "points": 100000}],
          "aggregation_methods": calls.METHODS}


# Readers and members may do what only creators and services may do with Gnocchi's rules, with what is their project's.
OPEN = """
"own": "project_id:%(created_by_project_id)s or project_id:%(project_id)s or project_id:%(resource.project_id)s"
"people": "role:reader or role:member"
"get status": "rule:people or role:admin"
"get metric": "role:admin or role:service or rule:people and rule:own"
"get measures": "role:admin or role:service or rule:own and not role:nobody"
"list metric": "role:admin or role:reader and rule:own"
"search metric": "role:admin or role:service or rule:own"
"post measures": "role:admin or role:service or role:reader and rule:own"
"delete metric": "rule:own or role:admin"
"get resource": "role:admin or rule:own"
"list resource": "role:admin or (role:reader or role:member) and rule:own"
"search resource": [["role:admin"], ["rule:people", "rule:own"]]
"update resource": "role:admin or role:service or rule:own"
"delete resource": "role:admin or not role:service and rule:own"
"delete resources": "role:admin or role:member and rule:own or role:reader and rule:own"
"""

# Nobody puts anything into another's project, so that the other sees no more than before.
CLOSED = """
"create resource": "role:admin or role:service or project_id:%(project_id)s"
"""

RULES = {"Gnocchi's": "", "open": OPEN, "closed": CLOSED}

CONDITIONS = [{}] * 6 + [{"If-Match": '"x"'}, {"If-None-Match": "*"}, {"If-Unmodified-Since": "Sat, 01 Jan 2000 00:00:00 GMT"},
                         {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}]


class Estate:
    """What a project has: resources that it made and one that a service made for it, with history, metrics and measures."""

    def __init__(self, world, caller, project, mark, value):
        """`mark` begins each name and text; `value` is the first measure's, the others follow."""
        self.resources, self.metrics, self.names, self.texts, self.values, self.annotations = [], [], [], [], [], []
        maker, service = world[caller], world["service"]
        for number, owner in enumerate([maker, maker, service]):
            id = str(uuid.uuid4())
            names = [f"{mark}-metric-{number}", "shared"]
            flavor = f"{mark}-flavor-{number}"
            body = {"id": id, "project_id": project.id, "user_id": f"{mark}-user", "flavor": flavor,
                    "metrics": {name: {"archive_policy_name": "p"} for name in names}}
            made = owner.post("/v1/resource/t", body).expect(201).json()
            owner.patch(f"/v1/resource/t/{id}", {"flavor": flavor + "-now"}).expect(200)
            note = {"text": f"{mark}-note-{number}"}
            self.annotations.append((id, owner.post(f"/v1/resource/t/{id}/annotation", note).expect(201).json()["id"]))
            self.resources.append(id)
            self.names += names
            self.texts += [flavor, f"{mark}-user", note["text"]]
            self.metrics += made["metrics"].values()
        host = maker.post("/v1/resource/t", {"id": f"{mark}-host", "project_id": project.id}).expect(201).json()
        self.resources.append(host["id"])
        self.metrics.append(maker.post("/v1/metric", {"archive_policy_name": "p", "name": f"{mark}-alone"}).expect(201).json()["id"])
        for number, metric in enumerate(self.metrics):
            measures = [{"timestamp": f"2026-03-01T00:0{minute}:00", "value": value + number} for minute in range(3)]
            service.post(f"/v1/metric/{metric}/measures", measures).expect(202)
            self.values.append(str(value + number))
        wait_until(lambda: all(world["admin"].get(f"/v1/metric/{metric}/measures").expect(200).json()
                               for metric in self.metrics), PROCESSED_TIMEOUT_S, "measures")

    def marks(self):
        """Texts that show that an answer speaks of it. Not the names: others may give their own things the same ones."""
        annotations = {annotation for _, annotation in self.annotations}
        return {*self.resources, *self.metrics, *self.values, *self.texts, *annotations}

    def seen_by(self, client):
        """All that there is to know of it."""
        seen = {}
        for id in self.resources:
            path = f"/v1/resource/t/{id}"
            for suffix in ["", "/history?details=true&annotations=true", "/metric", "/annotation"]:
                seen[path + suffix] = client.get(path + suffix).expect(200).json()
        for id in self.metrics:
            path = f"/v1/metric/{id}"
            seen[path] = client.get(path).expect(200).json()
            for method in calls.METHODS:
                arguments = f"/measures?refresh=true&aggregation={method}"
                seen[path + arguments] = client.get(path + arguments).expect(200).json()
        search = {"in": {"id": self.resources}}
        for history in ["true", "false"]:
            path = f"/v1/search/resource/t?history={history}&sort=id:asc&sort=revision_start:asc"
            seen[path] = client.post(path, search).expect(200).json()
        body = {"operations": "(aggregate sum (metric shared mean))", "search": search, "resource_type": "t"}
        seen["sum"] = client.post("/v1/aggregates?groupby=id", body).expect(200).json()
        for arguments in ["groupby=project_id", "groupby=flavor&groupby=creator&start=2026-01-01&stop=2100-01-01&details=true"]:
            path = f"/v1/aggregates?use_history=true&{arguments}"
            seen[path] = client.post(path, body).expect(200).json()
        listed = client.get("/v1/metric?sort=id:asc").expect(200).json()
        seen["/v1/metric"] = [metric for metric in listed if metric["id"] in self.metrics]
        for path in ["/v1/archive_policy/p", "/v1/resource_type/t", "/v1/archive_policy_rule/default"]:
            seen[path] = client.get(path).expect(200).json()
        return seen


def all_seen_by(client):
    """Everything that lists and sums show, so that what somebody adds is a change, too."""
    lists = ["/v1/metric?sort=id:asc", "/v1/resource/generic?sort=id:asc",
             "/v1/resource/t?history=true&sort=id:asc&sort=revision:asc"]
    seen = {path: client.get(path).expect(200).json() for path in lists}
    path = "/v1/search/resource/generic?history=true&sort=id:asc&sort=revision:asc"
    seen[path] = client.post(path, {"!=": {"id": str(uuid.UUID(int=0))}}).expect(200).json()
    body = {"operations": "(aggregate sum (metric * mean))", "search": {}, "resource_type": "generic"}
    for path in ["/v1/aggregates?groupby=project_id", "/v1/aggregates?groupby=project_id&use_history=true", "/v1/aggregates"]:
        seen[path] = client.post(f"{path}{'&' if '?' in path else '?'}needed_overlap=0", body).expect(200).json()
    return seen


def play(world, alpha, beta, projects, seed, rounds):
    """Sends random requests as a member of alpha; every leak, and how many requests succeeded."""
    dice = random.Random(seed)
    mixed = calls.Tenant(
        dice, [*alpha.resources, *beta.resources, str(uuid.UUID(int=1))], [*alpha.metrics, *beta.metrics],
        sorted({*alpha.names, *beta.names}), [project.id for project in projects], [*alpha.texts, *beta.texts],
        [*alpha.annotations, *beta.annotations],
    )
    aimed = calls.Tenant(dice, beta.resources, beta.metrics, beta.names, mixed.projects, beta.texts, beta.annotations)
    marks, leaks, successes = beta.marks(), [], 0
    for _ in range(rounds):
        make = dice.choice(calls.READS if dice.random() < 0.6 else calls.WRITES)
        caller = dice.choice(["member", "member", "reader"])
        answer, request = send(world[caller], make(dice.choice([mixed, aimed])), dice.choice(CONDITIONS))
        assert answer.status < 500, f"{request}: {answer!r}"
        # Whoever is told that a condition fails learns something of the thing.
        leaks += [f"{answer!r} to {request}" for _ in marks_in(request.split()[1], marks) if answer.status in (304, 412)]
        successes += answer.status < 300
        leaks += [f"{mark} in the answer to {request}: {answer!r}" for mark in marks_in(answer, marks) - marks_in(request, marks)]
        if answer.status == 201:
            mixed.found(request, answer.json())
    return leaks, successes


def send(client, call, condition=()):
    method, path, body = call
    headers = {**(JSON_PATCH if method == "PATCH" and isinstance(body, bytes) else {}), **dict(condition)}
    request = f"{method} {path} {body}"
    return client.request(method, path, body, headers=headers), request


def marks_in(something, marks):
    text = something if isinstance(something, str) else f"{something.headers}{something.body.decode()}"
    return {mark for mark in marks if mark in text}


@pytest.fixture(scope="module")
def everybody(keystone):
    return cloud.people(keystone)


@pytest.fixture
def make_world(gnudi, keystone, everybody, tmp_path):
    """Makes a server with an operator's rules; who calls it."""

    def make(rules):
        policy = tmp_path / "rules.yaml"
        policy.write_text(rules)
        server = gnudi(config=cloud.config(keystone, everybody) + f"[oslo_policy]\npolicy_file = {policy}\n")
        clients = {name: Caller(server, token) for name, token in everybody.tokens.items()}
        clients["admin"].post("/v1/archive_policy", POLICY).expect(201)
        attributes = {"flavor": {"type": "string", "required": False}}
        clients["admin"].post("/v1/resource_type", {"name": "t", "attributes": attributes}).expect(201)
        # Makes the type that remote writes go to, which tenants may not.
        write = snappy(series(label("__name__", "up"), label("job", "zebra-job"), label("instance", "admin"), sample(1, 1)))
        clients["admin"].post("/v1/prometheus/write", write).expect(202)
        return clients

    return make


@pytest.mark.parametrize("rules", RULES)
def test_no_series_of_requests_changes_or_shows_anything_of_another_project(make_world, everybody, rules, seed, rounds):
    clients = make_world(RULES[rules])
    alpha = Estate(clients, "maker", everybody.alpha, "apple", 1000.5)
    beta = Estate(clients, "other project", everybody.beta, "zebra", 66600000.5)
    callers = ["other project", "admin"]
    before = {caller: beta.seen_by(clients[caller]) for caller in callers}
    all_before = all_seen_by(clients["other project"])

    leaks, successes = play(clients, alpha, beta, [everybody.alpha, everybody.beta], seed, rounds)
    assert not leaks, "\n".join(leaks)
    assert successes >= rounds / 5, "most requests came to nothing, and prove nothing"

    now = {caller: beta.seen_by(clients[caller]) for caller in callers}
    if rules == "closed":
        made = clients["member"].post("/v1/resource/t", {"id": "apple-gift", "project_id": everybody.alpha.id}).expect(201).json()
        clients["member"].patch(f"/v1/resource/t/{made['id']}", {"project_id": everybody.beta.id}).expect(403)
        before["other project"] |= all_before
        now["other project"] |= all_seen_by(clients["other project"])
    for caller in callers:
        same_as_before(caller, before[caller], now[caller])


def test_the_history_of_what_was_given_away_ends_there(make_world, everybody):
    """Two resources whose time begins together in a query: the first one would stand for both, and belongs to beta since."""
    clients = make_world("")
    service = clients["service"]
    first, second = sorted(str(uuid.uuid4()) for _ in range(2))
    now = int(time.time()) // 60 * 60
    values = {first: [(now - 3600, 2.5), (now + 3600, 66600000.5)], second: [(now - 3600, 1.5)]}
    for id in (first, second):
        body = {"id": id, "project_id": everybody.alpha.id, "metrics": {"m": {"archive_policy_name": "p"}}}
        metric = service.post("/v1/resource/t", body).expect(201).json()["metrics"]["m"]
        measures = [{"timestamp": timestamp, "value": value} for timestamp, value in values[id]]
        service.post(f"/v1/metric/{metric}/measures", measures).expect(202)
        service.get(f"/v1/metric/{metric}/measures?refresh=true").expect(200)
    service.patch(f"/v1/resource/t/{first}", {"project_id": everybody.beta.id}).expect(200)
    path = f"/v1/aggregates?use_history=true&groupby=project_id&start={now - 86400}&stop={now + 86400}"
    for search in ({}, {"=": {"project_id": everybody.alpha.id}}):
        body = {"operations": "(aggregate sum (metric m mean))", "resource_type": "t", "search": search}
        [group] = clients["member"].post(path, body).expect(200).json()
        assert group["group"] == {"project_id": everybody.alpha.id}
        assert [value for *_, value in group["measures"]["measures"]["aggregated"]] == [4.0], group


def same_as_before(caller, was, now):
    changed = [path for path in was if now[path] != was[path]]
    assert not changed, f"as {caller} sees it: {changed[0]} is {now[changed[0]]}, was {was[changed[0]]}"


@pytest.mark.parametrize("rules", ["Gnocchi's", "open"])
def test_the_same_requests_would_show_much_to_others(make_world, everybody, rules, seed):
    """The proof of the proof: to the administrator nearly every kind of reading shows beta's marks."""
    clients = make_world(RULES[rules])
    alpha = Estate(clients, "maker", everybody.alpha, "apple", 1000.5)
    beta = Estate(clients, "other project", everybody.beta, "zebra", 66600000.5)
    tenant = calls.Tenant(random.Random(seed), beta.resources, beta.metrics, beta.names, [everybody.beta.id], beta.texts, beta.annotations)
    marks = beta.marks()
    blind = []
    for make in calls.READS:
        found = False
        for _ in range(40):
            answer, request = send(clients["admin"], make(tenant))
            if answer.status < 300 and marks_in(answer, marks) - marks_in(request, marks):
                found = True
                break
        if not found:
            blind.append(make.__name__)
    assert blind in (["_read_the_rest"], []), blind
    assert alpha.marks().isdisjoint(marks)
