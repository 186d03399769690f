"""Rows of docs/compatibility.md, each on both servers: Gnocchi's answer and gnudi's. `rows.py` lists the test of each row."""

import pytest

from differential.deviations import both, ours, theirs, unique
from support.http import create_metric, create_policy


def measures(client, points, definition, query="", **policy):
    """What is stored of points, as (timestamp, granularity, value)."""
    name = unique("policy")
    create_policy(client, name, definition, aggregation_methods=["mean", "sum"], **policy)
    path = f"/v1/metric/{create_metric(client, name)}/measures"
    client.post(path, [{"timestamp": time, "value": value} for time, value in points]).expect(202)
    return [tuple(row) for row in client.get(f"{path}?refresh=true&aggregation=sum{query}").expect(200).json()]


@pytest.mark.parametrize("before_ns,theirs_sum,theirs_alone", [(100, [4, 3], []), (200, [5, 2], [1])])
def test_bucket_starts(ours, theirs, before_ns, theirs_sum, theirs_alone):
    """Gnocchi divides floats: a point up to 100 ns before a minute counts to the next one, or to none where it is the first."""
    point = (f"2020-01-01T00:00:59.{1_000_000_000 - before_ns:09d}", 1)
    others = [("2020-01-01T00:00:01", 4), ("2020-01-01T00:01:30", 2)]
    for name, client in both(ours, theirs).items():
        expected = {"gnocchi": (theirs_sum, theirs_alone), "gnudi": ([5, 2], [1])}[name]
        for points, values in zip(([*others, point], [point]), expected):
            found = measures(client, points, [("60s", 60)], back_window=2)
            assert [row[2] for row in found] == values, (name, found)


def test_a_read_shows_buckets_that_have_expired(ours, theirs):
    """Both cut by whole blocks of storage, and a read does not cut again."""
    points = [(f"2020-01-01T00:{minute:02d}:00", minute) for minute in range(20)]
    found = {name: measures(client, points, [("60s", 5)]) for name, client in both(ours, theirs).items()}
    assert [row[2] for row in found["gnudi"]] == [15, 16, 17, 18, 19]
    assert found["gnudi"] == found["gnocchi"]


def policy(client, **body):
    body = {"name": unique("policy"), "definition": [{"granularity": "1s", "points": 10}], **body}
    return client.post("/v1/archive_policy", body)


def test_methods_that_contradict_each_other(ours, theirs):
    kept = policy(theirs, aggregation_methods=["mean", "-mean"]).expect(201).json()
    assert kept["aggregation_methods"] == ["-mean"]
    assert "mean" in policy(ours, aggregation_methods=["mean", "-mean"]).expect(400).json()["description"]
    for client in (ours, theirs):
        assert "mean" not in policy(client, aggregation_methods=["*", "-mean"]).expect(201).json()["aggregation_methods"]


def test_a_method_with_a_sign_beside_one_without(ours, theirs):
    found = []
    for client in (theirs, ours):
        made = policy(client, aggregation_methods=["mean", "+last"]).expect(201).json()
        path = f"/v1/metric/{create_metric(client, made['name'])}/measures"
        client.post(path, [{"timestamp": 1, "value": 1}]).expect(202)
        found.append((sorted(made["aggregation_methods"]), len(client.get(f"{path}?refresh=true").expect(200).json())))
    assert found == [(["+last", "last", "mean"], 0), (["last", "mean"], 1)]


def test_methods_that_are_all_removed(ours, theirs):
    methods = [f"-{method}" for method in ("mean", "min", "max", "sum", "std", "count")]
    assert policy(theirs, aggregation_methods=methods).expect(201).json()["aggregation_methods"] == []
    policy(ours, aggregation_methods=methods).expect(400)


def test_a_policy_that_gets_other_methods(ours, theirs):
    for name, client in both(ours, theirs).items():
        created = policy(client, aggregation_methods=["mean"]).expect(201).json()
        change = {"definition": created["definition"], "aggregation_methods": ["mean", "max"]}
        answer = client.patch(f"/v1/archive_policy/{created['name']}", change).expect({"gnocchi": 400, "gnudi": 200}[name])
        if name == "gnudi":
            assert set(answer.json()["aggregation_methods"]) == {"mean", "max"}


def test_a_metric_that_moves(ours, theirs):
    for name, client in both(ours, theirs).items():
        first, second = (policy(client, aggregation_methods=["mean"]).expect(201).json()["name"] for _ in range(2))
        metric = create_metric(client, first)
        client.patch(f"/v1/metric/{metric}", {"archive_policy_name": second}).expect({"gnocchi": 405, "gnudi": 200}[name])
        found = client.get(f"/v1/metric/{metric}").expect(200).json()["archive_policy"]["name"]
        assert found == {"gnocchi": first, "gnudi": second}[name]


