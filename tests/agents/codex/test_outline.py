"""What an outline says of a Codex thread: plain, compressed, archived, a sub-agent's."""

from __future__ import annotations

import json

import pytest
from tests.support.agent_homes import compressed

from upthread.agent_stores.outline import look
from upthread.agents.codex.reader import outlines

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
    (found,) = outlines(home, look())
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
