"""The examiner: keeps what a turn's session reads and writes, as it is at that moment.

It looks at what is being recorded: a call with its result names the files, and with the next batch
they are looked at and kept beside it. Children examine for themselves: what they read, the parent
has not. A command names no files; those the session knows and that were touched while it ran are
its own doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from upthread.core.commands import RecordExamined, RecordParts, Write
from upthread.core.decision.examined import (
    RUNNING_KINDS,
    Examination,
    ExaminedFile,
    How,
    examination_of,
    known_after,
)
from upthread.core.types import (
    ConversationId,
    Part,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.runtime.system import now_ns
from upthread.runtime.turns.examination import CLOCK_SLACK_NS, changed_between, examine, meant_by

FAILED = "failed"
"""A call with this result examined nothing; one whose end is unknown may have."""


_NOT_SEEN: Final[Mapping[str, Any]] = {"state": "unreadable", "digest": None, "mtime_ns": None}


class Examiner:
    """Watches one turn. `known` are the files its session knew before.

    `first_ordinal` is the store's `examined_count` of the turn, for one that is gone on with. What
    is looked at later than it happened may have changed meanwhile: a file that was touched after
    `unseen_after_ns`, in epoch nanoseconds, is kept as one whose content the session does not know.
    """

    def __init__(
        self,
        *,
        root: str,
        conversation_id: ConversationId,
        turn_id: TurnId,
        upstream_session_id: UpstreamSessionId,
        known: Iterable[ExaminedFile] = (),
        first_ordinal: int = 0,
        unseen_after_ns: int | None = None,
    ) -> None:
        self._root = root
        self._unseen_after_ns = unseen_after_ns
        self._conversation_id = conversation_id
        self._turn_id = turn_id
        self._upstream_session_id = upstream_session_id
        self._known = {each.path: each for each in known}
        self._ordinal = first_ordinal
        self._calls: dict[str, tuple[ToolCallPart, int]] = {}
        self._due: list[Examination] = []
        self._ran: list[tuple[int, int]] = []
        self._seen_at_ns = now_ns()

    @property
    def is_due(self) -> bool:
        """Whether there is something to look at."""
        return bool(self._due or self._ran)

    def notice(self, writes: Sequence[Write]) -> None:
        """Take what was just recorded. Cheap: no file is looked at."""
        for write in writes:
            if isinstance(write, RecordParts) and write.conversation_id == self._conversation_id:
                for part in write.parts:
                    self._notice(part)
        self._seen_at_ns = now_ns()

    def look(self, *, at_ms: int) -> tuple[Write, ...]:
        """Look at what is due and return the writes that keep it. Blocking."""
        # Taken out first: on another thread, more may be noticed meanwhile.
        ran, self._ran = self._ran, []
        due_now, self._due = self._due, []
        found: dict[str, ExaminedFile] = {}
        for started_at_ns, ended_at_ns in ran:
            touched = changed_between(
                self._root,
                self._known.values(),
                started_at_ns=started_at_ns,
                ended_at_ns=ended_at_ns,
            )
            # A touch that left the content as it was tells nothing new of the file.
            found.update((each.path, each) for each in touched if self._has_changed(each))
        for due in due_now:
            found.update((path, self._examined(path, due.how)) for path in self._paths_of(due))
        return self._kept(found.values(), at_ms)

    def _notice(self, part: Part) -> None:
        if isinstance(part, ToolCallPart):
            # From the last sign before it: a command may run before its call reaches us.
            self._calls[part.call_id] = (part, self._seen_at_ns)
        elif isinstance(part, ToolResultPart) and part.call_id in self._calls:
            call, started_at_ns = self._calls.pop(part.call_id)
            examination = examination_of(call, root=self._root)
            if examination is not None and part.status != FAILED:
                self._due.append(examination)
            # A command that failed has shown nothing, and may have written all the same (ADR 79).
            is_command = examination is None or examination.how == "shown"
            if (is_command or part.status == FAILED) and call.tool_kind in RUNNING_KINDS:
                self._ran.append((started_at_ns, now_ns()))

    def _paths_of(self, due: Examination) -> Iterable[str]:
        """Return the files of an examination; of a command those that its words may mean."""
        if due.how != "shown":
            return due.paths
        return [path for each in due.paths for path in meant_by(self._root, each)]

    def _examined(self, path: str, how: How) -> ExaminedFile:
        now = examine(self._root, path, how=how)
        after_ns = self._unseen_after_ns
        # One that is gone has no content that the session could be wrong about.
        if after_ns is None or now.state == "missing":
            return now
        # The slack is put back: it is for moments told by
        # our own clock, and this one is the store's word.
        touched = changed_between(
            self._root, [now], started_at_ns=after_ns + CLOCK_SLACK_NS, ended_at_ns=now_ns()
        )
        return replace(now, **_NOT_SEEN) if touched else now

    def _has_changed(self, now: ExaminedFile) -> bool:
        known = self._known[now.path]
        return (known.state, known.digest) != (now.state, now.digest)

    def _kept(self, found: Iterable[ExaminedFile], at_ms: int) -> tuple[Write, ...]:
        kept = [
            known
            for each in found
            # A directory, or a word of a command that is no file, was not read (ADR 79).
            if each.state != "no_file"
            and (known := known_after(each, before=self._known.get(each.path))) is not None
        ]
        if not kept:
            return ()
        write = RecordExamined(
            conversation_id=self._conversation_id,
            turn_id=self._turn_id,
            first_ordinal=self._ordinal,
            upstream_session_id=self._upstream_session_id,
            files=tuple(kept),
            recorded_at_ms=at_ms,
        )
        self._ordinal += len(kept)
        self._known.update((each.path, each) for each in kept)
        return (write,)
