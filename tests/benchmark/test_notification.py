"""`gnudi-benchmark notification`: an interrupted run ends soon, and says that it is partial."""

import json
import signal
import subprocess

import pytest

from support.gnudi import benchmark_binary


@pytest.mark.long
def test_ctrl_c_while_the_queue_is_filled():
    command = [benchmark_binary(), "notification", "--messages", "1000000", "--instances", "500", "--without-ceilometer"]
    process = subprocess.Popen([*command, "-f", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while "filling the queue: 1000000 messages" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert json.loads(output)["partial"] == "interrupted"
