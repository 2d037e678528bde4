"""What is promised of reading a store whole, and of a copy: S29."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from upthread.core import commands, types
from upthread.core.actors import Actor
from upthread.core.decision.examined import ExaminedFile
from upthread.core.events import QuestionAnswered, RunParked, RunResumed, StepStarted
from upthread.runtime.record.store_copy import due_runs
from upthread.store.chain import as_bytes
from upthread.store.drafting import changed
from upthread.store.entries import Entry
from upthread.store.kinds import KINDS, PARTS
from upthread.store.log import LogStore
from upthread.store.streams import STREAMS, Head, new_head, refolded
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promises
from upthread.testing.store_conformance.samples import CONVERSATION, PROJECT, RUN, TURN

CHILD = types.ConversationId("con_child")
FORGOTTEN = types.ConversationId("con_forgotten")
CONVERSATIONS = (CONVERSATION, CHILD, FORGOTTEN)
WAITING = types.RunId("run_waiting")
STARTED = types.RunId("run_started")
HARD = "NUL \0, half a character \ud800, \U0001f9f5"

_PARTS: tuple[types.Part, ...] = (
    types.TextPart(text=HARD),
    types.ToolCallPart(
        call_id="c1", title="Read", tool_kind="read", arguments={"n": [1, 1.0, True]}
    ),
    types.ToolResultPart(call_id="c1", status="completed", text=HARD, child_conversation_id=CHILD),
    types.FilePart(uri="file:///a", mime_type="text/plain"),
    types.UnknownPart(kind="hologram", raw={"nan": float("nan"), "text": HARD}),
)


def everything() -> Sequence[commands.Write]:
    """Return writes that leave something in every table, in several states, of one project."""
    return [
        commands.RecordProject(
            project_id=PROJECT,
            identity=types.ProjectIdentity(path="/srv/\ud800", root_commit="c0ffee"),
        ),
        commands.RecordProject(
            project_id=PROJECT,
            identity=types.ProjectIdentity(path="/srv/b", remote="g/x", owner="ada@one"),
        ),
        *samples.home(),
        samples.workstream("feature/\0", base_name="Lyra"),
        *_conversations(),
        *_runs(),
        *_turns(),
        *_beside_messages(),
        commands.EraseConversation(conversation_id=FORGOTTEN),
    ]


def _conversations() -> Iterator[commands.Write]:
    forgotten = samples.conversation(FORGOTTEN, key=samples.sibling_key(role="validator"))
    child = samples.conversation(CHILD, key=samples.sibling_key(0, "Explore"), parent=CONVERSATION)
    yield commands.OpenConversation(conversation=forgotten)
    yield commands.OpenConversation(conversation=child)
    yield commands.OpenLink(link=samples.link(1, "ses_\ud800", owner=FORGOTTEN))
    # One that was opened before an older conversation's next one, and ended after it.
    yield commands.OpenLink(link=samples.link(2, "ses_b"))
    yield commands.EndLink(
        conversation_id=CONVERSATION, seq=1, ended_because="missing", ended_at_ms=9
    )
    yield commands.OpenLink(link=samples.link(1, "ses_b", owner=CHILD))
    yield commands.EndLink(
        conversation_id=FORGOTTEN, seq=1, ended_because="expired", ended_at_ms=10
    )


def _runs() -> Iterator[commands.Write]:
    """One that waits for a limit, one that was left in the middle of a step, one that went on."""
    yield from map(samples.run, (RUN, WAITING, STARTED))
    for run_id in (WAITING, RUN, STARTED):
        yield samples.moved(1, run_id=run_id)
        yield commands.EnqueueTransition(run_id=run_id, run_seq=1, due_at_ms=10)
    yield samples.moved(2, StepStarted(role="planner", turn_id=TURN), run_id=STARTED)
    parked = RunParked(reason="rate_limited", detail=HARD, reset_at_ms=20)
    yield samples.moved(2, parked, run_id=WAITING)
    yield commands.EnqueueTransition(run_id=WAITING, run_seq=2, due_at_ms=20)
    by = Actor(kind="model", name=HARD)
    yield samples.moved(2, QuestionAnswered(question_id="q1", text=HARD, answered_by=by))
    yield samples.moved(3, RunResumed(because=HARD))


def _turns() -> Iterator[commands.Write]:
    second, forgotten = types.TurnId("trn_two"), types.TurnId("trn_forgotten")
    yield samples.happened(1)
    yield commands.OpenTurn(
        turn_id=second, conversation_id=CONVERSATION, opened_at_ms=5, run_id=RUN
    )
    yield samples.turn(forgotten, owner=FORGOTTEN)
    yield samples.happened(1, turn_id=second)
    yield samples.happened(2)
    yield samples.said(1, *_PARTS)
    yield samples.said(2, _PARTS[1], speaker=types.Speaker.ASSISTANT, turn_id=second)
    # What a child said belongs to a turn of its parent's.
    yield samples.said(1, owner=CHILD)
    yield samples.said(1, *_PARTS, owner=FORGOTTEN, turn_id=forgotten)
    yield samples.happened(1, owner=FORGOTTEN, turn_id=forgotten)


def _beside_messages() -> Iterator[commands.Write]:
    stray = commands.RecordQuarantine(
        conversation_id=CONVERSATION,
        turn_id=TURN,
        ordinal=0,
        reason=HARD,
        raw={"x": HARD},
        recorded_at_ms=9,
    )
    forgotten = types.TurnId("trn_forgotten")
    yield stray
    yield structs.replace(stray, conversation_id=FORGOTTEN, turn_id=forgotten)
    yield structs.replace(stray, ordinal=1)
    for at_ms in (9, 8):
        yield commands.RecordDecision(
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
        yield commands.RecordExamined(
            conversation_id=owner,
            turn_id=TURN,
            first_ordinal=ordinal,
            upstream_session_id=types.UpstreamSessionId("ses_read"),
            files=files,
            recorded_at_ms=9,
        )
    for by_user in ("ada@\ud800", "bea"):
        told = commands.RecordAct(what="told", by_user=by_user, detail=TURN, recorded_at_ms=9)
        yield structs.replace(told, run_id=RUN, what="answered")
        yield structs.replace(told, conversation_id=CONVERSATION)
    for seq in (1, 2):
        edit = {"goal": HARD, "seq": seq}
        yield commands.RecordBriefingEdit(
            conversation_id=CONVERSATION, seq=seq, edit=edit, recorded_at_ms=seq
        )
    for key in ("push", "deploy"):
        once = commands.RecordOnce(
            project_id=PROJECT, key=key, attempt_id="att_1", state="intent", recorded_at_ms=9
        )
        yield from (once, structs.replace(once, state="failed", recorded_at_ms=10))
        yield structs.replace(once, attempt_id="att_2", recorded_at_ms=11)
        done = structs.replace(once, attempt_id="att_2", state="done", recorded_at_ms=12)
        yield structs.replace(done, receipt={"url": HARD})


def streams_of(store: LogStore, project_id: types.ProjectId) -> Iterator[Head]:
    """Yield the heads of all streams of a project."""
    for kind in STREAMS:
        yield from store.heads(project_id, kind)


def recorded_in(store: LogStore, project_id: types.ProjectId) -> list[tuple[object, ...]]:
    """Return all that is stored of a project: each stream's name and head hash, and its entries."""
    return [
        (
            *(head.kind, head.name, head.hash),
            [_plain(each) for each in store.all_entries(head.row)],
        )
        for head in streams_of(store, project_id)
    ]


