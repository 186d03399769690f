"""The exact command lines by which distributions start Gnocchi's and Ceilometer's programs: gnudi's links accept them, read the files that
they name, and log to the places that they name."""

import os
import re
import signal
import subprocess
import time

import pytest

from support import gnudi as program, mounts
from support.process import free_port

GNOCCHI, CEILOMETER = "/etc/gnocchi/gnocchi.conf", "/etc/ceilometer/ceilometer.conf"

# Who starts it so, the line, the file it reads, and where it logs (None: standard error).
LINES = [
    # Debian: the units call init scripts of openstack-pkg-tools, which add these two.
    ("debian", "gnocchi-metricd --config-file=/etc/gnocchi/gnocchi.conf --log-file=/var/log/gnocchi/gnocchi-metricd.log",
     GNOCCHI, "gnocchi/gnocchi-metricd.log"),
    ("debian, syslog", "gnocchi-api --config-file=/etc/gnocchi/gnocchi.conf --use-syslog --log-file=/var/log/gnocchi/gnocchi-api.log",
     GNOCCHI, "gnocchi/gnocchi-api.log"),
    ("debian", "gnocchi-statsd --config-file=/etc/gnocchi/gnocchi.conf --log-file=/var/log/gnocchi/gnocchi-statsd.log",
     GNOCCHI, "gnocchi/gnocchi-statsd.log"),
    ("debian", "ceilometer-agent-notification --config-file=/etc/ceilometer/ceilometer.conf "
               "--log-file=/var/log/ceilometer/ceilometer-agent-notification.log",
     CEILOMETER, "ceilometer/ceilometer-agent-notification.log"),
    ("debian", "ceilometer-polling --polling-namespaces central --config-file=/etc/ceilometer/ceilometer.conf "
               "--log-file=/var/log/ceilometer/ceilometer-agent-central.log",
     CEILOMETER, "ceilometer/ceilometer-agent-central.log"),
    ("debian, postinst", "gnocchi-upgrade", GNOCCHI, None),
    # Kolla: the commands of config.json, and of its bootstrap.
    ("kolla", "gnocchi-metricd --log-file /var/log/kolla/gnocchi/gnocchi-metricd.log", GNOCCHI, "kolla/gnocchi/gnocchi-metricd.log"),
    ("kolla", "gnocchi-statsd --log-file /var/log/kolla/gnocchi/gnocchi-statsd.log", GNOCCHI, "kolla/gnocchi/gnocchi-statsd.log"),
    ("kolla", "gnocchi-upgrade --log-file /var/log/kolla/gnocchi/gnocchi-upgrade.log", GNOCCHI, None),
    ("kolla", "ceilometer-polling --config-file /etc/ceilometer/ceilometer.conf --polling-namespaces compute", CEILOMETER, None),
    ("kolla", "ceilometer-agent-notification --config-file /etc/ceilometer/ceilometer.conf", CEILOMETER, None),
    ("kolla", "ceilometer-upgrade --skip-gnocchi-resource-types", CEILOMETER, None),
    # DevStack: the plugins' run_process.
    ("devstack", "gnocchi-metricd -d -v --config-file /etc/gnocchi/gnocchi.conf", GNOCCHI, None),
    ("devstack", "gnocchi-statsd -d -v --config-file /etc/gnocchi/gnocchi.conf", GNOCCHI, None),
    ("devstack", "gnocchi-upgrade --config-file /etc/gnocchi/gnocchi.conf", GNOCCHI, None),
    ("devstack", "ceilometer-polling --polling-namespaces central --config-file /etc/ceilometer/ceilometer.conf", CEILOMETER, None),
    ("devstack", "ceilometer-polling --polling-namespaces compute --config-file /etc/ceilometer/ceilometer.conf", CEILOMETER, None),
    ("devstack", "ceilometer-agent-notification --config-file /etc/ceilometer/ceilometer.conf", CEILOMETER, None),
    # RDO's units and old scripts.
    ("rdo", "ceilometer-agent-notification --logfile /var/log/ceilometer/agent-notification.log", CEILOMETER,
     "ceilometer/agent-notification.log"),
    ("rdo", "gnocchi-metricd --logdir /var/log/gnocchi", GNOCCHI, "gnocchi/gnocchi-metricd.log"),
    ("gnocchi's manual", "gnocchi-api --port 8041 -- --config-file /etc/gnocchi/gnocchi.conf --nodebug", GNOCCHI, None),
    ("puppet", "gnocchi-upgrade --config-file /etc/gnocchi/gnocchi.conf --sacks-number 128", GNOCCHI, None),
]
# `%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s [-] %(message)s`
OSLO = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (\d+) (DEBUG|INFO|WARNING|ERROR) [a-z_0-9.]+ \[-\] .")
START_TIMEOUT_S = 60


