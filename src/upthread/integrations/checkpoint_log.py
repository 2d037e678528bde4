"""LangGraph's checkpoints as a log: what is appended for each call, and the fold of it.

A channel that holds a list, such as the messages of an agent, is given whole with each checkpoint.
Here only what is new of it is written: how many elements it has in common with the version before,
and those after. So the bytes of a thread grow with what was said, and not with its square.
It knows nothing of LangGraph: values are pairs of a type and bytes, as its serializers
make them (langgraph-checkpoint 4.3.2). In an entry, which is JSON, the bytes are base 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct, field, structs

from upthread.core.types import ready
from upthread.errors import StoreError
from upthread.runtime.record.entry_log import Entry

Typed: TypeAlias = tuple[str, bytes]
"""A value as a serializer of LangGraph's makes it: the type's name, and the bytes."""

Version: TypeAlias = str | int | float

Stored: TypeAlias = "Typed | list[Typed] | None"
"""A channel's value: whole, or a list by its elements. None: the channel is empty."""

MSGPACK = "msgpack"
ELEMENT = "msgpack[]"
"""The type of an element that was cut out of a list's MessagePack."""

_CUT = msgspec.msgpack.Decoder(list[msgspec.Raw])


class Told(Struct, frozen=True, omit_defaults=True):
    """A channel's value in an entry: `whole`, or the elements of a list.

    With `after`, these follow the first so many elements of the version before.
    """

    whole: Typed | None = None
    elements: list[Typed] | None = field(default=None, name="list")
    after: tuple[Version, int] | None = None


class SavedCheckpoint(Struct, frozen=True, kw_only=True):
    """The entry of a checkpoint, with the channels that are new in it.

    `parent` is None for a thread's first checkpoint.
    """

    namespace: str = field(name="put")
    thread_id: str = field(name="thread")
    checkpoint_id: str = field(name="id")
    parent: str | None
    checkpoint: Typed
    metadata: Typed
    versions: dict[str, Version]
    values: tuple[tuple[str, Version, Told | None], ...]


class SavedWrite(Struct, frozen=True, array_like=True):
    """What a task wrote to a channel, to be applied by the next superstep."""

    task_id: str
    index: int
    channel: str
    value: Typed
    task_path: str


class SavedWrites(Struct, frozen=True):
    """The entry of what one task wrote after a checkpoint."""

    namespace: str = field(name="writes")
    checkpoint_id: str = field(name="id")
    writes: tuple[SavedWrite, ...] = field(name="of")


