"""Damaged files: the server starts, reports file and offset, and what lies beside the damage stays readable."""

import pytest

from support.http import create_metric, create_policy

METRICS = 20
PUSHES = 30
# Measures wait in the log until they are read with refresh=true.
LAZY = "[metricd]\ngreedy = false\nmetric_processing_delay = 3600\n"
START_S = 1_600_000_000
FLIPPED_BYTES = 16


def fill(server):
    """Pushes to every metric in turn, one request each; answers the metrics' ids."""
    client = server.client()
    create_policy(client, "damage", [("1s", None)], aggregation_methods=["count", "sum"])
    metrics = [create_metric(client, "damage") for _ in range(METRICS)]
    for second in range(PUSHES):
        for number, metric in enumerate(metrics):
            measure = {"timestamp": START_S + second, "value": number * 1000.5 + second}
            client.post(f"/v1/metric/{metric}/measures", [measure]).expect(202)
    return metrics


def flip(path, offset):
    """Inverts some bytes; answers their offset."""
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(FLIPPED_BYTES)
        file.seek(offset)
        file.write(bytes(byte ^ 0xFF for byte in old))
    return offset


def used_length(path):
    """Where the trailing zeros of a preallocated file begin."""
    return len(path.read_bytes().rstrip(b"\0"))


def largest_file(directory):
    """The file with the most content below a directory."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files, f"no files in {directory}"
    return max(files, key=used_length)


def read_all(server, metrics):
    """(right points, metrics that answered with an error) over all metrics."""
    client, right, errors = server.client(), 0, []
    for number, metric in enumerate(metrics):
        answer = client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=sum")
        if answer.status != 200:
            errors.append(answer)
            continue
        points = answer.json()
        for text, _, value in points:
            second = int(text[17:19]) + 60 * int(text[14:16]) - (26 * 60 + 40)
            assert value == number * 1000.5 + second, f"a wrong value is worse than none: {text} {value}"
        right += len(points)
    return right, errors


def reported(server, path):
    """Whether the log names the file and an offset in it."""
    lines = [line for line in server.log().splitlines() if path.name in line]
    return any("offset" in line for line in lines)


@pytest.mark.parametrize("place", [0.25, 0.5, 0.75])
def test_damage_in_the_log(gnudi, place):
    server = gnudi(config=LAZY, arguments=["--skip-archive-policies-creation"])
    metrics = fill(server)
    server.kill()
    path = largest_file(server.data_dir / "incoming")
    flip(path, int(used_length(path) * place))
    server.start()
    right, errors = read_all(server, metrics)
    assert not errors
    # One request was hit, or two where the bytes lie across a border.
    assert METRICS * PUSHES - 2 <= right < METRICS * PUSHES
    assert reported(server, path), server.log()[-3000:]


def test_a_torn_tail_of_the_log_is_cut(gnudi):
    """The last bytes of the last file: what a power cut leaves of a request that was never acknowledged."""
    server = gnudi(config=LAZY, arguments=["--skip-archive-policies-creation"])
    metrics = fill(server)
    server.kill()
    path = largest_file(server.data_dir / "incoming")
    flip(path, used_length(path) - FLIPPED_BYTES)
    server.start()
    right, errors = read_all(server, metrics)
    assert not errors
    assert METRICS * PUSHES - 2 <= right < METRICS * PUSHES
    # The log goes on behind the cut.
    client = server.client()
    client.post(f"/v1/metric/{metrics[0]}/measures", [{"timestamp": START_S + PUSHES, "value": PUSHES}]).expect(202)
    assert read_all(server, metrics)[0] == right + 1


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_damage_in_the_aggregates(gnudi, place):
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    metrics = fill(server)
    assert read_all(server, metrics) == (METRICS * PUSHES, [])
    assert server.stop() == 0
    path = largest_file(server.data_dir / "aggregates")
    flip(path, int(used_length(path) * place))
    server.start()
    right, errors = read_all(server, metrics)
    assert all(answer.status in (500, 503) for answer in errors), errors
    assert len(errors) <= 1, errors
    assert right >= (METRICS - 1) * PUSHES
    if right < METRICS * PUSHES:
        assert reported(server, path), server.log()[-3000:]
    # Writing goes on for all others.
    client = server.client()
    for metric in metrics:
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": START_S + PUSHES, "value": 1}]).expect(202)


def test_a_directory_in_use_is_refused(gnudi):
    from support import gnudi as program

    server = gnudi()
    second = program.run("serve", "--listen", "127.0.0.1:0", "--data-dir", server.data_dir, "--without", "host")
    assert second.returncode not in (0, None)
    assert "in use by another process" in second.stderr + second.stdout
    assert str(server.data_dir) in second.stderr + second.stdout
    assert server.healthy()
