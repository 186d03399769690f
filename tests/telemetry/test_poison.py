"""Invalid messages: each is counted and set aside; the other messages are stored, and the agent goes on."""

import json
import uuid
import zlib

import pytest

from support.process import wait_until
from telemetry.agents import QUEUE, bare, envelope, measures_taken, notify, polled, raw_bus, sample, stored

TIMEOUT_S = 60
ASIDE = "gnudi.aside"
#: Two tries, of which a message that causes no panic needs one.
QUICK = "[notification]\ntries_max = 2\n"


def resource_id(number):
    return str(uuid.UUID(int=number))


def good(number):
    return sample(resource_id(number), volume=number)


def changed(number, **fields):
    """A sample with other fields; None takes one away."""
    return {key: value for key, value in {**good(number), **fields}.items() if value is not None}


#: Messages that can be read and make no sense, with a part of the reason.
MALFORMED = {
    "no event type": (bare([good(1)], event_type=None), "event_type is missing"),
    "no priority": (bare([good(1)], priority=None), "priority is missing"),
    "no payload": ({key: value for key, value in bare([]).items() if key != "payload"}, "payload is missing"),
    "an event type that is a number": (bare([good(1)], event_type=5), "a text"),
    "a priority that is a list": (bare([good(1)], priority=["sample"]), "a text"),
    "a payload that is a text": (bare([], payload="x"), "invalid type"),
    "samples that are a number": (bare([], payload={"samples": 7}), "invalid type"),
    "samples that are nothing": (bare([], payload={"samples": None}), "invalid type"),
    "a long event type": (bare([good(1)], event_type="x" * 5000), "event_type has more than"),
    "a message that is a list": ([1, 2], "a notification"),
    "a message that is a number": (7, "a notification"),
    "too many samples": (bare([], payload={"samples": [1] * 70_000}), "70000 samples"),
}

#: Samples that are none, among others that are.
BAD_SAMPLES = {
    "no name": changed(2, counter_name=None),
    "an empty name": changed(2, counter_name=""),
    "no resource": changed(2, resource_id=None),
    "a resource that is a number": changed(2, resource_id=7),
    "an unknown kind": changed(2, counter_type="sum"),
    "a long text": changed(2, resource_id="x" * 5000),
    "no map at all": 7,
    "a deep list": json.loads("[" * 500 + "]" * 500),
    "an empty one": {},
    "a user that is a map": changed(2, user_id={"a": 1}),
}

#: What the store would not take: found before it is sent.
UNUSABLE = {
    "a timestamp that is none": changed(2, timestamp="never"),
    "no timestamp": changed(2, timestamp=None),
    "a long unit": changed(2, counter_unit="u" * 32),
}

#: What the store does not take.
REFUSED = {"a long id": changed(2, resource_id="x" * 300), "a strange id": changed(2, resource_id="a\u0000b")}

#: Bytes that are no message.
UNDECODABLE = [b"\xff\xfe\x00", b"", b"nothing", b'{"oslo.version": "2.0", "oslo.message": ', b'{"oslo.version": "2.0"}',
               envelope(bare([good(1)]), "3.0"), envelope(bare([good(1)]), "1.9"), b'{"oslo.version": "2.0", "oslo.message": 5}']


@pytest.fixture(autouse=True)
def _emptied(rabbitmq):
    """What a test that fails has left is not the next one's."""
    yield
    rabbitmq.forget()


def aside(broker, count):
    """What was set aside: {the message's bytes: headers}."""
    wait_until(lambda: broker.depths().get(ASIDE, 0) >= count, TIMEOUT_S, f"{count} messages set aside")
    found = raw_bus(broker, drain=[ASIDE])[ASIDE]
    assert len(found) == count, [headers for _, headers in found]
    return dict(found)


def arrived(client, number, timeout_s=TIMEOUT_S):
    wait_until(lambda: set(stored(client, resource_id(number)).values()) == {number}, timeout_s, f"sample {number}")


