"""From libvirt to the store with mixed agents: Ceilometer's polling agent and gnudi's notification agent, gnudi's polling agent and
Ceilometer's notification agent, and both of gnudi's within one server."""

import json

import pytest

from support import cloud_venv
from support.process import Process, wait_until
from telemetry import polling
from telemetry.polling import domain, instance_id, samples, source

TIMEOUT_S = 120
DOMAINS = [domain(1), domain(2)]
INSTANCES = [instance_id(1), instance_id(2)]
#: Meters that gnocchi_resources.yaml does not know, neither ours nor Ceilometer's.
UNDEFINED = {"network.incoming.bytes.delta", "network.outgoing.bytes.delta"}

FILE = """sources: [{{name: all, meters: ['*'], sinks: [file]}}]
sinks: [{{name: file, publishers: ['file://{path}?json']}}]
"""


@pytest.fixture
def agents():
    """Processes that end with their test."""
    started = []
    yield started
    for process in started:
        process.kill()


def configure(directory, broker, topic, *options, interval=600):
    uri = polling.libvirt(directory, DOMAINS)
    return polling.configure(directory / topic, broker, topic, [source(interval=interval)],
                             {"DEFAULT": {"libvirt_uri": uri}}, *options)


def kept(client):
    """{(meter, resource): metric} of all resources of instances."""
    found = {}
    for kind in ("instance", "instance_disk", "instance_network_interface"):
        answer = client.get(f"/v1/resource/{kind}?limit=1000")
        # Types come with the agent.
        for resource in answer.json() if answer.status == 200 else []:
            found.update({(meter, resource["original_resource_id"]): metric for meter, metric in resource["metrics"].items()})
    return found


def wanted(polled):
    """{(meter, resource as the store calls it): volume}"""
    return {(one["counter_name"], one["resource_id"].replace("/", "_")): one["counter_volume"]
            for one in polled if one["counter_name"] not in UNDEFINED}


def measures(client, metric):
    """The greatest of each time."""
    path = f"/v1/metric/{metric}/measures?refresh=true&aggregation=max"
    answer = client.get(path)
    if answer.status == 404:
        # The policies of rates keep none but these.
        answer = client.get(path.replace("max", "mean"))
    return answer.expect(200).json()


def has_measure(client, metric, volume):
    return any(abs(value - volume) <= abs(volume) * 1e-9 for _, _, value in measures(client, metric))


def assert_kept(client, polled):
    """Each sample is a measure of its metric, of the right resource."""
    expected = wanted(polled)
    try:
        wait_until(lambda: expected.keys() <= kept(client).keys(), TIMEOUT_S, "all metrics")
    except TimeoutError as error:
        raise AssertionError(f"{error}: not {sorted(expected.keys() - kept(client).keys())}") from None
    metrics = kept(client)
    for key, volume in expected.items():
        # A metric is there before its measures.
        try:
            wait_until(lambda metric=metrics[key], volume=volume: has_measure(client, metric, volume), TIMEOUT_S, str(key))
        except TimeoutError as error:
            raise AssertionError(f"{error}: {volume} is not in {measures(client, metrics[key])}") from None
    for number, instance in enumerate(INSTANCES, 1):
        resource = client.get(f"/v1/resource/instance/{instance}").expect(200).json()
        assert resource["project_id"] == f"project-instance-{number:08}"
        assert resource["display_name"] == f"web & instance-{number:08} é"
        assert (resource["host"], resource["flavor_name"], resource["ended_at"]) == ("cmp1", "m1.small", None)