def link(directory, name):
    path = directory / name
    path.symlink_to(program.binary())
    return path


@pytest.mark.skipif(not mounts.possible(), reason="mounting needs root")
@pytest.mark.parametrize("line, file, log", [(line, file, log) for _, line, file, log in LINES],
                         ids=[f"{who}: {line}" for who, line, _, _ in LINES])
def test_a_line_is_taken_to_the_letter(tmp_path, line, file, log):
    mounted = mounts.Mounts(tmp_path)
    for name, text in (("gnocchi", f"[storage]\nfile_basepath = {tmp_path}/data\n[statsd]\nport = 0\n[host]\nenabled = false\n"
                                   f"[api]\nport = {free_port()}\n"),
                       ("ceilometer", "[gnocchi]\nauth_type = gnocchi-basic\nendpoint = http://127.0.0.1:9\n"
                                      "[DEFAULT]\ntransport_url = rabbit://127.0.0.1:9/\n")):
        (mounted.etc / name).mkdir()
        (mounted.etc / name / f"{name}.conf").write_text(text)
    for directory in ("gnocchi", "ceilometer", "kolla/gnocchi"):
        (mounted.log / directory).mkdir(parents=True)
    name, *words = line.split()
    # The manual's line names a port that may be taken here.
    words = [str(free_port()) if word == "8041" else word for word in words]
    stderr = tmp_path / "stderr"
    with stderr.open("w") as errors:
        running = subprocess.Popen(mounted.command(link(tmp_path, name), *words), env=mounted.environment(), stderr=errors)
    told = mounted.log / log if log else stderr
    expected = f"configuration from {file}\n"
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (told.exists() and expected in told.read_text()):
            assert time.monotonic() < deadline and running.poll() in (None, 0), stderr.read_text()
            time.sleep(0.01)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    if log:
        assert stderr.read_text() == ""
        lines = told.read_text().splitlines()
        assert all(OSLO.match(line) and OSLO.match(line)[1] == str(running.pid) for line in lines), lines
        assert ("--use-syslog: without effect" in told.read_text()) == ("--use-syslog" in line)


def test_a_log_file_goes_on_after_it_was_moved_and_hangup_ends_nothing(gnudi, tmp_path):
    log = tmp_path / "gnudi.log"
    server = gnudi(config=f"[DEFAULT]\nlog_dir = {tmp_path}\nlog_date_format = %H:%M\n", arguments=["--log-file", "gnudi.log"])
    text = log.read_text()
    assert f"the store: embedded, in the data directory {server.data_dir}\n" in text
    assert re.match(rf"\d\d:\d\d\.\d{{3}} {server.process.pid} INFO gnudi\.logging \[-\] gnudi ", text), text
    log.rename(tmp_path / "gnudi.log.1")
    os.kill(server.process.pid, signal.SIGHUP)
    assert server.stop() == 0
    assert "stopped" in log.read_text() and "stopped" not in (tmp_path / "gnudi.log.1").read_text()
    assert server.log() == ""


