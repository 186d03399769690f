"""The files of deploy/ for Grafana and Prometheus: complete, and in the formats of both."""

import re
import shutil
import subprocess

import pytest
import yaml
from monitoring import files
from support.gnudi import ROOT

BOARDS = files.dashboards()
COLUMNS = 24
GRAFANA = ROOT / "deploy" / "grafana"
# Where the package has the dashboards.
INSTALLED = "/usr/share/gnudi/grafana/dashboards"


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_whole(name):
    board = BOARDS[name]
    assert board["uid"] == name and board["id"] is None and board["title"] and board["description"]
    assert [one["name"] for one in board["templating"]["list"]][0] == "datasource"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) and board["panels"][0]["type"] == "row"
    titles = [panel["title"] for panel in files.panels(board)]
    assert all(titles)
    for panel in files.panels(board):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
        # Of several series each has a name.
        assert len(panel["targets"]) == 1 or all(target["legendFormat"] for target in panel["targets"])


@pytest.mark.parametrize("name", BOARDS)
def test_no_panel_lies_on_another(name):
    taken = set()
    for panel in BOARDS[name]["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= COLUMNS and not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", BOARDS)
def test_every_variable_is_known_and_used(name):
    board = BOARDS[name]
    texts = [target["expr"] for panel in files.panels(board) for target in panel["targets"]]
    texts += [one["query"]["query"] for one in files.variables(board).values()]
    used = {match[1] or match[2] for text in texts for match in files.VARIABLE.finditer(text)}
    own = files.variables(board).keys()
    assert own <= used <= own | {"__rate_interval", "__range"}


def test_what_is_provisioned_is_installed():
    source, = yaml.safe_load((GRAFANA / "datasources.yaml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://127.0.0.1:8041")
    provider, = yaml.safe_load((GRAFANA / "dashboards.yaml").read_text())["providers"]
    assert provider["options"]["path"] == INSTALLED
    install = (ROOT / "deploy" / "debian" / "gnudi.install").read_text()
    assert "grafana usr/share/gnudi\n" in install and "prometheus usr/share/gnudi\n" in install


def test_prometheus_takes_the_example():
    done = subprocess.run([shutil.which("promtool"), "check", "config", ROOT / "deploy" / "prometheus" / "prometheus.yaml"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{len(files.rules())} rules found" in done.stdout, done


def test_the_page_names_all_files_and_alerts():
    page = (ROOT / "docs" / "monitoring.md").read_text()
    for name in BOARDS:
        assert f"`{name}.json`" in page
    listed = re.findall(r"^\| `(Gnudi\w+)` \|", page, re.MULTILINE)
    assert listed == [rule["alert"] for rule in files.rules()]
