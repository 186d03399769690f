"""The usual `OS_*` variables: a login at Keystone, and the server from its catalogue."""

import json

import pytest

from support import gnudi as program
from support.http_stand_in import HttpStandIn


class Cloud(HttpStandIn):
    """Keystone at /identity, and a server at /metric that knows no metrics."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def respond(self, method, path, headers, body):
        if method == "GET":
            self.asked.append((path, headers["X-Auth-Token"]))
            return 200, {}, []
        self.asked.append((path, json.loads(body)))
        endpoints = [{"interface": interface, "region": "R1", "url": f"{self.url}/{path}"}
                     for interface, path in (("public", "metric"), ("internal", "inside"))]
        token = {"issued_at": "2026-11-21T10:00:00.000000Z", "expires_at": "2026-11-21T11:00:00.000000Z",
                 "catalog": [{"type": "metric", "endpoints": endpoints}]}
        return 201, {"X-Subject-Token": "gAAA-token"}, {"token": token}


@pytest.fixture
def stub():
    with Cloud() as server:
        yield server


def test_the_usual_variables_are_enough(stub):
    variables = {"OS_AUTH_URL": f"{stub.url}/identity/v3", "OS_USERNAME": "demo", "OS_PASSWORD": "secret",
                 "OS_PROJECT_NAME": "demo", "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default"}
    done = program.run("metric", "list", "-f", "json", env=variables)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
    (login, body), (path, token) = stub.asked
    assert login == "/identity/v3/auth/tokens"
    assert body["auth"]["identity"]["password"]["user"]["name"] == "demo"
    assert body["auth"]["scope"]["project"]["name"] == "demo"
    assert (path, token) == ("/metric/v1/metric", "gAAA-token")
    deprecated = {**variables, "OS_USERNAME": "", "OS_USER_NAME": "another"}
    program.run("metric", "list", env=deprecated)
    assert stub.asked[-2][1]["auth"]["identity"]["password"]["user"]["name"] == "another"
    for asked, more in ((["--os-auth-plugin", "v3kerberos"], {}), ([], {"OS_AUTH_PLUGIN": "v3kerberos"})):
        refused = program.run("metric", "list", *asked, env={**variables, **more})
        assert "OS_AUTH_TYPE v3kerberos" in refused.stderr, refused.stderr
    program.run("metric", "list", "--os-interface", "internal", "--os-region-name", "R1", env=variables)
    assert stub.asked[-1][0] == "/inside/v1/metric"
    program.run("metric", "list", "--os-auth-type", "token", "--os-token", "other", "--endpoint", f"{stub.url}/named", env=variables)
    assert stub.asked[-1] == ("/named/v1/metric", "other")
    # Without a name of the server the token finds it in the catalogue.
    of_token = {"OS_AUTH_URL": variables["OS_AUTH_URL"], "OS_TOKEN": "other", "OS_PROJECT_ID": "p"}
    done = program.run("metric", "list", "-f", "json", env=of_token)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
    (login, body), asked = stub.asked[-2:]
    assert body["auth"]["identity"] == {"methods": ["token"], "token": {"id": "other"}}
    assert body["auth"]["scope"] == {"project": {"id": "p"}}
    assert (login, asked) == ("/identity/v3/auth/tokens", ("/metric/v1/metric", "gAAA-token"))
    failed = program.run("metric", "list", "--os-region-name", "R2", env=variables)
    assert failed.returncode == 1 and "--endpoint" in failed.stderr
    assert "secret" not in failed.stderr
