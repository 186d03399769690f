"""Counters that are reset to 0: `increase` and `rate_reset` in /v1/aggregates and as aggregation methods, compared with sums computed here."""

import calendar
import random
import time

import pytest

from support.http import create_metric, create_policy

START = 1_600_000_000
ROUNDS = 20
ALL = "increase", "rate_reset"


@pytest.fixture(scope="module")
def client(server):
    client = server.client()
    create_policy(client, "counter", [("1s", None)], aggregation_methods=["last", "max"])
    return client


def post(client, points):
    metric = create_metric(client, "counter")
    measures = [{"timestamp": START + second, "value": value} for second, value in points]
    client.post(f"/v1/metric/{metric}/measures", measures).expect(202)
    client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=last").expect(200)
    return metric


def compute(client, operations):
    return client.post("/v1/aggregates", {"operations": operations}).expect(200).json()["measures"]


def values(points):
    return [value for _, _, value in points]


def test_a_lower_value_began_at_zero(client):
    metric = post(client, [(0, 100), (1, 130), (2, 130), (3, 7), (4, 10), (8, 30)])
    answer = compute(client, f"(increase (metric {metric} last))")[metric]["last"]
    assert values(answer) == [30, 0, 7, 3, 20]
    assert answer[0][:2] == ["2020-09-13T12:26:41+00:00", 1.0]
    assert values(compute(client, ["rate_reset", ["metric", metric, "last"]])[metric]["last"]) == [30, 0, 7, 3, 5]
    # Gnocchi's own goes below zero.
    assert values(compute(client, f"(rateofchange (metric {metric} last))")[metric]["last"])[2] == -123
    total = compute(client, f"(resample sum 3600 (increase (metric {metric} last)))")[metric]["last"]
    assert total == [["2020-09-13T12:00:00+00:00", 3600.0, 60.0]]


def test_gaps_count_where_they_end(client):
    first, second = post(client, [(0, 1), (1, 5), (3, 9)]), post(client, [(1, 7), (2, 8), (3, 2)])
    both = f"(metric ({first} last) ({second} last))"
    found = compute(client, f"(increase {both})")
    assert values(found[first]["last"]) == [4, 4] and values(found[second]["last"]) == [1, 2]
    assert values(compute(client, f"(aggregate sum (increase {both}))")["aggregated"]) == [4, 1, 6]
    assert values(compute(client, f"(aggregate sum (rate_reset {both}))")["aggregated"]) == [4, 1, 4]


@pytest.mark.parametrize("operations", [
    "(increase 5)", "(increase)", "(increase (metric {} last) 1)", "(rate_reset (neg 1))", '["increase", ["metric"]]',
])
def test_what_is_no_counter_is_refused(client, operations):
    metric = post(client, [(0, 1)])
    answer = client.post("/v1/aggregates", {"operations": operations.replace("{}", metric)}).expect(400).json()
    assert answer["description"]["cause"]


def test_random_counters_grow_as_a_list_says(client, seed, rounds):
    numbers = random.Random(seed)
    for _ in range(rounds):
        points, value = {}, 0
        for second in range(numbers.randrange(1, 60)):
            kind = numbers.random()
            value = value + numbers.randrange(1000) if kind < 0.7 else numbers.randrange(20)
            if kind < 0.9:
                points[second] = value
        if not points:
            continue
        metric = post(client, points.items())
        expected = {name: [] for name in ALL}
        for (before, was), (now, is_now) in zip(list(points.items()), list(points.items())[1:]):
            grown = is_now - was if is_now >= was else is_now
            expected["increase"].append(grown)
            expected["rate_reset"].append(grown / (now - before))
        for name in ALL:
            found = compute(client, [name, ["metric", metric, "last"]])[metric]["last"]
            assert values(found) == expected[name], (seed, name, points)


def grown(points, granularity):
    """By bucket: the increase, and that for each second since the point before the bucket."""
    buckets, before = {}, None
    for second, value in sorted(points.items()):
        if before is not None:
            increase, seconds = buckets.get(second // granularity * granularity, (0, 0))
            since, was = before
            increase += value if value < was else value - was
            buckets[second // granularity * granularity] = (increase, seconds + second - since)
        before = second, value
    return {start: (increase, increase / seconds) for start, (increase, seconds) in buckets.items()}


def read(client, metric, method, granularity, arguments=""):
    path = f"/v1/metric/{metric}/measures?aggregation={method}&granularity={granularity}&refresh=true{arguments}"
    shown = client.get(path).expect(200).json()
    return {calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")): value for at, _, value in shown}


@pytest.mark.parametrize("raw", [{}, {"raw": {"timespan": "2 days"}}])
def test_methods_of_a_policy_are_the_operations_over_all_points(gnudi, raw, seed):
    """Points in any order within the back window, or where raw points are kept; the server is killed in between."""
    server = gnudi()
    client = server.client()
    numbers = random.Random(seed)
    create_policy(client, "counter", [("1m", None), ("1h", None)], back_window=0 if raw else 30, aggregation_methods=["last", *ALL], **raw)
    metric = create_metric(client, "counter")
    points, value = {}, 0
    for second in sorted(numbers.sample(range(24 * 3600), 1_500)):
        value = numbers.randrange(50) if numbers.random() < 0.03 else value + numbers.randrange(100)
        points[START + second] = value
    order = list(points.items())
    numbers.shuffle(order)
    for start in range(0, len(order), 300):
        body = [{"timestamp": second, "value": value} for second, value in order[start:start + 300]]
        client.post(f"/v1/metric/{metric}/measures", body).expect(202)
        read(client, metric, "last", 60)
    server.kill()
    server.start()
    client = server.client()
    for granularity in (60, 3600):
        expected = grown(points, granularity)
        assert read(client, metric, "increase", granularity) == {start: increase for start, (increase, _) in expected.items()}
        assert read(client, metric, "rate_reset", granularity) == {start: rate for start, (_, rate) in expected.items()}
    # Increases add up; there is no time in the first minute that the first hour does not have.
    assert read(client, metric, "increase", 60, "&resample=3600") == read(client, metric, "increase", 3600)
    total = client.post("/v1/aggregates?granularity=60", {"operations": f"(aggregate sum (metric {metric} increase))"})
    assert sum(values(total.expect(200).json()["measures"]["aggregated"])) == sum(increase for increase, _ in grown(points, 60).values())


def test_names_of_the_methods(client):
    methods = client.get("/v1/capabilities").expect(200).json()["aggregation_methods"]
    assert methods[-2:] == list(ALL) and len(methods) == 218
    all_of_gnocchi = client.post("/v1/archive_policy", {"name": "all", "definition": [{"granularity": 60}], "aggregation_methods": ["*"]})
    assert not set(ALL) & set(all_of_gnocchi.expect(201).json()["aggregation_methods"])
    for name in ("rate:increase", "rate:rate_reset", "Increase", "rate"):
        body = {"name": "none", "definition": [{"granularity": 60}], "aggregation_methods": [name]}
        client.post("/v1/archive_policy", body).expect(400)
