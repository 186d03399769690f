"""What a server keeps in memory."""

import pathlib
import re

from support.http import create_metric, create_policy, post_seconds

POINTS = 20_000
METRICS = 20


def test_memory_has_no_huge_pages(gnudi):
    """Those that the allocator asks for stay mostly empty, and resident (red with them where the kernel has them)."""
    server = gnudi()
    client = server.client()
    create_policy(client, "memory", [("1s", None)])
    for _ in range(METRICS):
        post_seconds(client, create_metric(client, "memory"), range(POINTS))
    rollup = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text(encoding="utf-8")
    assert re.findall(r"AnonHugePages: +(\d+) kB", rollup) == ["0"]
