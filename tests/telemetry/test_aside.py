"""Messages that the agent cannot publish are kept in a queue of the broker, with the reason, within the configured limits. `gnudi agent
aside` lists, shows, replays and drops them. A kill -9 of the process that moves messages loses none."""

import json
import random
import subprocess
import time
import uuid

import pytest

from support.gnudi import binary
from support.process import Process, free_port, wait_until
from telemetry.agents import QUEUE, notify, polled, raw_bus, sample
from telemetry.receivers import Requests

TIMEOUT_S = 60
ASIDE = "gnudi.aside"
QUICK = "[notification]\ntries_max = 1\n"
POLLS = "sources: [{name: s, meters: ['*'], sinks: [k]}]\nsinks: [{name: k, publishers: ['http://127.0.0.1:%s/?max_retries=0']}]\n"


def command(agent, *words):
    return [binary(), "agent", "aside", *words, "--config-file", str(agent.config_path)]


def aside(agent, *words, rc=0):
    done = subprocess.run(command(agent, *words), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == rc, (words, done.stdout, done.stderr)
    return done.stdout if rc == 0 else done.stderr


def listed(agent, *words):
    return json.loads(aside(agent, "list", "-f", "json", *words))


def waiting(broker, count):
    wait_until(lambda: broker.depths().get(ASIDE, 0) == count, TIMEOUT_S, f"{count} messages set aside")


def set_asides(agent):
    return agent.log().count("a message is set aside")


@pytest.fixture
def queue(rabbitmq):
    """Empty before and after."""
    yield rabbitmq
    rabbitmq.forget()


def test_it_lies_at_a_broker_that_is_consumed_from(queue, agent):
    """Nobody listens where `transport_url` leads."""
    ours = agent(queue, config=f"{QUICK}messaging_urls = {queue.url()}\n", transport_url=f"rabbit://127.0.0.1:{free_port()}/").start()
    raw_bus(queue, [(QUEUE, b"\xffnothing")])
    waiting(queue, 1)
    assert [one["reason"] for one in listed(ours)] == ["not UTF-8"]


def test_what_was_set_aside_is_looked_at_replayed_and_dropped(queue, agent):
    sink = Requests().start()
    ours = agent(queue, config=QUICK, pipeline=POLLS % sink.port).start()
    assert listed(ours) == [] and aside(ours, "drop", "--all") == "0 dropped\n"
    sink.statuses = [400] * 3
    for number in range(3):
        notify(queue.url(), [polled([sample(f"r{number}")])])
        waiting(queue, number + 1)
    raw_bus(queue, [(QUEUE, b"\xffnothing")])
    waiting(queue, 4)
    # The broker has the last one a moment before the agent knows.
    wait_until(lambda: ours.figure("aside") == ours.figure("set_aside") == 4, TIMEOUT_S, "the figures")
    assert ours.figure("undecodable") == 1
    # Looking changes nothing, however often.
    for _ in range(25):
        rows = listed(ours)
    assert [row["event_type"] for row in rows] == ["telemetry.polling"] * 3 + [""]
    assert all("400" in row["reason"] for row in rows[:3]) and rows[3]["reason"] == "not UTF-8"
    assert {row["queue"] for row in rows} == {QUEUE} and {row["tries"] for row in rows} == {"1"}
    assert len({row["id"] for row in rows}) == 4 and all(row["time"].startswith("20") for row in rows)
    assert listed(ours, "--reason", "UTF") == rows[3:] and listed(ours, "--queue", "other") == []
    shown = json.loads(aside(ours, "show", rows[1]["id"], "-f", "json"))
    assert json.loads(shown.pop("message"))["payload"]["samples"][0]["resource_id"] == "r1" and shown == rows[1]
    for words in (["show", "nobody"], ["drop", "nobody"], ["replay", rows[0]["id"], "nobody"]):
        assert "nobody" in aside(ours, *words, rc=1)
    waiting(queue, 3)
    # What was replayed comes before the next refusals.
    wait_until(lambda: [status for status, *_ in sink.seen] == [400] * 3 + [202], TIMEOUT_S, "the first sample")
    # Nothing is chosen by nothing.
    assert "required" in aside(ours, "drop", rc=2)
    assert aside(ours, "drop", "--reason", "UTF") == "1 dropped\n"
    # What is refused again is set aside again, under its name, and replayed once by each call.
    sink.statuses = [400] * 2
    assert aside(ours, "replay", "--all") == "2 replayed\n"
    wait_until(lambda: ours.figure("set_aside") == 6, TIMEOUT_S, "both again")
    assert sorted(row["id"] for row in listed(ours)) == sorted(row["id"] for row in rows[1:3])
    sink.take()
    assert aside(ours, "replay", rows[2]["id"]) == "1 replayed\n"
    wait_until(lambda: sink.seen, TIMEOUT_S, "the sample")
    assert aside(ours, "replay", "--queue", QUEUE) == "1 replayed\n"
    wait_until(lambda: len(sink.seen) == 2, TIMEOUT_S, "the samples")
    assert [(status, json.loads(body)[0]["resource_id"]) for status, _, _, body in sink.take()] == [(202, "r2"), (202, "r1")]
    waiting(queue, 0)
    # Whose queue is gone stays.
    raw_bus(queue, [(ASIDE, b"{}", {"headers": {"queue": "gone", "reason": "x"}}), (ASIDE, b"{}")])
    failed = aside(ours, "replay", "--all", rc=1)
    assert "there is no queue gone" in failed and "do not name its original queue" in failed
    assert len(listed(ours)) == 2
    assert ours.stop() == 0


def test_the_queue_has_a_length_and_an_age(queue, agent):
    config = QUICK + "aside_length_max = 5\n"
    ours = agent(queue, config=config).start()
    bodies = [b"\xff" + str(number).encode() for number in range(30)]
    # The older half is there before the other comes: the agent sets aside several at a time.
    raw_bus(queue, [(QUEUE, body) for body in bodies[:15]])
    wait_until(lambda: ours.figure("set_aside") == 15, TIMEOUT_S, "the older half")
    raw_bus(queue, [(QUEUE, body) for body in bodies[15:]])
    wait_until(lambda: ours.figure("aside_dropped") == 25 and ours.figure("aside") == 5, TIMEOUT_S, "the newest alone")
    assert "the oldest is dropped" in ours.log()
    kept = [body for body, _ in raw_bus(queue, drain=[ASIDE])[ASIDE]]
    assert len(kept) == 5 and set(kept) <= set(bodies[15:])
    assert ours.stop() == 0
    young = agent(queue, config=config + "aside_age_max = 1\n").start()
    raw_bus(queue, [(QUEUE, b"\xff")])
    wait_until(lambda: young.figure("set_aside") == 1, TIMEOUT_S, "the message")
    waiting(queue, 0)
    assert young.stop() == 0


def test_a_quorum_queue_keeps_what_is_looked_at(rabbitmq, agent):
    """Each look counts as a delivery, of which RabbitMQ 4 allows 20 where nobody says otherwise."""
    ours = agent(rabbitmq, config=f"{QUICK}aside_queue = quorum.aside\nnotification_control_exchanges = quorum\n"
                 "[oslo_messaging_notifications]\ntopics = quorum\n[oslo_messaging_rabbit]\nrabbit_quorum_queue = true\n").start()
    raw_bus(rabbitmq, [("quorum.sample", b"\xff")])
    wait_until(lambda: ours.figure("aside") == 1, TIMEOUT_S, "the message")
    assert rabbitmq.kinds()["quorum.aside"] == ("quorum", True)
    rows = [listed(ours) for _ in range(25)]
    assert len(rows[0]) == 1 and rows == rows[:1] * 25
    assert aside(ours, "drop", rows[0][0]["id"]) == "1 dropped\n"
    assert ours.stop() == 0


def test_an_event_that_the_store_refuses_is_set_aside(queue, gnudi, agent):
    store = gnudi()
    ours = agent(queue, store=store, config=QUICK).start()
    instance = lambda name: {"exchange": "nova", "publisher_id": "n", "event_type": "compute.instance.create.end", "priority": "info",
                             "payload": {"instance_id": str(uuid.UUID(int=7)), "display_name": name, "host": name, "flavor_id": "1"}}
    notify(queue.url(), [instance("h" * 300)])
    waiting(queue, 1)
    (row,) = listed(ours)
    assert row["event_type"] == "compute.instance.create.end" and "was not created" in row["reason"], row
    assert row["queue"] == "notifications.info"
    assert ours.stop() == 0


def killed_at_work(broker, source, target, bodies, fill, kill):
    """Kills four times what moves these messages from a queue to another, each time before all is moved: on a busy machine a kill may
    come too late, and all begins anew. `kill` is told how many have been moved before."""
    fill()
    at_work = moved = 0
    for _ in range(20):
        kill(moved)
        depths = broker.depths()
        moved = depths.get(target, 0)
        if depths.get(source, 0):
            at_work += 1
            if at_work == 4:
                return
        else:
            assert {body for body, _ in raw_bus(broker, drain=[target])[target]} == bodies
            moved = 0
            fill()
    raise AssertionError("all is done before the kills")


def test_kills_lose_nothing(rabbitmq, agent, tmp_path, seed):
    """The agent, the broker and a replay are killed at random instants."""
    random.seed(seed)
    queue, aside_queue = "killed.sample", "killed.aside"
    depth = lambda name: rabbitmq.depths().get(name, 0)
    ours = agent(rabbitmq, config=f"{QUICK}aside_queue = {aside_queue}\nnotification_control_exchanges = killed\n"
                 "[oslo_messaging_notifications]\ntopics = killed\n[oslo_messaging_rabbit]\namqp_durable_queues = true\n")
    ours.start().stop()
    bodies = {b"\xff" + str(number).encode() for number in range(2000)}

    def kill_agent(_):
        seen = set_asides(ours)
        ours.start(wait=False)
        # The log is looked at more often than the broker tells anything.
        while set_asides(ours) == seen:
            assert ours.process.running()
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.05))
        ours.kill()

    killed_at_work(rabbitmq, queue, aside_queue, bodies, lambda: raw_bus(rabbitmq, [(queue, body) for body in bodies]), kill_agent)
    rabbitmq.kill()
    rabbitmq.start()
    ours.start()
    rabbitmq.wait_empty([queue])
    assert ours.stop() == 0
    set_aside = [body for body, _ in raw_bus(rabbitmq, drain=[aside_queue])[aside_queue]]
    assert set(set_aside) == bodies
    # All of it back, over several replays of which most die.
    asides = [(aside_queue, body, {"headers": {"queue": queue, "reason": "x"}}) for body in bodies]

    def kill_replay(moved):
        replay = Process(command(ours, "replay", "--all"), tmp_path / "replay")
        wait_until(lambda: depth(queue) > moved, TIMEOUT_S, "some")
        replay.kill()

    killed_at_work(rabbitmq, aside_queue, queue, bodies, lambda: raw_bus(rabbitmq, asides), kill_replay)
    wait_until(lambda: depth(queue) + depth(aside_queue) >= len(bodies), TIMEOUT_S, "what was held")
    aside(ours, "replay", "--all")
    found = raw_bus(rabbitmq, drain=[queue, aside_queue])
    assert {body for body, _ in found[queue]} == bodies and not found[aside_queue]
    print(f"{len(set_aside) - len(bodies)} set aside twice, {len(found[queue]) - len(bodies)} replayed twice")
