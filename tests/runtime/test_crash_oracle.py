"""The oracle can fail: evidence that was tampered with is found, whatever was done to it."""

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
Tamper = Callable[[Json], None]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Oracle, Ended]]:
    directory = tmp_path_factory.mktemp("undisturbed")
    world = World(directory)
    with Oracle(directory / "journal.jsonl") as oracle:
        yield oracle, Passage(world, oracle, UNDISTURBED).play()
    world.close()


def turns_of(evidence: Json) -> list[Json]:
    return [turn for each in evidence["audit"]["conversations"] for turn in each["turns"]]


def run_events(evidence: Json) -> list[Json]:
    events: list[Json] = evidence["audit"]["runs"][0]["events"]
    return events


def first(events: list[Json], kind: str) -> Json:
    return next(event for event in events if event["kind"] == kind)


def remove_prompt(evidence: Json) -> None:
    messages = turns_of(evidence)[0]["messages"]
    messages[:] = [each for each in messages if each["speaker"] != "user"]


def remove_answer(evidence: Json) -> None:
    events = run_events(evidence)
    events.remove(first(events, "question_answered"))


def repeat_end(evidence: Json) -> None:
    events = turns_of(evidence)[0]["events"]
    events.append(first(events, "turn_ended"))


def change_outcome(evidence: Json) -> None:
    turns_of(evidence)[0]["outcome"] = "unknown"


def continue_undecided(evidence: Json) -> None:
    undecided = {"kind": "prompt_recognised", "recognition": "undecidable"}
    turns_of(evidence)[0]["events"].insert(3, undecided)


def open_question(evidence: Json) -> None:
    evidence["show"]["open_questions"] = [{"id": "opening"}]


def break_integrity(evidence: Json) -> None:
    evidence["audit"]["integrity"]["is_intact"] = False


TAMPERED: dict[Tamper, str] = {
    remove_prompt: "acknowledged and lost: the prompt of trn_",
    remove_answer: "lost: the answer {'question_id': 'opening'",
    repeat_end: "doubled: 2 ends of the turn trn_",
    change_outcome: "acknowledged and lost: the outcome ok of trn_",
    continue_undecided: "is undecidable, then came turn_ended",
    open_question: "the question opening is open",
    break_integrity: "the record does not verify",
}


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda tamper: tamper.__name__)
def test_a_record_that_was_tampered_with_is_found(undisturbed, tamper):
    oracle, ended = undisturbed
    evidence = copy.deepcopy(ended.evidence)
    tamper(evidence)
    faults = oracle.judge(**evidence)["faults"]
    assert any(TAMPERED[tamper] in each for each in faults), faults


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
