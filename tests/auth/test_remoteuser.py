"""auth_mode = remoteuser: a proxy names the user; only the proxies in the configuration are trusted."""

import http.client

import pytest

from support import gnudi as program
from support.http import JSON_HEADERS, basic
from support.process import wait_until

POLICY = {"name": "x", "definition": [{"granularity": "1s", "points": 1}]}
CONFIG = "[api]\nauth_mode = remoteuser\nremoteuser_proxies = {}\n"


@pytest.fixture
def client(gnudi):
    made = gnudi(config=CONFIG.format("192.0.2.0/24, 127.0.0.1")).client()
    made.user = None
    return made


def named(user):
    return {"X-Remote-User": user}


def status(client, headers):
    return client.get("/v1/archive_policy", headers=headers).status


def test_a_proxy_names_the_user(client):
    assert status(client, named("jd")) == 200
    assert client.post("/v1/archive_policy", POLICY, headers=named("jd")).status == 403
    assert client.post("/v1/archive_policy", POLICY, headers=named("admin")).status == 201
    made = client.post("/v1/metric", {"archive_policy_name": "x"}, headers=named("jd")).expect(201).json()
    assert made["creator"] == "jd"
    path = f"/v1/metric/{made['id']}"
    assert client.get(path, headers=named("another")).status == 403
    assert client.get(path, headers=named("jd")).status == 200
    assert client.get(path, headers=named("admin")).status == 200
    assert client.get("/v1/status", headers=named("admin")).status == 200


def test_who_is_not_named_is_nobody(client):
    for headers in [{}, named(""), {"Remote-User": "admin"}, {"REMOTE_USER": "admin"}, basic("admin")]:
        assert status(client, headers) == 401, headers
    assert client.get("/healthcheck").status == 200
    assert client.get("/v1/").status == 200


def test_two_names_are_none(client):
    connection = http.client.HTTPConnection(client.host, client.port, timeout=30)
    connection.putrequest("GET", "/v1/archive_policy")
    connection.putheader("X-Remote-User", "jd")
    connection.putheader("X-Remote-User", "admin")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_another_than_the_proxy_is_not_trusted(client):
    for source, expected in [("127.0.0.1", 200), ("127.0.0.2", 401)]:
        connection = http.client.HTTPConnection(client.host, client.port, timeout=30, source_address=(source, 0))
        headers = {**JSON_HEADERS, **named("admin"), "X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
        connection.request("GET", "/v1/archive_policy", headers=headers)
        assert connection.getresponse().status == expected, source
        connection.close()


def test_the_header_may_have_another_name(gnudi):
    client = gnudi(config=CONFIG.format("127.0.0.0/8") + "remoteuser_header = X-Forwarded-User\n").client()
    client.user = None
    assert status(client, {"X-Forwarded-User": "jd"}) == 200
    assert status(client, named("jd")) == 401


def test_the_machines_own_figures_arrive_all_the_same(gnudi):
    server = gnudi(config=CONFIG.format("127.0.0.1") + "[host]\ninterval = 1\n", host_metrics=True)
    client = server.client()
    client.user = None
    wait_until(lambda: client.get("/v1/metric", headers=named("admin")).expect(200).json(), 60, "metrics")


@pytest.mark.parametrize("config, part", [
    ("[api]\nauth_mode = remoteuser\n", "remoteuser_proxies: no proxy is configured"),
    (CONFIG.format("localhost"), "remoteuser_proxies: `localhost` is no address"),
    (CONFIG.format("127.0.0.1/33"), "`127.0.0.1/33` is no address"),
    (CONFIG.format("::1") + "remoteuser_header = no header\n", "remoteuser_header: `no header` cannot be"),
])
def test_the_start_is_refused_and_says_why(tmp_path, config, part):
    path = tmp_path / "gnocchi.conf"
    path.write_text(config)
    done = program.run("serve", "--config-file", path, "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, None)
    assert part in done.stderr and str(path) in done.stderr, done.stderr
