"""Claude Code's transcripts: the branch that is sent, its sub-agents, what is damaged."""

import json

import pytest
from tests.agent_stores.transcripts import ClaudeTranscript, result, said, use

from upthread.agents.claude_code.reader import read_histories, read_history
from upthread.agents.claude_code.transcripts import (
    TAIL_BYTES,
    branch_of,
    find_histories,
    find_transcript,
    newest_heard,
    read_entries,
    subagents_by_call,
)
from upthread.core.history.model import faults
from upthread.core.turns.agent_history import answered_turns
from upthread.core.types import (
    FilePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.errors import StoreError


def read_transcript(path):
    (read,) = read_histories(path)
    return read


def kinds(read):
    return [(str(m.speaker), *(type(p) for p in m.parts)) for m in read.history]


def texts(read):
    parts = [part for m in read.history for part in m.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]


def test_entries_become_messages_with_results_of_the_tools(tmp_path):
    made = ClaudeTranscript()
    made.user("hello")
    made.assistant({"type": "thinking", "thinking": "hm", "signature": "s"}, said("hi"), use("t1"))
    made.user([result("t1", [said("a"), said("b")], is_error=True), said("and")])
    made.assistant({"type": "redacted_thinking", "data": "x"})
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    made.user([image])
    made.lines.append('{"type":"ai-title","title":"x"}')
    read = read_transcript(made.write(tmp_path / "s.jsonl"))
    assert kinds(read) == [
        ("user", TextPart),
        ("assistant", ReasoningPart, TextPart, ToolCallPart),
        ("tool", ToolResultPart),
        ("user", TextPart),
        ("assistant", UnknownPart),
        ("user", FilePart),
    ]
    got = ToolResultPart(call_id="t1", status="failed", text="a\nb")
    assert read.history[2].parts[0] == got
    assert (read.version, read.is_version_known, read.directory) == ("2.1.329", True, "/work")
    assert faults(read.history) == ()


def test_only_the_branch_of_the_last_entry_is_read(tmp_path):
    made = ClaudeTranscript()
    first = made.user("first")
    made.assistant(said("left"), use("open"))
    made.last = first
    made.assistant(said("right"))
    read = read_transcript(made.write(tmp_path / "s.jsonl"))
    assert texts(read) == ["first", "right"]
    assert faults(read.history) == ()


def test_blocks_of_one_answer_and_results_of_tools_used_at_once_are_gathered(tmp_path):
    made = ClaudeTranscript()
    made.user("go")
    one = made.assistant(use("t1"), message_id="m")
    two = made.assistant(use("t2"), message_id="m")
    made.last = one
    made.user([result("t1")])
    made.last = two
    made.user([result("t2")])
    made.entry("attachment", attachment={"type": "hook_success"})
    made.assistant(said("done"))
    read = read_transcript(made.write(tmp_path / "s.jsonl"))
    assert faults(read.history) == ()
    assert faults(read.history) == ()
    parts = [part for m in read.history for part in m.parts]
    assert [part.call_id for part in parts if isinstance(part, ToolCallPart)] == ["t1", "t2"]


def test_a_missing_entry_is_reported_and_what_was_before_it_is_read(tmp_path):
    made = ClaudeTranscript()
    made.user("first")
    made.assistant(said("lost"))
    made.user("second")
    del made.lines[1]
    read = read_transcript(made.write(tmp_path / "s.jsonl"))
    assert texts(read) == ["first", "second"]
    (gap,) = read.unreadable
    assert gap.place == "line 2"
    assert gap.why.startswith("the entry before it is missing: Claude Code resumes without")


def test_entries_that_are_not_sent_are_not_read_and_a_circle_of_parents_ends(tmp_path):
    made = ClaudeTranscript()
    made.user("go")
    made.assistant(said("API Error"), isApiErrorMessage=True)
    made.entry("system", subtype="compact_boundary")
    made.user("again")
    made.user("aside", isSidechain=True)
    read = read_transcript(made.write(tmp_path / "s.jsonl"))
    assert texts(read) == ["go", "again"]
    made.user("last")
    made.assistant(said("API Error"), isApiErrorMessage=True)
    events = read_history(made.write(tmp_path / "s.jsonl"), UpstreamSessionId("s"))
    assert [turn.prompt for turn in answered_turns(events)] == ["go", "last"]


def test_what_was_said_before_compactions_is_read_back_and_not_sent(tmp_path):
    made = ClaudeTranscript()
    for number in range(3):
        if number:
            made.last = None
            made.entry("system", compactMetadata={})
            made.user("summary", isCompactSummary=True)
        made.user(f"ask {number}")
        made.assistant(said(f"say {number}"))
    path = made.write(tmp_path / "agent-1.jsonl")
    assert texts(read_transcript(path)) == ["summary", "ask 2", "say 2"]
    turns = answered_turns(read_history(path, UpstreamSessionId("s")))
    assert [turn.prompt for turn in turns] == ["ask 0", "ask 1", "ask 2"]
    circle = ClaudeTranscript()
    circle.last = "u2"
    circle.user("a")
    circle.user("b")
    assert texts(read_transcript(circle.write(tmp_path / "s.jsonl"))) == ["a", "b"]


def test_a_sub_agent_is_found_after_its_session_and_knows_it(tmp_path):
    main = ClaudeTranscript()
    main.user("go")
    side = ClaudeTranscript(is_sidechain=True)
    side.user("aside")
    project = tmp_path / "projects" / "-work"
    first = main.write(project / "s1.jsonl")
    second = side.write(project / "s1" / "subagents" / "agent-a1.jsonl")
    assert list(find_histories(tmp_path)) == [first, second]
    assert find_transcript(tmp_path, "s1") == first
    for other in ("s2", "", "../-work/s1", "s*", "-work/s1"):
        assert find_transcript(tmp_path, other) is None
    read = read_transcript(second)
    assert (read.session_id, read.parent_session_id) == ("agent-a1", "s1")
    assert texts(read) == ["aside"]


def test_an_empty_or_damaged_transcript_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text('{"type":"user"\n\n[]\n')
    read = read_transcript(path)
    assert read.history == ()
    assert len(read.unreadable) == 2
    assert not read.is_version_known


def test_the_branch_is_read_whole_with_claude_codes_own_notes_marked_and_those_alone(tmp_path):
    note = "[Request interrupted by user]"
    made = ClaudeTranscript()
    made.user("x" * 1000)
    made.assistant(said(note))
    made.user([said(f"{note} is what it wrote; go on")])
    made.user([said("[Request interrupted by user for tool use]")])
    made.user([said(note)])
    made.lines.append("{garbage")
    entries = branch_of(read_entries(made.write(tmp_path / "s.jsonl"), is_whole=True)).sent
    assert len(entries[0].parts[0].text) == 1000
    assert [entry.is_synthetic for entry in entries] == [False, False, False, True, True]


def test_sub_agents_are_known_by_the_call_that_made_them(tmp_path):
    subagents = tmp_path / "s" / "subagents"
    subagents.mkdir(parents=True)
    (subagents / "agent-a1.meta.json").write_text('{"toolUseId": "t1"}')
    (subagents / "agent-a2.meta.json").write_text("{}")
    (subagents / "agent-a3.meta.json").mkdir()
    assert subagents_by_call(tmp_path / "s.jsonl") == {"t1": "a1"}
    assert subagents_by_call(tmp_path / "other.jsonl") == {}


def test_the_newest_entry_the_model_was_given_is_told_whatever_is_written_after_it(tmp_path):
    path = tmp_path / "main.jsonl"
    path.write_text("")
    assert newest_heard(path) == ""
    lines = [
        {"type": "user", "uuid": "u1", "message": {"content": "plan it"}},
        {"type": "assistant", "uuid": "a1", "message": {"content": 'the "user" has it'}},
        {"type": "last-prompt", "lastPrompt": "user"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type": "user", "uu')
    assert newest_heard(path) == "u1 unanswered"
    lines[1]["message"]["content"] = [{"type": "text", "text": "done"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert newest_heard(path) == "u1"
    lines[1:1] = [{"type": "user", "uuid": "u2", "message": {"content": "x" * TAIL_BYTES}}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert newest_heard(path) == ""


def test_what_is_progress_does_not_count_towards_the_limit_of_a_transcript(tmp_path):
    path, long = tmp_path / "s.jsonl", "x" * 2_000
    entry = {"type": "user", "uuid": "u", "message": {"content": "hi"}}
    path.write_text("\n".join(map(json.dumps, ({"type": "progress", "data": long}, entry))))
    assert len(read_entries(path, said_bytes_max=1_000).entries) == 1
    path.write_text(json.dumps(entry | {"message": {"content": long}}))
    with pytest.raises(StoreError, match="its messages have more than 1,000 bytes"):
        read_entries(path, said_bytes_max=1_000)
