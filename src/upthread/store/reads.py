"""What is read of a store: a thin reader over heads and entries, the same for every store.

A store has three reads: the streams under a tag, the heads of a project, and the entries of a
stream. What callers ask for is made of these here, so that a store on another database gets it all
by inheritance, and so does whoever stands before a store.

An entry proves itself by the entry before it where it is read (S33), but for messages, which are
proved by `verify`: hashing what was said takes longer than reading it. Of a whole list the head
says how many there are, so that an end that is cut off is noticed too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct, structs

from upthread.core import commands
from upthread.core.context.prior_context import newest_exchanges
from upthread.core.decision.freshness import UNNAMED, ExaminedFile
from upthread.core.record_policy import NO_EDIT
from upthread.core.types import (
    Conversation,
    ConversationId,
    ConversationKey,
    Link,
    Message,
    Part,
    ProjectId,
    ProjectIdentity,
    RunId,
    Speaker,
    TextPart,
    TurnId,
)
from upthread.errors import StoreError
from upthread.store.kinds import (
    PARTS,
    SAID,
    ConversationState,
    Kept,
    Place,
    RunState,
    StreamKind,
    TurnMoved,
    WorkstreamState,
    key_tag,
    own_tag,
    tag,
)
from upthread.store.streams import (
    PARTS_OF_MESSAGE,
    PLACE,
    Entry,
    Head,
    SpokenRow,
    as_bytes,
    event_of,
    files_of,
    kept_of,
    not_whole,
    parts_of,
    place_of,
    proved,
    said_of,
    workstream_of,
)

PAGE_ENTRIES = 1_000
"""How many entries are read at once where all might be more than memory should hold."""

LAST = 2**31 - 1
"""More than a stream has entries."""

_SEARCHED_BY_ONE = 64
_SAID_OF_AN_EXCHANGE = 4
_NOWHERE = Place(0, Speaker.USER, TurnId(""))


class Found(NamedTuple):
    """A stream that was found by a tag: its head, the entry that was tagged, and its place."""

    head: Head
    seq: int
    nth: int


class Span(NamedTuple):
    """Entries of one stream, of all kinds unless some are named: after `after`, before `before`.

    With `first` the first so many, with `newest` the last; with `only` the entries of these
    numbers, and nothing else is asked.
    """

    row: int
    kinds: tuple[str, ...] = ()
    after: int = 0
    before: int = LAST
    first: int | None = None
    newest: int | None = None
    only: tuple[int, ...] | None = None

    @property
    def limit(self) -> int | None:
        """How many entries are read at most; None: all of them."""
        is_whole = self.first is None and self.newest is None
        return None if is_whole else max(0, self.first or self.newest or 0)


# --- what a store returns: mostly the write that recorded it, without its durability --------------

Turn: TypeAlias = commands.OpenTurn
"""A turn's identity. Its state is the fold of its events."""

Run: TypeAlias = commands.OpenRun
"""A run's identity. Its state is the fold of its events."""

Workstream: TypeAlias = commands.OpenWorkstream
"""A workstream and the base name its instances share."""

KnownProject: TypeAlias = commands.RecordProject
"""One identity under which a project is known; a project may have several."""

Quarantined: TypeAlias = commands.RecordQuarantine
"""An event whose owner is unknown."""

Once: TypeAlias = commands.RecordOnce
"""An action that is to be done once, as its last attempt stands.

`receipt` is what the caller gave, None included: before `done` what the action is about.
"""

StoredEdit: TypeAlias = commands.RecordBriefingEdit
"""What a person made of a briefing, and its number."""


class Resolved(Struct, frozen=True):
    """An address as it stands. `link` is the newest one that has not ended, None without one.

    `messages` is the number of the last message, 0 for none; `turn_id` is the newest turn's, None
    before any.
    """

    conversation: Conversation
    link: Link | None
    messages: int = 0
    turn_id: TurnId | None = None


Result = TypeVar("Result")

_EVENTS_AT_ONCE = 8
"""Most turns have fewer, and one more of the next shows that there are no others."""


