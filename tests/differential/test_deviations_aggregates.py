"""Rows of docs/compatibility.md about aggregates across metrics, each on both servers."""

import pytest

from differential.deviations import metric_with, ours, policy_named, theirs, unique
from support.gnocchi import Gnocchi
from support.gnudi import Gnudi

FINE = [("1s", 600)]
POINTS = [(f"2020-01-01T00:00:0{second}", second) for second in range(1, 6)]
MISSING = "00000000-0000-4000-8000-000000000000"


def aggregates(client, operations, query="", **more):
    return client.post(f"/v1/aggregates{query}", {"operations": operations, **more})


def values(answer):
    """The only series of a result, or the status."""
    if answer.status != 200:
        return answer.status
    (rows,) = answer.json()["measures"].values() if "aggregated" in answer.json()["measures"] else [answer.json()["measures"]]
    return [row[2] for row in rows] if isinstance(rows, list) else rows


@pytest.mark.parametrize("operations", [
    "(aggregate mean 5)", "(+ (metric ({m} mean) ({n} mean)) (metric ({m} mean) ({n} mean) ({m} sum)))",
    "(- (> (metric {m} mean) 1))",
    "(resample var 2 (metric {m} mean))",
])
def test_operations_without_a_meaning(ours, theirs, operations):
    found = []
    for client in (theirs, ours):
        m, n = (metric_with(client, POINTS, FINE) for _ in range(2))
        found.append(aggregates(client, operations.format(m=m, n=n)).status)
    assert found[1] == 400 and found[0] in (400, 500), found


def test_a_count_that_no_float_has_met(ours, theirs):
    found = []
    for client in (theirs, ours):
        metric = metric_with(client, POINTS, FINE)
        found.append(values(aggregates(client, ["aggregate", "count", ["metric", metric, "mean"]])))
    assert found == [500, [1.0] * 5]


def test_a_resample_to_many_months(ours, theirs):
    found = []
    for client in (theirs, ours):
        one, other = (metric_with(client, [(f"2020-0{month}-10", month) for month in range(1, 6)],
                                  [("1d", 400)]) for _ in range(2))
        query = f"metric={one}&metric={other}&granularity=86400&resample=M"
        found.append(client.get(f"/v1/aggregation/metric?{query}").status)
    assert found == [500, 200]


def test_the_cosine_of_a_comparison(ours, theirs):
    found = []
    for client in (theirs, ours):
        metric = metric_with(client, POINTS, FINE)
        found.append(aggregates(client, f"(cos (> (metric {metric} mean) 2))").status)
    assert found == [500, 200]


def test_all_resources_count_in_a_legacy_aggregate(shared_dir, postgres):
    """Beyond `max_limit`, and where the metric is called `metric`."""
    config, found = "[api]\nmax_limit = 3\n", []
    for server in (Gnocchi(shared_dir / unique("limited"), postgres, config=config),
                   Gnudi(shared_dir / unique("limited"), config=config, arguments=["--skip-archive-policies-creation"])):
        with server:
            client = server.client()
            policy = policy_named(client, FINE)
            for number in range(5):
                metrics = {name: {"archive_policy_name": policy} for name in ("cpu", "metric")}
                made = client.post("/v1/resource/generic", {"id": f"limited-{number}", "metrics": metrics}).expect(201).json()
                for metric in made["metrics"].values():
                    client.post(f"/v1/metric/{metric}/measures", [{"timestamp": 1, "value": 1}]).expect(202)
                    client.get(f"/v1/metric/{metric}/measures?refresh=true").expect(200)
            answers = [client.post(f"/v1/aggregation/resource/generic/metric/{name}?aggregation=sum", b"") for name in ("cpu",
                                                                                                                        "metric")]
            found.append([[row[2] for row in answer.json()] if answer.status == 200 else answer.status for answer in answers])
    assert found == [[[3.0], 405], [[5.0], [5.0]]], found


@pytest.mark.parametrize("body", [
    {}, {"operations": ["metric", "x", "mean"], "resource_type": "generic"},
    {"operations": ["metric", "x", "mean"], "resource_type": "generic", "search": 5},
])
def test_half_a_request(ours, theirs, body):
    found = [client.post("/v1/aggregates", body).status for client in (theirs, ours)]
    assert found[1] == 400 and found[0] in (400, 500), found


def test_an_id_in_capitals(ours, theirs):
    found = []
    for client in (theirs, ours):
        metric = metric_with(client, POINTS, FINE)
        found.append([client.post("/v1/aggregates", {"operations": ["metric", form, "mean"]}).status
                      for form in (metric.upper(), metric.replace("-", ""))])
    assert found[1] == [200, 200] and found[0] != [200, 200], found


def test_an_argument_given_twice(ours, theirs):
    found = []
    for client in (theirs, ours):
        metric = metric_with(client, POINTS, FINE)
        found.append(client.post("/v1/aggregates?start=1&start=2", {"operations": ["metric", metric, "mean"]}).status)
    assert found[1] == 400 and found[0] in (400, 500), found


def grouped(client, query):
    kind, policy = unique("type"), policy_named(client, FINE)
    client.post("/v1/resource_type", {"name": kind, "attributes": {"host": {"type": "string", "required": False}}}).expect(201)
    for host in ("b", None, "a"):
        body = {"id": unique("grouped"), "metrics": {"cpu": {"archive_policy_name": policy}}, **({"host": host} if host else {})}
        made = client.post(f"/v1/resource/{kind}", body).expect(201).json()
        metric = made["metrics"]["cpu"]
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": "2020-01-01", "value": 1}]).expect(202)
        client.get(f"/v1/metric/{metric}/measures?refresh=true").expect(200)
    operations = ["aggregate", "sum", ["metric", "cpu", "sum"]]
    return aggregates(client, operations, query, resource_type=kind, search={})


def test_groups_without_the_field_come_last(ours, theirs):
    """As PostgreSQL, under this Gnocchi, has it."""
    found = [[group["group"]["host"] for group in grouped(client, "?groupby=host").expect(200).json()] for client in (theirs,
                                                                                                                      ours)]
    assert found[1] == ["a", "b", None] and found[0] == found[1], found


def test_history_without_a_start(ours, theirs):
    """Two resources in one group."""
    found = [grouped(client, "?groupby=user_id&use_history=true").status for client in (theirs, ours)]
    assert found == [500, 200]


def test_resources_that_begin_together_in_history(ours, theirs):
    """With `start`, and the same moment: only the first of a group counts, on both."""
    found = []
    for client in (theirs, ours):
        answer = grouped(client, "?groupby=user_id&use_history=true&start=2019-01-01&stop=2100-01-01").expect(200).json()
        found.append([group["measures"]["measures"]["aggregated"] for group in answer])
    assert len(found[0]) == len(found[1]), found

