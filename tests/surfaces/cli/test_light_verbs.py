"""Light verbs stay light: what they must not load is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

LISTING = """
import sys
from upthread.surfaces.cli.__main__ import main
code = main({arguments!r})
sys.stderr.write("\\n".join(["", "loaded:", *sys.modules]))
sys.exit(code)
"""
HEAVY = {
    *("acp", "acp.schema", "mcp", "rich.live", "rich.status", "rich.progress", "prompt_toolkit"),
    *("psycopg", "psycopg_binary"),
}
STORES_OF_AGENTS = {"upthread.agents.opencode.histories", "upthread.agents.claude_code.histories"}
OF_AGENTS = {"upthread.agents.acp", "upthread.surfaces.cli.verbs.tell"}
OF_A_LOOP = {"asyncio", "anyio", "ssl", "concurrent.futures"}
NOT_FOR_AN_ID = {
    *("upthread.runtime.record.overview", "upthread.core.states", "upthread.core.outward.calls"),
    *("upthread.core.turns.recognition", "upthread.runtime.turns.conversation"),
}
OF_THE_STORE = {"apsw", "upthread.client", "asyncio", "anyio", "msgspec", "yaml"}


def loaded(up, *arguments: str) -> set[str]:
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
    return set(child.stderr.partition("loaded:\n")[2].split("\n"))


@pytest.mark.parametrize(
    ("arguments", "banned"),
    [
        (("--version",), HEAVY | OF_AGENTS | OF_THE_STORE),
        (("--help",), HEAVY | OF_AGENTS | OF_THE_STORE),
        (("tell", "--help"), HEAVY | OF_AGENTS | OF_THE_STORE),
        (("id", "w/planner"), HEAVY | OF_AGENTS | STORES_OF_AGENTS | OF_A_LOOP | NOT_FOR_AN_ID),
        (("ls",), HEAVY | OF_AGENTS | STORES_OF_AGENTS | OF_A_LOOP),
        (("show", "w"), HEAVY),
    ],
)
def test_light_verb_does_not_load_what_it_does_not_need(shared, arguments, banned):
    if not (shared.home / "upthread" / "upthread.db").exists():
        told = loaded(shared, "tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
        assert told >= OF_A_LOOP, "the names that are banned are those that are loaded"
        assert not {"acp", "pydantic", "mcp"} & told
    assert loaded(shared, *arguments) & banned == set()


def test_help_shows_the_daily_verbs_first_and_version_is_one_line(shared):
    text = shared("--help").out
    verbs = ["tell", "run", "answer", "ls", "show", "why", "id", "open"]
    rest = ["setup", "use", "status", "mcp", "adopt", "reset", "audit", "agents", "demo"]
    daily, more = text.split("Every day")[1].split("More")

    for name, part in [*((verb, daily) for verb in verbs), *((verb, more) for verb in rest)]:
        assert f"│ {name} " in part
    assert "\x1b" not in text
    assert shared().out == text, "upthread alone"
    assert shared("--version").out.startswith("upthread ")
    assert shared("demo", "--help").out.count("--keep") == 1


def test_global_options_stand_before_or_after_the_verb(shared):
    elsewhere = str(shared.home / "other.db")
    for arguments in (
        ("--json", "--db", elsewhere, "-C", str(shared.directory / "greeter"), "ls"),
        ("ls", "--directory", str(shared.directory), "--db", f"sqlite:///{elsewhere}", "--json"),
    ):
        assert shared(*arguments).json == {"schema": 1, "workstreams": []}


def test_shell_completes_addresses_and_never_shows_an_error(shared):
    shared("tell", "complete-me/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    asked = {
        "_UPTHREAD_COMPLETE": "complete_bash",
        "COMP_WORDS": "upthread show complete-me/",
        "COMP_CWORD": "2",
    }
    completed = shared.beside(**asked)()
    (shared.directory / "upthread.toml").write_text("broken")
    broken = shared.beside(**asked)(code=None)
    (shared.directory / "upthread.toml").unlink()

    assert completed.out.split() == ["complete-me/planner"]
    assert broken.out.strip() == ""
    assert "Traceback" not in broken.err
