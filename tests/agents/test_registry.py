"""The agents by name, and which are on this machine."""

import time

import pytest

from upthread.agents import registry
from upthread.agents.acp import AcpAdapter
from upthread.agents.claude_code.adapter import ClaudeCodeAdapter
from upthread.agents.codex.adapter import CodexAdapter
from upthread.agents.registry import AGENTS_AND_REHEARSAL, adapter_for, installed_agents, way_here
from upthread.boundary.programs import own_module
from upthread.errors import UsageError


@pytest.mark.parametrize("agent", AGENTS_AND_REHEARSAL)
def test_every_known_agent_has_an_adapter_of_its_name(agent):
    adapter = adapter_for(agent)
    assert adapter.agent == agent
    assert adapter.command == AGENTS_AND_REHEARSAL[agent].ways[0].command


def test_a_person_resumes_with_the_agents_own_command():
    session = "01a1fefd-1436-70d0-b61e-0c7b73ca6add"
    commands = {agent: adapter_for(agent).resume_command(session) for agent in AGENTS_AND_REHEARSAL}
    assert commands == {
        "rehearsal": None,
        "opencode": ("opencode", "--session", session),
        "codex": ("codex", "resume", "--no-daemon", session),
        "claude-code": ("claude", "--resume", session),
        "gemini": None,
    }


def test_the_rehearsal_agent_runs_on_our_own_interpreter():
    expected = own_module("upthread.agents.rehearsal")
    assert adapter_for("rehearsal").command == expected


def test_any_acp_command_line_is_split_without_a_shell():
    adapter = adapter_for("acp:'my agent' --flag \"a b\" $HOME;rm")
    assert adapter.command == ("my agent", "--flag", "a b", "$HOME;rm")
    assert adapter.agent == "acp:'my agent' --flag \"a b\" $HOME;rm"


@pytest.mark.parametrize("agent", ["copilot", "", "acp:", "acp:'half"])
def test_an_agent_that_is_none_is_refused_with_the_cure(agent):
    with pytest.raises(UsageError) as caught:
        adapter_for(agent)
    assert caught.value.hint


def script(directory, name, body):
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.anyio
async def test_installed_agents_are_found_with_their_versions_within_the_deadline(
    tmp_path, monkeypatch
):
    script(tmp_path, "opencode", "echo 1.18.33; echo more")
    script(tmp_path, "codex-acp", "exec sleep 60")
    script(tmp_path, "gemini", "exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(registry, "VERSION_TIMEOUT_S", 1.0)
    began = time.monotonic()
    found = [(one.agent, one.version) for one in await installed_agents()]
    assert found == [("opencode", "1.18.33"), ("codex", ""), ("gemini", "")]
    assert time.monotonic() - began < 6


def way_found(agent):
    way = way_here(AGENTS_AND_REHEARSAL[agent])
    return way and (way.kind, way.command)


def test_claude_code_is_driven_natively_where_its_own_command_is(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path, "claude-agent-acp", "exit 0")
    assert way_found("claude-code") == ("acp", ("claude-agent-acp",))
    assert isinstance(adapter_for("claude-code"), AcpAdapter)
    script(tmp_path, "claude", "exit 0")
    assert way_found("claude-code") == ("native", ("claude",))
    assert isinstance(adapter_for("claude-code"), ClaudeCodeAdapter)
    assert isinstance(adapter_for("acp:claude-agent-acp"), AcpAdapter)


def test_codex_is_driven_natively_where_its_own_command_is(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path, "codex-acp", "exit 0")
    assert way_found("codex") == ("acp", ("codex-acp",))
    assert isinstance(adapter_for("codex"), AcpAdapter)
    script(tmp_path, "codex", "exit 0")
    assert way_found("codex") == ("native", ("codex", "app-server"))
    assert isinstance(adapter_for("codex"), CodexAdapter)


@pytest.mark.anyio
async def test_nothing_installed_is_an_empty_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await installed_agents() == ()
