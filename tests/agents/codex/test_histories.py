"""Codex's rollouts: the items that are sent, what a compaction replaced, what is damaged."""

from __future__ import annotations

import pytest
from tests.agent_stores.transcripts import function_call, function_output, rollout, spoken

from upthread.agents.codex.reader import read_histories
from upthread.agents.codex.rollouts import find_histories, find_rollout
from upthread.core.history.model import faults, is_sound
from upthread.core.types import ReasoningPart, TextPart, ToolCallPart, ToolResultPart


def read_rollout(path):
    (read,) = read_histories(path)
    return read


def parts(read):
    return [part for message in read.history.messages for part in message.parts]


def test_items_become_messages_and_events_do_not(tmp_path):
    path = rollout(
        tmp_path / "rollout-1.jsonl",
        spoken("developer", "rules"),
        spoken("user", "go"),
        ("event_msg", {"type": "user_message", "message": "go"}),
        ("turn_context", {"cwd": "/work"}),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        function_call("c1"),
        function_call("c2", "{broken"),
        function_output("c2", {"content": "two"}),
        function_output("c1", [{"type": "input_text", "text": "one"}]),
        {"type": "custom_tool_call", "name": "apply_patch", "input": "***", "call_id": "c3"},
        {"type": "custom_tool_call_output", "call_id": "c3", "output": "ok"},
        {"type": "web_search_call", "status": "completed"},
        spoken("assistant", "done"),
    )
    read = read_rollout(path)
    assert [type(part) for part in parts(read)] == [
        *(TextPart, ReasoningPart, ToolCallPart, ToolCallPart, ToolResultPart, ToolResultPart),
        *(ToolCallPart, ToolResultPart, TextPart),
    ]
    assert [p.text for p in parts(read) if isinstance(p, ToolResultPart)] == ["two", "one", "ok"]
    calls = [p.arguments for p in parts(read) if isinstance(p, ToolCallPart)]
    assert calls == [{"cmd": "ls"}, "{broken", "***"]
    assert (read.session_id, read.version, read.is_version_known) == ("thr_1", "0.169.0", True)
    assert is_sound(read.history.messages)


def test_a_compaction_takes_the_place_of_all_before_it(tmp_path):
    path = rollout(
        tmp_path / "rollout-1.jsonl",
        spoken("user", "long ago"),
        function_call("open"),
        ("compacted", {"message": "", "replacement_history": [spoken("user", "summary")]}),
        ("compacted", {"message": "older form"}),
        spoken("user", "next"),
    )
    assert [part.text for part in parts(read_rollout(path))] == ["summary", "next"]


def test_an_open_call_and_an_orphan_output_are_found(tmp_path):
    items = (spoken("user", "go"), function_output("x"), function_call("c"))
    path = rollout(tmp_path / "rollout-1.jsonl", *items)
    rules = {fault.rule for fault in faults(read_rollout(path).history.messages)}
    assert rules == {"every_call_has_a_result", "every_result_has_a_call"}


def test_a_rollout_of_an_unknown_version_or_without_its_first_line_is_read(tmp_path):
    path = tmp_path / "rollout-2026.jsonl"
    for version in ("0.170.0", "1.0", ""):
        rollout(path, spoken("user", "go"), version=version)
        assert not read_rollout(path).is_version_known
    path.write_text("garbage\n")
    read = read_rollout(path)
    assert read.session_id == "2026"
    assert len(read.unreadable) == 1


THREAD = "01a20601-8661-7d90-8014-80c2410a5e75"


@pytest.mark.parametrize("place", ["sessions/2026/11/20", "archived_sessions"])
@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_a_thread_is_found_where_codex_keeps_it(tmp_path, place, suffix):
    path = rollout(tmp_path / place / f"rollout-2026-11-20T10-00-00-{THREAD}.jsonl{suffix}")
    assert find_rollout(tmp_path, THREAD) == path
    assert find_rollout(tmp_path, "*") is None
    assert find_rollout(tmp_path, THREAD.replace("0", "1")) is None


def test_no_link_among_the_days_is_followed(tmp_path):
    path = rollout(tmp_path / "sessions" / "2026" / "11" / "20" / "rollout-1.jsonl")
    (tmp_path / "sessions" / "2025").symlink_to("/")
    (tmp_path / "sessions" / "2026" / "12").symlink_to(tmp_path / "sessions")
    (path.parent / "rollout-2.jsonl").symlink_to(path)
    assert list(find_histories(tmp_path)) == [path]
