"""docs/api.md, run command by command against `gnudi serve`: every answer in it is real.

`pytest docs --update` writes the answers of this run into the page instead.
"""

import pathlib

import pytest

from docs.console import BLOCK, Session, blocks
from support.process import free_udp_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "api.md"
ADDRESS = "localhost:8041"
STATSD = "localhost/8125"
# How long the page waits for a datagram, and how the test does.
PAUSE = "sleep 1"
MEASURE = "api GET '/v1/resource/generic/statsd/metric/queue.length%7Cg/measures?refresh=true'"
PATIENT = f"until {MEASURE} | grep -F ', 7.0]' >/dev/null; do sleep 0.1; done"
COMMANDS_AT_LEAST = 60


@pytest.fixture
def session(gnudi, tmp_path):
    port = free_udp_port()
    server = gnudi(config=f"[statsd]\nport = {port}\nflush_delay = 0.2\n", arguments=["--with", "statsd"])
    setup, = blocks(PAGE.read_text())[0]
    return Session(setup.text, {ADDRESS: f"127.0.0.1:{server.port}", STATSD: f"127.0.0.1/{port}", PAUSE: PATIENT}, tmp_path)


def test_every_answer_is_real(session, pytestconfig):
    page = PAGE.read_text()
    wrong, count = [], 0
    parts = []
    for block in blocks(page):
        for command in block:
            printed = session.run(command)
            count += 1
            if pytestconfig.getoption("update"):
                command.printed = session.page_lines(command.printed, printed)
                continue
            why = session.differs(command.printed, printed)
            if why is not None:
                wrong.append(f"{command.shown}\n  {why}\n  printed: " + "\n  ".join(printed)[:2000])
        parts.append("".join("\n".join([command.shown, *command.printed]) + "\n" for command in block))
    if pytestconfig.getoption("update"):
        texts = iter(parts)
        PAGE.write_text(BLOCK.sub(lambda _: f"```console\n{next(texts)}```", page))
    assert not wrong, "\n".join(wrong)
    assert count >= COMMANDS_AT_LEAST