class CheckpointThread(Struct):
    """A thread as its log tells it."""

    thread_id: str = ""
    checkpoints: dict[tuple[str, str], SavedCheckpoint] = field(default_factory=dict)
    """By namespace and id, in the order of the log. Ids are made of a host's clock: they order
    nothing."""
    heads: dict[str, str] = field(default_factory=dict)
    """The id of each namespace's newest checkpoint."""
    writes: dict[tuple[str, str], dict[tuple[str, int], SavedWrite]] = field(default_factory=dict)
    blobs: dict[tuple[str, str, Version], Stored] = field(default_factory=dict)
    """By namespace, channel and version."""
    newest: dict[tuple[str, str], Version] = field(default_factory=dict)
    """The version of each channel that was stored last: what the next one is told beside."""

    def told(self, namespace: str, channel: str, value: Stored) -> Told | None:
        """Return a channel's value as the next entry has it."""
        if value is None:
            return None
        if not isinstance(value, list):
            return Told(value)
        base = self.newest.get((namespace, channel))
        before = self.blobs.get((namespace, channel, base)) if base is not None else None
        if base is None or not isinstance(before, list):
            return Told(elements=value)
        shared = _shared(before, value)
        return Told(elements=value[shared:], after=(base, shared))

    # --- the fold --------------------------------------------------------------------------------

    def apply(self, appended: Entry) -> None:
        """Take in what was appended. StoreError for what no version of this wrote."""
        value = appended.value
        if "put" in value:
            self.take(msgspec.convert(value, ready(SavedCheckpoint)))
        elif "writes" in value:
            self._take_writes(msgspec.convert(value, ready(SavedWrites)))
        else:
            raise StoreError(
                f"a checkpoint's entry of no known kind: {', '.join(sorted(value))}",
                hint="a newer upthread may have written it: pip install --upgrade upthread",
            )

    def take(self, saved: SavedCheckpoint) -> None:
        """Take in a checkpoint."""
        namespace, key = saved.namespace, (saved.namespace, saved.checkpoint_id)
        self.thread_id = saved.thread_id
        if key not in self.checkpoints:  # one that comes again is no newer
            self.heads[namespace] = saved.checkpoint_id
        self.checkpoints[key] = saved
        for channel, version, told in saved.values:
            self.blobs[namespace, channel, version] = self._stored(namespace, channel, told)
            self.newest[namespace, channel] = version

    def _stored(self, namespace: str, channel: str, told: Told | None) -> Stored:
        if told is None or told.elements is None:
            return told.whole if told else None
        if told.after is None:
            return told.elements
        base, shared = told.after
        before = self.blobs.get((namespace, channel, base))
        if not isinstance(before, list):
            raise StoreError(
                f"the thread {self.thread_id!r} cannot be read: a checkpoint adds to a list that "
                "was deleted or forgotten while it was written",
                hint="delete the thread, for example by delete_thread(…), or use another",
                thread_id=self.thread_id,
            )
        return [*before[:shared], *told.elements]

    def _take_writes(self, saved: SavedWrites) -> None:
        stored = self.writes.setdefault((saved.namespace, saved.checkpoint_id), {})
        for each in saved.writes:
            # The first one stays, but for what says how a task stands: LangGraph numbers that
            # below 0 (WRITES_IDX_MAP).
            if each.index < 0 or (each.task_id, each.index) not in stored:
                stored[each.task_id, each.index] = each

    # --- what is read ----------------------------------------------------------------------------

    def ordered_writes(self, namespace: str, checkpoint_id: str) -> list[SavedWrite]:
        """Return a checkpoint's writes as live execution applies them (writes_sort_key)."""
        stored = self.writes.get((namespace, checkpoint_id), {})
        return sorted(stored.values(), key=lambda each: (each.task_path, each.task_id, each.index))

    def latest(self, namespace: str) -> SavedCheckpoint | None:
        """Return the checkpoint of a namespace that was put last, None without one."""
        return self.checkpoints.get((namespace, self.heads.get(namespace, "")))

    def ancestors(self, saved: SavedCheckpoint) -> Iterator[SavedCheckpoint]:
        """Yield what a checkpoint comes after, its parent first."""
        namespace = saved.namespace
        while (parent := self.checkpoints.get((namespace, saved.parent or ""))) is not None:
            yield (saved := parent)

    def kept(self, keys: set[tuple[str, str]]) -> Iterator[SavedCheckpoint | SavedWrites]:
        """Yield the entries of a thread that has these checkpoints of (namespace, id) alone."""
        left = CheckpointThread()
        for key, each in self.checkpoints.items():
            if key in keys:
                saved = self._among(left, each)
                yield saved
                left.take(saved)
                yield from self._writes_of(key)
        # Writes may be there before their checkpoint is, as LangGraph's own order has it.
        for key in self.writes:
            if key in keys and key not in self.checkpoints:
                yield from self._writes_of(key)

    def _among(self, left: CheckpointThread, saved: SavedCheckpoint) -> SavedCheckpoint:
        """Return a checkpoint with the channels that the ones which are left do not have."""
        namespace = saved.namespace
        values = tuple(
            (channel, version, left.told(*key[:2], self.blobs[key]))
            for channel, version in saved.versions.items()
            if (key := (namespace, channel, version)) in self.blobs and key not in left.blobs
        )
        return structs.replace(saved, thread_id=self.thread_id, values=values)

    def _writes_of(self, key: tuple[str, str]) -> Iterator[SavedWrites]:
        if writes := tuple(self.writes.get(key, {}).values()):
            yield SavedWrites(*key, writes)


def elements_of(whole: Typed) -> list[Typed]:
    """Return a serialized list by its elements, empty where it cannot be cut.

    JsonPlusSerializer writes MessagePack (4.3.2), where an array is its elements one after another.
    """
    kind, content = whole
    if kind != MSGPACK:
        return []
    try:
        return [(ELEMENT, bytes(each)) for each in _CUT.decode(content)]
    except msgspec.MsgspecError:  # a serializer of somebody's that calls something else so
        return []


def list_of(elements: Sequence[Typed]) -> Typed | None:
    """Return the list that was cut into these elements, None where they were given one by one."""
    if not elements or any(kind != ELEMENT for kind, _ in elements):
        return None
    return MSGPACK, msgspec.msgpack.encode([msgspec.Raw(content) for _, content in elements])


def _shared(before: Sequence[Typed], elements: Sequence[Typed]) -> int:
    """Return how many elements two lists begin with that are the same."""
    most = min(len(before), len(elements))
    if before[:most] == elements[:most]:  # as it nearly always is: a list that grew
        return most
    return next(at for at in range(most) if before[at] != elements[at])
