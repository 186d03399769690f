"""`gnudi status` of the embedded store, as used by monitors and by scripts for Gnocchi's client."""

import json

from support import gnudi as program
from support.process import free_port, wait_until


def test_it_says_how_the_store_is(gnudi_prints):
    table = gnudi_prints("status")
    for part in (" metrics, 128 sacks, 0 measures wait", "measures/s accepted", "free", "one process has the store to itself"):
        assert part in table, table
    status = json.loads(gnudi_prints("status", "-f", "json"))
    figures = status["server"]
    version = program.run("--version").stdout.split()[1]
    assert (figures["version"], status["metrics"] >= 5, status["sacks"]) == (version, True, 128)
    for name in ("measures_taken_per_second", "measures_processed_per_second", "requests_per_second",
                 "oldest_waiting_seconds", "disk_free_bytes", "memory_bytes"):
        assert figures[name] >= 0, name
    assert len(figures["processors"]) == 1


def test_a_script_for_gnocchis_client_reads_it(gnudi_prints, gnocchi_prints):
    name = "storage/total number of measures to process"
    asked = ["status", "-f", "value", "-c", name]
    assert gnudi_prints(*asked) == gnocchi_prints(*asked) == "0\n"
    expected = json.loads(gnocchi_prints("status", "-f", "json"))
    columns = [word for name in expected for word in ("-c", name)]
    assert json.loads(gnudi_prints("status", "-f", "json", *columns)) == expected


def test_the_server_is_where_its_configuration_says(server, tmp_path):
    config = tmp_path / "gnocchi.conf"
    config.write_text(f"[api]\nhost = 0.0.0.0\nport = {server.port}\n")
    done = program.run("status", "--config-file", config, "-f", "value", "-c", "sacks", env={"GNOCCHI_ENDPOINT": ""})
    assert (done.returncode, done.stdout) == (0, "128\n"), done.stderr
    config.write_text("[api]\nhost = ::1\nport = 1\n")
    done = program.run("status", "--config-file", config, env={"GNOCCHI_ENDPOINT": ""})
    assert done.returncode == 2 and "no answer from http://[::1]:1 " in done.stderr


def test_a_folder_is_asked_for_its_own_server_and_no_other(gnudi, tmp_path):
    """Whatever listens at the usual port."""
    ask = lambda *words: program.run("status", *words, env={"GNOCCHI_ENDPOINT": ""})
    server = gnudi(prefix="/below")
    of_folder = ["--data-dir", server.data_dir]
    assert ask(*of_folder, "-f", "value", "-c", "sacks").stdout == "128\n"
    # Whatever the environment says.
    asked = ["status", *of_folder, "-f", "value", "-c", "sacks"]
    done = program.run(*asked, env={"GNOCCHI_ENDPOINT": "http://127.0.0.1:1"})
    assert (done.returncode, done.stdout) == (0, "128\n"), done.stderr
    assert server.stop() == 0
    done = ask(*of_folder)
    assert (done.returncode, done.stdout) == (1, "") and f"{server.data_dir}: no process has the store open" in done.stderr
    config = tmp_path / "gnocchi.conf"
    config.write_text(f"[storage]\nfile_basepath = {tmp_path}/none\n")
    done = ask("--config-file", config)
    assert done.returncode == 3 and f"{tmp_path}/none: there is no store here" in done.stderr
    (tmp_path / "none").mkdir()
    done = ask("--config-file", config)
    assert done.returncode == 3 and "no store was prepared here: run `gnudi upgrade`" in done.stderr


def test_a_server_with_its_figures_elsewhere_is_well(gnudi):
    server = gnudi(config=f"[api]\nmetrics_listen = 127.0.0.1:{free_port()}\n")
    asked = ["status", "--endpoint", f"http://127.0.0.1:{server.port}"]
    done = program.run(*asked)
    assert done.returncode == 0 and "128 sacks, 0 measures wait" in done.stdout and "? measures/s accepted" in done.stdout, done.stderr
    figures = json.loads(program.run(*asked, "-f", "json").stdout)["server"]
    assert figures["requests_per_second"] is figures["disk_free_bytes"] is None and len(figures["processors"]) == 1


def test_rates_are_of_now(server, gnudi_prints):
    """Between two looks."""
    import subprocess

    environment = {"GNOCCHI_ENDPOINT": f"http://127.0.0.1:{server.port}"}
    client = server.client()
    metric = client.post("/v1/metric", {"name": "rate", "archive_policy_name": "low"}).expect(201).json()["id"]
    figures = {}

    def are_of_now():
        asking = subprocess.Popen([str(program.binary()), "status", "-f", "json"], stdout=subprocess.PIPE, text=True, env=environment)
        while asking.poll() is None:
            client.post(f"/v1/metric/{metric}/measures", [{"timestamp": "now", "value": 1}] * 100).expect(202)
        figures.update(json.loads(asking.stdout.read())["server"])
        asking.stdout.close()
        return figures["measures_taken_per_second"] > 100 and figures["requests_per_second"] > 1

    # A machine that stands still between the two looks takes next to nothing.
    try:
        wait_until(are_of_now, 60, "rates of now")
    except TimeoutError:
        raise AssertionError(figures) from None
    client.request("DELETE", f"/v1/metric/{metric}").expect(204)
