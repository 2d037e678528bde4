# ruff: noqa: ARG005  # what stands for a method is given what the method is given
"""Faults planted in a store, one each, that the suite shipped for stores has to find.

Each is a method of a real SQLite store that does a little less, or something else, than it
promises. A fault is given the real method and what it was called with.
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs
from msgspec.structs import replace
from tests.support.shipped_stores import SQLITE

from upthread.core import commands
from upthread.core.types import CHILD_SLOT, Fence, Lease, Speaker, TextPart, ToolCallPart
from upthread.errors import ConflictError, FencedError, NotFoundError, StoreError, UpthreadError
from upthread.store.kinds import KINDS
from upthread.store.sqlite import SqliteStore
from upthread.store.streams import kept_of
from upthread.testing.store_conformance import StoreBackend
from upthread.testing.store_conformance.samples import KEY, PROJECT

Real = Callable[..., Any]


Planted = Mapping[tuple[str, str], Mapping[str, Callable[..., Any]]]
"""What a method does instead, by the promise that it breaks and its name."""


class Fault(NamedTuple):
    """`breaks` is the number of the promise that has to fail."""

    breaks: str
    what: str
    method: str
    does: Callable[..., Any]

    @property
    def backend(self) -> StoreBackend:
        """A backend of stores with this fault."""
        opened = partial(open_broken, self.what)
        return replace(SQLITE, name=self.what, make=opened)


def open_broken(what: str, place: Path) -> SqliteStore:
    """Open a store with a fault, in this process or in another."""
    fault = next(each for each in FAULTS if each.what == what)
    real = getattr(SqliteStore, fault.method)

    @wraps(real)
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


def _with(kind: type, **instead: Any) -> Callable[..., None]:
    return _changed(kind, lambda each: structs.replace(each, **instead))


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
            known = _of(real).messages(each.conversation_id, after_seq=each.seq - 1, first=1)
            write = structs.replace(each, speaker=known[0].speaker) if known else each
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


def _act_twice(real: Real, writes: Any, *, fences: Any = ()) -> None:
    """Write an act that was written before as if it were something new."""
    acts = [each for each in writes if isinstance(each, commands.RecordAct)]
    again = [structs.replace(each, by_user=f"{each.by_user} again") for each in acts]
    real([*writes, *again], fences=fences)


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
_WRITES = (
    *_NUMBERED,
    commands.RecordProject,
    commands.EndLink,
    commands.RecordDecision,
    commands.RecordExamined,
    commands.RecordBriefingEdit,
    commands.RecordAct,
)
_OWNED = (*_NUMBERED[1:6], *_NUMBERED[7:10], commands.RecordDecision, commands.EndLink)

_COMMITTING: Planted = {
    ("S1", "commit"): {
        **{f"{kind.__name__} is dropped": _without(kind) for kind in _WRITES},
        "a batch goes in one by one": _one_by_one,
    },
    ("S2", "commit"): {"the same again is refused": _not_twice},
    ("S3", "commit"): {
        **{
            f"{kind.__name__} with other content passes": _tolerant(ConflictError, kind)
            for kind in _NUMBERED
        },
        "two edits are one": _tolerant(ConflictError, commands.RecordBriefingEdit),
        "the last cause of an end stands": _with(commands.EndLink, ended_because="expired"),
    },
    ("S4", "commit"): {
        "the first fence alone is checked": lambda real, writes, fences=(): real(
            writes, fences=fences[:1]
        ),
        "any token fits": _known_token,
        "a released lease is taken for held": _fences_of_the_released,
        "an empty batch checks no fence": _only_with_writes,
        "a batch with fences is refused": lambda real, writes, fences=(): real(
            writes, fences=[Fence(name="no", token=0)] if fences else ()
        ),
    },
    ("S6", "commit"): {
        "a gap is closed": _renumbered,
        "a part has the message's speaker": _of_the_message,
        "a gap of links passes": _tolerant(ConflictError, commands.OpenLink),
        "a gap of events passes": _tolerant(ConflictError, commands.RecordTurnEvent),
    },
    ("S8", "commit"): {
        "NUL is left out of texts": _text(lambda text: text.replace("\0", "")),
        "half a character is replaced": _text(lambda text: text.encode(errors="replace").decode()),
        "long texts are cut": _text(lambda text: text[:65_536]),
        "texts are trimmed": _text(str.strip),
        "arguments lose their depth": _changed(commands.RecordParts, _arguments),
    },
    ("S11", "commit"): {"a name is shared": _tolerant(ConflictError, commands.OpenWorkstream)},
    ("S15", "commit"): {
        "the delay of a transition is lost": _with(commands.EnqueueTransition, due_at_ms=0)
    },
    ("S18", "commit"): {
        "a failed write is passed over": _tolerant(StoreError),
        "nothing works after a failure": _undone_fails,
    },
    ("S21", "commit"): {
        **{f"{kind.__name__} of nobody passes": _tolerant(NotFoundError, kind) for kind in _OWNED},
    },
    ("S23", "commit"): {
        "two attempts begin": _tolerant(ConflictError, commands.RecordOnce),
        "the receipt is lost": _with(commands.RecordOnce, receipt=None),
        "an action is known by its key alone": _with(commands.RecordOnce, project_id=PROJECT),
    },
    ("S24", "commit"): {
        "a place is written twice": _tolerant(ConflictError, commands.RecordExamined),
        "times are cut to the second": _changed(
            commands.RecordExamined,
            lambda each: structs.replace(
                each,
                files=tuple(
                    replace(it, mtime_ns=it.mtime_ns and it.mtime_ns // 10**9 * 10**9)
                    for it in each.files
                ),
            ),
        ),
    },
    ("S26", "commit"): {
        "nothing is erased": _without(commands.EraseConversation),
        "no run is erased": _without(commands.EraseRun),
        "what is newer is erased too": _with(commands.EraseConversation, before_ms=None),
        "a role's run is erased whole": _with(commands.EraseRun, role=None),
        "its neighbours are erased too": _others_too,
    },
    ("S30", "commit"): {"an act is kept twice": _act_twice},
}


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


def _each(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return _answer(lambda rows: tuple(map(change, rows)))


def _those(is_one: Callable[[Any], Any]) -> Callable[..., Any]:
    return _answer(lambda rows: tuple(filter(is_one, rows)))


def _in_order_of(name: str) -> Callable[..., Any]:
    return _answer(lambda rows: tuple(sorted(rows, key=attrgetter(name))))


_backwards = _answer(lambda rows: tuple(reversed(rows)))
_last_lost = _answer(lambda rows: rows[:-1])


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
                found += SqliteStore.messages(_of(real), owner, after_seq=seq - 1, first=1)
            except StoreError:
                continue
        return tuple(found)


def _believed(real: Real, head: Any, span: Any) -> Any:
    """Take entries as they stand."""
    return [(each, kept_of(each)) for each in _of(real).entries(span)]


def _forgiving(real: Real, owner: Any) -> Any:
    """Read as nothing what cannot be proved."""
    try:
        return real(owner)
    except StoreError:
        return ()


def _link(choose: Callable[[Any], Any]) -> Callable[..., Any]:
    """Resolve to another link of the conversation."""

    def does(real: Real, key: Any) -> Any:
        found = real(key)
        links = _of(real).links(found.conversation.conversation_id) if found else ()
        chosen = choose(links)
        return structs.replace(found, link=chosen[0]) if chosen else found

    return does


def _generation(choose: Callable[[Any], Any]) -> Callable[..., Any]:
    """Resolve to another generation of the key."""

    def does(real: Real, key: Any) -> Any:
        found = real(key)
        every = _of(real).conversations(key.project_id, key.workstream) if found else ()
        chosen = [it for it in every if it.key == key]
        return found and structs.replace(found, conversation=choose(chosen))

    return does


def _child_found(real: Real, key: Any) -> Any:
    return real(key if key.slot != CHILD_SLOT else replace(key, slot=1, role=KEY.role))


def _anybodys(real: Real, project_id: Any, *values: Any, **named: Any) -> Any:
    return real(PROJECT, *values, **named)


def _folded(real: Real, key: Any) -> Any:
    return real(replace(key, workstream=key.workstream.strip()))


def _everything_prior(
    real: Real, conversation_id: Any, *, upstream_session_ids: Any, newest: int
) -> Any:
    """Look back to the beginning."""
    said = [
        replace(each, parts=tuple(part for part in each.parts if isinstance(part, TextPart)))
        for each in _of(real).messages(conversation_id)
        if each.speaker is not Speaker.TOOL
        and each.upstream_session_id in {None, *upstream_session_ids}
        and each.text.strip()
    ]
    return tuple(said[-newest:]) if newest > 0 else ()


def _without_kind(kind: str) -> Callable[..., Any]:
    return _those(lambda entry: entry.kind != kind)


_timeless = _each(lambda event: structs.replace(event, recorded_at_ms=0))


def _due(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Change when runs are due."""

    def changed(head: Any) -> Any:
        due = getattr(head.state, "due", None)
        return replace(head, state=replace(head.state, due=change(due))) if due else head

    return _each(changed)


