"""A session read back from its transcript.

Who else holds a session: a living process that says so, and nobody else.
"""

from __future__ import annotations

import json
import os

import pytest
from tests.agent_stores.transcripts import ClaudeTranscript, result, said, use

from upthread.agents._process_group import started_at_ticks
from upthread.agents.claude_code import writer
from upthread.agents.claude_code.reader import read_history
from upthread.agents.claude_code.writer import writer_of
from upthread.core.events import (
    ChildStarted,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)

SESSION = "1020d86e-ea44-4210-a6cb-ee5f858edd16"


def test_what_was_said_and_done_is_told_in_order(tmp_path):
    made = ClaudeTranscript()
    first = made.user("hello")
    made.assistant({"type": "thinking", "thinking": "hm"}, said("hi"), use("t1"), message_id="m")
    made.user([result("t1", [said("a")], is_error=True)])
    made.assistant({"type": "redacted_thinking", "data": "x"})
    history = read_history(made.write(tmp_path / f"{SESSION}.jsonl"), SESSION)
    kinds = [UserTextReplayed, ReasoningReceived, TextReceived, ToolCallAnnounced, ToolCallUpdated]
    assert [type(event) for event in history] == kinds
    assert (history[0].text, history[0].message_id) == ("hello", first)
    assert (history[2].text, history[2].message_id) == ("hi", "m")
    assert (history[3].title, history[3].tool_kind) == ("ls", "execute")
    assert (history[4].status, history[4].text) == ("failed", "a")
    assert {event.upstream_session_id for event in history} == {SESSION}


def test_what_claude_code_wrote_itself_is_no_prompt_and_no_reply(tmp_path):
    made = ClaudeTranscript()
    made.user("opened", isMeta=True)
    made.user("first")
    made.user([said("[Request interrupted by user]")])
    made.entry("assistant", {"id": "m", "model": "<synthetic>", "content": [said("none")]})
    made.user("summary", isCompactSummary=True)
    made.user("second")
    history = read_history(made.write(tmp_path / f"{SESSION}.jsonl"), SESSION)
    assert [event.text for event in history] == ["first", "second"]


def test_a_child_is_named_where_it_began(tmp_path):
    made = ClaudeTranscript()
    made.user("go")
    made.assistant(use("t1", "Task"))
    made.user([result("t1", "report")])
    path = made.write(tmp_path / f"{SESSION}.jsonl")
    meta = tmp_path / SESSION / "subagents" / "agent-a1.meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"agentType": "Explore", "toolUseId": "t1"}))
    _, announced, started, updated = read_history(path, SESSION)
    assert isinstance(started, ChildStarted)
    assert started.call_id == announced.call_id == "t1"
    assert started.child_upstream_session_id == f"{SESSION}:subagent:a1"
    assert updated.child_upstream_session_id == f"{SESSION}:subagent:a1"


def test_a_command_that_failed_by_itself_did_run_and_one_that_nobody_allowed_did_not(tmp_path):
    made = ClaudeTranscript()
    made.user("hello")
    made.assistant(use("t1"), use("t2"), use("t3"), message_id="m")
    made.user([result("t1", "Exit code 1\n2 failed", is_error=True)])
    made.user([result("t2", "This command requires approval", is_error=True)])
    made.user([result("t3", "Exit code 1 is what it says")])
    history = read_history(made.write(tmp_path / f"{SESSION}.jsonl"), SESSION)
    ended = {each.call_id: each.did_run for each in history if isinstance(each, ToolCallUpdated)}
    assert ended == {"t1": True, "t2": False, "t3": False}


@pytest.fixture
def register(tmp_path):
    def write(name, **more):
        (tmp_path / "sessions").mkdir(exist_ok=True)
        ticks = str(started_at_ticks(os.getpid()))
        told = {"pid": os.getpid(), "sessionId": SESSION, "procStart": ticks, **more}
        (tmp_path / "sessions" / name).write_text(json.dumps(told))

    return write


def test_a_living_process_holds_its_session_and_no_other(tmp_path, register):
    register("1.json")
    assert writer_of(tmp_path, SESSION) == os.getpid()
    assert writer_of(tmp_path, "another") is None


@pytest.mark.parametrize(
    "more", [{"pid": 2**22 + 1}, {"procStart": "1"}, {"procStart": None}, {"pid": "1"}]
)
def test_a_dead_or_another_process_holds_nothing(tmp_path, register, more):
    register("1.json", **more)
    assert writer_of(tmp_path, SESSION) is None


def test_files_of_another_form_are_passed_over(tmp_path, register):
    assert writer_of(tmp_path, SESSION) is None, "a home without any"
    register("2.json")
    (tmp_path / "sessions" / "0.json").write_text("[garbage")
    (tmp_path / "sessions" / "1.json").mkdir()
    assert writer_of(tmp_path, SESSION) == os.getpid()


def test_leftovers_of_dead_processes_stand_before_nothing(tmp_path, register, monkeypatch):
    monkeypatch.setattr(writer, "FILES_MAX", 10)
    for number in range(20):
        register(f"{2**22 + 1 + number}.json", pid=2**22 + 1 + number)
    register(f"{os.getpid()}.json")
    assert writer_of(tmp_path, SESSION) == os.getpid()
