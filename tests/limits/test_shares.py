"""How much of the shared resources one client can use: some is left for others."""

import gzip
import socket
import time

import pytest

from limits.neighbours import longest_wait_s
from support.http import Client, create_policy_with_rule
from support.process import at_once, wait_until

SOON_S = 60
NEIGHBOUR_S = 10
FORM_BYTES = 32 << 20
ADMIN = "Authorization: Basic YWRtaW46\r\n"


def connect(server, source="127.0.0.2"):
    connection = socket.socket()
    connection.settimeout(SOON_S)
    connection.bind((source, 0))
    connection.connect(("127.0.0.1", server.port))
    return connection


def head(path, length, more=""):
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {length}\r\n\r\n").encode()


def send_all_but_one_byte(connection, path, length, more=""):
    """Sends as much as the server takes of a body; it stalls one byte before the end."""
    try:
        connection.sendall(head(path, length, more))
        for _ in range(length >> 20):
            connection.sendall(b"q" * (1 << 20))
        connection.sendall(b"q" * ((length & 0xFFFFF) - 1) if length & 0xFFFFF else b"")
    except (BrokenPipeError, ConnectionResetError):
        # It was refused and closed.
        pass


@pytest.fixture
def passwords(tmp_path):
    path = tmp_path / "passwords"
    # bcrypt, cost 4, of "secret".
    path.write_text("admin:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n")
    return path


@pytest.mark.parametrize("is_protected", [False, True])
def test_anonymous_forms_that_stall_keep_nobody_waiting(gnudi, passwords, is_protected):
    """Sixteen of them, each one byte before the end of 32 MiB: half a gibibyte, if they were read."""
    server = gnudi(config=f"[api]\npassword_file = {passwords}\n" if is_protected else "")
    user = "Authorization: Basic YWRtaW46c2VjcmV0\r\n" if is_protected else ADMIN
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    connections = [connect(server) for _ in range(16)]
    try:
        at_once(lambda connection: send_all_but_one_byte(connection, "/v1/influxdb/query", FORM_BYTES, form), connections)
        began = time.monotonic()
        with connect(server, "127.0.0.1") as neighbour:
            body = b'{"archive_policy_name": "low"}' + b" " * 200_000
            neighbour.sendall(head("/v1/metric", len(body), user + "Content-Type: application/json\r\n") + body)
            assert neighbour.recv(12) == b"HTTP/1.1 201"
        assert time.monotonic() - began < NEIGHBOUR_S
        for connection in connections:
            try:
                assert connection.recv(12) == b"HTTP/1.1 401"
            except ConnectionResetError:
                pass
    finally:
        for connection in connections:
            connection.close()


def test_one_address_leaves_half_of_the_places_to_the_others(gnudi):
    """Bodies of somebody who may send them, in sum twice what the server holds."""
    server = gnudi(config="[api]\nbodies_bytes_max = 16000000\n")
    connections = [connect(server) for _ in range(16)]
    try:
        for connection in connections:
            send_all_but_one_byte(connection, "/v1/metric", 2_000_000, ADMIN + "Content-Type: application/json\r\n")
        greedy = Client("127.0.0.1", server.port, source="127.0.0.2")
        body = b" " * 1_500_000 + b'{"archive_policy_name": "low"}'
        wait_until(lambda: greedy.post("/v1/metric", body).status == 503, SOON_S, "the end of an address' share")
        for _ in range(5):
            Client("127.0.0.1", server.port, source="127.0.0.3").post("/v1/metric", body).expect(201)
        # Small bodies need no share.
        greedy.post("/v1/metric", {"archive_policy_name": "low"}).expect(201)
    finally:
        for connection in connections:
            connection.close()
    wait_until(lambda: Client("127.0.0.1", server.port, source="127.0.0.2").post("/v1/metric", body).status == 201, SOON_S,
               "the share's return")


def test_bodies_that_inflate_hold_no_neighbour(gnudi):
    """Twenty of them at once, 56 MiB each when inflated."""
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    client = server.client()
    create_policy_with_rule(client)
    client.post("/v1/influxdb/query?q=CREATE+DATABASE+%22db%22").expect(204)
    comment = b"# " + b"x" * (1 << 20) + b"\n"
    body = gzip.compress(comment * 56 + b"m,host=h f=1 1600000000000000000", 1)
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    answers = []

    def send():
        answers.append(server.client(timeout_s=300).post("/v1/influxdb/write?db=db", body, headers=headers).status)

    assert longest_wait_s(server, send, 20, "/v1/metric?limit=1") < NEIGHBOUR_S
    assert answers == [204] * 20
    assert server.process.memory_bytes("VmHWM") < 1 << 30
