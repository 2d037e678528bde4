"""A search goes through what every agent has stored, in each form, newest session first."""

from __future__ import annotations

import json

from tests.support.agent_homes import Months, compressed, make_home

from upthread.agent_stores.outline import look
from upthread.agent_stores.text_search import Words
from upthread.agents.outlines import searched_sessions

FEW = Months(claude_code=6, codex=6, opencode=6, sub_agents=6, session_bytes=20_000)


def found(home, *words: str, agent=None):
    """(agent, speaker, text) of all that has the words."""
    wanted = Words(words)
    with searched_sessions({"HOME": str(home)}, look(), agent=agent) as sessions:
        return [
            (session.agent, said.speaker, said.text)
            for session in sessions
            for said in session.said(wanted)
            if wanted.place_in(said.text) is not None
        ]


def test_the_sessions_come_newest_first_whichever_agent_has_them(tmp_path):
    home = make_home(tmp_path, FEW)
    with searched_sessions({"HOME": str(home)}, look()) as sessions:
        times = [each.used_at_ms for each in sessions]
    assert len(times) == 24
    assert times == sorted(times, reverse=True)


def test_each_agent_is_gone_through_and_what_the_outline_says_is_its_session(tmp_path):
    home = make_home(tmp_path, FEW)
    hits = found(home, "the", "parser", "part")
    assert {agent for agent, _, _ in hits} == {"claude-code", "codex", "opencode"}
    assert {speaker for _, speaker, _ in hits} == {"user"}
    assert {agent for agent, _, _ in found(home, "rows", agent="codex")} == {"codex"}
    with searched_sessions({"HOME": str(home)}, look()) as sessions:
        assert all(each.outline().agent == each.agent for each in sessions)


def test_calls_and_results_are_found_as_the_tools_they_are_of(tmp_path):
    claude = {"type": "assistant", "message": {"content": [
        {"type": "tool_use", "name": "Bash", "input": {"command": "make zebra"}}]}}  # fmt: skip
    path = tmp_path / ".claude" / "projects" / "-w" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(claude) + "\n")
    call = {"type": "function_call", "name": "exec", "arguments": '{"cmd": "make zebra"}'}
    line = json.dumps({"type": "response_item", "payload": call}) + "\n"
    rollout = tmp_path / ".codex" / "archived_sessions" / "rollout-2026-11-20T10-00-00-x.jsonl.zst"
    rollout.parent.mkdir(parents=True)
    rollout.write_bytes(compressed(line.encode()))
    hits = found(tmp_path, "ZEBRA")
    of = sorted((agent, speaker) for agent, speaker, _ in hits)
    assert of == [("claude-code", "tool"), ("codex", "tool")]
