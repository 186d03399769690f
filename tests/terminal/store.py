"""The data of these tests' server, and its address for both clients."""

HOUR = "2026-11-21T10"


def server_variables(server):
    """Who asks which server, as both programs read it."""
    return {"OS_AUTH_TYPE": "gnocchi-basic", "GNOCCHI_USER": "admin", "GNOCCHI_ENDPOINT": f"http://127.0.0.1:{server.port}"}


def make_hosts(client):
    """Two hosts, each with ten minutes of a metric `cpu`, and one that has moved to another rack."""
    attribute = {"type": "string", "required": False, "min_length": 0, "max_length": 255}
    client.post("/v1/resource_type", {"name": "host", "attributes": {"rack": attribute}}).expect(201)
    for number, name in enumerate(("web-1", "web-2")):
        metrics = {"cpu": {"archive_policy_name": "low"}, "disk io": {"archive_policy_name": "low"}}
        client.post("/v1/resource/host", {"id": name, "rack": f"r{number}", "metrics": metrics}).expect(201)
        measures = [{"timestamp": f"{HOUR}:0{minute}:00", "value": 10 * number + minute} for minute in range(10)]
        client.post(f"/v1/resource/host/{name}/metric/cpu/measures", measures).expect(202)
        client.get(f"/v1/resource/host/{name}/metric/cpu/measures?refresh=true").expect(200)
    client.request("PATCH", "/v1/resource/host/web-1", {"rack": "r7"}).expect(200)
