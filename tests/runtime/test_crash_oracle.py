"""The oracle can fail: evidence that was tampered with is found, whatever was done to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.laboratory.oracle_process import Oracle
from tests.support.laboratory.passage import Ended, Passage
from tests.support.laboratory.plan import UNDISTURBED
from tests.support.sets import EXTENDED
from tests.support.world import World

# One passage for all tests. Whoever changes the oracle runs the whole file.
pytestmark = [pytest.mark.xdist_group("crash oracle"), EXTENDED]

Json = dict[str, Any]
Tamper = Callable[[Json, str], None]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Oracle, Ended]]:
    directory = tmp_path_factory.mktemp("undisturbed")
    world = World(directory)
    with Oracle(directory / "journal.jsonl") as oracle:
        yield oracle, Passage(world, oracle, UNDISTURBED).play()
    world.close()


@pytest.mark.soak
def test_a_passage_that_nobody_disturbs_has_no_fault_and_every_effect(undisturbed):
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


def remove_messages(evidence: Json, speaker: str) -> None:
    messages = turns_of(evidence)[0]["messages"]
    messages[:] = [each for each in messages if each["speaker"] != speaker]


def remove_part(evidence: Json, kind: str) -> None:
    parts, part = part_of(evidence, kind)
    parts.remove(part)


def remove_event(evidence: Json, kind: str) -> None:
    events = run_events(evidence)
    events.remove(first(events, kind))


def repeat_part(evidence: Json, kind: str) -> None:
    parts, part = part_of(evidence, kind)
    parts.append(part)


def repeat_event(evidence: Json, kind: str) -> None:
    events = turns_of(evidence)[0]["events"] if kind == "turn_ended" else run_events(evidence)
    events.append(first(events, kind))


def continue_undecided(evidence: Json, kind: str) -> None:
    turns_of(evidence)[0]["events"].insert(3, {"kind": kind, "recognition": "undecidable"})


def change_first_turn(evidence: Json, name: str) -> None:
    turns_of(evidence)[0][name] = {"outcome": "unknown", "state": "sent"}[name]


def change_shown(evidence: Json, name: str) -> None:
    evidence["show"][name] = {"status": "running", "open_questions": [{"id": "opening"}]}[name]


def park_a_role(evidence: Json, state: str) -> None:
    evidence["show"]["roles"][0]["state"] = state


def break_integrity(evidence: Json, name: str) -> None:
    evidence["audit"]["integrity"][name] = False


TAMPERED: list[tuple[Tamper, str, str]] = [
    (remove_messages, "user", "acknowledged and lost: the prompt of trn_"),
    (remove_messages, "assistant", "acknowledged and lost: the reply of trn_"),
    (remove_part, "context", "unrecorded: a prompt to ses_"),
    (remove_event, "questions_asked", "lost: the questions ['opening', 'stranger']"),
    (remove_event, "question_answered", "lost: the answer {'question_id': 'opening'"),
    (remove_event, "run_ended", "acknowledged and lost: that the run was approved"),
    (remove_event, "step_ended", "the steps are ["),
    (repeat_event, "turn_ended", "doubled: 2 ends of the turn trn_"),
    (repeat_event, "step_ended", "doubled: 2 step_ended of trn_"),
    (repeat_event, "question_answered", "doubled: 2 question_answered of opening"),
    (repeat_part, "tool_call", "doubled: 2 tool_call of call_"),
    (change_first_turn, "outcome", "acknowledged and lost: the outcome ok of trn_"),
    (change_first_turn, "state", "is sent"),
    (continue_undecided, "prompt_recognised", "is undecidable, then came turn_ended"),
    (change_shown, "open_questions", "the question opening is open"),
    (park_a_role, "parked", "is parked"),
    (change_shown, "status", "the run has not ended: running"),
    (break_integrity, "is_intact", "the record does not verify"),
]


@pytest.mark.parametrize(("tamper", "what", "fault"), TAMPERED)
def test_a_record_that_was_tampered_with_is_found(undisturbed, tamper, what, fault):
    oracle, ended = undisturbed
    evidence = copy.deepcopy(ended.evidence)
    tamper(evidence, what)
    faults = oracle.judge(**evidence)["faults"]
    assert any(fault in each for each in faults), faults


EFFECT, PROMPT, GO_ON = ({"event": each} for each in ("effect", "prompt", "go_on"))
STRANGE, CONTINUED = ({**PROMPT, "text": each} for each in ("who said this?", "Go on"))
PARKED = [{"kind": "turn_parked", "reason": ""}, {"kind": "recovery_started"}]
ATTACHED = {"kind": "session_attached", "upstream_session_id": ""}
INCOMPLETE = {"kind": "prompt_recognised", "recognition": "incomplete"}
LOADED, RESUMED = ([{**ATTACHED, "how": how}, INCOMPLETE] for how in ("loaded", "resumed"))


@pytest.mark.parametrize(
    ("recorded", "more", "fault"),
    [
        ([], [EFFECT], "doubled: 2 outward effects "),
        ([], [PROMPT], "doubled: a prompt came 2 times to ses_"),
        ([], [STRANGE], "unrecorded: a prompt to ses_"),
        (LOADED, [CONTINUED, CONTINUED], "doubled: a prompt came 2 times to ses_"),
        (LOADED * 2, [CONTINUED, CONTINUED], ""),
        (LOADED * 2, [PROMPT], "doubled: a prompt came 2 times to ses_"),
        (RESUMED * 2, [CONTINUED, GO_ON, CONTINUED], "unasked: ('resumed', 'incomplete')"),
        (RESUMED * 2, [CONTINUED, GO_ON, CONTINUED, GO_ON], ""),
        (PARKED * 2, [GO_ON], "unasked: ('turn_parked', 'recovery_started')"),
    ],
)
def test_what_was_seen_outside_and_the_record_does_not_explain_is_found(
    undisturbed, tmp_path, recorded, more, fault
):
    """The first turn also has `recorded` events and one continuation, recorded twice."""
    seen, ended = undisturbed
    evidence = copy.deepcopy(ended.evidence)
    turn = turns_of(evidence)[0]
    turn["events"][3:3] = recorded
    turn["messages"] += [{"speaker": "user", "parts": [{"kind": "context", "text": "Go on"}]}] * 2
    first_of = {each["event"]: each for each in reversed(seen.entries())}
    added = [{**first_of.get(each["event"], {}), **each} for each in more]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(json.dumps(each) + "\n" for each in (*seen.entries(), *added)))
    with Oracle(journal) as oracle:
        faults = oracle.judge(**evidence)["faults"]
    assert [fault in each for each in faults] == [True] * bool(fault), faults
