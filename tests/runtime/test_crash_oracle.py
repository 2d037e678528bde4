"""The oracle can fail: evidence that was tampered with is found, whatever was done to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.laboratory.oracle_process import Oracle
from tests.support.laboratory.passage import Ended, Passage
from tests.support.laboratory.plan import UNDISTURBED
from tests.support.world import World

pytestmark = pytest.mark.xdist_group("crash oracle")  # one passage for all of them

Json = dict[str, Any]
Tamper = Callable[[Json], None]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Oracle, Ended]]:
    directory = tmp_path_factory.mktemp("undisturbed")
    world = World(directory)
    with Oracle(directory / "journal.jsonl") as oracle:
        yield oracle, Passage(world, oracle, UNDISTURBED).play()
    world.close()


@pytest.fixture
def oracle_with(
    undisturbed: tuple[Oracle, Ended], tmp_path: Path
) -> Iterator[Callable[[Tamper], Oracle]]:
    """Return another oracle that saw the same, and may have seen more."""
    seen, _ = undisturbed
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(seen.journal.read_bytes())
    with Oracle(journal) as oracle:
        yield oracle


def test_a_passage_that_nobody_disturbs_has_no_fault_and_every_effect(
    undisturbed: tuple[Oracle, Ended],
) -> None:
    _, ended = undisturbed
    assert ended.faults == []
    assert ended.hits == []
    assert ended.counts == {
        "turns": 10,
        "prompts": 10,
        "effects": 4,
        "acknowledged": 10 + 10 + 1 + 2 + 1,
        "parked": {},
        "recognised": {},
        "adopted": 0,
    }


def turns_of(evidence: Json) -> list[Json]:
    return [turn for each in evidence["audit"]["conversations"] for turn in each["turns"]]


def run_events(evidence: Json) -> list[Json]:
    events: list[Json] = evidence["audit"]["runs"][0]["events"]
    return events


def first(events: list[Json], kind: str) -> Json:
    return next(event for event in events if event["kind"] == kind)


def part_of(evidence: Json, kind: str) -> tuple[list[Json], Json]:
    for turn in turns_of(evidence):
        for message in turn["messages"]:
            for part in message["parts"]:
                if part["kind"] == kind:
                    return message["parts"], part
    raise AssertionError(kind)


def forget_the_turn(evidence: Json) -> None:
    evidence["audit"]["conversations"][0]["turns"].pop(0)


def forget_the_prompt(evidence: Json) -> None:
    messages = turns_of(evidence)[0]["messages"]
    messages[:] = [each for each in messages if each["speaker"] != "user"]


def forget_the_context(evidence: Json) -> None:
    parts, part = part_of(evidence, "context")
    parts.remove(part)


def forget_the_reply(evidence: Json) -> None:
    messages = turns_of(evidence)[0]["messages"]
    messages[:] = [each for each in messages if each["speaker"] != "assistant"]


def forget_the_questions(evidence: Json) -> None:
    events = run_events(evidence)
    events.remove(first(events, "questions_asked"))


def forget_an_answer(evidence: Json) -> None:
    events = run_events(evidence)
    events.remove(first(events, "question_answered"))


def forget_the_end(evidence: Json) -> None:
    events = run_events(evidence)
    events.remove(first(events, "run_ended"))


def change_an_outcome(evidence: Json) -> None:
    turns_of(evidence)[0]["outcome"] = "unknown"


def end_a_turn_twice(evidence: Json) -> None:
    events = turns_of(evidence)[0]["events"]
    events.append(first(events, "turn_ended"))


def end_a_step_twice(evidence: Json) -> None:
    events = run_events(evidence)
    events.append(first(events, "step_ended"))


def answer_twice(evidence: Json) -> None:
    events = run_events(evidence)
    events.append(first(events, "question_answered"))


def call_twice(evidence: Json) -> None:
    parts, part = part_of(evidence, "tool_call")
    parts.append(part)


def leave_a_question_open(evidence: Json) -> None:
    evidence["show"]["open_questions"] = [{"id": "opening"}]


def leave_a_role_parked(evidence: Json) -> None:
    evidence["show"]["roles"][0]["state"] = "parked"


def leave_a_turn_open(evidence: Json) -> None:
    turns_of(evidence)[0]["state"] = "sent"


def leave_the_run_open(evidence: Json) -> None:
    evidence["show"]["status"] = "running"


def go_on_undecided(evidence: Json) -> None:
    recognised = {"kind": "prompt_recognised", "recognition": "undecidable"}
    turns_of(evidence)[0]["events"].insert(3, recognised)


def change_the_record(evidence: Json) -> None:
    evidence["audit"]["integrity"]["is_intact"] = False


def skip_a_step(evidence: Json) -> None:
    events = run_events(evidence)
    events.remove(first(events, "step_ended"))


TAMPERED: dict[Tamper, str] = {
    forget_the_turn: "acknowledged and lost: the turn trn_",
    forget_the_prompt: "acknowledged and lost: the prompt of trn_",
    forget_the_context: "unrecorded: a prompt to ses_",
    forget_the_reply: "acknowledged and lost: the reply of trn_",
    forget_the_questions: "acknowledged and lost: the questions ['opening', 'stranger']",
    forget_an_answer: "acknowledged and lost: the answer {'question_id': 'opening'",
    forget_the_end: "acknowledged and lost: that the run was approved",
    change_an_outcome: "acknowledged and lost: the outcome ok of trn_",
    end_a_turn_twice: "doubled: 2 ends of the turn trn_",
    end_a_step_twice: "doubled: 2 step_ended of trn_",
    answer_twice: "doubled: 2 question_answered of opening",
    call_twice: "doubled: 2 tool_call of call_",
    leave_a_question_open: "the question opening is open",
    leave_a_role_parked: "is parked",
    leave_a_turn_open: "is sent",
    leave_the_run_open: "the run has not ended: running",
    go_on_undecided: "is undecidable, then came turn_ended",
    change_the_record: "the record does not verify",
    skip_a_step: "the steps are [",
}


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda each: each.__name__)
def test_a_record_that_was_tampered_with_is_found(
    undisturbed: tuple[Oracle, Ended], tamper: Tamper
) -> None:
    oracle, ended = undisturbed
    evidence = copy.deepcopy(ended.evidence)
    tamper(evidence)
    faults = oracle.judge(**evidence)["faults"]
    assert any(TAMPERED[tamper] in fault for fault in faults), faults


def effect_again(oracle: Oracle) -> Json:
    return next(each for each in oracle.entries() if each["event"] == "effect")


def prompt_again(oracle: Oracle) -> Json:
    return next(each for each in oracle.entries() if each["event"] == "prompt")


def prompt_of_nobody(oracle: Oracle) -> Json:
    return {**prompt_again(oracle), "text": "who said this?"}


SEEN = {
    effect_again: "doubled: 2 outward effects ",
    prompt_again: "doubled: a prompt came 2 times to ses_",
    prompt_of_nobody: "unrecorded: a prompt to ses_",
}


@pytest.mark.parametrize("more", SEEN, ids=lambda each: each.__name__)
def test_what_was_seen_outside_and_is_not_in_the_record_is_found(
    undisturbed: tuple[Oracle, Ended], oracle_with: Oracle, more: Callable[[Oracle], Json]
) -> None:
    _, ended = undisturbed
    with oracle_with.journal.open("ab") as journal:
        journal.write(json.dumps(more(oracle_with)).encode() + b"\n")
    faults = oracle_with.judge(**ended.evidence)["faults"]
    assert any(SEEN[more] in fault for fault in faults), faults
    assert len(faults) == 1
