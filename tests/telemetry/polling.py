"""Shared by the tests of polling: both polling agents, instances of libvirt's test driver, and the reader of published samples.

Each test has its own topics, so that all can share one broker.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import threading
import time

from support import cloud_venv, gnudi
from support.process import Process

TESTS = pathlib.Path(__file__).resolve().parents[1]
SECRET = "a secret"
TIMEOUT_S = 90

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
<interface type='bridge'><mac address='52:54:00:00:00:{number:02x}'/><source bridge='br{number}'/>
<virtualport type='openvswitch'><parameters interfaceid='09b11c53-8b5c-4eeb-8f00-d84eaa0aa{number:03}'/></virtualport>
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
<nova:minRam>0</nova:minRam><nova:properties><nova:property name="os_distro">debian</nova:property></nova:properties>
</nova:image>"""

FILTER = """<filterref filter='nova-base-{number}'><parameter name='IP' value='10.0.0.{number}'/></filterref>"""


def instance_id(number):
    return f"b3a5c3f5-6b46-4c2d-9d6a-0c5b2c1a{number:04}"


def domain(number, is_running=True, flavor_id="42"):
    """One of Nova's instances. The first has an image, the second a filter of networks. Nova before 2025.2 leaves no id of its
    flavor (None)."""
    name = f"instance-{number:08}"
    flavor_id = f' id="{flavor_id}"' if flavor_id else ""
    return DOMAIN.format(
        state=1 if is_running else 5, name=name, uuid=instance_id(number), number=number,
        metadata=METADATA.format(name=name, flavor_id=flavor_id, image=IMAGE if number == 1 else ""),
        filter=FILTER.format(number=number) if number == 2 else "")


def stranger(number):
    """A domain that is not Nova's."""
    return DOMAIN.format(state=1, name="other", uuid=instance_id(number), number=number, metadata="", filter="")


def libvirt(directory, domains):
    """The URI of a libvirt that has these."""
    path = pathlib.Path(directory) / "domains.xml"
    path.write_text(NODE.format(domains="".join(domains)))
    return f"test://{path}"


def configure(directory, broker, topic, sources, *options):
    """The path of a ceilometer.conf for either agent, with a polling.yaml of these sources beside it. `options`:
    {section: {option: value}}."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "polling.yaml").write_text(json.dumps({"sources": sources}))
    merged = {
        "DEFAULT": {"transport_url": broker.url(), "host": "cmp1"},
        "polling": {"cfg_file": directory / "polling.yaml"},
        "publisher": {"telemetry_secret": SECRET},
        "oslo_messaging_notifications": {"topics": topic},
    }
    for section, values in (item for more in options for item in more.items()):
        merged.setdefault(section, {}).update(values)
    # Nobody is asked anything, unless somebody says who.
    merged.setdefault("service_credentials", {"auth_type": "none"})
    lines = []
    for section, values in merged.items():
        lines += [f"[{section}]", *(f"{name} = {value}" for name, value in values.items())]
    conf = directory / "ceilometer.conf"
    conf.write_text("\n".join(lines) + "\n")
    return conf


def source(*meters, interval=600):
    return {"name": "all", "interval": interval, "meters": list(meters) or ["*"]}


def ours(conf, log_path, *arguments, namespace="compute"):
    """`gnudi agent polling` without end."""
    command = [gnudi.binary(), "agent", "polling", "--polling-namespaces", namespace, "--config-file", conf, *arguments]
    return Process(command, log_path, env={"NO_COLOR": "1"})


def polled(conf, namespace="compute"):
    """How our agent ends after one round, with what it said."""
    return subprocess.run(
        [str(gnudi.binary()), "agent", "polling", "--once", "--polling-namespaces", namespace, "--config-file", str(conf)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, "NO_COLOR": "1"})


def poll_once(conf, namespace="compute"):
    """What our agent says meanwhile."""
    ended = polled(conf, namespace)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def theirs(conf, log_path, namespace="compute", path=()):
    """`ceilometer-polling`, with as much of libvirt's binding as it needs. `path`: where programs are looked for first."""
    program = [cloud_venv.program("ceilometer-polling")]
    if namespace in ("central", "ipmi"):
        program = [cloud_venv.python(), TESTS / "oracle" / f"{namespace}.py"]
    command = [*program, "--config-file", conf, "--polling-namespaces", namespace]
    programs = os.pathsep.join([*map(str, path), os.environ["PATH"]])
    return Process(command, log_path, env={"PYTHONPATH": str(TESTS / "oracle" / "shims"), "PATH": programs})


@contextlib.contextmanager
def ending(agent):
    """Ends an agent with the block; where a check fails, with what it has logged."""
    try:
        yield agent
    except AssertionError as error:
        raise AssertionError(f"{error}\n{agent.log()[-6000:]}") from None
    finally:
        agent.kill()