class Reads(ABC):
    """What can be read of a store. What names an unknown id reads as nothing: None, 0 or empty."""

    @abstractmethod
    def found(self, text: str, *, newest: bool = False) -> tuple[Found, ...]:
        """Return the streams under a tag, oldest first; with `newest` the last one alone."""

    @abstractmethod
    def heads(self, project_id: str | None, kind: StreamKind) -> tuple[Head, ...]:
        """Return a project's heads of one kind in the order they were opened; None: of all."""

    @abstractmethod
    def entries(self, span: Span) -> Sequence[Entry]:
        """Return the entries of a span, in order."""

    @abstractmethod
    def spoken(self, span: Span) -> Iterable[SpokenRow]:
        """Return what messages are made of, in order; with `newest`, newest first. Read once.

        Apart from `entries`, because whole conversations are read by it.
        """

    def moment(self) -> AbstractContextManager[None]:
        """Return a block in which a store may read each head and each span once."""
        return nullcontext()

    def all_entries(self, row: int, kinds: tuple[str, ...] = ()) -> Iterator[Entry]:
        """Yield all entries of a stream, in pages: it may be larger than memory should hold."""
        after = -1
        while page := self.entries(Span(row, kinds, after, first=PAGE_ENTRIES)):
            yield from page
            after = page[-1].seq

    def head(self, kind: StreamKind, name: str, project_id: str = "") -> Head | None:
        """Return a stream's head, None for one that was never opened."""
        for head, *_ in self.found(own_tag(kind, name, project_id)):
            if head.name != name or head.kind != kind:
                raise not_whole(f"the name of {kind} {name}, which leads to {head.name},")
            return head
        return None

    def _values(self, head: Head, span: Span) -> list[tuple[Entry, Any]]:
        """Return entries of a stream with what they keep, each of them proved."""
        found = proved(self.entries(span), what=f"{head.kind} {head.name}", first=head.first)
        return [(entry, kept_of(entry)) for entry in found]

    def _values_of(
        self, conversation_id: ConversationId, kind: str, *, newest: int | None = None
    ) -> list[tuple[Entry, Any]]:
        head = self.head("conversation", conversation_id)
        if head is None:
            return []
        return self._values(head, Span(head.row, (kind,), newest=newest))

    # --- messages ---------------------------------------------------------------------------------

    def messages(
        self,
        conversation_id: ConversationId,
        *,
        after_seq: int = 0,
        first: int | None = None,
        newest: int | None = None,
    ) -> tuple[Message, ...]:
        """Return messages after `after_seq`, oldest first.

        With `first` only the first so many of them: whoever reads a long conversation whole reads
        it in pages. With `newest` only the last so many; it is asked for without `first`.
        """
        if newest is not None:
            return self._newest_messages(conversation_id, after_seq, newest)
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        last = conversation_state(head).messages
        until = last if first is None else min(last, after_seq + max(first, 0))
        if after_seq >= until:
            return ()
        found = self._spoken(head, after_seq, None if first is None else until)
        # Else an error that somebody keeps would keep the reading open, too.
        with closing(found):
            return messages_of(conversation_id, found, after_seq=after_seq, until=until)

    def _newest_messages(
        self, conversation_id: ConversationId, after_seq: int, newest: int
    ) -> tuple[Message, ...]:
        head = self.head("conversation", conversation_id)
        if head is None or newest <= 0:
            return ()
        found: list[SpokenRow] = []  # newest first
        before, last, first = LAST, 0, 0
        while page := list(self.spoken(Span(head.row, PARTS, before=before, newest=newest))):
            found += page
            last = last or place_of(page[0][2]).seq
            first = max(after_seq, last - newest) + 1
            place = place_of(page[-1][2])
            if (place.seq, place.first_ordinal) <= (first, 0):
                break
            before = page[-1][0]
        if last < first or not found:
            return ()
        return messages_of(conversation_id, reversed(found), after_seq=first - 1, until=last)

    def said_in_messages(
        self, conversation_id: ConversationId, *, after_seq: int = 0, first: int
    ) -> tuple[bytes | None, ...]:
        """Return the JSON of what was said in messages, which are chosen as by `messages`.

        None for what was forgotten. For whoever looks for words and reads messages only where they
        are; nothing is checked.
        """
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        found = self._spoken(head, after_seq, after_seq + first)
        return tuple(as_bytes(said) for _, _, kept, said in found if place_of(kept).seq > after_seq)

    def prior_messages(
        self,
        conversation_id: ConversationId,
        *,
        upstream_session_ids: Collection[str],
        newest: int,
    ) -> tuple[Message, ...]:
        """Return what was said in the newest so many exchanges, oldest message first (S22).

        An exchange is a prompt and its reply (core/context/prior_context.py), of a long one the
        beginning and the end. Of messages of users and assistants, with a text that is not blank,
        under no upstream session or one of the given; their other parts are left out.
        """
        head = self.head("conversation", conversation_id)
        if head is None or newest <= 0:
            return ()
        readable = frozenset({None, *upstream_session_ids})
        return newest_exchanges(self._said(conversation_id, head.row, readable, newest), newest)

    def _said(
        self, conversation_id: ConversationId, row: int, readable: frozenset[Any], newest: int
    ) -> Iterator[Message]:
        """Yield messages that say something, newest first, with their texts alone."""
        # One more than the exchanges have, most often: the one before tells that they are whole.
        before, limit = LAST, newest * _SAID_OF_AN_EXCHANGE + 2
        at, said_at_ms = _NOWHERE, 0
        texts: tuple[TextPart, ...] = ()
        while page := list(self.spoken(Span(row, (SAID,), before=before, newest=limit))):
            for _, at_ms, kept, said in page:
                place = place_of(kept)
                if said is None or place.upstream_session_id not in readable:
                    continue
                parts = parts_of(kept, said)
                found = tuple([each for each in parts if type(each) is TextPart])
                if place.seq != at.seq:
                    if any(each.text.strip() for each in texts):
                        yield _message(conversation_id, said_at_ms, at, texts)
                    texts = ()
                # A long message has several entries. It has the time and the place of its first.
                at, said_at_ms, texts = place, at_ms, (*found, *texts)
            if len(page) < limit:
                break
            before, limit = page[-1][0], min(2 * limit, PAGE_ENTRIES)
        if any(each.text.strip() for each in texts):
            yield _message(conversation_id, said_at_ms, at, texts)

    def message_count(self, conversation_id: ConversationId) -> int:
        """Return the last message's `seq`, 0 for none."""
        head = self.head("conversation", conversation_id)
        return 0 if head is None else conversation_state(head).messages

    def _spoken(
        self, head: Head, after_seq: int, until: int | None
    ) -> Generator[SpokenRow, None, None]:
        """Yield what messages after one are made of, up to another; None: to the last."""
        row, after = head.row, self.place_of_message(head, after_seq + 1)
        if until is None:
            yield from self.spoken(Span(row, PARTS, after))
            return
        limit = until - after_seq + 1
        while page := list(self.spoken(Span(row, PARTS, after, first=limit))):
            for each in page:
                if place_of(each[2]).seq > until:
                    return
                yield each
            after = page[-1][0]

    def place_of_message(self, head: Head, seq: int) -> int:
        """Return a place in a conversation's stream after which the message comes, not far away."""
        # Messages are in order, so halving finds one: there is no index to be kept by each commit.
        low, high = 0, head.last if seq > 1 else 0
        while high - low > _SEARCHED_BY_ONE:
            middle = (low + high) // 2
            page = list(self.spoken(Span(head.row, PARTS, middle, first=1)))
            if page and place_of(page[0][2]).seq < seq:
                low = page[0][0]
            else:
                high = middle
        return low

    # --- projects, workstreams, conversations, runs -----------------------------------------------

    def resolve(self, key: ConversationKey) -> Resolved | None:
        """Return the conversation behind a key, None if none was ever opened (S12).

        None for slot 0: children share their key and are never found by it.
        """
        for head, *_ in self.found(key_tag(key), newest=True):
            state = head.state
            if not isinstance(state, ConversationState) or state.conversation.key != key:
                raise not_whole(f"{key_tag(key)}, which leads to {head.name},")
            link = state.open_links[-1] if state.open_links else None
            turn_id = state.turn.turn_id if state.turn else None
            return Resolved(state.conversation, link, state.messages, turn_id)
        return None

    def conversation(self, conversation_id: ConversationId) -> Conversation | None:
        """Return one conversation by its id."""
        head = self.head("conversation", conversation_id)
        return None if head is None else conversation_state(head).conversation

    def conversations(self, project_id: ProjectId, workstream: str) -> tuple[Conversation, ...]:
        """Return all conversations of a workstream, children and old generations included.

        Ordered by the moment they were opened, as committed.
        """
        found = self._in_workstream(project_id, workstream, "conversation")
        return tuple(conversation_state(head).conversation for head in found)

    def workstream(self, project_id: ProjectId, workstream: str) -> Workstream | None:
        """Return one workstream."""
        head = self.head("workstream", workstream, project_id)
        return None if head is None else _workstream_of(head)

    def workstreams(self, project_id: ProjectId) -> tuple[Workstream, ...]:
        """Return a project's workstreams, oldest first."""
        return tuple(map(_workstream_of, self.heads(project_id, "workstream")))

    def runs(self, project_id: ProjectId, workstream: str) -> tuple[Run, ...]:
        """Return a workstream's runs, oldest first."""
        return tuple(map(run_of, self._in_workstream(project_id, workstream, "run")))

    def projects(self, identity: ProjectIdentity) -> tuple[KnownProject, ...]:
        """Return known identities that share the root commit or the path with this one (S31)."""
        heads = [each.head for each in self.found(tag("path", identity.path))]
        if identity.root_commit is not None:
            heads += [each.head for each in self.found(tag("root_commit", identity.root_commit))]
        by_row = {head.row: head for head in heads}
        return tuple(
            known
            for _, head in sorted(by_row.items())
            for known in self._identities(head)
            if _is_known_by(known.identity, identity)
        )

    def known_projects(self) -> tuple[KnownProject, ...]:
        """Return all known identities of all projects, oldest first."""
        heads = self.heads(None, "project")
        return tuple(known for head in heads for known in self._identities(head))

    def identities(self, project_id: ProjectId) -> tuple[ProjectIdentity, ...]:
        """Return all identities of a project, oldest first; none for an unknown one."""
        head = self.head("project", project_id)
        known = () if head is None else self._identities(head)
        return tuple(each.identity for each in known)

    def _identities(self, head: Head) -> Iterator[KnownProject]:
        for _, value in self._values(head, Span(head.row, ("identity",))):
            yield KnownProject(project_id=ProjectId(head.name), identity=value.identity)

    # --- links ----------------------------------------------------------------------------------

    def links(self, conversation_id: ConversationId) -> tuple[Link, ...]:
        """Return all links of a conversation, oldest first."""
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        found: list[Link] = []
        for entry, value in self._values(head, Span(head.row, ("link", "link_end"))):
            if entry.kind == "link":
                found.append(value.link)
            else:
                at: int = value.seq - 1
                link = found[at]
                if link.ended_because is None:  # the first cause stands
                    because, at_ms = value.ended_because, entry.at_ms
                    link = structs.replace(link, ended_because=because, ended_at_ms=at_ms)
                found[at] = link
        _must_count([link.seq for link in found], conversation_state(head).links, head, "link")
        return tuple(found)

    def owner(
        self,
        project_id: ProjectId,
        upstream_session_id: str | None = None,
        *,
        turn_id: TurnId | None = None,
    ) -> Conversation | None:
        """Return a project's conversation by its session or by a turn of it, None without one.

        The owner of a session holds the session in its newest link. Of several, the conversation
        whose link was opened last, by the clock: streams have no other order among each other. Of
        the two arguments, one is given.
        """
        if turn_id is not None:
            found = self.found(tag("turn", turn_id))
            is_own = found and found[0].head.project_id == project_id
            return conversation_state(found[0].head).conversation if is_own else None
        found = self.found(tag("session", project_id, upstream_session_id or ""))
        states = [conversation_state(each.head) for each in found]
        owners = [state for state in states if state.session == upstream_session_id]
        # Of two at the same moment the conversation that was opened later.
        newest = max(
            enumerate(owners), key=lambda each: (each[1].linked_at_ms, each[0]), default=None
        )
        return None if newest is None else newest[1].conversation

    # --- turns, runs and their events -------------------------------------------------------------

    def turns(
        self, conversation_id: ConversationId, *, newest: int | None = None
    ) -> tuple[Turn, ...]:
        """Return turns, oldest first; with `newest`, only the last so many."""
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        limit = None if newest is None else max(newest, 0)
        found = self._values(head, Span(head.row, ("turn",), newest=limit))
        turns = conversation_state(head).turns
        if len(found) < (turns if limit is None else min(turns, limit)):
            raise not_whole(f"the list of turns of {conversation_id}")
        more = {"conversation_id": conversation_id}
        return tuple(_written(Turn, *each, at="opened_at_ms", **more) for each in found)

    def turn_events(
        self, conversation_id: ConversationId, turn_id: TurnId
    ) -> tuple[commands.RecordTurnEvent, ...]:
        """Return the events of a conversation's turn in order, their durability left out."""
        head = self.head("conversation", conversation_id)
        if head is None:
            return ()
        turn = conversation_state(head).turn
        if turn is not None and turn.turn_id == turn_id:
            found = self._values(head, Span(head.row, only=turn.events))
            _must_count([value.seq for _, value in found], len(turn.events), head, "event")
        else:
            opened = [
                each for each in self.found(tag("turn", turn_id)) if each.head.row == head.row
            ]
            found = [
                event for each in opened for event in self._older_turn(head, turn_id, each.seq)
            ]
            _must_count([value.seq for _, value in found], 0, head, f"event of {turn_id},")
        return tuple(
            _written(
                commands.RecordTurnEvent,
                entry,
                value,
                conversation_id=conversation_id,
                event=event_of(entry, value),
            )
            for entry, value in found
        )

    def _older_turn(
        self, head: Head, turn_id: TurnId, at: int
    ) -> Iterator[tuple[Entry, TurnMoved]]:
        """Yield the events of a turn that another has followed."""
        # The next one's follow all of its own, unless one ever spoke up late.
        is_late = conversation_state(head).late
        while page := self._values(
            head, Span(head.row, ("turn_event",), at, first=_EVENTS_AT_ONCE)
        ):
            for entry, value in page:
                if value.turn_id == turn_id:
                    yield entry, value
                elif not is_late:
                    return
            if len(page) < _EVENTS_AT_ONCE:
                return
            at = page[-1][0].seq

    def run_events(self, run_id: RunId) -> tuple[commands.RecordRunEvent, ...]:
        """Return a run's events in order, their durability left out; empty for an unknown run."""
        head = self.head("run", run_id)
        if head is None:
            return ()
        found = self._values(head, Span(head.row, ("run_event",)))
        expected = cast("RunState", head.state).events
        _must_count([value.seq for _, value in found], expected, head, "event")
        return tuple(
            _written(
                commands.RecordRunEvent, entry, value, run_id=run_id, event=event_of(entry, value)
            )
            for entry, value in found
        )

    def run(self, run_id: RunId) -> Run | None:
        """Return one run by its id."""
        head = self.head("run", run_id)
        return None if head is None else run_of(head)

    # --- what belongs to no message ---------------------------------------------------------------

    def refusals(self, conversation_id: ConversationId) -> tuple[commands.RecordDecision, ...]:
        """Return decisions that led to no turn, oldest first. Their durability is not kept."""
        found = self._values_of(conversation_id, "refusal")
        more = {"conversation_id": conversation_id}
        return tuple(
            _written(commands.RecordDecision, *each, at="decided_at_ms", **more) for each in found
        )

    def acts(self, owner: ConversationId | RunId) -> tuple[commands.RecordAct, ...]:
        """Return what people did to a conversation or a run, oldest first (S30)."""
        head = self.head("conversation", owner) or self.head("run", owner)
        found = [] if head is None else self._values(head, Span(head.row, ("act",)))
        own = "conversation_id" if head is not None and head.kind == "conversation" else "run_id"
        return tuple(_written(commands.RecordAct, *each, **{own: owner}) for each in found)

    def quarantined(
        self, conversation_id: ConversationId, turn_id: TurnId
    ) -> tuple[Quarantined, ...]:
        """Return the quarantined events of a conversation's turn, in order."""
        found = [
            _written(
                Quarantined,
                entry,
                value,
                conversation_id=conversation_id,
                raw=said_of(entry, forgotten=None),
            )
            for entry, value in self._values_of(conversation_id, "quarantine")
            if value.turn_id == turn_id
        ]
        return tuple(sorted(found, key=lambda each: each.ordinal))

    def examinations(self, conversation_id: ConversationId) -> tuple[commands.RecordExamined, ...]:
        """Return the files that turns examined, in the order in which they were committed."""
        found = self._values_of(conversation_id, "examined")
        return tuple(
            commands.RecordExamined(
                conversation_id=conversation_id,
                turn_id=value.turn_id,
                first_ordinal=value.first_ordinal,
                upstream_session_id=value.upstream_session_id,
                files=files_of(entry),
                recorded_at_ms=entry.at_ms,
            )
            for entry, value in found
        )

    def examined(
        self, conversation_id: ConversationId, *, upstream_session_id: str | None = None
    ) -> tuple[ExaminedFile, ...]:
        """Return the last word on each path, in the order those words were committed (S24).

        Of what one upstream session has examined; None: of all of the conversation's sessions.
        """
        last: dict[str, ExaminedFile] = {}
        for written in self.examinations(conversation_id):
            if upstream_session_id in {None, written.upstream_session_id}:
                for each in written.files or (UNNAMED,):  # they were forgotten
                    last.pop(each.path, None)  # to its end
                    last[each.path] = each
        return tuple(last.values())

    def briefing_edit(self, conversation_id: ConversationId) -> StoredEdit | None:
        """Return the newest edit of a conversation's briefing, None without one (S25)."""
        for entry, value in self._values_of(conversation_id, "edit", newest=1):
            edit = said_of(entry, forgotten=NO_EDIT)
            return _written(StoredEdit, entry, value, conversation_id=conversation_id, edit=edit)
        return None

    def once(self, project_id: ProjectId, key: str) -> Once | None:
        """Return how an action that is to be done once stands, None before any attempt (S23)."""
        head = self.head("once", key, project_id)
        if head is None:
            return None
        for entry, value in self._values(head, Span(head.row, ("attempt",), newest=1)):
            receipt = said_of(entry, forgotten=value.receipt)
            return _written(Once, entry, value, project_id=project_id, key=key, receipt=receipt)
        return None

    # --- below: how -------------------------------------------------------------------------------

    def _in_workstream(self, project_id: str, workstream: str, kind: str) -> list[Head]:
        text = tag("in", project_id, workstream)
        found = [head for head, *_ in self.found(text) if head.kind == kind]
        for head in found:
            if (head.project_id, workstream_of(head)) != (project_id, workstream):
                raise not_whole(f"{text}, which leads to {kind} {head.name},")
        return found


