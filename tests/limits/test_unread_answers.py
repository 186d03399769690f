"""Responses that clients do not read take a bounded amount of memory, and delay nobody else."""

import json
import socket
import time

import pytest

from limits.neighbours import ATTEMPTS, soonest_s
from support.gnudi import Gnudi
from support.http import basic, create_policy
from support.process import wait_until

# As JSON some 20 MB: the kernel's buffers take 6 MB at most.
GROUPS, POINTS = 40, 10_000
ROW_BYTES = 16
ANSWER_BYTES = GROUPS * POINTS * ROW_BYTES
# Room for one such answer, and not for two.
CONFIG = f"[api]\nanswers_bytes_max = {ANSWER_BYTES * 3 // 2}\n"
SOON_S = 20
TIMEOUT_S = 120
START = 1_600_000_000


def fill(client, groups, points):
    """Groups of one resource each, whose metric has so many points with the group's number."""
    create_policy(client, "unread", [("1s", None)], aggregation_methods=["mean"])
    attribute = {"type": "string", "min_length": 1, "max_length": 20, "required": True}
    client.post("/v1/resource_type", {"name": "unread", "attributes": {"host": attribute}}).expect(201)
    for number in range(groups):
        resource = client.post("/v1/resource/unread", {
            "id": f"group-{number}", "host": f"h{number:03}", "metrics": {"cpu": {"archive_policy_name": "unread"}}}).expect(201)
        path = f"/v1/metric/{resource.json()['metrics']['cpu']}/measures"
        measures = b", ".join(b'{"timestamp": %d, "value": %d}' % (START + second, number) for second in range(points))
        client.post(path, b"[" + measures + b"]").expect(202)
        client.get(f"{path}?refresh=true&limit=1").expect(200)


@pytest.fixture(scope="module")
def server(module_path):
    with Gnudi(module_path, CONFIG) as server:
        fill(server.client(timeout_s=TIMEOUT_S), GROUPS, POINTS)
        yield server


def legacy():
    return "/v1/aggregation/resource/unread/metric/cpu?groupby=host", b"{}"


def new():
    body = {"operations": ["aggregate", "mean", ["metric", "cpu", "mean"]], "search": "host != 'none'", "resource_type": "unread"}
    return "/v1/aggregates?groupby=host", json.dumps(body).encode()


def ask(server, path, body):
    """Sends a request whose answer is not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    head = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in basic("admin").items())]
    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    return connection


@pytest.mark.parametrize("query", [legacy, new])
def test_points_that_nobody_reads_are_bounded(server, query):
    path, body = query()
    client = server.client(timeout_s=TIMEOUT_S)
    groups = client.post(path, body).expect(200).json()
    assert len(groups) == GROUPS
    for _ in range(ATTEMPTS):
        with ask(server, path, body) as unread:
            assert unread.recv(12) == b"HTTP/1.1 200"
            refused = client.post(path, body)
            # What is small goes on.
            assert soonest_s(lambda: small_s(client), SOON_S) < SOON_S
        # The server ends what nobody reads after half a minute, which a busy machine may need to ask again.
        if refused.status == 503:
            break
    assert refused.expect(503).headers["retry-after"] == "1"
    wait_until(lambda: client.post(path, body).status == 200, TIMEOUT_S, "the end of what was not read")


def small_s(client):
    began = time.monotonic()
    client.get("/v1/resource/unread?limit=1").expect(200)
    return time.monotonic() - began


def test_lists_take_little_memory(gnudi):
    """Each revision is shown with all metrics of its resource, and each metric with its whole policy: some 60 to 80 MB of JSON."""
    server = gnudi()
    client = server.client(timeout_s=TIMEOUT_S)
    create_policy(client, "wide", [("1s", 60)], aggregation_methods=["*"])
    metrics = {f"{number:05}": {"archive_policy_name": "wide"} for number in range(20_000)}
    client.post("/v1/resource/generic", {"id": "many", "metrics": metrics}).expect(201)
    for number in range(80):
        client.patch("/v1/resource/generic/many", {"user_id": str(number)}).expect(200)
    before = server.process.memory_bytes("VmHWM")
    for path, count in [("history", 81), ("metric", 20_000)]:
        answer = client.get(f"/v1/resource/generic/many/{path}").expect(200)
        assert len(answer.body) > 50 << 20 and len(answer.json()) == count
        # The metrics themselves take half of it.
        assert server.process.memory_bytes("VmHWM") - before < 64 << 20, path


def test_details_are_bounded(gnudi):
    """Each of 168 groups by time has the resource with all of its metrics: 40 MB."""
    client = gnudi(config=CONFIG).client(timeout_s=TIMEOUT_S)
    create_policy(client, "hourly", [("1h", None)], aggregation_methods=["mean"])
    metrics = {f"{number:04}": {"archive_policy_name": "hourly"} for number in range(5_000)}
    metric = client.post("/v1/resource/generic", {"id": "many", "metrics": metrics}).expect(201).json()["metrics"]["0000"]
    measures = [{"timestamp": 1_600_000_000 + 3_600 * hour, "value": hour} for hour in range(168)]
    client.post(f"/v1/metric/{metric}/measures", measures).expect(202)
    client.get(f"/v1/metric/{metric}/measures?refresh=true&limit=1").expect(200)
    body = {"operations": ["metric", "0000", "mean"], "search": "id = 'many'", "resource_type": "generic"}
    path = "/v1/aggregates?groupby=time:weekday&groupby=time:hour"
    assert len(client.post(path, body).expect(200).json()) == 168
    client.post(f"{path}&details=true", body).expect(503)
