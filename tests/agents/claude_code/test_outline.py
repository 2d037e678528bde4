"""What an outline says of a Claude Code session, in each form met in the wild."""

from __future__ import annotations

import json
import os

from upthread.agent_stores.outline import DAY_MS, look
from upthread.agents.claude_code.reader import FAR_BYTES, outlines

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
    assert (found.begun_at_ms, found.used_at_ms) == (1_795_168_800_000, 1_800_000_000_000)
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