def _no_limit(real: Real, span: Any) -> Any:
    return real(span._replace(first=span.first and span.first * 10))


def _owner_forgotten(real: Real, identity: Any) -> Any:
    found = {
        each.identity: each
        for owner in ("", "ada@one", "bea@two")
        for each in real(replace(identity, owner=owner))
    }
    return tuple(found.values())


_READS: Planted = {
    ("S7", "messages"): {
        "are in the order of time": _in_order_of("recorded_at_ms"),
        "come newest first": _backwards,
        "the newest are the oldest": _oldest,
        "begin at the number they should begin after": _inclusive,
        "are no more than a page": _answer(lambda rows: rows[:1_000]),
        "are those of the first time": _cached,
    },
    ("S7", "message_count"): {
        "is one too many": _answer(lambda number: number + 1),
        "stands still": _cached,
    },
    ("S7", "turns"): {
        "come newest first": _backwards,
        "the newest are the oldest": _oldest,
    },
    ("S7", "owner"): {
        "has no turn": lambda real, *values, turn_id=None: None if turn_id else real(*values)
    },
    ("S7", "turn_events"): {"come newest first": _backwards, "lose their times": _timeless},
    ("S7", "run_events"): {
        "come newest first": _backwards,
        "lose their times": _timeless,
        "stay as they were at first": _cached,
    },
    ("S7", "runs"): {"are in the order of time": _in_order_of("opened_at_ms")},
    ("S7", "workstreams"): {"are in the order of time": _in_order_of("opened_at_ms")},
    ("S7", "conversations"): {
        "are in the order of time": _in_order_of("opened_at_ms"),
        "lose the children": _those(lambda each: each.key.slot),
    },
    ("S7", "links"): {
        "are those that are open": _those(lambda each: each.ended_because is None),
        "are in the order of time": _in_order_of("opened_at_ms"),
    },
    ("S7", "refusals"): {"are in the order of time": _in_order_of("decided_at_ms")},
    ("S7", "quarantined"): {"are in the order they came": _backwards},
    ("S8", "messages"): {
        "are the first reader's": _cached,
        "have one part": _each(lambda it: replace(it, parts=it.parts[:1])),
    },
    ("S9", "messages"): {"pass over a damaged row": _skipping},
    ("S9", "verify"): {
        "is content with everything": _constant(None),
        "is content with nothing": _constant(1),
        "looks at the first alone": _answer(lambda it: it if it == 1 else None),
    },
    ("S12", "resolve"): {
        "is the lowest generation": _generation(
            lambda them: min(them, key=attrgetter("generation"))
        ),
        "holds the oldest open link": _link(
            lambda links: [each for each in links if each.ended_because is None]
        ),
        "holds a link that has ended": _link(lambda links: links[-1:]),
        "finds the main one for its sibling": lambda real, key: real(replace(key, slot=1)),
        "is as it was at first": _cached,
    },
    ("S10", "resolve"): {"finds a child": _child_found},
    ("S12", "owner"): {"had it once": _cached, "is nobody": _constant(None)},
    ("S15", "heads"): {
        "are due a moment early": _due(lambda due: (due[0] - 1, *due[1:])),
        "are due a moment late": _due(lambda due: (due[0] + 1, *due[1:])),
        "are never due": _due(lambda due: None),
    },
    ("S19", "resolve"): {"trims names": _folded},
    ("S19", "lease"): {"trims names": lambda real, name: real(name.strip())},
    ("S20", "resolve"): {
        "takes any project": lambda real, key: real(replace(key, project_id=PROJECT))
    },
    ("S20", "conversations"): {"are anybody's": _anybodys},
    ("S20", "workstream"): {"is anybody's": _anybodys},
    ("S20", "workstreams"): {"are anybody's": _anybodys},
    ("S20", "runs"): {"are anybody's": _anybodys},
    ("S20", "owner"): {"is anybody's": _anybodys},
    ("S22", "prior_messages"): {
        "come newest first": _backwards,
        "are all there are": _asked(newest=10_000),
        "are of links alone": _those(lambda each: each.upstream_session_id),
        "look back to the beginning": _everything_prior,
        "are in the order of time": _in_order_of("recorded_at_ms"),
    },
    ("S23", "once"): {"is not known": _constant(None), "is as it was at first": _cached},
    ("S24", "examined"): {
        "are of all sessions": _asked(upstream_session_id=None),
        "are in the order of names": _in_order_of("path"),
    },
    ("S7", "examined"): {"are those of the first time": _cached},
    ("S7", "briefing_edit"): {"is the first": _cached},
    ("S25", "briefing_edit"): {"is none": _constant(None)},
    ("S26", "messages"): {"erased are left out": _those(lambda each: each.text)},
    ("S26", "once"): {
        "what it holds stays": _cached,
        "its receipt is lost": _answer(lambda it: it and structs.replace(it, receipt=None)),
    },
    ("S26", "turn_events"): {"erased are left out": _answer(lambda rows: rows[:1])},
    ("S27", "scrub"): {"does nothing": _constant(None)},
    ("S29", "entries"): {
        "are more than were asked for": _no_limit,
        **{f"have no {kind}": _without_kind(kind) for kind in KINDS},
        "lose their times": _each(lambda entry: entry._replace(at_ms=0)),
    },
    ("S29", "known_projects"): {"loses one": _last_lost},
    ("S30", "acts"): {"come newest first": _backwards, "are none": _constant(())},
    ("S31", "projects"): {
        "lose those of a path": _answer(lambda rows: rows[:1]),
        "forget whose a path is": _owner_forgotten,
        "are found by path alone": lambda real, identity: real(replace(identity, root_commit=None)),
        "are found by root commit alone": lambda real, identity: real(
            replace(identity, path="/nowhere")
        ),
    },
    ("S33", "_values"): {"are believed": _believed},
    ("S33", "proofs"): {"are none": _constant(())},
    ("S33", "run_events"): {"are none where one is gone": _forgiving},
    ("S33", "links"): {"are none where one is gone": _forgiving},
}


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


_OTHERS: Planted = {
    ("S5", "__init__"): {"finds nothing again": _elsewhere},
    ("S5", "close"): {"only once": _closed_once, "does nothing": lambda real: None},
    ("S17", "__init__"): {"takes a newer one": _newer_too, "changes what it refuses": _touched},
    ("S13", "acquire_lease"): {
        "gives it away": _given_away,
        "gives it to its holder again": _own_again,
        "takes over from the living": _moved_too,
        "has one token": _same_token,
        "takes over from nobody": _never,
    },
    ("S13", "heartbeat"): {"is not kept": _constant(None)},
    ("S13", "release_lease"): {"is not kept": _constant(None)},
    ("S7", "lease"): {"is as it was at first": _cached},
    ("S14", "heartbeat"): {"takes any token": _current, "says nothing of an old token": _lenient},
    ("S14", "release_lease"): {
        "takes any token": _current,
        "says nothing of an old token": _lenient,
        "only once": _once_only,
    },
}

FAULTS = tuple(
    Fault(breaks, f"{method}: {what}", method, does)
    for planted in (_COMMITTING, _READS, _OTHERS)
    for (breaks, method), faults in planted.items()
    for what, does in faults.items()
)
