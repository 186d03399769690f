"""Rows of docs/compatibility.md about queries and lists, each on both servers."""

import json
import uuid

from differential.deviations import both, measures_path, metric_with, ours, policy_named, theirs, unique
from support.http import create_metric


def statuses(ours, theirs, method, path, body=None, headers=None):
    return tuple(client.request(method, path, body, headers).status for client in (theirs, ours))


def test_errors_are_pages_for_whoever_takes_anything(ours, theirs):
    found = [client.get("/v1/archive_policy/none", headers={"Accept": "*/*"}).expect(404).headers["content-type"].split(";")[0]
             for client in (theirs, ours)]
    assert found == ["text/html", "application/json"]


def test_errors_repeat_no_large_values(ours, theirs):
    value = "x" * 20_000
    bodies = [client.get(f"/v1/metric?sort={value}").expect(400).body for client in (theirs, ours)]
    assert len(bodies[0]) > len(value) > len(bodies[1])


def test_a_media_type_in_capitals(ours, theirs):
    found = []
    for client in (theirs, ours):
        path = measures_path(create_metric(client, policy_named(client, [("1s", 60)])))
        found.append(client.request("POST", path, b"[]", {"Content-Type": "Application/JSON"}).status)
    assert found == [415, 202]


def test_names_of_callers_that_no_index_can_store(ours, theirs):
    found = []
    for client in (theirs, ours):
        policy = policy_named(client, [("1s", 60)])
        found.append(client.as_user("u" * 300).post("/v1/metric", {"archive_policy_name": policy}).status)
    assert found == [500, 401]


def test_what_is_missing_where_nobody_calls(ours, theirs):
    found = []
    for client in (theirs, ours):
        metric = metric_with(client, [], [("1s", 60)])
        answer = client.as_user(None).get(f"/v1/metric/{metric}/measures", headers={"Accept": "application/json"}).expect(401)
        found.append((answer.json()["description"] != "", "www-authenticate" in answer.headers))
    assert found == [(False, False), (True, True)]


def test_characters_of_a_query_that_must_be_escaped(ours, theirs):
    for character, escaped in (('"', "%22"), ("<", "%3C"), (">", "%3E")):
        assert statuses(ours, theirs, "GET", f"/v1/archive_policy?x=a{character}b") == (200, 400), character
        assert statuses(ours, theirs, "GET", f"/v1/archive_policy?x=a{escaped}b") == (200, 200), escaped
    # What many write unescaped, and RFC 3986 forbids as well.
    assert statuses(ours, theirs, "GET", "/v1/archive_policy?x={a}|b^c`d\\e[f]") == (200, 200)


def test_three_tenths_of_a_second(ours, theirs):
    """0.1 s x 3 is not 0.3 s, to a float."""
    body = {"definition": [{"granularity": 0.1, "points": 3, "timespan": 0.3}]}
    found = {}
    for name, client in both(ours, theirs).items():
        policy = unique("tenths")
        made = client.post("/v1/archive_policy", {"name": policy, **body}).status
        found[name] = (made, client.get(f"/v1/archive_policy/{policy}").status)
    assert found["gnudi"] == (201, 200)
    assert found["gnocchi"] != found["gnudi"], found


def test_calendar_months_with_a_start(ours, theirs):
    found = []
    for client in (theirs, ours):
        metric = metric_with(client, [(f"2020-0{month}-10T00:00:00", month) for month in (1, 2, 3, 4)], [("1d", 400)])
        found.append(client.get(f"{measures_path(metric)}?refresh=true&granularity=86400&resample=M&start=2020-02-01").status)
    assert found[1] == 200 and found[0] >= 400, found


def pages(client, path):
    """The ids of all pages; of those before one that fails, or that are too many."""
    seen = []
    for _ in range(10):
        answer = client.get(path)
        if answer.status != 200:
            break
        seen += [metric["id"] for metric in answer.json()]
        link = answer.headers.get("link")
        if not link:
            break
        path = link[1:link.index(">")].partition(f":{client.port}")[2]
    return seen


