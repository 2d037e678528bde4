"""What all tests share: the matrix of store promises, printed at the end of a run."""

from __future__ import annotations

from upthread.testing.store_conformance import matrix


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
