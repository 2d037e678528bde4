"""Parts on their way: each follows the last of its conversation, or is there already."""

from __future__ import annotations

from typing import NamedTuple

from upthread.core.codec import StoredPart, encode_part, encode_text, encode_word
from upthread.core.commands import RecordParts
from upthread.errors import ConflictError
from upthread.store._rules import PartHeader, chained, digest_of, header_of, is_next, must_equal
from upthread.store.postgres.batch import Batch, Step, Tail
from upthread.store.postgres.columns import Column, Row


class _Piece(NamedTuple):
    """A part on its way: all that does not depend on what is stored."""

    header: PartHeader
    digest: bytes
    stored: StoredPart
    columns: tuple[Column, ...]


def record_parts(write: RecordParts) -> Step:
    """Return what is left to do of writing parts of one message."""
    conversation, turn = encode_word(write.conversation_id), encode_word(write.turn_id)
    upstream = write.upstream_session_id
    author = (
        encode_word(write.speaker),
        turn,
        None if upstream is None else encode_text(upstream),
    )
    pieces = [
        _piece(write, ordinal, encode_part(part), (conversation, author))
        for ordinal, part in enumerate(write.parts, write.first_ordinal)
    ]

    def apply(batch: Batch) -> None:
        before = tail = batch.tail_of(conversation)
        batch.turn_of(turn)
        for piece in pieces:
            tail = _place(batch, piece, tail)
        if tail is not before:
            batch.tails[conversation] = tail
            batch.grown.setdefault(conversation, before.chain)

    return Step(apply, conversation, turn)


def _piece(
    write: RecordParts, ordinal: int, stored: StoredPart, encoded: tuple[bytes, Row]
) -> _Piece:
    conversation, author = encoded
    call_id = stored.call_id
    columns = (
        conversation,
        write.seq,
        ordinal,
        *author,
        write.recorded_at_ms,
        encode_word(stored.kind),
        None if call_id is None else encode_text(call_id),
    )
    digest = stored.digest or digest_of(stored.content)
    return _Piece(header_of(write, ordinal, stored), digest, stored, columns)


def _place(batch: Batch, piece: _Piece, tail: Tail) -> Tail:
    """Append a part after the tail, or see that the same one is already there."""
    header, digest, stored, columns = piece
    is_next_message = header.seq == tail.seq + 1 and header.ordinal == 0
    if not is_next_message and not _follows(piece, tail):
        _must_be_there(batch, piece)
        return tail
    chain = chained(tail.chain, digest, header)
    if stored.content is None:
        batch.execute("record_erased_part", (*columns, chain, digest, stored.size_bytes))
    else:
        batch.execute("record_part", (*columns, chain, None, stored.content))
    return Tail(header.seq, header.ordinal, columns[3:6], chain)


def _follows(piece: _Piece, tail: Tail) -> bool:
    """Return whether a part comes right after the tail; False: there should be one in its place."""
    owner, seq, ordinal = piece.header[:3]
    is_same_message = seq == tail.seq
    author = piece.columns[3:6]
    if is_same_message and tail.author != author:
        must_equal(tail.author, author, what=f"message {seq} of {owner}")
    last_ordinal = tail.ordinal if is_same_message else -1
    if not is_next(seq, last=tail.seq, what="message", owner=owner) and not is_same_message:
        return False
    return is_next(ordinal + 1, last=last_ordinal + 1, what=f"in message {seq}, part", owner=owner)


def _must_be_there(batch: Batch, piece: _Piece) -> None:
    header = piece.header
    where = f"part {header.ordinal} of message {header.seq} of {header.conversation_id}"
    found = batch.content_row("part", piece.columns[:3])
    if found is None:  # an earlier message has fewer parts, and can have no more
        raise ConflictError(f"{where} would come after a later message", hint="read again")
    digest = found[6] if found[7] is None else digest_of(found[7])
    must_equal((*found[:6], digest), (*piece.columns[3:], piece.digest), what=where)
