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
from typing import Any, TypeAlias, cast

from upthread.errors import StoreError
from upthread.store import chain, entries, streams
from upthread.store.chain import not_whole
from upthread.store.entries import PARTS, Entry, StreamKind, kept_of
from upthread.store.log import LogStore
from upthread.store.stream_reads import StreamReads
from upthread.store.streams import STREAMS, ConversationState, Head, head_of, workstream_of
from upthread.store.tags import own_tag, tag, tags_of
from upthread.store.values import Proof

Tags: TypeAlias = Mapping[tuple[bytes, int], int]
"""The tags of a stream by their texts and places, and the entries that they name."""


def first_damaged(
    reads: StreamReads, head: Head, tags: Tags = MappingProxyType({})
) -> tuple[Entry | None, int]:
    """Return a stream's first entry that does not verify, and the message before it.

    None where all do. Where an entry is missing, that is the one after it; behind the last one
    that is left, one without a kind. StoreError for a head that its entries do not make, and for a
    tag that an entry gives its stream and that does not lead to it. `tags` are all that lead to the
    stream, read before its head; then a tag that no entry gives is a StoreError, too.
    """
    made = streams.new_head(head.kind, head.name, head.project_id, head.row)
    message = 0
    given: dict[tuple[bytes, int], int] = {}
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
        for text, nth, seq in tags_of(head.kind, head.name, head.project_id, entry.seq, value):
            given[text.encode(), head.row if nth is None else nth] = seq
    if made.last < head.last:
        return Entry(made.last + 1, "", 0, "", None, None, b""), message
    if streams.encoded(made)[0] != streams.encoded(head)[0]:
        raise StoreError(
            f"the head of {head.kind} {head.name} is damaged: its entries make another",
            hint=entries.CURE_OF_DAMAGE,
        )
    _compare_tags(reads, made, given, tags)
    return None, message


def _compare_tags(reads: StreamReads, head: Head, given: Tags, tags: Tags) -> None:
    """Raise StoreError for a tag that an entry gives and that is not there, and the reverse."""
    of = f"{head.kind} {head.name}"
    for (text, nth), seq in given.items():
        # A tag that was written since is read now. It may name a later entry.
        if tags.get((text, nth)) != seq and not any(
            (found.head.row, found.nth) == (head.row, nth)
            and (found.seq == seq or found.seq > head.last)
            for found in reads.found(text.decode())
        ):
            raise not_whole(f"{text.decode()}, by which {of} is found,")
    for text, _ in tags.keys() - given.keys():
        raise not_whole(f"{text.decode(errors='replace')}, which leads to {of},")


def proofs(store: LogStore, project_id: str | None, workstream: str | None) -> Iterator[Proof]:
    """Yield the proof of each stream, as `Store.proofs` has it."""
    rows = store.rows()
    tags: defaultdict[int, dict[tuple[bytes, int], int]] = defaultdict(dict)
    for text, nth, row, seq in rows.tags:
        tags[row][text, nth] = seq
    heads = {columns[0]: columns for columns in rows.heads}
    for row in sorted({*heads, *tags, *(row for (row,) in rows.streams)}):
        name, head, damage = _head(row, heads.get(row), tags[row])
        if project_id is not None:
            if workstream is None:
                is_in = head is None or head.project_id == project_id
            else:
                is_in = _is_in((project_id, workstream), store, row, head, tags[row])
            if not is_in:
                continue
        damaged_seq = None
        try:
            if head is not None:
                entry, before = first_damaged(store, head, tags[row])
                if entry is not None:
                    damage = not_whole(f"entry {entry.seq} of {name}")
                    if head.kind == "conversation":
                        damaged_seq = damaged_message(head, entry, before)
        except StoreError as error:
            damage = error
        yield Proof(name, head, damage, damaged_seq)


def _is_in(home: tuple[str, str], store: LogStore, row: int, head: Head | None, tags: Tags) -> bool:
    """Return whether a stream belongs to a workstream by its head, its tags or its first entry."""
    project_id, workstream = home
    if head is not None and (head.project_id, workstream_of(head)) == home:
        return True
    texts = {text for text, _ in tags}
    if head is None:
        with suppress(StoreError):
            for entry in store.entries(row, first=1):
                kind = cast("StreamKind", entry.kind)
                given = tags_of(kind, "", project_id, entry.seq, kept_of(entry))
                texts |= {each.text.encode() for each in given}
    own = own_tag("workstream", workstream, project_id)
    return not texts.isdisjoint({own.encode(), tag("in", *home).encode()})


def _head(row: int, columns: Any, tags: Tags) -> tuple[str, Head | None, StoreError | None]:
    """Return what a stream is called, its head, and why that cannot be read."""
    texts = (text.decode(errors="replace") for text, _ in tags)
    name = next((text for text in texts if text.partition(" ")[0] in STREAMS), f"stream {row}")
    try:
        head = head_of(columns or [None] * 8, name)
    except StoreError as error:
        return name, None, error
    return f"{head.kind} {head.name}", head, None


def damaged_message(head: Head, entry: Entry, before: int) -> int:
    """Return the message to name for a damaged entry, or for those missing before it."""
    seq = before + 1
    if entry.kind in PARTS:
        with suppress(StoreError):
            seq = min(entries.place_of(entry.kept).seq, seq)
    return max(1, min(seq, cast("ConversationState", head.state).messages or 1))
