"""collectd over AMQP 1.0: messages by a peer that speaks the protocol (proton), and a real collectd (Debian's)."""

import json
import shutil
import sys
import time
import pathlib

import pytest
from inputs.stored import SOON_S, metrics_of, points, values, wait_for_metrics, wait_for_values
from proton import Message, SSLDomain
from proton.utils import BlockingConnection
from support import gnudi as program
from support.certificates import Certificates
from support.http import create_policy_with_rule
from support.process import Process, free_port, listens, wait_until

LAST_WORDS_MAX = 5
TESTS = pathlib.Path(__file__).resolve().parents[1]
ADDRESS = "u/collectd/telemetry"
CONFIG = """\
[amqp1d]
url = {scheme}127.0.0.1:{port}/u/collectd/telemetry
{more}creator = collectd-user
flush_delay = 0.3
"""
COLLECTD = """\
Hostname "real.host"
FQDNLookup false
Interval 1
LoadPlugin load
LoadPlugin memory
LoadPlugin amqp1
<Plugin amqp1>
  <Transport "broker">
    Host "127.0.0.1"
    Port "{port}"
    Address "u/collectd"
    RetryDelay 1
    <Instance "telemetry">
      Format JSON
      PreSettle false
    </Instance>
  </Transport>
</Plugin>
"""


class Broker:
    def __init__(self, directory, certificates=None):
        self.port, self.log_path, self.process = free_port(), directory / "broker.log", None
        self.certificates = certificates

    def start(self):
        credentials = [self.certificates.certificate, self.certificates.key] if self.certificates else []
        self.process = Process([sys.executable, "-m", "inputs.broker", self.port, *credentials], self.log_path, cwd=TESTS)
        self.process.wait_ready(lambda: listens(self.port), SOON_S)
        return self

    def accepted(self):
        return self.process.log().count("accepted")

    def sent(self):
        return self.process.log().count("sent")

    def send(self, *bodies):
        url, domain = f"amqp://127.0.0.1:{self.port}", None
        if self.certificates:
            url, domain = f"amqps://127.0.0.1:{self.port}", SSLDomain(SSLDomain.MODE_CLIENT)
            domain.set_peer_authentication(SSLDomain.ANONYMOUS_PEER)
        connection = BlockingConnection(url, timeout=SOON_S, ssl_domain=domain)
        sender = connection.create_sender(ADDRESS)
        for body in bodies:
            sender.send(body if isinstance(body, Message) else Message(body=body))
        connection.close()


@pytest.fixture
def broker(tmp_path):
    broker = Broker(tmp_path).start()
    yield broker
    broker.process.kill()


@pytest.fixture
def server(gnudi):
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    create_policy_with_rule(server.client())
    # A type is for administrators to make; the collector finds this one.
    host = {"type": "string", "required": True, "min_length": 0, "max_length": 255}
    server.client().post("/v1/resource_type", {"name": "collectd_amqp1d", "attributes": {"host": host}}).expect(201)
    return server


def start_collector(directory, broker, endpoint, more="", ready="receiving from the broker"):
    config = directory / "amqpd.conf"
    config.write_text(CONFIG.format(port=broker.port, scheme="amqps://" if broker.certificates else "", more=more))
    link = directory / "gnocchi-amqpd"
    if not link.is_symlink():
        link.symlink_to(program.binary())
    log = directory / f"amqpd-{len(list(directory.glob('amqpd-*.log')))}.log"
    process = Process([link, "--config-file", config, "--endpoint", endpoint], log)
    process.wait_ready(lambda: ready in process.log(), SOON_S)
    return process


@pytest.fixture
def collector(server, broker, tmp_path):
    process = start_collector(tmp_path, broker, f"http://127.0.0.1:{server.port}")
    yield process
    if process.running():
        process.kill()


def value_list(host, plugin, values, names=("value",), seconds=1700000000.0, **more):
    return {"host": host, "plugin": plugin, "plugin_instance": "", "type": plugin, "type_instance": "",
            "values": values, "dsnames": list(names), "dstypes": ["gauge"] * len(values), "time": seconds,
            "interval": 10.0, **more}


