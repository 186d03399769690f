"""Limits on the size of a request and of the backlog."""

import socket

import pytest

from support.gnudi import Gnudi
from support.http import create_metric, create_policy

MEASURE = {"timestamp": 1_600_000_000, "value": 1}


@pytest.fixture(scope="module")
def server(module_path):
    """One that takes small bodies."""
    with Gnudi(module_path, config="[api]\nbody_bytes_max = 10000\n") as server:
        yield server


def metric_path(client):
    create_policy(client, "limits", [("1s", None)])
    return f"/v1/metric/{create_metric(client, 'limits')}/measures"


def test_a_body_beyond_the_limit_is_413(server):
    client = server.client()
    path = metric_path(client)
    assert client.post(path, b"[" + b" " * 9998 + b"]").status == 202
    for path in (path, "/v1/metric", "/v1/batch/metrics/measures", "/v1/archive_policy"):
        refusal = client.post(path, b"[" + b" " * 9999 + b"]")
        assert refusal.status == 413
        assert refusal.json()["code"] == 413
    assert client.get("/v1/metric").status == 200


def test_a_promised_body_beyond_the_limit_is_refused_before_it_is_sent(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"POST /v1/metric HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWRtaW46\r\n"
                           b"Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_sends_all_of_a_large_body_first_still_reads_the_413(server):
    """Closing on unread data would reset the connection, and the client would never see why."""
    assert server.client().post("/v1/metric", b" " * 3_000_000).status == 413


def test_a_chunked_body_beyond_the_limit_is_413(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"POST /v1/metric HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWRtaW46\r\n"
                           b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(20):
                connection.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_more_measures_than_the_limit_are_413(gnudi):
    server = gnudi(config="[api]\nrequest_measures_max = 100\n")
    client = server.client()
    path = metric_path(client)
    assert client.post(path, [MEASURE] * 100).status == 202
    assert client.post(path, [MEASURE] * 101).status == 413
    metric = path.split("/")[3]
    assert client.post("/v1/batch/metrics/measures", {metric: [MEASURE] * 101}).status == 413


def test_a_full_backlog_is_429_and_drains(gnudi):
    """What waits has a limit; beyond it clients are told to come back, and once it is processed they may."""
    config = "[incoming]\nbacklog_bytes_max = 100000\n[metricd]\ngreedy = false\nmetric_processing_delay = 3600\n"
    server = gnudi(config=config)
    client = server.client()
    path = metric_path(client)
    acknowledged = 0
    for number in range(1000):
        body = [{"timestamp": 1_600_000_000 + number * 100 + n, "value": n * 1.7} for n in range(100)]
        answer = client.post(path, body)
        if answer.status != 202:
            break
        acknowledged += 100
    assert answer.status == 429
    assert answer.headers["retry-after"] == "1"
    assert (answer.json()["code"], answer.json()["title"]) == (429, "Too Many Requests")
    points = client.get(path + "?refresh=true&aggregation=count").expect(200).json()
    assert sum(value for _, _, value in points) == acknowledged
    assert client.post(path, [MEASURE]).status == 202
