"""What all tests share: a HOME that is nobody's, when soak tests run, what is told at the end."""

import os
import signal

import pytest
from _pytest.nodeid import NodeId
from hypothesis import settings
from tests.support import repeating
from tests.support.postgres_server import (
    database_at,
    drop_database_at,
    migrated_database_at,
    remove_server,
)
from tests.support.thoroughness import EXAMPLES, IS_SOAK

from upthread.testing.store_conformance import matrix

# A shared machine's pauses are no property of the code; the tests' own time-out still holds.
# Only `make soak` draws new examples: elsewhere a failure is of the change that is tested.
settings.register_profile(
    "shared machine", deadline=None, derandomize=not IS_SOAK, max_examples=EXAMPLES
)
settings.load_profile("shared machine")

NOBODYS_HOME = "/dev/null/home"
"""Nothing can be read or made there, by root neither. A test that needs a HOME makes one."""

OTHER_HOMES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCODE_CONFIG_DIR")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def fresh_address(tmp_path):
    """An empty database."""
    yield database_at(tmp_path)
    drop_database_at(tmp_path)


@pytest.fixture
def address(tmp_path):
    """A database with our schema."""
    yield migrated_database_at(tmp_path)
    drop_database_at(tmp_path)


def pytest_configure():
    """Take the user's own HOME away from all tests, and from all they start."""
    # A shell starts background jobs with Ctrl-C ignored, nohup with SIGHUP, and child processes
    # would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ["HOME"] = NOBODYS_HOME
    for name in list(os.environ):
        if name.startswith(("XDG_", "GIT_CONFIG")) or name in OTHER_HOMES:
            del os.environ[name]


def _name_groups(items):
    """Pytest-xdist 3.8 names them in an attribute that pytest 9.2 no longer reads.

    Tests that share a fixture of their module share a worker: two workers would build it twice.
    """
    for item in items:
        groups = {mark.args[0] for mark in item.iter_markers("xdist_group")}
        if not groups and _has_module_fixture(item):
            groups = {item.path.stem}
        if groups and "@" not in item.nodeid:
            item._id = NodeId.parse(f"{item.nodeid}@{'_'.join(sorted(groups))}")


def _has_module_fixture(item):
    definitions = item._fixtureinfo.name2fixturedefs.values()
    own = item.nodeid.partition("::")[0]
    return any(each.scope == "module" and each.baseid == own for (*_, each) in definitions)


def pytest_collection_modifyitems(config, items):
    """Name the groups of tests where pytest-xdist looks; leave the long versions to `make soak`."""
    if getattr(config.option, "loadgroup", False):
        _name_groups(items)
    if os.environ.get("UPTHREAD_SOAK"):
        return
    long_ones = [item for item in items if item.get_closest_marker("soak")]
    if long_ones:
        config.hook.pytest_deselected(items=long_ones)
        items[:] = [item for item in items if item not in long_ones]


def pytest_sessionfinish(session):
    """Stop the server for tests here: a worker that is told to end is not given time for it."""
    remove_server()
    repeating.fail_for_flaky(session)


def pytest_terminal_summary(terminalreporter):
    repeating.print_flaky(terminalreporter)
    promises = properties(terminalreporter, "store promise")
    if promises:
        verdicts = {(promise, backend): verdict for promise, backend, verdict in promises}
        terminalreporter.section("promises of the stores")
        terminalreporter.write_line(matrix(verdicts))


def properties(terminalreporter, wanted):
    return [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, value in getattr(report, "user_properties", ())
        if name == wanted and report.when == "call"
    ]
