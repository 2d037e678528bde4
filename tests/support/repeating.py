"""A failed test of the real agents is repeated once; if it then passes or is skipped, it is flaky.

The real agents are other people's programs on a shared machine. One flaky test in a run is a
report, two fail the run, and a test that fails twice has failed. This happens in CI, or with
UPTHREAD_REPEAT_FAILED=1.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

FLAKY_MAX = 1
PROPERTY = "flaky test"
FILE_VARIABLE = "UPTHREAD_FLAKY_FILE"
"""The variable that names the file with the flaky tests of a whole CI run, one a line."""
IS_REPEATED = pytest.StashKey[bool]()
FLAKY_OF_RUN = pytest.StashKey[list[str]]()


def is_on() -> bool:
    return bool(os.environ.get("CI")) or os.environ.get("UPTHREAD_REPEAT_FAILED") == "1"


def run_and_repeat(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test, and once more if it failed: for the hook `pytest_runtest_protocol`.

    The repetition calls the whole hook again, so that pytest-timeout starts its timer anew.
    """
    if not is_on():
        return None
    is_first = not item.stash.get(IS_REPEATED, False)
    if is_first:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failed = [report for report in reports if report.failed]
    if failed and is_first:
        _forget_failed_fixtures(item)
        crash = getattr(failed[0].longrepr, "reprcrash", None)
        why = (crash.message if crash else failed[0].longreprtext).strip().splitlines()[0]
        item.user_properties.append((PROPERTY, f"{item.nodeid}: {failed[0].when}: {why}"))
        item.stash[IS_REPEATED] = True
        item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return True
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _forget_failed_fixtures(item: Any) -> None:
    """Let a fixture of the module be made again, because pytest keeps its exception."""
    item._initrequest()
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            if definition.cached_result and definition.cached_result[2] is not None:
                definition.finish(item._request)


def flaky_tests(config: pytest.Config) -> list[str]:
    """Return the tests that failed and then did not, each with the reason of its failure.

    A test that is skipped the second time counts too. Each test has one report of its teardown,
    which pytest lists under "".
    """
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist: the main process reports
        return []
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    failed = {report.nodeid for report in reporter.getreports("failed")}
    failed |= {report.nodeid for report in reporter.getreports("error")}
    return [
        value
        for report in reporter.getreports("")
        for name, value in report.user_properties
        if name == PROPERTY and report.when == "teardown" and report.nodeid not in failed
    ]


def fail_for_flaky(session: pytest.Session) -> None:
    """Fail a run with too many flaky tests: for the hook `pytest_sessionfinish`.

    A CI run has several sessions. Each appends its flaky tests to the same file.
    """
    flaky = flaky_tests(session.config)
    if flaky and (file := os.environ.get(FILE_VARIABLE)):
        with Path(file).open("a+", encoding="utf-8") as of_run:
            of_run.writelines(f"{line}\n" for line in flaky)
            of_run.seek(0)
            flaky = of_run.read().splitlines()
    session.config.stash[FLAKY_OF_RUN] = flaky
    if len(flaky) > FLAKY_MAX and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def print_flaky(reporter: Any) -> None:
    """Print a line for each flaky test: for the hook `pytest_terminal_summary`."""
    flaky = reporter.config.stash.get(FLAKY_OF_RUN, [])
    for line in flaky:
        reporter.write_line(f"flaky: {line}")
    if len(flaky) > FLAKY_MAX:
        reporter.write_line(f"flaky: {len(flaky)} tests; more than {FLAKY_MAX} fail the run")
