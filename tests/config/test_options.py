"""The configuration file and the command line: warnings, refusals, and what `gnudi config` prints."""

import configparser

import pytest

from support import gnudi as program
from support.http import create_metric


def serve(tmp_path, text, *arguments):
    """Runs `gnudi serve` with a configuration that should end it at once."""
    config = tmp_path / "gnocchi.conf"
    config.write_text(text)
    return program.run("serve", "--config-file", config, "--data-dir", tmp_path / "data", "--without", "host",
                       *(arguments or ("--listen", "127.0.0.1:0")))


@pytest.mark.parametrize("section, option, value", [
    ("api", "max_limit", "many"),
    ("api", "max_limit", "0"),
    ("api", "port", "65536"),
    ("api", "auth_mode", "magic"),
    ("api", "enable_proxy_headers_parsing", "perhaps"),
    ("metricd", "workers", "0"),
    ("incoming", "durability", "none"),
    ("incoming", "journal", "/dev/null/journal"),
    ("storage", "driver", "tape"),
    ("archive_policy", "default_aggregation_methods", "mean,nonsense"),
])
def test_a_bad_value_stops_the_start_and_is_named(tmp_path, section, option, value):
    done = serve(tmp_path, f"[{section}]\n{option} = {value}\n")
    assert done.returncode not in (0, None)
    for part in (str(tmp_path / "gnocchi.conf"), f"[{section}]", option):
        assert part in done.stderr, done.stderr
    assert "panicked" not in done.stderr


def test_an_option_that_is_set_to_nothing_is_no_panic(tmp_path):
    remote_user = "[api]\nauth_mode = remoteuser\n"
    done = serve(tmp_path, f"{remote_user}remoteuser_header =\n")
    assert done.returncode == 1 and "[api] remoteuser_header" in done.stderr, done.stderr
    # Python's logging has a format of its own for an empty one.
    log = tmp_path / "log"
    done = serve(tmp_path, f"[DEFAULT]\nlog_date_format =\n{remote_user}", "--listen", "127.0.0.1:0", "--log-file", log)
    assert done.returncode == 1 and "[api] remoteuser_proxies" in done.stderr + log.read_text(encoding="utf-8"), done.stderr


def test_the_longest_timeouts_are_no_panic(gnudi):
    longest = 2 ** 63 - 1
    client = gnudi(config=f"[DEFAULT]\nstart_timeout = {longest}\n[api]\noperation_timeout = {longest}\n").client()
    id = create_metric(client, "low")
    client.get(f"/v1/metric/{id}/measures?refresh=true").expect(200)


def test_a_line_that_is_no_option_stops_the_start(tmp_path):
    done = serve(tmp_path, "[api]\nhello\n")
    assert done.returncode not in (0, None)
    assert "gnocchi.conf" in done.stderr and "line 2" in done.stderr


def test_a_missing_file_stops_the_start(tmp_path):
    done = program.run("serve", "--config-file", tmp_path / "nothing.conf", "--data-dir", tmp_path / "data")
    assert done.returncode not in (0, None)
    assert "nothing.conf" in done.stderr


def test_unknown_options_warn_and_gnocchis_own_do_not(gnudi):
    server = gnudi(config="[api]\nno_such_option = 1\nmax_limit = 5\n[nowhere]\nx = 1\n")
    log = server.log()
    assert "[api] no_such_option" in log
    assert "[nowhere] x" in log
    assert "max_limit" not in log


def test_a_whole_gnocchi_file_is_taken(gnudi):
    """A file as a Gnocchi with the file driver has it, data directory apart."""
    server = gnudi(config="""\
[DEFAULT]
verbose = true
coordination_url = redis://127.0.0.1:6379
[indexer]
url = postgresql://user:secret@127.0.0.1/gnocchi
[storage]
driver = file
file_basepath = /var/lib/gnocchi
[api]
auth_mode = basic
max_limit = 3
[metricd]
workers = 2
metric_processing_delay = 5
[statsd]
resource_id = 07f26121-5777-48ba-8a0b-d70468133dd9
""")
    client = server.client()
    assert client.get("/v1/metric").status == 200
    assert "secret" not in server.log()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_open_address_is_refused_without_the_flag(tmp_path, address):
    done = serve(tmp_path, "", "--listen", address)
    assert done.returncode not in (0, None)
    assert "loopback" in done.stderr and "--allow-open-access" in done.stderr


