"""The steps of Gnocchi's functional suite that gnudi does not pass, on purpose: docs/compatibility.md has each.

Such a step runs, too, and must fail: one that passes fails the test until it is taken off the list. All others pass.
"""

LABELS = "Gnocchi drops labels, so that series which differ in them become one metric; gnudi keeps them in the name"

DEVIATING = {
    "prometheus": {
        "ensure one resource have all metrics created": LABELS,
        "check metrics": LABELS,
    },
}
