"""The proof that a stream is what was recorded: its chain, its head, its tags.

A read proves the entries that it returns; here a whole stream is proved (S9, S33). A stream is read
in pages: it may be larger than memory should hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TypeAlias

from upthread.errors import StoreError
from upthread.store.kinds import PARTS, ConversationState
from upthread.store.reads import Reads
from upthread.store.streams import (
    Entry,
    Head,
    encoded,
    fold,
    hash_of,
    kept_of,
    new_head,
    not_whole,
    place_of,
    tags_of,
)

Tags: TypeAlias = Mapping[tuple[bytes, int], int]
"""The tags of a stream by their texts and places, and the entries that they name."""


def prove(reads: Reads, head: Head, tags: Tags = MappingProxyType({})) -> None:
    """Raise StoreError where a stream is not what was recorded.

    An entry does not verify or is missing, the entries make another head, or a tag of an entry does
    not lead here. The error of a conversation's entry has its message as `seq` in its ids. `tags`
    are all that lead to the stream, read before its head; then a tag that no entry gives is an
    error, too.
    """
    made = new_head(head.kind, head.name, head.project_id, head.row)
    message = 0
    given: dict[tuple[bytes, int], int] = {}
    for entry in reads.all_entries(head.row):
        is_next = entry.seq == made.last + 1 and hash_of(entry, made.hash) == entry.hash
        # Somebody may have written since the head was read.
        if not is_next or (entry.seq == head.last and entry.hash != head.hash):
            raise _damaged(head, entry.seq, message, entry)
        made.last, made.hash = entry.seq, entry.hash
        value = kept_of(entry)
        if entry.seq <= head.last:
            fold(made, entry.at_ms, value)
        if entry.kind in PARTS:
            message = value.seq
        for text, nth, seq in tags_of(made, value):
            given[text.encode(), head.row if nth is None else nth] = seq
    if made.last < head.last:
        raise _damaged(head, made.last + 1, message)
    if encoded(made)[0] != encoded(head)[0]:
        raise not_whole(f"the head of {head.kind} {head.name}")
    _compare_tags(reads, made, given, tags)


def _damaged(head: Head, seq: int, before: int, entry: Entry | None = None) -> StoreError:
    """Return the error of a damaged entry after message `before`, or of a missing one."""
    if not isinstance(head.state, ConversationState):
        return not_whole(f"entry {seq} of {head.kind} {head.name}")
    message = before + 1
    if entry is not None and entry.kind in PARTS:
        with suppress(StoreError):
            message = min(place_of(entry.kept).seq, message)
    message = max(1, min(message, head.state.messages or 1))
    return not_whole(f"message {message} of conversation {head.name}", seq=str(message))


def _compare_tags(reads: Reads, head: Head, given: Tags, tags: Tags) -> None:
    """Raise StoreError for a tag that an entry gives and that is not there, and the reverse."""
    of = f"{head.kind} {head.name}"
    for (text, nth), seq in given.items():
        # A tag that was written since is read now. It may name a later entry.
        if tags.get((text, nth)) != seq and not any(
            (found.head.row, found.nth) == (head.row, nth)
            and (found.seq == seq or head.last < found.seq <= found.head.last)
            for found in reads.found(text.decode())
        ):
            raise not_whole(f"{text.decode()}, by which {of} is found,")
    for text, _ in tags.keys() - given.keys():
        raise not_whole(f"{text.decode(errors='replace')}, which leads to {of},")
