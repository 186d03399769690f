"""Whether a request needs authentication depends on the route that its path leads to, however the path is spelled."""

import pytest

from support.gnudi import Gnudi
from support.http import basic
from support.identity import Identity

# bcrypt, cost 4, of "secret".
SECRET = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"
NOBODY = {"Accept": "*/*", "Authorization": None}

# Other spellings of paths, with the method and what somebody who is known is answered.
SPELLINGS = [
    ("GET", "//v1/resource", 200),
    ("GET", "/%761/resource", 200),
    ("GET", "/v1%2Fresource", 200),
    ("GET", "/v1%2fresource/", 200),
    ("GET", "//v1/capabilities", 200),
    ("GET", "/v%31//capabilities", 200),
    ("POST", "//v1/influxdb/query", 204),
    ("POST", "/v1/influxdb%2Fquery", 204),
    ("GET", "/%2f/v1/metric", 200),
    ("GET", "/v1//archive_policy//", 200),
    ("GET", "/%76%31/resource%5Ftype", 200),
    ("GET", "/v1/%6detric", 200),
    ("GET", "//v1//no/such/path", 404),
    ("GET", "/v1/metric/%ff", 400),
    ("GET", "/v1/%2e%2e/metric", 404),
    ("GET", "/./v1/metric", 404),
    ("GET", "/prometheus/api/v1/labels", 200),
    ("GET", "//prometheus%2Fapi//%761/labels/", 200),
    ("POST", "/prometheus/api/v1/admin/tsdb/clean_tombstones", 204),
]
# What basic authentication leaves open, as Gnocchi does, and what only gnudi has (docs/auth.md).
OPEN = ["/", "/v1/", "/healthcheck", "/metrics", "/v1/openapi.json", "/v1/capabilities", "/v1/resource", "/v1/influxdb/ping"]
OPEN_SPELLINGS = {"//v1/resource", "/%761/resource", "/v1%2Fresource", "/v1%2fresource/", "//v1/capabilities",
                  "/v%31//capabilities"}
# What is also served below `/prometheus`.
PROMETHEUS = ("/api/v1/", "/federate")
NO_ROUTE = {"/v1/metric/%ff", "//v1//no/such/path", "/v1/%2e%2e/metric", "/./v1/metric"}


@pytest.fixture(scope="module")
def guarded(module_path):
    """A server that asks a Keystone."""
    with Identity() as identity, Gnudi(module_path / "guarded", identity.config()) as server:
        yield server, identity


@pytest.fixture(scope="module")
def protected(module_path):
    """A server with a file of passwords."""
    directory = module_path
    passwords = directory / "passwords"
    passwords.write_text(f"admin:{SECRET}\n")
    with Gnudi(directory, f"[api]\npassword_file = {passwords}\n") as server:
        yield server


@pytest.mark.parametrize("method,path,status", SPELLINGS)
def test_with_keystone_no_spelling_goes_round_the_token(guarded, method, path, status):
    server, identity = guarded
    is_version_1 = path != "/./v1/metric"
    for token in [None, "void"]:
        answer = server.client(user=None).request(method, path, headers={**NOBODY, "X-Auth-Token": token})
        assert answer.status == (401 if is_version_1 else status), (token, answer)
        if is_version_1:
            assert answer.headers["www-authenticate"] == f'Keystone uri="{identity.url}"'
    known = server.client(user=None).request(method, path, headers={**NOBODY, "X-Auth-Token": "admin"})
    assert known.status == status, known


@pytest.mark.parametrize("path", ["//v1/influxdb/query", "/%761/influxdb/query"])
def test_with_keystone_no_spelling_creates_anything(guarded, path):
    server, _ = guarded
    statement = f"{path}?q=CREATE+DATABASE+%22made%22"
    assert server.client(user=None).post(statement, headers=NOBODY).status == 401
    asked = {"X-Auth-Token": "admin"}
    assert server.client(user=None).get("/v1/resource_type/made", headers=asked).status == 404


@pytest.mark.parametrize("path", ["/", "/healthcheck", "/metrics"])
def test_with_keystone_what_lies_beside_version_1_is_open(guarded, path):
    assert guarded[0].client(user=None).get(path, headers=NOBODY).status == 200


@pytest.mark.parametrize("method,path,status", SPELLINGS)
def test_with_passwords_every_spelling_is_the_route(protected, method, path, status):
    anonymous = protected.client(user=None).request(method, path, headers=NOBODY)
    if path in OPEN_SPELLINGS or path in NO_ROUTE:
        assert anonymous.status == status
    elif "influxdb" in path:
        # Open, and asks for nothing.
        assert anonymous.status in (204, 401), anonymous
    else:
        assert anonymous.status == 401, anonymous
    known = protected.client(user=None).request(method, path, headers={**NOBODY, **basic("admin", "secret")})
    assert known.status == status or "influxdb" in path, known


def test_with_passwords_what_is_open_is_what_the_documentation_lists(protected):
    client = protected.client(user=None)
    for path in OPEN:
        assert 200 <= client.get(path, headers=NOBODY).status < 300, path
    document = client.get("/v1/openapi.json", headers=NOBODY).expect(200).json()
    # Every other route asks, whatever is put in place of its parameters.
    for path, methods in document["paths"].items():
        for method in methods:
            if method not in ("get", "post", "put", "patch", "delete") or path in OPEN:
                continue
            if path in ("/v1", "/v1/influxdb/query", "/page/{file}"):
                continue
            asked = path.replace("{id}", "00000000-0000-4000-8000-000000000000").replace("{", "").replace("}", "")
            below = ["/prometheus"] if path.startswith(PROMETHEUS) else []
            for prefix in ["", *below]:
                answer = client.request(method.upper(), prefix + asked, headers=NOBODY)
                assert answer.status == 401, (method, prefix + path, answer)


def test_a_refusal_says_how_to_authenticate(guarded, protected, gnudi):
    def refused(server, **headers):
        return server.client(user=None).get("/v1/metric", headers={"Authorization": None, **headers}).expect(401)

    challenge = 'Basic realm="gnudi", charset="UTF-8"'
    for server in (protected, gnudi()):
        answer = refused(server)
        assert answer.headers["www-authenticate"] == challenge
        assert answer.json() == {"code": 401, "title": "Unauthorized", "description":
                                 "Authentication is required: send a name and a password by HTTP's basic scheme"}
        assert b"Authentication is required" in refused(server, Accept="text/html").body
    answer = refused(protected, **basic("admin", "wrong"))
    assert answer.headers["www-authenticate"] == challenge
    assert answer.json()["description"] == "The name or the password is wrong"
    assert refused(protected, **basic("nobody", "secret")).body == answer.body, "it tells no names"
    proxied = gnudi(config="[api]\nauth_mode = remoteuser\nremoteuser_proxies = 192.0.2.1\n")
    answer = refused(proxied, **{"X-Remote-User": "admin"})
    assert "names no user" in answer.json()["description"]
    assert "www-authenticate" not in answer.headers
    answer = refused(guarded[0])
    assert answer.json()["error"]["message"] == "The request you have made requires authentication."
