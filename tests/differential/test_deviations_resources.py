"""Rows of docs/compatibility.md about resources and their types, each on both servers."""

import json
import uuid

import pytest

from differential.deviations import ours, policy_named, theirs, unique

PATCH = {"Content-Type": "application/json-patch+json"}


def type_with(client, **attributes):
    name = unique("type")
    client.post("/v1/resource_type", {"name": name, "attributes": attributes}).expect(201)
    return name


def text(**more):
    return {"type": "string", "required": False, **more}


def test_a_change_by_the_generic_type_is_in_the_history_of_the_own(ours, theirs):
    found = []
    for client in (theirs, ours):
        kind, name = type_with(client, host=text()), unique("resource")
        resource = client.post(f"/v1/resource/{kind}", {"id": name, "host": "a"}).expect(201).json()["id"]
        client.patch(f"/v1/resource/generic/{resource}", {"project_id": "p"}).expect(200)
        found.append([len(client.get(f"/v1/resource/{of}/{resource}/history").expect(200).json()) for of in (kind, "generic")])
    assert found == [[1, 2], [2, 2]]


@pytest.mark.parametrize("body", [
    {"ended_at": None}, {"id": [1]}, {"started_at": None}, {"user_id": "a\0b"}, {"user_id": "u" * 300},
])
def test_what_fails_there_is_refused_here(ours, theirs, body):
    statuses = [client.post("/v1/resource/generic", {"id": unique("odd"), **body}).status for client in (theirs, ours)]
    assert statuses[1] == 400, statuses
    assert statuses[0] in (400, 500), statuses


def test_a_metric_of_a_resource_that_is_not_there(ours, theirs):
    found = []
    for client in (theirs, ours):
        body = {"archive_policy_name": policy_named(client, [("1s", 60)]), "name": "x", "resource_id": str(uuid.uuid4())}
        found.append(client.post("/v1/metric", body).status)
    assert found == [500, 404]


def test_a_patch_of_the_generic_type(ours, theirs):
    body = [{"op": "add", "path": "/attributes/x", "value": text()}]
    assert [client.patch("/v1/resource_type/generic", body, headers=PATCH).status for client in (theirs, ours)] == [500, 400]


def test_types_are_active(ours, theirs):
    """Gnocchi's pass through other states, too short to be seen reliably; in the end both are active."""
    for client in (ours, theirs):
        name = type_with(client, host=text())
        assert client.get(f"/v1/resource_type/{name}").expect(200).json()["state"] == "active"
        client.patch(f"/v1/resource_type/{name}", [{"op": "remove", "path": "/attributes/host"}], headers=PATCH).expect(200)
        assert client.get(f"/v1/resource_type/{name}").expect(200).json()["state"] == "active"


def test_a_new_attribute_shows_its_fill_on_old_resources(ours, theirs):
    """Written by Gnocchi, filled in by gnudi's readers; revisions of the past, too."""
    found = []
    for client in (theirs, ours):
        kind, name = type_with(client), unique("filled")
        resource = client.post(f"/v1/resource/{kind}", {"id": name}).expect(201).json()["id"]
        client.patch(f"/v1/resource/{kind}/{resource}", {"project_id": "p"}).expect(200)
        body = [{"op": "add", "path": "/attributes/host",
                 "value": {"type": "string", "required": True, "options": {"fill": "f"}}}]
        client.patch(f"/v1/resource_type/{kind}", body, headers=PATCH).expect(200)
        shown = client.get(f"/v1/resource/{kind}/{resource}").expect(200).json()["host"]
        searched = len(client.post(f"/v1/search/resource/{kind}", {"=": {"host": "f"}}).expect(200).json())
        history = [revision["host"] for revision in client.get(f"/v1/resource/{kind}/{resource}/history").expect(200).json()]
        found.append((shown, searched, history))
    assert found[0] == found[1] == ("f", 1, ["f", "f"]), found


def test_numbers_are_shown_as_floats_at_once(ours, theirs):
    found = []
    for client in (theirs, ours):
        kind = type_with(client, size={"type": "number", "required": False})
        made = client.post(f"/v1/resource/{kind}", {"id": unique("number"), "size": 2}).expect(201)
        shown = client.get(f"/v1/resource/{kind}/{made.json()['id']}").expect(200)
        found.append([b'"size": 2.0' in answer.body for answer in (made, shown)])
    assert found == [[False, True], [True, True]]


def test_an_attribute_that_every_resource_has_already(ours, theirs):
    body = {"attributes": {"original_resource_id": text()}}
    found = [client.post("/v1/resource_type", {"name": unique("type"), **body}).status for client in (theirs, ours)]
    assert found == [201, 400]


def test_a_start_after_the_end_is_told_with_the_end(ours, theirs):
    found = []
    for client in (theirs, ours):
        resource = client.post("/v1/resource/generic", {"id": unique("ended"), "started_at": "2014-01-01",
                                                        "ended_at": "2014-01-02"}).expect(201).json()["id"]
        answer = client.patch(f"/v1/resource/generic/{resource}", {"started_at": "2014-01-03"}).expect(400)
        found.append(b"object object at 0x" in answer.body)
    assert found == [True, False]