def test_a_log_file_that_cannot_be_written_stops_the_start(tmp_path):
    done = program.run("serve", "--data-dir", tmp_path / "data", "--log-file", tmp_path / "none" / "log")
    assert done.returncode == 1 and "--log-file: the log file " in done.stderr and "(os error 2)" in done.stderr
    assert not (tmp_path / "data").exists()
    done = program.run("serve", "--data-dir", tmp_path / "data", "--log-file", tmp_path / "log", "--log-date-format", "%!")
    assert done.returncode == 1 and "--log-date-format" in done.stderr


class FullLog(program.Gnudi):
    """Its standard error is a full disk."""

    def command(self):
        return ["sh", "-c", 'exec "$@" 2> /dev/full', "sh", *super().command()]


@pytest.mark.parametrize("arguments", [[], ["--log-file", "/dev/full"]])
def test_a_full_disk_for_the_log_ends_nothing(tmp_path, arguments):
    with FullLog(tmp_path, arguments=arguments) as server:
        assert server.client().post("/v1/metric", {"archive_policy_name": "low"}).status == 201
        assert server.stop() == 0


def test_why_a_service_ended_is_in_its_log(tmp_path):
    config = tmp_path / "gnocchi.conf"
    config.write_text("[storage]\ndriver = redis\n")
    done = program.run("serve", "--config-file", config, "--listen", "127.0.0.1:0", "--log-file", tmp_path / "log")
    assert done.returncode == 1
    reason = done.stderr.removeprefix("gnudi: ")
    assert reason in (tmp_path / "log").read_text() and " ERROR " in (tmp_path / "log").read_text()


def test_the_sample_file_is_written(tmp_path):
    sample = tmp_path / "gnocchi.conf"
    done = program.run("--output-file", sample, "--wrap-width", 80, "--format", "ini", name="gnocchi-config-generator", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sample.read_text() == program.run("config").stdout


def test_the_injector_posts_to_the_server_of_its_configuration(gnudi, tmp_path):
    server = gnudi()
    config = tmp_path / "gnocchi.conf"
    config.write_text(f"[api]\nport = {server.port}\n")
    done = program.run("--config-file", config, "--metrics", 3, "--measures", 7, name="gnocchi-injector", directory=tmp_path,
                       env={"GNOCCHI_ENDPOINT": ""})
    assert done.returncode == 0, done.stderr
    metrics = server.client().get("/v1/metric?archive_policy_name=low").json()
    assert len(metrics) == 3
    for metric in metrics:
        series = server.client().get(f"/v1/metric/{metric['id']}/measures?aggregation=count&refresh=true").json()
        assert sum(point[2] for point in series) == 7


def test_the_injector_ends_with_an_interrupt_in_any_round(gnudi, tmp_path):
    """Also while it posts: the second round begins before the first is processed."""
    server = gnudi()
    link = tmp_path / "gnocchi-injector"
    link.symlink_to(program.binary())
    words = ["--endpoint", f"http://127.0.0.1:{server.port}", "--metrics", "2", "--measures", "100000", "--interval", "0"]
    with subprocess.Popen([link, *words, "--verbose"], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        for line in running.stderr:
            if "posted" in line:
                break
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        try:
            assert running.wait(timeout=60) == 0
        finally:
            running.kill()


def test_resource_types_are_made_as_ceilometers_program_makes_them(gnudi, tmp_path):
    server = gnudi()
    config = tmp_path / "ceilometer.conf"
    config.write_text(f"[gnocchi]\nauth_type = gnocchi-basic\nendpoint = http://127.0.0.1:{server.port}\n")
    run = lambda *words: program.run("--config-file", config, *words, name="ceilometer-upgrade", directory=tmp_path)
    assert run("--skip-gnocchi-resource-types").returncode == 0
    assert server.client().get("/v1/resource_type/instance").status == 404
    for _ in range(2):
        done = run("--retry", 3)
        assert done.returncode == 0, done.stderr
    assert "flavor_name" in server.client().get("/v1/resource_type/instance").json()["attributes"]
    server.stop()
    done = run("--retry", 1)
    assert done.returncode == 1 and "--retry" in done.stderr, done.stderr
