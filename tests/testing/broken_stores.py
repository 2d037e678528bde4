# ruff: noqa: ARG005  # what stands for a method is given what the method is given
"""Faults planted in a store, one each, that the suite shipped for stores has to find.

Each is a method of a real SQLite store that does a little less, or something else, than it
promises. A fault is given the real method and what it was called with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs
from tests.support.shipped_stores import SQLITE

from upthread.core import commands
from upthread.core.codec import decode_run_event
from upthread.core.types import (
    CHILD_SLOT,
    Fence,
    Lease,
    Speaker,
    TextPart,
    ToolCallPart,
)
from upthread.errors import ConflictError, FencedError, NotFoundError, StoreError, UpthreadError
from upthread.store.base import CONVERSATION_SECTIONS, PROJECT_SECTIONS
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import StoreBackend
from upthread.testing.store_conformance.samples import KEY, PROJECT

Real = Callable[..., Any]


class Fault(NamedTuple):
    """`breaks` is the number of the promise that has to fail; `is_shared` tries it in processes."""

    breaks: str
    what: str
    method: str
    does: Callable[..., Any]
    is_shared: bool = False

    @property
    def backend(self) -> StoreBackend:
        """A backend of stores with this fault."""
        opened = partial(open_broken, self.what)
        return replace(SQLITE, name=self.what, make=opened, is_shared=self.is_shared)


def open_broken(what: str, place: Path) -> SqliteStore:
    """Open a store with a fault, in this process or in another."""
    fault = next(each for each in FAULTS if each.what == what)
    real = getattr(SqliteStore, fault.method)

    def broken(self: SqliteStore, *values: Any, **named: Any) -> Any:
        return fault.does(partial(real, self), *values, **named)

    return type("Broken", (SqliteStore,), {fault.method: broken})(place)


def _of(real: Real) -> SqliteStore:
    """Return the store whose method it is."""
    assert isinstance(real, partial)
    return real.args[0]


# --- what is done to writes ----------------------------------------------------------------------


def _without(kind: type) -> Callable[..., None]:
    def does(real: Real, writes: Any, *, fences: Any = ()) -> None:
        real([each for each in writes if not isinstance(each, kind)], fences=fences)

    return does


def _changed(kind: type, change: Callable[[Any], Any]) -> Callable[..., None]:
    def does(real: Real, writes: Any, *, fences: Any = ()) -> None:
        real([change(each) if isinstance(each, kind) else each for each in writes], fences=fences)

    return does


def _tolerant(error: type[UpthreadError], kind: type = object) -> Callable[..., None]:
    """Swallow an error of a batch that ends with a write of a kind."""

    def does(real: Real, writes: Any, *, fences: Any = ()) -> None:
        try:
            real(writes, fences=fences)
        except error:
            if not (writes and isinstance(writes[-1], kind)):
                raise

    return does


def _one_by_one(real: Real, writes: Any, *, fences: Any = ()) -> None:
    for each in writes:
        real([each], fences=fences)


def _half_is_left(real: Real, writes: Any, *, fences: Any = ()) -> None:
    try:
        real(writes, fences=fences)
    except ConflictError:
        if len(writes) > 1:
            real(writes[:-1], fences=fences)
        raise


def _not_twice(real: Real, writes: Any, *, fences: Any = ()) -> None:
    seen = _of(real).__dict__.setdefault("seen", set())
    if writes and repr(writes) in seen:
        raise ConflictError("seen before")
    seen.add(repr(writes))
    real(writes, fences=fences)


def _renumbered(real: Real, writes: Any, *, fences: Any = ()) -> None:
    """Put a message that would leave a gap where there is none."""
    done: list[Any] = []
    for each in writes:
        write = each
        if isinstance(each, commands.RecordParts):
            last = _of(real).message_count(each.conversation_id)
            last += sum(isinstance(before, commands.RecordParts) for before in done)
            write = structs.replace(each, seq=last + 1) if each.seq > last + 1 else each
        done.append(write)
    real(done, fences=fences)


def _of_the_message(real: Real, writes: Any, *, fences: Any = ()) -> None:
    """Give a part that joins a message the message's speaker, whoever it says spoke."""
    done: list[Any] = []
    for each in writes:
        write = each
        if isinstance(each, commands.RecordParts) and each.first_ordinal:
            known = _of(real).message(each.conversation_id, each.seq)
            write = structs.replace(each, speaker=known.speaker) if known else each
        done.append(write)
    real(done, fences=fences)


