"""What is promised of forgetting, and of what it leaves: S26, S27 and S30."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from upthread.core.commands import EraseConversation, EraseRun, OpenConversation, Write
from upthread.core.decision.freshness import UNNAMED, ExaminedFile
from upthread.core.events import (
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEvent,
    RunStarted,
    StepEnded,
    TurnEnded,
    TurnIntended,
)
from upthread.core.types import (
    ConversationId,
    ErasedPart,
    JsonValue,
    Message,
    Outcome,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
)
from upthread.runtime.record.turn_views import run_events, turn_events
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, RUN, TURN, home, said

MARK = "a word that nobody else says"
OTHER = ConversationId("con_other")
OTHER_TURN = TurnId("trn_other")
REPORT: Mapping[str, JsonValue] = {
    "status": "done",
    "summary": MARK,
    "verdict": {"result": "approved", "evidence": [MARK]},
}
OUTLINE: Mapping[str, JsonValue] = {"status": "done", "verdict": {"result": "approved"}}


def _told() -> Sequence[Write]:
    """Return a conversation with its turn and its run, all of them saying the mark."""
    call = ToolCallPart(call_id="c1", title=MARK, tool_kind="read", arguments={"path": MARK})
    result = ToolResultPart(call_id="c1", status="completed", text=MARK * 1_000)
    return [
        *home(),
        *_receipt("told", CONVERSATION),
        said(1, TextPart(text=MARK)),
        said(2, TextPart(text=MARK), call, speaker=Speaker.ASSISTANT),
        said(3, result, speaker=Speaker.TOOL),
        samples.stray(0, {"text": MARK}),
        samples.examined(0, ExaminedFile(path=MARK, how="read", state="missing")),
        samples.edit(1, {"note": MARK}),
        samples.happened(1, TurnIntended(decision="first", reasons=("first",), prompt_seq=1)),
        samples.happened(2, TurnEnded(outcome=Outcome.OK, report=REPORT, detail=MARK)),
        samples.run(),
        *(samples.moved(seq, event) for seq, event in enumerate(_RUN, 1)),
    ]


def _receipt(key: str, conversation_id: str) -> Sequence[Write]:
    """Return a prompt to a conversation that is sent once under a key."""
    receipt: JsonValue = {"conversation_id": conversation_id, "reply": MARK, "and": CONVERSATION}
    return samples.step("intent", key=key), samples.step("done", key=key, receipt=receipt)


_RUN: tuple[RunEvent, ...] = (
    RunStarted(specification=MARK, pipeline={"steps": ["plan"]}),
    StepEnded(role="planner", turn_id=TURN, outcome=Outcome.OK, report=REPORT),
    QuestionsAsked(
        role="planner", questions=(Question(question_id="q", role="planner", text=MARK),)
    ),
    QuestionAnswered(question_id="q", text=MARK),
    StepEnded(role="auditor", turn_id=TURN, outcome=Outcome.OK, report=REPORT),
)


@promise("S26")
def what_is_erased_is_gone_and_its_outline_stays(trial: Trial) -> None:
    trial.commit(*_told())
    before = trial.store.messages(CONVERSATION)
    trial.commit(EraseConversation(conversation_id=CONVERSATION))
    trial.reopen()
    after = trial.store.messages(CONVERSATION)
    assert MARK not in repr(after)
    assert [_outline(each) for each in after] == [_outline(each) for each in before]
    assert after[1].parts[1] == ErasedPart(kind="tool_call", call_id="c1")
    assert trial.store.verify(CONVERSATION) is None
    assert trial.store.prior_messages(CONVERSATION, upstream_session_ids=("ses_a",), newest=9) == ()
    assert trial.store.quarantined(CONVERSATION, TURN)[0].raw is None
    assert trial.store.examined(CONVERSATION) == (UNNAMED,)
    assert (told := trial.store.once(PROJECT, "told"))
    assert told.receipt == {"conversation_id": CONVERSATION}
    assert (edit := trial.store.briefing_edit(CONVERSATION))
    assert (edit.seq, edit.edit) == (1, {})
    assert turn_events(trial.store, CONVERSATION, TURN) == (
        TurnIntended(decision="first", reasons=("first",), prompt_seq=1),
        TurnEnded(outcome=Outcome.OK, report=OUTLINE),
    )


def _outline(message: Message) -> tuple[object, ...]:
    owner = (message.seq, message.speaker, message.turn_id, message.upstream_session_id)
    return (*owner, message.recorded_at_ms, len(message.parts))


@promise("S26")
def a_run_is_erased_whole_or_for_one_role(trial: Trial) -> None:
    trial.commit(*_told())
    trial.commit(EraseRun(run_id=RUN, role="planner"))
    trial.reopen()
    started, planned, asked, answered, audited = run_events(trial.store, RUN)
    assert (started, audited) == (_RUN[0], _RUN[4])
    assert MARK not in repr((planned, asked, answered))
    trial.commit(EraseRun(run_id=RUN))
    assert MARK not in repr(trial.store.run_events(RUN))
    last = run_events(trial.store, RUN)[4]
    assert last == StepEnded(role="auditor", turn_id=TURN, outcome=Outcome.OK, report=OUTLINE)


@promise("S26")
def only_what_was_recorded_before_is_erased(trial: Trial) -> None:
    trial.commit(*_told())
    untouched = trial.store.messages(CONVERSATION), trial.store.run_events(RUN)
    receipt = trial.store.once(PROJECT, "told")
    trial.commit(EraseConversation(conversation_id=CONVERSATION, before_ms=5_000))
    trial.commit(EraseRun(run_id=RUN, before_ms=8_000))
    assert (trial.store.messages(CONVERSATION), trial.store.run_events(RUN)) == untouched
    assert trial.store.once(PROJECT, "told") == receipt
    trial.commit(EraseConversation(conversation_id=CONVERSATION, before_ms=5_001))
    assert MARK not in repr(trial.store.messages(CONVERSATION))
    assert MARK not in repr(trial.store.once(PROJECT, "told"))
    assert MARK in repr(trial.store.turn_events(CONVERSATION, TURN))


@promise("S26")
def nothing_of_another_conversation_is_erased(trial: Trial) -> None:
    trial.commit(*_told())
    opened = samples.conversation(OTHER, key=samples.sibling_key(role="auditor"))
    trial.commit(OpenConversation(conversation=opened))
    trial.commit(samples.turn(OTHER_TURN, owner=OTHER))
    trial.commit(said(1, owner=OTHER, turn_id=OTHER_TURN))
    trial.commit(*_receipt("another", OTHER))
    before = trial.store.messages(OTHER), trial.store.once(PROJECT, "another")
    trial.commit(EraseConversation(conversation_id=CONVERSATION), EraseRun(run_id=RUN))
    trial.store.scrub()
    trial.reopen()
    assert (trial.store.messages(OTHER), trial.store.once(PROJECT, "another")) == before


@promise("S26")
def a_conversation_goes_on_after_it_was_erased(trial: Trial) -> None:
    trial.commit(*_told())
    erase = EraseConversation(conversation_id=CONVERSATION)
    trial.commit(erase)
    trial.commit(erase)
    trial.commit(said(1, TextPart(text=MARK)))  # the same again, as S3 has it
    trial.commit(said(4))
    assert trial.store.messages(CONVERSATION)[3].text == "message 4"
    assert trial.store.verify(CONVERSATION) is None


@promise("S27")
def no_file_holds_what_was_erased(trial: Trial) -> None:
    trial.commit(*_told())
    for seq in range(4, 200):
        trial.commit(said(seq, TextPart(text=f"{MARK} {seq} " * seq)))
    trial.reopen()
    trial.commit(EraseConversation(conversation_id=CONVERSATION), EraseRun(run_id=RUN))
    trial.store.scrub()
    files = [path for path in trial.place.parent.rglob(f"{trial.place.name}*") if path.is_file()]
    assert not [path for path in files if MARK.encode() in path.read_bytes()]
    assert trial.store.verify(CONVERSATION) is None
    trial.store.close()
    assert not [path for path in files if path.exists() and MARK.encode() in path.read_bytes()]


@promise("S30")
def who_did_something_is_kept_once_and_stays(trial: Trial) -> None:
    told, answered = samples.act(), samples.act("bea", of_run=True)
    by_another = replace(told, by_user="bea")
    assert trial.store.acts(CONVERSATION) == trial.store.acts(RUN) == ()
    trial.commit(*home(), samples.run(), told, answered, by_another)
    trial.commit(by_another, told, answered)
    trial.commit(EraseConversation(conversation_id=CONVERSATION), EraseRun(run_id=RUN))
    trial.reopen()
    assert trial.store.acts(CONVERSATION) == (told, by_another)
    assert trial.store.acts(RUN) == (answered,)
