"""Random damage in any file of a store: a flipped bit, overwritten bytes, a truncated file. `gnudi verify` finds all damage that matters.
One repair is enough; then the server starts, and no number is wrong."""

import os
import random

import pytest

from backup import filled
from support.damage import used_length

pytestmark = pytest.mark.slow

ROUNDS = 10
KINDS = ["bit", "bits", "zeros", "cut", "noise"]
# A store whose index lacks a checksum for each page: what is changed in it may be found, or not.
INDEX = "indexer.sqlite"
STRETCH_BYTES_MAX = 6000


def damage(path, rng):
    """Answers what was done."""
    kind = rng.choice(KINDS)
    used = max(used_length(path), 1)
    offset = rng.randrange(used)
    if kind == "cut":
        os.truncate(path, offset)
        return f"{path} cut to {offset} of {used}"
    length = {"bit": 1, "bits": 16}.get(kind) or rng.randrange(1, STRETCH_BYTES_MAX)
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(length)
        new = {"bit": bytes([old[0] ^ 1 << rng.randrange(8)]), "bits": bytes(byte ^ 0xFF for byte in old),
               "zeros": bytes(len(old)), "noise": rng.randbytes(len(old))}[kind]
        file.seek(offset)
        file.write(new)
    return f"{path}: {kind}, {len(old)} bytes at {offset} of {used}"


def is_complete(store, counts):
    return all(counts[id] == filled.SECONDS for id in store.metrics)


def test_damage_anywhere(copy, rounds, seed):
    rng = random.Random(seed)
    found = 0
    for round in range(rounds):
        store = copy()
        done = damage(rng.choice(filled.files(store)), rng)
        story = f"round {round}, {done}"
        status, findings, text = filled.verify(store)
        story = f"{story}\n{text}"
        if status == 2:
            # A format of the future is not for this program to repair.
            assert "format version" in text, story
            continue
        repaired, _, text = filled.verify(store, "--repair")
        story = f"{story}\n{text}"
        if repaired != 0 and INDEX in done:
            assert "restore it from a backup" in text or findings, story
            continue
        assert repaired == 0, story
        again, findings_again, text = filled.verify(store)
        assert again == 0 and not findings_again, f"{story}\nafter the repair:\n{text}"
        if INDEX in done:
            continue
        counts = filled.read(store)
        found += status == 1
        if status == 0:
            assert is_complete(store, counts), f"{story}\nnothing was found, but something is lost: {counts}"
        again, findings_again, text = filled.verify(store)
        assert again == 0 and not findings_again, f"{story}\nafter the server:\n{text}"
    print(f"{found} of {rounds} rounds had something to find")


def test_several_damages_at_once(copy, seed):
    rng = random.Random(seed)
    store = copy()
    wounded = [path for path in filled.files(store) if INDEX not in path.name and path.name != "format-version"]
    done = [damage(path, rng) for path in rng.sample(wounded, min(3, len(wounded)))]
    _, _, first = filled.verify(store)
    status, _, text = filled.verify(store, "--repair")
    assert status == 0, (done, first, text)
    status, findings, text = filled.verify(store)
    assert status == 0 and not findings, (done, first, text)
    filled.read(store)
