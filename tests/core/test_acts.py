"""Acts: each thing a person does to the record is told from its writes, and nothing else is."""

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from upthread.core.commands import (
    ADOPTED,
    FORKED,
    LIMIT_PASSED,
    EraseConversation,
    EraseRun,
    OpenConversation,
    OpenLink,
    OpenTurn,
    RecordBriefingEdit,
    RecordRunEvent,
    RecordTurnEvent,
    Write,
    acts_in,
    gaps_in,
    settlement,
    settlements_in,
)
from upthread.core.events import (
    QuestionAnswered,
    RecoveryStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    TurnEnded,
    TurnIntended,
)
from upthread.core.turns.effects import EffectState, Settlement
from upthread.core.types import Outcome
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.samples import CONVERSATION, RUN, TURN

NOW_MS = 99
TOLD = OpenTurn(turn_id=TURN, conversation_id=CONVERSATION, opened_at_ms=4)
INTENDED = TurnIntended(decision="resume", reasons=("unchanged",), prompt_seq=1)
FORK = structs.replace(INTENDED, decision=FORKED)
AGAIN = OpenConversation(conversation=samples.conversation(generation=2))
ADOPTION = OpenLink(link=replace(samples.link(), opened_because=ADOPTED))
EDITED = RecordBriefingEdit(conversation_id=CONVERSATION, seq=2, edit={}, recorded_at_ms=7)
STARTED = RunStarted(specification="", pipeline={})
ANSWERED = QuestionAnswered(question_id="q1", text="yes")


def event_of_turn(event):
    return RecordTurnEvent(
        conversation_id=CONVERSATION, turn_id=TURN, seq=1, event=event, recorded_at_ms=5
    )


def event_of_run(event):
    return RecordRunEvent(run_id=RUN, seq=1, event=event, recorded_at_ms=6)


def acts(*writes: Write) -> Any:
    found = acts_in(writes, by_user="ada", now_ms=NOW_MS)
    assert {act.by_user for act in found} <= {"ada"}
    return [
        (act.conversation_id or act.run_id, act.what, act.detail, act.recorded_at_ms)
        for act in found
    ]


@pytest.mark.parametrize(
    ("writes", "found"),
    [
        ((TOLD, event_of_turn(INTENDED)), (CONVERSATION, "told", TURN, 4)),
        ((TOLD, event_of_turn(FORK)), (CONVERSATION, "forked", TURN, 4)),
        ((event_of_turn(RecoveryStarted(holder="x")),), (CONVERSATION, "went_on", TURN, 5)),
        ((AGAIN,), (CONVERSATION, "reset", "", 2_000)),
        ((ADOPTION,), (CONVERSATION, "adopted", "ses_a", 3_000)),
        ((EDITED,), (CONVERSATION, "edited", "2", 7)),
        ((EraseConversation(conversation_id=CONVERSATION),), (CONVERSATION, "forgot", "", NOW_MS)),
        ((EraseRun(run_id=RUN, role="planner"),), (RUN, "forgot", "planner", NOW_MS)),
        ((event_of_run(STARTED),), (RUN, "started", "", 6)),
        ((event_of_run(ANSWERED),), (RUN, "answered", "q1", 6)),
        ((event_of_run(RunResumed(because="run again")),), (RUN, "resumed", "", 6)),
    ],
)
def test_what_a_person_does_is_kept_with_who_it_was(writes, found):
    assert acts(*writes) == [found]


@pytest.mark.parametrize(
    "write",
    [
        structs.replace(TOLD, run_id=RUN),
        OpenConversation(conversation=samples.conversation()),
        OpenLink(link=samples.link()),
        event_of_turn(TurnEnded(outcome=Outcome.OK)),
        event_of_run(RunResumed(because=LIMIT_PASSED)),
        event_of_run(RunEnded(status="approved")),
        samples.said(1),
    ],
)
def test_what_upthread_does_by_itself_is_nobodys_act(write):
    assert acts(write) == []


def test_what_a_person_says_of_an_action_is_an_act_whose_last_word_counts():
    said = [
        settlement(CONVERSATION, call_id, word, by_user="ada", at_ms=at_ms)
        for at_ms, (call_id, word) in enumerate(
            [("c 1", Settlement.DONE), ("c2", Settlement.AGAIN), ("c 1", Settlement.NOT_DONE)]
        )
    ]
    assert {act.by_user for act in said} == {"ada"}
    assert settlements_in(said) == {"c 1": Settlement.NOT_DONE, "c2": Settlement.AGAIN}
    assert settlements_in([structs.replace(said[0], what="told")]) == {}


def test_what_came_after_the_backup_of_a_restore_is_unknown():
    told = settlement(CONVERSATION, "c1", Settlement.DONE, by_user="ada", at_ms=5)
    (gap,) = gaps_in([told, structs.replace(told, what="restored", recorded_at_ms=7)])
    assert (gap.call_id, gap.state) == ("restored 7", EffectState.UNKNOWN)
    refused = RecoveryStarted(holder="w", refused_as=Outcome.UNKNOWN, detail="row 7")
    assert acts(event_of_turn(refused)) == acts()
