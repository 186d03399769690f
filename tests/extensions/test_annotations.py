"""Annotations: they are listed in order, within limits, with the history, and are deleted with their resource."""

import datetime
import random
import re
import urllib.parse
import uuid

import pytest

from support.gnudi import Gnudi

CHARACTERS_MAX, COUNT_MAX = 4096, 1000
ROUNDS = 300


@pytest.fixture(scope="module")
def server(module_path):
    with Gnudi(module_path, config="[api]\nmax_limit = 7\n") as server:
        yield server


@pytest.fixture
def resource(server):
    """The address of a new resource's annotations, without the last segment."""
    made = server.client().post("/v1/resource/generic", {"id": str(uuid.uuid4())}).expect(201).json()
    return f"/v1/resource/generic/{made['id']}"


def texts(answer):
    return [annotation["text"] for annotation in answer.expect(200).json()]


def time(second):
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).isoformat()


def test_an_annotation_is_kept_whole(server, resource):
    client = server.client("alice:p")
    admin = server.client()
    text = "é \U0001f525 'a' \"b\" \\\n" + "x" * (CHARACTERS_MAX - 14)
    before = datetime.datetime.now(datetime.timezone.utc)
    made = admin.post(f"{resource}/annotation", {"timestamp": "2015-03-06T14:33:57.123456789", "text": text}).expect(201)
    written = made.json()
    assert written["text"] == text and written["timestamp"] == "2015-03-06T14:33:57.123457+00:00"
    assert written["creator"] == written["created_by_user_id"] == "admin" and written["created_by_project_id"] == ""
    assert resource.endswith(written["resource_id"])
    path = urllib.parse.urlsplit(made.headers["location"]).path
    assert path == f"{resource}/annotation/{written['id']}"
    assert admin.get(path).expect(200).json() == written
    now = admin.post(f"{resource}/annotation", {"text": "now"}).expect(201).json()
    at = datetime.datetime.fromisoformat(now["timestamp"])
    assert before - datetime.timedelta(seconds=1) <= at <= datetime.datetime.now(datetime.timezone.utc)
    assert admin.get(f"{resource}/annotation").expect(200).json() == [written, now]
    client.get(path).expect(403)
    admin.delete(path).expect(204)
    admin.delete(path).expect(404)
    assert texts(admin.get(f"{resource}/annotation")) == ["now"]


def test_a_restart_keeps_them(gnudi):
    server = gnudi()
    client = server.client()
    client.post("/v1/resource/generic", {"id": "a"}).expect(201)
    client.post("/v1/resource/generic/a/annotation", {"text": "kept"}).expect(201)
    server.kill()
    client = server.start().client()
    assert texts(client.get("/v1/resource/generic/a/annotation")) == ["kept"]
    client.delete("/v1/resource/generic/a").expect(204)
    client.get("/v1/resource/generic/a/annotation").expect(404)
    client.post("/v1/resource/generic", {"id": "a"}).expect(201)
    assert texts(client.get("/v1/resource/generic/a/annotation")) == []


def test_pages_and_times_are_those_of_a_sorted_list(server, resource, seed):
    """Random annotations, deletions, ranges and pages, beside a list."""
    client, numbers, model = server.client(), random.Random(seed), []
    for number in range(ROUNDS):
        kind = numbers.random()
        if kind < 0.5 or not model:
            second = numbers.randrange(1_600_000_000, 1_600_000_020)
            made = client.post(f"{resource}/annotation", {"timestamp": second, "text": str(number)}).expect(201).json()
            model.append((second, made["id"], str(number)))
        elif kind < 0.6:
            gone = model.pop(numbers.randrange(len(model)))
            client.delete(f"{resource}/annotation/{gone[1]}").expect(204)
        else:
            start, stop = (numbers.choice([None, numbers.randrange(1_600_000_000, 1_600_000_022)]) for _ in range(2))
            expected = sorted(item for item in model if (start is None or item[0] >= start) and (stop is None or item[0] < stop))
            arguments = {name: value for name, value in [("start", start), ("stop", stop)] if value is not None}
            arguments |= numbers.choice([{}, {"limit": numbers.randint(1, 9)}])
            path, found = f"{resource}/annotation?" + urllib.parse.urlencode(arguments), []
            while path:
                answer = client.get(path).expect(200)
                assert len(answer.json()) <= min(arguments.get("limit", 7), 7)
                found += texts(answer)
                link = re.match(r'<http://[^/]*([^>]*)>; rel="next"', answer.headers.get("link", ""))
                path = link and link[1]
            assert found == [item[2] for item in expected], (seed, arguments)


