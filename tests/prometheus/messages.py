"""Messages of remote write 2.0 and of OpenTelemetry, built byte by byte; inputs.remote_write has those of 1.0."""

import struct

from inputs.remote_write import field, label, sample, varint

VERSION_1 = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
VERSION_2 = {**VERSION_1, "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]


def number(at, value):
    return varint(at << 3) + varint(value)


def fixed64(at, value):
    return varint(at << 3 | 1) + struct.pack("<Q", value)


def double(at, value):
    return varint(at << 3 | 1) + struct.pack("<d", value)


def exemplar(value, time_ms, **labels):
    """A part of a series of version 1."""
    body = b"".join(label(name, text) for name, text in labels.items()) + double(2, value) + number(3, time_ms)
    return field(3, body)


def request_2(*all_series):
    """[(labels, samples [(value, ms)], more)] as io.prometheus.write.v2.Request; `more` are further fields of the series."""
    symbols, bodies = [""], b""
    for labels, samples, more in all_series:
        references = b""
        for text in (text for pair in labels for text in pair):
            if text not in symbols:
                symbols.append(text)
            references += varint(symbols.index(text))
        bodies += field(5, field(1, references) + b"".join(sample(*one) for one in samples) + more)
    return b"".join(field(4, symbol.encode()) for symbol in symbols) + bodies


def attribute(key, text):
    return field(1, key.encode()) + field(2, field(1, text.encode()))


def export(resource_attributes, *metrics):
    """An ExportMetricsServiceRequest with one resource and one scope."""
    resource = b"".join(field(1, attribute(*one)) for one in resource_attributes)
    return field(1, field(1, resource) + field(2, b"".join(field(2, metric) for metric in metrics)))


def otlp_metric(name, kind, data, unit=""):
    """`kind` is the number of the field: 5 gauge, 7 sum, 9 histogram, 10 exponential histogram, 11 summary."""
    return field(1, name.encode()) + field(3, unit.encode()) + field(kind, data)


def number_point(time_ns, value, *attributes):
    return field(1, fixed64(3, time_ns) + double(4, value) + b"".join(field(7, attribute(*one)) for one in attributes))
