"""The remote-write receiver tests of Prometheus' compliance project, from its module."""

import pytest

import pytest

from prometheus import golang

pytestmark = pytest.mark.slow

MODULE = ("github.com/prometheus/compliance/remotewrite/receiver", "v0.0.0-20260806071727-67b8327a2e93")
TESTS = 39
TIMEOUT_S = 300


@pytest.mark.slow
def test_receiver(gnudi, tmp_path):
    server = gnudi()
    sources = golang.module(*MODULE)
    program = golang.test_binary(sources, "receiver.test")
    config = tmp_path / "prometheus.yml"
    config.write_text(f"remote_write:\n- name: gnudi\n  url: http://127.0.0.1:{server.port}/api/v1/write\n"
                      "  basic_auth: {username: admin, password: ''}\n  protobuf_message: io.prometheus.write.v2.Request\n")
    passed, printed = golang.outcomes(program, sources, TIMEOUT_S, {"PROMETHEUS_RW2_COMPLIANCE_CONFIG_FILE": str(config)})
    tests = {name: is_passed for name, is_passed in passed.items() if "/" not in name}
    assert len(tests) == TESTS, printed[-5000:]
    assert not [name for name, is_passed in passed.items() if not is_passed], printed
