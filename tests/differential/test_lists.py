"""Listing metrics: filters, sorts and pages, with Link headers, as Gnocchi has them."""

import itertools
import json

import pytest

from support.http import create_policy

CREATORS = ["alice", "bob:project", "admin"]
UNITS = ["list-B", "list-ns", None]
POLICIES = ["listed-a", "listed-b"]
COUNT = 12
PAGES_MAX = COUNT + 2

FILTERS = ["", "unit=list-B", "unit=nothing", "name=list-07", "creator=alice", "creator=nobody", "user_id=bob&project_id=project",
           "user_id=alice", "project_id=nothing", "archive_policy_name=listed-b", "status=active", "status=delete",
           "unit=list-B&archive_policy_name=listed-a", "unit=list-B;archive_policy_name=listed-a;",
           "unit=list-ns&creator=alice&foo=bar", "name=list-07&unit=nothing", "sorts=unit&unit=list-B"]
# By name in the end, since ids differ between the servers.
SORTS = ["sort=name", "sort=name:asc", "sort=name:desc", "sort=archive_policy_name:desc&sort=name",
         "sort=creator&sort=name:desc", "sort=creator:desc-nullslast&sort=name", "sort=name:desc-"]
# Over metrics of which some have no unit. Gnocchi's pages lose those, or never end.
UNIT_SORTS = ["sort=unit:asc-nullsfirst&sort=name", "sort=unit:desc-nullslast&sort=name:desc",
              "sort=unit:asc-nullslast&sort=name", "sort=unit:desc-nullsfirst&sort=name"]
LIMITS = ["", "limit=1", "limit=5", "limit=1000"]


def fill(client):
    """Metrics of all kinds; answers {id: name}."""
    for policy in POLICIES:
        create_policy(client, policy, [("1s", 60)], aggregation_methods=["mean"])
    names = {}
    for number in range(COUNT):
        name = f"list-{number:02d}"
        body = {"archive_policy_name": POLICIES[number % 2], "name": name}
        unit = UNITS[number % 3]
        body |= {"unit": unit} if unit else {}
        created = client.as_user(CREATORS[number // 2 % 3]).post("/v1/metric", body).expect(201).json()
        names[created["id"]] = name
    return names


class Side:
    """One server, and the names of its metrics by id."""

    def __init__(self, client):
        self.client, self.names = client, fill(client)

    def pages(self, query):
        """Every page of a listing, ids replaced by names: [(status, text, link)]."""
        pages, path = [], f"/v1/metric?{query}"
        for _ in range(PAGES_MAX):
            answer = self.client.get(path)
            link = answer.headers.get("link", "")
            pages.append((answer.status, self.plain(answer.body.decode()), self.plain(link)))
            if not link:
                return pages
            path = link[1:link.index(">")].partition(f":{self.client.port}")[2]
        raise AssertionError(f"{query}: the pages have no end")

    def plain(self, text):
        for id, name in self.names.items():
            text = text.replace(id, name)
        return text.replace(f"127.0.0.1:{self.client.port}", "SERVER")


@pytest.fixture(scope="module")
def sides(ours, theirs):
    return Side(ours), Side(theirs)



@pytest.mark.parametrize("sort", SORTS)
def test_filters_and_pages(sides, sort):
    ours, theirs = sides
    for parameters in itertools.product(FILTERS, LIMITS):
        # Other tests' metrics have no names like these; a filter keeps them out.
        query = "&".join(filter(None, [*parameters, sort]))
        if parameters[0] in ("", "status=active", "status=delete"):
            query += "&archive_policy_name=listed-a"
        assert ours.pages(query) == theirs.pages(query), query


@pytest.mark.parametrize("sort", UNIT_SORTS)
def test_where_metrics_without_a_unit_come(sides, sort):
    ours, theirs = sides
    for query in (f"archive_policy_name=listed-a&{sort}", f"archive_policy_name=listed-b&{sort}"):
        assert ours.pages(query) == theirs.pages(query), query


@pytest.mark.parametrize("sort", UNIT_SORTS)
def test_pages_over_metrics_without_a_unit_are_whole(sides, sort):
    """What Gnocchi doesn't do: the pages together are the list, each metric once."""
    ours = sides[0]
    whole = ours.client.get(f"/v1/metric?archive_policy_name=listed-a&{sort}").json()
    paged = [metric for _, text, _ in ours.pages(f"limit=1&archive_policy_name=listed-a&{sort}")
             for metric in json.loads(text)]
    assert [metric["name"] for metric in paged] == [metric["name"] for metric in whole]
    assert len(whole) == COUNT // 2


def test_a_resources_metrics_come_by_id(ours, theirs):
    path = "/v1/resource/generic/list-resource"
    for client in (theirs, ours):
        create_policy(client, "listed-c", [("1s", 60)])
        client.post("/v1/resource/generic", {"id": "list-resource"}).expect(201)
        for name in "hgfedcba":
            client.post(f"{path}/metric", {name: {"archive_policy_name": "listed-c"}}).expect(200)
        ids = [metric["id"] for metric in client.get(f"{path}/metric").expect(200).json()]
        assert len(ids) == 8 and ids == sorted(ids)
        client.delete(path).expect(204)


def test_accept_may_stand_several_times(ours, theirs):
    headers = {"Accept": "text/html", "accept": "application/json"}
    assert [client.request("GET", "/v1/metric?limit=1", None, headers).status for client in (theirs, ours)] == [200, 200]
