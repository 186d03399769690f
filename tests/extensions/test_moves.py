"""Metrics that move to other policies, have definitions of their own, and policies that get other methods.

After a move the responses are compared with all points ever posted: each value is computed from them, and aggregations that the response
to the move calls kept or computed reach back to the first point.
"""

import calendar
import random
import time

import pytest

from support.http import create_metric, get_patiently
from support.process import wait_until

START = 1_700_000_000 // 86_400 * 86_400
MINUTE, HOUR = 60, 3600
METHODS = ["mean", "sum", "count", "min", "max", "first", "last", "std"]
FINE = {"name": "fine", "definition": [{"granularity": MINUTE}], "aggregation_methods": METHODS}
COARSE = {"name": "coarse", "definition": [{"granularity": HOUR}, {"granularity": 5 * MINUTE}], "aggregation_methods": METHODS}
# Twice as many as are asked at once, and some.
IDLE_METRICS = 530
CONVERTED_TIMEOUT_S = 90


def seconds(text):
    return calendar.timegm(time.strptime(text.split("+")[0].split(".")[0], "%Y-%m-%dT%H:%M:%S"))


def rows(client, metric, method, granularity):
    path = f"/v1/metric/{metric}/measures?aggregation={method}&granularity={granularity}&refresh=true"
    return {seconds(at): value for at, _, value in get_patiently(client, path)}


