"""Values of ceilometer.conf and gnocchi.conf that refer to other options: resolved as by oslo.config."""

import json
import random
import subprocess

import pytest

from support import cloud_venv
from telemetry import polling
from telemetry.polling import TESTS, domain, samples, source

VALUES = 30
#: Of [DEFAULT], of other sections, of each kind, unset ones, some that refer on; escapes; what is no name; what names nothing.
PIECES = ["$host", "${host}", "$polling.batch_size", "${polling.batch_size}", "$reseller_prefix", "$publisher.telemetry_secret",
          "$polling.partitioning_group_prefix", "$libvirt_uri_", "${compute.report_stopped_instance_metrics}",
          "$service_types.nova", "${reserved_metadata_length}", "$pipeline_cfg_file", "$$", r"\$", "$", "$1", "${", "${}",
          "${ host}", "$-", "}", "text", ".", "_", "-", "/", "\u00e9", " ", ":", "$$host", r"\${host}", r"\\$host", "${nothing}",
          "$nowhere.x", "$polling", "${host.x}", "$compute.nothing"]
BAD = {"$nothing", "$libvirt_uri_", "$nowhere.x", "$polling", "${host.x}", "${nothing}", "$compute.nothing"}
OPTIONS = {"host": "h-$libvirt_type", "reseller_prefix": "p_", "pipeline_cfg_file": "${host}/$$x"}


@pytest.fixture(scope="module")
def theirs():
    with subprocess.Popen([str(cloud_venv.python()), str(TESTS / "oracle" / "references.py")], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        def answer(conf):
            print(conf, file=child.stdin, flush=True)
            return json.loads(child.stdout.readline())

        yield answer
        child.stdin.close()


def test_values_are_those_of_oslo_config(bus, reader, tmp_path, theirs, seed):
    """Of `sample_source`, which stands in samples."""
    chance = random.Random(seed)
    values = [f"x{piece}" for piece in PIECES]
    while len(values) < len(PIECES) + VALUES:
        # Most should be values that can be had.
        pieces = [piece for piece in PIECES if piece not in BAD or chance.random() < 0.1]
        values.append("x" + "".join(chance.choices(pieces, k=chance.randint(2, 6))) + "x")
    refused = 0
    for number, value in enumerate(values):
        uri = polling.libvirt(tmp_path, [domain(1)])
        conf = polling.configure(tmp_path / str(number), bus, f"references-{number}", [source("power.state")], {
            "DEFAULT": {"libvirt_uri": uri, "sample_source": value, **OPTIONS}, "polling": {"batch_size": "007"}})
        expected = theirs(conf)
        ended = polling.polled(conf)
        if expected is None:
            refused += 1
            assert ended.returncode != 0 and f"{conf}:" in ended.stdout and "[DEFAULT] sample_source: " in ended.stdout, value
            continue
        assert ended.returncode == 0, (value, expected, ended.stdout)
        found = samples(reader.until(f"references-{number}", bool))
        assert {sample["source"] for sample in found} == {expected}, value
    assert refused >= len(BAD) and len(values) - refused > VALUES


@pytest.mark.parametrize("text, said", [
    ("[DEFAULT]\nhost = $control_exchange\ncontrol_exchange = a${host}\n",
     [":3: [DEFAULT] control_exchange: ", "[DEFAULT] control_exchange -> [DEFAULT] host -> [DEFAULT] control_exchange"]),
    ("[DEFAULT]\ntransport_url = rabbit://u:pa$se3kret@127.0.0.1/\n",
     [":2: [DEFAULT] transport_url: ", "write $$ for a dollar sign"]),
    ("[polling]\nbatch_size = $DEFAULT.host\n", [":2: [polling] batch_size: with what it refers to: must be a whole number"]),
])
def test_what_cannot_be_is_told_with_its_place(tmp_path, text, said):
    conf = tmp_path / "ceilometer.conf"
    conf.write_text(text)
    ended = polling.polled(conf)
    assert ended.returncode != 0 and "panicked" not in ended.stdout
    assert str(conf) in ended.stdout and "se3kret" not in ended.stdout
    for part in said:
        assert part in ended.stdout


def test_values_of_gnocchis_file_refer_too(gnudi):
    client = gnudi(config="[api]\nmax_limit = ${metricd.workers}\n[metricd]\nworkers = 2\n").client()
    for _ in range(3):
        client.post("/v1/metric", {"archive_policy_name": "low"}).expect(201)
    assert len(client.get("/v1/metric").expect(200).json()) == 2
