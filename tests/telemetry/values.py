"""Random values, samples and events, as agents might send them."""

import string
import uuid

TEXTS = string.ascii_letters + string.digits + " .:-_/'\"\\\n\t{}[]%é日😀"
METERS = ["cpu", "memory.usage", "disk.device.read.bytes", "network.incoming.packets.rate", "image.size"]


def text(rng, characters=TEXTS):
    return "".join(rng.choice(characters) for _ in range(rng.randrange(9)))


def number(rng):
    return rng.choice([
        0, -1, 2**53, 2**63 - 1, -(2**63), rng.randrange(10**6),
        0.0, -0.0, 1.0, 1e16, 1e22, 1.5e-7, 5e-324, 1.7976931348623157e308, rng.random(), rng.uniform(-1e20, 1e20),
    ])


def value(rng, depth=3):
    """JSON of any shape."""
    kind = rng.randrange(8 if depth else 5)
    if kind < 2:
        return text(rng)
    if kind == 2:
        return number(rng)
    if kind == 3:
        return rng.choice([True, False])
    if kind == 4:
        return None
    if kind < 7:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return mapping(rng, depth - 1)


def mapping(rng, depth=3, extra=()):
    names = [*(text(rng) for _ in range(rng.randrange(5))), *extra]
    return {name: value(rng, depth) for name in rng.sample(names, len(names))}


def identifier(rng):
    return str(uuid.UUID(int=rng.getrandbits(128)))


def sample(rng, **fields):
    """The fields of Ceilometer's class, in its order."""
    optional = lambda: rng.choice([None, identifier(rng), text(rng)])  # noqa: E731
    return {
        "name": rng.choice(METERS),
        "type": rng.choice(["gauge", "delta", "cumulative"]),
        "unit": rng.choice(["B", "ns", "", "packet/s"]),
        "volume": rng.choice([number(rng), rng.randrange(1000), str(rng.random()), True]),
        "user_id": optional(),
        "project_id": optional(),
        "resource_id": rng.choice([identifier(rng), text(rng), f"{identifier(rng)}-vda"]),
        "timestamp": f"2026-01-{rng.randrange(1, 28):02}T03:04:{rng.randrange(60):02}" + rng.choice(["", ".000120", "+00:00"]),
        "resource_metadata": mapping(rng),
        "source": rng.choice(["openstack", "hardware"]),
        "id": identifier(rng),
        "monotonic_time": rng.choice([None, rng.uniform(0, 1e6)]),
        "user_name": optional(),
        "project_name": optional(),
        **fields,
    }


def event(rng):
    def trait():
        number = rng.randrange(5)
        given = {
            0: text(rng), 1: text(rng), 2: rng.randrange(-(2**40), 2**40), 3: rng.uniform(-1e9, 1e20), 4: rng.randrange(4 * 10**15),
        }[number]
        if number == 4 and rng.random() < 0.3:
            given -= given % 60_000_000
        return [text(rng), number, given]

    return {
        "message_id": identifier(rng),
        "event_type": rng.choice(["compute.instance.update", "volume.create.end", text(rng)]),
        "generated_us": rng.randrange(4 * 10**15),
        "traits": [trait() for _ in range(rng.randrange(4))],
        "raw": mapping(rng, extra=["payload"] if rng.random() < 0.5 else []),
    }
