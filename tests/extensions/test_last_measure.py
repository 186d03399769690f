"""The time of metrics' last measures and the number of dropped late ones: shown, sorted by, and filtered by silence, compared with a
model."""

import datetime
import random
import re
import urllib.parse
import uuid

import pytest

from support.gnudi import Gnudi
from support.http import create_metric, create_policy
from support.process import wait_until

START = 1_600_000_000
ROUNDS = 60
COUNT = 40
SCANNED_MAX, RESOURCE_METRICS = 20_000, 3_500


def iso(second):
    return None if second is None else datetime.datetime.fromtimestamp(second, datetime.timezone.utc).isoformat()


def pages(client, path):
    """All that a list has, page after page, and how many pages there were."""
    found, count = [], 0
    while path:
        answer = client.get(path).expect(200)
        found += answer.json()
        link = re.match(r'<http://[^/]*([^>]*)>; rel="next"', answer.headers.get("link", ""))
        path, count = link and link[1], count + 1
        assert count < 200
    return found, count


def refresh(client, metric):
    client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=count").expect(200)


class World:
    """Resources with up to three metrics, and metrics of no resource; `last` is when each was measured last."""

    def __init__(self, server, numbers):
        self.client = client = server.client()
        create_policy(client, "second", [("1s", None)], aggregation_methods=["count"])
        self.last, self.resources = {}, {}
        for number in range(COUNT):
            names = [f"m{index}" for index in range(numbers.randrange(4))]
            body = {"id": str(uuid.uuid4()), "metrics": {name: {"archive_policy_name": "second"} for name in names}}
            made = client.post("/v1/resource/generic", body).expect(201).json()
            self.resources[made["id"]] = list(made["metrics"].values())
            metrics = [*made["metrics"].values(), create_metric(client, "second")]
            for metric in metrics:
                self.last[metric] = None
                if numbers.random() < 0.8:
                    self.last[metric] = START + numbers.randrange(20)
                    measures = [{"timestamp": self.last[metric] - 5 * back, "value": 1} for back in [0, 1]]
                    client.post(f"/v1/metric/{metric}/measures", measures).expect(202)
        for metric in self.last:
            refresh(client, metric)

    def is_silent(self, metric, since):
        return self.last[metric] is None or self.last[metric] < since


@pytest.fixture(scope="module")
def world(module_path):
    with Gnudi(module_path, config="[api]\nmax_limit = 50\n") as server:
        yield World(server, random.Random(7))


def test_a_metric_shows_its_newest_measure(gnudi):
    client = gnudi().client()
    create_policy(client, "minute", [("1m", None)], back_window=3)
    metric = create_metric(client, "minute")
    path = f"/v1/metric/{metric}?last_measure=true"
    assert client.get(path).expect(200).json()["last_measure"] is None
    assert "last_measure" not in client.get(f"/v1/metric/{metric}").expect(200).json()
    for second, expected in [(START, START), (START + 90, START + 90), (START + 30, START + 90), (START + 10**6, START + 10**6)]:
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": second, "value": 1}]).expect(202)
        refresh(client, metric)
        assert client.get(path).expect(200).json()["last_measure"] == iso(expected)
    client.as_user("mallory").get(path).expect(403)


def test_a_metric_shows_how_many_late_measures_were_dropped(gnudi):
    client = gnudi().client()
    create_policy(client, "minute", [("1m", None)])
    dropped = {create_metric(client, "minute"): number for number in (2, 0, 5)}
    silent = create_metric(client, "minute")
    for metric, number in dropped.items():
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": START + 600, "value": 1}]).expect(202)
        late = [{"timestamp": START + second, "value": 1} for second in range(number)]
        client.post(f"/v1/metric/{metric}/measures", late).expect(202)
        refresh(client, metric)
        assert client.get(f"/v1/metric/{metric}?late_dropped=true").expect(200).json()["late_dropped"] == number
        assert "late_dropped" not in client.get(f"/v1/metric/{metric}?last_measure=true").expect(200).json()
    listed = client.get("/v1/metric?late_dropped=true&last_measure=true&sort=late_dropped:desc").expect(200).json()
    assert [metric["late_dropped"] for metric in listed] == [5, 2, 0, 0] and all("last_measure" in metric for metric in listed)
    first = client.get("/v1/metric?sort=late_dropped").expect(200).json()
    assert {metric["id"] for metric in first[:2]} == {silent, *(metric for metric in dropped if not dropped[metric])}
    assert "late_dropped" not in first[0]
    client.as_user("mallory").get(f"/v1/metric/{silent}?late_dropped=true").expect(403)


