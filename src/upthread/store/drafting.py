"""Writes to entries: what a commit adds to each stream it names, before any lock.

Pure but for what it reads: entries that are there, which never change. A write is next in its
stream and becomes an entry; or it is there already, and is compared; or it is an error (S2, S3,
S6, S21, S23). A draft builds on a head; whether that is still the stream's head is the store's
question, when it appends. So what is drafted here may be thrown away, and drafted again.

A write of a new kind is a function here, and a line of `APPLY` at the end. Messages, turns and
forgetting are methods of `Drafts`.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast, get_args

from msgspec import Struct, structs

from upthread.core import commands
from upthread.core.codec import encode_json
from upthread.core.decision.freshness import ExaminedFile
from upthread.core.record_policy import forgotten, left_of_receipt
from upthread.core.types import MAIN_SLOT, TurnId
from upthread.errors import ConflictError, NotFoundError
from upthread.store import kinds
from upthread.store.kinds import (
    NAMED_IN_A_PROJECT,
    PARTS,
    Kept,
    StreamKind,
    Tag,
    author_of,
    key_tag,
    tag,
)
from upthread.store.reads import Reads, Span
from upthread.store.streams import (
    Entry,
    Head,
    Written,
    as_bytes,
    chained,
    digest_of,
    event_of,
    files_of,
    fold,
    hash_of,
    kept_of,
    new_head,
    not_whole,
    parts_of,
    place_of,
    tags_of,
    written,
    written_event,
    written_parts,
)

Found = TypeVar("Found")

READ_AGAIN = "read again: another writer may have been there first"


EVERY = 2**62
"""More than any limit, and later than any time."""


class Erasure(NamedTuple):
    """What `forget` takes of a stream: the words of entries from one to another, before a time."""

    first: int
    last: int
    before_ms: int


def joined(writes: Sequence[commands.Write]) -> Sequence[commands.Write]:
    """Return the writes of a batch, those that add to one message at one moment as one.

    Always alike, so that the same batch again is compared by the same entries.
    """
    done: list[Any] = []
    for write in writes:
        if done and _continues(done[-1], write):
            done[-1] = structs.replace(done[-1], parts=(*done[-1].parts, *cast("Any", write).parts))
        else:
            done.append(write)
    return done


def _continues(last: Any, write: Any) -> bool:
    return (
        type(last) is type(write) is commands.RecordParts
        and (write.seq, write.first_ordinal) == (last.seq, last.first_ordinal + len(last.parts))
        and (write.conversation_id, write.recorded_at_ms)
        == (last.conversation_id, last.recorded_at_ms)
        and author_of(write) == author_of(last)
    )


class Change(Struct):
    """What a commit does to one stream: the head it builds on, the one it leaves, and the rest."""

    head: Head
    last: int
    hash: bytes
    entries: list[Entry]
    tags: list[Tag]
    erasures: list[Erasure]
    job: commands.EnqueueTransition | None = None
    """The transition that workers are to be handed, where there are any."""

    @property
    def state(self) -> Any:
        """How the stream stands after what has been drafted: what its head holds."""
        return self.head.state

    def add(self, entry: Written) -> None:
        """Add an entry."""
        seq = self.head.last + 1
        kind, at_ms, kept, said, value = entry
        hashed = chained(self.head.hash, seq, entry, digest_of(said))
        self._put(Entry(seq, kind, at_ms, kept, said, None, hashed), value)

    def copy(self, entry: Entry) -> None:
        """Add an entry of another store. StoreError for one that is not what was recorded there."""
        if entry.seq != self.head.last + 1 or hash_of(entry, self.head.hash) != entry.hash:
            raise not_whole(f"entry {entry.seq} of {self.head.kind} {self.head.name}")
        self._put(entry, kept_of(entry))

    def _put(self, entry: Entry, value: Kept) -> None:
        head = self.head
        head.last, head.hash = entry.seq, entry.hash
        fold(head, entry.at_ms, value)
        self.entries.append(entry)
        self.tags += tags_of(head, value)

    def erase(self, first: int, last: int, before_ms: int) -> None:
        """Forget what was said in entries from one to another, before a time."""
        self.erasures.append(Erasure(first, last, before_ms))
        self.entries = [
            each._replace(said=None, digest=digest_of(as_bytes(each.said)))
            if each.said is not None and first <= each.seq <= last and each.at_ms < before_ms
            else each
            for each in self.entries
        ]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes: all was there."""
        return not (self.entries or self.erasures)


