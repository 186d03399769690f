"""Which files of Gnocchi's functional suite, and which steps in them, gnudi has to pass today.

Every step of a file in `PASSING` runs. The steps named in `WAITING` need something that gnudi does not serve yet and
are expected to fail; one that passes fails the test until it is taken off the list, so that the list stays true.
The files in `STILL_TO_COME` don't run: the summary of the test run names them.
"""

PASSING = [
    "archive",
    "archive-rule",
    "async",
    "base",
    "batch-measures",
    "cors",
    "healthcheck",
    "http-proxy-to-wsgi",
    "metric",
    "metric-derived",
    "metric-granularity",
    "metric-list",
    "metric-timestamp-format",
    "resample-calendar",
]

RESOURCES = "needs /v1/resource"
AGGREGATES = "needs /v1/aggregates"
AGGREGATION = "needs /v1/aggregation/metric"
BATCH_RESOURCES = "needs /v1/batch/resources/metrics/measures"

WAITING = {
    "async": {
        "make a generic resource": RESOURCES,
        "confirm no metrics yet": RESOURCES,
        "post some measures": RESOURCES,
        "get some measures": RESOURCES,
    },
    "base": {
        "Get list of resource type and URL": RESOURCES,
        "post generic resource": RESOURCES,
        "post generic resource bad id": RESOURCES,
    },
    "batch-measures": {
        "push measurements to unknown named metrics": BATCH_RESOURCES,
        "post a resource": RESOURCES,
        "post a second resource": RESOURCES,
        "push measurements to two named metrics": BATCH_RESOURCES,
        "push measurements to unknown named metrics and create it": BATCH_RESOURCES,
        "push measurements to unknown named metrics and create it with new format": BATCH_RESOURCES,
        "get created metric to check creation": RESOURCES,
        "ensure measure have been posted": RESOURCES,
        "get created metric to check creation with newformat": RESOURCES,
        "get created metric to check creation with newformat2": RESOURCES,
        "ensure measure have been posted with newformat": RESOURCES,
        "ensure measure have been posted with newformat2": RESOURCES,
        "push measurements to unknown named metrics and resource with create_metrics with uuid resource id":
            BATCH_RESOURCES,
        "push measurements to unknown named metrics and resource with create_metrics with uuid resource id "
        "where resources is several times listed": BATCH_RESOURCES,
        "push measurements to unknown named metrics and resource with create_metrics with non uuid resource id":
            BATCH_RESOURCES,
        "push measurements to named metrics and resource with create_metrics with wrong measure objects":
            BATCH_RESOURCES,
    },
    "metric": {
        "get measurements from metric and resample and negative": AGGREGATES,
        "get absolute measurements from metric": AGGREGATES,
        "rolling-mean": AGGREGATES,
        "get measurements from metric and two operations": AGGREGATES,
        "get measurements from metric and invalid operations": AGGREGATES,
        "get measure unknown aggregates": AGGREGATION,
        "aggregate measure unknown metric": AGGREGATION,
    },
}

STILL_TO_COME = [
    "aggregates-with-metric-ids",
    "aggregates-with-resources",
    "aggregation",
    "create-metric-with-resource-id",
    "history",
    "influxdb",
    "pagination",
    "prometheus",
    "resource",
    "resource-aggregation",
    "resource-type",
    "search",
    "search-metric",
    "transformedids",
]
