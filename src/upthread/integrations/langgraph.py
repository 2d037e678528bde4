"""LangGraph's checkpointer on upthread's record: `graph.compile(checkpointer=UpthreadSaver())`.

All eight capabilities of langgraph-checkpoint-conformance 0.0.2, sync and async. Each thread is a
conversation of its own, a workstream with the role `langgraph`, so `upthread ls`, `search`, `audit`
and `forget` reach it. Written for langgraph-checkpoint 4.3.
"""

import asyncio
import random
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import structs, to_builtins

from upthread.client.framework_record import FrameworkRecord
from upthread.core.types import Speaker
from upthread.errors import ConflictError, UsageError
from upthread.integrations.checkpoint_log import (
    CheckpointThread,
    SavedCheckpoint,
    SavedWrite,
    SavedWrites,
    Stored,
    Typed,
    elements_of,
    list_of,
)
from upthread.integrations.on_record import Folds, Followed, OnRecord, settled
from upthread.runtime.record.entry_log import Entry, EntryLog, NewEntry

FRAMEWORK = "langgraph"
SPEAKERS = {"human": Speaker.USER, "ai": Speaker.ASSISTANT}
Given = ParamSpec("Given")
Value = TypeVar("Value")
DELTA_COUNTERS = "counters_since_delta_snapshot"
"""Where a checkpoint's metadata names its DeltaChannels (CheckpointMetadata, beta)."""


def _waited_for(
    write: Callable[Concatenate[Any, Given], Value],
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, Value]]:
    """Return a method's coroutine, which ends only when its write has."""

    async def waited(self: Any, /, *given: Given.args, **named: Given.kwargs) -> Value:
        return await settled(write, self, *given, **named)

    return waited


