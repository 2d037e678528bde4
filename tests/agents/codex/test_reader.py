"""What the reader says of Codex's threads: at a glance, for a search, and as a history."""

import json
from contextlib import ExitStack

import pytest
from tests.agent_stores.transcripts import function_call, function_output, rollout, spoken
from tests.support.agent_homes import compressed

from upthread.agent_stores.base import look, newest_of
from upthread.agent_stores.reader import Words
from upthread.agents.codex.reader import (
    outlines,
    read_histories,
    read_session,
    repair,
    said_in,
    sessions,
)
from upthread.agents.codex.rollouts import SESSIONS, find_histories, find_rollout
from upthread.core.events import ToolCallUpdated
from upthread.core.history.model import faults
from upthread.core.types import (
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UpstreamSessionId,
)

THREAD = "01a20601-8661-7d90-8014-80c2410a5e75"
NAME = f"rollout-2026-11-20T10-00-00-{THREAD}.jsonl"
META = {"id": THREAD, "cwd": "/work", "cli_version": "0.169.0", "git": {"branch": "main"}}
STAMP = "2026-11-20T10:00:00.000Z"


def lines(*told: object, meta=META):
    told = (("session_meta", meta), *told)
    values = [{"timestamp": STAMP, "type": kind, "payload": payload} for kind, payload in told]
    return "".join(json.dumps(each) + "\n" for each in values).encode()


def event(kind, **more):
    return ("event_msg", {"type": kind, **more})


ASKED = event("user_message", message="Told.\n\n## My request for Codex:\n\nPlan the export")
WEIGHED = event("token_count", info={"last_token_usage": {"total_tokens": 4_100}})
WHOLE = lines(
    ("turn_context", {"model": "gpt-x"}), ASKED, event("task_started"), WEIGHED,
    event("task_complete"),
)  # fmt: skip


def written(home, raw, name=NAME, place="sessions/2026/11/20"):
    path = home / place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def only(home):
    (found,) = newest_of(outlines(home, look()))
    return found


@pytest.mark.parametrize(("suffix", "raw"), [("", WHOLE), (".zst", compressed(WHOLE))])
def test_all_that_the_ends_of_a_rollout_say(tmp_path, suffix, raw):
    path = written(tmp_path, raw, name=NAME + suffix)
    found = only(tmp_path)
    assert (found.session_id, found.path, found.directory) == (THREAD, str(path), "/work")
    titled = (found.unredacted_title, found.branch, found.version)
    assert titled == ("Plan the export", "main", "0.169.0")
    assert (found.model, found.tokens, found.ending) == ("gpt-x", 4_100, "ended")
    assert (found.begun_at_ms, found.is_archived) == (1_795_168_800_000, False)


def test_a_header_with_long_instructions_is_read_whole(tmp_path):
    written(tmp_path, lines(ASKED, meta={"instructions": "x" * 100_000, **META}))
    assert (only(tmp_path).session_id, only(tmp_path).directory) == (THREAD, "/work")


def test_the_plain_file_counts_before_the_compressed_and_the_archived_one(tmp_path):
    written(tmp_path, WHOLE, place="archived_sessions")
    assert only(tmp_path).is_archived
    written(tmp_path, compressed(lines()), name=f"{NAME}.zst")
    written(tmp_path, WHOLE)
    found = only(tmp_path)
    assert (found.unredacted_title, found.is_archived) == ("Plan the export", False)


def test_the_title_a_person_gave_last_is_the_one(tmp_path):
    written(tmp_path, WHOLE)
    names = [{"id": THREAD, "thread_name": each} for each in ("first", "last")]
    (tmp_path / "session_index.jsonl").write_text("".join(f"{json.dumps(n)}\n" for n in names))
    assert only(tmp_path).unredacted_title == "last"


def test_a_sub_agent_names_its_parent_and_its_role(tmp_path):
    spawn = {"parent_thread_id": "p", "agent_role": "planner"}
    for meta in (spawn, {"source": {"subagent": {"thread_spawn": spawn}}}):
        written(tmp_path, lines(ASKED, meta={**META, **meta}))
        found = only(tmp_path)
        assert (found.parent_session_id, found.role) == ("p", "planner")


