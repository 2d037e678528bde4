"""The real Claude Code's sub-agents: what we keep of each is what its own transcripts hold."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.claude_code import claude_environment, command, delegation
from tests.live.kept import assert_valid, messages_of, ours, words
from tests.live.shell import Shell, agents_left, kill_tree, only

from upthread.agent_stores.base import VendorHistory
from upthread.agents.claude_code.connection import OPENING_WORDS
from upthread.agents.claude_code.histories import find_histories, read_transcript

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

SETTINGS = {"permissions": {"allow": ["Bash", "Write"]}}
LOOK = command("pwd")


@pytest.fixture
def shell(claude_binary, model, project, tmp_path) -> Iterator[Shell]:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "claude").symlink_to(claude_binary)
    home = tmp_path / "home"
    environment = {
        **claude_environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps(SETTINGS))
    yield Shell(project, environment)
    assert agents_left(tmp_path) == []


def theirs(tmp_path: Path) -> dict[str, VendorHistory]:
    """Its transcripts, by the ids under which we know the sessions."""
    read = [read_transcript(path) for path in find_histories(tmp_path / "home" / ".claude")]
    return {_known_as(each): each for each in read}


def _known_as(history: VendorHistory) -> str:
    if history.parent_session_id is None:
        return history.session_id
    return f"{history.parent_session_id}:subagent:{history.session_id.removeprefix('agent-')}"


def assert_same(shell: Shell, tmp_path: Path) -> None:
    """Every session of theirs has its conversation here, with the same words and no others."""
    stored, kept = theirs(tmp_path), ours(shell)
    assert kept.keys() == stored.keys()
    for session, history in stored.items():
        said = [each for each in words(history.history) if OPENING_WORDS not in each[1]]
        assert words(messages_of(kept[session])) == said, session
        assert_valid(messages_of(kept[session]))


def test_a_sub_agent_is_kept_whole_in_a_conversation_of_its_own(shell, tmp_path):
    child = f"Look around. {LOOK} [[SAY child says]]"
    shell.lines("tell", "w/planner", f"{delegation(child)} {LOOK} [[SAY done]]")
    assert_same(shell, tmp_path)
    parent, kept = ours(shell).values()
    assert parent["turns"][0]["quarantined"] == []
    assert kept["role"] == "general-purpose"
    assert kept["parent_conversation_id"] == parent["conversation_id"]
    assert words(messages_of(kept))[0] == ("user", child)
    assert ("assistant", "child says") in words(messages_of(kept))


def test_two_sub_agents_in_one_turn_stay_apart(shell, tmp_path):
    first, second = f"One. {LOOK} [[SAY one says]]", "Two. [[SAY two says]]"
    steps = f"{delegation(first)} {delegation(second)} [[SAY both are done]]"
    shell.lines("tell", "w/planner", steps)
    assert_same(shell, tmp_path)
    assert len(ours(shell)) == 3


def test_a_sub_agent_that_fails_is_kept_with_what_it_had_done(shell, tmp_path):
    failing = f"Try. {LOOK} [[FAIL 400 broken]]"
    shell.lines("tell", "w/planner", f"{delegation(failing)} [[SAY it failed]]")
    (kept,) = (each for each in ours(shell).values() if each["parent_conversation_id"])
    assert words(messages_of(kept))[0] == ("user", failing)
    assert "call" in {who for who, _ in words(messages_of(kept))}
    for each in ours(shell).values():
        assert_valid(messages_of(each))


def test_sigkill_inside_a_sub_agent_leaves_both_valid_and_apart(shell, model, tmp_path):
    asked = f"Look long. {LOOK} [[HANG]]"
    running = shell.start("tell", "w/planner", delegation(asked))
    deadline = time.monotonic() + 90
    while len([r for r in model.model_requests if "Look long." in json.dumps(r.body)]) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(2.0)  # what was said before the model was asked is on record
    kill_tree(running)
    lines = shell.lines("tell", "w/planner", "[[SAY I am back]]")
    assert only(lines, "turn_ended")["outcome"] == "ok"
    kept = ours(shell)
    (child,) = (each for each in kept.values() if each["parent_conversation_id"])
    (parent,) = (each for each in kept.values() if not each["parent_conversation_id"])
    for each in (child, parent):
        assert_valid(messages_of(each))
    assert words(messages_of(child))[0] == ("user", asked)
    spoken = [said for who, said in words(messages_of(parent)) if who in {"assistant", "thought"}]
    assert spoken == ["I am back"]
