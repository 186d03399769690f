"""The polling agents' exporter for Prometheus and heartbeat socket: gnudi's compared with Ceilometer's."""

import http.client
import pathlib
import re
import socket
import ssl
import subprocess
import tempfile
import urllib.request

import pytest

from support.certificates import Certificates
from support.process import free_port, wait_until
from telemetry import polling
from telemetry.polling import domain, source

#: Figures that the test driver takes from the clock.
MOVING = ("ceilometer_network_",)


def configure(directory, bus, name, port, **options):
    uri = polling.libvirt(directory, [domain(1), domain(2)])
    more = {"enable_notifications": "false", "enable_prometheus_exporter": "true",
            "prometheus_listen_addresses": f"127.0.0.1:{port}", "jitter": 0, "heartbeat_socket_dir": directory / name, **options}
    return polling.configure(directory / name, bus, name, [source()], {"DEFAULT": {"libvirt_uri": uri}, "polling": more})


def scraped(port, scheme="http", context=None):
    """Series with their numbers, and what kinds the meters are."""
    try:
        with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}/metrics", timeout=60, context=context) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            lines = answer.read().decode().splitlines()
    except (OSError, http.client.HTTPException):
        return {}
    return dict(line.rsplit(" ", 1) for line in lines)


def labels(series):
    return dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series))


def heartbeats(path):
    told = b""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(path))
            while part := client.recv(4096):
                told += part
    except OSError:
        return {}
    return dict(line.split(" ") for line in told.decode().split("\n") if line)


@pytest.fixture
def directory():
    """One with a short name: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="gnudi-") as path:
        yield pathlib.Path(path)


def test_what_is_shown_is_what_ceilometers_agent_shows(bus, directory):
    ports = [free_port(), free_port()]
    agents = [polling.ours(configure(directory, bus, "shown-ours", ports[0]), directory / "ours.log"),
              polling.theirs(configure(directory, bus, "shown-theirs", ports[1]), directory / "theirs.log")]
    path = "ceilometer-compute.socket"
    try:
        # Ceilometer's meters come one after the other; none comes behind these that polling files have.
        def both():
            """What each shows, once that is of the same meters."""
            shown = [scraped(port) for port in ports]
            if len(shown[0]) <= 20 or shown[0].keys() != shown[1].keys():
                return None
            beats = [heartbeats(directory / name / path) for name in ("shown-ours", "shown-theirs")]
            return beats[0].keys() == beats[1].keys() and (*shown, beats)

        ours, theirs, beats = wait_until(both, polling.TIMEOUT_S, "the same from both")
    except TimeoutError as error:
        only = sorted(scraped(ports[0]).keys() ^ scraped(ports[1]).keys())[:10]
        raise AssertionError(f"{error}: {only}\n{agents[0].log()[-3000:]}\n{agents[1].log()[-3000:]}") from None
    finally:
        agents[0].terminate(60)
        agents[1].kill()
    assert ours.keys() == theirs.keys()
    still = {series: number for series, number in ours.items() if not series.startswith(MOVING)}
    assert still == {series: number for series, number in theirs.items() if not series.startswith(MOVING)}
    cpu = next(labels(series) for series in ours if series.startswith("ceilometer_cpu{"))
    assert cpu["counter"] == "cpu" and cpu["project"] == "project-instance-00000001" and cpu["flavor_name"] == "m1.small"
    assert beats[0].keys() == beats[1].keys() and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+", beats[0]["cpu"])
    assert not (directory / "shown-ours" / path).exists(), "it goes with the agent"


def test_it_is_shown_over_tls(bus, tmp_path):
    certificates, port = Certificates(tmp_path / "certificates"), free_port()
    options = {"prometheus_tls_enable": "true", "prometheus_tls_certfile": certificates.certificate,
               "prometheus_tls_keyfile": certificates.key}
    agent = polling.ours(configure(tmp_path, bus, "tls", port, **options), tmp_path / "ours.log")
    context = ssl.create_default_context(cafile=certificates.root)
    try:
        wait_until(lambda: len(scraped(port, "https", context)) > 20, polling.TIMEOUT_S, "series")
        assert scraped(port) == {}
        before = ssl.get_server_certificate(("127.0.0.1", port))
        certificates.renew()
        wait_until(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != before, 60, "the renewed certificate")
    finally:
        agent.kill()


@pytest.mark.parametrize("options, told", [
    ({"prometheus_tls_enable": "true"}, "[polling] prometheus_tls_enable: needs prometheus_tls_certfile and prometheus_tls_keyfile"),
    ({"prometheus_listen_addresses": "nonsense"}, "[polling] prometheus_listen_addresses"),
    ({"heartbeat_socket_dir": "/nowhere/at/all"}, "[polling] heartbeat_socket_dir = /nowhere/at/all"),
])
def test_what_cannot_be_shown_stops_the_start(bus, tmp_path, options, told):
    ended = polling.polled(configure(tmp_path, bus, "refused", free_port(), **options))
    place, _, rest = told.partition("] ")
    assert ended.returncode != 0 and place in ended.stdout and rest in ended.stdout, ended.stdout
    assert isinstance(ended, subprocess.CompletedProcess)