def changed(head: Head) -> Change:
    """Return a change of a stream in which nothing has changed yet. `head` moves with it."""
    return Change(head, head.last, head.hash, [], [], [])


StreamKey = tuple[str, str, str]
Key = Callable[[Any], object]
"""Returns what tells an entry of a stream from others of its kind."""


class Drafts:
    """What a batch does, stream by stream.

    `remembered` are heads as the last commits have left them. With `is_careful` it is looked up
    whether a turn that is opened is there already; without, the store finds that out when it
    appends.
    """

    def __init__(
        self,
        reads: Reads,
        remembered: dict[StreamKey, Head],
        *,
        is_careful: bool,
    ) -> None:
        self._reads = reads
        self._remembered = remembered
        self._is_careful = is_careful
        self.changes: dict[StreamKey, Change] = {}

    # --- streams ----------------------------------------------------------------------------------

    def change(self, kind: StreamKind, name: str, project_id: str = "") -> Change | None:
        """Return the change of a stream, None for one that was never opened."""
        key = (kind, name, project_id)
        known = self.changes.get(key)
        if known is None:  # most writes of a batch are of one stream
            head = self._remembered.get(key) or self._reads.head(kind, name, project_id)
            if head is None:
                return None
            known = self.changes[key] = changed(head.moved())
        return known

    def existing(self, kind: StreamKind, name: str, project_id: str = "") -> Change:
        """Return the change of a stream. NotFoundError for one that was never opened (S21)."""
        return must_exist(self.change(kind, name, project_id), what=kind, name=name)

    def opened(self, name: str, project_id: str, opening: Written) -> Change:
        """Return a stream's change, opened where it was not; the same again is accepted."""
        kind = cast("StreamKind", opening.kind)
        key = (kind, name, project_id if kind in NAMED_IN_A_PROJECT else "")
        known = self.change(*key)
        if known is None:
            head = new_head(kind, name, project_id)
            known = self.changes[key] = changed(head)
            known.add(opening)
            return known
        if known.head.project_id != project_id:
            raise other_content(f"{kind} {name!r}")
        for first in self.stored(known, (kind,)):
            must_be_same(first, opening, what=f"{kind} {name!r}")
        return known

    def stored(self, change: Change, kinds: tuple[str, ...], *, after: int = 0) -> Iterator[Entry]:
        """Yield entries of a stream, those of this batch included."""
        if change.last:
            yield from self._reads.entries(Span(change.head.row, kinds, after))
        yield from (each for each in change.entries if each.kind in kinds and each.seq > after)

    def numbered(self, change: Change, entry: Written, key: Key, *, last: int, what: str) -> None:
        """Add an entry whose key is its number, or compare it with the one that is there."""
        owner, seq = change.head.name, cast("int", key(entry.value))
        is_new = is_next(seq, last=last, what=what, owner=owner)
        self.put(change, entry, key, f"{what} {seq} of {owner}", is_new=is_new)

    def put(self, change: Change, entry: Written, key: Key, what: str, *, is_new: bool) -> None:
        """Add an entry, or compare it with the one that must be there under its key."""
        if is_new:
            change.add(entry)
        elif not self.is_there(change, entry, key, what):
            raise not_whole(what)

    def is_there(self, change: Change, entry: Written, key: Key, what: str) -> bool:
        """Return whether an entry with this key is there; ConflictError for other content (S3)."""
        for each in self.stored(change, (entry.kind,)):
            if key(kept_of(each)) == key(entry.value):
                must_be_same(each, entry, what=what)
                return True
        return False

    def owner_of(self, text: str, nth: int, *, is_read: bool = True) -> str | None:
        """Return the name of the one stream that has this tag, None where it is free.

        Where it is not read, only this batch is searched.
        """
        for change in self.changes.values():
            if any((each.text, each.nth) == (text, nth) for each in change.tags):
                return change.head.name
        found = self._reads.found(text) if is_read else ()
        return next((each.head.name for each in found if each.nth == nth), None)

    # --- turns ------------------------------------------------------------------------------------

    def must_know_turn(self, turn_id: TurnId, change: Change) -> str:
        """Return the conversation a turn is of, most often that of `change` (S21)."""
        turn = change.state.turn
        if turn is not None and turn.turn_id == turn_id:
            return change.head.name
        name = self.owner_of(tag("turn", turn_id), 0)
        return must_exist(name, what="turn", name=turn_id)

    def with_turn(self, conversation_id: str, turn_id: TurnId) -> Change:
        """Return the change of a conversation that a turn is of. NotFoundError for another's."""
        change = self.existing("conversation", conversation_id)
        is_own = self.must_know_turn(turn_id, change) == conversation_id
        must_exist(is_own or None, what="turn", name=turn_id)
        return change

    def open_turn(self, write: commands.OpenTurn) -> None:
        """Open a turn, or compare it."""
        turn_id, owner = write.turn_id, write.conversation_id
        opening = written(kinds.TurnOpened(turn_id, write.run_id), write.opened_at_ms)
        change = self.existing("conversation", owner)
        if write.run_id is not None:
            self.existing("run", write.run_id)
        known = self.owner_of(tag("turn", turn_id), 0, is_read=self._is_careful)
        what = f"turn {turn_id}"
        must_equal(known or owner, owner, what=what)
        self.put(change, opening, attrgetter("turn_id"), what, is_new=known is None)

    def turn_event(self, write: commands.RecordTurnEvent) -> None:
        """Add an event to a turn, or compare it."""
        turn_id, seq = write.turn_id, write.seq
        change = self.with_turn(write.conversation_id, turn_id)
        event = written_event(kinds.TurnMoved(turn_id, seq, write.event), write.recorded_at_ms)
        turn = change.state.turn
        if turn is not None and turn.turn_id == turn_id:
            last = len(turn.events)
        else:
            events = self.stored(change, ("turn_event",))
            last = sum(kept_of(each).turn_id == turn_id for each in events)
        is_new = is_next(seq, last=last, what="turn event", owner=turn_id)
        what = f"event {seq} of turn {turn_id}"
        self.put(change, event, attrgetter("turn_id", "seq"), what, is_new=is_new)

    # --- messages ---------------------------------------------------------------------------------

    def record_parts(self, write: commands.RecordParts) -> None:
        """Append parts of one message, or compare those that are there."""
        owner = write.conversation_id
        change = self.existing("conversation", owner)
        state = change.state
        # The turn of a child's messages is another conversation's.
        if state.author is None or state.author[1] != write.turn_id:
            self.must_know_turn(write.turn_id, change)
        if not write.parts:
            return
        seq, first = write.seq, write.first_ordinal
        there = 0
        if seq == state.messages + 1 and first == 0:
            pass  # the usual case, without the words that only a conflict needs
        elif seq == state.messages:
            there = min(max(state.parts - first, 0), len(write.parts))
            must_equal(state.author, author_of(write), what=f"message {seq} of {owner}")
            is_next(first + 1, last=state.parts, what=f"in message {seq}, part", owner=owner)
        elif is_next(seq, last=state.messages, what="message", owner=owner):
            is_next(first + 1, last=0, what=f"in message {seq}, part", owner=owner)
        else:
            there = len(write.parts)
        if there:
            self._compare_parts(change, write, there)
        if there < len(write.parts):
            place = _place(write, first + there)
            change.add(written_parts(place, write.recorded_at_ms, write.parts[there:]))

    def _compare_parts(self, change: Change, write: commands.RecordParts, count: int) -> None:
        """Compare the first `count` parts of a write with those that are stored (S3)."""
        first = at = write.first_ordinal
        end = first + count
        what = f"message {write.seq} of {write.conversation_id}"
        for entry in self._message(change, write.seq):
            parts = list(parts_of(entry.kept, entry.said))
            low = place_of(entry.kept).first_ordinal
            high = min(low + len(parts), end)
            if low > at:
                break
            if at < high:
                # Of words that were forgotten there is a digest of all alone, so all are compared.
                parts[at - low : high - low] = write.parts[at - first : high - first]
                given = written_parts(_place(write, low), write.recorded_at_ms, parts)
                must_be_same(entry, given, what=what)
                at = high
        if at < end:  # an earlier message has fewer parts, and can have no more
            raise ConflictError(
                f"part {at} of {what} would come after a later message", hint="read again"
            )

    def _message(self, change: Change, seq: int) -> Iterator[Entry]:
        """Yield the entries of one message."""
        after = self._reads.place_of_message(change.head, seq) if change.last else 0
        for entry in self.stored(change, PARTS, after=after):
            there = place_of(entry.kept).seq
            if there > seq:
                return
            if there == seq:
                yield entry

    # --- forgetting -------------------------------------------------------------------------------

    def erase_conversation(self, write: commands.EraseConversation) -> None:
        """Forget what a conversation said before a time, and receipts that say it again (S26)."""
        change = self.existing("conversation", write.conversation_id)
        before_ms = EVERY if write.before_ms is None else write.before_ms
        # Receipts last as long as words of their conversation do.
        is_some_left = write.before_ms is not None and any(
            each.said is not None and each.at_ms >= before_ms for each in self.stored(change, PARTS)
        )
        change.erase(1, change.head.last, before_ms)
        for head, *_ in self._reads.found(tag("receipt", write.conversation_id)):
            action = self.existing("once", head.name, head.project_id)
            for each in self.stored(action, ("attempt",)):
                if kept_of(each).conversation_id == write.conversation_id:
                    action.erase(each.seq, each.seq, before_ms if is_some_left else EVERY)

    def erase_run(self, write: commands.EraseRun) -> None:
        """Forget what one role, or every role, said in a run before a time."""
        change = self.existing("run", write.run_id)
        before_ms = EVERY if write.before_ms is None else write.before_ms
        stored = list(self.stored(change, ("run_event",)))
        events = [event_of(each, kept_of(each)) for each in stored]
        # Of all events, whatever their time: whose an answer is, a question before it tells.
        for each, event, left in zip(stored, events, forgotten(events, write.role), strict=True):
            if left is not event:
                change.erase(each.seq, each.seq, before_ms)

    def note(self, change: Change, entry: Written) -> None:
        """Add what has no number of its own, unless the same is there (S2, S30)."""
        state = change.state
        # Most are later than all there are, and need no look.
        is_new = state.noted_at_ms is None or entry.at_ms > state.noted_at_ms
        if is_new or not any(is_same(each, entry) for each in self.stored(change, (entry.kind,))):
            change.add(entry)