def test_pages_of_a_listing_whose_sort_key_has_nulls(ours, theirs):
    """One metric a page, in each order: whether all are there once."""
    whole = {}
    for name, client in both(ours, theirs).items():
        policy = policy_named(client, [("1s", 60)])
        ids = sorted(create_metric(client, policy, **({"unit": "B"} if number % 2 else {})) for number in range(6))
        orders = [f"{way}-nulls{end}" for way in ("asc", "desc") for end in ("first", "last")]
        paths = [f"/v1/metric?archive_policy_name={policy}&limit=1&sort=unit:{order}" for order in orders]
        whole[name] = [sorted(pages(client, path)) == ids for path in paths]
    assert all(whole["gnudi"]) and not all(whole["gnocchi"]), whole


def test_columns_that_nobody_sees(ours, theirs):
    for column in ("last_measure_timestamp", "needs_raw_data_truncation"):
        assert statuses(ours, theirs, "GET", f"/v1/metric?limit=1&sort={column}") == (200, 400)


def test_a_granularity_that_a_double_does_not_hold(ours, theirs):
    found = []
    for client in (theirs, ours):
        metric = create_metric(client, policy_named(client, [(2.11, None)]))
        found.append(client.get(f"{measures_path(metric)}?granularity=2.11").status)
    assert found == [404, 200]


def test_metrics_that_wait_for_the_janitor_are_listed(ours, theirs):
    def is_listed(client):
        policy = policy_named(client, [("1s", 60)])
        metric = create_metric(client, policy)
        client.delete(f"/v1/metric/{metric}").expect(204)
        # Others that wait may fill a page.
        listed = client.get(f"/v1/metric?status=delete&archive_policy_name={policy}").expect(200).json()
        return metric in [one["id"] for one in listed]

    # The janitor comes every five minutes, perhaps just now.
    found = [is_listed(theirs), is_listed(ours) or is_listed(ours)]
    assert found == [False, True]


def test_who_processes(ours, theirs):
    """Gnocchi's API has no worker of its own here, gnudi's process is one."""
    found = [client.get("/v1/status").expect(200).json() for client in (theirs, ours)]
    assert found[0].keys() == found[1].keys()
    assert not found[0]["metricd"]["processors"] and len(found[1]["metricd"]["processors"]) == 1


def test_ids_of_metrics(ours, theirs):
    versions = [uuid.UUID(create_metric(client, policy_named(client, [("1s", 60)]))).version for client in (theirs, ours)]
    assert versions == [4, 7]


def test_the_first_page(ours, theirs):
    found = [client.get("/").expect(200).json() for client in (theirs, ours)]
    assert "gnudi" not in found[0] and found[0]["build"] == found[1]["build"] and found[1]["gnudi"]


def test_a_client_that_would_rather_have_html(ours, theirs):
    headers = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    found = [client.get("/", headers=headers).expect(200).headers["content-type"].split(";")[0] for client in (theirs, ours)]
    assert found == ["application/json", "text/html"]


def test_names_that_match_a_pattern(ours, theirs):
    found = []
    for client in (theirs, ours):
        policy, name = policy_named(client, [("1s", 60)]), unique("pattern")
        for part in ("one", "two"):
            create_metric(client, policy, name=f"{name}.{part}")
        listed = client.get(f"/v1/metric?name_like={name}.o%25&limit=1000").expect(200).json()
        found.append({metric["name"] for metric in listed if (metric["name"] or "").startswith(name)} == {f"{name}.one"})
    assert found == [False, True]


def test_methods_of_counters(ours, theirs):
    found = []
    for client in (theirs, ours):
        methods = client.get("/v1/capabilities").expect(200).json()["aggregation_methods"]
        body = {"name": unique("counter"), "definition": [{"granularity": 60}], "aggregation_methods": ["increase"]}
        found.append((len(methods), client.post("/v1/archive_policy", body).status))
    assert found == [(216, 400), (218, 201)]


def test_a_profile_of_the_server(ours, theirs):
    assert statuses(ours, theirs, "GET", "/debug/flamegraph?seconds=1") == (404, 200)