def test_ceilometers_polling_comes_to_the_store(bus, reader, gnudi, agent, agents, tmp_path):
    topic = "chain-theirs"
    agents.append(polling.theirs(configure(tmp_path, bus, topic), tmp_path / "ceilometer.log"))
    store = gnudi()
    ours = agent(bus, store=store,
                 config=f"[oslo_messaging_notifications]\ntopics = {topic}\n[publisher]\ntelemetry_secret = {polling.SECRET}\n")
    ours.start()
    reader.until(topic, lambda got: {one["counter_name"] for one in got} >= {"cpu", "power.state", "disk.root.size"})
    polled = samples(reader.silent(topic, 1.5))
    wait_until(lambda: ours.figure("samples") >= len(polled), TIMEOUT_S, f"{len(polled)} samples taken")
    assert_kept(store.client(), polled)
    assert ours.figure("undecodable") == ours.figure("malformed") == ours.figure("set_aside") == 0
    assert ours.stop() == 0


def test_our_polling_comes_through_ceilometers_notification_agent(bus, reader, agents, tmp_path):
    topic = "chain-ours"
    conf = configure(tmp_path, bus, topic, {"notification": {"pipelines": "meter", "workers": 1},
                                            "DEFAULT": {"pipeline_cfg_file": tmp_path / "pipeline.yaml"}})
    path = tmp_path / "published"
    (tmp_path / "pipeline.yaml").write_text(FILE.format(path=path))
    command = [cloud_venv.program("ceilometer-agent-notification"), "--config-file", conf]
    agents.append(Process(command, tmp_path / "notification.log"))
    # What comes before it listens waits in the queue, which the polling agent makes as oslo.messaging does.
    polling.poll_once(conf)
    messages = reader.published(topic)
    polled = {one["message_id"]: one for one in samples(messages)}
    assert {one["resource_id"] for one in polled.values()} >= {*INSTANCES}
    assert all(message["verified"] and not message["verified_altered"] for message in messages)

    def published():
        # The last may be incomplete still.
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return len(lines) >= len(polled) and [json.loads(line) for line in lines]

    try:
        lines = wait_until(published, TIMEOUT_S, "samples in the file")
    except TimeoutError as error:
        raise AssertionError(f"{error}\n{agents[0].log()[-4000:]}") from None
    assert {line["id"] for line in lines} == polled.keys() and len(lines) == len(polled)
    names = {"name": "counter_name", "type": "counter_type", "unit": "counter_unit", "volume": "counter_volume"}
    for line in lines:
        sample = polled[line["id"]]
        for field in line.keys() - {"id", "monotonic_time"}:
            assert line[field] == sample[names.get(field, field)], (line, field)
        assert line["monotonic_time"] is None, "no notification agent passes it on"


def test_one_process_polls_takes_and_keeps(bus, reader, gnudi, tmp_path):
    topic = "chain-one"
    options = {"polling": {"jitter": 0.01}, "DEFAULT": {"polling_namespaces": "compute"}}
    conf = configure(tmp_path, bus, topic, options, interval=2)
    server = gnudi(arguments=["--with", "notification,polling", "--ceilometer-config-file", conf])
    reader.until(topic, lambda got: len({one["timestamp"] for one in got if one["counter_name"] == "cpu"}) >= 2)
    polled = samples(reader.messages(topic))
    # Of several rounds in one bucket the greatest counts, and what moves has moved on.
    still = [one for one in polled if not one["counter_name"].startswith("network.")]
    assert_kept(server.client(), still)

    def counted():
        """The figures, once all that was published is counted."""
        text = server.client().get("/metrics").expect(200).body.decode()
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("gnudi_") and "{" not in line)
        return float(figures["gnudi_polling_samples_total"]) >= len(still) and figures

    figures = wait_until(counted, TIMEOUT_S, "samples in the figures")
    assert float(figures["gnudi_polling_rounds_total"]) >= 1
    assert float(figures["gnudi_polling_failures_total"]) == float(figures["gnudi_polling_discovery_failures_total"]) == 0
    assert float(figures["gnudi_notification_samples_total"]) > 0
    assert float(figures["gnudi_notification_acknowledged_total"]) > 0
    assert float(figures["gnudi_notification_set_aside_total"]) == 0
    assert server.stop() == 0