def test_a_history_shows_them_with_the_revisions_of_their_times(server, resource):
    client = server.client()
    start = client.get(resource).expect(200).json()["revision_start"]
    client.post(f"{resource}/annotation", {"text": "of the first", "timestamp": start}).expect(201)
    client.patch(resource, {"user_id": "u"}).expect(200)
    client.post(f"{resource}/annotation", {"text": "of the second"}).expect(201)
    client.post(f"{resource}/annotation", {"text": "of no revision", "timestamp": "2001-01-01"}).expect(201)
    plain = client.get(f"{resource}/history").expect(200).json()
    shown = client.get(f"{resource}/history?annotations=true&sort=revision_start:asc").expect(200).json()
    assert [[item["text"] for item in revision.pop("annotations")] for revision in shown] == [["of the first"], ["of the second"]]
    assert shown == plain
    assert all("annotations" not in revision for revision in plain)
    client.get(f"{resource}/history?annotations=perhaps").expect(400)


@pytest.mark.parametrize("body", [
    {}, {"text": ""}, {"text": "x" * (CHARACTERS_MAX + 1)}, {"text": "a\0b"}, {"text": 7}, {"text": None}, {"text": ["x"]},
    {"timestamp": "2015-01-01"}, {"text": "x", "timestamp": "yesterdayish"}, {"text": "x", "timestamp": None},
    {"text": "x", "timestamp": "9999999999999999999"}, {"text": "x", "timestamp": {}}, {"text": "x", "more": 1}, [], "x", 7,
    b"{", b"",
])
def test_what_is_no_annotation_is_refused(server, resource, body):
    client = server.client()
    answer = client.post(f"{resource}/annotation", body).expect(400).json()
    assert answer["description"]
    assert client.get(f"{resource}/annotation").expect(200).json() == []


def test_what_is_not_there_is_not_found(server, resource):
    client = server.client()
    other = client.post("/v1/resource/generic", {"id": str(uuid.uuid4())}).expect(201).json()["id"]
    foreign = client.post(f"/v1/resource/generic/{other}/annotation", {"text": "x"}).expect(201).json()["id"]
    for id in [foreign, str(uuid.uuid4()), "x", "%00"]:
        client.get(f"{resource}/annotation/{id}").expect(404)
        client.delete(f"{resource}/annotation/{id}").expect(404)
    client.get(f"/v1/resource/generic/{uuid.uuid4()}/annotation").expect(404)
    client.post(f"/v1/resource/generic/{uuid.uuid4()}/annotation", {"text": "x"}).expect(404)
    client.get("/v1/resource/nothing/x/annotation").expect(404)
    for arguments in ["start=x", "stop=x", "limit=0", "limit=x", f"marker={foreign}", "marker=x", "start=1&start=2"]:
        client.get(f"{resource}/annotation?{arguments}").expect(400)
    client.get(f"/v1/resource/generic/{other}/annotation/{foreign}").expect(200)


def test_a_resource_has_only_so_many(server, resource):
    client = server.client()
    for number in range(COUNT_MAX):
        last = client.post(f"{resource}/annotation", {"text": str(number)}).expect(201).json()["id"]
    answer = client.post(f"{resource}/annotation", {"text": "one more"}).expect(400).json()
    assert str(COUNT_MAX) in answer["description"]
    client.delete(f"{resource}/annotation/{last}").expect(204)
    client.post(f"{resource}/annotation", {"text": "one more"}).expect(201)
    client.delete(resource).expect(204)