def _plain(entry: Entry) -> tuple[object, ...]:
    kept, said = as_bytes(entry.kept), as_bytes(entry.said)
    return (entry.seq, entry.kind, entry.at_ms, kept, said, entry.digest, entry.hash)


def copied(source: LogStore, target: LogStore, project_id: types.ProjectId) -> None:
    """Copy all streams of a project, a few entries at a time."""
    for head in streams_of(source, project_id):
        made = new_head(head.kind, head.name, head.project_id)
        after = 0
        while page := source.entries(head.row, after=after, first=2):
            change = changed(made)
            for entry in page:
                change.copy(entry)
            (made.row,) = target.append([change])
            after = page[-1].seq


def what_is_copied_is_the_same_store_again(trial: Trial) -> None:
    source = trial.store
    target = trial.backend.make(trial.place.with_name("moved"))
    try:
        source.commit(everything())
        copied(source, target, PROJECT)
        assert recorded_in(target, PROJECT) == recorded_in(source, PROJECT)
        expected = dict(_answers(source))
        for what, answer in _answers(target):
            assert answer == expected[what], f"{what} is {answer}, and was {expected[what]}"
        for conversation_id in CONVERSATIONS:
            assert target.verify(conversation_id) is None
        target.commit(everything())
        assert recorded_in(target, PROJECT) == recorded_in(source, PROJECT)
    finally:
        target.close()


