"""What is promised of reading a store whole: S29."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from upthread.core.actors import Actor
from upthread.core.commands import (
    EndLink,
    EnqueueTransition,
    EraseConversation,
    OpenConversation,
    OpenLink,
    OpenTurn,
    RecordAct,
    RecordBriefingEdit,
    RecordDecision,
    RecordExamined,
    RecordOnce,
    RecordParts,
    RecordProject,
    RecordQuarantine,
    Write,
)
from upthread.core.events import QuestionAnswered, RunParked, RunResumed, StepStarted
from upthread.core.examined import ExaminedFile
from upthread.core.types import (
    ConversationId,
    ErasedPart,
    FilePart,
    Part,
    ProjectId,
    ProjectIdentity,
    RunId,
    Speaker,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UnknownPart,
    UpstreamSessionId,
)
from upthread.store.base import (
    CONVERSATION_SECTIONS,
    PROJECT_SECTIONS,
    Recorded,
    Section,
    WholeStore,
)
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promises
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, RUN, TURN

CHILD = ConversationId("con_child")
FORGOTTEN = ConversationId("con_forgotten")
WAITING = RunId("run_waiting")
STARTED = RunId("run_started")
HARD = "NUL \0, half a character \ud800, \U0001f9f5"

_PARTS: tuple[Part, ...] = (
    TextPart(text=HARD),
    ToolCallPart(call_id="c1", title="Read", tool_kind="read", arguments={"n": [1, 1.0, True]}),
    ToolResultPart(call_id="c1", status="completed", text=HARD, child_conversation_id=CHILD),
    FilePart(uri="file:///a", mime_type="text/plain"),
    UnknownPart(kind="hologram", raw={"nan": float("nan"), "text": HARD}),
)


def everything() -> Sequence[Write]:
    """Return writes that leave something in every table, in several states, of one project."""
    return [
        RecordProject(
            project_id=PROJECT, identity=ProjectIdentity(path="/srv/\ud800", root_commit="c0ffee")
        ),
        RecordProject(
            project_id=PROJECT,
            identity=ProjectIdentity(path="/srv/b", remote="g/x", owner="ada@one"),
        ),
        *samples.home(),
        samples.workstream("feature/\0", base_name="Lyra"),
        *_conversations(),
        *_runs(),
        *_turns(),
        *_beside_messages(),
        EraseConversation(conversation_id=FORGOTTEN),
    ]


def _conversations() -> Iterator[Write]:
    forgotten = samples.conversation(FORGOTTEN, key=samples.sibling_key(role="validator"))
    child = samples.conversation(CHILD, key=samples.sibling_key(0, "Explore"), parent=CONVERSATION)
    yield OpenConversation(conversation=forgotten)
    yield OpenConversation(conversation=child)
    yield OpenLink(link=samples.link(1, "ses_\ud800", owner=FORGOTTEN))
    # One that was opened before an older conversation's next one, and ended after it.
    yield OpenLink(link=samples.link(2, "ses_b"))
    yield EndLink(conversation_id=CONVERSATION, seq=1, ended_because="missing", ended_at_ms=9)
    yield OpenLink(link=samples.link(1, "ses_b", owner=CHILD))
    yield EndLink(conversation_id=FORGOTTEN, seq=1, ended_because="expired", ended_at_ms=10)


def _runs() -> Iterator[Write]:
    """One that waits for a limit, one that was left in the middle of a step, one that went on."""
    yield from map(samples.run, (RUN, WAITING, STARTED))
    for run_id in (WAITING, RUN, STARTED):
        yield samples.moved(1, run_id=run_id)
        yield EnqueueTransition(run_id=run_id, run_seq=1, due_at_ms=10)
    yield samples.moved(2, StepStarted(role="planner", turn_id=TURN), run_id=STARTED)
    parked = RunParked(reason="rate_limited", detail=HARD, reset_at_ms=20)
    yield samples.moved(2, parked, run_id=WAITING)
    yield EnqueueTransition(run_id=WAITING, run_seq=2, due_at_ms=20)
    by = Actor(kind="model", name=HARD)
    yield samples.moved(2, QuestionAnswered(question_id="q1", text=HARD, answered_by=by))
    yield samples.moved(3, RunResumed(because=HARD))


def _turns() -> Iterator[Write]:
    second, forgotten = TurnId("trn_two"), TurnId("trn_forgotten")
    yield samples.happened(1)
    yield OpenTurn(turn_id=second, conversation_id=CONVERSATION, opened_at_ms=5, run_id=RUN)
    yield samples.turn(forgotten, owner=FORGOTTEN)
    yield samples.happened(1, turn_id=second)
    yield samples.happened(2)
    yield samples.said(1, *_PARTS)
    yield samples.said(2, TextPart(text=""), speaker=Speaker.ASSISTANT, turn_id=second)
    # What a child said belongs to a turn of its parent's.
    yield samples.said(1, owner=CHILD)
    yield samples.said(1, *_PARTS, owner=FORGOTTEN, turn_id=forgotten)
    yield samples.happened(1, turn_id=forgotten)


def _beside_messages() -> Iterator[Write]:
    for turn_id, ordinal in ((TURN, 0), (TurnId("trn_forgotten"), 0), (TURN, 1)):
        yield RecordQuarantine(
            turn_id=turn_id, ordinal=ordinal, reason=HARD, raw={"x": HARD}, recorded_at_ms=9
        )
    for at_ms in (9, 8):
        yield RecordDecision(
            conversation_id=CONVERSATION,
            decision="refuse",
            reasons=("busy",),
            inputs={"price": float("inf"), "depth": 1},
            decided_at_ms=at_ms,
        )
    files = tuple(
        ExaminedFile(path=path, how="read", state="hashed", size_bytes=7, mtime_ns=1, digest="ab")
        for path in ("b.py", "a\ud800.py")
    )
    for ordinal, owner in ((0, FORGOTTEN), (2, CONVERSATION), (4, CHILD)):
        yield RecordExamined(
            conversation_id=owner,
            turn_id=TURN,
            first_ordinal=ordinal,
            upstream_session_id=UpstreamSessionId("ses_read"),
            files=files,
            recorded_at_ms=9,
        )
    for by_user in ("ada@\ud800", "bea"):
        told = RecordAct(what="told", by_user=by_user, detail=TURN, recorded_at_ms=9)
        yield replace(told, run_id=RUN, what="answered")
        yield replace(told, conversation_id=CONVERSATION)
    for seq in (1, 2):
        edit = {"goal": HARD, "seq": seq}
        yield RecordBriefingEdit(
            conversation_id=CONVERSATION, seq=seq, edit=edit, recorded_at_ms=seq
        )
    for key in ("push", "deploy"):
        once = RecordOnce(
            project_id=PROJECT, key=key, attempt_id="att_1", state="intent", recorded_at_ms=9
        )
        yield from (once, replace(once, state="failed", recorded_at_ms=10))
        yield replace(once, attempt_id="att_2", recorded_at_ms=11)
        done = replace(once, attempt_id="att_2", state="done", recorded_at_ms=12)
        yield replace(done, receipt={"url": HARD})


def recorded_in(store: WholeStore, project_id: ProjectId, *, limit: int = 2) -> list[Write]:
    """Return all that is stored of a project as the writes that make it, a few rows at a time."""
    return [
        each.write
        for section, owner in _sections(store, project_id, limit=limit)
        for each in _section(store, section, owner, limit=limit)
    ]


def _sections(
    store: WholeStore, project_id: ProjectId, *, limit: int
) -> Iterator[tuple[Section, str]]:
    for section in PROJECT_SECTIONS:
        yield section, project_id
    for each in _section(store, "conversation", project_id, limit=limit):
        assert isinstance(each.write, OpenConversation)
        for owned in CONVERSATION_SECTIONS:
            yield owned, each.write.conversation.conversation_id


def _section(store: WholeStore, section: Section, owner: str, *, limit: int) -> Iterator[Recorded]:
    after = None
    while page := store.recorded(section, owner, after=after, limit=limit):
        assert len(page) <= limit
        yield from page
        after = page[-1].place


def what_is_recorded_makes_the_same_store_again(trial: Trial) -> None:
    source = cast("WholeStore", trial.store)
    target = cast("WholeStore", trial.backend.make(trial.place.with_name("moved")))
    try:
        source.commit(everything())
        written = recorded_in(source, PROJECT)
        target.commit(written)
        # As text: NaN is not equal to itself, and 1, 1.0 and True are.
        assert list(map(repr, recorded_in(target, PROJECT, limit=1_000))) == list(
            map(repr, written)
        )
        assert target.known_projects() == source.known_projects()
        for conversation_id in (CONVERSATION, CHILD, FORGOTTEN):
            assert target.verify(conversation_id) is None
            assert target.chain_head(conversation_id) == source.chain_head(conversation_id)
            assert target.links(conversation_id) == source.links(conversation_id)
            assert target.examined(conversation_id) == source.examined(conversation_id)
            assert target.acts(conversation_id) == source.acts(conversation_id)
            assert target.held(conversation_id) == source.held(conversation_id)
            assert repr(target.messages(conversation_id)) == repr(source.messages(conversation_id))
        for due_before_ms in (15, 25):
            pending = source.pending_transitions(due_before_ms=due_before_ms)
            assert target.pending_transitions(due_before_ms=due_before_ms) == pending
        assert target.link_owner(PROJECT, "ses_b") == source.link_owner(PROJECT, "ses_b")
    finally:
        target.close()


def nothing_of_another_project_is_recorded(trial: Trial) -> None:
    store = cast("WholeStore", trial.store)
    assert store.chain_head(CONVERSATION) is None
    store.commit(everything())
    nobody = ProjectId(f"{PROJECT}_two")
    assert recorded_in(store, nobody) == []
    for section in CONVERSATION_SECTIONS:
        assert store.recorded(section, "con_nobody", limit=10) == ()


def what_was_erased_is_recorded_by_its_outline(trial: Trial) -> None:
    store = cast("WholeStore", trial.store)
    store.commit(everything())
    writes = [each.write for each in _section(store, "part", FORGOTTEN, limit=1)]
    parts = [write.parts for write in writes if isinstance(write, RecordParts)]
    assert len(parts) == len(_PARTS)
    for (part,) in parts:
        assert isinstance(part, ErasedPart)
        assert part.digest
        assert part.size_bytes


MOVING_PROMISES = promises(
    {
        "S29": (
            what_is_recorded_makes_the_same_store_again,
            nothing_of_another_project_is_recorded,
            what_was_erased_is_recorded_by_its_outline,
        ),
    }
)
