"""`auth_mode = keystone` with a real Keystone: which tokens are accepted, how often they are validated, and what happens while Keystone
does not respond."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import uuid

import pytest

from support import gnudi as program
from support.http import basic
from support.keystone import Project, TokenClient, User, unique
from support.process import at_once, wait_until
from support.proxy import CountingProxy

GNOCCHI_COMMAND = pathlib.Path(sys.executable).with_name("gnocchi")
VALIDATION = ("GET", "/v3/auth/tokens")
WAIT_S = 120


@dataclasses.dataclass(frozen=True)
class World:
    """Who there is in Keystone."""

    demo: Project
    service_project: Project
    alice: User
    reader: User
    service: User


@pytest.fixture(scope="module")
def world(keystone):
    demo, service = keystone.project(unique("demo")), keystone.project(unique("service"))
    return World(
        demo,
        service,
        keystone.user(unique("alice"), roles={demo: ["member"]}),
        keystone.user(unique("reader"), roles={demo: ["reader"]}),
        keystone.user(unique("gnocchi"), password="the own password", roles={service: ["admin", "service"]}),
    )


@pytest.fixture
def serve(gnudi, keystone, world):
    """Starts servers in keystone mode; `more` goes to [keystone_authtoken]."""

    def make(more="", **kwargs):
        config = f"[api]\nauth_mode = keystone\n{keystone.authtoken(world.service, world.service_project, more)}"
        return gnudi(config=config + kwargs.pop("sections", ""), **kwargs)

    return make


def status(server, token, path="/v1/metric", **kwargs):
    return TokenClient(server, token).get(path, **kwargs).status


def test_a_token_says_who_calls(serve, keystone, world):
    # Each worker loads this file, and few this test: Gnocchi's API takes two seconds.
    from gnocchi.rest.auth_helper import KeystoneAuthHelper

    server = serve()
    client = TokenClient(server, keystone.token(world.alice, world.demo))
    # What a client says of itself counts for nothing.
    lies = {"X-User-Id": "root", "X-Project-Id": "all", "X-Roles": "admin", "X-Identity-Status": "Confirmed"}
    created = client.post("/v1/metric", {"archive_policy_name": "low"}, headers=lies).expect(201).json()

    class Request:
        headers = {"X-User-Id": world.alice.id, "X-Project-Id": world.demo.id}

    assert created["creator"] == KeystoneAuthHelper.get_current_user(Request)
    assert (created["created_by_user_id"], created["created_by_project_id"]) == (world.alice.id, world.demo.id)
    policy = {"name": unique("policy"), "definition": [{"granularity": "1s", "points": 10}]}
    assert client.post("/v1/archive_policy", policy, headers=lies).status == 403
    line = next(line for line in server.log().splitlines() if " refused " in line)
    for said in [f'user="{world.alice.id}"', f'project="{world.demo.id}"', 'rule="create archive policy"', "status=403"]:
        assert said in line, line
    assert client.token not in server.log()
    admin = TokenClient(server, keystone.token(world.service, world.service_project))
    admin.post("/v1/archive_policy", policy).expect(201)
    assert TokenClient(server, None).get("/v1/metric", headers={"X-Storage-Token": client.token}).status == 200


def test_other_tokens_are_refused_as_keystonemiddleware_refuses_them(serve, keystone, world):
    server = serve()
    valid = keystone.token(world.alice, world.demo)
    revoked = keystone.token(world.alice, world.demo)
    keystone.revoke(revoked)
    expired = keystone.expired_token(world.alice, world.demo)
    for token in [None, "", "nonsense", "x" * 9000, valid[:-1], expired, revoked]:
        answer = TokenClient(server, token).get("/v1/metric")
        assert answer.status == 401, token
        assert answer.headers["www-authenticate"] == f'Keystone uri="{keystone.url}"'
        assert answer.json() == {"error": {"code": 401, "title": "Unauthorized",
                                           "message": "The request you have made requires authentication."}}
    assert TokenClient(server, None).get("/v1/metric", headers=basic("admin")).status == 401
    # Nobody learns what there is in version 1; what lies beside it is open.
    for path, known in [("/v1/nothing", 404), ("/v1/metric/x", 404), ("/v1", 302), ("/v1/", 200), ("/v1/capabilities", 200)]:
        assert (status(server, None, path), status(server, valid, path)) == (401, known), path
    for path in ["/", "/healthcheck", "/metrics"]:
        assert status(server, None, path) == 200, path
    log = server.log()
    for secret in [valid, revoked, expired, world.service.password]:
        assert secret not in log


def test_no_spelling_of_a_path_gets_round_the_token(serve, keystone, world):
    """What leads to a route of version 1 leads past the guard, however it is written."""
    server = serve()
    valid = keystone.token(world.alice, world.demo)
    for path, known in [("//v1/resource", 200), ("/%761/resource", 200), ("/v1%2Fresource", 200), ("//v1/capabilities", 200),
                        ("/v%31/archive_policy", 200), ("/%2fv1//metric", 200), ("/v1/metric/%ff", 400), ("//v1//none", 404)]:
        assert status(server, None, path) == 401, path
        assert status(server, valid, path) == known, path
    assert TokenClient(server, None).post("//v1/influxdb/query?q=CREATE+DATABASE+%22db%22").status == 401
    assert TokenClient(server, valid).get("/v1/resource_type/db").status == 404


def test_a_token_that_ends_or_is_revoked_is_refused_in_time(serve, keystone, world):
    server = serve("token_cache_time = 1\n")
    token = keystone.token(world.alice, world.demo)
    assert status(server, token) == 200
    keystone.revoke(token)
    wait_until(lambda: status(server, token) == 401, WAIT_S, "the end of a revoked token")


@pytest.fixture
def watched(keystone):
    """A proxy before Keystone that counts, and the region whose catalogue leads to it."""
    proxy = CountingProxy(keystone.port).start()
    region = keystone.region(unique("Watched"))
    endpoint = keystone.identity_endpoint("internal", f"http://127.0.0.1:{proxy.port}/v3", region)
    yield proxy, region
    keystone.request("DELETE", f"/endpoints/{endpoint}").expect(204)
    proxy.stop()


def test_a_thousand_requests_make_one_validation(serve, keystone, world, watched):
    proxy, region = watched
    server = serve(f"region_name = {region}\n")
    token = keystone.token(world.alice, world.demo)
    # As long as the first question takes, all others wait for its answer.
    proxy.delay_s = 0.5
    threads, requests, wrong = 20, 50, []

    def ask(_):
        client = TokenClient(server, token)
        wrong.extend(answer for answer in (client.get("/v1/metric") for _ in range(requests)) if answer.status != 200)

    at_once(ask, range(threads))
    assert not wrong
    assert proxy.count(*VALIDATION) == 1
    # Void tokens are remembered, too.
    proxy.delay_s = 0
    assert [status(server, "void") for _ in range(5)] == [401] * 5
    assert proxy.count(*VALIDATION) == 2
    assert proxy.count("POST", "/v3/auth/tokens") == 0, "the login goes to auth_url"


def test_while_keystone_is_away_known_tokens_go_on(serve, keystone, world):
    server = serve()
    known, new = keystone.token(world.alice, world.demo), keystone.token(world.reader, world.demo)
    assert status(server, known) == 200
    keystone.stop()
    try:
        keystone.wait_gone()
        refused = TokenClient(server, new).get("/v1/metric")
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert [status(server, known) for _ in range(5)] == [200] * 5
        assert status(server, None) == 401
    finally:
        keystone.start()
    wait_until(lambda: status(server, new) == 200, WAIT_S, "Keystone's return")


def test_gnudi_starts_while_keystone_is_away(serve, keystone, world):
    token = keystone.token(world.alice, world.demo)
    keystone.stop()
    try:
        keystone.wait_gone()
        server = serve()
        assert status(server, token) == 503
    finally:
        keystone.start()
    wait_until(lambda: status(server, token) == 200, WAIT_S, "Keystone's return")


def test_an_application_credential_does_what_its_access_rules_allow(serve, keystone, world):
    server = serve()
    rules = [{"service": "metric", "method": "GET", "path": "/v1/metric/*"},
             {"service": "metric", "method": "POST", "path": "/v1/batch/**"},
             {"service": "compute", "method": "GET", "path": "/v1/**"}]
    credential = keystone.application_credential(world.alice, world.demo, access_rules=rules)
    token = keystone.application_credential_token(*credential)
    client, metric = TokenClient(server, token), uuid.uuid4()
    for method, path, body, expected in [
        ("GET", f"/v1/metric/{metric}", None, 404),
        ("GET", "/v1/metric", None, 401),
        ("GET", f"/v1/metric/{metric}/measures", None, 401),
        ("DELETE", f"/v1/metric/{metric}", None, 401),
        ("POST", "/v1/metric", {}, 401),
        ("POST", "/v1/batch/metrics/measures", {}, 202),
        ("GET", "/v1/resource/generic", None, 401),
    ]:
        assert client.request(method, path, body).status == expected, (method, path)
    # A service that passes the user's token on has been let in itself.
    chain = {"X-Service-Token": keystone.token(world.service, world.service_project)}
    assert client.get("/v1/metric", headers=chain).status == 200
    # Who is no service has not, not even where such tokens are taken.
    lenient = TokenClient(serve("service_token_roles_required = false\n"), token)
    assert lenient.get("/v1/metric", headers={"X-Service-Token": keystone.token(world.alice, world.demo)}).status == 401
    assert lenient.get("/v1/metric", headers={"X-Service-Token": token}).status == 401
    assert lenient.get("/v1/metric", headers=chain).status == 200
    free = keystone.application_credential_token(*keystone.application_credential(world.alice, world.demo))
    assert status(server, free) == 200


def test_a_service_passes_on_tokens_that_have_ended(serve, keystone, world):
    server = serve()
    service = keystone.token(world.service, world.service_project)
    user = keystone.token(world.alice, world.demo)
    expired = keystone.expired_token(world.alice, world.demo)
    assert status(server, expired, headers={"X-Service-Token": service}) == 200
    assert status(server, expired) == 401
    assert status(server, None, headers={"X-Service-Token": service}) == 401
    # Who is no service passes on nothing.
    assert status(server, user, headers={"X-Service-Token": user}) == 401
    assert status(server, user, headers={"X-Service-Token": "nonsense"}) == 401
    # As keystonemiddleware has it, an empty one is none.
    assert status(server, user, headers={"X-Service-Token": ""}) == 200
    assert status(server, expired, headers={"X-Service-Token": ""}) == 401
    lenient = serve("service_token_roles_required = false\n")
    assert status(lenient, user, headers={"X-Service-Token": user}) == 200
    assert status(lenient, expired, headers={"X-Service-Token": user}) == 401


def test_a_limit_is_the_projects_whoever_of_it_calls(serve, keystone, world):
    server = serve(sections="[api]\nproject_metrics_max = 2\nproject_measures_per_second = 1\n")
    alice, reader, other = (
        TokenClient(server, keystone.token(*who))
        for who in [(world.alice, world.demo), (world.reader, world.demo), (world.service, world.service_project)])
    create = lambda client: client.post("/v1/metric", {"archive_policy_name": "low"})
    metric = create(alice).expect(201).json()["id"]
    create(reader).expect(201)
    for client in [alice, reader]:
        refused = create(client).expect(429)
        assert int(refused.headers["retry-after"]) >= 1
    create(other).expect(201)
    measures = [{"timestamp": second, "value": 1} for second in range(100)]
    reader.post(f"/v1/metric/{metric}/measures", measures).expect(202)
    assert int(alice.post(f"/v1/metric/{metric}/measures", measures).expect(429).headers["retry-after"]) > 10
    other.post(f"/v1/metric/{metric}/measures", measures).expect(202)
    figures = TokenClient(server, None).get("/metrics").expect(200).body.decode()
    assert f'gnudi_project_measures_total{{project="{world.demo.id}"}} 100' in figures
    lines = [line for line in server.log().splitlines() if "status=429" in line]
    assert len(lines) == 3 and all(f'project="{world.demo.id}"' in line for line in lines), lines
    # The index counts the project's metrics, whoever of it has made them.
    server.stop()
    server.start()
    create(TokenClient(server, reader.token)).expect(429)


def test_gnocchis_command_finds_gnudi_in_the_catalogue(serve, keystone, world):
    server = serve(arguments=["--with", "statsd"], sections="[statsd]\nport = 0\n")
    keystone.metric_service(f"http://127.0.0.1:{server.port}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    environment |= keystone.environment(world.alice, world.demo)

    def command(*arguments, as_json=True):
        form = ["-f", "json"] if as_json else []
        done = subprocess.run([str(GNOCCHI_COMMAND), *arguments, *form], capture_output=True, text=True,
                              env=environment, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if as_json else done.stdout

    metric = command("metric", "create", "--archive-policy-name", "high", "cpu")
    assert metric["creator"] == f"{world.alice.id}:{world.demo.id}"
    command("measures", "add", "-m", "2015-03-06T14:33:57@43.5", metric["id"], as_json=False)
    points = command("measures", "show", "--refresh", "--granularity", "1", "--utc", metric["id"])
    assert [point["value"] for point in points] == [43.5]


def test_an_application_credential_is_enough_for_gnudi_itself(gnudi, keystone, world):
    credential, secret = keystone.application_credential(world.service, world.service_project)
    server = gnudi(config=(
        f"[api]\nauth_mode = keystone\n[keystone_authtoken]\nauth_type = v3applicationcredential\n"
        f"auth_url = {keystone.url}/v3\napplication_credential_id = {credential}\n"
        f"application_credential_secret = {secret}\n"))
    assert status(server, keystone.token(world.alice, world.demo)) == 200


def test_the_machines_own_figures_arrive_all_the_same(serve, keystone, world):
    server = serve(sections="[host]\ninterval = 1\n", host_metrics=True)
    admin = TokenClient(server, keystone.token(world.service, world.service_project))
    wait_until(lambda: admin.get("/v1/metric").expect(200).json(), WAIT_S, "metrics")


@pytest.mark.parametrize("lines, place", [
    ("", "[keystone_authtoken] auth_url"),
    ("auth_url = keystone\n", ":4: [keystone_authtoken] auth_url"),
    ("auth_url = http://h\npassword = hunter2\n", "[keystone_authtoken] username"),
    ("auth_url = http://h\nusername = u\npassword = hunter2\n", "[keystone_authtoken] user_domain_name"),
    ("auth_url = http://h\nauth_type = v3kerberos\n", ":5: [keystone_authtoken] auth_type = v3kerberos"),
    ("token_cache_time = long\n", ":4: [keystone_authtoken] token_cache_time = long"),
])
def test_bad_options_stop_the_start_and_are_named(tmp_path, lines, place):
    config = tmp_path / "gnocchi.conf"
    config.write_text(f"[api]\nauth_mode = keystone\n[keystone_authtoken]\n{lines}")
    done = program.run("serve", "--config-file", config, "--data-dir", tmp_path / "data", "--without", "host",
                       "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, None)
    assert place in done.stderr
    assert "hunter2" not in done.stderr
