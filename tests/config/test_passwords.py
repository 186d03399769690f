"""Basic authentication with a file of passwords."""

import pytest

from support import gnudi as program
from support.http import basic
from support.process import wait_until

# bcrypt, cost 4, of "secret".
SECRET = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"


@pytest.fixture
def passwords(tmp_path):
    path = tmp_path / "passwords"
    path.write_text(f"# who may call\nadmin:{SECRET}\njd:{SECRET.replace('$2b$', '$2y$')}\n")
    return path


def status(client, *credentials):
    return client.get("/v1/archive_policy", headers=basic(*credentials)).status


def test_only_the_right_password_opens(gnudi, passwords):
    server = gnudi(config=f"[api]\npassword_file = {passwords}\n")
    client = server.client()
    for _ in range(2):
        assert status(client, "admin", "secret") == 200
        assert status(client, "jd", "secret") == 200
        for wrong in [("admin", ""), ("admin", "Secret"), ("jd", "secret "), ("nobody", "secret"), ("", "secret")]:
            assert status(client, *wrong) == 401, wrong
    assert client.get("/v1/archive_policy", headers={"Authorization": None}).status == 401
    assert client.get("/healthcheck", headers={"Authorization": None}).status == 200
    policy = {"name": "x", "definition": [{"granularity": "1s", "points": 1}]}
    assert client.post("/v1/archive_policy", policy, headers=basic("jd", "secret")).status == 403
    assert client.post("/v1/archive_policy", policy, headers=basic("admin", "wrong")).status == 401
    assert client.post("/v1/archive_policy", policy, headers=basic("admin", "secret")).status == 201


def test_the_machines_own_figures_arrive_all_the_same(gnudi, passwords):
    server = gnudi(config=f"[api]\npassword_file = {passwords}\n[host]\ninterval = 1\n", host_metrics=True)
    client = server.client()
    wait_until(lambda: client.get("/v1/metric", headers=basic("admin", "secret")).expect(200).json(), 30, "metrics")


@pytest.mark.parametrize("text, line", [
    ("admin", 1),
    ("\nadmin:secret\n", 2),
    (f"admin:{SECRET}\nadmin:{SECRET}\n", 2),
    (f":{SECRET}\n", 1),
])
def test_a_bad_file_stops_the_start_and_is_named(tmp_path, text, line):
    path = tmp_path / "passwords"
    path.write_text(text)
    done = program.run("serve", "--password-file", path, "--data-dir", tmp_path / "data", "--without", "host",
                       "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, None)
    assert f"{path}, line {line}" in done.stderr
    assert "secret" not in done.stderr


def test_a_missing_file_stops_the_start(tmp_path):
    done = program.run("serve", "--password-file", tmp_path / "nothing", "--data-dir", tmp_path / "data",
                       "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, None)
    assert "nothing" in done.stderr