def _known_token(real: Real, writes: Any, *, fences: Any = ()) -> None:
    """Take any token of a lease that somebody holds."""
    store = _of(real)
    taken = [(each, store.lease(each.name)) for each in fences]
    current = [Fence(name=each.name, token=it.token if it else 0) for each, it in taken]
    real(writes, fences=current)


def _fences_of_the_released(real: Real, writes: Any, *, fences: Any = ()) -> None:
    held = [each for each in fences if not _is_released(_of(real).lease(each.name))]
    real(writes, fences=held)


def _is_released(lease: Lease | None) -> bool:
    return lease is not None and lease.holder is None


def _only_with_writes(real: Real, writes: Any, *, fences: Any = ()) -> None:
    if writes:
        real(writes, fences=fences)


def _text(change: Callable[[str], str]) -> Callable[..., None]:
    def changed(write: Any) -> Any:
        parts = [
            replace(part, text=change(part.text)) if isinstance(part, TextPart) else part
            for part in write.parts
        ]
        return structs.replace(write, parts=tuple(parts))

    return _changed(commands.RecordParts, changed)


def _arguments(write: Any) -> Any:
    """Leave out what stands below the first level of a call's arguments."""
    parts = [
        replace(part, arguments=dict.fromkeys(part.arguments or {}))
        if isinstance(part, ToolCallPart)
        else part
        for part in write.parts
    ]
    return structs.replace(write, parts=tuple(parts))


def _opened_first(real: Real, writes: Any, *, fences: Any = ()) -> None:
    """Open a workstream that a conversation names, where nobody did."""
    missing = [
        commands.OpenWorkstream(
            project_id=each.conversation.key.project_id,
            workstream=each.conversation.key.workstream,
            base_name=f"{each.conversation.base_name}",
            opened_at_ms=0,
        )
        for each in writes
        if isinstance(each, commands.OpenConversation)
        and each.conversation.key.workstream == "nowhere"
    ]
    real([*(structs.replace(each, base_name="Anybody") for each in missing), *writes])


def _others_too(real: Real, writes: Any, *, fences: Any = ()) -> None:
    """Erase with a conversation those of the same workstream."""
    store = _of(real)
    more = [
        structs.replace(each, conversation_id=other.conversation_id)
        for each in writes
        if isinstance(each, commands.EraseConversation)
        and (known := store.conversation(each.conversation_id))
        for other in store.conversations(known.key.project_id, known.key.workstream)
    ]
    real([*writes, *more], fences=fences)


def _undone_fails(real: Real, writes: Any, *, fences: Any = ()) -> None:
    """Refuse all that follows a write that failed."""
    store = _of(real)
    if "failed" in store.__dict__:
        raise StoreError("it failed before")
    try:
        real(writes, fences=fences)
    except StoreError as error:
        if type(error) is StoreError:
            store.__dict__["failed"] = True
        raise


def _twice(kind: type) -> Callable[..., None]:
    """Write what was written before as if it were something new."""

    def does(real: Real, writes: Any, *, fences: Any = ()) -> None:
        again = [
            structs.replace(each, by_user=f"{each.by_user} again")
            for each in writes
            if isinstance(each, kind)
        ]
        real([*writes, *again], fences=fences)

    return does


_WRITES = (
    commands.RecordProject,
    commands.OpenWorkstream,
    commands.OpenConversation,
    commands.OpenLink,
    commands.EndLink,
    commands.OpenTurn,
    commands.RecordParts,
    commands.RecordTurnEvent,
    commands.OpenRun,
    commands.RecordRunEvent,
    commands.EnqueueTransition,
    commands.RecordQuarantine,
    commands.RecordDecision,
    commands.RecordOnce,
    commands.RecordExamined,
    commands.RecordBriefingEdit,
    commands.RecordAct,
)
_NUMBERED = (
    commands.OpenWorkstream,
    commands.OpenConversation,
    commands.OpenLink,
    commands.OpenTurn,
    commands.RecordParts,
    commands.RecordTurnEvent,
    commands.OpenRun,
    commands.RecordRunEvent,
    commands.EnqueueTransition,
    commands.RecordQuarantine,
    commands.RecordOnce,
)


def _commit(breaks: str, what: str, does: Callable[..., None], **more: Any) -> Fault:
    return Fault(breaks, f"commit: {what}", "commit", does, **more)