class Reader:
    """Everything that is published, by topic."""

    def __init__(self, broker):
        url = broker.url().replace("rabbit:", "amqp:") + "/"
        self.child = subprocess.Popen([str(cloud_venv.python()), str(TESTS / "oracle" / "bus.py"), url, SECRET],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.by_topic = {}
        self.marks_wanted = self.marks_read = 0
        self.arrived = threading.Condition()
        self.is_ready = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        assert self.child.stdout.readline().strip() == "ready"
        with self.arrived:
            self.is_ready = True
            self.arrived.notify_all()
        for line in self.child.stdout:
            read = json.loads(line)
            with self.arrived:
                if "mark" in read:
                    self.marks_read = read["mark"]
                else:
                    self.by_topic.setdefault(read["topic"], []).append(read)
                self.arrived.notify_all()

    def wait_ready(self):
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.is_ready, TIMEOUT_S), "nobody reads"
        return self

    def messages(self, topic):
        with self.arrived:
            return list(self.by_topic.get(topic, []))

    def until(self, topic, enough, timeout_s=TIMEOUT_S):
        """The messages of a topic, once their samples are enough. An AssertionError says how far it came."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: enough(samples(self.by_topic.get(topic, []))), timeout_s):
                raise AssertionError(f"{topic}: {len(samples(self.by_topic.get(topic, [])))} samples are not enough")
            return list(self.by_topic[topic])

    def published(self, topic):
        """All messages of a topic whose agent has ended: they lie before the mark in the queue that is read."""
        self.marks_wanted += 1
        print(self.marks_wanted, file=self.child.stdin, flush=True)
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.marks_read >= self.marks_wanted, TIMEOUT_S), "the mark does not come"
            return list(self.by_topic.get(topic, []))

    def silent(self, topic, pause_s=0.7):
        """The messages of a topic, once there are some, and no more have come for a while. Not for what is still to come: an agent
        that goes on may pause for longer."""
        self.until(topic, bool)
        seen = -1
        while seen != (seen := len(self.messages(topic))):
            time.sleep(pause_s)
        return self.messages(topic)

    def stop(self):
        self.child.stdin.close()
        self.child.wait(30)


def samples(messages):
    return [sample for message in messages for sample in message["message"]["payload"]["samples"]]


def by_meter_and_resource(messages):
    """One round's samples."""
    found = {}
    for sample in samples(messages):
        key = (sample["counter_name"], sample["resource_id"])
        assert key not in found, f"{key} twice"
        found[key] = sample
    return found


def polled_by_both(reader, configure, name, count, directory, namespace="compute", path=()):
    """What both agents publish in one round, so many samples, and what ours says meanwhile. `configure` makes the configuration of a
    topic, of which there are two; `path` is as for `theirs`."""
    with ending(theirs(configure(f"{name}-theirs"), directory / "ceilometer.log", namespace, path)):
        told = poll_once(configure(f"{name}-ours"), namespace)
        found = by_meter_and_resource(reader.published(f"{name}-ours"))
        expected = by_meter_and_resource(reader.until(f"{name}-theirs", lambda got: len(got) >= count))
    return found, expected, told


#: What is another's with each sample.
OWN = {"timestamp", "message_id", "monotonic_time", "message_signature"}


def assert_alike(found, expected, is_moving=lambda key: False, told=""):
    """Samples as `by_meter_and_resource` has them. Volumes of those that move need only be of one type."""
    assert found.keys() == expected.keys(), (
        f"only ours: {sorted(found.keys() - expected.keys())}\nonly theirs: {sorted(expected.keys() - found.keys())}\n{told}")
    wrong = []
    for key, sample in found.items():
        other = expected[key]
        assert sample.keys() == other.keys(), key
        for field in sample.keys() - OWN:
            mine, his = sample[field], other[field]
            alike = type(mine) is type(his) and (mine == his or (field == "counter_volume" and is_moving(key)))
            if not alike:
                wrong.append((key, field, mine, his))
    assert not wrong, wrong


def assert_same_messages(ours_messages, theirs_messages):
    """All but what they are about: envelopes, priorities, who says it, signatures, sizes."""
    def bare(message):
        ignored = {"message_id", "timestamp", "payload", "_unique_id"}
        return {key: value for key, value in message["message"].items() if key not in ignored and not key.startswith("_context_")}

    for message in [*ours_messages, *theirs_messages]:
        assert message["verified"] and not message["verified_altered"], message
        assert message["version"] == theirs_messages[0]["version"]
        assert bare(message) == bare(theirs_messages[0])
        polled = message["message"]["payload"]["samples"]
        assert len(polled) <= 50
        assert len({(sample["counter_name"], sample["timestamp"]) for sample in polled}) == 1
        assert "+" not in polled[0]["timestamp"]
