"""Rows of docs/compatibility.md about the processing of measures, each on both servers."""

from differential.deviations import both, measures_path, metric_with, ours, policy_named, push, rows, theirs
from support.http import create_metric

FINE = [("1s", 60)]


def times_and_values(found):
    return [(row[0][14:19], row[2]) for row in found]


def test_requests_that_wait_are_each_a_pass(ours, theirs):
    """Two requests before anybody processes them: the second one's points are late, unless both are one pass."""
    found = {}
    for name, client in both(ours, theirs).items():
        metric = create_metric(client, policy_named(client, FINE, back_window=0))
        for second in (30, 10):
            client.post(measures_path(metric), [{"timestamp": f"2020-01-01T00:00:{second}", "value": 1}]).expect(202)
        found[name] = times_and_values(rows(client, metric))
    assert found == {"gnocchi": [("00:10", 1), ("00:30", 1)], "gnudi": [("00:30", 1)]}
    # One after the other they have the same results.
    for name, client in both(ours, theirs).items():
        metric = metric_with(client, [("2020-01-01T00:00:30", 1)], FINE, back_window=0)
        push(client, metric, [("2020-01-01T00:00:10", 1)])
        assert times_and_values(rows(client, metric)) == [("00:30", 1)], name


def test_granularities_that_do_not_divide_the_coarsest(ours, theirs):
    """A bucket of 7 s across the edge of a minute, which is also the edge of the back window."""
    found = {}
    for name, client in both(ours, theirs).items():
        # 1970-01-01T00:00:56 begins a bucket of 7 s; 01:00 is the edge.
        metric = create_metric(client, policy_named(client, [("7s", 600), ("60s", 60)], back_window=0))
        for second, value in ((57, 1), (61, 2), (62, 4), (65, 8), (125, 16)):
            push(client, metric, [(second, value)])
        found[name] = dict(times_and_values(rows(client, metric, query="&granularity=7")))
    assert found["gnudi"]["00:56"] == 7
    assert found["gnocchi"]["00:56"] != 7, found


def test_buckets_of_a_millisecond(ours, theirs):
    """3,600 of them are 3.6 s: Gnocchi does not find again what it has stored, and loses points."""
    times = [f"2020-09-13T12:26:{40 + ms // 1000:02d}.{ms % 1000:03d}" for ms in range(0, 12_000, 299)]
    found = {}
    for name, client in both(ours, theirs).items():
        metric = create_metric(client, policy_named(client, [(0.001, 100_000)], back_window=3))
        for time in times:
            push(client, metric, [(time, 1)])
        found[name] = len(rows(client, metric))
    assert found["gnudi"] == len(times) > found["gnocchi"]


def test_a_read_counts_the_timespan_from_the_last_value_of_each_method(ours, theirs):
    """Ten buckets, three of which are kept; the last ones have no std. Both servers show the last three that have."""
    for name, client in both(ours, theirs).items():
        metric = create_metric(client, policy_named(client, [("1s", 3)], ["mean", "std"], back_window=0))
        for second in range(10):
            value = [(f"2020-01-01T00:00:0{second}", 1), (f"2020-01-01T00:00:0{second}.5", 2)]
            push(client, metric, value if second < 5 else value[:1])
        found = [[time for time, _ in times_and_values(rows(client, metric, method))] for method in ("mean", "std")]
        assert found == [["00:07", "00:08", "00:09"], ["00:02", "00:03", "00:04"]], name


def test_a_back_window_that_grows(ours, theirs):
    """A late point for a bucket whose other points are gone."""
    found = {}
    for name, client in both(ours, theirs).items():
        policy = policy_named(client, FINE, back_window=0)
        metric = create_metric(client, policy)
        push(client, metric, [("2020-01-01T00:00:10", 4), ("2020-01-01T00:00:10.5", 4)])
        push(client, metric, [("2020-01-01T00:00:20", 1)])
        client.patch(f"/v1/archive_policy/{policy}",
                     {"definition": [{"granularity": "1s", "points": 60}], "back_window": 30}).expect(200)
        push(client, metric, [("2020-01-01T00:00:10.7", 1)])
        found[name] = dict(times_and_values(rows(client, metric)))
    assert found["gnudi"]["00:10"] == 8
    assert found["gnocchi"]["00:10"] != 8, found


def test_zeros_of_both_signs(ours, theirs):
    """The same number; which of them is shown is left to the sort in Gnocchi."""
    for name, client in both(ours, theirs).items():
        for first, second in ((0.0, -0.0), (-0.0, 0.0)):
            metric = metric_with(client, [("2020-01-01T00:00:00.1", first), ("2020-01-01T00:00:00.2", second)], FINE,
                                 ["min", "max"])
            least, most = (rows(client, metric, method)[0][2] for method in ("min", "max"))
            assert least == most == 0
            if name == "gnudi":
                assert (str(least), str(most)) == (str(first), str(second))