def test_a_form_of_two_megabytes(ours, theirs):
    body = json.dumps([{"op": "add", "path": "/attributes/x", "value": {"type": "string", "foo": "x" * 2_000_000}}]).encode()
    for client in (ours, theirs):
        client.post("/v1/resource_type", {"name": "deviation-form"}).expect(201)
    headers = {"Content-Type": "application/json-patch+json"}
    assert statuses(ours, theirs, "PATCH", "/v1/resource_type/deviation-form", body, headers) == (400, 413)


def test_a_batch_that_is_refused_creates_nothing(ours, theirs):
    left = []
    for client in (theirs, ours):
        policy, resource = policy_named(client, [("1s", 60)]), unique("resource")
        client.post("/v1/resource/generic", {"id": resource}).expect(201)
        point = [{"timestamp": 1, "value": 1}]
        body = {resource: {"new": {"archive_policy_name": policy, "measures": point}},
                unique("missing"): {"new": {"archive_policy_name": policy, "measures": point}}}
        client.post("/v1/batch/resources/metrics/measures?create_metrics=true", body).expect(400)
        left.append(len(client.get(f"/v1/resource/generic/{resource}").expect(200).json()["metrics"]))
    assert left == [1, 0]


def test_one_resource_written_in_two_ways(ours, theirs):
    """By its name and by the id that the name makes."""
    found = []
    for client in (theirs, ours):
        policy, name = policy_named(client, [("1s", 60)]), unique("twice")
        made = client.post("/v1/resource/generic", {"id": name, "metrics": {
            metric: {"archive_policy_name": policy} for metric in ("a", "b")}}).expect(201).json()
        body = {name: {"a": [{"timestamp": 1, "value": 1}]}, made["id"]: {"b": [{"timestamp": 1, "value": 2}]}}
        status = client.post("/v1/batch/resources/metrics/measures", body).status
        stored = [len(client.get(f"{measures_path(made['metrics'][metric])}?refresh=true").json()) for metric in ("a", "b")]
        found.append((status, stored))
    assert found[1] == (202, [1, 1]) and found[0] != found[1], found


def test_a_value_that_is_called_like_an_operator(ours, theirs):
    found = []
    for client in (theirs, ours):
        answer = client.post("/v1/search/resource/generic?filter=" + "original_resource_id%20%3D%20%22and%22")
        found.append(answer.status)
    assert found[1] == 200 and found[0] != 200, found


def test_values_of_metrics_of_several_policies(ours, theirs):
    """And of one that has never been processed."""
    found = []
    for client in (theirs, ours):
        one = metric_with(client, [("2020-01-01T00:00:01", 5)], [("1s", 60)])
        other = metric_with(client, [("2020-01-01T00:00:01", 5)], [("60s", 60)])
        empty = metric_with(client, [], [("1s", 60)])
        found.append([client.post(f"/v1/search/metric?metric_id={one}&metric_id={second}", {"=": 5}).status for second in (other,
                                                                                                                           empty)])
    assert found[1] == [200, 200] and all(status >= 400 for status in found[0]), found


def test_a_method_that_a_metric_does_not_have(ours, theirs):
    causes = []
    for client in (theirs, ours):
        metric = metric_with(client, [("2020-01-01T00:00:01", 5)], [("1s", 60)])
        answer = client.post(f"/v1/search/metric?metric_id={metric}&aggregation=max", {"=": 5}).expect(400)
        causes.append(answer.json()["description"]["cause"])
    assert causes == ["Metric does not exist", "Aggregation does not exist"]


def test_links_name_the_host_of_a_proxy_without_quotes(ours, theirs):
    found = []
    for client in (theirs, ours):
        policy = policy_named(client, [("1s", 60)])
        headers = {"Forwarded": 'proto=https;host="example.com:8443"'}
        made = client.request("POST", "/v1/metric", {"archive_policy_name": policy}, headers).expect(201)
        found.append(made.headers["location"].split("/v1/")[0])
        headers = {"X-Forwarded-Proto": "https, http", "X-Forwarded-Host": "example.com:8443, inner"}
        made = client.request("POST", "/v1/metric", {"archive_policy_name": policy}, headers).expect(201)
        found.append(made.headers["location"].split("/v1/")[0])
    good = "https://example.com:8443"
    assert found[0] == 'https://"example.com:8443"' and found[1] != good and found[2:] == [good, good]
