"""The signature of messages, compared with Ceilometer's own functions."""

import json
import random

from telemetry import values

ROUNDS = 300


def test_messages_are_signed_as_by_ceilometer(ours, theirs, seed, rounds):
    rng = random.Random(seed)
    for _ in range(rounds):
        message = values.mapping(rng, extra=["message_signature"] if rng.random() < 0.3 else [])
        line = {"sign": message, "secret": values.text(rng, "abc é'")}
        assert ours.ask(line) == theirs.ask(line), line


def test_ceilometer_accepts_our_samples(ours, theirs, seed, rounds):
    rng = random.Random(seed)
    for _ in range(max(1, rounds // 10)):
        samples = [values.sample(rng) for _ in range(rng.randrange(1, 20))]
        secret = values.text(rng, "abc é'") or "s"
        payload = json.loads(ours.ask({"payload": samples, "secret": secret}))
        expected = theirs.ask({"messages": samples, "secret": secret})
        assert [list(message) for message in payload["samples"]] == [list(message) for message in expected]
        assert payload == {"samples": expected}
        assert all(theirs.ask({"verify": payload["samples"], "secret": secret}))
        # A value that somebody has changed is noticed, or this test proves nothing.
        payload["samples"][0]["counter_volume"] = "changed"
        assert not theirs.ask({"verify": payload["samples"], "secret": secret})[0]


def test_without_a_secret_nothing_is_signed(ours):
    payload = json.loads(ours.ask({"payload": [values.sample(random.Random(0))], "secret": ""}))
    assert payload["samples"][0]["message_signature"] == ""