# --- rules ----------------------------------------------------------------------------------------


def must_exist(found: Found | None, *, what: str, name: str) -> Found:
    """Return what was found. NotFoundError for a write that names what was never opened (S21)."""
    if found is None:
        raise NotFoundError(
            f"no {what} {name!r} was ever opened", hint=f"open the {what} first", name=name
        )
    return found


def must_equal(stored: object, given: object, *, what: str) -> None:
    """Accept the same again (S2); ConflictError for other content under the same key (S3)."""
    if stored != given:
        raise other_content(what)


def is_next(seq: int, *, last: int, what: str, owner: str) -> bool:
    """Return whether `seq` is the next number; False: it is taken, compare. A gap is a conflict."""
    if not 1 <= seq <= last + 1:
        raise ConflictError(
            f"{what} {seq} of {owner} would leave a gap: the last one is {last}", hint=READ_AGAIN
        )
    return seq > last


def _place(write: commands.RecordParts, first_ordinal: int) -> kinds.Place:
    return kinds.Place(
        write.seq, write.speaker, write.turn_id, write.upstream_session_id, first_ordinal
    )


# --- sameness -------------------------------------------------------------------------------------


def is_same(stored: Entry, given: Written) -> bool:
    """Return whether an entry is what a write would make: an erased one by its digest (S3)."""
    digest = digest_of(as_bytes(stored.said), stored.digest)
    if (stored.kind, stored.at_ms, digest) != (given.kind, given.at_ms, digest_of(given.said)):
        return False
    if as_bytes(stored.kept) == given.kept:
        return True
    # Another version may write other fields.
    return encode_json(kept_of(stored)) == encode_json(kept_of(stored._replace(kept=given.kept)))


