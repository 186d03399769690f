"""Heads that no client means: each is told what is wrong with it, and the server goes on."""

import socket

import pytest


def exchange(server, request):
    """The status line and what follows it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        said = b""
        while chunk := connection.recv(65536):
            said += chunk
    return int(said.split(b" ", 2)[1]), said


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from support.gnudi import Gnudi

    with Gnudi(tmp_path_factory.mktemp("hostile")) as server:
        yield server


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