def test_messages_become_measures(server, collector, broker, tmp_path):
    one = [value_list("web/1", "load", [1.0, None, 3.5], ["shortterm", "midterm", "longterm"]),
           value_list("web/1", "cpu", [7], plugin_instance="0", type_instance="idle")]
    two = [value_list("web/1", "cpu", [8], plugin_instance="0", type_instance="idle", seconds=1700000001.25),
           value_list("db", "df", [0.5], plugin_instance="a/b")]
    # As bytes, as collectd sends them, and as text.
    broker.send(json.dumps(one).encode(), json.dumps(two))
    client = server.client("collectd-user")
    web = wait_for_metrics(client, "collectd_amqp1d", "collectd_amqp1d:web_1",
                           ["load@load-shortterm", "load@load-longterm", "cpu-0@cpu-idle"])
    assert len(web) == 3
    wait_until(lambda: len(points(client, web["cpu-0@cpu-idle"])) == 2, SOON_S, "both values")
    assert points(client, web["cpu-0@cpu-idle"]) == [
        ("2023-11-14T22:13:20+00:00", 1.0, 7.0), ("2023-11-14T22:13:21+00:00", 1.0, 8.0)]
    wait_for_values(client, web["load@load-longterm"], [3.5])
    db = wait_for_metrics(client, "collectd_amqp1d", "collectd_amqp1d:db", ["df-a_b@df"])
    wait_for_values(client, db["df-a_b@df"], [0.5])
    resource = client.get("/v1/resource/collectd_amqp1d/collectd_amqp1d:web_1").expect(200).json()
    assert resource["host"] == "web/1"
    # What comes before the end is flushed at the end. A message that is under way then goes to the next collector.
    for number in range(LAST_WORDS_MAX):
        if number > 0:
            collector = start_collector(tmp_path, broker, f"http://127.0.0.1:{server.port}")
        sent = broker.sent()
        broker.send(json.dumps([value_list(f"late{number}", "load", [1])]))
        wait_until(lambda: broker.sent() > sent, SOON_S, "the last message is sent to it")
        time.sleep(0.1)
        assert collector.terminate() == 0
        if "load@load" in metrics_of(client, "collectd_amqp1d", f"collectd_amqp1d:late{number}"):
            break
    else:
        raise AssertionError("no last message is stored")
    wait_until(lambda: broker.accepted() == 3 + number, SOON_S, "the last message is accepted as well")


def test_a_message_is_accepted_once_it_is_stored(server, broker, tmp_path):
    """A collector that dies before it could store anything costs nothing."""
    lost = start_collector(tmp_path, broker, f"http://127.0.0.1:{free_port()}")
    wait_until(lambda: "cannot be stored" in lost.log(), SOON_S, "a line in the log, before there is anything to store")
    broker.send(json.dumps([value_list("h", "kept", [1])]), "malformed",
                json.dumps([value_list("h", "kept", [2], seconds=1700000010.0)]))
    wait_until(lambda: broker.sent() == 3, SOON_S, "all messages are sent to it")
    # Several flushes, which try in vain.
    time.sleep(1)
    assert broker.accepted() == 0
    lost.kill()
    collector = start_collector(tmp_path, broker, f"http://127.0.0.1:{server.port}")
    client = server.client("collectd-user")
    metrics = wait_for_metrics(client, "collectd_amqp1d", "collectd_amqp1d:h", ["kept@kept"])
    wait_for_values(client, metrics["kept@kept"], [1, 2])
    wait_until(lambda: broker.accepted() == 3, SOON_S, "all messages are accepted")
    assert collector.terminate() == 0


def test_more_messages_than_the_broker_may_send_ahead(server, collector, broker):
    """Neither the credit nor the clock of the flushes holds messages up."""
    broker.send(*(json.dumps([value_list("h", "many", [number], seconds=1700000000.0 + number)])
                  for number in range(6000)))
    wait_until(lambda: broker.accepted() == 6000, 2 * SOON_S, "all messages are accepted")
    client = server.client("collectd-user")
    metrics = wait_for_metrics(client, "collectd_amqp1d", "collectd_amqp1d:h", ["many@many"])
    wait_until(lambda: values(client, metrics["many@many"])[-1:] == [5999], SOON_S, "the last value")


