"""Parts again in a chain: what is left of each conversation of a damaged database.

Each hash chain is made anew, since nothing that follows a gap could verify. Before that, the old
one has told which of the parts that are left are what was recorded. A lost part has an outline in
its place, of the kind `lost`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from upthread.core.runs.stops import SALVAGED
from upthread.core.types import Speaker
from upthread.store._rules import FIRST_CHAIN, PartHeader, chained, digest_of
from upthread.store.sql.batch import from_columns
from upthread.store.sqlite.database import Connection, first_of
from upthread.store.sqlite.pages import Value, Values
from upthread.store.sqlite.row_types import Found, PartPosition, integer

LOST: Final = "lost"
"""The kind of the part that stands for what was lost."""

GAP_MAX: Final = 1_000_000
"""How many messages may be missing before one; a number beyond is damage itself."""

# Of no content there is, so that an outline cannot be taken for something that was said.
_NO_DIGEST: Final = bytes(32)


class LostMessages(Struct, frozen=True, kw_only=True):
    """Messages of a conversation, from one to another, of which parts are lost or not provable.

    `is_lost`: their place is kept by an outline. Else they are there, and what stands around them
    does not prove that they are what was recorded, or that they are whole.
    """

    conversation_id: str
    address: str
    from_seq: int
    to_seq: int
    is_lost: bool


class _Part(NamedTuple):
    """A part as it was stored: its row, 0 for none, its place and its columns."""

    row_id: int
    place: PartPosition
    speaker: Value
    turn: int
    upstream: int | None
    at_ms: int
    kind: Value
    call_id: Value
    chain: Value
    digest: Value
    content: Value
    erased_bytes: Value


class Rechaining:
    """Writes the parts of one new database, within one transaction, its turns being there."""

    def __init__(self, connection: Connection, found: Found, *, now_ms: int) -> None:
        self._connection = connection
        self._found = found
        self._now_ms = now_ms
        # Behind all that were read, whose numbers stay as they are.
        self._next_part = 1 + max(found.rows["part"], default=0)
        self._turn_names = self._names("SELECT id, turn_id FROM turn")
        self._upstream_names = self._names("SELECT id, upstream_session_id FROM upstream")
        self.messages = 0
        self.lost: list[LostMessages] = []

    def write(self) -> None:
        """Write all parts that are left, of each conversation that is there."""
        left: dict[int, dict[PartPosition, _Part]] = defaultdict(dict)
        for row_id, values in sorted(self._found.rows["part"].items()):
            part = _part_of(row_id, values)
            left[part.place.conversation].setdefault(part.place, part)
        expected: dict[int, set[PartPosition]] = defaultdict(set)
        for place in self._found.places:
            expected[place.conversation].add(place)
        statement = "SELECT id, conversation_id, workstream, role FROM conversation"
        rows = self._connection.execute(statement).fetchall()
        for row, name, workstream, role in rows:
            address = "/".join(from_columns((workstream, role)))
            places = _all_places(row, left[row].keys() | expected[row])
            if places:
                chain = _Chain(self, row, from_columns((name,))[0])
                chain.write(places, left[row])
                self.messages += places[-1].seq
                for seqs, is_lost in ((chain.lost, True), (chain.unproven - chain.lost, False)):
                    self._tell(chain.name, address, seqs, is_lost=is_lost)

    def _tell(self, name: str, address: str, seqs: Iterable[int], *, is_lost: bool) -> None:
        for first, last in _ranges(sorted(seqs)):
            self.lost.append(
                LostMessages(
                    conversation_id=name,
                    address=address,
                    from_seq=first,
                    to_seq=last,
                    is_lost=is_lost,
                )
            )

    def turn_name(self, row: int) -> str:
        """Return the id of a turn that is there."""
        return self._turn_names[row]

    def upstream_name(self, row: int | None) -> str | None:
        """Return the id of an upstream session, None for none, and for one that is lost."""
        return None if row is None else self._upstream_names.get(row)

    def is_neighbour(self, place: PartPosition, following: PartPosition) -> bool:
        """Return whether an index says that nothing stood between two places."""
        return (place, following) in self._found.neighbours

    def some_turn(self, conversation: int) -> int:
        """Return a turn of a conversation; one is made where none is left."""
        statement = "SELECT min(id) FROM turn WHERE conversation = ?"
        found = first_of(self._connection.execute(statement, (conversation,)))
        if found is not None and found[0] is not None:
            return int(found[0])
        # A part cannot be without a turn.
        row = 1 + max(self._turn_names, default=0)
        name = self._turn_names[row] = f"trn_{SALVAGED}_{row}"
        self._connection.execute(
            "INSERT INTO turn VALUES (?, ?, ?, NULL, ?, NULL)",
            (row, name, conversation, self._now_ms),
        )
        return row

    def insert_part(self, part: _Part, chain: bytes) -> None:
        """Write a part with its place in the new chain; one of no row gets the next."""
        row_id = part.row_id
        if not row_id:
            row_id, self._next_part = self._next_part, self._next_part + 1
        # A number whose name is lost may one day be another session's.
        upstream = part.upstream if self.upstream_name(part.upstream) else None
        self._connection.execute(
            "INSERT INTO part (id, conversation, message_seq, ordinal, speaker, turn, upstream,"
            " recorded_at_ms, kind, call_id, chain, digest, content, erased_bytes)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(row_id, *part.place, part.speaker, part.turn, upstream, part.at_ms),
                *(part.kind, part.call_id, chain, part.digest, part.content, part.erased_bytes),
            ),
        )

    def _names(self, statement: str) -> dict[int, str]:
        rows = self._connection.execute(statement).fetchall()
        return {row: from_columns((name,))[0] for row, name in rows}


class _Chain:
    """One conversation's parts, written one after the other with a chain of their own."""

    def __init__(self, parts: Rechaining, conversation: int, name: str) -> None:
        self._parts = parts
        self._conversation = conversation
        self.name = name
        self.lost: set[int] = set()
        self.unproven: set[int] = set()
        self._chain = FIRST_CHAIN
        # Of the part before, as it was stored: its place, its chain; None once it is lost.
        self._before: tuple[PartPosition, bytes] | None = (
            PartPosition(conversation, 0, 0),
            FIRST_CHAIN,
        )
        self._is_before_proven = True

    def write(self, places: list[PartPosition], left: dict[PartPosition, _Part]) -> None:
        """Write what is left, and an outline for what is not."""
        owners: dict[int, _Part] = {}
        for part in left.values():
            # A message has one speaker, turn and session (S6): any part that is left tells them.
            owners.setdefault(part.place.seq, part)
        # What is lost before the first that is left is put into that one's turn.
        known = next((left[place].turn for place in places if place in left), None)
        turn = self._parts.some_turn(self._conversation) if known is None else known
        for place in places:
            stored = left.get(place)
            if stored is None or self._is_damaged(stored):
                beside = owners.get(place.seq)
                self._outline(place, beside, turn if beside is None else beside.turn)
            else:
                turn = stored.turn
                self._write(stored)

    def _outline(self, place: PartPosition, owner: _Part | None, turn: int) -> None:
        self.lost.add(place.seq)
        self._before, self._is_before_proven = None, False
        self._append(
            _Part(
                row_id=0,
                place=place,
                speaker=owner.speaker if owner else str(Speaker.ASSISTANT),
                turn=turn,
                upstream=owner.upstream if owner else None,
                at_ms=owner.at_ms if owner else 0,
                kind=LOST,
                call_id=None,
                chain=b"",
                digest=_NO_DIGEST,
                content=None,
                erased_bytes=None,
            )
        )

    def _write(self, part: _Part) -> None:
        is_proven = self._is_proven(part)
        if not is_proven:
            self.unproven.add(part.place.seq)
        chain = part.chain if isinstance(part.chain, bytes) else b""
        # The chain as it was stored, and not the new one: the next part was chained to that.
        self._before, self._is_before_proven = (part.place, chain), is_proven
        has_digest = isinstance(part.content, bytes) or isinstance(part.digest, bytes)
        self._append(part if has_digest else part._replace(digest=_NO_DIGEST))

    def _is_damaged(self, part: _Part) -> bool:
        """Return whether a part was changed for certain.

        So it is where the part before is proved, nothing stood between, and the chain differs.
        """
        if self._before is None or not self._is_before_proven or self._is_proven(part):
            return False
        # A name that the chain covered is lost: that it does not match says nothing of the part.
        if self._header(part) is None:
            return False
        place = self._before[0]
        # The first part of all, or one of the same message: nothing can have stood between.
        is_next = part.place[1:] in {(1, 0), (place.seq, place.ordinal + 1)}
        return is_next or self._parts.is_neighbour(place, part.place)

    def _is_proven(self, part: _Part) -> bool:
        header = self._header(part)
        if self._before is None or header is None:
            return False
        return chained(self._before[1], _digest(part), header) == part.chain

    def _header(self, part: _Part) -> PartHeader | None:
        """Return what the chain covers, None where a name in it is lost."""
        turn = self._parts.turn_name(part.turn)
        upstream = self._parts.upstream_name(part.upstream)
        is_lost = part.upstream is not None and upstream is None
        # A name that was made here is not the one that the chain covered.
        if is_lost or any(SALVAGED in name for name in (self.name, turn)):
            return None
        return self._header_of(part, turn, upstream)

    def _header_of(self, part: _Part, turn: str, upstream: str | None) -> PartHeader:
        speaker, kind, call_id = from_columns((part.speaker, part.kind, part.call_id))
        _, seq, ordinal = part.place
        return PartHeader(
            self.name, seq, ordinal, speaker, turn, upstream, part.at_ms, kind, call_id
        )

    def _append(self, part: _Part) -> None:
        turn = self._parts.turn_name(part.turn)
        upstream = self._parts.upstream_name(part.upstream)
        self._chain = chained(self._chain, _digest(part), self._header_of(part, turn, upstream))
        self._parts.insert_part(part, self._chain)


