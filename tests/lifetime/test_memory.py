"""The memory of a server."""

import pathlib
import re

import pytest

from support.http import create_metric, create_policy, post_seconds

pytestmark = pytest.mark.slow

POINTS = 20_000
METRICS = 20
# What the allocator has touched before the program's own first line: two pages of 2 MiB; 40 with huge pages.
HUGE_KB_MAX = 8 << 10


def test_memory_has_no_huge_pages(gnudi):
    """Those that the allocator asks for stay mostly empty, and resident (red with them where the kernel has them)."""
    server = gnudi()
    client = server.client()
    create_policy(client, "memory", [("1s", None)])
    for _ in range(METRICS):
        post_seconds(client, create_metric(client, "memory"), range(POINTS))
    rollup = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text(encoding="utf-8")
    (huge_kb,) = map(int, re.findall(r"AnonHugePages: +(\d+) kB", rollup))
    assert huge_kb <= HUGE_KB_MAX
