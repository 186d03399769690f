"""Made-up results of a report, and the page that `gnudi-benchmark report --from` makes of them."""

import json

from support.gnudi import run_benchmark


def sample(*servers):
    """A run of these servers that measured nothing."""
    return {
        "written_at": 1_790_000_000, "seconds": 300, "command": "gnudi-benchmark report", "commit": "0123abc",
        "machine": {"processors": 2, "processor": "a processor", "kernel": "6.1", "memory": "8 kB"},
        "versions": [{"name": "gnudi", "version": "0.1.0"}], "measurements": [], "failures": [], "experiments": [],
        "servers": [{"name": name, "durability": "a promise", "missing": None} for name in servers],
    }


def measured(row, peer, rate):
    return {"row": row, "peer": peer, "variant": None, "unit": "measures", "done": rate, "seconds": 1, "calls": 1, "refused": 0,
            "failures": 0, "latency": None, "server_cpu_seconds": None, "generator_cpu_seconds": 0, "server_memory_bytes": None, "notes": []}


def plot(title, lines, logarithmic=False, marks=()):
    axis = {"label": "seconds", "logarithmic": logarithmic}
    return {"title": title, "x": axis, "y": axis, "lines": [{"name": name, "points": points} for name, points in lines],
            "marks": [{"x": x, "label": label} for x, label in marks]}


def experiment(table, title, command, **found):
    findings = {"title": "", "figures": [], "tables": [], "plots": [], "notes": [], "partial": None, **found}
    return {"table": table, "title": title, "command": command, "findings": findings, "missing": None}


def page(results, directory):
    """The path of the page of these results."""
    path, made = directory / "results.json", directory / "report.html"
    path.write_text(json.dumps(results))
    done = run_benchmark("report", "--from", path, "--page", made)
    assert done.returncode == 0, done.stderr
    return made