def test_malformed_messages_cost_nothing_else(server, collector, broker):
    good = json.dumps([value_list("h", "ok", [1])])
    broker.send("", "{}", "[", b"\xff\xfe", "[{}]", "[[[[" * 1000, json.dumps([value_list("h", "x", ["text"])]),
                json.dumps([value_list("h", "x", [1, 2, 3], ["v", "w"])]), 42, {"a": "map"}, ["list"], good)
    metrics = wait_for_metrics(server.client("collectd-user"), "collectd_amqp1d", "collectd_amqp1d:h", ["ok@ok"])
    assert set(metrics) == {"ok@ok"}
    wait_until(lambda: "dropped: malformed messages" in collector.log(), SOON_S, "a line in the log")
    assert collector.running()


def test_messages_that_cannot_be_read_are_rejected(server, collector, broker):
    """The broker would send them again and again if the link were closed. A list is no property of an AMQP message."""
    broker.send(b"x" * (17 << 20), Message(body=b"[]", properties={"list": [1, 2]}), json.dumps([value_list("h", "ok", [1])]))
    wait_for_metrics(server.client("collectd-user"), "collectd_amqp1d", "collectd_amqp1d:h", ["ok@ok"])
    wait_until(lambda: broker.accepted() == 1 and broker.process.log().count("rejected") == 2, SOON_S, "all are settled")
    for condition in ["amqp:link:message-size-exceeded", "amqp:decode-error"]:
        assert condition in broker.process.log()
    assert "trying again" not in collector.log()


def test_the_connection_is_renewed(server, collector, broker):
    broker.process.kill()
    wait_until(lambda: "trying again" in collector.log(), SOON_S, "a line in the log")
    broker.start()
    wait_until(lambda: collector.log().count("receiving from the broker") >= 2, SOON_S, "another connection")
    broker.send(json.dumps([value_list("h", "again", [1])]))
    wait_for_metrics(server.client("collectd-user"), "collectd_amqp1d", "collectd_amqp1d:h", ["again@again"])


def test_a_real_collectd(gnudi, broker, tmp_path):
    config = CONFIG.format(port=broker.port, scheme="", more="").replace("creator = collectd-user\n", "")
    server = gnudi(config=config, arguments=["--with", "amqpd"])
    collectd = shutil.which("collectd") or shutil.which("collectd", path="/usr/sbin")
    assert collectd, "collectd is missing: run scripts/install-test-deps"
    path = tmp_path / "collectd.conf"
    path.write_text(f'BaseDir "{tmp_path}"\nPIDFile "{tmp_path}/collectd.pid"\n' + COLLECTD.format(port=broker.port))
    process = Process([collectd, "-f", "-C", path], tmp_path / "collectd.log")
    try:
        names = ["load@load-shortterm", "memory@memory-used", "memory@memory-free"]
        metrics = wait_for_metrics(server.client(), "collectd_amqp1d", "collectd_amqp1d:real.host", names)
        used = metrics["memory@memory-used"]
        wait_until(lambda: sum(values(server.client(), used, "count")) >= 3, SOON_S, "three values")
        assert all(1e6 < value < 1e14 for value in values(server.client(), used))
    finally:
        if process.running():
            process.terminate()


def test_a_broker_that_speaks_tls(server, tmp_path):
    """Only one is trusted whose certificate is vouched for."""
    certificates = Certificates(tmp_path / "certificates")
    broker = Broker(tmp_path, certificates).start()
    endpoint = f"http://127.0.0.1:{server.port}"
    start_collector(tmp_path, broker, endpoint, ready="invalid peer certificate").kill()
    collector = start_collector(tmp_path, broker, endpoint, more=f"ssl_ca_file = {certificates.root}\n")
    broker.send(json.dumps([value_list("safe", "load", [4])]))
    metrics = wait_for_metrics(server.client("collectd-user"), "collectd_amqp1d", "collectd_amqp1d:safe", ["load@load"])
    wait_for_values(server.client("collectd-user"), metrics["load@load"], [4])
    assert collector.terminate() == 0
    broker.process.kill()
