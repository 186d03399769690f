"""The container image without an engine: its last stage's steps in a tree, its start, the compose files' processes.

Not tested: the base images, and the two stages that compile, whose commands are the Makefile's.
"""

import os
import re
import shlex
import subprocess
import tomllib

import pytest
import yaml

from packages import image
from packages.build import ROOT
from packages.service import wait_for
from packages.test_takeover import programs
from packages.tree import of_this_host
from support import gnudi as program
from support.http import Client, basic
from support.process import Process, free_port, wait_until

DEPLOY = ROOT / "deploy"
# The tree has no network: what apt would install is asked of apt on this machine.
APT = "#!/bin/sh\nexit 0\n"
START_TIMEOUT_S = 60


def variables(text, given):
    """A compose file's text with `${NAME:?}` replaced."""
    return re.sub(r"\$\{(\w+):\?\}", lambda match: given[match[1]], text)


@pytest.mark.parametrize("path", ["Dockerfile", "kolla/Dockerfile"])
def test_what_is_copied_exists_and_is_no_secret_of_the_context(path):
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    for stage in image.stages((DEPLOY / path).read_text()):
        for other, source, _ in image.copies(stage):
            if other is None:
                assert (ROOT / source).exists(), source
                assert source not in ignored, source
    assert {".git", "target", "ui/node_modules", "crates/page/dist"} <= set(ignored)
    # What builds leave beside the sources: gigabytes that would be sent to the engine.
    assert {line.removeprefix("/") for line in (ROOT / ".gitignore").read_text().split() if line.startswith("/")} <= set(ignored)


def test_the_compiler_is_new_enough():
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    sources = [stage.source for stage in image.stages((DEPLOY / "Dockerfile").read_text())]
    assert f"rust:{rust}-bookworm" in sources and sources[-1] == "debian:bookworm-slim"