class UpthreadSaver(OnRecord, BaseCheckpointSaver[str]):
    """Checkpoints in the record of the project that `directory` belongs to.

    `record` is one that is open already, and stays open; else one is opened with `directory` and
    `database`, and closed by `close`. Any thread and any number of processes may use a thread of
    LangGraph's at the same time. Raises StoreError for a record that cannot be read or written,
    UsageError for a value its serializer cannot encode, before anything is written.
    """

    def __init__(
        self,
        directory: str | Path = ".",
        *,
        database: str | None = None,
        record: FrameworkRecord | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._open(directory, database, record)
        self._folds = Folds(self._record, CheckpointThread)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # --- reading ---------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint a configuration names, else its thread's newest; None without."""
        thread_id, namespace = _place(config)
        thread = self._thread(thread_id)
        wanted = get_checkpoint_id(config)
        key = (namespace, str(wanted))
        saved = thread.checkpoints.get(key) if wanted else thread.latest(namespace)
        return self._tuple(thread, saved) if saved else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # theirs
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, of each thread the one put last first; those whose metadata match."""
        if config is None:
            threads = [each.fold for _, each in self._folds.all(FRAMEWORK)]
        else:
            threads = [self._thread(config["configurable"]["thread_id"])]
        namespace = config["configurable"].get("checkpoint_ns") if config else None
        wanted = get_checkpoint_id(config) if config else None
        left = limit
        for thread in threads:
            earlier, later = _split(thread, before)
            for key in reversed(earlier):
                if left is not None and left <= 0:
                    return
                if namespace not in {None, key[0]} or (wanted and str(wanted) != key[1]):
                    continue
                found = self._tuple(thread, thread.checkpoints[key])
                metadata = cast("dict[str, Any]", found.metadata)
                # A subgraph's may be committed before the one that it ran under.
                is_later = not later.isdisjoint((metadata.get("parents") or {}).values())
                if not is_later and all(
                    metadata.get(name) == value for name, value in (filter or {}).items()
                ):
                    left = left - 1 if left is not None else None
                    yield found

    def _tuple(self, thread: CheckpointThread, saved: SavedCheckpoint) -> CheckpointTuple:
        namespace = saved.namespace
        checkpoint = self.serde.loads_typed(saved.checkpoint)
        values = {
            channel: self._loaded(value)
            for channel, version in checkpoint["channel_versions"].items()
            if (value := thread.blobs.get((namespace, channel, version))) is not None
        }
        writes = thread.ordered_writes(namespace, saved.checkpoint_id)
        parent = _config(thread.thread_id, namespace, saved.parent) if saved.parent else None
        return CheckpointTuple(
            config=_config(thread.thread_id, namespace, saved.checkpoint_id),
            checkpoint=cast("Checkpoint", {**checkpoint, "channel_values": values}),
            metadata=self.serde.loads_typed(saved.metadata),
            parent_config=parent,
            pending_writes=[
                (each.task_id, each.channel, self.serde.loads_typed(each.value)) for each in writes
            ],
        )

    # --- writing ---------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint, and of its channels those that are new. One synced commit."""
        thread_id, namespace = _place(config)
        rest = cast("dict[str, Any]", checkpoint.copy())
        values = rest.pop("channel_values")
        saved = SavedCheckpoint(
            namespace=namespace,
            thread_id=thread_id,
            checkpoint_id=checkpoint["id"],
            parent=str(get_checkpoint_id(config) or "") or None,
            checkpoint=self._dumped(rest),
            metadata=self._dumped(get_checkpoint_metadata(config, metadata)),
            versions=dict(checkpoint["channel_versions"]),
            values=(),
        )
        stored = {
            channel: self._stored(values[channel]) if channel in values else None
            for channel in new_versions
        }
        deltas = set(cast("dict[str, Any]", metadata).get(DELTA_COUNTERS) or ())
        is_based = saved.parent is not None and not deltas <= values.keys()

        def made(followed: Followed[CheckpointThread]) -> NewEntry:
            thread = followed.fold
            if is_based and (namespace, saved.parent) not in thread.checkpoints:
                # Its DeltaChannels would read as empty, and no error would say so.
                raise ConflictError(
                    f"the thread {thread_id!r} was deleted or pruned while this run wrote to it",
                    hint="nothing of this checkpoint is kept; begin the run anew",
                    thread_id=thread_id,
                )
            # Also those that were deleted while this run was under way: it is kept whole.
            gone = {
                channel: version
                for channel, version in saved.versions.items()
                if channel in values and (namespace, channel, version) not in thread.blobs
            }
            new = {**gone, **new_versions}
            stored.update((each, self._stored(values[each])) for each in gone if each not in stored)
            text, speaker = self._said(thread, namespace, new, values)
            told = tuple(
                (channel, version, thread.told(namespace, channel, stored[channel]))
                for channel, version in new.items()
            )
            return _entry(structs.replace(saved, values=told), text=text, speaker=speaker)

        self._folds.append(self._log(thread_id), made, continues=True)
        return _config(thread_id, namespace, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task wrote. Of a write that is there already the first one stays."""
        thread_id, namespace = _place(config)
        checkpoint_id = str(config["configurable"]["checkpoint_id"])
        saved = tuple(
            SavedWrite(
                task_id,
                WRITES_IDX_MAP.get(channel, index),
                channel,
                self._dumped(value),
                task_path,
            )
            for index, (channel, value) in enumerate(writes)
        )
        if saved:
            entry = _entry(SavedWrites(namespace, checkpoint_id, saved))
            self._folds.append(self._log(thread_id), lambda _: entry, continues=True)

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread: what was in it is gone from the record, not only out of sight."""
        self._log(thread_id).rewrite(lambda _: ())

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints of these runs, with their writes, in whichever thread."""
        runs = set(map(str, run_ids))
        for log, followed in self._folds.all(FRAMEWORK) if runs else ():
            if self._of_runs(followed.fold, runs):
                self._rewrite(log, lambda now: _keys(now) - self._of_runs(now, runs))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread whole, with all ancestors, to one that has nothing yet.

        Raises UsageError where the target holds checkpoints, which a copy would mix with.
        """
        source = self._thread(source_thread_id)
        if not source.checkpoints:
            return
        target = self._log(target_thread_id)
        followed = self._folds.of(target)
        if followed.fold.checkpoints:
            raise UsageError(
                f"the thread {target_thread_id!r} holds checkpoints already",
                hint="copy to a thread of another name, or delete this one first",
                thread_id=str(target_thread_id),
            )
        entries = structs.replace(source, thread_id=str(target_thread_id)).kept(_keys(source))
        target.append(list(map(_entry, entries)), after=followed.stands)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all checkpoints of threads but the newest of each namespace; `delete`: all.

        Of a graph with DeltaChannels the ancestors stay back to the snapshot that each channel is
        rebuilt from: without them it would read as empty, and no error would say so.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise UsageError(
                f"{strategy!r} is no strategy of pruning", hint="keep_latest or delete"
            )
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._rewrite(self._log(thread_id), self._latest)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version after `current`. Two branches never have the same one."""
        number = int(str(current).partition(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311  # it tells apart, no more

    # --- the same, async: each on a thread of its own, as LangGraph's own savers have it ----------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # theirs
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    aput = _waited_for(put)
    aput_writes = _waited_for(put_writes)
    adelete_thread = _waited_for(delete_thread)
    adelete_for_runs = _waited_for(delete_for_runs)
    acopy_thread = _waited_for(copy_thread)
    aprune = _waited_for(prune)

    # --- below: the log of a thread, and its fold ------------------------------------------------

    def _log(self, thread_id: object) -> EntryLog:
        return self._record.log(FRAMEWORK, str(thread_id))  # LangGraph takes a number or a UUID

    def _thread(self, thread_id: object) -> CheckpointThread:
        thread = self._folds.of(self._log(thread_id)).fold
        thread.thread_id = str(thread_id)
        return thread

    def _rewrite(
        self, log: EntryLog, keep: Callable[[CheckpointThread], set[tuple[str, str]]]
    ) -> None:
        def kept(entries: Sequence[Entry]) -> Sequence[NewEntry]:
            thread = self._folds.folded(entries)
            return list(map(_entry, thread.kept(keep(thread))))

        log.rewrite(kept)

    # --- below: what is kept of a thread ---------------------------------------------------------

    def _latest(self, thread: CheckpointThread) -> set[tuple[str, str]]:
        kept: set[tuple[str, str]] = set()
        for namespace, checkpoint_id in thread.heads.items():
            needed = self._rebuilt_from(thread, thread.checkpoints[namespace, checkpoint_id])
            kept |= {(namespace, each.checkpoint_id) for each in needed}
        return kept

    def _rebuilt_from(
        self, thread: CheckpointThread, saved: SavedCheckpoint
    ) -> Iterator[SavedCheckpoint]:
        """Yield a checkpoint, and the ancestors that its DeltaChannels are rebuilt from."""
        yield saved
        counters = self.serde.loads_typed(saved.metadata).get(DELTA_COUNTERS) or {}
        missing = {each for each in counters if not _has(thread, saved, each)}
        for ancestor in thread.ancestors(saved) if missing else ():
            yield ancestor
            missing = {each for each in missing if not _has(thread, ancestor, each)}
            if not missing:
                return

    def _of_runs(self, thread: CheckpointThread, runs: set[str]) -> set[tuple[str, str]]:
        return {
            key
            for key, each in tuple(thread.checkpoints.items())
            if str(self.serde.loads_typed(each.metadata).get("run_id", "")) in runs
        }

    # --- below: values ---------------------------------------------------------------------------

    def _dumped(self, value: object) -> Typed:
        try:
            return self.serde.dumps_typed(value)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"a value of type {type(value).__name__} cannot be kept: {error}",
                hint="give the saver a serializer that knows it: UpthreadSaver(serde=…)",
            ) from error

    def _stored(self, value: object) -> Stored:
        if type(value) is not list:  # a subclass would come back as a list
            return self._dumped(value)
        # All at once, and cut into its elements: ten thousand calls take three times as long.
        elements = elements_of(self._dumped(value))
        return elements or [self._dumped(each) for each in cast("list[object]", value)]

    def _loaded(self, stored: Stored) -> object:
        whole = list_of(stored) if isinstance(stored, list) else stored
        if whole is None:
            return list(map(self.serde.loads_typed, cast("Sequence[Typed]", stored)))
        return self.serde.loads_typed(whole)

    def _said(
        self,
        thread: CheckpointThread,
        namespace: str,
        channels: Iterable[str],
        values: Mapping[str, Any],
    ) -> tuple[str, Speaker]:
        """Return what is new of messages in it, as a person reads it, and who said the last."""
        texts: list[str] = []
        speaker = Speaker.TOOL
        for channel in channels:
            value = values.get(channel)
            if type(value) is not list:
                continue
            known = thread.newest.get((namespace, channel))
            before = thread.blobs.get((namespace, channel, known)) if known else None
            for message in value[len(before or ()) :]:
                content = getattr(message, "content", None)
                if isinstance(content, str) and content:
                    texts.append(content)
                    speaker = SPEAKERS.get(getattr(message, "type", ""), Speaker.TOOL)
        return "\n\n".join(texts), speaker


def _entry(
    saved: SavedCheckpoint | SavedWrites, *, text: str = "", speaker: Speaker = Speaker.TOOL
) -> NewEntry:
    return NewEntry(value=to_builtins(saved), text=text, speaker=speaker)


def _place(config: RunnableConfig) -> tuple[str, str]:
    place = config["configurable"]
    return str(place["thread_id"]), place.get("checkpoint_ns", "")


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


def _split(
    thread: CheckpointThread, before: RunnableConfig | None
) -> tuple[Sequence[tuple[str, str]], set[str]]:
    """Return what was put before a checkpoint, and the ids of its namespace from it on."""
    keys = list(thread.checkpoints)  # others may put meanwhile
    end = str(get_checkpoint_id(before) or "") if before else ""
    namespace = before["configurable"].get("checkpoint_ns") if before else None
    if not end:
        return keys, set()
    for at, key in enumerate(keys):
        if key[1] == end and namespace in {None, key[0]}:
            return keys[:at], {each for name, each in keys[at:] if name == key[0]}
    # One of another thread, or a deleted one: only the ids are left to compare.
    return [key for key in keys if key[1] < end], set()


def _has(thread: CheckpointThread, saved: SavedCheckpoint, channel: str) -> bool:
    version = saved.versions.get(channel, "")
    return thread.blobs.get((saved.namespace, channel, version)) is not None


def _keys(thread: CheckpointThread) -> set[tuple[str, str]]:
    """Return (namespace, id) of all checkpoints, and of writes that came before theirs."""
    return {*thread.checkpoints, *thread.writes}
