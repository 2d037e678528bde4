"""Parts on their way: each follows the last of its conversation, or is there already."""

from __future__ import annotations

from typing import NamedTuple

from upthread.core.codec import StoredPart, encode_part
from upthread.core.commands import RecordParts
from upthread.errors import ConflictError
from upthread.store._rules import (
    PartHeader,
    chained_to,
    covered_by_chain,
    digest_of,
    header_of,
    is_next,
    must_equal,
)
from upthread.store.sql.batch import (
    Batch,
    Column,
    OwnerKey,
    Row,
    Step,
    Tail,
    ToColumns,
    from_columns,
)


class _Piece(NamedTuple):
    """A part on its way: all that does not depend on what is stored."""

    header: PartHeader
    digest: bytes
    covered: bytes
    """What its chain covers beside the one before."""
    stored: StoredPart
    named: tuple[Column, ...]
    """Its kind and the call it belongs to, as columns."""


def record_parts(write: RecordParts, to_columns: ToColumns) -> Step:
    """Return the step that appends parts of one message, or compares those that are there."""
    (speaker,) = to_columns(str(write.speaker))
    pieces = [
        _piece(write, ordinal, encode_part(part), to_columns)
        for ordinal, part in enumerate(write.parts, write.first_ordinal)
    ]

    def apply(batch: Batch) -> None:
        conversation = batch.owner("conversation", write.conversation_id)
        turn = batch.owner("turn", write.turn_id)
        author = (speaker, turn, batch.upstream(write.upstream_session_id))
        before = tail = batch.tail(conversation)
        for piece in pieces:
            tail = _place(batch, piece, tail, (conversation, author))
        # Only where something was added: of what has grown, PostgreSQL has the server check the
        # end.
        if tail is not before:
            batch.grow(conversation, tail)

    return Step(apply, write.conversation_id, write.turn_id)


def _piece(write: RecordParts, ordinal: int, stored: StoredPart, to_columns: ToColumns) -> _Piece:
    # Of a part whose content is not kept the digest came with it, from where the content was.
    digest = stored.digest or digest_of(stored.content)
    header = header_of(write, ordinal, stored)
    named = to_columns(stored.kind, stored.call_id)
    return _Piece(header, digest, covered_by_chain(digest, header), stored, named)


def _place(batch: Batch, piece: _Piece, tail: Tail, whose: tuple[OwnerKey, Row]) -> Tail:
    """Append a part after the tail, or see that the same one is already there."""
    header, digest, covered, stored, named = piece
    conversation, author = whose
    seq, ordinal = header.seq, header.ordinal
    # The usual case first, and without the words that only a conflict needs.
    is_next_message = seq == tail.seq + 1 and ordinal == 0
    if not is_next_message and not _follows(header, author, tail):
        _must_be_there(batch, conversation, piece)
        return tail
    chain = chained_to(tail.chain, covered)
    place = (conversation, seq, ordinal, *author, header.recorded_at_ms, *named, chain)
    if stored.content is None:
        batch.execute("record_erased_part", (*place, digest, stored.size_bytes))
    else:
        # No digest beside content, which has it in itself: 32 bytes less for each part.
        batch.execute("record_part", (*place, None, stored.content))
    return Tail(seq, ordinal, author, chain)


def _follows(header: PartHeader, author: Row, tail: Tail) -> bool:
    """Return whether a part comes right after the tail; False: there should be one in its place."""
    owner, seq, ordinal = header[:3]
    is_same_message = seq == tail.seq
    if is_same_message and tail.author != author:
        must_equal(tail.author, author, what=f"message {seq} of {owner}")
    last_ordinal = tail.ordinal if is_same_message else -1
    if not is_next(seq, last=tail.seq, what="message", owner=owner) and not is_same_message:
        return False
    # Shifted by one: what `is_next` numbers begins with 1, parts with 0.
    return is_next(ordinal + 1, last=last_ordinal + 1, what=f"in message {seq}, part", owner=owner)


def _must_be_there(batch: Batch, conversation: OwnerKey, piece: _Piece) -> None:
    header = piece.header
    where = f"part {header.ordinal} of message {header.seq} of {header.conversation_id}"
    found = batch.content_row("part", (conversation, header.seq, header.ordinal))
    if found is None:  # an earlier message has fewer parts, and can have no more
        raise ConflictError(f"{where} would come after a later message", hint="read again")
    # An erased part is the same part: what counts is the digest, of the content or left of it (S3).
    digest = found[6] if found[7] is None else digest_of(found[7])
    must_equal((*from_columns(found[:6]), digest), (*header[3:], piece.digest), what=where)
