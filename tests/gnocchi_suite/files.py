"""The steps of Gnocchi's functional suite with which gnudi differs on purpose: docs/compatibility.md names each."""

# Steps that the suite expects to fail, since Gnocchi fails them, and that gnudi passes.
BETTER = {
    "influxdb": ["ping influxdb status with head"],
}
