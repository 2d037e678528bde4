"""The proof that streams are what was recorded: their chains, their heads, their tags.

A read proves the entries that it returns; here a whole stream is proved (S9, S33). A stream is
read in pages: it may be larger than memory should hold.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from upthread.errors import StoreError
from upthread.store import chain, entries, streams
from upthread.store.chain import not_whole
from upthread.store.entries import PARTS, Entry, kept_of
from upthread.store.stream_reads import StreamReads
from upthread.store.streams import ConversationState, Head
from upthread.store.tags import tags_of


def first_damaged(reads: StreamReads, head: Head) -> tuple[Entry | None, int]:
    """Return a stream's first entry that does not verify, and the message before it.

    None where all do. Where an entry is missing, that is the one after it; behind the last one
    that is left, one without a kind. StoreError for a head that its entries do not make, and for a
    tag that an entry gives its stream and that does not lead to it.
    """
    made = streams.new_head(head.kind, head.name, head.project_id)
    message = 0
    for entry in reads.all_entries(head.row):
        is_next = entry.seq == made.last + 1
        if not is_next or chain.hash_of(entry, made.hash) != entry.hash:
            return entry, message
        # Somebody may have written since the head was read.
        if entry.seq == head.last and entry.hash != head.hash:
            return entry, message
        made.last, made.hash = entry.seq, entry.hash
        value = kept_of(entry)
        if entry.seq <= head.last:
            streams.fold(made, entry.at_ms, value)
        if entry.kind in PARTS:
            message = value.seq
        for each in tags_of(head.kind, head.name, head.project_id, entry.seq, value):
            if all(found.head.row != head.row for found in reads.found(each.text)):
                raise not_whole(f"{each.text}, by which {head.kind} {head.name} is found,")
    if made.last < head.last:
        return Entry(made.last + 1, "", 0, "", None, None, b""), message
    if streams.encoded(made)[0] != streams.encoded(head)[0]:
        raise StoreError(
            f"the head of {head.kind} {head.name} is damaged: its entries make another",
            hint=entries.CURE_OF_DAMAGE,
        )
    return None, message


def must_be_whole(reads: StreamReads, head: Head) -> None:
    """Raise StoreError where a stream is not what was recorded: an entry, its end, or its head."""
    entry, _ = first_damaged(reads, head)
    if entry is not None:
        raise not_whole(f"entry {entry.seq} of {head.kind} {head.name}")


def damaged_message(head: Head, entry: Entry, before: int) -> int:
    """Return the message to name for a damaged entry, or for those missing before it."""
    seq = before + 1
    if entry.kind in PARTS:
        with suppress(StoreError):
            seq = min(entries.place_of(entry.kept).seq, seq)
    return max(1, min(seq, cast("ConversationState", head.state).messages or 1))