def test_a_turn_without_its_end_was_interrupted(tmp_path):
    for last in (event("task_started"), event("turn_aborted")):
        written(tmp_path, lines(ASKED, event("task_complete"), last))
        assert only(tmp_path).ending == "interrupted"


def test_what_is_not_zstandard_is_counted_once_for_its_reason(tmp_path):
    for number in range(3):
        written(tmp_path, b"no", name=f"rollout-2026-11-20T10-00-0{number}-x.jsonl.zst")
    seen = look()
    assert list(outlines(tmp_path, seen)) == []
    assert seen.passed_over == {("codex", "not Zstandard"): 3}


def told(item, kind="response_item"):
    return [(each.speaker, each.text) for each in said_in({"type": kind, "payload": item})]


def test_items_are_said_once_by_whom_they_are_from():
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    assert told(message) == [("user", "go")], "what kind of block it is nobody has said"
    assert told({"type": "function_call", "arguments": "make"}) == [("tool", "make")]
    assert told({"type": "function_call_output", "output": "made"}) == [("tool", "made")]
    assert told({"type": "user_message", "message": "go"}, "event_msg") == []
    assert told({"type": "message", "role": "developer", "content": "rules"}) == []
    assert told(3) == []


def read_rollout(path):
    (read,) = read_histories(path)
    return read


def parts(read):
    return [part for message in read.history for part in message.parts]


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
    assert faults(read.history) == ()


def test_a_compaction_takes_the_place_of_all_before_it(tmp_path):
    path = rollout(
        tmp_path / "rollout-1.jsonl",
        spoken("user", "long ago"),
        function_call("open"),
        ("compacted", {"message": "", "replacement_history": [spoken("user", "summary")]}),
        ("compacted", {"message": "older form"}),
        spoken("user", "next"),
    )
    assert [part.text for part in parts(read_rollout(path))] == ["summary", "older form", "next"]


BARE_HEAD = {"timestamp": STAMP, "id": THREAD, "instructions": None}
BARE = (
    spoken("user", "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"),
    spoken("user", "go"),
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {**function_call("c1", '{"command": ["ls"]}'), "name": "shell"},
    function_output("c1", json.dumps({"output": "one", "metadata": {"exit_code": 0}})),
    {**function_call("c2", '{"command": ["make"]}'), "name": "container.exec"},
    function_output("c2", "Exit code: 2\nWall time: 1 s\nOutput:\ntwo"),
    spoken("assistant", "done"),
)
FORMS = {
    ".jsonl": "\n".join(map(json.dumps, (BARE_HEAD, {"record_type": "state"}, *BARE))),
    ".json": json.dumps({"session": BARE_HEAD, "items": BARE}, indent=2),
}


@pytest.mark.parametrize("suffix", FORMS)
def test_a_thread_of_the_first_versions_is_read_whole_and_repaired(tmp_path, suffix):
    path = written(
        tmp_path, FORMS[suffix].encode(), f"rollout-2025-05-02-{THREAD}{suffix}", SESSIONS
    )
    found = only(tmp_path)
    assert (found.session_id, found.unredacted_title, found.directory) == (THREAD, "go", "/work")
    searched = [
        each
        for one in sessions(tmp_path, look(), ExitStack())
        for each in one.said(Words(["wall"]))
    ]
    assert [each.speaker for each in searched] == ["tool"]
    events = read_session(tmp_path, UpstreamSessionId(THREAD)).events
    assert [getattr(each, "text", None) or each.call_id for each in events] == [
        *("go", "hm", "c1", "one", "c2", "Exit code: 2\nWall time: 1 s\nOutput:\ntwo", "done")
    ]
    assert [each.status for each in events if isinstance(each, ToolCallUpdated)] == [
        "completed",
        "failed",
    ]
    read = read_rollout(path)
    assert (read.directory, read.is_version_known, faults(read.history)) == ("/work", True, ())
    assert [each.why for each in read.unreadable] == [
        "a Codex before 0.40 wrote it: Codex refuses it"
    ]
    copy = repair(path, tmp_path / "copy")
    assert (copy.after.suffix, copy.left) == (".jsonl", ())


def test_an_open_call_and_an_orphan_output_are_found(tmp_path):
    items = (spoken("user", "go"), function_output("x"), function_call("c"))
    path = rollout(tmp_path / "rollout-1.jsonl", *items)
    rules = {fault.rule for fault in faults(read_rollout(path).history)}
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