def test_listings_need_a_user(ours, theirs):
    for path in ("/v1/metric?limit=1", "/v1/resource/generic?limit=1"):
        found = [client.get(path, headers={"Authorization": None}).status for client in (theirs, ours)]
        assert found == [200, 401], path


def test_who_may_not_create_a_type_is_told_so_first(ours, theirs):
    body = {"name": "mine", "attributes": {"id": text()}}
    found = [client.as_user("mallory").post("/v1/resource_type", body).status for client in (theirs, ours)]
    assert found == [400, 403]


def test_a_search_of_the_history_goes_by_the_whole_filter(ours, theirs):
    """`or` across a column and an attribute."""
    found = []
    for client in (theirs, ours):
        kind = type_with(client, host=text())
        resource = client.post(f"/v1/resource/{kind}",
                               {"id": unique("searched"), "host": "a", "project_id": "p"}).expect(201).json()["id"]
        client.patch(f"/v1/resource/{kind}/{resource}", {"host": "b", "project_id": "q"}).expect(200)
        query = {"or": [{"=": {"host": "a"}}, {"=": {"project_id": "q"}}]}
        answer = client.post(f"/v1/search/resource/{kind}?history=true", query)
        listed = client.post(f"/v1/search/resource/{kind}?history=true", {"in": {"host": ["a", "b"]}})
        found.append((len(answer.json()), listed.status))
    assert found[1] == (2, 200) and found[0] != found[1], found


@pytest.mark.parametrize("query", [
    {"<": {"project_id": None}}, {"=": {"flag": "foobar"}}, {"like": {"started_at": "2014"}}, {"<": {"lifespan": -1}},
])
def test_filters_without_a_meaning(ours, theirs, query):
    found = []
    for client in (theirs, ours):
        kind = type_with(client, flag={"type": "bool", "required": False})
        client.post(f"/v1/resource/{kind}", {"id": unique("searched")}).expect(201)
        found.append(client.post(f"/v1/search/resource/{kind}", query).status)
    assert found[1] == 400 and found[0] in (200, 400, 500), found


def test_a_time_that_is_none(ours, theirs):
    query = {">": {"started_at": "nan"}}
    found = [client.post("/v1/search/resource/generic", query).status for client in (theirs, ours)]
    assert found[1] == 400 and found[0] != 400, found


def test_texts_sort_by_their_bytes(ours, theirs):
    """What a database does depends on its locale."""
    found = []
    for client in (theirs, ours):
        kind = type_with(client, host=text())
        for host in ("b", "B", "a", "é", "Z"):
            client.post(f"/v1/resource/{kind}", {"id": unique("sorted"), "host": host}).expect(201)
        hosts = [one["host"] for one in client.get(f"/v1/resource/{kind}?sort=host:asc").expect(200).json()]
        found.append(hosts)
    assert found[1] == ["B", "Z", "a", "b", "é"]
    assert sorted(found[0]) == sorted(found[1])


def test_a_detailed_list_keeps_the_order_that_was_asked_for(ours, theirs):
    orders = []
    for client in (theirs, ours):
        kind, project = type_with(client, host=text()), unique("project")
        for number in range(9):
            client.post(f"/v1/resource/{kind}", {"id": unique("detailed"), "project_id": project,
                                                              "user_id": f"u{8 - number}"}).expect(201)
        query = f"details=true&sort=user_id:asc&filter=project_id%3D%22{project}%22"
        found = client.post(f"/v1/search/resource/generic?{query}").expect(200).json()
        orders.append([resource["user_id"] for resource in found])
    assert orders[1] == sorted(orders[1]) and len(orders[1]) == 9
    assert sorted(orders[0]) == orders[1] and orders[0] != orders[1], orders


def test_the_next_page_of_a_search(ours, theirs):
    """Has the request's arguments, not the keys of its body."""
    links = []
    for client in (theirs, ours):
        project = unique("project")
        for _ in range(3):
            client.post("/v1/resource/generic", {"id": unique("paged"), "project_id": project}).expect(201)
        answer = client.post("/v1/search/resource/generic?limit=2&sort=id:asc", {"=": {"project_id": project}}).expect(200)
        links.append(answer.headers["link"])
    assert "project_id" in links[0] or "%3D" in links[0], links
    assert "project_id" not in links[1] and "limit=2" in links[1] and "sort=id" in links[1], links


def test_a_wide_filter(ours, theirs):
    wide = {"or": [{"=": {"project_id": str(number)}} for number in range(2500)]}
    found = [client.post("/v1/search/resource/generic", json.dumps(wide).encode()).status for client in (theirs, ours)]
    assert found[1] == 400 and found[0] != 400, found


def test_nan_is_no_number(ours, theirs):
    found = []
    for client in (theirs, ours):
        kind = type_with(client, size={"type": "number", "required": False})
        body = b'{"id": "%s", "size": NaN}' % unique("nan").encode()
        found.append(client.post(f"/v1/resource/{kind}", body).status)
    assert found == [201, 400]
