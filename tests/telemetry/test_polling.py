"""The polling agent on real parts: libvirt's test driver, RabbitMQ, Ceilometer's own polling agent as the oracle.

Both agents poll the same domains and publish to the same broker; one reader takes what both say, and verifies signatures with
Ceilometer's function.
"""

import json
import os
import pathlib
import queue
import subprocess
import threading

import pytest

from support import cloud_venv, gnudi
from support.process import Process
from support.rabbitmq import Rabbitmq

TESTS = pathlib.Path(__file__).resolve().parents[1]
SECRET = "a secret"
TIMEOUT_S = 240
INSTANCES = ["b3a5c3f5-6b46-4c2d-9d6a-0c5b2c1a0001", "b3a5c3f5-6b46-4c2d-9d6a-0c5b2c1a0002"]

# Figures that the test driver takes from the clock.
MOVING = ("network.",)

NODE = """<node><cpu><mhz>6000</mhz><model>i986</model><active>50</active><nodes>4</nodes><sockets>4</sockets><cores>4</cores>
<threads>2</threads></cpu><memory>8192000</memory>{domains}</node>"""

DOMAIN = """<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>{state}</test:runstate>
<name>{name}</name><uuid>{uuid}</uuid>
{metadata}
<memory>2097152</memory><vcpu>2</vcpu><os><type arch='x86_64'>hvm</type></os>
<devices>
<disk type='file' device='disk'><source file='/nowhere/{name}.img'/><target dev='vda' bus='virtio'/></disk>
<disk type='file' device='cdrom'><target dev='hda' bus='ide'/></disk>
<interface type='bridge'><mac address='52:54:00:00:00:0{number}'/><source bridge='br{number}'/>
<virtualport type='openvswitch'><parameters interfaceid='09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4{number}'/></virtualport>
<target dev='tap{number}'/>{filter}</interface>
</devices></domain>"""

METADATA = """<metadata><nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
<nova:package version="31.0.0"/><nova:name>web &amp; {name} \u00e9</nova:name>
<nova:flavor name="m1.small"{flavor_id}><nova:memory>2048</nova:memory><nova:disk>20</nova:disk><nova:swap>0</nova:swap>
<nova:ephemeral>4</nova:ephemeral><nova:vcpus>2</nova:vcpus>
<nova:extraSpecs><nova:extraSpec name="hw:cpu_policy">shared</nova:extraSpec></nova:extraSpecs></nova:flavor>
<nova:owner><nova:user uuid="user-{name}">u</nova:user><nova:project uuid="project-{name}">p</nova:project></nova:owner>
{image}</nova:instance></metadata>"""

IMAGE = """<nova:root type="image" uuid="155d900f-4e14-4e4c-a73d-069cbf4541e6"/>
<nova:image uuid="155d900f-4e14-4e4c-a73d-069cbf4541e6"><nova:containerFormat>bare</nova:containerFormat>
<nova:minRam>0</nova:minRam><nova:properties><nova:property name="os_distro">debian</nova:property></nova:properties></nova:image>"""

FILTER = """<filterref filter='nova-base-{number}'><parameter name='IP' value='10.0.0.{number}'/></filterref>"""


def domains():
    """Two of Nova's instances, one that is shut off, one that is nobody's."""
    described = []
    for number, uuid in enumerate([*INSTANCES, "b3a5c3f5-6b46-4c2d-9d6a-0c5b2c1a0003"], 1):
        name = f"instance-{number:08}"
        metadata = METADATA.format(name=name, flavor_id=' id="42"', image=IMAGE if number == 1 else "")
        described.append(DOMAIN.format(
            state=5 if number == 3 else 1, name=name, uuid=uuid, number=number, metadata=metadata,
            filter=FILTER.format(number=number) if number == 2 else ""))
    described.append(DOMAIN.format(state=1, name="other", uuid="b3a5c3f5-6b46-4c2d-9d6a-0c5b2c1a0004", number=4,
                                   metadata="", filter=""))
    return NODE.format(domains="".join(described))


class Reader:
    """What is published, message by message."""

    def __init__(self, broker):
        command = [str(cloud_venv.python()), str(TESTS / "oracle" / "bus.py"), f"amqp://guest:guest@127.0.0.1:{broker.port}//", SECRET]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        assert self.child.stdout.readline().strip() == "ready"
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(json.loads(line))

    def until(self, enough):
        """Messages until their samples are enough."""
        messages = []
        while not enough(samples(messages)):
            messages.append(self.lines.get(timeout=TIMEOUT_S))
        return messages

    def stop(self):
        self.child.stdin.close()
        self.child.wait(30)


@pytest.fixture(scope="module")
def broker(shared_dir):
    broker = Rabbitmq(shared_dir / "polling-rabbitmq")
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture
def reader(broker):
    reader = Reader(broker)
    yield reader
    reader.stop()


def configure(directory, broker, more=""):
    """ceilometer.conf for both agents, every meter of instances every 600 s."""
    (directory / "domains.xml").write_text(domains())
    (directory / "polling.yaml").write_text(
        "sources:\n- name: instances\n  interval: 600\n  meters: ['*']\n")
    conf = directory / "ceilometer.conf"
    conf.write_text(
        f"[DEFAULT]\ntransport_url = {broker.url()}\nhost = cmp1\nlibvirt_uri = test://{directory}/domains.xml\n"
        f"[polling]\ncfg_file = {directory}/polling.yaml\n{more}"
        f"[publisher]\ntelemetry_secret = {SECRET}\n"
        # Nobody is asked anything: the metadata in libvirt say all.
        "[service_credentials]\nauth_type = none\n"
    )
    return conf


