"""Help is quick and complete: it is shown before anything is opened or loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

LISTING = """
import sys
sys.argv = ["upthread", *{arguments!r}]
from upthread.__main__ import main
code = main()
sys.stderr.write("\\n".join(["", "loaded:", *sys.modules]))
sys.exit(code)
"""
NEVER = {
    *("acp", "mcp", "rich", "prompt_toolkit", "psycopg", "pydantic", "yaml", "apsw", "anyio"),
    *("upthread.surfaces.cli.verbs.tell", "upthread.agents.acp"),
}


@pytest.mark.soak
@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("tell", "--help")])
def test_help_loads_no_store_no_agent_and_no_framework(shared, arguments):
    child = subprocess.run(
        [sys.executable, "-c", LISTING.format(arguments=arguments)],
        cwd=shared.directory,
        env=shared.environment,
        capture_output=True,
        timeout=60,
        text=True,
        check=True,
    )
    loaded = set(child.stderr.partition("loaded:\n")[2].split("\n"))
    assert "upthread.surfaces.cli.program" in loaded
    assert not loaded & NEVER


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
