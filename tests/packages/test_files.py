"""The package's files other than programs and units."""

import subprocess

from packages.build import ROOT

SHARED = {"grafana": ROOT / "deploy" / "grafana", "prometheus": ROOT / "deploy" / "prometheus"}


def test_dashboards_and_alerts_are_where_the_page_says(unpacked):
    for name, source in SHARED.items():
        done = subprocess.run(["diff", "-r", source, unpacked / "usr" / "share" / "gnudi" / name], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert f"/usr/share/gnudi/{name}" in (ROOT / "docs" / "monitoring.md").read_text()