def must_be_same(stored: Entry, given: Written, *, what: str) -> None:
    """Accept the same again (S2); ConflictError for other content under the same key (S3)."""
    if not is_same(stored, given):
        raise other_content(what)


def other_content(what: str) -> ConflictError:
    """Return the error of other content under the same key."""
    return ConflictError(f"{what} was already written, with other content", hint=READ_AGAIN)


def _record_project(drafts: Drafts, write: commands.RecordProject) -> None:
    opening = written(kinds.ProjectOpened(), 0)
    change = drafts.opened(write.project_id, write.project_id, opening)
    entry = written(kinds.Identified(write.identity), 0)
    if not any(is_same(each, entry) for each in drafts.stored(change, ("identity",))):
        change.add(entry)


def _open_workstream(drafts: Drafts, write: commands.OpenWorkstream) -> None:
    project_id, name, base_name = write.project_id, write.workstream, write.base_name
    opening = written(kinds.WorkstreamOpened(base_name), write.opened_at_ms)
    if drafts.change("workstream", name, project_id) is None:
        taken = drafts.owner_of(tag("base_name", project_id, base_name), 0)
        if taken is not None:
            raise ConflictError(
                f"the base name {base_name!r} belongs to workstream {taken!r}",
                hint="take another base name",
            )
    drafts.opened(name, project_id, opening)


