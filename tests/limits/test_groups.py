"""Responses in groups that exceed a request's memory limit: the rest is computed while the client reads."""

import json

import pytest

from limits.test_unread_answers import ask, fill, legacy, new
from support.gnudi import Gnudi
from support.http import create_policy

# As points some 21 MB, of which 16 MiB are held.
GROUPS, POINTS = 130, 10_000
# One project gets seven eighths: four such answers do not fit, four times what is held does.
CONFIG = "[api]\nanswers_bytes_max = 80000000\n"


@pytest.fixture(scope="module")
def server(module_path):
    with Gnudi(module_path, CONFIG) as server:
        fill(server.client(timeout_s=120), GROUPS, POINTS)
        yield server


@pytest.mark.parametrize("query", [legacy, new])
def test_all_groups_are_there_once_and_in_order(server, query):
    path, body = query()
    groups = server.client(timeout_s=120).post(path, body).expect(200).json()
    assert [group["group"] for group in groups] == [{"host": f"h{number:03}"} for number in range(GROUPS)]
    for number, group in enumerate(groups):
        points = group["measures"]
        points = points["measures"]["aggregated"] if query is new else points
        assert len(points) == POINTS and {value for _, _, value in points} == {number}
        assert [points[0][0], points[-1][0]] == ["2020-09-13T12:26:40+00:00", "2020-09-13T15:13:19+00:00"]


@pytest.mark.parametrize("query", [legacy, new])
def test_clients_that_do_not_read_leave_room_for_others(server, query):
    path, body = query()
    connections = []
    try:
        for _ in range(4):
            connection = ask(server, path, body)
            connections.append(connection)
            assert connection.recv(12) == b"HTTP/1.1 200"
    finally:
        for connection in connections:
            connection.close()


def test_an_error_of_a_late_group_is_the_status(server):
    """The last group's metric lacks what is asked for."""
    client = server.client(timeout_s=120)
    create_policy(client, "other", [("1s", None)], aggregation_methods=["sum"])
    client.post("/v1/resource/unread", {"id": "last", "host": "z",
                                        "metrics": {"cpu": {"archive_policy_name": "other"}}}).expect(201)
    try:
        path, body = new()
        client.post(path, body).expect(404)
        path, body = legacy()
        client.post(path, body).expect(404)
    finally:
        client.delete("/v1/resource/unread/last").expect(204)
    assert len(json.loads(client.post(*new()).expect(200).body)) == GROUPS