def _answers(store: LogStore) -> Iterator[tuple[str, str]]:
    """Yield what each read of the port returns of all that `everything` writes, by its words."""
    asked: dict[str, Iterator[object]] = {
        "known": iter(store.known_projects()),
        "workstreams": iter(store.workstreams(PROJECT)),
        "conversations": iter(store.conversations(PROJECT, samples.WORKSTREAM)),
        "resolved": map(store.resolve, (samples.KEY, samples.sibling_key(role="validator"))),
        "owners": (store.owner(PROJECT, each) for each in ("ses_a", "ses_b", "ses_\ud800")),
        "runs": iter(store.runs(PROJECT, samples.WORKSTREAM)),
        "due": (due_runs(store, PROJECT, before_ms=each) for each in (5, 15, 25)),
        "once": (store.once(PROJECT, key) for key in ("push", "deploy")),
    }
    for run_id in (RUN, WAITING, STARTED):
        asked[f"events of {run_id}"] = iter(store.run_events(run_id))
        asked[f"acts of {run_id}"] = iter(store.acts(run_id))
    for conversation_id in CONVERSATIONS:
        asked.update(_answers_of(store, conversation_id))
    for what, answers in asked.items():
        yield what, repr(list(answers))


def _answers_of(
    store: LogStore, conversation_id: types.ConversationId
) -> Iterator[tuple[str, Iterator[object]]]:
    """Yield what is read of a conversation and its turns."""
    turns = store.turns(conversation_id)
    answers: dict[str, object] = {
        "itself": store.conversation(conversation_id),
        "links": store.links(conversation_id),
        "messages": store.messages(conversation_id),
        "turns": turns,
        "turn events": [store.turn_events(conversation_id, each.turn_id) for each in turns],
        "quarantined": [store.quarantined(conversation_id, each.turn_id) for each in turns],
        "examined": store.examined(conversation_id),
        "edit": store.briefing_edit(conversation_id),
        "refusals": store.refusals(conversation_id),
        "acts": store.acts(conversation_id),
    }
    for what, answer in answers.items():
        yield f"{what} of {conversation_id}", iter((answer,))


def pages_of_any_size_hold_the_same(trial: Trial) -> None:
    """From either end, each entry once, in one order."""
    store = trial.store
    store.commit(everything())
    written: set[str] = set()
    for head in streams_of(store, PROJECT):
        whole = list(store.entries(head.row))
        written |= {each.kind for each in whole}
        assert [each.seq for each in whole] == list(range(1, head.last + 1))
        for limit in (1, 2, 3):
            forwards, backwards = _pages(store, head, limit)
            assert forwards == whole, f"{head.kind} {head.name}, {limit} entries a page"
            assert backwards == whole, f"{head.kind} {head.name}, {limit} entries a page"
        for kind in {each.kind for each in whole} - set(PARTS):
            assert list(store.entries(head.row, (kind,))) == [e for e in whole if e.kind == kind]
    assert written == set(KINDS)


def _pages(store: LogStore, head: Head, limit: int) -> tuple[list[Entry], list[Entry]]:
    forwards: list[Entry] = []
    while page := store.entries(head.row, after=len(forwards), first=limit):
        assert len(page) <= limit, "no more than were asked for"
        forwards += page
    backwards: list[Entry] = []
    before = head.last + 1
    while page := store.entries(head.row, before=before, newest=limit):
        backwards = [*page, *backwards]
        before = page[0].seq
    return forwards, backwards


def nothing_of_another_project_is_there(trial: Trial) -> None:
    store = trial.store
    store.commit(everything())
    assert recorded_in(store, types.ProjectId(f"{PROJECT}_two")) == []
    assert len(recorded_in(store, PROJECT)) == len(list(streams_of(store, PROJECT)))


def what_was_erased_is_there_by_its_outline(trial: Trial) -> None:
    store = trial.store
    store.commit(everything())
    (message,) = store.messages(FORGOTTEN)
    assert len(message.parts) == len(_PARTS)
    for part in message.parts:
        assert isinstance(part, types.ErasedPart)
        assert part.size_bytes
    head = store.head("conversation", FORGOTTEN)
    assert head is not None
    assert [each.said for each in store.entries(head.row, PARTS)] == [None]
    assert all(each.digest for each in store.entries(head.row, PARTS))


def a_head_is_what_its_entries_make(trial: Trial) -> None:
    """Also after each kind of write, and when it was read anew."""
    store = trial.store
    store.commit(everything())
    trial.reopen()
    store = trial.store
    for head in streams_of(store, PROJECT):
        assert repr(refolded(head, store.all_entries(head.row))) == repr(head)


MOVING_PROMISES = promises(
    {
        "S29": (
            what_is_copied_is_the_same_store_again,
            pages_of_any_size_hold_the_same,
            nothing_of_another_project_is_there,
            what_was_erased_is_there_by_its_outline,
            a_head_is_what_its_entries_make,
        ),
    }
)