def test_a_definition_of_a_metrics_own(ours, theirs):
    for name, client in both(ours, theirs).items():
        body = {"archive_policy": {"definition": [{"granularity": "1s", "points": 10}]}}
        client.post("/v1/metric", body).expect({"gnocchi": 400, "gnudi": 201}[name])


def test_back_windows_beyond_the_databases_numbers(ours, theirs):
    assert policy(theirs, back_window=10**12).status == 500
    policy(ours, back_window=10**12).expect(400)
    policy(ours, back_window=2**31 - 1).expect(201)


def test_a_bound_that_is_true(ours, theirs):
    def create(client):
        attributes = {"num": {"type": "number", "min": True, "required": False}}
        return client.post("/v1/resource_type", {"name": unique("type"), "attributes": attributes})

    create(theirs).expect(201)
    create(ours).expect(400)


def test_a_path_that_is_no_utf_8(ours, theirs):
    assert theirs.get("/v1/archive_policy/%ff").status in (400, 404)
    ours.get("/v1/archive_policy/%ff").expect(400)


def test_what_is_added_to_a_resource_comes_first(ours, theirs):
    """gnocchiclient shows the first metric of the answer as the one it has created. Gnocchi's order is the database's."""
    for name, client in both(ours, theirs).items():
        policy_name, resource = unique("policy"), unique("resource")
        create_policy(client, policy_name, [("1s", 60)])
        metric = {"archive_policy_name": policy_name}
        client.post("/v1/resource/generic", {"id": resource, "metrics": {"b": metric, "d": metric}}).expect(201)
        added = client.post(f"/v1/resource/generic/{resource}/metric", {"c": metric, "a": metric}).expect(200).json()
        assert sorted(metric["name"] for metric in added) == ["a", "b", "c", "d"], name
        if name == "gnudi":
            assert [metric["name"] for metric in added[:2]] == ["c", "a"]


def test_errors_for_clients_that_ask_for_json_first(ours, theirs):
    headers = {"Accept": "application/json, text/plain, */*"}
    found = {name: client.get("/v1/archive_policy/none", headers=headers).expect(404).headers["content-type"]
             for name, client in both(ours, theirs).items()}
    assert found["gnudi"] == "application/json"
    assert not found["gnocchi"].startswith("application/json")


def test_deletion_by_a_filter_below_a_type(ours, theirs):
    """Gnocchi leaves the resource as a generic one."""
    left = {}
    for name, client in both(ours, theirs).items():
        type_name, resource = unique("type"), unique("resource")
        client.post("/v1/resource_type", {"name": type_name}).expect(201)
        id_ = client.post(f"/v1/resource/{type_name}", {"id": resource}).expect(201).json()["id"]
        deleted = client.request("DELETE", f"/v1/resource/{type_name}", {"=": {"id": id_}}).expect(200).json()
        assert deleted == {"deleted": 1}, name
        left[name] = client.get(f"/v1/resource/generic/{id_}").status
    assert left == {"gnocchi": 200, "gnudi": 404}


OPEN = ["/", "/v1/", "/healthcheck", "/v1/capabilities", "/v1/resource", "/v1/influxdb/ping"]
OPEN_HERE_ONLY = ["/metrics", "/v1/openapi.json"]
CLOSED = ["/v1/archive_policy", "/v1/archive_policy_rule", "/v1/metric", "/v1/resource/generic", "/v1/resource_type",
          "/v1/resource_type/generic", "/v1/status", "/debug/cluster", "/debug/flamegraph"]


def test_what_needs_no_user(ours, theirs, gnudi, tmp_path):
    """With a file of passwords as without one: what Gnocchi's basic mode leaves open."""
    passwords = tmp_path / "passwords"
    passwords.write_text("admin:$2b$04$abcdefghijklmnopqrstuuO5RqQbXhQ0f7vYc3HFPpG2Bq5Y5Pp1K\n")
    guarded = gnudi(config=f"[api]\npassword_file = {passwords}\n").client(user=None)
    headers = {"Accept": "*/*", "Authorization": None}
    for path in OPEN:
        found = [client.get(path, headers=headers).status for client in (theirs, ours, guarded)]
        assert all(200 <= status < 300 for status in found), (path, found)
    for path in OPEN_HERE_ONLY:
        found = [client.get(path, headers=headers).status for client in (ours, guarded)]
        assert found == [200, 200], path
    for path in CLOSED:
        found = [client.get(path, headers=headers).status for client in (ours, guarded)]
        assert found == [401, 401], path
