"""The steps of Gnocchi's functional suite that gnudi deliberately answers differently: docs/compatibility.md has each."""

# Steps that the suite expects to fail, since Gnocchi fails them, and that gnudi passes.
BETTER = {
    "influxdb": ["ping influxdb status with head"],
}
