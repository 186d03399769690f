"""Servers that are told to stop as soon as they answer."""

import uuid

from support.http import create_policy

# So many that they are not in the index's cache before the server is told to stop.
METRICS = 20_000
LIVES = 3


def test_a_stop_right_after_a_start_is_no_trouble(gnudi):
    """What the start still does then, as filling the index's cache, must not fail because the index is closed."""
    server = gnudi()
    client = server.client()
    create_policy(client, "short", [("1s", None)])
    resource = str(uuid.uuid4())
    client.post("/v1/resource/generic", {"id": resource}).expect(201)
    metrics = {f"m{number}": {"archive_policy_name": "short", "measures": []} for number in range(METRICS)}
    client.post("/v1/batch/resources/metrics/measures?create_metrics=true", {resource: metrics}).expect(202)
    for _ in range(LIVES):
        assert server.stop() == 0
        server.start()
    assert server.stop() == 0
    assert [line for line in server.log().splitlines() if " WARN " in line or " ERROR " in line] == []
