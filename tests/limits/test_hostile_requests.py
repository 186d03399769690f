"""Malicious requests: each gets an error with the reason, and the server keeps running."""

import re
import socket

import pytest

from limits import hostile
from support.http import create_policy_with_rule
from support.process import wait_until


def exchange(server, request):
    """The status line and what follows it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_TIMEOUT_S) as connection:
        connection.sendall(request)
        said = b""
        while chunk := connection.recv(65536):
            said += chunk
    return int(said.split(b" ", 2)[1]), said


@pytest.mark.parametrize("hosts,status", [
    ([b"h"], 200), ([b"h:8041"], 200), ([b"[::1]:8041"], 200), ([b""], 200),
    ([], 400), ([b"a", b"b"], 400), ([b"a", b"a"], 400), ([b'a"><script>'], 400), ([b"a b"], 400), ([b"u@h"], 400),
    ([b"a/b"], 400), ([b"h:port"], 400),
])
def test_a_request_names_one_host(server, hosts, status):
    head = b"".join(b"Host: " + host + b"\r\n" for host in hosts)
    answered, said = exchange(server, b"GET / HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n")
    assert answered == status, said
    assert b"<script>" not in said
    if status == 400:
        assert b"Host" in said


def test_version_1_of_the_protocol_needs_no_host(server):
    assert exchange(server, b"GET / HTTP/1.0\r\n\r\n")[0] == 200


@pytest.mark.parametrize("bytes_sent,status", [(60_000, 200), (70_000, 431), (200_000, 431)])
def test_a_head_has_at_most_64_kib(server, bytes_sent, status):
    head = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX: " + b"x" * bytes_sent + b"\r\n\r\n"
    try:
        assert exchange(server, head)[0] == status
    except ConnectionResetError:
        # The rest of a head that is not read.
        assert status == 431


ROUNDS = 3
# After the first round: what the allocator keeps of the largest bodies, and its caches.
GROWTH_BYTES_MAX = 48 << 20
GIVEN_BACK_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 60


def read_answer(connection):
    """(status, whether the server keeps the connection); 0 where it closed without a word."""
    said = b""
    while b"\r\n\r\n" not in said:
        chunk = connection.recv(65536)
        if not chunk:
            assert not said, said
            return 0, False
        said += chunk
    head, _, body = said.partition(b"\r\n\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    status, length = int(head.split(b" ", 2)[1]), int(headers.get(b"content-length", 0))
    while len(body) < length:
        chunk = connection.recv(65536)
        assert chunk, f"{len(body)} of {length} bytes of an answer"
        body += chunk
    assert status < 400 or head.startswith(b"HTTP/1.")
    return status, headers.get(b"connection") != b"close"


def play(server, request, names):
    """Sends a request on a connection of its own: the status, and whether the connection still serves where it was kept."""
    raw = request.raw
    for name, value in names.items():
        raw = raw.replace(name, value)
    with socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_TIMEOUT_S) as connection:
        try:
            connection.sendall(raw)
            if request.ends:
                connection.shutdown(socket.SHUT_WR)
            status, kept = read_answer(connection)
            if kept and status and not request.ends:
                connection.sendall(hostile.build("GET", "/v1/capabilities"))
                followed, _ = read_answer(connection)
                # A server may end a connection that it found broken as soon as it has answered.
                assert followed in (0, 200), f"the next request on the connection: {followed}"
            return status
        except (ConnectionResetError, BrokenPipeError):
            # The server refused what it had not read.
            return None


def make_world(client):
    create_policy_with_rule(client, "hostile", [("1s", 60)], "h*")
    client.post("/v1/resource_type", {"name": "hostile"}).expect(201)
    made = client.post("/v1/resource/hostile",
                       {"id": "h", "metrics": {"cpu": {"archive_policy_name": "hostile"}}}).expect(201).json()
    return {hostile.METRIC: made["metrics"]["cpu"].encode(), hostile.RESOURCE: made["id"].encode()}


def test_hundreds_of_hostile_requests(server):
    """Each gets the status that it deserves, three times; nothing changes, nobody panics, no memory is left behind."""
    client = server.client()
    names = make_world(client)
    pages = ["/v1/archive_policy", "/v1/archive_policy_rule", "/v1/metric", "/v1/resource_type",
             "/v1/resource/hostile?history=true"]
    before = [client.get(page).expect(200).body for page in pages]
    odd, sizes = [], []
    for _ in range(ROUNDS):
        for request in hostile.all_requests():
            status = play(server, request, names)
            if status is not None and status not in request.statuses:
                odd.append(f"{request.name}: {status}, not {request.statuses}")
            assert server.process.running(), f"{request.name}: {server.log()[-2000:]}"
            assert client.get("/healthcheck").status == 200, request.name
        sizes.append(server.process.memory_bytes("VmRSS"))
    assert not odd, "\n".join([f"{len(odd)}", *odd])
    assert [client.get(page).expect(200).body for page in pages] == before
    # The allocator gives memory back some seconds after it was used.
    wait_until(lambda: server.process.memory_bytes("VmRSS") - sizes[0] < GROWTH_BYTES_MAX, GIVEN_BACK_TIMEOUT_S, f"less than {sizes} bytes of memory")
    log = server.log()
    assert "panicked" not in log and " ERROR " not in log


def test_there_are_hundreds():
    requests = hostile.all_requests()
    assert len({request.raw for request in requests}) == len({request.name for request in requests}) == len(requests) >= 300


def test_every_route_is_among_them(server):
    """Of the document, which another test holds to the router."""
    paths = server.client().get("/v1/openapi.json").expect(200).json()["paths"]
    targets = {request.raw.split(b" ", 2)[1].decode("latin-1").partition("?")[0] for request in hostile.all_requests()
               if request.raw.count(b" ") > 1}
    missing = [path for path in paths
               if not any(re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", path), target) for target in targets)]
    assert not missing