def test_apt_has_the_packages():
    last = image.stages((DEPLOY / "Dockerfile").read_text())[-1]
    wanted = image.apt_packages(last)
    assert {"librados2", "libvirt0", "ca-certificates"} <= set(wanted)
    command = ["apt-get", "install", "--simulate", "--no-install-recommends", *wanted]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        subprocess.run(["apt-get", "update"], capture_output=True, check=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_last_stage_has_all_names_and_starts_without_preparation(tree, tmp_path):
    last = image.stages((DEPLOY / "Dockerfile").read_text())[-1]
    tree.write("/usr/local/sbin/apt-get", APT, mode=0o755)
    copy_in(tree, last.steps)
    for name in programs():
        assert tree.shell(f"readlink -f /usr/bin/{name}").strip() == "/usr/bin/gnudi", name

    entrypoint, command = image.start(last)
    user, directory = last.all("USER")[-1], last.all("WORKDIR")[-1]
    assert (user, directory, last.all("EXPOSE")) == ("gnudi", "/var/lib/gnudi", ["8041"])
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--no-new-privs", *entrypoint, *command]
    log_path = tmp_path / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(tree.command("sh", "-c", f"echo $$ >/run/image.pid; exec {shlex.join(words)}", directory=directory),
                                   stdout=log, stderr=log)
    try:
        wait_for(log_path, "serving HTTP address=0.0.0.0:8041", process)
        password = re.search(r"The password of admin is (\S+)", log_path.read_text())[1]
        ask = "GNOCCHI_ENDPOINT=http://127.0.0.1:8041 GNOCCHI_USER=admin gnudi metric create room"
        assert "room" in tree.shell(f"GNUDI_PASSWORD={password} {ask}")
        # `docker run --user`: a fresh volume is a copy of the directory.
        tree.shell(f"setpriv --reuid=12345 --regid=12345 --clear-groups sh -c 'cd {directory} && touch own && rm own'")
        assert tree.run("sh", "-c", f"GNUDI_PASSWORD=wrong {ask}", check=False).returncode != 0
    finally:
        tree.shell("kill $(cat /run/image.pid)")
        assert process.wait(timeout=START_TIMEOUT_S) == 0


def copy_in(tree, stage_steps):
    """Does RUN and COPY of a stage; the program under test is what comes from another stage."""
    for name, text in stage_steps:
        if name == "RUN":
            tree.run("sh", "-c", text)
        elif name == "COPY":
            ((other, source, place),) = image.copies(image.Stage("", [(name, text)]))
            copied = program.binary() if other else ROOT / source
            tree.shell(f"mkdir -p $(dirname {place})")
            with copied.open("rb") as file:
                subprocess.run(tree.command("sh", "-c", f"cat >{place} && chmod {copied.stat().st_mode & 0o777:o} {place}"), stdin=file, check=True)


@pytest.mark.parametrize("words, ready", [
    ("uwsgi /etc/gnocchi/gnocchi-api-uwsgi.ini", "serving HTTP address=127.0.0.1:8041"),
    ("gnocchi-statsd --config-file /etc/gnocchi/gnocchi.conf", "receiving statsd's datagrams"),
    ("ceilometer-agent-notification", "not connected to the broker"),
    ("ceilometer-polling --polling-namespaces central", "no service is polled"),
    ("ceilometer-polling --polling-namespaces compute", "instances"),
])
def test_kollas_words_start_gnudi(kolla, tmp_path, words, ready):
    """As Kolla-Ansible 22 writes them into config.json, with the path of its images."""
    log_path = tmp_path / "log"
    with log_path.open("wb") as log:
        line = f"echo $$ >/run/kolla.pid; PATH=/var/lib/kolla/venv/bin:$PATH exec {words}"
        process = subprocess.Popen(kolla.command("sh", "-c", line), stdout=log, stderr=log)
    try:
        wait_for(log_path, ready, process)
    finally:
        kolla.shell("kill $(cat /run/kolla.pid)")
        assert process.wait(timeout=START_TIMEOUT_S) == 0, log_path.read_text()


@pytest.fixture(scope="module")
def kolla(module_path):
    """A tree that has what deploy/kolla/Dockerfile puts into one of Kolla's images."""
    with of_this_host(module_path / "system") as tree:
        copy_in(tree, image.stages((DEPLOY / "kolla" / "Dockerfile").read_text())[-1].steps)
        tree.write("/etc/gnocchi/gnocchi.conf", "[storage]\ndriver = file\nfile_basepath = /var/lib/gnocchi\n")
        tree.write("/etc/ceilometer/ceilometer.conf", "[gnocchi]\nauth_type = gnocchi-basic\nendpoint = http://127.0.0.1:8041\n")
        yield tree


def own_entrypoint(directory):
    """The entrypoint with a directory in place of the image's."""
    (directory / "gnudi").symlink_to(program.binary())
    entrypoint = directory / "entrypoint"
    text = (DEPLOY / "container" / "entrypoint").read_text()
    entrypoint.write_text(text.replace("/var/lib/gnudi", str(directory)).replace("/etc/gnudi", str(directory)))
    entrypoint.chmod(0o755)
    return entrypoint


@pytest.mark.parametrize("config, words, is_made", [
    ("password_file = {}/passwords", "serve", True),
    ("password_file = {}/passwords", "serve --config-file {}/gnocchi.conf", True),
    ("password_file = {}/passwords", "metricd", False),
    ("password_file = {}/passwords", "serve --password-file {}/others", False),
    ("password_file = {}/passwords\nauth_mode = keystone", "serve --config-file={}/gnocchi.conf", False),
    ("password_file = {}/others", "serve", False),
    ("", "serve --password-file={}/passwords", True),
])
def test_only_a_server_that_reads_the_passwords_gets_one(tmp_path, config, words, is_made):
    entrypoint = own_entrypoint(tmp_path)
    (tmp_path / "gnocchi.conf").write_text(f"[api]\n{config.format(tmp_path)}\n")
    done = subprocess.run([entrypoint, *words.format(tmp_path).split(), "--help"], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
                          capture_output=True, text=True, check=True)
    assert ("The password of admin is " in done.stdout, (tmp_path / "passwords").exists()) == (is_made, is_made)


def test_a_random_password_that_is_stored_was_told(tmp_path):
    """Also if the container is killed as soon as it is stored: nobody would know it, and no other one is made."""
    entrypoint = own_entrypoint(tmp_path)
    (tmp_path / "gnocchi.conf").write_text(f"[api]\npassword_file = {tmp_path}/passwords\n")
    (tmp_path / "gnudi").unlink()
    (tmp_path / "gnudi").write_text(f'#!/bin/sh\n{program.binary()} "$@"\nstatus=$?\n[ "$1" != passwd ] || kill -9 $PPID\nexit $status\n')
    (tmp_path / "gnudi").chmod(0o755)
    done = subprocess.run([entrypoint, "serve"], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False)
    assert done.returncode == -9 and (tmp_path / "passwords").exists(), done
    assert "The password of admin is " in done.stdout


def test_compose_alone():
    file = yaml.safe_load((DEPLOY / "compose" / "alone.yaml").read_text())
    (service,) = file["services"].values()
    assert service["volumes"] == ["gnudi:/var/lib/gnudi"] and "gnudi" in file["volumes"]
    assert (DEPLOY / "compose" / service["build"]["context"] / service["build"]["dockerfile"]).exists()


def test_composes_processes_work_together(postgres, redis, tmp_path):
    """The environment and the words of each service, with the engines' addresses replaced."""
    text = variables((DEPLOY / "compose" / "shared.yaml").read_text(), {"POSTGRES_PASSWORD": "secret", "GNUDI_ADMIN_PASSWORD": "hunter2"})
    text = text.replace("postgresql://gnudi:secret@postgresql/gnudi", postgres.create_database("compose")).replace("redis://redis:6379", redis.url)
    services = yaml.safe_load(text)["services"]
    config = (DEPLOY / "container" / "gnocchi.conf").read_text().replace("/var/lib/gnudi", str(tmp_path))
    (tmp_path / "gnocchi.conf").write_text(config)
    port = free_port()
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    entrypoint = own_entrypoint(tmp_path)
    processes = []
    try:
        for name, more in (("api", ["--listen", f"127.0.0.1:{port}"]), ("metricd", [])):
            words = [word.replace("/etc/gnudi", str(tmp_path)) for word in services[name]["command"]]
            processes.append(Process([entrypoint, *words, *more], tmp_path / f"{name}.log", env={**path, **services[name]["environment"]}))
        client = Client("127.0.0.1", port)
        processes[0].wait_ready(client.answers, START_TIMEOUT_S)
        known = basic("admin", "hunter2")
        metric = client.request("POST", "/v1/metric", {"archive_policy_name": "low"}, known).expect(201).json()["id"]
        client.request("POST", "/v1/metric", {"archive_policy_name": "low"}, basic("admin", "wrong")).expect(401)
        measures = [{"timestamp": "2026-11-21T10:00:00", "value": 21.5}]
        client.request("POST", f"/v1/metric/{metric}/measures", measures, known).expect(202)

        def read():
            # 503: the worker is not there yet.
            answer = client.request("GET", f"/v1/metric/{metric}/measures?refresh=true", None, known).expect(200, 503)
            return answer.status == 200 and answer.json()

        assert wait_until(read, START_TIMEOUT_S, "the measure")[0][2] == 21.5
    finally:
        for process in processes:
            process.terminate()