@pytest.mark.parametrize("address", ["nowhere", ":80", "localhost:", "localhost:65536", "::1:80", "no.such.name.invalid:80"])
def test_a_bad_address_is_refused(tmp_path, address):
    done = serve(tmp_path, "", "--listen", address)
    assert done.returncode in (1, 2) and "--listen" in done.stderr and not (tmp_path / "data").exists()


def test_a_name_is_listened_on(tmp_path):
    server = program.Gnudi(tmp_path)
    server.command = lambda: [*program.Gnudi.command(server)[:-4], "--listen", f"localhost:{server.port}", "--without", "host"]
    with server:
        assert server.client().get("/").status == 200


def test_a_misspelt_option_or_command_is_answered_with_the_one_that_may_be_meant(gnudi):
    log = gnudi(config="[api]\nmax_limits = 5\n[metrics]\ngreedy = true\n").log()
    assert "gnocchi.conf:2: [api] max_limits: no such option: ignored; did you mean [api] max_limit?" in log
    assert "gnocchi.conf:4: [metrics] greedy: no such option: ignored; did you mean [metricd] greedy?" in log
    for words, meant in ((["metricsd"], "metricd"), (["serve", "--lisen", "x"], "--listen")):
        done = program.run(*words)
        assert done.returncode == 2 and meant in done.stderr, done.stderr


def test_a_port_in_use_is_named(gnudi, tmp_path):
    server = gnudi()
    done = serve(tmp_path, "", "--listen", f"127.0.0.1:{server.port}")
    assert done.returncode not in (0, None)
    assert f"127.0.0.1:{server.port}" in done.stderr


def test_config_prints_every_option_as_a_file_that_can_be_used(tmp_path):
    printed = program.run("config")
    assert printed.returncode == 0
    for line in printed.stdout.splitlines():
        assert line == "" or line[0] in "#[", line
    uncommented = "\n".join(line[1:] if line.startswith("#") and not line.startswith("# ") else line
                            for line in printed.stdout.splitlines())
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(uncommented)
    assert parser["api"]["port"] == "8041"
    assert parser["api"]["max_limit"] == "1000"
    assert {"api", "archive_policy", "cors", "incoming", "indexer", "metricd", "storage"} <= set(parser.sections())


@pytest.mark.parametrize("arguments", [(), ("--ceilometer",)])
def test_config_prints_each_section_once(arguments):
    sections = [line for line in program.run("config", *arguments).stdout.splitlines() if line.startswith("[")]
    assert len(sections) > 10 and len(set(sections)) == len(sections), sections


def test_gnocchis_program_names_are_those_programs(tmp_path):
    upgrade = program.run("--data-dir", tmp_path / "data", name="gnocchi-upgrade", directory=tmp_path)
    assert upgrade.returncode == 0, upgrade.stderr
    assert (tmp_path / "data").is_dir()
    for name in ("gnocchi-api", "gnocchi-metricd"):
        help_text = program.run("--help", name=name, directory=tmp_path)
        assert help_text.returncode == 0
        assert "--config-file" in help_text.stdout
    refused = program.run("--no-such-flag", name="gnocchi-api", directory=tmp_path)
    assert refused.returncode not in (0, None)


def test_upgrade_creates_the_default_policies_unless_told_not_to(gnudi, tmp_path):
    for arguments, names in ((), {"bool", "low", "medium", "high", "raw"}), (("--skip-archive-policies-creation",), set()):
        data = tmp_path / f"data-{len(arguments)}"
        assert program.run("upgrade", "--data-dir", data, *arguments).returncode == 0
        server = gnudi(data_dir=data, arguments=["--skip-archive-policies-creation"])
        assert {policy["name"] for policy in server.client().get("/v1/archive_policy").json()} == names
        assert server.stop() == 0


def test_help_and_version():
    assert program.run("--help").returncode == 0
    assert program.run("--version").stdout.startswith("gnudi ")
    assert program.run().returncode not in (0, None)
