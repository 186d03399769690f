"""The examples of docs/auth.md, copied from the page: they work as the page says."""

import pathlib
import re
import subprocess
import textwrap

from support import gnudi as program
from support.http import basic
from support.keystone import TokenClient, unique

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "auth.md"
BLOCK = re.compile(r"^```\w*\n([\s\S]*?)^```$|((?:^    .*\n|^\n(?=    ))+)", re.MULTILINE)


def block(text):
    """The only example that has this text, without its place in the page."""
    found = [fenced or textwrap.dedent(indented) for fenced, indented in BLOCK.findall(PAGE.read_text())]
    [only] = [example for example in found if text in example]
    return only


def test_passwords(gnudi, tmp_path):
    path = tmp_path / "passwords"
    shell = block("gnudi passwd /etc/gnudi/passwords admin").replace("/etc/gnudi/passwords", str(path))
    shell = shell.replace("gnudi passwd", f"{program.binary()} passwd").replace("passwords admin ", "passwords admin <<< secret ")
    done = subprocess.run(["bash", "-euc", f"PASSWORD=word\n{shell.replace(f'{program.binary()} passwd {path} grafana --delete', '')}"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    config = block("auth_mode = basic").replace("/etc/gnudi/passwords", str(path))
    # The address of the page would be reached from outside.
    server = gnudi(config=config.replace("host = 0.0.0.0\n", ""))
    asked = lambda *who: server.client().get("/v1/archive_policy", headers=basic(*who)).status
    assert [asked("admin", "secret"), asked("grafana", "word"), asked("admin", "word")] == [200, 200, 401]
    status = program.run("status", "--endpoint", f"http://127.0.0.1:{server.port}", env={"GNUDI_PASSWORD": "secret"})
    assert status.returncode == 0, status.stderr
    status = program.run("status", "--endpoint", f"http://127.0.0.1:{server.port}", env={"GNUDI_PASSWORD": "wrong"})
    assert status.returncode != 0


def test_a_proxy(gnudi):
    client = gnudi(config=block("auth_mode = remoteuser")).client()
    client.user = None
    assert client.get("/v1/archive_policy", headers={"X-Remote-User": "jd"}).status == 200
    assert client.get("/v1/archive_policy").status == 401


def test_keystone(gnudi, keystone):
    demo, services = keystone.project(unique("demo")), keystone.project(unique("services"))
    operator = keystone.user(unique("gnocchi"), roles={services: ["service"]})
    user = keystone.user(unique("alice"), roles={demo: ["member"]})
    config = block("auth_mode = keystone\nhost")
    for shown, real in [("http://keystone.example:5000", keystone.url), ("username = gnocchi", f"username = {operator.name}"),
                        ("password = ...", f"password = {operator.password}"), ("host = 0.0.0.0\n", ""),
                        ("project_name = service", f"project_name = {services.name}")]:
        assert shown in config
        config = config.replace(shown, real)
    server = gnudi(config=config)
    assert TokenClient(server, keystone.token(user, demo)).get("/v1/metric").status == 200
    warnings(server, [])
    assert TokenClient(server, None).get("/v1/metric").status == 401


def test_rules(gnudi, tmp_path):
    policy = tmp_path / "gnudi-0" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text(block("# /etc/gnocchi/policy.yaml"))
    server = gnudi()
    warnings(server, [])
    admin, jd = server.client(), server.client("jd")
    admin.get("/v1/status").expect(200)
    jd.get("/v1/status").expect(403)
    made = {"name": "p", "definition": [{"granularity": "1m", "points": 1}]}
    jd.post("/v1/archive_policy", made).expect(403)
    admin.post("/v1/archive_policy", made).expect(201)
    jd.post("/v1/resource/generic", {"id": "a", "project_id": "of others"}).expect(403)
    admin.post("/v1/resource/generic", {"id": "a", "project_id": "of others"}).expect(201)


def test_limits(gnudi, tmp_path):
    options, projects = block("project_metrics_max = 100000").split("# /etc/gnocchi/limits.yaml")
    limits = tmp_path / "limits.yaml"
    limits.write_text("#" + projects)
    server = gnudi(config=options.replace("/etc/gnocchi/limits.yaml", str(limits)))
    warnings(server, [])
    server.client("jd").post("/v1/metric", {"archive_policy_name": "low"}).expect(201)
    figures = server.client().get("/metrics").expect(200).body.decode()
    assert 'gnudi_project_requests_total{project="jd"} 1' in figures


def test_the_line_of_a_refusal(gnudi):
    server = gnudi()
    server.client("jd").post("/v1/archive_policy", {}).expect(403)
    [line] = warnings(server, None)
    assert line.partition("WARN ")[2].split("audit: ")[-1] == block("WARN refused").strip().removeprefix("WARN ")


def warnings(server, expected):
    found = [line for line in server.log().splitlines() if " WARN " in line]
    assert expected is None or found == expected, found
    return found
