"""Transcripts repaired in a copy: pairs are whole, untouched lines stay as bytes."""

import json

import pytest
from tests.agent_stores.transcripts import (
    ClaudeTranscript,
    function_call,
    function_output,
    result,
    rollout,
    said,
    spoken,
    use,
)
from tests.core.history.requests import refusals

from upthread.agents.registry import reader_of
from upthread.core.history.model import faults
from upthread.core.history.repair import repair


def damaged_transcript(path):
    made = ClaudeTranscript()
    made.user("go")
    made.assistant(said("I run."), use("t1"), use("t2"))
    made.user([result("t1"), result("t1"), result("nobody")])
    made.user([result("nobody")])
    made.user("well?")
    made.assistant(said("and"), use("t3"))
    made.user("go on")
    made.lines.insert(3, '{"torn": ')
    return made.write(path)


def damaged_rollout(path):
    rollout(
        path,
        spoken("user", "go"),
        function_output("nobody"),
        function_call("c1"),
        function_call("c2"),
        function_output("c2"),
        function_output("c2"),
        spoken("assistant", "done"),
    )
    path.write_text(path.read_text() + '{"torn": ')
    return path


CASES = {"claude-code": (damaged_transcript, 5), "codex": (damaged_rollout, 4)}


def read_of(agent, path):
    (read,) = reader_of(agent).read_histories(path)
    return read


def repair_of(agent, path, into):
    return reader_of(agent).repair(path, into, session_id=None, sessions=())


@pytest.mark.parametrize("agent", CASES)
def test_a_damaged_transcript_is_whole_in_the_copy_and_untouched_where_it_is(agent, tmp_path):
    write, edits = CASES[agent]
    path = write(tmp_path / "s.jsonl")
    before = path.read_bytes()
    assert faults(read_of(agent, path).history)

    made = repair_of(agent, path, tmp_path / "ours")

    assert path.read_bytes() == before == made.before.read_bytes()
    assert made.left == ()
    assert len(made.edits) == edits
    history = read_of(agent, made.after).history
    assert faults(history) == ()
    assert refusals(repair(history).history) == []
    assert set(made.after.read_bytes().splitlines()) & set(before.splitlines())
    again = repair_of(agent, made.after, tmp_path / "two")
    assert again.edits == (), "the repaired copy is whole"
    assert again.after.read_bytes() == made.after.read_bytes()


def test_what_hung_on_an_answer_hangs_on_its_closing(tmp_path):
    made = ClaudeTranscript()
    made.user("go")
    answer = made.assistant(use("t1"))
    child = made.user("well?")
    copy = repair_of("claude-code", made.write(tmp_path / "s.jsonl"), tmp_path / "ours")
    entries = [json.loads(line) for line in copy.after.read_text().splitlines()]
    by_id = {entry["uuid"]: entry for entry in entries}
    closing = by_id[by_id[child]["parentUuid"]]
    assert closing["parentUuid"] == answer
    assert closing["message"]["content"][0]["tool_use_id"] == "t1"


def test_no_word_of_anybody_is_lost(tmp_path):
    path = damaged_transcript(tmp_path / "s.jsonl")
    copy = repair_of("claude-code", path, tmp_path / "ours")
    said = ["go", "I run.", "well?", "and", "go on"]
    parts = [p for m in read_of("claude-code", copy.after).history for p in m.parts]
    assert [p.text for p in parts if getattr(p, "text", None) in said] == said


def test_a_first_entry_that_goes_leaves_its_children_without_a_parent(tmp_path):
    made = ClaudeTranscript()
    made.user([result("nobody")])
    made.user("go")
    copy = repair_of("claude-code", made.write(tmp_path / "s.jsonl"), tmp_path / "ours")
    (entry,) = [json.loads(line) for line in copy.after.read_text().splitlines()]
    assert entry["parentUuid"] is None
