"""Prints, at the end of a run, how much of Gnocchi's functional suite passes and what is still to come."""

from gnocchi_suite import files, steps


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    counts = [dict(report.user_properties) for report in reports if "gnocchi_suite" in report.nodeid]
    counts = [count for count in counts if "steps_passed" in count]
    if not counts:
        return
    write = terminalreporter.write_line
    terminalreporter.section("Gnocchi's functional suite")
    write(f"{sum(count['steps_passed'] for count in counts)} steps passed in {len(counts)} files")
    waiting = sum(len(names) for names in files.WAITING.values())
    write(f"{waiting} steps of these files are still to come:")
    for file, names in files.WAITING.items():
        reasons = ", ".join(sorted(set(names.values())))
        write(f"  {file}: {len(names)} ({reasons})")
    write(f"{len(files.STILL_TO_COME)} files are still to come:")
    for file in files.STILL_TO_COME:
        write(f"  {file}: {len(steps.load(file)['tests'])} steps")
