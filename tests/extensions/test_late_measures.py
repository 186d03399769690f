"""`"late": "recompute"` of archive policies: late measures count without raw points, compared with a dictionary of all posted measures."""

import calendar
import random
import time
import uuid

import pytest

from support.http import create_metric

START = 1_600_000_000
ROUNDS = 12
METHODS = {"sum": sum, "count": len, "min": min, "max": max, "mean": lambda values: sum(values) / len(values)}
MINUTE, HOUR = 60, 3600
SPANS = {MINUTE: 6 * HOUR, HOUR: 30 * 24 * HOUR}
DEFINITION = [{"granularity": granularity, "timespan": span} for granularity, span in SPANS.items()]
POLICY = {"name": "patient", "definition": DEFINITION, "aggregation_methods": list(METHODS), "late": "recompute"}


@pytest.fixture(scope="module")
def client(server):
    return server.client()


def read(client, metric, method, granularity):
    path = f"/v1/metric/{metric}/measures?aggregation={method}&granularity={granularity}&refresh=true"
    found = {}
    for at, _, value in client.get(path).expect(200).json():
        found[calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))] = value
    return found


def expected(points, method, granularity):
    buckets = {}
    for second, value in points.items():
        buckets.setdefault(second // granularity * granularity, []).append(value)
    newest = max(points) // granularity * granularity
    return {start: METHODS[method](values) for start, values in buckets.items() if start > newest - SPANS[granularity]}


def late_dropped(client, metric):
    return client.get(f"/v1/metric/{metric}?late_dropped=true").expect(200).json()["late_dropped"]


def test_measures_in_any_order_read_as_in_order(gnudi, seed, rounds):
    server = gnudi()
    client = server.client()
    assert client.post("/v1/archive_policy", POLICY).expect(201).json()["late"] == "recompute"
    numbers = random.Random(seed)
    metrics = {create_metric(client, "patient"): {} for _ in range(3)}
    for number in range(rounds):
        for metric, points in metrics.items():
            newest = max(points, default=START)
            seconds = {newest + 30 + numbers.randrange(900)}
            for _ in range(numbers.choice([1, 20, 300])):
                seconds.add(newest - numbers.randrange(numbers.choice([60, 2 * HOUR, 40 * HOUR])))
            request = {second: numbers.randrange(-50, 50) for second in seconds if second not in points}
            body = [{"timestamp": second, "value": value} for second, value in request.items()]
            client.post(f"/v1/metric/{metric}/measures", body).expect(202)
            points.update(request)
        if number % 4 == 3:
            if numbers.random() < 0.5:
                server.kill()
                server.start()
                client = server.client()
            for metric, points in metrics.items():
                for method in METHODS:
                    for granularity in SPANS:
                        assert read(client, metric, method, granularity) == expected(points, method, granularity), (seed, method, granularity)
                assert late_dropped(client, metric) == 0


def test_a_policy_changes_its_mind(gnudi):
    client = gnudi().client()
    body = {"name": "short", "definition": [{"granularity": MINUTE, "timespan": HOUR}], "aggregation_methods": ["count"]}
    assert "late" not in client.post("/v1/archive_policy", body).expect(201).json()
    metric = create_metric(client, "short")

    def post(second):
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": START + second, "value": 1}]).expect(202)
        return read(client, metric, "count", MINUTE).get((START + second) // MINUTE * MINUTE), late_dropped(client, metric)

    def change(late):
        shown = client.patch("/v1/archive_policy/short", {"definition": body["definition"], "late": late}).expect(200).json()
        assert client.get("/v1/archive_policy/short").expect(200).json() == shown
        return shown.get("late")

    assert post(3600) == (1, 0)
    assert post(600) == (None, 1)
    assert change("recompute") == "recompute"
    assert post(601) == (1, 1)
    # Nothing tells that it is the same measure.
    assert post(601) == (2, 1)
    assert post(0) == (None, 2)
    assert change("drop") is None
    assert post(602) == (2, 3)


@pytest.mark.parametrize("change, cause", [
    ({"late": "maybe"}, "late"), ({"late": None}, "late"), ({"late": True}, "late"), ({"late": ["recompute"]}, "late"),
    ({"aggregation_methods": ["sum", "last", "95pct"]}, "last, 95pct"), ({"aggregation_methods": ["mean", "count"]}, "mean (without sum"),
    ({"aggregation_methods": ["rate:max", "increase"]}, "rate:max, increase"), ({"aggregation_methods": ["-max"]}, "std"),
    ({"raw": {"timespan": 60}, "late": "drop"}, "raw"),
])
def test_what_has_no_meaning_is_refused(client, change, cause):
    body = POLICY | change | {"name": str(uuid.uuid4())}
    assert cause in str(client.post("/v1/archive_policy", body).expect(400).json()["description"])
    path = f"/v1/archive_policy/{body['name']}"
    client.get(path).expect(404)
    late = body.pop("late")
    shown = client.post("/v1/archive_policy", body).expect(201).json()
    patched = client.patch(path, {"definition": DEFINITION, "late": late})
    assert cause in str(patched.expect(400).json()["description"])
    assert client.get(path).expect(200).json() == shown


def test_raw_points_take_late_measures_with_any_methods(client):
    body = POLICY | {"aggregation_methods": ["last", "95pct"], "raw": {"timespan": HOUR}}
    assert client.post("/v1/archive_policy", body).expect(201).json()["late"] == "recompute"
    client.patch("/v1/archive_policy/patient", {"definition": DEFINITION, "late": "drop"}).expect(400)
