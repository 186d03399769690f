"""Notifications of the real oslo_messaging, over a real RabbitMQ, into a gnudi server."""

import functools
import re
import socket
import zlib

from support.process import free_port, wait_until
from telemetry.agents import QUEUE, bare, envelope, notify, polled, raw_bus, sample, stored

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
    ours = agent(rabbitmq, config="[notification]\npipelines = meter\n").start()
    priorities = ["audit", "debug", "info", "warn", "error", "critical", "sample"]
    notify(rabbitmq.url(), [
        {"exchange": exchange, "publisher_id": "x", "event_type": "nothing.known", "priority": priority, "payload": {}}
        for exchange in ("nova", "ceilometer") for priority in priorities
    ])
    wait_until(lambda: ours.figure("acknowledged") == 14, TIMEOUT_S, "14 notifications")
    rabbitmq.wait_empty([f"notifications.{priority}" for priority in priorities])


#: Kinds of queues that outlive a restart of the broker: our options, those of the real oslo_messaging, and RabbitMQ's words.
LASTING = {
    "durable": ("amqp_durable_queues = true", {"amqp_durable_queues": True}, ("classic", True)),
    "quorum": ("rabbit_quorum_queue = true", {"rabbit_quorum_queue": True}, ("quorum", True)),
}


def test_a_broker_that_restarts_loses_nothing_lasting(rabbitmq, gnudi, agent):
    """Two agents, one with queues of each kind; a message waits in the broker while it restarts."""
    store = gnudi()
    client = store.client()
    agents, resources, sends = {}, {}, {}
    for number, (kind, (ours, theirs, described)) in enumerate(LASTING.items()):
        # Queues of their own: others have declared theirs as not durable.
        options = f"[oslo_messaging_rabbit]\n{ours}\n[notification]\nnotification_control_exchanges = {kind}\n"
        options += f"aside_queue = {kind}.aside\n[oslo_messaging_notifications]\ntopics = {kind}\n"
        resources[kind] = f"00000000-0000-0000-0000-0000000003{number:02}"
        agents[kind] = agent(rabbitmq, store=store, config=options).start()
        assert rabbitmq.kinds()[f"{kind}.sample"] == described
        sends[kind] = functools.partial(notify, rabbitmq.url(), topic=kind, **theirs)
        sends[kind]([polled([sample(resources[kind], volume=1)], kind)])
        wait_until(lambda kind=kind: len(stored(client, resources[kind])) == 1, TIMEOUT_S, "the first measure")
        assert "exists with other properties" not in agents[kind].log()
        assert agents[kind].stop() == 0
        # One that nobody can use lies in a queue that lasts, too.
        raw_bus(rabbitmq, [(f"{kind}.sample", envelope(bare([], event_type=None)))])
        sends[kind]([polled([sample(resources[kind], volume=2, timestamp="2026-01-01T01:00:00")], kind)])
    agents["durable"].start()
    wait_until(lambda: rabbitmq.depths().get("durable.aside", 0) == 1, TIMEOUT_S, "a message set aside")
    rabbitmq.restart()
    assert rabbitmq.depths()["durable.aside"] == 1
    agents["quorum"].start()
    ours = agents["durable"]
    wait_until(lambda: ours.figure("connections") >= 2 and ours.figure("connected") == 1, TIMEOUT_S, "a new connection")
    for kind in LASTING:
        sends[kind]([polled([sample(resources[kind], volume=3, timestamp="2026-01-01T02:00:00")], kind)])
        wait_until(lambda kind=kind: sorted(stored(client, resources[kind]).values()) == [1, 2, 3], TIMEOUT_S, kind)
    rabbitmq.wait_empty([f"{kind}.sample" for kind in LASTING])
    wait_until(lambda: rabbitmq.kinds().get("quorum.aside") == ("quorum", True), TIMEOUT_S, "a message set aside")
    for process in agents.values():
        assert process.stop() == 0


def test_queues_are_taken_as_they_are(rabbitmq, agent):
    """Who comes second does not insist; the log says how each thing was taken at last."""
    common = "[notification]\nnotification_control_exchanges = {0}\n[oslo_messaging_notifications]\ntopics = {0}\n"
    durable, quorum = (f"[oslo_messaging_rabbit]\n{LASTING[kind][0]}\n" for kind in ("durable", "quorum"))
    lasting, plain = "as one that does not outlive a restart of the broker", "as it is"
    for topic, first, second, taken in [
        ("plain-first", "", durable, lasting), ("plain-first-2", "", quorum, lasting),
        ("durable-first", durable, "", plain), ("quorum-first", quorum, "", plain), ("quorum-first-2", quorum, durable, plain),
    ]:
        config = common.format(topic)
        ones = agent(rabbitmq, config=first + config).start()
        kinds = rabbitmq.kinds()
        others = agent(rabbitmq, config=second + config).start()
        assert rabbitmq.kinds() == kinds
        told = [plain_text(line) for line in others.log().splitlines() if "exists with other properties" in line]
        queues = [line for line in told if "queue" in line and f"{topic}.sample" in line]
        assert len(queues) == 1 and taken in queues[0], (topic, told)
        assert "exists with other properties" not in ones.log()
        notify(rabbitmq.url(), [polled([sample("r")], topic)], topic=topic, **options_of(topic))
        wait_until(lambda pair=(ones, others): sum(one.figure("acknowledged") for one in pair) == 1, TIMEOUT_S, topic)
        ones.stop(), others.stop()


