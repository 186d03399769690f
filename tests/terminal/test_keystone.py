"""The usual `OS_*` variables: a login at Keystone, and the server from its catalogue."""

import http.server
import json
import threading

import pytest

from support import gnudi as program


class Cloud(http.server.ThreadingHTTPServer):
    """Keystone at /identity, and a server at /metric that knows no metrics."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body, **headers):
        body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, asked))
        endpoints = [{"interface": interface, "region": "R1", "url": f"{self.server.url}/{path}"}
                     for interface, path in (("public", "metric"), ("internal", "inside"))]
        token = {"issued_at": "2026-11-21T10:00:00.000000Z", "expires_at": "2026-11-21T11:00:00.000000Z",
                 "catalog": [{"type": "metric", "endpoints": endpoints}]}
        self.answer(201, {"token": token}, X_Subject_Token="gAAA-token")

    def do_GET(self):
        self.server.asked.append((self.path, self.headers["X-Auth-Token"]))
        self.answer(200, [])

    def log_message(self, *_):
        pass


@pytest.fixture
def stub():
    with Cloud() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


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
    program.run("metric", "list", "--os-interface", "internal", "--os-region-name", "R1", env=variables)
    assert stub.asked[-1][0] == "/inside/v1/metric"
    program.run("metric", "list", "--os-auth-type", "token", "--os-token", "other", "--endpoint", f"{stub.url}/named", env=variables)
    assert stub.asked[-1] == ("/named/v1/metric", "other")
    failed = program.run("metric", "list", "--os-region-name", "R2", env=variables)
    assert failed.returncode == 1 and "--endpoint" in failed.stderr
    assert "secret" not in failed.stderr
