"""Light verbs stay light: what they must not load is not loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

LISTING = """
import sys
started, opened = [], []
def hear(event, arguments):
    if event in {{"subprocess.Popen", "os.fork", "os.posix_spawn"}}:
        started.append(event)
    elif event == "open" and not str(arguments[0]).endswith((".py", ".pyc")):
        # How many processes stand above this one is the affair of whoever runs the tests.
        if not str(arguments[0]).startswith("/proc/"):
            opened.append(arguments[0])
sys.addaudithook(hear)
sys.argv = ["upthread", *{arguments!r}]
from upthread.__main__ import main
code = main()
counts = [len(started), len(opened)]
sys.stderr.write("\\n".join(["", "loaded:", *sys.modules, "counted:", *map(str, counts)]))
sys.exit(code)
"""
LONG_AGO_S = 1_700_000_000
NEVER = {
    *("acp", "mcp", "rich", "prompt_toolkit", "psycopg", "pydantic", "argcomplete", "yaml"),
    *("asyncio", "anyio", "ssl", "upthread.surfaces.cli.verbs.tell", "upthread.agents.acp"),
    *("subprocess", "tempfile", "upthread.boundary.git.process"),
}
"""No verb that only reads loads these: frameworks, agents, an event loop, and git."""


class Loaded(NamedTuple):
    """What a verb loaded, how many processes it started, how many files that are no code it read.

    Files that the engine of the database opens are not among them.
    """

    modules: set[str]
    processes: int
    files: int


def loaded(up, *arguments: str) -> set[str]:
    return measured(up, *arguments).modules


def measured(up, *arguments: str) -> Loaded:
    child = subprocess.run(
        [sys.executable, "-c", LISTING.format(arguments=arguments)],
        cwd=up.directory,
        env=up.environment,
        capture_output=True,
        timeout=60,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    modules, _, counts = child.stderr.partition("loaded:\n")[2].partition("\ncounted:\n")
    return Loaded(set(modules.split("\n")), *map(int, counts.split()))


def begin(up) -> None:
    """Have a session, and files that nobody is writing: the next verb remembers them."""
    if not (up.home / "upthread" / "upthread.db").exists():
        told = loaded(up, "tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
        assert told >= {"asyncio", "anyio", "upthread.surfaces.cli.verbs.tell"}, (
            "the names are right"
        )
        # The front matter of the shipped roles is plain, so not even a turn loads YAML's parser.
        assert not {"acp", "pydantic", "mcp", "yaml"} & told
        age(up)
        up("id", "w/planner")


def age(up) -> None:
    """Make files as old as those that nobody is writing: younger ones are not remembered."""
    for top in (up.directory, up.home / "upthread"):
        for folder, _, names in os.walk(top):
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                os.utime(path, (LONG_AGO_S, LONG_AGO_S))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("arguments", "modules_max", "files_max", "banned"),
    [
        (("--version",), 115, 0, {"apsw", "msgspec"}),
        (("--help",), 120, 0, {"apsw", "argparse"}),
        (("tell", "--help"), 140, 0, {"apsw", "msgspec"}),
        (("id", "w/planner"), 104, 6, {"msgspec", "json", "argparse", "tomllib"}),
        (("id", "w/planner", "--json"), 104, 6, {"msgspec", "json", "argparse", "tomllib"}),
        (("--json", "id", "w/planner"), 235, 18, {"tomllib"}),
        (("ls",), 235, 20, {"tomllib", "dataclasses", "socket", "json"}),
        (("show", "w"), 245, 20, {"tomllib", "dataclasses", "socket", "json"}),
        (("why", "w/planner"), 345, 50, {"re2", "dataclasses", "socket"}),
    ],
)
def test_a_verb_that_reads_loads_few_modules_and_files_and_starts_nothing(
    shared, arguments, modules_max, files_max, banned
):
    begin(shared)
    found = measured(shared, *arguments)
    assert found.modules & (NEVER | banned) == set()
    assert len(found.modules) <= modules_max
    assert found.files <= files_max
    assert found.processes == 0


def test_help_shows_the_daily_verbs_first_and_version_is_one_line(shared):
    text = shared("--help").out
    verbs = ["tell", "run", "answer", "ls", "show", "why", "id", "open"]
    rest = ["setup", "use", "status", "mcp", "adopt", "reset", "audit", "agents", "demo"]
    daily, more = text.split("\nEvery day:")[1].split("\nMore:")

    for name, part in [*((verb, daily) for verb in verbs), *((verb, more) for verb in rest)]:
        assert f"\n  {name} " in part
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert shared("-h").out == text
    assert shared("--version").out.startswith("upthread ")
    assert shared("demo", "--help").out.count("--keep") == 1


def test_help_is_shown_whatever_else_the_line_holds(shared):
    page = shared("tell", "--help").out
    assert page.startswith("Usage: upthread tell [OPTIONS] ADDRESS [TEXT]\n")
    for words in (("tell", "-h"), ("tell", "--nonsense", "--help"), ("--json", "tell", "x", "-h")):
        assert shared(*words).out == page
    assert shared("reset", "a/b", "-yh").out.startswith("Usage: upthread reset ")


def test_the_second_directory_is_seen_from_the_first(shared):
    above, own = str(shared.directory.parent), shared.directory.name
    told = shared("-C", above, "ls", "-C", own, "--json").json
    assert told == shared("ls", "--json").json
