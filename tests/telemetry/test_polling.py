"""The polling agent on real parts: libvirt's test driver, RabbitMQ, Ceilometer's own polling agent as the oracle.

Both agents poll the same domains and publish to the same broker; one reader gets the samples of both, and verifies signatures
with Ceilometer's function.
"""

import datetime
import os
import subprocess

import pytest

from support import gnudi
from support.process import free_port
from telemetry import polling
from telemetry.agents import raw_bus
from telemetry.polling import by_meter_and_resource, domain, instance_id, samples, source, stranger

# Figures that the test driver takes from the clock.
MOVING = ("network.",)
#: The last is shut off; one more domain is not Nova's.
DOMAINS = [domain(1), domain(2), domain(3, is_running=False), stranger(4)]


def configure(directory, broker, topic, *options):
    """Every meter of instances, every 600 s."""
    uri = polling.libvirt(directory, DOMAINS)
    return polling.configure(directory / topic, broker, topic, [source()], {"DEFAULT": {"libvirt_uri": uri}}, *options)


def test_samples_are_those_of_ceilometers_agent(bus, reader, tmp_path):
    their_agent = polling.theirs(configure(tmp_path, bus, "theirs"), tmp_path / "ceilometer.log")
    with polling.ending(their_agent):
        told = polling.poll_once(configure(tmp_path, bus, "ours"))
        expected = len(samples(ours := reader.published("ours")))
        reader.until("theirs", lambda got: len(got) >= expected)
        theirs = reader.silent("theirs")
    polling.assert_alike(by_meter_and_resource(ours), by_meter_and_resource(theirs), lambda key: key[0].startswith(MOVING), told)
    polling.assert_same_messages(ours, theirs)
    for sample in samples([*ours, *theirs]):
        assert isinstance(sample["monotonic_time"], float)
    # A meter of each kind that the test driver has is among them.
    kinds = {"cpu", "disk.root.size", "disk.device.allocation", "network.outgoing.bytes.delta", "power.state"}
    assert kinds <= {sample["counter_name"] for sample in samples(ours)}
    cpus = {sample["resource_id"] for sample in samples(ours) if sample["counter_name"] == "cpu"}
    assert cpus == {instance_id(1), instance_id(2)}


def test_what_is_published_is_compressed_where_that_is_wanted(bus, reader, tmp_path):
    for how in ("gzip", "bz2"):
        topic = f"compressed-{how}"
        conf = polling.configure(tmp_path / how, bus, topic, [source("power.state")], {
            "DEFAULT": {"libvirt_uri": polling.libvirt(tmp_path, [domain(1)])},
            "oslo_messaging_rabbit": {"kombu_compression": how}})
        polling.poll_once(conf)
        # kombu has undone it.
        (found,) = samples(reader.until(topic, bool))
        assert found["resource_id"] == instance_id(1)
        (body, headers), = raw_bus(bus, drain=[f"{topic}.sample"])[f"{topic}.sample"]
        assert headers["compression"] == {"gzip": "application/x-gzip", "bz2": "application/x-bz2"}[how]
        assert b"power.state" not in body


def polled_at(messages):
    return datetime.datetime.fromisoformat(samples(messages)[0]["timestamp"])


def test_without_jitter_the_first_round_begins_at_once(bus, reader, tmp_path):
    """As soon as one that is polled alone, by an agent that starts at the same time."""
    for topic, jitter in (("at-once", "0"), ("at-once-too", "0.0")):
        conf, alone = (configure(tmp_path, bus, name, {"polling": {"jitter": jitter}}) for name in (topic, f"{topic}-alone"))
        agent = polling.ours(conf, tmp_path / f"{topic}.log")
        try:
            polling.poll_once(alone)
            late = polled_at(reader.until(topic, bool)) - polled_at(reader.published(f"{topic}-alone"))
            assert late < datetime.timedelta(seconds=5), late
        finally:
            agent.kill()
    told = polling.polled(configure(tmp_path, bus, "never", {"polling": {"jitter": "-1"}}))
    assert told.returncode != 0 and "[polling] jitter = -1: must be a number of seconds, or 0" in told.stdout, told.stdout


def test_another_secret_is_found_out(bus, reader, tmp_path):
    polling.poll_once(configure(tmp_path, bus, "liar", {"publisher": {"telemetry_secret": "another secret"}}))
    assert not any(message["verified"] for message in reader.until("liar", bool))


def test_stopped_instances_tell_what_they_have(bus, reader, tmp_path):
    polling.poll_once(configure(tmp_path, bus, "stopped", {"compute": {"report_stopped_instance_metrics": "true"}}))
    project = "project-instance-00000003"

    def enough(found):
        names = {sample["counter_name"] for sample in found if sample["project_id"] == project}
        return {"power.state", "vcpus", "memory", "disk.device.capacity", "disk.device.usage"} <= names

    found = by_meter_and_resource(reader.until("stopped", enough))
    told = {name: sample for (name, _), sample in found.items() if sample["project_id"] == project}
    assert (told["power.state"]["counter_volume"], told["memory"]["counter_volume"]) == (5, 2048.0)
    assert "cpu" not in told and "network.incoming.bytes" not in told


def test_one_round_that_polls_nothing_is_an_error(bus, tmp_path):
    ended = polling.polled(configure(tmp_path, bus, "no-libvirt", {"DEFAULT": {"libvirt_uri": f"test://{tmp_path}/nothing.xml"}}))
    assert ended.returncode == 1, ended.stdout
    assert "gnudi: --once: resources could not be discovered, and were not polled: local_instances (" in ended.stdout, ended.stdout
    # Polled, but not published.
    nowhere = {"DEFAULT": {"transport_url": f"rabbit://127.0.0.1:{free_port()}/"}, "polling": {"publish_timeout": 1}}
    conf = configure(tmp_path, bus, "no-broker", nowhere)
    conf.with_name("polling.yaml").write_text("sources: [{name: a, interval: 600, meters: [power.state, vcpus]}]")
    ended = polling.polled(conf)
    assert ended.returncode == 1 and "gnudi: --once: no pollster published samples; failed: 1 (" in ended.stdout, ended.stdout
    # A meter of another namespace.
    conf.with_name("polling.yaml").write_text("sources: [{name: a, interval: 600, meters: [image.size]}]")
    ended = polling.polled(conf)
    assert ended.returncode == 1 and "gnudi: --once: no source has a meter that can be polled here (" in ended.stdout, ended.stdout


def test_one_round_without_instances_says_so(bus, tmp_path):
    uri = polling.libvirt(tmp_path, [stranger(1)])
    ended = polling.polled(polling.configure(tmp_path, bus, "no-instances", [source()], {"DEFAULT": {"libvirt_uri": uri}}))
    assert ended.returncode == 0 and "--once: no samples were published" in ended.stdout, ended.stdout


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
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        env={**os.environ, "NO_COLOR": "1"})
    assert ended.returncode != 0
    assert f"{tmp_path}/polling.yaml: " in ended.stdout and place in ended.stdout, ended.stdout