def _open_conversation(drafts: Drafts, write: commands.OpenConversation) -> None:
    new = write.conversation
    key, name = new.key, new.conversation_id
    opening = written(kinds.ConversationOpened(new), new.opened_at_ms)
    if drafts.change("conversation", name) is None:
        # Children, slot 0, share a key and are not in each other's way.
        if key.slot >= MAIN_SLOT:
            taken = drafts.owner_of(key_tag(key), new.generation)
            if taken is not None:
                raise ConflictError(
                    f"{key.address} generation {new.generation} is conversation {taken}",
                    hint="use that one: resolve again",
                )
        home = drafts.existing("workstream", key.workstream, key.project_id)
        must_equal(
            home.state.base_name,
            new.base_name,
            what=f"the base name of workstream {key.workstream!r}",
        )
        if new.parent_conversation_id is not None:
            drafts.existing("conversation", new.parent_conversation_id)
    drafts.opened(name, key.project_id, opening)


def _open_run(drafts: Drafts, write: commands.OpenRun) -> None:
    opening = written(kinds.RunOpened(write.workstream), write.opened_at_ms)
    if drafts.change("run", write.run_id) is None:
        drafts.existing("workstream", write.workstream, write.project_id)
    drafts.opened(write.run_id, write.project_id, opening)


