"""Error responses: in the format that the client accepts, and never as long as the request."""

import email.utils
import time

import pytest

AXIOS = "application/json, text/plain, */*"


def test_a_client_that_asks_for_json_first_gets_it(server):
    client = server.client()
    for accept in [AXIOS, "application/json", "*/*"]:
        answer = client.get("/v1/archive_policy/none", headers={"Accept": accept}).expect(404)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["code"] == 404
    answer = client.get("/v1/archive_policy/none", headers={"Accept": "text/html, application/json"}).expect(404)
    assert answer.headers["content-type"].startswith("text/html")


def test_a_preflight_is_no_refusal_of_anybody(gnudi):
    server = gnudi()
    client = server.client(user=None)
    headers = {"Origin": "http://grafana.example", "Access-Control-Request-Method": "GET"}
    for path in ["/v1/metric", "/v1/resource/generic", "/v1/none"]:
        client.request("OPTIONS", path, headers=headers)
    assert " refused " not in server.log()
    client.request("DELETE", "/v1/metric/none").expect(401)
    assert " refused " in server.log()


@pytest.mark.parametrize("accept", ["application/json", "text/html, application/json", "text/plain, application/json"])
def test_an_answer_does_not_repeat_a_large_request(server, accept):
    client = server.client()
    value = "x" * 1_000_000
    answer = client.post("/v1/search/resource/generic", {"like": {"ended_at": value}}, headers={"Accept": accept})
    assert answer.status == 400
    assert 100 < len(answer.body) < 20_000
    assert b"xxx..." in answer.body


def test_every_answer_has_the_date(server):
    client = server.client()
    for path, status in [("/", 200), ("/v1/metric", 200), ("/v1/none", 404)]:
        began = time.time()
        date = client.get(path).expect(status).headers["date"]
        assert began - 5 < email.utils.parsedate_to_datetime(date).timestamp() < time.time() + 5
