"""A session store of the Claude Agent SDK on upthread's record.

`ClaudeAgentOptions(session_store=UpthreadSessionStore())`.

All 14 contracts of the suite the SDK ships. Entries are kept whole, since a transcript whose
thinking is redacted cannot be resumed; what search and audit read beside them is redacted. Each
transcript is a conversation, a workstream `PROJECT_KEY/SESSION_ID` with the role
`claude-agent-sdk`. Written for claude-agent-sdk 0.2.187.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from upthread.client.framework_record import required_text
from upthread.core.types import Speaker
from upthread.integrations.on_record import NEVER, SPEAKERS, Folding, Followed, settled
from upthread.runtime.record.entry_log import Entry, EntryLog, NewEntry

FRAMEWORK = "claude-agent-sdk"


class Transcript:
    """One transcript: its entries in order, and what was last said of all of it."""

    def __init__(self) -> None:
        self.key: SessionKey | None = None
        self.entries: list[SessionStoreEntry] = []
        self.uuids: set[str] = set()
        self.mtime_ms = 0
        self.moved = NEVER
        self.summary: SessionSummaryEntry | None = None

    def apply(self, entry: Entry) -> None:
        """Take in a batch. What others said in the conversation is none of the transcript."""
        if entry.told:
            return
        value = entry.value
        self.key = value["key"]
        self.mtime_ms, self.moved = value["mtime"], value.get("moved", NEVER)
        self.summary = value["summary"]
        batch: list[SessionStoreEntry] = value["entries"]
        self.entries += batch
        self.uuids.update(each["uuid"] for each in batch if "uuid" in each)


class UpthreadSessionStore(Folding[Transcript], SessionStore):
    """Transcripts in the record of the project that `directory` belongs to.

    `record` is one that is open already, and stays open. A batch that comes again adds nothing to
    entries with a `uuid`; one without is appended again, as the SDK has it.
    """

    _kind = Transcript
    _ordered = FRAMEWORK

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append a batch: all that is new of it, in one synced commit."""
        if entries:
            await settled(self._append, key, entries)

    def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        def batch(followed: Followed[Transcript]) -> NewEntry | None:
            transcript = followed.fold
            new = list(_new(entries, transcript.uuids))
            if not new:
                return None
            # Never back, whatever the clock does.
            mtime_ms = max(time.time_ns() // 1_000_000, transcript.mtime_ms + 1)
            summary = fold_session_summary(transcript.summary, key, new)
            value: dict[str, object] = {
                "key": dict(key),
                "mtime": mtime_ms,
                "entries": new,
                "summary": None if key.get("subpath") else {**summary, "mtime": mtime_ms},
            }
            text, speaker = _said(new)
            return NewEntry(value=value, text=text, speaker=speaker)

        self._folds.append(self._log(key), batch)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return a transcript, deep-equal to what was appended; None for one that never was."""
        log = self._log(key)
        return await self._look(lambda: list(self._folds.of(log).fold.entries)) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the main transcripts of a project, with when each was last appended to."""
        found = await self._found(project_key)
        return [
            {"session_id": key["session_id"], "mtime": each.mtime_ms}
            for key, each in found
            if not key.get("subpath")
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return what the SDK folded of each main transcript of a project."""
        found = await self._found(project_key)
        return [each.summary for _, each in found if each.summary is not None]

    async def delete(self, key: SessionKey) -> None:
        """Erase a transcript, and with a main one those of its sub-agents."""

        def erase() -> None:
            self._log(key).rewrite(lambda _: ())  # a damaged one is in no list
            for known, _ in list(self._transcripts(key["project_key"])):
                is_meant = key.get("subpath") in {None, "", known.get("subpath")}
                if is_meant and known["session_id"] == key["session_id"]:
                    self._log(known).rewrite(lambda _: ())

        await settled(erase)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the sub-agents of a session, by their subpaths."""
        found = await self._found(key["project_key"])
        return [
            subpath
            for known, _ in found
            if known["session_id"] == key["session_id"] and (subpath := known.get("subpath"))
        ]

    def _log(self, key: SessionKey) -> EntryLog:
        names = (key["project_key"], key["session_id"], key.get("subpath"))
        return self._record.log(FRAMEWORK, "/".join(map(required_text, filter(None, names))))

    async def _found(self, project_key: str) -> list[tuple[SessionKey, Transcript]]:
        return await asyncio.to_thread(lambda: list(self._transcripts(project_key)))

    def _transcripts(self, project_key: str) -> Iterator[tuple[SessionKey, Transcript]]:
        """Yield a project's transcripts by their newest batch alone: their entries are not read.

        Of two the one appended to last has the later time, which tells the SDK the newest.
        """
        mtime_ms = 0
        found = self._folds.of_newest(FRAMEWORK)
        for transcript in sorted(found, key=lambda it: (it.moved, it.mtime_ms)):
            key = transcript.key
            if key is not None and key["project_key"] == project_key:
                transcript.mtime_ms = mtime_ms = max(transcript.mtime_ms, mtime_ms + 1)
                if transcript.summary is not None:
                    transcript.summary["mtime"] = mtime_ms
                yield key, transcript


def _new(entries: Sequence[SessionStoreEntry], known: set[str]) -> Iterator[SessionStoreEntry]:
    seen: set[str] = set()
    for entry in entries:
        uuid = entry.get("uuid")
        if uuid is None or (uuid not in known and uuid not in seen):
            yield entry
        if uuid is not None:
            seen.add(uuid)


def _said(entries: Sequence[SessionStoreEntry]) -> tuple[str, Speaker]:
    """Return what a person reads of a batch, and who said the last of it."""
    texts: list[str] = []
    speaker = Speaker.TOOL
    for entry in cast("Sequence[dict[str, Any]]", entries):
        message = entry.get("message")
        content = cast("dict[str, Any]", message).get("content") if isinstance(message, dict) else 0
        blocks = [{"text": content}] if isinstance(content, str) else content
        for block in blocks if isinstance(blocks, list) else ():
            text = block.get("text") if isinstance(block, dict) else None
            if isinstance(text, str) and text:
                texts.append(text)
                speaker = SPEAKERS.get(entry.get("type", ""), Speaker.TOOL)
    return "\n\n".join(texts), speaker