def _open_link(drafts: Drafts, write: commands.OpenLink) -> None:
    link = write.link
    change = drafts.existing("conversation", link.conversation_id)
    # Its end is an entry of its own: a link that has ended since it was opened is the same link.
    opened = structs.replace(link, ended_because=None, ended_at_ms=None)
    entry = written(kinds.LinkOpened(opened), link.opened_at_ms)
    last = change.state.links
    drafts.numbered(change, entry, attrgetter("link.seq"), last=last, what="link")
    if link.ended_because is not None:
        _close_link(change, link.seq, link.ended_because, link.ended_at_ms or 0)


def _end_link(drafts: Drafts, write: commands.EndLink) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    is_there = 1 <= write.seq <= change.state.links
    must_exist(is_there or None, what="link", name=str(write.seq))
    _close_link(change, write.seq, write.ended_because, write.ended_at_ms)


def _close_link(change: Change, seq: int, because: str, at_ms: int) -> None:
    # The first cause stands.
    if any(link.seq == seq for link in change.state.open_links):
        change.add(written(kinds.LinkEnded(seq, because), at_ms))


def _record_run_event(drafts: Drafts, write: commands.RecordRunEvent) -> None:
    change = drafts.existing("run", write.run_id)
    event = written_event(kinds.RunMoved(write.seq, write.event), write.recorded_at_ms)
    last = change.state.events
    drafts.numbered(change, event, attrgetter("seq"), last=last, what="run event")


def _enqueue_transition(drafts: Drafts, write: commands.EnqueueTransition) -> None:
    run_id, after = write.run_id, write.run_seq
    change = drafts.existing("run", run_id)
    for each in drafts.stored(change, ("due",)):
        if kept_of(each).run_seq == after:
            # By its time alone: another host may name another queue.
            what = f"the transition after event {after} of run {run_id}"
            return must_equal(each.at_ms, write.due_at_ms, what=what)
    # What it follows must be there; what it leads to may be there already, by another process.
    last = change.state.events
    is_next(after + 1, last=last, what="a transition to event", owner=run_id)
    change.add(written(kinds.Due(after, write.queue), write.due_at_ms))
    change.job = write
    return None


def _record_quarantine(drafts: Drafts, write: commands.RecordQuarantine) -> None:
    turn_id, ordinal = write.turn_id, write.ordinal
    change = drafts.with_turn(write.conversation_id, turn_id)
    value = kinds.Strayed(turn_id, ordinal, write.reason)
    entry = written(value, write.recorded_at_ms, write.raw)
    what = f"quarantined event {ordinal} of turn {turn_id}"
    if not drafts.is_there(change, entry, attrgetter("turn_id", "ordinal"), what):
        change.add(entry)


def _record_decision(drafts: Drafts, write: commands.RecordDecision) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    value = kinds.Refused(write.decision, write.reasons, write.inputs)
    drafts.note(change, written(value, write.decided_at_ms))


def _record_act(drafts: Drafts, write: commands.RecordAct) -> None:
    act = written(kinds.Acted(write.what, write.by_user, write.detail), write.recorded_at_ms)
    if write.conversation_id is not None:
        drafts.note(drafts.existing("conversation", write.conversation_id), act)
    if write.run_id is not None:
        drafts.note(drafts.existing("run", write.run_id), act)


def _record_examined(drafts: Drafts, write: commands.RecordExamined) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    drafts.must_know_turn(write.turn_id, change)
    given = {write.first_ordinal + at: file for at, file in enumerate(write.files)}
    turn = change.state.turn
    if turn is None or turn.turn_id != write.turn_id or write.first_ordinal < turn.files:
        for entry in drafts.stored(change, ("examined",)):
            _compare_files(entry, write, given)
    if given:
        first = min(given)
        must_equal(list(given), list(range(first, first + len(given))), what="examined files")
        change.add(_examined_entry(write, first, list(given.values())))