def test_each_is_counted_and_none_stops_the_others(rabbitmq, gnudi, agent):
    store = gnudi()
    ours = agent(rabbitmq, store=store, config=QUICK).start()
    malformed = {name: envelope(message) for name, (message, _) in MALFORMED.items()}
    with_good = {name: envelope(bare([good(10 + number), one, good(110 + number)]))
                 for number, (name, one) in enumerate({**BAD_SAMPLES, **UNUSABLE, **REFUSED}.items())}
    goods = [envelope(bare([good(200 + number)])) for number in range(20)]
    bodies = [*malformed.values(), *with_good.values(), *UNDECODABLE]
    # Good ones in between, and at the end.
    mixed = [one for pair in zip(bodies, [*goods, *goods * 2]) for one in pair]
    raw_bus(rabbitmq, [(QUEUE, body) for body in [*mixed, *goods]])
    found = aside(rabbitmq, len(malformed) + len(with_good) + len(UNDECODABLE))
    rabbitmq.wait_empty([QUEUE])
    for name, body in malformed.items():
        headers = found[body[:1 << 20]]
        assert MALFORMED[name][1] in headers["reason"] and headers["queue"] == QUEUE and headers["tries"] == "1", (name, headers)
    for body in UNDECODABLE:
        assert found[body]["reason"] and (found[body]["queue"], found[body]["tries"]) == (QUEUE, "1"), body
    for name, body in with_good.items():
        headers = found[body]
        assert headers["reason"] and (headers["queue"], headers["tries"]) == (QUEUE, "1"), (name, headers)
    client = store.client()
    numbers = [*(offset + number for number in range(len(with_good)) for offset in (10, 110)), *range(200, 220)]
    for number in numbers:
        arrived(client, number)
    assert not stored(client, resource_id(1)) and not stored(client, resource_id(2))
    # A message is counted in flight until its acknowledgement is under way.
    wait_until(lambda: ours.figure("in_flight") == 0, TIMEOUT_S, "the end of the last message")
    figures = {name: ours.figure(name) for name in ("malformed", "undecodable", "bad_samples", "set_aside", "in_flight")}
    assert figures == {"malformed": len(MALFORMED), "undecodable": len(UNDECODABLE), "bad_samples": len(BAD_SAMPLES),
                       "set_aside": len(malformed) + len(with_good) + len(UNDECODABLE), "in_flight": 0}
    assert ours.stop() == 0


def test_numbers_that_json_lacks_are_published(rabbitmq, gnudi, agent):
    """Python's json writes and reads them, so Ceilometer takes them."""
    store = gnudi()
    ours = agent(rabbitmq, store=store, config=QUICK).start()
    numbers = [changed(2, counter_volume=float(text), timestamp=f"2026-01-01T00:0{minute}:00")
               for minute, text in enumerate(["nan", "inf", "-inf"])]
    raw_bus(rabbitmq, [(QUEUE, envelope(bare([good(1), *numbers])))])
    wait_until(lambda: measures_taken(store) == 4, TIMEOUT_S, "the samples")
    rabbitmq.wait_empty([QUEUE])
    assert (ours.figure("bad_samples"), ours.figure("set_aside")) == (0, 0)
    assert ours.stop() == 0


def test_a_change_that_the_store_refuses_is_set_aside(rabbitmq, gnudi, agent):
    """The samples are stored, what could not be changed is not forgotten, and later changes are made."""
    store = gnudi()
    client = store.client()
    ours = agent(rabbitmq, store=store, config=QUICK).start()
    raw_bus(rabbitmq, [(QUEUE, envelope(bare([good(600)])))])
    arrived(client, 600)
    minute = lambda number, name: envelope(bare([changed(600, timestamp=f"2026-01-01T00:0{number}:00",
                                                         resource_metadata={"name": name})]))
    refused = minute(1, "x" * 300)
    raw_bus(rabbitmq, [(QUEUE, refused)])
    headers = aside(rabbitmq, 1)[refused]
    assert "at most 255" in headers["reason"] and headers["queue"] == QUEUE, headers
    raw_bus(rabbitmq, [(QUEUE, minute(2, "new"))])
    shown = lambda: client.get(f"/v1/resource/image/{resource_id(600)}").expect(200).json()["name"]
    wait_until(lambda: shown() == "new", TIMEOUT_S, "the new name")
    wait_until(lambda: measures_taken(store) == 3, TIMEOUT_S, "the samples")
    assert ours.stop() == 0


def test_notifications_that_definitions_cannot_follow(rabbitmq, gnudi, agent):
    """Fields of the wrong type where a definition looks for them."""
    store = gnudi()
    ours = agent(rabbitmq, store=store, config=QUICK).start()
    image = {"exchange": "glance", "publisher_id": "g", "event_type": "image.upload", "priority": "info"}
    notify(rabbitmq.url(), [
        {**image, "payload": payload} for payload in
        [7, None, [], "x", {}, {"id": resource_id(301), "owner": "p", "size": {"a": 1}}, {"id": None, "size": 5},
         {"id": resource_id(302), "owner": "p", "size": 12, "created_at": "never"},
         {"id": resource_id(303), "owner": "p", "size": 303, "name": "n", "container_format": "bare", "disk_format": "raw"}]
    ])
    client = store.client()
    arrived(client, 303)
    rabbitmq.wait_empty(["notifications.info"])
    # A date that is none spoils an event, and no more.
    assert stored(client, resource_id(301)) == {}
    set_aside = rabbitmq.depths().get(ASIDE, 0)
    assert set_aside == ours.figure("set_aside")
    for _, headers in raw_bus(rabbitmq, drain=[ASIDE])[ASIDE] if set_aside else []:
        assert headers["queue"] == "notifications.info" and headers["reason"]
    assert ours.stop() == 0