# --- entries to messages --------------------------------------------------------------------------


def conversation_state(head: Head) -> ConversationState:
    """Return what a conversation's head holds."""
    return cast("ConversationState", head.state)


def _message(
    conversation_id: ConversationId, at_ms: int, place: Place, parts: tuple[Part, ...]
) -> Message:
    return Message(
        conversation_id,
        place.seq,
        place.speaker,
        place.turn_id,
        place.upstream_session_id,
        at_ms,
        parts,
    )


_UNMARKED = frozenset({"{", "[", ord("{"), ord("[")})
_UNREADABLE = (
    *(StoreError, msgspec.MsgspecError, UnicodeDecodeError),
    # Another program wrote another type, or nothing, or nested it too deeply.
    *(TypeError, IndexError, RecursionError),
)


def messages_of(
    conversation_id: ConversationId, found: Iterable[SpokenRow], *, after_seq: int, until: int
) -> tuple[Message, ...]:
    """Return the messages after one from what they are made of, up to another at least.

    StoreError names the message that is missing or damaged: none is ever skipped.
    """
    messages: list[Message] = []
    seq, count, last_at_ms = after_seq, 0, 0
    plain_place, plain_parts = PLACE.plain, PARTS_OF_MESSAGE.plain
    place: Place | None = None
    # The loop over all entries of a conversation: calls and comparisons are counted here.
    for _, at_ms, kept, said in found:
        try:
            given = plain_place(kept) if kept[0] in _UNMARKED else place_of(kept)
            if given.seq <= after_seq:
                continue
            if said is not None and said[0] in _UNMARKED:
                parts = plain_parts(said)
            else:
                parts = parts_of(kept, said)
        except _UNREADABLE as error:
            raise _damaged(conversation_id, _seq_of(kept) or seq + 1, str(error)) from error
        if not given.first_ordinal and given.seq == seq + 1:
            seq, place, count, last_at_ms = seq + 1, given, len(parts), at_ms
            messages.append(_message(conversation_id, at_ms, given, parts))
        elif place is not None and given.seq == seq and given.first_ordinal == count:
            count += len(parts)
            parts = (*messages.pop().parts, *parts)
            messages.append(_message(conversation_id, last_at_ms, place, parts))
        else:
            missing = seq if given.seq == seq else seq + 1
            follows = f"part {given.first_ordinal} of message {given.seq} follows"
            raise _damaged(conversation_id, missing, follows)
    if seq < until:
        raise _damaged(conversation_id, seq + 1, "it is missing")
    return tuple(messages)


