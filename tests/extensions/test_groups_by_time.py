"""Groups in /v1/aggregates by weekday and hour, in UTC and at an offset, compared with Python's calendar."""

import collections
import datetime
import random
import statistics
import urllib.parse

import pytest

from support.http import create_policy

START = 1_600_000_000
ROUNDS = 30
SECONDS_MAX = 40 * 86_400
OFFSETS = {None: 0, "Z": 0, "+02:00": 7200, "-03:30": -12_600, "+1245": 45_900, "-14:00": -50_400}
STATISTICS = {"sum": sum, "max": max, "min": min, "count": len, "mean": statistics.fmean, "median": statistics.median}


class World:
    """Two resources whose metrics have points at random times of some weeks."""

    def __init__(self, server, numbers):
        self.client = client = server.client()
        create_policy(client, "quarter", [("15m", None), ("1d", None)], aggregation_methods=["sum"])
        client.post("/v1/resource_type", {"name": "host", "attributes": {"rack": {"type": "string"}}}).expect(201)
        self.points, self.metrics = {}, {}
        for rack in ["a", "b"]:
            points = {START + 900 * numbers.randrange(SECONDS_MAX // 900): numbers.randrange(1000) for _ in range(500)}
            body = {"id": f"host {rack}", "rack": rack, "metrics": {"m": {"archive_policy_name": "quarter"}}}
            metric = client.post("/v1/resource/host", body).expect(201).json()["metrics"]["m"]
            measures = [{"timestamp": time, "value": value} for time, value in sorted(points.items())]
            client.post(f"/v1/metric/{metric}/measures", measures).expect(202)
            client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=sum").expect(200)
            # Buckets begin at quarters of an hour.
            self.points[rack] = {time // 900 * 900: value for time, value in points.items()}
            self.metrics[rack] = metric

    def ask(self, arguments, operations, search=True):
        body = {"operations": operations, **({"resource_type": "host", "search": {}} if search else {})}
        return self.client.post("/v1/aggregates?" + urllib.parse.urlencode(arguments, doseq=True), body)


@pytest.fixture(scope="module")
def world(server):
    return World(server, random.Random(7))


def time_of(second, offset, fields):
    """The time of the week, as the answer's groups have it."""
    at = datetime.datetime.fromtimestamp(second, datetime.timezone(datetime.timedelta(seconds=offset)))
    all_fields = {"time:weekday": at.isoweekday(), "time:hour": at.hour}
    return tuple(all_fields[field] for field in sorted(fields, reverse=True))


def split(points, offset, fields):
    groups = collections.defaultdict(list)
    for second, value in sorted(points.items()):
        groups[time_of(second, offset, fields)].append((iso(second), value))
    return dict(sorted(groups.items()))


def iso(second):
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).isoformat()


def added(points):
    total = collections.Counter()
    for of in points:
        total.update(of)
    return dict(total)


def test_groups_are_those_of_the_calendar(world, seed, rounds):
    numbers = random.Random(seed)
    for _ in range(rounds):
        fields = numbers.choice([["time:weekday"], ["time:hour"], ["time:hour", "time:weekday"]])
        offset = numbers.choice(list(OFFSETS))
        statistic = numbers.choice([None, None, *STATISTICS])
        racks = numbers.random() < 0.5
        arguments = {"groupby": [*fields, *(["rack"] if racks else [])], "granularity": 900}
        arguments |= {"utc_offset": offset} if offset else {}
        arguments |= {"reaggregation": statistic} if statistic else {}
        answer = world.ask(arguments, "(aggregate sum (metric m sum))").expect(200).json()
        found = [(group["group"], [(time, value) for time, _, value in group["measures"]["measures"]["aggregated"]])
                 for group in answer]
        expected = []
        for rack in ["a", "b"] if racks else [None]:
            points = world.points[rack] if rack else added(world.points.values())
            for time, rows in split(points, OFFSETS[offset], fields).items():
                key = {"rack": rack} if rack else {}
                key |= dict(zip(sorted(fields, reverse=True), time))
                if statistic:
                    rows = [(rows[0][0], STATISTICS[statistic]([value for _, value in rows]))]
                expected.append((key, rows))
        assert [key for key, _ in found] == [key for key, _ in expected], (seed, arguments)
        for (_, rows), (_, wanted) in zip(found, expected):
            assert [time for time, _ in rows] == [time for time, _ in wanted]
            assert [value for _, value in rows] == pytest.approx([value for _, value in wanted]), (seed, arguments)


def test_metrics_by_their_ids_and_several_granularities(world):
    metric = world.metrics["a"]
    answer = world.ask({"groupby": "time:weekday", "details": "true"}, f"(metric {metric} sum)", search=False).expect(200).json()
    assert [group["group"] for group in answer] == [{"time:weekday": number} for number in range(1, 8)]
    by_quarter = split(world.points["a"], 0, ["time:weekday"])
    by_day = collections.Counter()
    for second, value in world.points["a"].items():
        by_day[second // 86_400 * 86_400] += value
    for number, group in enumerate(answer, 1):
        rows = group["measures"]["measures"][metric]["sum"]
        days = sorted(iso(day) for day in by_day if time_of(day, 0, ["time:weekday"]) == (number,))
        assert [time for time, granularity, _ in rows if granularity == 86_400] == days
        assert [(time, value) for time, granularity, value in rows if granularity == 900] == by_quarter[(number,)]
        assert group["measures"]["references"][0]["id"] == metric


def test_what_has_no_points_is_a_group_of_no_time(world):
    answer = world.ask({"groupby": ["time:hour", "rack"], "start": "2030-01-01"}, "(aggregate sum (metric m sum))")
    assert answer.expect(200).json() == [
        {"group": {"rack": rack, "time:hour": None}, "measures": {"measures": {"aggregated": []}}} for rack in ["a", "b"]]


@pytest.mark.parametrize("arguments", [
    {"groupby": "time:month"}, {"groupby": "time:"}, {"groupby": ["time:hour", "nothing"]},
    {"groupby": "time:hour", "utc_offset": "Europe/Paris"}, {"groupby": "time:hour", "utc_offset": "+15:00"},
    {"groupby": "time:hour", "utc_offset": ["Z", "Z"]}, {"groupby": "time:hour", "reaggregation": "last"},
    {"groupby": "time:hour", "reaggregation": "rate:mean"}, {"groupby": "time:hour", "use_history": "true"},
])
def test_what_is_no_time_is_refused(world, arguments):
    answer = world.ask(arguments, "(aggregate sum (metric m sum))").expect(400).json()
    assert answer["description"]


def test_without_times_the_arguments_mean_nothing(world):
    plain = world.ask({}, "(aggregate sum (metric m sum))").expect(200).json()
    assert world.ask({"utc_offset": "x", "reaggregation": "x"}, "(aggregate sum (metric m sum))").expect(200).json() == plain
