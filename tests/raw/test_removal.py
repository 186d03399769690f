"""Measures of a time range are removed: results are as if they had never been posted, and metrics of a client whose clock was ahead accept
measures again."""

import random

import pytest

from prometheus.oracle import ask
from raw.test_raw_points import HOUR, MINUTE, POLICY, START, Model, check, iso, read_rows, request_of
from support.http import create_metric

ROUNDS = 20
PLAIN = {**{key: value for key, value in POLICY.items() if key != "raw"}, "name": "plain"}


def post(client, metric, *seconds):
    body = [{"timestamp": START + second, "value": second} for second in seconds]
    client.post(f"/v1/metric/{metric}/measures", body).expect(202)


def test_what_is_removed_never_came(servers, seed, rounds):
    client, restart = servers
    client.post("/v1/archive_policy", POLICY).expect(201)
    draw = random.Random(seed)
    metric, model = create_metric(client, "kept"), Model()
    for number in range(rounds):
        points = request_of(draw, model)
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": iso(at), "value": value} for at, value in points]).expect(202)
        model.post(points)
        if number % 3 == 2:
            times = sorted(model.points)
            oldest = model.raw()[0][0]
            # A bucket of which raw points are gone is removed or left as a whole, which the model does not know.
            if times[0] < oldest:
                times = [at for at in times if at // (HOUR * 10**9) > oldest // (HOUR * 10**9)]
            # Never the newest one: the model does not know what is then late.
            if len(times) > 1:
                start, stop = sorted(draw.choices(times[:-1], k=2))
                client.delete(f"/v1/metric/{metric}/measures?start={iso(start)}&stop={iso(stop + 1)}").expect(202)
                model.points = {at: value for at, value in model.points.items() if not start <= at <= stop}
        if number % 5 == 4:
            if draw.random() < 0.5:
                client = restart()
            check(client, metric, model)


@pytest.mark.parametrize("policy", ["plain", "kept"])
def test_a_clock_that_had_run_ahead(gnudi, policy):
    client = gnudi().client()
    for body in (PLAIN, POLICY):
        client.post("/v1/archive_policy", body).expect(201)
    resource = client.post("/v1/resource/generic", {"id": "host", "metrics": {"cpu": {"archive_policy_name": policy}}}).expect(201).json()
    path = f"/v1/resource/generic/{resource['id']}/metric/cpu/measures"
    metric = resource["metrics"]["cpu"]
    post(client, metric, 0, 60, 3 * HOUR, 3 * HOUR + 60)
    # Ten hours ahead: a policy that keeps six takes nothing of now any more.
    post(client, metric, 13 * HOUR)
    post(client, metric, 4 * HOUR)
    assert [value for _, value in read_rows(client, metric, "sum", MINUTE)] == [0, 60, 3 * HOUR, 3 * HOUR + 60, 13 * HOUR]
    client.delete(f"{path}?start={START + 12 * HOUR}").expect(202)
    post(client, metric, 4 * HOUR + 60)
    assert [value for _, value in read_rows(client, metric, "sum", MINUTE)] == [0, 60, 3 * HOUR, 3 * HOUR + 60, 4 * HOUR + 60]
    assert [value for _, value in read_rows(client, metric, "count", HOUR)] == [2, 2, 1]


@pytest.mark.parametrize("raw", [False, True])
def test_what_is_left_is_found(gnudi, raw):
    server = gnudi()
    client = server.client()
    policy = {**(POLICY if raw else PLAIN), "back_window": 0, "aggregation_methods": ["sum", "count"]}
    client.post("/v1/archive_policy", policy).expect(201)
    metric = create_metric(client, policy["name"], name="left")
    hour = START - START % HOUR
    post(client, metric, *range(hour - START + 30, hour - START + 5 * HOUR, MINUTE))
    assert len(read_rows(client, metric, "count", MINUTE)) == 300
    client.delete(f"/v1/metric/{metric}/measures?start={hour + 4 * HOUR}").expect(202)
    assert len(read_rows(client, metric, "count", MINUTE)) == 240
    query = {"query": 'count_over_time({"left"}[2h])', "time": hour + 4 * HOUR}
    status, document = ask(server.port, "/api/v1/query", query)
    assert (status, [one["value"][1] for one in document["data"]["result"]]) == (200, ["120"])
    # Without raw measures the last bucket's end.
    last = "2023-11-15T01:59:30+00:00" if raw else "2023-11-15T01:59:59.999999+00:00"
    assert client.get(f"/v1/metric/{metric}?last_measure=true").expect(200).json()["last_measure"] == last


def test_everything_goes_and_the_metric_begins_again(gnudi):
    client = gnudi().client()
    client.post("/v1/archive_policy", PLAIN).expect(201)
    metric = create_metric(client, "plain")
    for hour in range(0, 100, 7):
        post(client, metric, hour * HOUR, hour * HOUR + 70)
    assert len(read_rows(client, metric, "sum", HOUR)) == 15
    client.delete(f"/v1/metric/{metric}/measures?start=0").expect(202)
    assert read_rows(client, metric, "sum", HOUR) == []
    post(client, metric, -500 * HOUR)
    assert [value for _, value in read_rows(client, metric, "sum", HOUR)] == [-500 * HOUR]


@pytest.mark.parametrize("query", ["?start=x", "?stop=-", "?start=5&stop=5", "?start=2020-01-01&stop=2019-01-01", "?start=1&start=2"])
def test_bad_requests_change_nothing(server, query):
    client = server.client()
    metric = create_metric(client, "low")
    post(client, metric, 0)
    client.delete(f"/v1/metric/{metric}/measures{query}").expect(400)
    assert len(read_rows(client, metric, "sum", 300)) == 1
    client.delete(f"/v1/metric/{metric}/measures").expect(404)
    client.delete(f"/v1/metric/{metric[:-4]}0000/measures?start=5").expect(404)
    assert client.as_user("somebody").delete(f"/v1/metric/{metric}/measures?start=5").status == 403
