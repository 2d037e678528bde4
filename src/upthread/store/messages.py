"""Messages, made of the entries that hold their parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from upthread.core.types import ConversationId, Message, Part
from upthread.errors import StoreError
from upthread.store import entries
from upthread.store.entries import Place, SpokenRow


def message(
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


_UNMARKED: Final = frozenset({"{", "[", ord("{"), ord("[")})


def messages_of(
    conversation_id: ConversationId, found: Iterable[SpokenRow], *, after_seq: int, until: int
) -> tuple[Message, ...]:
    """Return the messages after one from what they are made of, up to another at least.

    StoreError names the message that is missing or damaged: none is ever skipped.
    """
    messages: list[Message] = []
    seq, count, last_at_ms = after_seq, 0, 0
    place_of, parts_of = entries.PLACE.plain, entries.PARTS_OF_MESSAGE.plain
    place: Place | None = None
    try:
        # The loop over all entries of a conversation: calls and comparisons are counted here.
        for _, at_ms, kept, said in found:
            try:
                given = place_of(kept) if kept[0] in _UNMARKED else entries.place_of(kept)
                if given.seq <= after_seq:
                    continue
                if said is not None and said[0] in _UNMARKED:
                    parts = parts_of(said)
                else:
                    parts = entries.parts_of(kept, said)
            except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, IndexError) as error:
                raise StoreError(str(error)) from error
            if not given.first_ordinal and given.seq == seq + 1:
                seq, place, count, last_at_ms = seq + 1, given, len(parts), at_ms
                messages.append(message(conversation_id, at_ms, given, parts))
            elif place is not None and given.seq == seq and given.first_ordinal == count:
                count += len(parts)
                parts = (*messages.pop().parts, *parts)
                messages.append(message(conversation_id, last_at_ms, place, parts))
            else:
                seq += given.seq != seq
                place = given
                raise StoreError(f"part {given.first_ordinal} of message {given.seq} follows")
    except StoreError as error:
        raise _damaged(conversation_id, seq + (place is None), error.message) from error
    if seq < until:
        raise _damaged(conversation_id, seq + 1, "it is missing")
    return tuple(messages)


def _damaged(conversation_id: ConversationId, seq: int, why: str) -> StoreError:
    return StoreError(
        f"message {seq} of {conversation_id} is damaged: {why}",
        hint="run `upthread doctor`",
        conversation_id=conversation_id,
    )
