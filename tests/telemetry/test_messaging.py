"""Notifications of the real oslo_messaging, over a real RabbitMQ, into a gnudi server."""

import functools

from support.certificates import Certificates
from support.process import wait_until
from support.rabbitmq import Rabbitmq
from telemetry.agents import QUEUE, notify, polled, sample, stored

TIMEOUT_S = 120


def test_samples_of_both_envelopes_reach_the_store(rabbitmq, gnudi, agent):
    store = gnudi()
    ours = agent(rabbitmq, store=store).start()
    notify(rabbitmq.url(), [polled([sample("00000000-0000-0000-0000-000000000001", volume=5)])], "messagingv2")
    notify(rabbitmq.url(), [polled([sample("00000000-0000-0000-0000-000000000002", volume=6)])], "messaging")
    for number, volume in ((1, 5), (2, 6)):
        resource = f"00000000-0000-0000-0000-00000000000{number}"
        measures = wait_until(lambda name=resource: stored(store.client(), name), TIMEOUT_S, resource)
        assert set(measures.values()) == {volume}
    rabbitmq.wait_empty([QUEUE])
    assert ours.stop() == 0


def test_all_priorities_are_taken(rabbitmq, agent):
    ours = agent(rabbitmq, pipeline="sources: [{name: s, meters: ['*'], sinks: [k]}]\nsinks: [{name: k, publishers: ['test://']}]\n",
                 config="[notification]\npipelines = meter\n").start()
    priorities = ["audit", "debug", "info", "warn", "error", "critical", "sample"]
    notify(rabbitmq.url(), [
        {"exchange": exchange, "publisher_id": "x", "event_type": "nothing.known", "priority": priority, "payload": {}}
        for exchange in ("nova", "ceilometer") for priority in priorities
    ])
    wait_until(lambda: ours.figure("acknowledged") == 14, TIMEOUT_S, "14 notifications")
    rabbitmq.wait_empty([f"notifications.{priority}" for priority in priorities])


def test_a_broker_that_restarts_loses_nothing_durable(rabbitmq, gnudi, agent):
    store = gnudi()
    # Queues of their own: others have declared theirs as not durable.
    options = "[oslo_messaging_rabbit]\namqp_durable_queues = true\n[notification]\nnotification_control_exchanges = durable\n"
    options += "[oslo_messaging_notifications]\ntopics = durable\n"
    resource = "00000000-0000-0000-0000-000000000003"
    ours = agent(rabbitmq, store=store, config=options).start()
    send = functools.partial(notify, rabbitmq.url(), topic="durable", amqp_durable_queues=True)
    send([polled([sample(resource, volume=1)], "durable")])
    wait_until(lambda: len(stored(store.client(), resource)) == 1, TIMEOUT_S, "the first measure")
    rabbitmq.restart()
    wait_until(lambda: ours.figure("connections") >= 2 and ours.figure("connected") == 1, TIMEOUT_S, "a new connection")
    send([polled([sample(resource, volume=2, timestamp="2026-01-01T01:00:00")], "durable")])
    wait_until(lambda: 2 in stored(store.client(), resource).values(), TIMEOUT_S, "the second measure")


def test_tls(tmp_path, shared_dir, agent, gnudi):
    certificates = Certificates(shared_dir / "rabbitmq-certificates")
    for path in certificates.directory.iterdir():
        path.chmod(0o644)
    broker = Rabbitmq(shared_dir / "rabbitmq-tls", certificates)
    try:
        broker.start()
        store = gnudi()
        config = f"[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = {certificates.root}\n"
        ours = agent(broker, store=store, config=config, transport_url=broker.url(tls=True)).start()
        resource = "00000000-0000-0000-0000-000000000004"
        notify(broker.url(), [polled([sample(resource)])])
        wait_until(lambda: stored(store.client(), resource), TIMEOUT_S, "a measure")
        assert ours.stop() == 0
        stranger = agent(broker, store=store, config="[oslo_messaging_rabbit]\nssl = true\n",
                         transport_url=broker.url(tls=True)).start(wait=False)
        wait_until(lambda: "not connected to the broker" in stranger.log_path.read_text(), TIMEOUT_S, "a refusal")
    finally:
        broker.stop()