def _seq_of(kept: str | bytes) -> int | None:
    """Return the message that a damaged entry belongs to, None where even that is damaged."""
    try:
        return place_of(kept).seq
    except StoreError:
        return None


def _damaged(conversation_id: ConversationId, seq: int, why: str) -> StoreError:
    return StoreError(
        f"message {seq} of {conversation_id} is damaged: {why}",
        hint="run `upthread doctor`",
        conversation_id=conversation_id,
    )


# --- heads to values ------------------------------------------------------------------------------


def _workstream_of(head: Head) -> Workstream:
    state = cast("WorkstreamState", head.state)
    return Workstream(
        project_id=ProjectId(head.project_id),
        workstream=head.name,
        base_name=state.base_name,
        opened_at_ms=state.opened_at_ms,
    )


def run_of(head: Head) -> Run:
    """Return a run from its head."""
    state = cast("RunState", head.state)
    return Run(
        run_id=RunId(head.name),
        project_id=ProjectId(head.project_id),
        workstream=state.workstream,
        opened_at_ms=state.opened_at_ms,
    )


def _is_known_by(known: ProjectIdentity, asked: ProjectIdentity) -> bool:
    is_same_path = known.path == asked.path and known.owner in {None, asked.owner}
    return is_same_path or (
        known.root_commit is not None and known.root_commit == asked.root_commit
    )


# --- entries to values ----------------------------------------------------------------------------


def _written(
    shape: Callable[..., Result],
    entry: Entry,
    value: Kept,
    /,
    *,
    at: str = "recorded_at_ms",
    **more: object,
) -> Result:
    """Return the write that an entry was made of: what it keeps, its time as `at`, and the rest."""
    return shape(**structs.asdict(value) | {at: entry.at_ms} | more)


def _must_count(seqs: Sequence[int], count: int, head: Head, what: str) -> None:
    """Raise StoreError unless numbers run from 1 without a gap, at least to `count`.

    There may be more: the head was read first, and somebody may have written since.
    """
    for expected, seq in enumerate(seqs, start=1):
        if seq != expected:
            raise not_whole(f"{what} {expected} of {head.name}")
    if len(seqs) < count:
        raise not_whole(f"{what} {len(seqs) + 1} of {head.name}")
