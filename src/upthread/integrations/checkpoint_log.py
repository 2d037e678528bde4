"""LangGraph's checkpoints as a log: what is appended for each call, and the fold of it.

A channel that holds a list, such as the messages of an agent, is given whole with each checkpoint.
Here only what is new of it is written: how many elements it has in common with the version before,
and those after. So the bytes of a thread grow with what was said, and not with its square.
It knows nothing of LangGraph: values are pairs of a type and bytes, as its serializers
make them (langgraph-checkpoint 4.3.2).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

import msgspec
from msgspec import Struct, field

from upthread.core.types import JsonValue
from upthread.errors import StoreError
from upthread.runtime.record.entry_log import Entry

Typed: TypeAlias = tuple[str, bytes]
"""A value as a serializer of LangGraph's makes it: the type's name, and the bytes."""

Version: TypeAlias = str | int | float

Stored: TypeAlias = "Typed | tuple[Typed, ...] | None"
"""A channel's value: whole, or a list by its elements. None: the channel is empty."""

BlobKey: TypeAlias = tuple[str, str, Version]
"""Namespace, channel, version."""

EMPTY: Final = None

MSGPACK: Final = "msgpack"
ELEMENT: Final = "msgpack[]"
"""The type of an element that was cut out of a list's MessagePack."""

_CUT: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])


class SavedCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint without its channels' values. `parent` is None for a thread's first."""

    checkpoint_id: str
    parent: str | None
    checkpoint: Typed
    metadata: Typed
    versions: Mapping[str, Version]


class SavedWrite(Struct, frozen=True, kw_only=True):
    """What a task wrote to a channel, to be applied by the next superstep."""

    task_id: str
    index: int
    channel: str
    value: Typed
    task_path: str


class CheckpointThread(Struct):
    """A thread as its log tells it."""

    thread_id: str = ""
    checkpoints: dict[str, dict[str, SavedCheckpoint]] = field(default_factory=dict)
    writes: dict[tuple[str, str], dict[tuple[str, int], SavedWrite]] = field(default_factory=dict)
    blobs: dict[BlobKey, Stored] = field(default_factory=dict)
    newest: dict[tuple[str, str], Version] = field(default_factory=dict)
    """The version of each channel that was stored last: what the next one is told beside."""

    # --- what is appended ------------------------------------------------------------------------

    def put_entry(
        self,
        namespace: str,
        saved: SavedCheckpoint,
        values: Mapping[str, tuple[Version, Stored]],
    ) -> JsonValue:
        """Return what is appended for a checkpoint with the channels that are new in it."""
        return {
            "put": namespace,
            "thread": self.thread_id,
            "id": saved.checkpoint_id,
            "parent": saved.parent,
            "checkpoint": _text(saved.checkpoint),
            "metadata": _text(saved.metadata),
            "versions": dict(saved.versions),
            "values": [
                [channel, version, self._told(namespace, channel, value)]
                for channel, (version, value) in values.items()
            ],
        }

    def _told(self, namespace: str, channel: str, value: Stored) -> JsonValue:
        if value is None:
            return None
        if is_typed(value):
            return {"whole": _text(value)}
        elements = cast("tuple[Typed, ...]", value)
        base = self.newest.get((namespace, channel))
        before = self.blobs.get((namespace, channel, base)) if base is not None else None
        if before is None or is_typed(before):
            return {"list": [_text(each) for each in elements]}
        shared = _shared(cast("tuple[Typed, ...]", before), elements)
        return {
            "list": [_text(each) for each in elements[shared:]],
            "after": [base, shared],
        }

    @staticmethod
    def writes_entry(namespace: str, checkpoint_id: str, writes: Sequence[SavedWrite]) -> JsonValue:
        """Return what is appended for the writes of one task."""
        return {
            "writes": namespace,
            "id": checkpoint_id,
            "of": [
                [each.task_id, each.index, each.channel, _text(each.value), each.task_path]
                for each in writes
            ],
        }

    # --- the fold --------------------------------------------------------------------------------

    def apply(self, appended: Entry) -> None:
        """Take in what was appended. StoreError for what no version of this wrote."""
        self.take(appended.value)

    def take(self, value: JsonValue) -> None:
        """As `apply`, by the value alone."""
        entry = cast("dict[str, JsonValue]", value)
        if "put" in entry:
            self._apply_put(entry)
        elif "writes" in entry:
            self._apply_writes(entry)
        else:
            raise StoreError(
                f"a checkpoint's entry of no known kind: {', '.join(sorted(entry))}",
                hint="a newer upthread may have written it: pip install --upgrade upthread",
            )

    def _apply_put(self, entry: dict[str, JsonValue]) -> None:
        namespace = cast("str", entry["put"])
        self.thread_id = cast("str", entry["thread"])
        saved = SavedCheckpoint(
            checkpoint_id=cast("str", entry["id"]),
            parent=cast("str | None", entry["parent"]),
            checkpoint=_typed(entry["checkpoint"]),
            metadata=_typed(entry["metadata"]),
            versions=cast("dict[str, Version]", entry["versions"]),
        )
        self.checkpoints.setdefault(namespace, {})[saved.checkpoint_id] = saved
        for channel, version, told in cast("list[tuple[str, Version, JsonValue]]", entry["values"]):
            self.blobs[namespace, channel, version] = self._stored(namespace, channel, told)
            self.newest[namespace, channel] = version

    def _stored(self, namespace: str, channel: str, told: JsonValue) -> Stored:
        if told is None:
            return EMPTY
        value = cast("dict[str, JsonValue]", told)
        if "whole" in value:
            return _typed(value["whole"])
        new = tuple(_typed(each) for each in cast("list[JsonValue]", value["list"]))
        if "after" not in value:
            return new
        base, shared = cast("tuple[Version, int]", value["after"])
        before = cast("tuple[Typed, ...]", self.blobs[namespace, channel, base])
        return (*before[:shared], *new)

    def _apply_writes(self, entry: dict[str, JsonValue]) -> None:
        key = (cast("str", entry["writes"]), cast("str", entry["id"]))
        stored = self.writes.setdefault(key, {})
        for task_id, index, channel, value, path in cast(
            "list[tuple[str, int, str, JsonValue, str]]", entry["of"]
        ):
            # The first one stays, but for what says how a task stands: LangGraph numbers that
            # below 0 (WRITES_IDX_MAP).
            if index < 0 or (task_id, index) not in stored:
                stored[task_id, index] = SavedWrite(
                    task_id=task_id,
                    index=index,
                    channel=channel,
                    value=_typed(value),
                    task_path=path,
                )

    # --- what is read ----------------------------------------------------------------------------

    def ordered_writes(self, namespace: str, checkpoint_id: str) -> tuple[SavedWrite, ...]:
        """Return a checkpoint's writes as live execution applies them (writes_sort_key)."""
        stored = self.writes.get((namespace, checkpoint_id), {})
        return tuple(
            sorted(stored.values(), key=lambda each: (each.task_path, each.task_id, each.index))
        )

    def latest(self, namespace: str) -> SavedCheckpoint | None:
        """Return a namespace's checkpoint with the greatest id, None without one."""
        found = self.checkpoints.get(namespace)
        return found[max(found)] if found else None

    def ancestors(self, namespace: str, checkpoint_id: str) -> Iterator[SavedCheckpoint]:
        """Yield what a checkpoint comes after, its parent first."""
        known = self.checkpoints.get(namespace, {})
        parent = known[checkpoint_id].parent if checkpoint_id in known else None
        while parent is not None and parent in known:
            yield known[parent]
            parent = known[parent].parent

    def kept(self, keys: set[tuple[str, str]]) -> list[JsonValue]:
        """Return the entries of a thread that has these checkpoints of (namespace, id) alone."""
        left = CheckpointThread(thread_id=self.thread_id)
        entries: list[JsonValue] = []
        for namespace, checkpoints in self.checkpoints.items():
            for checkpoint_id in sorted(checkpoints):
                if (namespace, checkpoint_id) not in keys:
                    continue
                saved = checkpoints[checkpoint_id]
                entry = left.put_entry(namespace, saved, self._values(left, namespace, saved))
                entries.append(entry)
                left.take(entry)
                writes = tuple(self.writes.get((namespace, checkpoint_id), {}).values())
                if writes:
                    entries.append(self.writes_entry(namespace, checkpoint_id, writes))
        # Writes may be there before their checkpoint is, as LangGraph's own order has it.
        for (namespace, checkpoint_id), writes_of in self.writes.items():
            is_early = checkpoint_id not in self.checkpoints.get(namespace, {})
            if is_early and (namespace, checkpoint_id) in keys:
                early = tuple(writes_of.values())
                entries.append(self.writes_entry(namespace, checkpoint_id, early))
        return entries

    def _values(
        self, left: CheckpointThread, namespace: str, saved: SavedCheckpoint
    ) -> dict[str, tuple[Version, Stored]]:
        return {
            channel: (version, self.blobs[namespace, channel, version])
            for channel, version in saved.versions.items()
            if (namespace, channel, version) in self.blobs
            and (namespace, channel, version) not in left.blobs
        }


def is_typed(value: object) -> bool:
    """Return whether a stored value is whole, and no list by its elements."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def elements_of(whole: Typed) -> tuple[Typed, ...]:
    """Return a serialized list by its elements, empty where it cannot be cut.

    JsonPlusSerializer writes MessagePack (4.3.2), where an array is its elements one after another.
    """
    kind, content = whole
    if kind != MSGPACK:
        return ()
    try:
        return tuple((ELEMENT, bytes(each)) for each in _CUT.decode(content))
    except msgspec.MsgspecError:  # a serializer of somebody's that calls something else so
        return ()


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


def _text(value: object) -> JsonValue:
    kind, content = cast("Typed", value)
    return [kind, b64encode(content).decode("ascii")]


def _typed(value: JsonValue) -> Typed:
    kind, content = cast("tuple[str, str]", value)
    return kind, b64decode(content)
