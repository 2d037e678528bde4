"""What is promised of reading a store whole, and of a copy: S29."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from upthread.core import commands, types
from upthread.core.agents import Actor
from upthread.core.decision.freshness import ExaminedFile
from upthread.core.events import QuestionAnswered, RunParked, RunResumed, StepStarted
from upthread.store.base import Store
from upthread.store.drafting import changed
from upthread.store.kinds import PARTS
from upthread.store.log import LogStore
from upthread.store.reads import Span
from upthread.store.streams import Entry, Head, new_head
from upthread.testing.store_conformance import samples
from upthread.testing.store_conformance.backend import Trial, promise
from upthread.testing.store_conformance.samples import CONVERSATION, KEY, PROJECT, RUN, TURN

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
    yield samples.end_of(1)
    yield commands.OpenLink(link=samples.link(1, "ses_b", owner=CHILD))
    yield samples.end_of(1, "expired", owner=FORGOTTEN)


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
    yield samples.stray(0, {"x": HARD})
    yield samples.stray(0, {"x": HARD}, owner=FORGOTTEN, turn_id=types.TurnId("trn_forgotten"))
    yield samples.stray(1, HARD)
    for at_ms in (9, 8):
        yield samples.refusal({"price": float("inf"), "depth": 1}, at_ms)
    files = tuple(
        ExaminedFile(path=path, how="read", state="hashed", size_bytes=7, mtime_ns=1, digest="ab")
        for path in ("b.py", "a\ud800.py")
    )
    for ordinal, owner in ((0, FORGOTTEN), (2, CONVERSATION), (4, CHILD)):
        yield samples.examined(ordinal, *files, owner=owner, session="ses_b")
    for by_user in ("ada@\ud800", "bea"):
        yield samples.act(by_user)
        yield samples.act(by_user, of_run=True)
    for seq in (1, 2):
        yield samples.edit(seq, {"goal": HARD, "seq": seq})
    for key in ("push", "deploy"):
        yield from (samples.step("intent", key=key), samples.step("failed", key=key))
        yield samples.step("intent", "att_2", key=key)
        yield samples.step("done", "att_2", key=key, receipt={"url": HARD})


def recorded_in(store: LogStore, project_id: types.ProjectId) -> list[tuple[Any, ...]]:
    """Return all that is stored of a project: each stream's name and head hash, and its entries."""
    return [
        (head.kind, head.name, head.hash, [each.plain() for each in store.all_entries(head.row)])
        for head in store.streams(project_id)
    ]


def copied(source: LogStore, target: LogStore, project_id: types.ProjectId) -> None:
    """Copy all streams of a project, a few entries at a time."""
    for head in source.streams(project_id):
        made = new_head(head.kind, head.name, head.project_id)
        after = 0
        while page := source.entries(Span(head.row, after=after, first=2)):
            change = changed(made)
            for entry in page:
                change.copy(entry)
            (made.row,) = target.append([change])
            after = page[-1].seq


_GIVEN: dict[str, object] = {
    "project_id": PROJECT,
    "workstream": samples.WORKSTREAM,
    "key": "deploy",
    "conversation_id": CONVERSATION,
    "turn_id": TURN,
    "run_id": RUN,
    "upstream_session_id": "ses_b",
    "upstream_session_ids": ["ses_a", "ses_b"],
    "identity": types.ProjectIdentity(path="/srv/b", owner="ada@one"),
    "owner": RUN,
    "newest": 20,
}


def answer_of(store: Store, name: str) -> object:
    """Return what a read of the port says of the first conversation and run."""
    read: Callable[..., object] = getattr(store, name)
    given = _GIVEN | {"key": KEY} if name == "resolve" else _GIVEN
    asked = inspect.signature(read)
    bound = asked.bind(**{each: given[each] for each in asked.parameters if each in given})
    return read(*bound.args, **bound.kwargs)


def answers(store: Store) -> dict[str, object]:
    """Return what each read of the port says of the first conversation and run, by its name."""
    return {name: answer_of(store, name) for name in READS}


READS = (
    *("resolve", "conversation", "conversations", "workstream", "workstreams", "projects"),
    *("links", "owner", "messages", "prior_messages", "message_count", "turns", "turn_events"),
    *("runs", "run", "run_events", "refusals", "acts", "quarantined", "examined"),
    *("briefing_edit", "once", "identities", "verify"),
)


@promise("S29")
def what_is_copied_is_the_same_store_again(trial: Trial) -> None:
    source = trial.store
    target = trial.backend.make(trial.place.with_name("moved"))
    try:
        source.commit(everything())
        copied(source, target, PROJECT)
        assert recorded_in(target, PROJECT) == recorded_in(source, PROJECT)
        # By their words, because no number that is none equals itself.
        assert repr(answers(target)) == repr(answers(source))
        assert [*map(repr, target.known_projects())] == [*map(repr, source.known_projects())]
        assert len(target.known_projects()) == 2
        # Heads and tags are what the entries make, and the entries are chained.
        assert [each.name for each in target.proofs() if each.damage] == []
        target.commit(everything())
        assert recorded_in(target, PROJECT) == recorded_in(source, PROJECT)
    finally:
        target.close()


@promise("S29")
def pages_of_any_size_hold_the_same(trial: Trial) -> None:
    """From either end, each entry once, in one order."""
    store = trial.store
    store.commit(everything())
    for head in store.streams(PROJECT):
        whole = list(store.entries(Span(head.row)))
        assert [each.seq for each in whole] == list(range(1, head.last + 1))
        for limit in (1, 2, 3):
            forwards, backwards = _pages(store, head, limit)
            assert forwards == whole, f"{head.kind} {head.name}, {limit} entries a page"
            assert backwards == whole, f"{head.kind} {head.name}, {limit} entries a page"
        for kind in {each.kind for each in whole} - set(PARTS):
            found = list(store.entries(Span(head.row, (kind,))))
            assert found == [each for each in whole if each.kind == kind]


def _pages(store: LogStore, head: Head, limit: int) -> tuple[list[Entry], list[Entry]]:
    forwards: list[Entry] = []
    while page := store.entries(Span(head.row, after=len(forwards), first=limit)):
        assert len(page) <= limit, "no more than were asked for"
        forwards += page
    backwards: list[Entry] = []
    before = head.last + 1
    while page := store.entries(Span(head.row, before=before, newest=limit)):
        backwards = [*page, *backwards]
        before = page[0].seq
    return forwards, backwards
