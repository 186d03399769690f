"""Clients that send slowly or never: they are disconnected, and delay nobody else."""

import math
import socket
import time

import pytest

from limits.neighbours import soonest_s
from support.gnudi import Gnudi
from support.process import wait_until

pytestmark = pytest.mark.slow

HEADER_TIMEOUT_S = 0.5
CONFIG = f"[api]\nheader_timeout_ms = {int(HEADER_TIMEOUT_S * 1000)}\nconnections_max = 200\n"
# How long after the limit a busy machine may take to notice. It is less than the usual limits of 10 s.
GRACE_S = 5
CUT_OFF_S = HEADER_TIMEOUT_S + GRACE_S
ANSWER_TIMEOUT_S = 60
# Bodies that stall are not ended by their time limit, however slow the machine is.
STALLING = "body_grace_ms = 600000\n"


@pytest.fixture(scope="module")
def server(module_path):
    with Gnudi(module_path, CONFIG) as server:
        yield server


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_TIMEOUT_S)


def seconds_until_closed(connection):
    """Reads until the server closes the connection; answers how long that took, and what it said."""
    began, said = time.monotonic(), b""
    try:
        while chunk := connection.recv(65536):
            said += chunk
    except ConnectionResetError:
        pass
    return time.monotonic() - began, said


def answer_s(server):
    """How long a request takes."""
    began = time.monotonic()
    server.client(timeout_s=ANSWER_TIMEOUT_S).get("/v1/metric").expect(200)
    return time.monotonic() - began


def assert_serves(server):
    assert soonest_s(lambda: answer_s(server), GRACE_S) < GRACE_S