_COMMITTING = (
    *(_commit("S1", f"{kind.__name__} is dropped", _without(kind)) for kind in _WRITES),
    _commit("S1", "a batch goes in one by one", _one_by_one),
    _commit("S1", "what comes before a failure stays", _half_is_left),
    _commit("S1", "the last write is dropped", lambda real, writes, fences=(): real(writes[:-1])),
    _commit("S2", "the same again is refused", _not_twice),
    *(
        _commit("S3", f"{kind.__name__} with other content passes", _tolerant(ConflictError, kind))
        for kind in _NUMBERED
    ),
    _commit(
        "S3",
        "the last cause of an end stands",
        _changed(commands.EndLink, lambda each: structs.replace(each, ended_because="expired")),
    ),
    _commit("S4", "no fence is checked", lambda real, writes, fences=(): real(writes)),
    _commit(
        "S4",
        "the first fence alone is checked",
        lambda real, writes, fences=(): real(writes, fences=fences[:1]),
    ),
    _commit("S4", "any token fits", _known_token),
    _commit("S4", "a released lease is taken for held", _fences_of_the_released),
    _commit("S4", "an empty batch checks no fence", _only_with_writes),
    _commit(
        "S4",
        "a batch with fences is refused",
        lambda real, writes, fences=(): real(
            writes, fences=[Fence(name="no", token=0)] if fences else ()
        ),
    ),
    _commit("S6", "a gap is closed", _renumbered),
    _commit("S6", "a part has the message's speaker", _of_the_message),
    _commit("S6", "a gap of links passes", _tolerant(ConflictError, commands.OpenLink)),
    _commit("S6", "a gap of events passes", _tolerant(ConflictError, commands.RecordTurnEvent)),
    _commit("S8", "NUL is left out of texts", _text(lambda text: text.replace("\0", ""))),
    _commit(
        "S8",
        "half a character is replaced",
        _text(lambda text: text.encode(errors="replace").decode()),
    ),
    _commit("S8", "long texts are cut", _text(lambda text: text[:65_536])),
    _commit("S8", "texts are trimmed", _text(str.strip)),
    _commit("S8", "arguments lose their depth", _changed(commands.RecordParts, _arguments)),
    _commit("S10", "a key has two", _tolerant(ConflictError, commands.OpenConversation)),
    _commit("S11", "a name is shared", _tolerant(ConflictError, commands.OpenWorkstream)),
    _commit(
        "S15",
        "the delay of a transition is lost",
        _changed(commands.EnqueueTransition, lambda each: structs.replace(each, due_at_ms=0)),
    ),
    _commit("S18", "a failed write is passed over", _tolerant(StoreError)),
    _commit("S18", "nothing works after a failure", _undone_fails),
    _commit("S21", "what was never opened is opened", _opened_first),
    *(
        _commit("S21", f"{kind.__name__} of nobody passes", _tolerant(NotFoundError, kind))
        for kind in (
            commands.OpenLink,
            commands.OpenTurn,
            commands.RecordParts,
            commands.RecordTurnEvent,
            commands.RecordRunEvent,
            commands.EnqueueTransition,
            commands.RecordQuarantine,
            commands.RecordDecision,
            commands.EndLink,
        )
    ),
    _commit("S23", "two attempts begin", _tolerant(ConflictError, commands.RecordOnce)),
    _commit(
        "S23",
        "the receipt is lost",
        _changed(commands.RecordOnce, lambda each: structs.replace(each, receipt=None)),
    ),
    _commit(
        "S23",
        "an action is known by its key alone",
        _changed(commands.RecordOnce, lambda each: structs.replace(each, project_id=PROJECT)),
    ),
    _commit("S24", "a place is written twice", _tolerant(ConflictError, commands.RecordExamined)),
    _commit(
        "S24",
        "times are cut to the second",
        _changed(
            commands.RecordExamined,
            lambda each: structs.replace(
                each,
                files=tuple(
                    replace(it, mtime_ns=it.mtime_ns and it.mtime_ns // 10**9 * 10**9)
                    for it in each.files
                ),
            ),
        ),
    ),
    _commit("S25", "two edits are one", _tolerant(ConflictError, commands.RecordBriefingEdit)),
    _commit("S26", "nothing is erased", _without(commands.EraseConversation)),
    _commit("S26", "no run is erased", _without(commands.EraseRun)),
    _commit(
        "S26",
        "what is newer is erased too",
        _changed(commands.EraseConversation, lambda each: structs.replace(each, before_ms=None)),
    ),
    _commit(
        "S26",
        "a role's run is erased whole",
        _changed(commands.EraseRun, lambda each: structs.replace(each, role=None)),
    ),
    _commit("S26", "its neighbours are erased too", _others_too),
    _commit("S30", "an act is kept twice", _twice(commands.RecordAct)),
)


# --- what is done to answers ---------------------------------------------------------------------


def _answer(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda real, *values, **named: change(real(*values, **named))


def _constant(value: Any) -> Callable[..., Any]:
    return lambda real, *values, **named: value


def _asked(**instead: Any) -> Callable[..., Any]:
    return lambda real, *values, **named: real(*values, **{**named, **instead})


def _cached(real: Real, *values: Any, **named: Any) -> Any:
    """Answer as the first time."""
    kept = _of(real).__dict__.setdefault("kept", {})
    asked = repr((values, named))
    if asked not in kept:
        kept[asked] = real(*values, **named)
    return kept[asked]


def _by_time(name: str) -> Callable[..., Any]:
    return _answer(lambda rows: tuple(sorted(rows, key=lambda row: getattr(row, name))))


_backwards = _answer(lambda rows: tuple(reversed(rows)))
_first_lost = _answer(lambda rows: rows[1:])
_last_lost = _answer(lambda rows: rows[:-1])
_said_twice = _answer(lambda rows: (*rows, *rows[-1:]))


def _oldest(real: Real, owner: Any, *, newest: int | None = None, **named: Any) -> Any:
    rows = real(owner, **named)
    return rows if newest is None else rows[: max(newest, 0)]


def _inclusive(real: Real, owner: Any, *, after_seq: int = 0, **named: Any) -> Any:
    return real(owner, after_seq=max(after_seq - 1, 0), **named)


def _skipping(real: Real, owner: Any, **named: Any) -> Any:
    """Pass over what cannot be read."""
    try:
        return real(owner, **named)
    except StoreError:
        found = []
        for seq in range(1, _of(real).message_count(owner) + 1):
            try:
                found.append(SqliteStore.message(_of(real), owner, seq))
            except StoreError:
                continue
        return tuple(each for each in found if each is not None)


def _run_events_of(table: str) -> Callable[..., Any]:
    """Read a run's events from a table or view, and do not look whether one is missing."""
    statement = (
        f"SELECT e.kind, e.payload FROM run AS r JOIN {table} AS e ON e.run = r.id"
        " WHERE r.run_id = ? ORDER BY e.seq"
    )

    def does(real: Real, run_id: Any) -> Any:
        rows = _of(real).database.rows(statement, (run_id,))
        return tuple(decode_run_event(kind, payload) for kind, payload in rows)

    return does


def _believed_links(real: Real, conversation_id: Any) -> Any:
    """Take links as they stand, but for one that is missing."""
    try:
        return real(conversation_id)
    except StoreError:
        rows = _of(real).database.rows(
            "SELECT l.seq, l.upstream_session_id FROM link AS l JOIN conversation AS c"
            " ON c.id = l.conversation WHERE c.conversation_id = ? ORDER BY l.seq",
            (conversation_id,),
        )
        if [seq for seq, _ in rows] != list(range(1, len(rows) + 1)):
            raise
        return rows


def _first_link(real: Real, key: Any) -> Any:
    found = real(key)
    if found is None or found.link is None:
        return found
    still = [
        each
        for each in _of(real).links(found.conversation.conversation_id)
        if each.ended_because is None
    ]
    return replace(found, link=still[0])


def _ended_link(real: Real, key: Any) -> Any:
    found = real(key)
    links = _of(real).links(found.conversation.conversation_id) if found else ()
    return replace(found, link=links[-1]) if links else found


def _lowest(real: Real, key: Any) -> Any:
    found = real(key)
    if found is None:
        return None
    every = _of(real).conversations(key.project_id, key.workstream)
    lowest = min((it for it in every if it.key == key), key=lambda it: it.generation)
    return replace(found, conversation=lowest)


def _last_opened(real: Real, key: Any) -> Any:
    found = real(key)
    if found is None:
        return None
    every = _of(real).conversations(key.project_id, key.workstream)
    return replace(found, conversation=[it for it in every if it.key == key][-1])


def _child_found(real: Real, key: Any) -> Any:
    if key.slot != CHILD_SLOT:
        return real(key)
    return real(replace(key, slot=1, role=KEY.role))


def _anybodys(real: Real, project_id: Any, *values: Any) -> Any:
    return real(PROJECT, *values)


def _folded(real: Real, key: Any) -> Any:
    return real(replace(key, workstream=key.workstream.strip()))


def _prior(**instead: Any) -> Callable[..., Any]:
    return _asked(**instead)


def _whole_prior(
    real: Real, conversation_id: Any, *, upstream_session_ids: Any, newest: int
) -> Any:
    """Return all parts of what was said."""
    found = real(conversation_id, upstream_session_ids=upstream_session_ids, newest=newest)
    store = _of(real)
    return tuple(store.message(conversation_id, each.seq) for each in found)


def _everything_prior(
    real: Real, conversation_id: Any, *, upstream_session_ids: Any, newest: int
) -> Any:
    """Look back to the beginning."""
    said = [
        each
        for each in _of(real).messages(conversation_id)
        if each.speaker is not Speaker.TOOL
        and each.upstream_session_id in {None, *upstream_session_ids}
        and each.text.strip()
    ]
    return (
        tuple(
            replace(each, parts=tuple(part for part in each.parts if isinstance(part, TextPart)))
            for each in said[-newest:]
        )
        if newest > 0
        else ()
    )


def _foreign_prior(
    real: Real, conversation_id: Any, *, upstream_session_ids: Any, newest: int
) -> Any:
    """Read over all sessions there were."""
    links = _of(real).links(conversation_id)
    known = {each.upstream_session_id for each in links} | {"ses_a", "ses_b"}
    return real(conversation_id, upstream_session_ids=known, newest=newest)


def _no_unowned_prior(real: Real, *values: Any, **named: Any) -> Any:
    return tuple(each for each in real(*values, **named) if each.upstream_session_id)


def _page_lost(real: Real, section: Any, owner: str, *, after: Any = None, limit: int) -> Any:
    """Lose the first row of every page but the first."""
    rows = real(section, owner, after=after, limit=limit + 1 if after else limit)
    return rows[1:] if after else rows


def _page_end_lost(real: Real, section: Any, owner: str, *, after: Any = None, limit: int) -> Any:
    """Lose the last row of a page that is full, and go on behind it."""
    rows = real(section, owner, after=after, limit=limit)
    return (*rows[:-2], rows[-1]) if len(rows) == limit > 1 else rows


def _one_page(real: Real, section: Any, owner: str, *, after: Any = None, limit: int) -> Any:
    return () if after else real(section, owner, limit=limit)


def _no_section(name: str) -> Callable[..., Any]:
    def does(real: Real, section: Any, owner: str, *, after: Any = None, limit: int) -> Any:
        return () if section == name else real(section, owner, after=after, limit=limit)

    return does


def _first_of_section(name: str) -> Callable[..., Any]:
    """Lose a row of one table."""

    def does(real: Real, section: Any, owner: str, *, after: Any = None, limit: int) -> Any:
        if section == name and after is None:
            first = real(section, owner, limit=1)
            after = first[0].place if first else None
        return real(section, owner, after=after, limit=limit)

    return does


def _recorded(kind: type, change: Callable[[Any], Any]) -> Callable[..., Any]:
    def does(real: Real, *values: Any, **named: Any) -> Any:
        return tuple(
            each._replace(write=change(each.write)) if isinstance(each.write, kind) else each
            for each in real(*values, **named)
        )

    return does


def _counting(real: Real, conversation_id: Any) -> Any:
    """Know how many messages there are, and nothing of them."""
    return real(conversation_id) and bytes([_of(real).message_count(conversation_id)]) * 32


def _no_limit(real: Real, section: Any, owner: str, *, after: Any = None, limit: int) -> Any:
    return real(section, owner, after=after, limit=limit * 10)


def _early(real: Real, *, due_before_ms: int) -> Any:
    return real(due_before_ms=due_before_ms - 1)


def _outlined(real: Real, owner: Any, **named: Any) -> Any:
    return tuple(replace(each, parts=each.parts[:1]) for each in real(owner, **named))


def _owner_forgotten(real: Real, identity: Any) -> Any:
    found = {
        each.identity: each
        for owner in ("", "ada@one", "bea@two")
        for each in real(replace(identity, owner=owner))
    }
    return tuple(found.values())


_READS = (
    ("S7", "messages", "are in the order of time", _by_time("recorded_at_ms")),
    ("S7", "messages", "come newest first", _backwards),
    ("S7", "messages", "lose the oldest", _first_lost),
    ("S7", "messages", "lose the newest", _last_lost),
    ("S7", "messages", "the newest are the oldest", _oldest),
    ("S7", "messages", "the newest are all", _asked(newest=None)),
    ("S7", "messages", "begin at the number they should begin after", _inclusive),
    ("S7", "messages", "begin at the beginning", _asked(after_seq=0)),
    ("S7", "messages", "are no more than a page", _answer(lambda rows: rows[:1_000])),
    ("S7", "messages", "are those of the first time", _cached),
    ("S7", "message", "is the one before", lambda real, owner, seq: real(owner, seq - 1)),
    ("S7", "message_count", "is one too many", _answer(lambda number: number + 1)),
    ("S7", "message_count", "stands still", _cached),
    ("S7", "turns", "come newest first", _backwards),
    ("S7", "turns", "the newest are the oldest", _oldest),
    ("S7", "turns", "lose the newest", _last_lost),
    ("S7", "turn_count", "is always one", _constant(1)),
    ("S7", "turn_owner", "is nobody", _constant(None)),
    ("S7", "turn_events", "come newest first", _backwards),
    ("S7", "turn_events", "lose the newest", _last_lost),
    ("S7", "turn_events", "lose the first", _first_lost),
    ("S7", "turn_moved_at_ms", "is the latest time", _answer(lambda at: at and 9_000)),
    ("S7", "run_events", "come newest first", _backwards),
    ("S7", "run_events", "lose the newest", _last_lost),
    ("S7", "run_moved_at_ms", "is the latest time", _answer(lambda at: at and 9_000)),
    ("S7", "runs", "come newest first", _backwards),
    ("S7", "runs", "lose the oldest", _first_lost),
    ("S7", "runs", "are in the order of time", _by_time("opened_at_ms")),
    ("S7", "workstreams", "come newest first", _backwards),
    ("S7", "workstreams", "are in the order of time", _by_time("opened_at_ms")),
    ("S7", "conversations", "come newest first", _backwards),
    ("S7", "conversations", "are in the order of time", _by_time("opened_at_ms")),
    (
        "S7",
        "conversations",
        "lose the children",
        _answer(lambda rows: tuple(each for each in rows if each.key.slot)),
    ),
    ("S7", "links", "come newest first", _backwards),
    (
        "S7",
        "links",
        "are those that are open",
        _answer(lambda rows: tuple(each for each in rows if each.ended_because is None)),
    ),
    ("S7", "links", "are in the order of time", _by_time("opened_at_ms")),
    ("S7", "refusals", "come newest first", _backwards),
    ("S7", "refusals", "are in the order of time", _by_time("decided_at_ms")),
    ("S7", "quarantined", "are in the order they came", _backwards),
    ("S7", "projects", "lose those of a path", _answer(lambda rows: rows[:1])),
    ("S8", "messages", "are the first reader's", _cached),
    ("S8", "messages", "have one part", _outlined),
    ("S9", "messages", "pass over a damaged row", _skipping),
    ("S9", "verify", "is content with everything", _constant(None)),
    ("S9", "verify", "is content with nothing", _constant(1)),
    ("S9", "verify", "names the message after", _answer(lambda seq: seq and seq + 1)),
    ("S9", "verify", "looks at the first alone", _answer(lambda seq: seq if seq == 1 else None)),
    ("S12", "resolve", "is the lowest generation", _lowest),
    ("S12", "resolve", "is the one opened last", _last_opened),
    ("S12", "resolve", "holds the oldest open link", _first_link),
    ("S12", "resolve", "holds a link that has ended", _ended_link),
    (
        "S12",
        "resolve",
        "finds the main one for its sibling",
        lambda real, key: real(replace(key, slot=1)),
    ),
    ("S10", "resolve", "finds a child", _child_found),
    ("S12", "resolve", "is as it was at first", _cached),
    ("S12", "link_owner", "had it once", _cached),
    ("S12", "link_owner", "is nobody", _constant(None)),
    ("S15", "pending_transitions", "come early", _asked(due_before_ms=2**50)),
    ("S15", "pending_transitions", "come a moment late", _early),
    ("S15", "pending_transitions", "come newest first", _backwards),
    ("S15", "pending_transitions", "come one at a time", _answer(lambda rows: rows[:1])),
    ("S15", "pending_transitions", "come twice", _said_twice),
    ("S15", "pending_transitions", "never come", _constant(())),
    ("S15", "pending_transitions", "stay when their run went on", _cached),
    ("S19", "resolve", "trims names", _folded),
    ("S19", "lease", "trims names", lambda real, name: real(name.strip())),
    (
        "S20",
        "resolve",
        "takes any project",
        lambda real, key: real(replace(key, project_id=PROJECT)),
    ),
    ("S20", "conversations", "are anybody's", _anybodys),
    ("S20", "workstream", "is anybody's", _anybodys),
    ("S20", "workstreams", "are anybody's", _anybodys),
    ("S20", "runs", "are anybody's", _anybodys),
    ("S20", "link_owner", "is anybody's", _anybodys),
    ("S22", "prior_messages", "come newest first", _backwards),
    ("S22", "prior_messages", "lose the oldest", _first_lost),
    ("S22", "prior_messages", "lose the newest", _last_lost),
    ("S22", "prior_messages", "are all there are", _asked(newest=10_000)),
    ("S22", "prior_messages", "are of other sessions too", _foreign_prior),
    ("S22", "prior_messages", "are of links alone", _no_unowned_prior),
    ("S22", "prior_messages", "hold calls too", _whole_prior),
    ("S22", "prior_messages", "look back to the beginning", _everything_prior),
    ("S22", "prior_messages", "are in the order of time", _by_time("recorded_at_ms")),
    ("S23", "once", "is not known", _constant(None)),
    ("S23", "once", "is as it was at first", _cached),
    ("S24", "examined", "come newest first", _backwards),
    ("S24", "examined", "are of all sessions", _asked(upstream_session_id=None)),
    (
        "S24",
        "examined",
        "are in the order of names",
        _answer(lambda files: tuple(sorted(files, key=lambda each: each.path))),
    ),
    ("S7", "examined", "are those of the first time", _cached),
    ("S24", "examined_count", "is none", _constant(0)),
    ("S7", "briefing_edit", "is the first", _cached),
    ("S25", "briefing_edit", "is none", _constant(None)),
    (
        "S26",
        "messages",
        "erased are left out",
        _answer(lambda rows: tuple(each for each in rows if each.text)),
    ),
    ("S26", "turn_events", "erased are left out", _answer(lambda rows: rows[:1])),
    ("S27", "scrub", "does nothing", _constant(None)),
    ("S28", "held", "counts at all times", _asked(before_ms=None)),
    (
        "S28",
        "held",
        "counts one part for many",
        _answer(lambda held: replace(held, parts=min(held.parts, 1))),
    ),
    (
        "S28",
        "held",
        "counts characters",
        _answer(
            lambda held: replace(held, content_bytes=held.content_bytes and held.content_bytes - 1)
        ),
    ),
    ("S28", "held", "counts what was erased", _cached),
    ("S29", "recorded", "loses a row between pages", _page_lost),
    ("S29", "recorded", "loses a row at the end of a page", _page_end_lost),
    ("S29", "recorded", "ends with the first page", _one_page),
    ("S29", "recorded", "gives more than was asked for", _no_limit),
    *(
        ("S29", "recorded", f"loses all of {name}", _no_section(name))
        for name in (*PROJECT_SECTIONS, *CONVERSATION_SECTIONS)
    ),
    *(
        ("S29", "recorded", f"loses one {name}", _first_of_section(name))
        for name in (*PROJECT_SECTIONS, *CONVERSATION_SECTIONS)
    ),
    (
        "S29",
        "recorded",
        "loses when a transition is due",
        _recorded(commands.EnqueueTransition, lambda each: structs.replace(each, due_at_ms=0)),
    ),
    (
        "S29",
        "recorded",
        "loses a turn's run",
        _recorded(commands.OpenTurn, lambda each: structs.replace(each, run_id=None)),
    ),
    (
        "S29",
        "recorded",
        "loses the times of messages",
        _recorded(commands.RecordParts, lambda each: structs.replace(each, recorded_at_ms=0)),
    ),
    (
        "S29",
        "recorded",
        "loses a session's messages' session",
        _recorded(
            commands.RecordParts, lambda each: structs.replace(each, upstream_session_id=None)
        ),
    ),
    (
        "S29",
        "recorded",
        "loses the inputs of refusals",
        _recorded(commands.RecordDecision, lambda each: structs.replace(each, inputs=None)),
    ),
    ("S29", "chain_head", "is always the same", _answer(lambda head: head and b"x" * 32)),
    ("S29", "chain_head", "is none", _constant(None)),
    ("S29", "chain_head", "tells how many there are", _counting),
    ("S29", "known_projects", "loses one", _last_lost),
    ("S30", "acts", "come newest first", _backwards),
    ("S30", "acts", "are none", _constant(())),
    ("S30", "run_acts", "are none", _constant(())),
    ("S31", "projects", "forget whose a path is", _owner_forgotten),
    (
        "S31",
        "projects",
        "are found by path alone",
        lambda real, identity: real(replace(identity, root_commit=None)),
    ),
    (
        "S31",
        "projects",
        "are found by root commit alone",
        lambda real, identity: real(replace(identity, path="/nowhere")),
    ),
    ("S33", "run_events", "believes one that was changed", _run_events_of("run_event")),
    ("S33", "run_events", "passes over one that is gone", _run_events_of("whole_run_event")),
    ("S33", "links", "believes one that was changed", _believed_links),
)


# --- leases, opening and closing -----------------------------------------------------------------


def _given_away(real: Real, name: str, holder: Any, *, seen: Any = None) -> Any:
    return real(name, holder, seen=_of(real).lease(name))


def _own_again(real: Real, name: str, holder: Any, *, seen: Any = None) -> Any:
    held = _of(real).lease(name)
    if held is not None and held.holder == holder:
        return held
    return real(name, holder, seen=seen)


def _moved_too(real: Real, name: str, holder: Any, *, seen: Any = None) -> Any:
    """Take over from whoever was seen, though it has shown life since."""
    return real(name, holder, seen=_of(real).lease(name) if seen else None)


def _same_token(real: Real, name: str, holder: Any, *, seen: Any = None) -> Any:
    lease = real(name, holder, seen=seen)
    return lease and replace(lease, token=1)


def _never(real: Real, name: str, holder: Any, *, seen: Any = None) -> Any:
    return None if seen else real(name, holder)


def _current(real: Real, fence: Fence) -> Any:
    """Take any token."""
    lease = _of(real).lease(fence.name)
    return real(replace(fence, token=lease.token if lease else 0))


def _lenient(real: Real, fence: Fence) -> None:
    try:
        real(fence)
    except FencedError:
        return


def _once_only(real: Real, fence: Fence) -> None:
    if _is_released(_of(real).lease(fence.name)):
        raise FencedError("released before")
    real(fence)


_NUMBERS = count()


def _elsewhere(real: Real, place: Path) -> None:
    real(place.with_name(f"{place.name}.{next(_NUMBERS)}"))


def _newer_too(real: Real, place: Path) -> None:
    """Open what a newer version wrote."""
    import apsw

    if place.exists():
        raw = apsw.Connection(str(place))
        newest = _VERSIONS.setdefault(str(place), raw.pragma("user_version"))
        raw.pragma("user_version", newest)
        raw.close()
    real(place)


_VERSIONS: dict[str, Any] = {}


def _touched(real: Real, place: Path) -> None:
    """Leave something beside a store that it refuses."""
    try:
        real(place)
    except StoreError:
        place.with_name(place.name + "-refused").write_text("x")
        raise


def _closed_once(real: Real) -> None:
    if _of(real).__dict__.setdefault("closed", False):
        raise StoreError("closed before")
    _of(real).__dict__["closed"] = True
    real()


_OTHERS = (
    Fault("S5", "open: finds nothing again", "__init__", _elsewhere),
    Fault("S5", "close: only once", "close", _closed_once),
    Fault("S5", "close: does nothing", "close", lambda real: None),
    Fault("S17", "open: takes a newer one", "__init__", _newer_too),
    Fault("S17", "open: changes what it refuses", "__init__", _touched),
    Fault("S13", "acquire_lease: gives it away", "acquire_lease", _given_away),
    Fault("S13", "acquire_lease: gives it to its holder again", "acquire_lease", _own_again),
    Fault("S13", "acquire_lease: takes over from the living", "acquire_lease", _moved_too),
    Fault("S13", "acquire_lease: has one token", "acquire_lease", _same_token),
    Fault("S13", "acquire_lease: takes over from nobody", "acquire_lease", _never),
    Fault("S13", "heartbeat: is not kept", "heartbeat", _constant(None)),
    Fault("S13", "release_lease: is not kept", "release_lease", _constant(None)),
    Fault("S7", "lease: is as it was at first", "lease", _cached),
    Fault("S14", "heartbeat: takes any token", "heartbeat", _current),
    Fault("S14", "heartbeat: says nothing of an old token", "heartbeat", _lenient),
    Fault("S14", "release_lease: takes any token", "release_lease", _current),
    Fault("S14", "release_lease: says nothing of an old token", "release_lease", _lenient),
    Fault("S14", "release_lease: only once", "release_lease", _once_only),
    Fault(
        "S7",
        "message_count: other stores are not looked at",
        "message_count",
        _cached,
        is_shared=True,
    ),
)

FAULTS: tuple[Fault, ...] = (
    *_COMMITTING,
    *(Fault(breaks, f"{method}: {what}", method, does) for breaks, method, what, does in _READS),
    *_OTHERS,
)
