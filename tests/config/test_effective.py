"""`gnudi config` with files: the effective values, where each was set, and the errors that would prevent a start."""

import subprocess

import pytest

from support import gnudi as program

CONFIG = """\
[DEFAULT]
debug = true
coordination_url = redis://:hunter2@there
[indexer]
url = postgresql://u:hunter2@h/d
[storage]
driver = ceph
ceph_pool = one
[api]
max_limit = 7
"""


#: Where the notification agent's samples and events go.
STORE = "[gnocchi]\nauth_type = gnocchi-basic\nendpoint = http://127.0.0.1:9\n"


def show(tmp_path, text, *words, env=None):
    config = tmp_path / "gnocchi.conf"
    config.write_text(text)
    return program.run("config", "--config-file", config, *words, env=env)


def test_each_value_has_its_source(tmp_path):
    more = tmp_path / "more.conf"
    more.write_text("[storage]\nceph_pool = two\n")
    done = show(tmp_path, CONFIG, "--config-file", more, "--nodebug", env={"OS_API__PORT": "99"})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    first = f"{tmp_path}/gnocchi.conf"
    for line in (
        "debug = false  # --nodebug",
        f"coordination_url = ***  # {first}:3",
        f"url = ***  # {first}:5",
        f"ceph_pool = two  # {more}:2",
        f"ceph_pool = two  # [storage] ceph_pool: {more}:2",
        f"max_limit = 7  # {first}:10",
        "port = 99  # OS_API__PORT",
        "operation_timeout = 10  # default",
    ):
        assert line in done.stdout.splitlines(), done.stdout
    assert "hunter2" not in done.stdout


def test_the_password_of_a_broker_is_not_shown(tmp_path):
    done = show(tmp_path, "[amqp1d]\nurl = amqp://u:hunter2@h/x\n", "--section", "amqp1d")
    assert f"url = ***  # {tmp_path}/gnocchi.conf:2" in done.stdout.splitlines() and "hunter2" not in done.stdout, done.stdout
    done = show(tmp_path, "", "--section", "amqp1d")
    assert "url = localhost:5672/u/collectd/telemetry  # default" in done.stdout.splitlines(), done.stdout


def test_one_section_alone(tmp_path):
    done = show(tmp_path, CONFIG, "--section", "API")
    assert done.stdout.startswith("[api]\n") and done.stdout.count("[api]") == 1 and "\n[" not in done.stdout
    assert program.run("config", "--section", "api").stdout in program.run("config").stdout
    done = program.run("config", "--section", "nowhere")
    assert done.returncode == 1 and "there are DEFAULT, api" in done.stderr


@pytest.mark.parametrize("text, reasons", [
    ("", []),
    (CONFIG, []),
    ("[api]\nport = x\n", [":2: [api] port = x"]),
    ("[api]\nport = 99999\nauth_mode = foo\n[incoming]\ndurability = maybe\n",
     [":2: [api] port = 99999: ", ":3: [api] auth_mode = foo: ", ":5: [incoming] durability = maybe: "]),
    ("[storage]\ndriver = redis\n", [":2: [storage] driver = redis"]),
    ("[api]\ntls_key = /none\npassword_file = /none\n[archive_policy]\ndefault_aggregation_methods = nonsense\n",
     ["/none", ":5: [archive_policy] default_aggregation_methods"]),
    ("[api]\nhost = 0.0.0.0\n", ["is not loopback"]),
    (CONFIG + "[amqp1d]\nurl = ://\n", [":12: [amqp1d] url"]),
    (CONFIG.replace("ceph\n", "s3\n"), ["s3_access_key_id: must be set"]),
    ("[api]\nmetrics_listen = 9102\n[metricd]\nmetrics_listen = ::1:9102\n",
     [":2: [api] metrics_listen = 9102: must be HOST:PORT", ":4: [metricd] metrics_listen = ::1:9102: must be HOST:PORT"]),
    ("[DEFAULT]\nlog_date_format = %!\n", []),
    ("[DEFAULT]\nlog_file = log\nlog_date_format = %!\n", [":3: [DEFAULT] log_date_format"]),
])
def test_what_would_stop_a_start_is_told_all_at_once(tmp_path, text, reasons):
    done = show(tmp_path, text, "--check")
    assert done.returncode == (1 if reasons else 0) and done.stdout == "", done.stderr
    for reason in reasons:
        assert reason in done.stderr, done.stderr
    assert "hunter2" not in done.stderr


def test_a_check_takes_what_a_unit_gives_the_server(tmp_path):
    passwords = tmp_path / "passwords"
    subprocess.run([program.binary(), "passwd", passwords, "admin"], input="hunter2\n", text=True, check=True)
    for words, status in [(["--allow-open-access"], 0), (["--password-file", passwords], 0), (["--password-file", "/none"], 1)]:
        done = show(tmp_path, "[api]\nhost = 0.0.0.0\n", "--check", *words)
        assert done.returncode == status, done.stderr