def _compare_files(
    entry: Entry, write: commands.RecordExamined, given: dict[int, ExaminedFile]
) -> None:
    """Take files that are there already out of those that are given; compare them (S3)."""
    value = kept_of(entry)
    first, count = value.first_ordinal, value.count
    same = [place for place in range(first, first + count) if place in given]
    if value.turn_id != write.turn_id or not same:
        return
    # Of files that were forgotten there is a digest of all alone, so all are compared.
    files: list[Any] = list(files_of(entry)) or [None] * count
    for place in same:
        files[place - first] = given.pop(place)
    what = f"examined file {same[0]} of turn {write.turn_id}"
    must_be_same(entry, _examined_entry(write, first, files), what=what)


def _examined_entry(
    write: commands.RecordExamined, first: int, files: Sequence[ExaminedFile]
) -> Written:
    value = kinds.Examined(write.turn_id, first, write.upstream_session_id, len(files))
    return written(value, write.recorded_at_ms, files)


def _record_briefing_edit(drafts: Drafts, write: commands.RecordBriefingEdit) -> None:
    change = drafts.existing("conversation", write.conversation_id)
    entry = written(kinds.BriefingEdited(write.seq), write.recorded_at_ms, write.edit)
    last = change.state.edits
    drafts.numbered(change, entry, attrgetter("seq"), last=last, what="briefing edit")


def _record_once(drafts: Drafts, write: commands.RecordOnce) -> None:
    project_id, key = write.project_id, write.key
    left = left_of_receipt(write.receipt)
    value = kinds.Attempted(write.attempt_id, write.state, write.receipt if left is None else left)
    said = () if left is None else (write.receipt,)
    entry = written(value, write.recorded_at_ms, *said)
    # Looked up once: what was not there may be there a moment later.
    change = drafts.opened(key, project_id, written(kinds.OnceOpened(), 0))
    # First: no step could follow itself, and the same again is accepted (S2).
    what = f"{write.state} of the action {key!r}"
    if not drafts.is_there(change, entry, attrgetter("attempt_id", "state"), what):
        _check_attempt(write, change.state)
        change.add(entry)


def _check_attempt(write: commands.RecordOnce, stands: kinds.ActionState) -> None:
    """Refuse a step that does not follow the last one, an attempt and its state (S23)."""
    name = f"the action {write.key!r}"
    attempt = f"{stands.attempt_id}: {stands.state}"
    if write.state == "intent":
        if stands.state not in {"", "failed"}:
            raise ConflictError(
                f"{name} was begun by another attempt, {attempt}",
                hint="read it: what is done has a receipt",
                key=write.key,
            )
        return
    must_exist(stands.state or None, what="attempt at the action", name=write.key)
    # Nor may an attempt that another has followed: its end, come late, is not the other one's.
    if (stands.attempt_id, stands.state) != (write.attempt_id, "intent"):
        raise ConflictError(
            f"{name} stands at attempt {attempt}; this one cannot end",
            hint=READ_AGAIN,
            key=write.key,
        )


APPLY: dict[type[Any], Callable[[Drafts, Any], None]] = {
    commands.RecordProject: _record_project,
    commands.OpenWorkstream: _open_workstream,
    commands.OpenConversation: _open_conversation,
    commands.OpenLink: _open_link,
    commands.EndLink: _end_link,
    commands.OpenTurn: Drafts.open_turn,
    commands.RecordParts: Drafts.record_parts,
    commands.RecordTurnEvent: Drafts.turn_event,
    commands.OpenRun: _open_run,
    commands.RecordRunEvent: _record_run_event,
    commands.EnqueueTransition: _enqueue_transition,
    commands.RecordQuarantine: _record_quarantine,
    commands.RecordDecision: _record_decision,
    commands.RecordAct: _record_act,
    commands.RecordExamined: _record_examined,
    commands.RecordBriefingEdit: _record_briefing_edit,
    commands.RecordOnce: _record_once,
    commands.EraseConversation: Drafts.erase_conversation,
    commands.EraseRun: Drafts.erase_run,
}
"""What each write does. A write of a new kind is one line here, and what makes its entry."""
assert {*APPLY} == {*get_args(commands.Write)}, "each write has its function"
