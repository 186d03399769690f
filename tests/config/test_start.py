"""Failing starts leave nothing behind, and report the error once."""

import socket

import pytest

from support import gnudi as program


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
