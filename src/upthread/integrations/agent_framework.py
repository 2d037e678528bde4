"""Microsoft's Agent Framework on upthread's record: its checkpoints and its history.

`UpthreadCheckpointStorage` and `UpthreadHistoryProvider`. A snapshot is kept
as its difference to the one before, so a workflow whose state holds a conversation does not write
that anew with each superstep. Written for agent-framework-core 1.23.
"""

import asyncio
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    HistoryProvider,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
)
from agent_framework._workflows._checkpoint_encoding import (
    decode_checkpoint_value,
    encode_checkpoint_value,
)

from upthread.client.framework_record import FrameworkRecord
from upthread.core.types import JsonValue, Speaker
from upthread.errors import UpthreadError, UsageError
from upthread.integrations.json_delta import applied, changed
from upthread.integrations.on_record import SPEAKERS, Folds, OnRecord, settled
from upthread.runtime.record.entry_log import Entry, EntryLog, NewEntry

CHECKPOINTS = "agent-framework-workflow"
HISTORY = "agent-framework"


class Snapshots:
    """Snapshots by their id, in the order they were saved. Each is the difference to another."""

    def __init__(self) -> None:
        self.by_id: dict[str, Any] = {}
        self.newest = ""

    def apply(self, entry: Entry) -> None:
        """Take in a snapshot; one that is saved again stands as the newest."""
        if entry.told:
            return
        value = entry.value
        name = str(value["id"])  # earlier versions kept a number as it was given
        snapshot = applied(self.by_id.get(str(value["base"]), {}), value["changed"])
        self.by_id.pop(name, None)
        self.by_id[name] = snapshot
        self.newest = name

    def entry(self, snapshot_id: str, snapshot: JsonValue) -> NewEntry:
        """Return what is appended for a snapshot."""
        difference = changed(self.by_id.get(self.newest, {}), snapshot)
        value = {"id": snapshot_id, "base": self.newest, "changed": difference}
        return NewEntry(value=value)

    def without(self, snapshot_id: str) -> Sequence[NewEntry]:
        """Return the entries of all snapshots but one."""
        left, entries = Snapshots(), list[NewEntry]()
        for each, snapshot in self.by_id.items():
            if each != snapshot_id:
                entry = left.entry(each, snapshot)
                entries.append(entry)
                left.apply(Entry(seq=0, value=entry.value))
        return entries


def _warned(checkpoint: WorkflowCheckpoint, error: Exception) -> None:
    warnings.warn(
        f"the checkpoint {checkpoint.checkpoint_id} of {checkpoint.workflow_name} was not saved, "
        f"and the workflow goes on without it: {error}",
        RuntimeWarning,
        stacklevel=3,
    )


