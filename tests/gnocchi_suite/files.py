"""Which files of Gnocchi's functional suite, and which steps in them, gnudi has to pass today.

Every step of a file in `PASSING` runs. The steps named in `WAITING` need something that gnudi does not serve yet and
are expected to fail; one that passes fails the test until it is taken off the list, so that the list stays true.
The files in `STILL_TO_COME` don't run: the summary of the test run names them.
"""

PASSING = [
    "aggregates-with-metric-ids",
    "aggregates-with-resources",
    "aggregation",
    "archive",
    "archive-rule",
    "async",
    "base",
    "batch-measures",
    "cors",
    "create-metric-with-resource-id",
    "healthcheck",
    "history",
    "http-proxy-to-wsgi",
    "influxdb",
    "metric",
    "metric-derived",
    "metric-granularity",
    "metric-list",
    "metric-timestamp-format",
    "pagination",
    "prometheus",
    "resample-calendar",
    "resource",
    "resource-aggregation",
    "resource-type",
    "search",
    "search-metric",
    "transformedids",
]

WAITING = {}

STILL_TO_COME = []

# Steps that the suite expects to fail, since Gnocchi fails them, and that gnudi passes: docs/compatibility.md names each.
EXPECTED_TO_FAIL = {
    "influxdb": ["ping influxdb status with head"],
}