def test_deep_headers_do_not_end_the_agent(rabbitmq, gnudi, agent):
    """A parser that recurses needs more than the usual stack for them."""
    store = gnudi()
    ours = agent(rabbitmq, store=store, config=QUICK).start()
    raw_bus(rabbitmq, [(QUEUE, envelope(bare([good(700)])), {"nested": 10_000}), (QUEUE, envelope(bare([good(701)])))])
    client = store.client()
    for number in (700, 701):
        arrived(client, number)
    rabbitmq.wait_empty([QUEUE])
    assert ours.stop() == 0


def test_large_messages_leave_memory_bounded(rabbitmq, gnudi, agent):
    """Some that are absurd, and many that are large: neither more than a part of them is in memory, nor is the agent stuck."""
    store = gnudi()
    large = envelope(bare([good(400)]))
    filled = len(large) + (3 << 20)
    absurd = {"filler": 20 << 20, "times": 12}
    many = {"filler": 3 << 20, "times": 40}
    ours = agent(rabbitmq, store=store, config=f"{QUICK}in_flight_bytes_max = {12 << 20}\n").start()
    ours.stop()
    small = [(QUEUE, envelope(bare([good(410 + number)]))) for number in range(50)]
    raw_bus(rabbitmq, [(QUEUE, large, absurd), *small, (QUEUE, large, many), (QUEUE, envelope(bare([good(401)])))])
    assert rabbitmq.depths()[QUEUE] == 12 + 50 + 40 + 1
    ours.start()
    client = store.client()
    # 360 MB, of which a busy machine takes some time.
    arrived(client, 401, 240)
    rabbitmq.wait_empty([QUEUE])
    assert ours.figure("malformed") == ours.figure("set_aside") == 12
    assert ours.figure("pauses") > 0
    most = ours.process.memory_bytes("VmHWM")
    print(f"memory: {most >> 20} MiB, for {(12 * (20 << 20) + 40 * filled) >> 20} MiB of messages")
    assert most < 420 << 20
    assert ours.stop() == 0
    raw_bus(rabbitmq, drain=[ASIDE])


def limited_to(broker, size):
    """Lets new channels publish no message above this size; returns the limit before, as a text."""
    return broker.erlang(f"{{ok, Before}} = application:get_env(rabbit, max_message_size), application:set_env(rabbit, max_message_size, {size}), "
                         f"persistent_term:put(max_message_size, {size}), Before")


def test_a_message_that_the_broker_would_take_no_more_is_set_aside_compressed(rabbitmq, agent):
    ours = agent(rabbitmq, config=QUICK).start()
    ours.stop()
    large = b"\xff" + b" " * 200_000
    raw_bus(rabbitmq, [(QUEUE, large), (QUEUE, b"\xffsmall")])
    before = limited_to(rabbitmq, 100_000)
    try:
        ours.start()
        found = aside(rabbitmq, 2)
    finally:
        limited_to(rabbitmq, before)
    small, compressed = sorted(found, reverse=True)
    assert small == b"\xffsmall" and zlib.decompress(compressed) == large
    rabbitmq.wait_empty([QUEUE])
    assert ours.figure("set_aside") == 2
    assert ours.stop() == 0


@pytest.mark.parametrize("queue", [QUEUE, ASIDE])
def test_a_queue_that_somebody_deletes_is_made_anew(rabbitmq, gnudi, agent, queue):
    store = gnudi()
    client = store.client()
    ours = agent(rabbitmq, store=store, config=QUICK + "[oslo_messaging_rabbit]\nrabbit_retry_interval = 1\n").start()
    poison = envelope(bare([], event_type=None))
    raw_bus(rabbitmq, [(QUEUE, poison)])
    aside(rabbitmq, 1)
    rabbitmq.delete_queue(queue)
    wait_until(lambda: QUEUE in rabbitmq.depths(), TIMEOUT_S, "the queue")
    notify(rabbitmq.url(), [polled([good(500)])])
    raw_bus(rabbitmq, [(QUEUE, poison)])
    aside(rabbitmq, 1)
    arrived(client, 500)
    assert measures_taken(store) == 1
    assert ours.stop() == 0
