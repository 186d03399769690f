"""Each refused request has a line in the log: the caller, the address, the request, the rule and the reason. No line has a secret, and
their rate is limited."""

import re

from support.http import basic

SECRET = "hunter2"


def lines(server):
    return [line for line in server.log().splitlines() if " refused " in line]


def test_refusals_are_logged_without_secrets(gnudi):
    server = gnudi(config="[api]\nproject_metrics_max = 0\n")
    jd = server.client("jd")
    headers = {**basic("jd", SECRET), "X-Auth-Token": SECRET}
    jd.post("/v1/archive_policy?token=" + SECRET, {"name": SECRET}, headers=headers).expect(403)
    jd.request("DELETE", "/v1/resource/generic/a", headers={"Authorization": f"Bearer {SECRET}"}).expect(401)
    jd.post("/v1/metric", {"archive_policy_name": "low"}, headers=headers).expect(429)
    jd.get("/v1/metric", headers=headers).expect(200)
    jd.get("/v1/metric/none", headers=headers).expect(404)
    found = lines(server)
    assert len(found) == 3, server.log()
    denied, unknown, limited = found
    for said in ["status=403", "method=POST", 'path="/v1/archive_policy"', 'user="jd"', "from=127.0.0.1",
                 'rule="create archive policy"', 'reason="the rule denies it"']:
        assert said in denied, denied
    for said in ["status=401", "method=DELETE", 'path="/v1/resource/generic/a"', 'user="-"', 'reason="Authentication is required']:
        assert said in unknown, unknown
    for said in ["status=429", 'user="jd"', 'reason="The project has more than 0 metrics"']:
        assert said in limited, limited
    assert SECRET not in server.log()


def test_a_name_cannot_forge_a_line(gnudi):
    server = gnudi()
    client = server.client()
    forged = "jd\n2026-01-01T00:00:00Z  WARN refused status=403 user=\"admin\""
    client.get("/v1/status", headers=basic(forged)).expect(403)
    assert len(lines(server)) == 1, server.log()


def test_a_flood_is_counted(gnudi):
    server = gnudi()
    jd = server.client("jd")
    for _ in range(400):
        jd.get("/v1/status").expect(403)
    figures = server.client().get("/metrics").expect(200).body.decode()
    suppressed = int(re.search(r"^gnudi_api_audit_suppressed_total (\d+)$", figures, re.MULTILINE).group(1))
    written = lines(server)
    told = sum(int(re.search(r"suppressed=(\d+)", line).group(1)) for line in written)
    assert len(written) + suppressed == 400
    assert 0 <= suppressed - told, "no more are told than there were"
    # On a machine so slow that the allowance keeps up, all are written; at most a hundred and ten a second.
    assert suppressed > 0 or len(written) == 400