# --- below: values ---


def _part_of(row_id: int, values: Values) -> _Part:
    conversation, seq, ordinal, speaker, turn, upstream, at_ms, *rest = values
    place = PartPosition(integer(conversation), integer(seq), integer(ordinal))
    of_session = None if upstream is None else integer(upstream)
    kind, call_id, chain, digest, content, erased_bytes = rest
    return _Part(
        row_id,
        place,
        speaker,
        integer(turn),
        of_session,
        integer(at_ms),
        kind,
        call_id,
        chain,
        digest,
        content,
        erased_bytes,
    )


def _all_places(conversation: int, known: Iterable[PartPosition]) -> list[PartPosition]:
    """Return where parts stood, in order, those between two that are known with them."""
    last: dict[int, int] = {}
    newest = 0
    for place in sorted(known):
        if place.seq < 1 or place.ordinal < 0 or place.seq > newest + GAP_MAX:
            continue
        newest = place.seq
        last[place.seq] = max(place.ordinal, last.get(place.seq, 0))
    return [
        PartPosition(conversation, seq, ordinal)
        for seq in range(1, newest + 1)
        # Of a message that nothing is left of, one part: it had at least that.
        for ordinal in range(last.get(seq, 0) + 1)
    ]


def _ranges(seqs: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for seq in seqs:
        if first is None or last is None or seq != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = seq
        last = seq
    if first is not None and last is not None:
        yield first, last


def _digest(part: _Part) -> bytes:
    if isinstance(part.content, bytes):
        return digest_of(part.content)
    return part.digest if isinstance(part.digest, bytes) else _NO_DIGEST