def options_of(topic):
    """As whoever came first has them: the real oslo_messaging insists."""
    return LASTING[topic.split("-")[0]][1] if topic.split("-")[0] in LASTING else {}


def plain_text(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def test_a_pool_gets_copies(rabbitmq, agent):
    """Agents of a pool share copies of what others take."""
    first = agent(rabbitmq).start()
    pool = [agent(rabbitmq, config="[notification]\npool = shadow\n").start() for _ in range(2)]
    before = first.figure("acknowledged")
    notify(rabbitmq.url(), [polled([sample("r")]) for _ in range(20)])
    rabbitmq.wait_empty([QUEUE, "shadow"])
    wait_until(lambda: first.figure("acknowledged") == before + 20, TIMEOUT_S, "20 notifications")
    shares = [one.figure("acknowledged") for one in pool]
    assert sum(shares) == 20 and all(shares), shares
    # Who is gone misses nothing.
    for one in pool:
        one.stop()
    notify(rabbitmq.url(), [polled([sample("r")])])
    pool[0].start()
    wait_until(lambda: pool[0].figure("acknowledged") == 1, TIMEOUT_S, "what came meanwhile")
    # It is not left for the next test.
    wait_until(lambda: first.figure("acknowledged") == before + 21, TIMEOUT_S, "what came meanwhile")
    assert first.stop() == 0


def test_a_host_that_is_dead_is_passed_by(rabbitmq, gnudi, agent):
    """By who consumes, and by who sets aside."""
    store = gnudi()
    url = f"rabbit://guest:guest@127.0.0.1:{free_port()},guest:guest@127.0.0.1:{rabbitmq.port}/"
    ours = agent(rabbitmq, store=store, transport_url=url).start()
    resource = "00000000-0000-0000-0000-000000000005"
    raw_bus(rabbitmq, [(QUEUE, envelope(bare([], event_type=None)))])
    notify(rabbitmq.url(), [polled([sample(resource, volume=7)])])
    wait_until(lambda: set(stored(store.client(), resource).values()) == {7}, TIMEOUT_S, "a measure")
    wait_until(lambda: ours.figure("set_aside") == 1, TIMEOUT_S, "a message set aside")
    assert "guest:guest" not in ours.log()
    assert ours.stop() == 0


def test_a_host_that_says_nothing_is_passed_by(rabbitmq, agent):
    """It accepts connections, as a hung broker's kernel does, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"rabbit://guest:guest@127.0.0.1:{silent.getsockname()[1]},guest:guest@127.0.0.1:{rabbitmq.port}/"
        ours = agent(rabbitmq, transport_url=hosts).start()
        notify(rabbitmq.url(), [polled([sample("silent")])])
        wait_until(lambda: ours.figure("acknowledged") == 1, TIMEOUT_S, ours.log()[-2000:])
        assert silent.accept()
    assert ours.stop() == 0


def test_tls(rabbitmq, agent, gnudi):
    store = gnudi()
    config = f"[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = {rabbitmq.certificates.root}\n"
    ours = agent(rabbitmq, store=store, config=config, transport_url=rabbitmq.url(tls=True)).start()
    resource = "00000000-0000-0000-0000-000000000004"
    notify(rabbitmq.url(), [polled([sample(resource)])])
    wait_until(lambda: stored(store.client(), resource), TIMEOUT_S, "a measure")
    assert ours.stop() == 0
    stranger = agent(rabbitmq, store=store, config="[oslo_messaging_rabbit]\nssl = true\n",
                     transport_url=rabbitmq.url(tls=True)).start(wait=False)
    wait_until(lambda: "not connected to the broker" in stranger.log_path.read_text(), TIMEOUT_S, "a refusal")


def test_compressed_messages_are_read(rabbitmq, gnudi, agent):
    """As kombu compresses them; what would fill the memory is set aside."""
    store = gnudi()
    ours = agent(rabbitmq, store=store).start()
    resources = {how: f"00000000-0000-0000-0000-00000000070{number}" for number, how in enumerate(["gzip", "bzip2", "lzma"])}
    for how, resource in resources.items():
        notify(rabbitmq.url(), [polled([sample(resource, volume=7)])], kombu_compression=how)
    raw_bus(rabbitmq, [(QUEUE, zlib.compress(b" " * (17 << 20)))])
    for how in ("gzip", "bzip2"):
        wait_until(lambda name=resources[how]: set(stored(store.client(), name).values()) == {7}, TIMEOUT_S, how)
    wait_until(lambda: ours.figure("set_aside") == 2, TIMEOUT_S, "what is not understood")
    rabbitmq.wait_empty([QUEUE])
    reasons = [headers["reason"] for _, headers in raw_bus(rabbitmq, drain=["gnudi.aside"])["gnudi.aside"]]
    # Behind what other tests have left there, in the order in which they were done.
    for said in ("which is not understood", "compressed, and more than"):
        assert [said in reason for reason in reasons[-2:]].count(True) == 1, reasons
    assert ours.stop() == 0