@pytest.mark.parametrize("head", [b"", b"GET", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_an_unfinished_head_is_cut_off(server, head):

    def cut_off_s():
        with connect(server) as connection:
            connection.sendall(head)
            return seconds_until_closed(connection)[0]

    assert soonest_s(cut_off_s, CUT_OFF_S) < CUT_OFF_S
    assert_serves(server)


def test_a_head_byte_by_byte_is_cut_off(server):
    """Each byte is in time, the head as a whole isn't."""

    def cut_off_s():
        began, closed = time.monotonic(), False
        with connect(server) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n")
            connection.setblocking(False)
            while not closed and time.monotonic() < began + ANSWER_TIMEOUT_S:
                time.sleep(HEADER_TIMEOUT_S / 10)
                try:
                    connection.send(b"X")
                    closed = connection.recv(1) == b""
                except BlockingIOError:
                    pass
                except OSError:
                    closed = True
        return time.monotonic() - began

    assert soonest_s(cut_off_s, CUT_OFF_S) < CUT_OFF_S
    assert_serves(server)


def test_half_open_connections_block_nobody(server):

    def longest_s():
        """Of the answer to another client, and of what each connection waits for its end."""
        connections = [connect(server) for _ in range(100)]
        for connection in connections:
            connection.sendall(b"POST /v1/metric HTTP/1.1\r\nHost: x\r\n")
        durations_s = [answer_s(server)]
        for connection in connections:
            durations_s.append(seconds_until_closed(connection)[0])
            connection.close()
        return max(durations_s)

    assert soonest_s(longest_s, GRACE_S) < GRACE_S
    assert_serves(server)


def test_unfinished_bodies_block_nobody(gnudi):
    server = gnudi(config=CONFIG + STALLING)
    head = (b"POST /v1/metric HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWRtaW46\r\n"
            b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    connections = [connect(server) for _ in range(50)]
    for connection in connections:
        connection.sendall(head)
    assert_serves(server)
    for connection in connections:
        connection.close()
    assert_serves(server)


def test_connections_beyond_the_limit_wait_or_are_refused_and_later_ones_served(gnudi):
    server = gnudi(config="[api]\nconnections_max = 5\nheader_timeout_ms = 500\n")
    limit_s = 5 * HEADER_TIMEOUT_S + GRACE_S

    def longest_s():
        durations_s = []
        for connection in [connect(server) for _ in range(20)]:
            durations_s.append(seconds_until_closed(connection)[0])
            connection.close()
        return max(durations_s)

    def is_served():
        answer = server.client(timeout_s=ANSWER_TIMEOUT_S).get("/v1/metric").expect(200, 503)
        assert answer.status == 200 or answer.headers["retry-after"] == "1"
        return answer.status == 200

    assert soonest_s(longest_s, limit_s) < limit_s
    # The client sees the end of a connection a moment before the server gives its place away.
    wait_until(is_served, ANSWER_TIMEOUT_S, "a place")


def test_rubbish_instead_of_http(server):
    for rubbish in (b"\x16\x03\x01\x02\x00\x01\x00", b"\0" * 100, b"HELO x\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                    b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\r\n" * 50 + b"x",
                    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        def cut_off_s():
            with connect(server) as connection:
                connection.sendall(rubbish)
                elapsed_s, said = seconds_until_closed(connection)
            assert b" 500 " not in said.split(b"\r\n")[0]
            return elapsed_s

        assert soonest_s(cut_off_s, CUT_OFF_S) < CUT_OFF_S, rubbish
    assert_serves(server)
    assert "panicked" not in server.log()


def form(length, authorization=""):
    return (f"POST /v1/influxdb/query HTTP/1.1\r\nHost: x\r\n{authorization}"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n").encode()


def test_a_form_of_somebody_unknown_is_not_read(gnudi):
    server = gnudi()
    with connect(server) as connection:
        connection.sendall(form(1_000_000) + b"q" * 10)
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_a_form_is_small(gnudi):
    server = gnudi()
    with connect(server) as connection:
        connection.sendall(form(32 << 20, "Authorization: Basic YWRtaW46\r\n"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_stalls_before_its_end_is_cut_off(gnudi):
    """However fast the rest of it came."""
    server = gnudi(config="[api]\nbody_grace_ms = 1000\n")
    length = 32 << 20

    def cut_off_s():
        with connect(server) as connection:
            try:
                connection.sendall(b"POST /v1/metric HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWRtaW46\r\n"
                                   b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length)
                connection.sendall(b" " * (length - 1))
            except (BrokenPipeError, ConnectionResetError):
                # The machine stood still while it was sent.
                return math.inf
            return seconds_until_closed(connection)[0]

    assert soonest_s(cut_off_s, 1 + GRACE_S) < 1 + GRACE_S


def test_one_address_leaves_room_for_the_bodies_of_others(gnudi):
    """Its bodies stall one byte before their end."""
    server = gnudi(config=f"[api]\nbodies_bytes_max = 8000000\n{STALLING}")
    length, connections = 1_000_000, []
    try:
        for _ in range(12):
            connection = socket.socket()
            connection.bind(("127.0.0.2", 0))
            connection.connect(("127.0.0.1", server.port))
            connections.append(connection)
            try:
                connection.sendall(b"POST /v1/metric HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWRtaW46\r\n"
                                   b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length)
                connection.sendall(b" " * (length - 1))
            except (BrokenPipeError, ConnectionResetError):
                # It was refused and closed.
                pass
        time.sleep(1)
        server.client().post("/v1/metric", b" " * 200_000 + b'{"archive_policy_name": "low"}').expect(201)
    finally:
        for connection in connections:
            connection.close()


def test_a_change_with_a_late_body_overwrites_no_other(gnudi):
    """If-Match holds until the change is made, not only until its body is read."""
    server = gnudi(config=f"[api]\n{STALLING}")
    client, path = server.client(), "/v1/resource/generic/5dfe182a-51d2-4122-b90b-df0f215b736e"
    client.post("/v1/resource/generic", {"id": path.rsplit("/", 1)[1]}).expect(201)
    tag = client.get(path).expect(200).headers["etag"]
    body = b'{"user_id": "late"}'
    with connect(server) as connection:
        head = [f"PATCH {path} HTTP/1.1", "Host: x", "Authorization: basic YWRtaW46", "Content-Type: application/json",
                f"If-Match: {tag}", "Expect: 100-continue", f"Content-Length: {len(body)}"]
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        # The preconditions have been evaluated.
        assert b" 100 " in connection.recv(65536)
        client.patch(path, {"user_id": "first"}, headers={"If-Match": tag}).expect(200)
        connection.sendall(body)
        assert b" 412 " in connection.recv(65536)
    assert client.get(path).expect(200).json()["user_id"] == "first"
