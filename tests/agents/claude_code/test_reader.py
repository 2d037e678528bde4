"""What the reader says of Claude Code's sessions: at a glance, for a search, and as events."""

import json
import os

from tests.agent_stores.transcripts import ClaudeTranscript, result, said, use

from upthread.agent_stores.base import DAY_MS, look
from upthread.agents.claude_code.reader import FAR_BYTES, outlines, read_history, said_in
from upthread.core.events import (
    ChildStarted,
    ReasoningReceived,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)

ENTRY = {"cwd": "/work", "sessionId": "s1", "version": "2.1.330", "gitBranch": "main"}


def user(text, **more):
    message = {"role": "user", "content": text}
    stamp = "2026-11-20T10:00:00.000Z"
    return {**ENTRY, "type": "user", "message": message, "timestamp": stamp, **more}


def assistant(*blocks: object, **more):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
    message = {"role": "assistant", "model": "claude-x", "content": list(blocks), "usage": usage}
    return {**ENTRY, "type": "assistant", "message": message, **more}


SAID = {"type": "text", "text": "done"}
CALLED = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}


def written(home, *entries: object, name="s1.jsonl", folder="-work"):
    path = home / "projects" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in entries))
    os.utime(path, (1_800_000_000, 1_800_000_000))
    return path


def only(home):
    (found,) = outlines(home, look())
    return found


def test_all_that_the_ends_of_a_transcript_say(tmp_path):
    path = written(tmp_path, user("Plan the export"), assistant(SAID))
    found = only(tmp_path)
    assert (found.session_id, found.path, found.parent_session_id) == ("s1", str(path), "")
    titled = (found.unredacted_title, found.directory, found.branch)
    assert titled == ("Plan the export", "/work", "main")
    assert (found.model, found.tokens, found.version) == ("claude-x", 105, "2.1.330")
    # By its last entry: a copied or restored file has a new time.
    assert (found.begun_at_ms, found.used_at_ms) == (1_795_168_800_000, 1_795_168_800_000)
    assert (found.ending, found.size_bytes) == ("ended", path.stat().st_size)


def test_the_title_a_person_gave_wins_over_a_models_and_that_over_the_first_prompt(tmp_path):
    titles = [
        {"type": "summary", "summary": "an older form"},
        {"type": "ai-title", "aiTitle": "by a model"},
        {"type": "custom-title", "customTitle": "by a person"},
    ]
    for count, title in ((1, "an older form"), (2, "by a model"), (3, "by a person")):
        written(tmp_path, user("Plan"), assistant(SAID), *reversed(titles[:count]))
        assert only(tmp_path).unredacted_title == title


def test_what_claude_code_puts_in_and_entries_of_no_known_kind_are_no_prompt(tmp_path):
    odd = [{**user("no prompt"), "type": kind} for kind in ([], {}, 7, None)]
    written(
        tmp_path,
        *odd,
        {"type": "file-history-snapshot"},
        user("put in", isMeta=True),
        user("<command-name>/clear</command-name>"),
        user([{"type": "text", "text": "Plan it"}]),
        assistant(SAID),
        *odd,
    )
    assert (only(tmp_path).unredacted_title, only(tmp_path).ending) == ("Plan it", "ended")


def test_a_session_that_stopped_before_its_answer_was_interrupted(tmp_path):
    for last in (user("go on"), assistant(CALLED), assistant(SAID, isApiErrorMessage=True)):
        written(tmp_path, user("Plan"), assistant(SAID), last)
        assert only(tmp_path).ending == "interrupted"


def test_messages_far_from_the_end_are_still_found(tmp_path):
    attached = {"type": "attachment", "attachment": {"systemPrompt": ["x" * (FAR_BYTES // 3)]}}
    written(tmp_path, attached, user("Plan"), assistant(SAID), attached)
    found = only(tmp_path)
    assert (found.unredacted_title, found.tokens, found.directory) == ("Plan", 105, "/work")


def test_a_sub_agent_lies_beneath_its_session_with_its_role_beside_it(tmp_path):
    path = written(tmp_path, user("Look", isSidechain=True), assistant(SAID, isSidechain=True),
                   name="agent-a1.jsonl", folder="-work/s1/subagents")  # fmt: skip
    path.with_name("agent-a1.meta.json").write_text('{"agentType": "planner", "description": "d"}')
    found = only(tmp_path)
    assert found.unredacted_title == "d"
    assert (found.session_id, found.parent_session_id, found.role) == ("agent-a1", "s1", "planner")
    older = tmp_path / "older"  # an older version keeps it beside its session
    written(older, user("Look", isSidechain=True), name="agent-a1.jsonl")
    assert only(older).parent_session_id == "s1"


def test_a_prompt_too_long_for_a_glance_is_called_by_what_was_asked_last(tmp_path):
    last = {"type": "last-prompt", "lastPrompt": "Plan the export", "sessionId": "s1"}
    written(tmp_path, user("word " * 100_000), assistant(SAID), last)
    assert only(tmp_path).unredacted_title == "Plan the export"
    written(tmp_path, user("Begin"), assistant(SAID), last)
    assert only(tmp_path).unredacted_title == "Begin"


def test_when_it_will_be_deleted_is_what_the_person_set(tmp_path):
    written(tmp_path, user("Plan"))
    assert only(tmp_path).deleted_at_ms == 1_800_000_000_000 + 30 * DAY_MS
    (tmp_path / "settings.json").write_text('{"cleanupPeriodDays": 7}')
    assert only(tmp_path).deleted_at_ms == 1_800_000_000_000 + 7 * DAY_MS
    for refused in ("0", "-1", "14.5", '"14"', "true"):  # it skips the clean-up then, and says so
        (tmp_path / "settings.json").write_text(f'{{"cleanupPeriodDays": {refused}}}')
        assert only(tmp_path).deleted_at_ms is None
    (tmp_path / "settings.json").write_text("[" * 9_000)
    assert only(tmp_path).deleted_at_ms == 1_800_000_000_000 + 30 * DAY_MS


def told(entry):
    return [(each.speaker, each.text) for each in said_in(entry)]


def test_prompts_answers_calls_and_results_are_said_and_nothing_else():
    assert told({"type": "user", "message": {"content": "go"}}) == [("user", "go")]
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "done"},
        {"type": "tool_use", "name": "Bash", "input": {"command": "make"}},
    ]
    answer = {"type": "assistant", "message": {"content": blocks}}
    assert told(answer) == [("assistant", "hm"), ("assistant", "done"), ("tool", "make")]
    result = {"type": "tool_result", "content": [{"type": "text", "text": "made"}]}
    (said,) = told({"type": "user", "message": {"content": [result]}})
    assert said[0] == "tool"
    assert "made" in said[1]
    for entry in ({}, {"type": "summary", "summary": "x"}, {"type": "user", "message": 3}):
        assert told(entry) == []


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
    assert [event.text for event in history if hasattr(event, "text")] == ["first", "second"]


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
