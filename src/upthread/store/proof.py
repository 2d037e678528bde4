"""The proof that streams are what was recorded: their chains, their heads, their tags.

A read proves the entries that it returns; here a whole stream is proved (S9, S33). A stream is
read in pages: it may be larger than memory should hold. `proofs` starts from the rows and not from
tags, because a tag may be what is damaged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TypeAlias

from upthread.errors import StoreError
from upthread.store import entries, streams
from upthread.store.entries import Entry, kept_of, not_whole
from upthread.store.kinds import PARTS, ConversationState
from upthread.store.stream_reads import Rows, StreamReads
from upthread.store.streams import STREAMS, Head, Proof, head_of, workstream_of
from upthread.store.tags import own_tag, tag

Tags: TypeAlias = Mapping[tuple[bytes, int], int]
"""The tags of a stream by their texts and places, and the entries that they name."""


def prove(reads: StreamReads, head: Head, tags: Tags = MappingProxyType({})) -> None:
    """Raise StoreError where a stream is not what was recorded.

    An entry does not verify or is missing, the entries make another head, or a tag of an entry does
    not lead here. The error of a conversation's entry has its message as `seq` in its ids. `tags`
    are all that lead to the stream, read before its head; then a tag that no entry gives is an
    error, too.
    """
    made = streams.new_head(head.kind, head.name, head.project_id, head.row)
    message = 0
    given: dict[tuple[bytes, int], int] = {}
    for entry in reads.all_entries(head.row):
        is_next = entry.seq == made.last + 1 and entries.hash_of(entry, made.hash) == entry.hash
        # Somebody may have written since the head was read.
        if not is_next or (entry.seq == head.last and entry.hash != head.hash):
            raise _damaged(head, entry.seq, message, entry)
        made.last, made.hash = entry.seq, entry.hash
        value = kept_of(entry)
        if entry.seq <= head.last:
            streams.fold(made, entry.at_ms, value)
        if entry.kind in PARTS:
            message = value.seq
        for text, nth, seq in streams.tags_of(made, value):
            given[text.encode(), head.row if nth is None else nth] = seq
    if made.last < head.last:
        raise _damaged(head, made.last + 1, message)
    if streams.encoded(made)[0] != streams.encoded(head)[0]:
        raise not_whole(f"the head of {head.kind} {head.name}")
    _compare_tags(reads, made, given, tags)


def _damaged(head: Head, seq: int, before: int, entry: Entry | None = None) -> StoreError:
    """Return the error of a damaged entry after message `before`, or of a missing one."""
    if not isinstance(head.state, ConversationState):
        return not_whole(f"entry {seq} of {head.kind} {head.name}")
    message = before + 1
    if entry is not None and entry.kind in PARTS:
        with suppress(StoreError):
            message = min(entries.place_of(entry.kept).seq, message)
    message = max(1, min(message, head.state.messages or 1))
    return not_whole(f"message {message} of conversation {head.name}", seq=str(message))


def _compare_tags(reads: StreamReads, head: Head, given: Tags, tags: Tags) -> None:
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


def proofs(
    reads: StreamReads, rows: Rows, project_id: str | None, workstream: str | None
) -> Iterator[Proof]:
    """Yield the proof of each stream, as `Store.proofs` has it."""
    tags: defaultdict[int, dict[tuple[bytes, int], int]] = defaultdict(dict)
    for text, nth, row, seq in rows.tags:
        tags[row][text, nth] = seq
    heads = {columns[0]: columns for columns in rows.heads}
    for row in sorted({*heads, *tags, *(row for (row,) in rows.streams)}):
        texts = {text.decode(errors="replace") for text, _ in tags[row]}
        own = (each for each in texts if each.partition(" ")[0] in STREAMS)
        name, head, damage = next(own, f"stream {row}"), None, None
        try:
            head = head_of(heads.get(row, (None,) * 8), name)
            name = f"{head.kind} {head.name}"
            if _is_in(head, texts, project_id, workstream):
                prove(reads, head, tags[row])
        except StoreError as error:
            damage = error
        if _is_in(head, texts, project_id, workstream):
            yield Proof(name, head, damage)


def _is_in(
    head: Head | None, texts: set[str], project_id: str | None, workstream: str | None
) -> bool:
    """Return whether a stream belongs to a workstream by its head or by its tags.

    A stream without a head and without such a tag may belong to any.
    """
    if project_id is None or workstream is None:
        return head is None or project_id in {None, head.project_id}
    homes = {each for each in texts if each.startswith(("in ", "workstream "))}
    own = {own_tag("workstream", workstream, project_id), tag("in", project_id, workstream)}
    if head is None:
        return not homes or not own.isdisjoint(homes)
    is_own = (head.project_id, workstream_of(head)) == (project_id, workstream)
    return is_own or not own.isdisjoint(homes)