def expected(points, method, granularity):
    buckets = {}
    for at in sorted(points):
        buckets.setdefault(at // granularity * granularity, []).append(points[at])
    mean = lambda values: sum(values) / len(values)
    of = {"mean": mean, "sum": sum, "count": len, "min": min, "max": max, "first": lambda values: values[0], "last": lambda values: values[-1],
          "std": lambda values: (sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else None}
    found = {start: of[method](values) for start, values in buckets.items()}
    return {start: value for start, value in found.items() if value is not None}


def post(client, metric, points):
    client.post(f"/v1/metric/{metric}/measures", [{"timestamp": at, "value": value} for at, value in points.items()]).expect(202)


def origins(moved):
    return {(item["granularity"], item["aggregation_method"]): item["values"] for item in moved["conversion"]}


def test_a_move_keeps_and_computes_what_it_can(servers, seed):
    client, restart = servers
    draw = random.Random(seed)
    raw = {**FINE, "name": "kept", "raw": {"timespan": "10 days"}}
    for policy in (FINE, COARSE, raw):
        client.post("/v1/archive_policy", policy).expect(201)
    metrics = {create_metric(client, name): ({}, name) for name in ("fine", "kept")}
    at = {metric: START for metric in metrics}

    def measure(client, count):
        for metric, (points, _) in metrics.items():
            new = {}
            for _ in range(count):
                at[metric] += draw.randrange(1, 90)
                new[at[metric]] = float(draw.randrange(-100, 100)) / 4
            post(client, metric, new)
            points.update(new)

    for _ in range(8):
        measure(client, 60)
    for metric, (points, _) in metrics.items():
        # What waits would be folded by the new policy.
        assert rows(client, metric, "sum", MINUTE) == expected(points, "sum", MINUTE)
        moved = client.patch(f"/v1/metric/{metric}", {"archive_policy_name": "coarse"}).expect(200).json()
        assert moved["archive_policy"]["name"] == "coarse" and moved["id"] == metric
        origin = origins(moved)
        assert len(origin) == 2 * len(METHODS)
        assert origin["1:00:00", "sum"] == "computed"
        assert origin["1:00:00", "std"] == ("computed" if metrics[metric][1] == "kept" else "begins")
    client = restart()
    for _ in range(4):
        measure(client, 60)
    for metric, (points, name) in metrics.items():
        client.get(f"/v1/metric/{metric}/measures?aggregation=mean&granularity={MINUTE}").expect(404)
        for method in METHODS:
            for granularity in (5 * MINUTE, HOUR):
                found, whole = rows(client, metric, method, granularity), expected(points, method, granularity)
                assert found == pytest.approx({start: whole[start] for start in found})
                if method != "std" or name == "kept":
                    assert found.keys() == whole.keys(), (name, method, granularity)
                else:
                    assert found and found.keys() < whole.keys()
    # And back: what was stored as finely is gone, what comes is stored.
    for metric in metrics:
        moved = client.patch(f"/v1/metric/{metric}", {"archive_policy_name": "fine"}).expect(200).json()
        assert set(origins(moved).values()) == {"begins"}
    moved_at = dict(at)
    measure(client, 200)
    for metric, (points, _) in metrics.items():
        found, whole = rows(client, metric, "std", MINUTE), expected(points, "std", MINUTE)
        after = {start: value for start, value in whole.items() if start > moved_at[metric]}
        assert {start: value for start, value in found.items() if start in after} == pytest.approx(after)


def test_a_policy_gets_other_methods(gnudi):
    client = gnudi().client()
    definition = [{"granularity": MINUTE}, {"granularity": HOUR}]
    for name, more in (("plain", {}), ("kept", {"raw": {"timespan": "10 days"}})):
        policy = {"name": name, "definition": definition, "aggregation_methods": ["sum", "count"], **more}
        client.post("/v1/archive_policy", policy).expect(201)
        metric = create_metric(client, name)
        points = {START + 7 * number: float(number % 13) for number in range(2000)}
        post(client, metric, points)
        assert rows(client, metric, "sum", HOUR) == expected(points, "sum", HOUR)
        change = {"definition": definition, "aggregation_methods": ["sum", "mean", "std"]}
        changed = client.patch(f"/v1/archive_policy/{name}", change).expect(200).json()
        assert set(changed["aggregation_methods"]) == {"sum", "mean", "std"}
        origin = origins(changed)
        assert (origin["0:01:00", "sum"], origin["0:01:00", "mean"]) == ("kept", "computed")
        assert origin["0:01:00", "std"] == ("computed" if more else "begins")
        last = START + 2 * HOUR * 3
        post(client, metric, {last: 1.0, last + 1: 2.0})
        points |= {last: 1.0, last + 1: 2.0}
        client.get(f"/v1/metric/{metric}/measures?aggregation=count").expect(404)
        for granularity in (MINUTE, HOUR):
            for method in ("sum", "mean"):
                assert rows(client, metric, method, granularity) == expected(points, method, granularity), (name, method)
            found, whole = rows(client, metric, "std", granularity), expected(points, "std", granularity)
            assert found == pytest.approx({start: whole[start] for start in found})
            assert (found.keys() == whole.keys()) == bool(more)
    shown = client.patch("/v1/archive_policy/plain", {"definition": definition}).expect(200).json()
    assert "conversion" not in shown


def test_idle_metrics_follow_their_policy(servers):
    """Of more metrics than are asked at once none gets measures any more; the first process ends while they are converted."""
    client, restart = servers
    definition = [{"granularity": MINUTE}]
    for name, more in (("kept", {"raw": {"timespan": "10 days"}}), ("plain", {})):
        policy = {"name": name, "definition": definition, "aggregation_methods": ["sum", "count"], **more}
        client.post("/v1/archive_policy", policy).expect(201)
    points = {START + 7 * number: float(number % 13) for number in range(40)}
    measures = [{"timestamp": at, "value": value} for at, value in points.items()]
    metrics = [create_metric(client, "kept") for _ in range(IDLE_METRICS)]
    plain = create_metric(client, "plain")
    for start in range(0, IDLE_METRICS, 100):
        client.post("/v1/batch/metrics/measures", {metric: measures for metric in metrics[start:start + 100]}).expect(202)
    post(client, plain, points)
    for metric in (*metrics, plain):
        assert rows(client, metric, "sum", MINUTE) == expected(points, "sum", MINUTE)
    change = {"definition": definition, "aggregation_methods": ["sum", "count", "mean", "std"]}
    for name in ("kept", "plain"):
        origin = origins(client.patch(f"/v1/archive_policy/{name}", change).expect(200).json())
        assert origin["0:01:00", "mean"] == "computed"
        assert origin["0:01:00", "std"] == ("computed" if name == "kept" else "begins")
    # What is in the head alone has all methods at once; the rest of a metric that is kept may be converted by now.
    expected_stds = pytest.approx(expected(points, "std", MINUTE))
    last = max(expected(points, "std", MINUTE))
    of_head = pytest.approx({last: expected(points, "std", MINUTE)[last]})
    assert rows(client, plain, "std", MINUTE) == of_head
    found = rows(client, metrics[0], "std", MINUTE)
    assert found in (of_head, expected_stds)
    client = restart()
    # They are asked by id, in groups; the sacks of a group are processed in any order.
    for metric in sorted(metrics, reverse=True):
        converted = lambda metric=metric: rows(client, metric, "std", MINUTE) == expected_stds
        wait_until(converted, CONVERTED_TIMEOUT_S, f"{metric} is converted")
        assert rows(client, metric, "mean", MINUTE) == pytest.approx(expected(points, "mean", MINUTE))
    assert rows(client, plain, "std", MINUTE).keys() == {last}
    assert rows(client, plain, "mean", MINUTE) == pytest.approx(expected(points, "mean", MINUTE))


def test_a_metric_has_a_definition_of_its_own(gnudi):
    client = gnudi().client()
    own = {"definition": [{"granularity": "1m", "timespan": "1d"}], "aggregation_methods": ["mean"], "back_window": 0,
           "raw": {"timespan": "1d"}}
    policies = client.get("/v1/archive_policy").expect(200).json()
    created = client.post("/v1/metric", {"archive_policy": own}).expect(201).json()
    metric, name = created["id"], created["archive_policy_name"]
    shown = client.get(f"/v1/metric/{metric}").expect(200).json()["archive_policy"]
    assert shown["aggregation_methods"] == ["mean"] and shown["raw"] == {"timespan": "1 day, 0:00:00"}
    assert shown["definition"] == [{"granularity": "0:01:00", "points": 1440, "timespan": "1 day, 0:00:00"}]
    post(client, metric, {START: 1.0, START + 1: 4.0})
    assert rows(client, metric, "mean", MINUTE) == {START: 2.5}
    # Nobody else sees, changes or names it.
    assert client.get("/v1/archive_policy").expect(200).json() == policies
    client.get(f"/v1/archive_policy/{name}").expect(404)
    client.patch(f"/v1/archive_policy/{name}", {"definition": own["definition"]}).expect(404)
    client.delete(f"/v1/archive_policy/{name}").expect(404)
    client.post("/v1/archive_policy", {"name": name, "definition": own["definition"]}).expect(400)
    client.post("/v1/metric", {"archive_policy_name": name}).expect(400)
    client.patch(f"/v1/metric/{metric}", {"archive_policy_name": name}).expect(400)
    client.post("/v1/archive_policy_rule", {"name": "r", "metric_pattern": "x*", "archive_policy_name": name}).expect(400)
    # It is changed by giving another one.
    other = {**own, "definition": [{"granularity": "1m"}, {"granularity": "5m"}], "aggregation_methods": ["mean", "max"]}
    moved = client.patch(f"/v1/metric/{metric}", {"archive_policy": other}).expect(200).json()
    assert set(origins(moved).values()) == {"kept", "computed"} and moved["archive_policy"]["name"] != name
    assert rows(client, metric, "max", 5 * MINUTE) == {START // 300 * 300: 4.0}
    # Metrics of resources have them, too.
    resource = {"id": "5dfe182a-51d2-4122-b90b-df0f215b736e", "metrics": {"cpu": {"archive_policy": own}}}
    client.post("/v1/resource/generic", resource).expect(201)
    assert client.get(f"/v1/resource/generic/{resource['id']}/metric/cpu").expect(200).json()["archive_policy"]["name"] == name


def test_bad_moves_are_refused(gnudi):
    client = gnudi().client()
    metric = create_metric(client, "low")
    path = f"/v1/metric/{metric}"
    client.patch(path).expect(405)
    for body in ([], {}, {"archive_policy_name": 1}, {"archive_policy_name": "none"}, {"archive_policy_name": "low", "unit": "s"},
                 {"archive_policy": {}}, {"archive_policy": {"definition": []}}, {"archive_policy": {"definition": [{"granularity": 0}]}},
                 {"archive_policy": {"name": "x", "definition": [{"granularity": 60}]}}, {"archive_policy": "low"},
                 {"archive_policy": {"definition": [{"granularity": 60}], "aggregation_methods": ["x"]}},
                 {"archive_policy_name": "low", "archive_policy": {"definition": [{"granularity": 60}]}}):
        client.patch(path, body).expect(400)
    for body in ({"archive_policy": {"definition": []}}, {"archive_policy": None}, {"archive_policy": {"definition": [{"granularity": 60}], "name": "x"}},
                 {"archive_policy_name": "low", "archive_policy": {"definition": [{"granularity": 60}]}}):
        client.post("/v1/metric", body).expect(400)
        client.post("/v1/resource/generic", {"id": "r", "metrics": {"m": body}}).expect(400)
    assert client.get(path).expect(200).json()["archive_policy"]["name"] == "low"
    client.patch("/v1/metric/5dfe182a-51d2-4122-b90b-df0f215b736e", {"archive_policy_name": "low"}).expect(404)
    other = client.as_user("other")
    other.patch(path, {"archive_policy_name": "high"}).expect(403)
    mine = create_metric(other, "low")
    other.patch(f"/v1/metric/{mine}", {"archive_policy_name": "high"}).expect(200)
    # A definition is as good as a policy: only who may create policies gives one.
    other.patch(f"/v1/metric/{mine}", {"archive_policy": {"definition": [{"granularity": 60}]}}).expect(403)
    other.post("/v1/metric", {"archive_policy": {"definition": [{"granularity": 60}]}}).expect(403)
    client.delete(path).expect(204)
    client.patch(path, {"archive_policy_name": "high"}).expect(404)
