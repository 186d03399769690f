"""Malformed and refused requests: the status and the JSON error body are Gnocchi's; never a 500; nothing changes.

Where Gnocchi itself fails with a 500, gnudi answers a 4xx with a JSON error.
"""

import collections

import pytest

from differential import bad_aggregate_requests, bad_requests, bad_resource_requests
from differential.bad_resource_requests import OTHER, RESOURCE, TYPE
from support.http import create_metric, create_policy

CASES = [case for file in (bad_requests, bad_resource_requests, bad_aggregate_requests) for case in file.all_cases()]
Side = collections.namedtuple("Side", "client names")


def prepare(client):
    """What the cases' placeholders stand for, on one server."""
    for rule in client.get("/v1/archive_policy_rule").expect(200).json():
        client.delete(f"/v1/archive_policy_rule/{rule['name']}").expect(204)
    methods = {"aggregation_methods": ["mean", "sum"]}
    create_policy(client, "used", [("1s", 60), ("60s", None)], **methods)
    create_policy(client, "free", [("1s", 60)], **methods)
    create_policy(client, "ruled", [("1s", 60)], **methods)
    for name, pattern in (("rule", "disk.*"), ("other", "cpu.*")):
        client.post("/v1/archive_policy_rule",
                    {"name": name, "metric_pattern": pattern, "archive_policy_name": "ruled"}).expect(201)
    owner = client.as_user("owner")
    names = {
        "{metric}": create_metric(owner, "used"),
        "{named}": create_metric(owner, "used", name="named", unit="B"),
        "{scrap}": create_metric(owner, "used"),
    }
    client.post("/v1/resource_type", {"name": "badtype", "attributes": TYPE}).expect(201)
    client.post("/v1/resource_type", {"name": "badflux"}).expect(201)
    for rid in (RESOURCE, OTHER):
        owner.post("/v1/resource/badtype", {"id": rid, "display": "name", "started_at": "2014-01-01",
                                            "metrics": {"cpu": {"archive_policy_name": "used"}}}).expect(201)
    owner.patch(f"/v1/resource/badtype/{RESOURCE}", {"size": 3}).expect(200)
    names["{cpu}"], names["{other_cpu}"] = (
        client.get(f"/v1/resource/badtype/{rid}/metric/cpu").expect(200).json()["id"] for rid in (RESOURCE, OTHER))
    measures = [{"timestamp": 1_425_652_437 + n, "value": n} for n in range(5)]
    owner.post(f"/v1/metric/{names['{metric}']}/measures", measures).expect(202)
    owner.get(f"/v1/metric/{names['{metric}']}/measures?refresh=true").expect(200)
    return Side(client, names)


@pytest.fixture(scope="module")
def gnudi_side(ours):
    return prepare(ours)


@pytest.fixture(scope="module")
def gnocchi_side(theirs):
    return prepare(theirs)


def fill_in(names, text):
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def send(side, case):
    """The answer, with this server's ids and address replaced by their placeholders."""
    body = case.body
    if isinstance(body, bytes) and any(name.encode() in body for name in side.names):
        body = fill_in(side.names, body.decode()).encode()
    client = side.client.as_user(case.user)
    answer = client.request(case.method, fill_in(side.names, case.path), body, case.headers)
    client.close()
    text = answer.body.decode("utf-8", "replace")
    for name, value in side.names.items():
        text = text.replace(value, name)
    return answer, text.replace(f"127.0.0.1:{client.port}", "SERVER")


def state(side):
    """Everything a request could have changed."""
    metric = side.names["{metric}"]
    pages = ["/v1/resource_type", "/v1/resource/badflux", "/v1/resource/badtype?history=true",
             "/v1/archive_policy", "/v1/archive_policy_rule", "/v1/metric?limit=1000",
             *(f"/v1/metric/{metric}/measures?refresh=true&aggregation={method}" for method in ("mean", "sum"))]
    return {page: side.client.get(page).expect(200).body for page in pages}


@pytest.fixture(scope="module")
def left():
    """The state that the last case has left, which is where the next one begins; empty where that case failed."""
    return {}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_bad_request(case, gnudi_side, gnocchi_side, left, pytestconfig):
    oracle = pytestconfig.getoption("oracle")
    untouched = None if oracle else dict(left) or state(gnudi_side)
    left.clear()
    their_answer, their_text = send(gnocchi_side, case)
    answer, text = send(gnudi_side, case)
    if oracle:
        assert answer.status == their_answer.status
        assert case.other_body or case.status or answer.status in (200, 500) or text == their_text
        return
    # 501 is what Gnocchi answers to what it does not do.
    assert answer.status < 500 or answer.status == their_answer.status == 501, f"{answer.status} {text[:500]}"
    if case.status is not None:
        allowed = case.status if isinstance(case.status, tuple) else (case.status,)
        assert answer.status in allowed, f"{answer.status} {text[:500]}\nGnocchi: {their_answer.status}"
    elif their_answer.status == 500:
        assert 400 <= answer.status < 500, f"{answer.status} {text[:500]}"
    else:
        assert answer.status == their_answer.status, f"{text[:500]}\nGnocchi: {their_text[:500]}"
    # Gnocchi says nothing to somebody who is not known.
    if case.status is not None or their_answer.status in (401, 500) or case.other_body:
        assert_is_an_error(case, answer)
    elif answer.status >= 400:
        assert text == their_text
        assert media_type(answer) == media_type(their_answer)
    assert state(gnudi_side) == untouched
    left.update(untouched)


def media_type(answer):
    return answer.headers.get("content-type", "").split(";")[0]


def assert_is_an_error(case, answer):
    """Status, title and description in JSON, unless the case asked for something else."""
    if answer.status < 400 or "Accept" in case.headers or case.method == "HEAD":
        return
    error = answer.json()
    assert error["code"] == answer.status
    assert error.keys() == {"code", "title", "description"}


def test_there_are_hundreds_of_cases():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) > 600
