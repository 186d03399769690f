"""Aggregates without any input: 404 and 400 as in Gnocchi, or an empty answer if the request or the configuration asks for it."""

import uuid

import pytest

from support.http import create_metric, create_policy, post_seconds

NOBODY = {"=": {"host": "nobody's"}}


class World:
    """Two metrics of resources whose points are at different seconds, one without points, and one of another name."""

    def __init__(self, server):
        self.client = client = server.client()
        create_policy(client, "second", [("1s", None)], aggregation_methods=["mean", "sum"])
        client.post("/v1/resource_type", {"name": "host", "attributes": {"host": {"type": "string"}}}).expect(201)
        self.metrics = []
        for host, names in [("a", ["cpu", "other"]), ("b", ["cpu"]), ("c", ["cpu"])]:
            metrics = {name: {"archive_policy_name": "second"} for name in names}
            made = client.post("/v1/resource/host", {"id": host, "host": host, "metrics": metrics}).expect(201).json()
            self.metrics.append(made["metrics"]["cpu"])
        post_seconds(client, self.metrics[0], [10, 11])
        post_seconds(client, self.metrics[1], [20])
        for metric in self.metrics:
            client.get(f"/v1/metric/{metric}/measures?refresh=true").expect(200)

    def aggregates(self, arguments="", search=None, operations="(aggregate sum (metric cpu mean))"):
        body = {"operations": operations}
        if search is not None:
            body.update(resource_type="host", search=search)
        return self.client.post(f"/v1/aggregates?{arguments}", body)


@pytest.fixture(scope="module")
def world(server):
    return World(server)


@pytest.mark.parametrize("arguments, search, operations, status, empty", [
    # No resource; with operations that make no one series; by groups, with history and without.
    ("", NOBODY, "(aggregate sum (metric cpu mean))", 404, {"measures": {"aggregated": []}}),
    ("", NOBODY, "(metric cpu mean)", 404, {"measures": {}}),
    ("details=true", NOBODY, "(metric cpu mean)", 404, {"measures": {}, "references": []}),
    ("groupby=host", NOBODY, "(aggregate sum (metric cpu mean))", 404, []),
    ("groupby=host&use_history=true", NOBODY, "(aggregate sum (metric cpu mean))", 404, []),
    # No metric of the name, or of one of two names.
    ("", {}, "(aggregate sum (metric none mean))", 404, {"measures": {"aggregated": []}}),
    ("", {}, "(+ (metric cpu mean) (metric none mean))", 400, {"measures": {"aggregated": []}}),
    # No points that go together, and none in the time.
    ("needed_overlap=50", {"in": {"host": ["a", "b"]}}, "(aggregate sum (metric cpu mean))", 400,
     {"measures": {"aggregated": []}}),
    ("start=1000&stop=2000&needed_overlap=100", {}, "(aggregate sum (metric cpu mean))", 400,
     {"measures": {"aggregated": []}}),
    ("start=1000", {}, "(rolling mean 2 (aggregate sum (metric cpu mean)))", 400, {"measures": {"aggregated": []}}),
])
def test_nothing_is_empty_where_it_is_asked_for(world, arguments, search, operations, status, empty):
    world.aggregates(arguments, search, operations).expect(status)
    world.aggregates(arguments + "&empty=false", search, operations).expect(status)
    assert world.aggregates(arguments + "&empty=true", search, operations).expect(200).json() == empty


def test_groups_that_have_nothing_are_shown_empty(world):
    path = "needed_overlap=100&groupby=host&empty=true"
    groups = world.aggregates(path, {}, "(aggregate sum (metric cpu mean))").expect(200).json()
    found = {group["group"]["host"]: group["measures"]["measures"]["aggregated"] for group in groups}
    assert [(host, len(points)) for host, points in sorted(found.items())] == [("a", 2), ("b", 1), ("c", 0)]


def test_metrics_by_their_ids(world):
    first, second, silent = world.metrics
    operations = f"(aggregate sum (metric ({first} mean) ({second} mean)))"
    world.aggregates("needed_overlap=100", None, operations).expect(400)
    answer = world.aggregates("needed_overlap=100&empty=true", None, operations).expect(200)
    assert answer.json() == {"measures": {"aggregated": []}}
    alone = f"(rolling mean 1 (metric {silent} mean))"
    world.aggregates("", None, alone).expect(400)
    assert world.aggregates("empty=true", None, alone).expect(200).json() == {"measures": {silent: {"mean": []}}}


def test_the_older_form(world):
    client, (first, second, _) = world.client, world.metrics
    both = f"metric={first}&metric={second}"
    for answer in [lambda more: client.get(f"/v1/aggregation/metric?{both}{more}"),
                   lambda more: client.post(f"/v1/aggregation/metric?{more}", [first, second]),
                   lambda more: client.post(f"/v1/aggregation/resource/host/metric/cpu?{more}", {})]:
        answer("").expect(400)
        assert answer("&empty=true").expect(200).json() == []
    grouped = f"/v1/aggregation/resource/host/metric/cpu?groupby=host&empty=true"
    groups = client.post(grouped, {}).expect(200).json()
    assert [(group["group"]["host"], len(group["measures"])) for group in groups] == [("a", 2), ("b", 1), ("c", 0)]


@pytest.mark.parametrize("arguments, operations, search, status", [
    ("", f"(metric {uuid.UUID(int=7)} mean)", None, 404),
    ("", "(metric cpu max)", {}, 404),
    ("granularity=60", "(metric cpu mean)", {}, 400),
    ("needed_overlap=100", "(aggregate sum (metric (cpu mean) (cpu sum)))", {"=": {"none": 1}}, 400),
    ("", "(metroc cpu mean)", {}, 400),
    ("groupby=none", "(metric cpu mean)", {}, 400),
    ("empty=perhaps", "(metric cpu mean)", {}, 400),
])
def test_what_is_named_wrongly_stays_an_error(world, arguments, operations, search, status):
    arguments += "" if "empty" in arguments else "&empty=true"
    answer = world.aggregates(arguments, search, operations).expect(status).json()
    assert answer["code"] == status and answer["description"]


def test_who_may_see_nothing_is_refused_as_before(world):
    body = {"operations": f"(metric {world.metrics[0]} mean)"}
    world.client.as_user("mallory").post("/v1/aggregates?empty=true", body).expect(403)


def test_the_configuration_says_what_counts_without_the_argument(gnudi):
    server = gnudi(config="[api]\nempty_answers = true\n")
    client = server.client()
    body = {"operations": "(metric cpu mean)", "resource_type": "generic", "search": {}}
    assert client.post("/v1/aggregates", body).expect(200).json() == {"measures": {}}
    client.post("/v1/aggregates?empty=false", body).expect(404)
    create_policy(client, "second", [("1s", None)])
    metrics = [create_metric(client, "second") for _ in range(2)]
    path = "/v1/aggregation/metric?" + "&".join(f"metric={metric}" for metric in metrics)
    assert client.get(path).expect(200).json() == []
    client.get(path + "&empty=0").expect(400)
