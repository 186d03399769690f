"""`/federate`: the newest samples of the series that any of the selectors selects."""

import time
from urllib.parse import quote

from support.gnudi import Gnudi
from support.process import wait_until


def test_a_series_of_several_selectors_occurs_once(tmp_path):
    with Gnudi(tmp_path / "gnudi") as server:
        client = server.client()
        names = ["cpu", "ceilometer_cpu"]
        body = {"id": "host", "metrics": {name: {"archive_policy_name": "high"} for name in names}}
        client.post("/v1/resource/generic", body).expect(201)
        for value, name in enumerate(names):
            measures = [{"timestamp": int(time.time()), "value": value}]
            client.post(f"/v1/resource/generic/host/metric/{name}/measures", measures).expect(202)

        def samples(*selectors):
            """(name, whether it has the id of its metric, value) of each sample."""
            path = "/federate?" + "&".join(f"match[]={quote(selector)}" for selector in selectors)
            lines = client.get(path).expect(200).body.decode().splitlines()
            return sorted((line.split("{")[0], "metric_id=" in line, float(line.split()[-2])) for line in lines if line[0] != "#")
        # Ceilometer's exporters would give both metrics this name.
        exported = [("ceilometer_cpu", True, 0), ("ceilometer_cpu", True, 1)]
        wait_until(lambda: samples("ceilometer_cpu") == exported, 60, "measures")
        assert samples('{resource_id!=""}', "ceilometer_cpu") == [*exported, ("cpu", False, 0)]