@pytest.mark.parametrize("text, reason", [
    (STORE + "[DEFAULT]\ntransport_url = rabbit://h/\n", None),
    ("[notification]\npipelines =\n", None),
    ("[DEFAULT]\ntransport_url = rabbit://h/\n", "sink meter_sink: none of its publishers can be opened"),
    ("[notification]\npipelines = event\n", "sink event_sink: none of its publishers can be opened"),
    (STORE + "[DEFAULT]\ntransport_url = nonsense\n", "1 errors"),
    ("[DEFAULT]\ntransport_url = nonsense\n", "[DEFAULT] transport_url"),
    ("[polling]\ncfg_file = /none\n", "[polling] cfg_file = /none: there is no such file"),
    ("[DEFAULT]\npolling_namespaces = moon\n", "polling namespace moon"),
    (STORE + "[compute]\nfetch_extra_metadata = true\n", "[compute] fetch_extra_metadata = true: needs [service_credentials] auth_url"),
    (STORE + "[compute]\ninstance_discovery_method = naive\n", "needs [service_credentials] auth_url"),
    (STORE + "[DEFAULT]\npolling_namespaces = central\n[compute]\nfetch_extra_metadata = true\n", None),
    (STORE + "[polling]\nenable_prometheus_exporter = true\nprometheus_tls_enable = true\n", "[polling] prometheus_tls_enable: needs prometheus_tls_certfile"),
    (STORE + "[polling]\nenable_prometheus_exporter = true\nprometheus_listen_addresses = 127.0.0.1:9101,9102\n",
     "[polling] prometheus_listen_addresses = 9102: must be HOST:PORT"),
    (STORE + "[agent]\nmetrics_listen = 9102\n", "[agent] metrics_listen = 9102: must be HOST:PORT"),
    (STORE + "[coordination]\nbackend_url = zookeeper://h\n", "[coordination] backend_url: redis:// and etcd3+http:// coordinate"),
])
def test_the_same_of_an_agent(tmp_path, text, reason):
    done = show(tmp_path, text, "--ceilometer", "--check")
    assert done.returncode == (1 if reason else 0), done.stderr
    assert (reason or "") in done.stderr


@pytest.mark.parametrize("text, polling, notification", [
    # A compute host: libvirt has the instances, and the store is somewhere else.
    ("[DEFAULT]\ntransport_url = rabbit://h/\n", None, "sink meter_sink: none of its publishers can be opened"),
    (STORE + "[polling]\ncfg_file = /none\n", "[polling] cfg_file = /none: there is no such file", None),
    (STORE + "[DEFAULT]\ntransport_url = nonsense\n", "[DEFAULT] transport_url", "[DEFAULT] transport_url"),
    (STORE + "[DEFAULT]\ntransport_url = nonsense\n[polling]\nenable_notifications = false\n", None, "[DEFAULT] transport_url"),
    (STORE + "[notification]\nmessaging_urls = nonsense\n", None, "[notification] messaging_urls"),
    (STORE + "[service_credentials]\nauth_url = http://h/v3\n", "[service_credentials] username", "[service_credentials] username"),
])
def test_one_agent_alone_is_told_what_concerns_it(tmp_path, text, polling, notification):
    for agent, reason in (("polling", polling), ("notification", notification)):
        done = show(tmp_path, text, f"--ceilometer={agent}", "--check")
        assert done.returncode == (1 if reason else 0), (agent, done.stderr)
        assert (reason or "") in done.stderr, (agent, done.stderr)


def test_pipeline_files_are_checked_too(tmp_path):
    """Without opening a publisher: nothing is written."""
    path = tmp_path / "pipeline.yaml"

    def check(publishers):
        path.write_text(f"sources: [{{name: s, meters: ['*'], sinks: [k]}}]\nsinks:\n- name: k\n  publishers: {publishers}\n")
        return show(tmp_path, "[notification]\npipelines = meter\n", "--ceilometer", "--check")

    assert check([f"file://{tmp_path}/published", "gnocchi://"]).returncode == 0
    assert not (tmp_path / "published").exists()
    done = check(["gnocchi://", "kafka://h"])
    assert done.returncode == 1 and f"{path}:3: sink k: none of its publishers" in done.stderr, done.stderr
    assert "gnocchi://: " in done.stderr and "kafka://: use notifier://" in done.stderr, done.stderr
    done = check([])
    assert done.returncode == 1 and f"{path}:3: sinks[0].publishers: names no publisher" in done.stderr
