"""Failing starts leave nothing behind, and report the error once. A start can be stopped."""

import os
import pathlib
import signal
import socket
import subprocess

import pytest

from support import gnudi as program, mounts
from support.process import Process, free_port, free_udp_port, listens, wait_until


def serve(tmp_path, *arguments, config=""):
    path = tmp_path / "gnocchi.conf"
    path.write_text(config)
    return program.run("serve", "--config-file", path, "--without", "host", *arguments, directory=tmp_path)


@pytest.mark.parametrize("names_directory", [False, True])
def test_a_port_that_is_taken_leaves_nothing_behind(tmp_path, names_directory):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        done = serve(tmp_path, "--listen", listen, *(["--data-dir", tmp_path / "data"] if names_directory else []))
    assert done.returncode == 1
    assert f"listening on {listen}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["gnocchi.conf"]


@pytest.mark.parametrize("words, config, named", [
    (["--host", "no..host"], "[api]\nhost = 127.0.0.1\n", "gnudi: --host no..host: "),
    ([], "[api]\nhost = no..host\n", "gnocchi.conf:2: [api] host = no..host: "),
])
def test_a_host_without_an_address_is_named_where_it_was_set(tmp_path, words, config, named):
    done = serve(tmp_path, *words, "--data-dir", tmp_path / "data", config=config)
    assert done.returncode == 1 and named in done.stderr, done.stderr


@pytest.mark.parametrize("part", ["", "/sub"])
def test_a_data_directory_that_cannot_be_made_is_told_once(tmp_path, part):
    (tmp_path / "file").write_text("no directory")
    done = serve(tmp_path, "--listen", "127.0.0.1:0", "--data-dir", f"{tmp_path}/file{part}")
    assert done.returncode == 1
    assert f"{tmp_path}/file" in done.stderr
    assert done.stderr.count("(os error ") == 1, done.stderr
    assert (tmp_path / "file").read_text() == "no directory"


@pytest.mark.parametrize("config", [
    "[api]\ntls_certificate = {path}/none\ntls_key = {path}/none\n",
    "[api]\npassword_file = {path}/none\n",
    "[oslo_policy]\npolicy_file = {path}\n",
])
def test_a_file_that_cannot_be_read_is_told_once(tmp_path, config):
    data = tmp_path / "data"
    done = serve(tmp_path, "--listen", "127.0.0.1:0", "--data-dir", data, config=config.format(path=tmp_path))
    assert done.returncode == 1
    assert done.stderr.count("(os error ") == 1, done.stderr
    assert not data.exists()


def test_a_configuration_file_that_cannot_be_read_is_told_once(tmp_path):
    done = program.run("serve", "--config-file", tmp_path, "--data-dir", tmp_path / "data")
    assert done.returncode == 1
    assert done.stderr.count("(os error ") == 1, done.stderr


@pytest.mark.skipif(not mounts.possible(), reason="needs root, for a namespace of process ids")
@pytest.mark.parametrize("command, status", [("serve", 0), ("metricd", 0), ("upgrade", 128 + signal.SIGTERM)])
def test_the_first_process_of_a_container_can_be_stopped_while_it_starts(tmp_path, command, status):
    """The kernel ignores the default actions of signals for it."""
    config, log = tmp_path / "gnocchi.conf", tmp_path / "log"
    config.write_text(f"[api]\nport = 0\n[indexer]\nurl = postgresql://nobody@127.0.0.1:{free_port()}/none\n"
                      f"[storage]\ndriver = file\nfile_basepath = {tmp_path / 'store'}\n")
    words = ["unshare", "--pid", "--fork", "--kill-child", program.binary(), command, "--config-file", config]
    with log.open("wb") as output, subprocess.Popen(words, stdout=output, stderr=output) as holder:
        try:
            wait_until(lambda: "tried again" in log.read_text(), 60, "the database is waited for")
            (inner,) = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
            os.kill(int(inner), signal.SIGTERM)
            assert holder.wait(60) == status, log.read_text()
        finally:
            holder.kill()


@pytest.mark.parametrize("command", ["serve", "metricd", "statsd", "amqpd", "agent notification", "agent polling"])
def test_a_service_tells_the_manager_that_it_is_ready_and_that_it_stops(tmp_path, command):
    """As sd_notify(3) says. A server answers from then on."""
    port, config, told = free_port(), tmp_path / "gnocchi.conf", tmp_path / "told"
    config.write_text(f"[statsd]\nport = {free_udp_port()}\n[amqp1d]\nurl = 127.0.0.1:{free_port()}/collectd\n")
    if command.startswith("agent"):
        config.write_text(f"[DEFAULT]\ntransport_url = rabbit://127.0.0.1:{free_port()}/\n[gnocchi]\nauth_type = gnocchi-basic\n"
                          f"user = admin\nendpoint = http://127.0.0.1:{port}\n")
    words = [program.binary(), *command.split(), "--config-file", config]
    words += ["--data-dir", tmp_path / "data"] if command in ("serve", "metricd") else []
    words += ["--without", "host", "--listen", f"127.0.0.1:{port}"] if command == "serve" else []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(told))
        manager.settimeout(60)
        service = Process(words, tmp_path / "log", env={"NOTIFY_SOCKET": str(told)})
        try:
            assert manager.recv(100) == b"READY=1", service.log()
            assert command != "serve" or listens(port)
            assert service.terminate() == 0, service.log()
            assert manager.recv(100) == b"STOPPING=1"
        finally:
            service.kill()


#: A pipeline into one sink.
PIPELINE = "sources: [{{name: s, {kind}: ['*'], sinks: [k]}}]\nsinks:\n- {{name: k, publishers: {publishers}}}\n"


@pytest.mark.parametrize("name, kind, publishers, said", [
    (None, None, None, "without a pipeline file: sink meter_sink"),
    ("pipeline", "meters", ["gnocchi://", "none://"], "/pipeline.yaml:3: sink k"),
    ("event_pipeline", "events", ["gnocchi://"], "/event_pipeline.yaml:3: sink k"),
])
def test_a_notification_agent_that_could_publish_nothing_does_not_start(tmp_path, name, kind, publishers, said):
    """It would acknowledge all messages, and lose them."""
    config = tmp_path / "ceilometer.conf"
    only = {"pipeline": "pipelines = meter", "event_pipeline": "pipelines = event"}.get(name, "")
    config.write_text(f"[DEFAULT]\ntransport_url = rabbit://127.0.0.1:9/\n[notification]\n{only}\n")
    if name:
        (tmp_path / f"{name}.yaml").write_text(PIPELINE.format(kind=kind, publishers=publishers))
    done = program.run("agent", "notification", "--config-file", config)
    assert done.returncode == 1, done.stderr
    assert f"{said}: none of its publishers can be opened" in done.stderr, done.stderr
    assert f"gnocchi://: {config}: " in done.stderr and "set auth_url and the rest in [service_credentials]" in done.stderr
    assert "not connected to the broker" not in done.stderr