def test_lists_are_sorted_and_filtered_as_the_model_says(world, seed, rounds):
    numbers = random.Random(seed)
    for _ in range(rounds):
        arguments, expected = {"last_measure": "true"}, sorted(world.last)
        if numbers.random() < 0.6:
            since = START + numbers.randrange(-1, 22)
            arguments["silent_since"] = numbers.choice([since, iso(since)])
            expected = [metric for metric in expected if world.is_silent(metric, since)]
        if numbers.random() < 0.6:
            direction = numbers.choice(["", ":asc", ":desc", ":asc-nullslast", ":desc-nullsfirst"])
            arguments["sort"] = "last_measure" + direction
            sign = -1 if "desc" in direction else 1
            nulls = -1 if direction in ("", ":asc", ":desc-nullsfirst") else 1
            place = lambda metric: (nulls if (last := world.last[metric]) is None else 0, sign * (last or 0), metric)
            expected.sort(key=place)
        if numbers.random() < 0.7:
            arguments["limit"] = numbers.choice([1, 3, 10, 49])
        found, count = pages(world.client, "/v1/metric?" + urllib.parse.urlencode(arguments))
        assert [metric["id"] for metric in found] == expected, (seed, arguments)
        assert [metric["last_measure"] for metric in found] == [iso(world.last[metric]) for metric in expected]
        limit = arguments.get("limit", 50)
        assert count <= len(expected) // limit + 1


def test_resources_are_silent_where_all_their_metrics_are(world, seed, rounds):
    numbers = random.Random(seed)
    for _ in range(rounds):
        since = START + numbers.randrange(-1, 22)
        arguments = {"silent_since": since, "sort": "id:asc", "limit": numbers.choice([1, 3, 10, 50])}
        found, _ = pages(world.client, "/v1/resource/generic?" + urllib.parse.urlencode(arguments))
        expected = [resource for resource, metrics in sorted(world.resources.items())
                    if metrics and all(world.is_silent(metric, since) for metric in metrics)]
        assert [resource["id"] for resource in found] == expected, (seed, arguments)
        searched = world.client.post(f"/v1/search/resource/generic?silent_since={since}&attrs=id", {"like": {"original_resource_id": "%"}})
        assert {resource["id"] for resource in searched.expect(200).json()} == set(expected)


@pytest.mark.parametrize("path", [
    "/v1/metric?silent_since=x", "/v1/metric?silent_since=1&silent_since=2", "/v1/metric?last_measure=perhaps", "/v1/metric?late_dropped=2",
    "/v1/metric?sort=late_dropped:up", "/v1/metric?sort=last_measure&sort=late_dropped",
    "/v1/metric?sort=last_measure:sideways", "/v1/metric?sort=last_measure&sort=id",
    f"/v1/metric?sort=last_measure&marker={uuid.UUID(int=7)}", "/v1/metric?sort=last_measure&marker=x",
    "/v1/resource/generic?silent_since=x", "/v1/resource/generic?silent_since=1&history=true",
    "/v1/resource/generic?sort=last_measure",
])
def test_what_has_no_meaning_is_refused(world, path):
    assert world.client.get(path).expect(400).json()["description"]


def test_a_search_looks_at_so_many_and_leads_on(gnudi):
    """More metrics that are measured than one request looks at, and one that is silent at the end."""
    client = gnudi(config="[api]\nmax_limit = 1000\n").client(timeout_s=300)
    create_policy(client, "second", [("1s", None)], aggregation_methods=["count"])
    names = [f"m{number}" for number in range(RESOURCE_METRICS)]
    for number in range(SCANNED_MAX // RESOURCE_METRICS + 1):
        metrics = {name: {"archive_policy_name": "second"} for name in names}
        made = client.post("/v1/resource/generic", {"id": f"host {number}", "metrics": metrics}).expect(201).json()
        measures = {made["id"]: {name: [{"timestamp": START, "value": 1}] for name in names}}
        client.post("/v1/batch/resources/metrics/measures", measures).expect(202)
        for metric in made["metrics"].values():
            refresh(client, metric)
            break
    silent = create_metric(client, "second")
    refresh(client, silent)
    waiting = lambda: client.get("/v1/status?details=false").expect(200).json()["storage"]["summary"]["measures"]
    wait_until(lambda: waiting() == 0, 300, "what was posted is processed")
    found, count = pages(client, f"/v1/metric?silent_since={START}")
    assert [metric["id"] for metric in found] == [silent] and count == 2
    found, count = pages(client, f"/v1/resource/generic?silent_since={START}")
    assert found == [] and count == 2
