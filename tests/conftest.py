"""What all tests share: when soak tests run, and the matrix of store promises at the end."""

from __future__ import annotations

import os

from upthread.testing.postgres_server import remove_server
from upthread.testing.store_conformance import matrix


def pytest_collection_modifyitems(config, items):
    """Leave the long versions to `make soak`."""
    if os.environ.get("UPTHREAD_SOAK"):
        return
    long_ones = [item for item in items if item.get_closest_marker("soak")]
    if long_ones:
        config.hook.pytest_deselected(items=long_ones)
        items[:] = [item for item in items if item not in long_ones]


def pytest_sessionfinish(session):
    """Stop the server for tests here: a worker that is told to end is not given time for it."""
    remove_server()


def pytest_terminal_summary(terminalreporter):
    verdicts = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == "store promise":
                    promise, backend, verdict = value
                    verdicts[promise, backend] = verdict
    if verdicts:
        terminalreporter.section("promises of the stores")
        terminalreporter.write_line(matrix(verdicts))
