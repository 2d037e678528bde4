"""The agents by name, and which are on this machine.

An agent's folder is found by its row, and loaded by nobody who does not ask for it.
Where Claude Code is found: on PATH first, else inside the Claude Agent SDK.
What was tested is what was pinned and measured; another version is newer or older.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.by_hand import of_each

from upthread.agent_stores.reader import Reader
from upthread.agents.acp import AcpAdapter
from upthread.agents.base import AgentAdapter
from upthread.agents.claude_code.adapter import ClaudeCodeAdapter
from upthread.agents.codex.adapter import CodexAdapter
from upthread.agents.opencode.adapter import OpenCodeAdapter
from upthread.agents.registry import (
    AGENTS_AND_REHEARSAL,
    adapter_for,
    find_agent,
    part_of,
    resume_command,
    seen_way,
    seen_way_called,
    version_in,
    version_warning,
    way_here,
)
from upthread.agents.registry import difference as difference_of
from upthread.boundary.programs import own_module
from upthread.core.agents import AGENTS
from upthread.errors import UsageError


def test_a_person_resumes_with_the_agents_own_command():
    session = "01a1fefd-1436-70d0-b61e-0c7b73ca6add"
    commands = {agent: resume_command(agent, session) for agent in AGENTS_AND_REHEARSAL}
    assert commands == of_each(
        AGENTS_AND_REHEARSAL,
        {
            "rehearsal": None,
            "opencode": ("opencode", "--session", session),
            "codex": ("codex", "resume", "--no-daemon", session),
            "claude-code": ("claude", "--resume", session),
            "gemini": None,
        },
    )


def test_a_command_that_speaks_acp_is_known_for_the_agent_that_it_names():
    resumed = ("opencode", "--session", "ses_1")
    assert resume_command("acp:opencode acp", "ses_1") == resumed
    assert resume_command("mine", "ses_1", ("/opt/opencode", "acp")) == resumed
    assert resume_command("opencode", "--auto-approve", ("opencode", "acp")) is None
    assert resume_command("acp:/home/claude/x", "1") is None
    with pytest.raises(UsageError):
        resume_command("nobodys", "1")


def test_an_adapter_has_its_agents_command_and_a_given_one_is_split_without_a_shell():
    for agent, row in AGENTS_AND_REHEARSAL.items():
        adapter = adapter_for(agent)
        assert (adapter.agent, adapter.command) == (agent, row.ways[0].command)
    assert adapter_for("rehearsal").command == own_module("upthread.agents.rehearsal")
    assert isinstance(adapter_for("opencode"), OpenCodeAdapter)
    given = "acp:'my agent' --flag \"a b\" $HOME;rm"
    assert adapter_for(given).command == ("my agent", "--flag", "a b", "$HOME;rm")
    assert adapter_for(given).agent == given


@pytest.mark.parametrize("agent", ["nobodys", "", "acp:", "acp:'half"])
def test_an_agent_that_is_none_is_refused_with_the_cure(agent):
    with pytest.raises(UsageError) as caught:
        adapter_for(agent)
    assert caught.value.hint


def script(directory, name, body):
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("agent", "over_acp", "native", "adapter"),
    [
        ("claude-code", "claude-agent-acp", ("claude",), ClaudeCodeAdapter),
        ("codex", "codex-acp", ("codex", "app-server"), CodexAdapter),
    ],
)
def test_an_agent_is_driven_natively_where_its_own_command_is(
    tmp_path, monkeypatch, agent, over_acp, native, adapter
):
    monkeypatch.setenv("PATH", str(tmp_path))
    row = AGENTS_AND_REHEARSAL[agent]
    assert (way_here(row), find_agent(row, str(tmp_path))) == (None, None)
    script(tmp_path, over_acp, "exit 0")
    way = way_here(row)
    assert way is not None
    assert (way.kind, way.command) == ("acp", (over_acp,))
    assert isinstance(adapter_for(agent), AcpAdapter)
    script(tmp_path, native[0], "exit 0")
    way = way_here(row)
    assert way is not None
    assert (way.kind, way.command) == ("native", native)
    assert isinstance(adapter_for(agent), adapter)
    assert isinstance(adapter_for(f"acp:{over_acp}"), AcpAdapter)
    assert find_agent(row, str(tmp_path)) == native[0]


CALLED_OF_A_STORE = tuple(name for name in vars(Reader) if not name.startswith("_"))
"""What is called by name of each reader of a store, which no type checker sees."""


@pytest.mark.parametrize("row", AGENTS.values(), ids=lambda row: row.name)
def test_every_folder_has_the_parts_that_the_house_calls(row):
    assert part_of("../codex", "adapter") is None, "no row is about it"
    adapter = part_of(row.name, "adapter")
    if not row.folder:
        assert adapter is None
        return
    assert adapter is not None
    made: AgentAdapter = adapter.ADAPTER(command=row.ways[0].command)
    assert (made.agent, made.command) == (row.name, row.ways[0].command)
    if row.home:
        reader = part_of(row.name, "reader")
        assert all(callable(getattr(reader, name)) for name in CALLED_OF_A_STORE)


@pytest.mark.extended
def test_without_it_the_one_the_sdk_brings_is_found(tmp_path):
    """In a process of its own: what can be imported is settled at its start."""
    sdk = tmp_path / "site" / "claude_agent_sdk"
    bundled = sdk / "_bundled" / "claude"
    bundled.parent.mkdir(parents=True)
    script(bundled.parent, "claude", "exit 0")
    (sdk / "__init__.py").write_text("raise ImportError('finding it must not import it')\n")
    asking = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r});"
        "from upthread.agents.registry import find_agent; from upthread.core.agents import AGENTS;"
        "print(find_agent(AGENTS['claude-code'], '/nowhere'))"
    )
    for mode, found in ((0o755, str(bundled)), (0o644, "None")):  # one that cannot be run is none
        bundled.chmod(mode)
        said = subprocess.run(
            [sys.executable, "-c", asking], capture_output=True, text=True, check=True
        )
        assert said.stdout.strip() == found


ROOT = Path(__file__).resolve().parents[2]
PINS = json.loads((ROOT / "agents.json").read_text())["dependencies"]


TESTED = [(row.name, way) for row in AGENTS.values() for way in row.ways]


def name_of(tested):
    agent, way = tested
    return agent if way.kind == "native" else f"{agent}-{way.kind}"


PACKAGES = of_each(
    map(name_of, TESTED),
    {
        "claude-code": "@anthropic-ai/claude-code",
        "claude-code-acp": "@agentclientprotocol/claude-agent-acp",
        "codex": "@openai/codex",
        "gemini-acp": "@google/gemini-cli",
        "codex-acp": "@agentclientprotocol/codex-acp",
        "opencode": "opencode-ai",
        "opencode-acp": "opencode-ai",
    },
)
"""What of `agents.json` each way of driving an agent is of; None for one that is not pinned."""


@pytest.mark.parametrize("tested", TESTED, ids=name_of)
def test_the_version_is_the_one_that_is_pinned_for_the_live_tests(tested):
    package = PACKAGES[name_of(tested)]
    assert package is None or tested[1].version == PINS[package]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "agents" / "measured").glob("*.json")), ids=lambda p: p.stem
)
def test_the_version_is_the_one_whose_behaviour_was_measured(path):
    kind = "acp" if path.stem.endswith("-acp") else "native"
    row = seen_way(path.stem.removesuffix("-acp"), kind)
    assert row is not None
    assert json.loads(path.read_text())["version"] in {row.version, PINS.get(PACKAGES[path.stem])}


def test_every_way_of_driving_a_known_agent_says_its_version_and_known_words():
    for _, row in TESTED:
        assert version_in(row.version) == row.version != ""
        assert row.can
        words = "resume load list fork sub_agents open_sub_agents inject title".split()
        assert list(row.can) == [word for word in words if word in row.can]


@pytest.mark.parametrize(
    ("version", "difference"),
    [
        ("1.18.33", ""),
        ("opencode 1.18.33 (build 7)", ""),
        ("1.18.34", "newer"),
        ("1.19", "newer"),
        ("2.0.0", "newer"),
        ("1.9.99", "older"),
        ("1.18", "older"),
        ("2.1.330 (Claude Code)", "newer"),
        ("codex-cli 0.169.0", "older"),
        ("", ""),
        ("nightly", ""),
    ],
)
def test_another_version_is_newer_or_older_and_an_unreadable_one_neither(version, difference):
    row = seen_way("opencode", "native")
    assert row is not None
    assert difference_of(row, version) == difference


def test_the_warning_names_both_versions_and_the_probe_for_the_agents_name_here():
    row = seen_way("codex", "acp")
    assert row is not None
    assert version_warning("acp:codex-acp --x", row, "2.5.1") == (
        "acp:codex-acp --x 2.5.1 is older than 2.6.0, which this upthread was tested with; "
        "try what it does: upthread doctor --probe 'acp:codex-acp --x'"
    )
    assert version_warning("codex", row, "2.6.0") == ""
    assert seen_way("mine", "acp") is None


CALLS_ITSELF = of_each(
    [agent for agent, way in TESTED if way.kind == "acp"],
    {
        "opencode": "OpenCode",
        "codex": "@agentclientprotocol/codex-acp",
        "claude-code": "@agentclientprotocol/claude-agent-acp",
        "gemini": "gemini-cli",
    },
)


@pytest.mark.parametrize(("known_as", "name"), CALLS_ITSELF.items())
def test_an_agent_is_known_by_what_it_calls_itself_over_acp(known_as, name):
    row = seen_way_called(name)
    assert row is not None
    assert row == seen_way(known_as, "acp")
    assert seen_way_called("rehearsal") is None
    assert seen_way_called("") is None