def poll(conf):
    ended = subprocess.run(
        [str(gnudi.binary()), "agent", "polling", "--once", "--polling-namespaces", "compute",
         "--config-file", str(conf)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def samples(messages):
    return [sample for message in messages for sample in message["message"]["payload"]["samples"]]


def by_meter_and_resource(messages):
    found = {}
    for sample in samples(messages):
        key = (sample["counter_name"], sample["resource_id"])
        assert key not in found, f"{key} twice"
        found[key] = sample
    return found


def test_samples_are_those_of_ceilometers_agent(broker, reader, tmp_path):
    conf = configure(tmp_path, broker)
    output = poll(conf)
    # The test driver's domains have these: a meter of each kind is among them.
    last = {"cpu", "memory.usage", "disk.root.size", "disk.device.usage", "network.outgoing.bytes.delta"}

    def enough(found):
        names = {(sample["counter_name"], sample["project_id"]) for sample in found}
        return all((meter, f"project-instance-{number:08}") in names for meter in last for number in (1, 2))

    ours = reader.until(enough)
    env = {"PYTHONPATH": str(TESTS / "oracle" / "shims")}
    theirs_agent = Process(
        [cloud_venv.program("ceilometer-polling"), "--config-file", conf, "--polling-namespaces", "compute"],
        tmp_path / "ceilometer.log", env=env)
    try:
        theirs = by_meter_and_resource(ours)
        messages = reader.until(lambda found: len(found) >= len(theirs))
    except queue.Empty:
        raise AssertionError(f"too few samples\n{theirs_agent.log()[-4000:]}\nours: {output}") from None
    finally:
        theirs_agent.kill()
    expected, found = by_meter_and_resource(messages), by_meter_and_resource(ours)
    assert found.keys() == expected.keys(), output
    for key, sample in found.items():
        other = expected[key]
        assert sample.keys() == other.keys()
        for field in sample.keys() - {"timestamp", "message_id", "monotonic_time", "message_signature",
                                      "counter_volume"}:
            assert sample[field] == other[field], (key, field)
        volumes = sample["counter_volume"], other["counter_volume"]
        assert type(volumes[0]) is type(volumes[1]), (key, volumes)
        if not key[0].startswith(MOVING):
            assert volumes[0] == volumes[1], key
        assert isinstance(sample["monotonic_time"], float) and isinstance(other["monotonic_time"], float)
    for message, other in zip(ours, messages):
        assert message["verified"] and other["verified"]
        assert message["version"] == other["version"]
        ignored = {"message_id", "timestamp", "payload", "_unique_id"}
        bare = {key: value for key, value in message["message"].items() if key not in ignored}
        assert bare == {key: value for key, value in other["message"].items()
                        if key not in ignored and not key.startswith("_context_")}
        polled = message["message"]["payload"]["samples"]
        assert len(polled) <= 50
        assert len({(sample["counter_name"], sample["timestamp"]) for sample in polled}) == 1
        assert "+" not in polled[0]["timestamp"]
    assert {sample["resource_id"] for sample in samples(ours) if sample["counter_name"] == "cpu"} == set(INSTANCES)


def test_stopped_instances_tell_what_they_have(broker, reader, tmp_path):
    conf = configure(tmp_path, broker, "[compute]\nreport_stopped_instance_metrics = true\n")
    poll(conf)
    stopped = "project-instance-00000003"

    def enough(found):
        names = {sample["counter_name"] for sample in found if sample["project_id"] == stopped}
        return {"power.state", "vcpus", "memory", "disk.device.capacity", "disk.device.usage"} <= names

    found = by_meter_and_resource(reader.until(enough))
    told = {name: sample for (name, _), sample in found.items() if sample["project_id"] == stopped}
    assert (told["power.state"]["counter_volume"], told["memory"]["counter_volume"]) == (5, 2048.0)
    assert "cpu" not in told and "network.incoming.bytes" not in told


@pytest.mark.parametrize("text, place", [
    ("sources:\n- name: a\n  interval: 1\n  meters: [cpu, '!memory']\n", "line 2: meters: "),
    ("sources:\n- name: a\n  interval: never\n  meters: [cpu]\n", "line 3: interval: "),
    ("sources: [\n", "line"),
])
def test_a_polling_file_that_is_wrong_is_told_with_its_line(tmp_path, text, place):
    (tmp_path / "polling.yaml").write_text(text)
    conf = tmp_path / "ceilometer.conf"
    conf.write_text(f"[polling]\ncfg_file = {tmp_path}/polling.yaml\nenable_notifications = false\n")
    ended = subprocess.run(
        [str(gnudi.binary()), "agent", "polling", "--once", "--config-file", str(conf)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, "NO_COLOR": "1"})
    assert ended.returncode != 0
    assert f"{tmp_path}/polling.yaml: " in ended.stdout and place in ended.stdout, ended.stdout
