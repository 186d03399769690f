"""Messages of Prometheus' remote write, built byte by byte, so that they can be invalid."""

import struct


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def label(name, value):
    return field(1, field(1, name.encode()) + field(2, value if isinstance(value, bytes) else value.encode()))


def sample(value, time_ms):
    return field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(time_ms & (1 << 64) - 1))


def series(*parts):
    return field(1, b"".join(parts))


def snappy(data):
    """Snappy's block format with nothing but literals."""
    pieces = [varint(len(data))]
    for start in range(0, len(data), 60):
        piece = data[start:start + 60]
        pieces += [bytes([len(piece) - 1 << 2]), piece]
    return b"".join(pieces)
