"""Prints, at the end of a run, how much of Gnocchi's functional suite passes."""


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    counts = [dict(report.user_properties) for report in reports if "gnocchi_suite" in report.nodeid]
    counts = [count for count in counts if "steps_passed" in count]
    if not counts:
        return
    write = terminalreporter.write_line
    terminalreporter.section("Gnocchi's functional suite")
    passed, steps = (sum(count[name] for count in counts) for name in ("steps_passed", "steps"))
    write(f"{passed} of {steps} steps passed in {len(counts)} files")