class UpthreadCheckpointStorage(OnRecord):
    """Checkpoints of workflows, a conversation for each workflow's name.

    The newest is the one saved last, whatever clocks said. The framework's runner logs a save that
    failed and goes on: `on_failure` is called as well, by default with a RuntimeWarning, before the
    error is raised. `allowed_checkpoint_types` as FileCheckpointStorage has them: a checkpoint that
    could not be read back with them is refused when it is saved.
    """

    def __init__(
        self,
        directory: str | Path = ".",
        *,
        database: str | None = None,
        record: FrameworkRecord | None = None,
        allowed_checkpoint_types: Sequence[str] = (),
        on_failure: Callable[[WorkflowCheckpoint, Exception], None] = _warned,
    ) -> None:
        self._open(directory, database, record)
        self._folds = Folds(self._record, Snapshots)
        self._allowed = frozenset(allowed_checkpoint_types)
        self._on_failure = on_failure

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Keep a copy and return its id. WorkflowCheckpointException where it cannot be kept."""
        try:
            encoded = encode_checkpoint_value(checkpoint.to_dict())
            self._decoded(encoded)  # what could not be restored is no checkpoint
            log = self._log(checkpoint.workflow_name)
            snapshot_id = str(checkpoint.checkpoint_id)
            await settled(self._folds.append, log, lambda at: at.fold.entry(snapshot_id, encoded))
        except (WorkflowCheckpointException, UpthreadError) as error:
            self._on_failure(checkpoint, error)
            if isinstance(error, WorkflowCheckpointException):
                raise
            raise WorkflowCheckpointException(str(error)) from error
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a copy of a checkpoint. WorkflowCheckpointException where there is none."""
        found = await asyncio.to_thread(self._find, str(checkpoint_id))
        if found is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decoded(found[1])

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return copies of a workflow's checkpoints, in the order they were saved."""
        found = await self._of_workflow(workflow_name)
        return [self._decoded(each) for each in found.values()]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints, in the order they were saved."""
        return list(await self._of_workflow(workflow_name))

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return a copy of the checkpoint that was saved last, None without one."""
        found = await self._of_workflow(workflow_name)
        return self._decoded(found[next(reversed(found))]) if found else None

    async def delete(self, checkpoint_id: str) -> bool:
        """Erase a checkpoint; False where there is none."""
        name = str(checkpoint_id)

        def erase() -> bool:
            found = self._find(name)
            if found is None:
                return False
            found[0].rewrite(lambda entries: self._folds.folded(entries).without(name))
            return True

        return await settled(erase)

    def _find(self, checkpoint_id: str) -> tuple[EntryLog, JsonValue] | None:
        with self._record.lock:
            for log, followed in self._folds.all(CHECKPOINTS):
                snapshots = followed.fold.by_id
                if checkpoint_id in snapshots:
                    return log, snapshots[checkpoint_id]
            for error in self._folds.damaged:  # which may hold it
                raise WorkflowCheckpointException(str(error)) from error
        return None

    async def _of_workflow(self, workflow_name: str) -> dict[str, JsonValue]:
        log = self._log(workflow_name)
        return await self._look(lambda: dict(self._folds.of(log).fold.by_id))

    def _log(self, workflow_name: str) -> EntryLog:
        return self._record.log(CHECKPOINTS, workflow_name)

    def _decoded(self, encoded: JsonValue) -> WorkflowCheckpoint:
        decoded = decode_checkpoint_value(encoded, allowed_types=self._allowed)
        return WorkflowCheckpoint.from_dict(decoded)


class UpthreadHistoryProvider(OnRecord, HistoryProvider):
    """The messages of sessions, each a conversation; with `address` one that `tell` reaches too.

    Other arguments as HistoryProvider has them.
    """

    def __init__(
        self,
        directory: str | Path = ".",
        *,
        source_id: str = "upthread",
        database: str | None = None,
        record: FrameworkRecord | None = None,
        address: str | None = None,
        **flags: Any,
    ) -> None:
        super().__init__(source_id, **flags)
        self._open(directory, database, record)
        self._address = address

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,  # of providers that keep it there
        **_: Any,
    ) -> list[Message]:
        """Return a session's messages, oldest first; none for a session that never was."""
        log = self._log(session_id)
        return await asyncio.to_thread(lambda: list(_messages(log)))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Append messages: all of them, or none. Synced."""
        new = [
            NewEntry(
                value=each.to_dict(),
                text=each.text or "",
                speaker=SPEAKERS.get(str(each.role), Speaker.TOOL),
            )
            for each in messages
        ]
        await settled(self._log(session_id).append, new)

    def _log(self, session_id: str | None) -> EntryLog:
        if not session_id and not self._address:
            raise UsageError(
                "a history without a session would be everybody's",
                hint="run the agent with a session: agent.run(…, session=agent.create_session())",
            )
        return self._record.log(HISTORY, session_id or "", address=self._address)


def _messages(log: EntryLog) -> Iterator[Message]:
    for entry in log.entries():
        if entry.told:
            role = "user" if entry.speaker is Speaker.USER else "assistant"
            yield Message(role, [entry.told])
        else:
            yield Message.from_dict(entry.value)
