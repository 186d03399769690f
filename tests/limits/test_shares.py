"""How much of the shared resources one client can use: some is left for others."""

import gzip
import socket
import time

import pytest

from limits.neighbours import longest_wait_s, soonest_s
from support.http import Client, create_policy_with_rule
from support.process import at_once, wait_until

SOON_S = 60
NEIGHBOUR_S = 10
# Bodies that stall are not ended by their time limit, however slow the machine is.
STALLING = "[api]\nbody_grace_ms = 600000\n"
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


def neighbour_s(server, user):
    """How long a body from another address takes."""
    began = time.monotonic()
    with connect(server, "127.0.0.1") as neighbour:
        body = b'{"archive_policy_name": "low"}' + b" " * 200_000
        neighbour.sendall(head("/v1/metric", len(body), user + "Content-Type: application/json\r\n") + body)
        assert neighbour.recv(12) == b"HTTP/1.1 201"
    return time.monotonic() - began


def status_of(client, body):
    """Of a new metric with this body; None where the server has closed the connection before all of it was sent."""
    try:
        return client.post("/v1/metric", body).status
    except (BrokenPipeError, ConnectionResetError):
        return None


@pytest.mark.parametrize("is_protected", [False, True])
def test_anonymous_forms_that_stall_keep_nobody_waiting(gnudi, passwords, is_protected):
    """Sixteen of them, each one byte before the end of 32 MiB: half a gibibyte, if they were read."""
    server = gnudi(config=STALLING + (f"password_file = {passwords}\n" if is_protected else ""))
    user = "Authorization: Basic YWRtaW46c2VjcmV0\r\n" if is_protected else ADMIN
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    connections = [connect(server) for _ in range(16)]
    try:
        at_once(lambda connection: send_all_but_one_byte(connection, "/v1/influxdb/query", FORM_BYTES, form), connections)
        assert soonest_s(lambda: neighbour_s(server, user), NEIGHBOUR_S) < NEIGHBOUR_S
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
    server = gnudi(config=f"{STALLING}bodies_bytes_max = 16000000\n")
    greedy = Client("127.0.0.1", server.port, source="127.0.0.2")
    body = b" " * 1_500_000 + b'{"archive_policy_name": "low"}'
    connections = []

    def stall():
        connections.append(connect(server))
        send_all_but_one_byte(connections[-1], "/v1/metric", 2_000_000, ADMIN + "Content-Type: application/json\r\n")

    def is_at_its_end():
        """Of those that come at once, each may be refused for the sake of another."""
        if status_of(greedy, body) == 503:
            return True
        stall()
        return False

    try:
        for _ in range(16):
            stall()
        wait_until(is_at_its_end, SOON_S, "the end of an address' share")
        for _ in range(5):
            Client("127.0.0.1", server.port, source="127.0.0.3").post("/v1/metric", body).expect(201)
        # Small bodies need no share.
        greedy.post("/v1/metric", {"archive_policy_name": "low"}).expect(201)
    finally:
        for connection in connections:
            connection.close()
    wait_until(lambda: status_of(Client("127.0.0.1", server.port, source="127.0.0.2"), body) == 201, SOON_S, "the share's return")


def test_bodies_that_inflate_hold_no_neighbour(gnudi):
    """Twenty of them at once, 56 MiB each when inflated."""
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    client = server.client()
    create_policy_with_rule(client)
    client.post("/v1/influxdb/query?q=CREATE+DATABASE+%22db%22").expect(204)
    comment = b"# " + b"x" * (1 << 20) + b"\n"
    body = gzip.compress(comment * 56 + b"m,host=h f=1 1600000000000000000", 1)
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    send = lambda: server.client(timeout_s=300).post("/v1/influxdb/write?db=db", body, headers=headers).status
    assert soonest_s(lambda: longest_wait_s(server, send, 20, "/v1/metric?limit=1", 204), NEIGHBOUR_S) < NEIGHBOUR_S
    assert server.process.memory_bytes("VmHWM") < 1 << 30
