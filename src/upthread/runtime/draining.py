"""Draining: what hooks have seen, taken from the spool into the store.

A call's events are taken together once it has ended, or whoever made it is dead: until then its
conversation is in use. What was taken in is removed only after the commit; ids follow from the
call's, so taking in the same events again changes nothing. Order is that of the events' kinds,
never of a clock.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from upthread.core import turn as turns
from upthread.core.commands import (
    EndLink,
    OpenLink,
    OpenTurn,
    RecordExamined,
    RecordParts,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import PromptSent, SessionAttached, TurnEnded, TurnEvent, TurnIntended
from upthread.core.examined import ExaminedFile
from upthread.core.reports import MalformedReportError, read_report
from upthread.core.types import (
    ContextPart,
    Conversation,
    ConversationKey,
    Fence,
    JsonValue,
    Link,
    Outcome,
    Part,
    ProjectId,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import is_claimed_by_another
from upthread.runtime.bindings.light_json import list_in, number_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.runtime.conversation import Conversations
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease
from upthread.runtime.system import System
from upthread.store.base import Store

LEASE_WAIT_S: Final = 10.0
TOLD_MAX: Final = 100
"""How many events of calls that were not decided are kept for `doctor`, the newest."""

ENDS: Final = ("ended", "released")


@dataclass(frozen=True, slots=True)
class Delegated:
    """The events of one call by kind, and the files they lie in."""

    events: Mapping[str, dict[str, Any]]
    paths: tuple[str, ...]

    @property
    def decided(self) -> dict[str, Any]:
        """How the call was decided; empty if that was never kept."""
        return self.events.get("decided", {})

    @property
    def any(self) -> dict[str, Any]:
        """An event that says which conversation the call belongs to."""
        return next(iter(self.events.values()))

    @property
    def child(self) -> str:
        """The session the sub-agent worked in, empty if it got none."""
        said = (text_in(self.events.get(kind, {}), "upstream_session_id") for kind in _TELLING)
        return next(filter(None, said), "")

    @property
    def is_over(self) -> bool:
        """Whether nothing more is coming: it has ended, or its agent is dead."""
        has_ended = any(kind in self.events for kind in ENDS)
        return has_ended or not is_claimed_by_another({"claim": self.any}, "")


_TELLING: Final = ("ended", "started")


class Draining:
    """Takes a project's spool into its store."""

    def __init__(
        self, *, store: Store, system: System, leases: Leases, conversations: Conversations
    ) -> None:
        self._store = store
        self._system = system
        self._leases = leases
        self._conversations = conversations

    async def drain(self, place: Place, project_id: ProjectId) -> int:
        """Take in what is over; returns how many calls. Raises LeaseHeldError for a busy one."""
        found = await self._system.in_thread(lambda: list(_delegated(place)))
        over = [each for each in found if each.is_over]
        for each in over:
            await self._take_in(each, project_id)
        await self._system.in_thread(lambda: _prune(place))
        return len(over)

    async def _take_in(self, call: Delegated, project_id: ProjectId) -> None:
        key = ConversationKey(
            project_id=project_id,
            workstream=text_in(call.any, "workstream"),
            role=text_in(call.any, "role"),
            slot=number_in(call.any, "slot"),
        )
        lease = LeaseRequest(
            name=conversation_lease(key.project_id, key.address),
            doing=f"drain {key.address}",
            wait_s=LEASE_WAIT_S,
        )
        async with self._leases.held(lease) as fence:
            await self._system.in_thread(lambda: self._record(call, key, fence))
        for path in call.paths:
            files.remove(path)

    def _record(self, call: Delegated, key: ConversationKey, fence: Fence) -> None:
        turn_id = _turn_id(call.any)
        if any(isinstance(each, TurnEnded) for each in self._store.turn_events(turn_id)):
            return  # taken in before, by a drain that died before it removed the files
        resolved = self._store.resolve(key)
        conversation = (
            resolved.conversation if resolved else self._conversations.mint(key, fences=(fence,))
        )
        writes = [
            *self._end_open_turn(conversation),
            *_Recorded(self._store, call, conversation, turn_id, self._system.now_ms()).writes(),
        ]
        self._store.commit(writes, fences=(fence,))

    def _end_open_turn(self, conversation: Conversation) -> Iterator[Write]:
        """End a turn that a crash left open: a later call has taken its place."""
        for turn in self._store.turns(conversation.conversation_id, newest=1):
            events = self._store.turn_events(turn.turn_id)
            if events and turns.fold(events).ended is None:
                yield RecordTurnEvent(
                    turn_id=turn.turn_id,
                    seq=len(events) + 1,
                    event=TurnEnded(
                        outcome=Outcome.PROCESS_DIED,
                        detail="interrupted; a new prompt took its place",
                    ),
                    recorded_at_ms=self._system.now_ms(),
                )


class _Recorded:
    """One call as the store keeps it: a turn, its link, its messages, the files it examined."""

    def __init__(
        self,
        store: Store,
        call: Delegated,
        conversation: Conversation,
        turn_id: TurnId,
        now_ms: int,
    ) -> None:
        self._store = store
        self._call = call
        self._conversation = conversation
        self._id = conversation.conversation_id
        self._turn_id = turn_id
        self._now_ms = now_ms
        self._child = UpstreamSessionId(call.child)
        self._prompt_seq = store.message_count(self._id) + 1

    def writes(self) -> list[Write]:
        """Return everything, for one commit."""
        opened = OpenTurn(
            turn_id=self._turn_id,
            conversation_id=self._id,
            opened_at_ms=number_in(self._call.any, "at_ms") or self._now_ms,
        )
        said = [*self._said()]
        return [opened, *self._links(), *said, *self._examined(), *self._events()]

    def _said(self) -> Iterator[Write]:
        decided, ended = self._call.decided, self._call.events.get("ended", {})
        context = text_in(decided, "context")
        prompt: tuple[Part, ...] = (TextPart(text=text_in(decided, "prompt")),)
        yield self._parts(
            self._prompt_seq,
            Speaker.USER,
            (ContextPart(text=context), *prompt) if context else prompt,
        )
        reply = text_in(ended, "reply")
        if reply and text_in(ended, "outcome") == Outcome.OK:
            yield self._parts(self._prompt_seq + 1, Speaker.ASSISTANT, (TextPart(text=reply),))

    def _parts(self, seq: int, speaker: Speaker, parts: tuple[Part, ...]) -> RecordParts:
        return RecordParts(
            conversation_id=self._id,
            seq=seq,
            first_ordinal=0,
            speaker=speaker,
            turn_id=self._turn_id,
            upstream_session_id=self._child or None,
            recorded_at_ms=self._now_ms,
            parts=parts,
        )

    def _links(self) -> Iterator[Write]:
        links = self._store.links(self._id)
        open_link = links[-1] if links and links[-1].ended_because is None else None
        if not self._child or (open_link and open_link.upstream_session_id == self._child):
            return
        reasons = self._reasons()
        if open_link is not None:
            yield EndLink(
                conversation_id=self._id,
                seq=open_link.seq,
                ended_because=reasons[0],
                ended_at_ms=self._now_ms,
            )
        yield OpenLink(
            link=Link(
                conversation_id=self._id,
                seq=len(links) + 1,
                upstream_session_id=self._child,
                agent=text_in(self._call.any, "agent"),
                agent_version="",
                working_directory=text_in(self._call.any, "root"),
                opened_because=reasons[0],
                opened_at_ms=self._now_ms,
            )
        )

    def _examined(self) -> Iterator[Write]:
        listed = list_in(self._call.events.get("ended", {}), "files")
        if self._child and listed:
            yield RecordExamined(
                conversation_id=self._id,
                turn_id=self._turn_id,
                first_ordinal=0,
                upstream_session_id=self._child,
                files=tuple(msgspec.convert(each, ExaminedFile) for each in listed),
                recorded_at_ms=self._now_ms,
            )

    def _events(self) -> Iterator[Write]:
        for seq, event in enumerate(self._life(), start=1):
            yield RecordTurnEvent(
                turn_id=self._turn_id, seq=seq, event=event, recorded_at_ms=self._now_ms
            )

    def _life(self) -> Iterator[TurnEvent]:
        decided, ended = self._call.decided, self._call.events.get("ended")
        yield TurnIntended(
            decision=text_in(decided, "decision") or "first",
            reasons=self._reasons(),
            prompt_seq=self._prompt_seq,
            inputs=self._inputs(),
        )
        if self._child:
            resumed = text_in(decided, "upstream_session_id") == self._child
            yield SessionAttached(
                upstream_session_id=self._child,
                how="resumed" if resumed else "new",
                agent=text_in(self._call.any, "agent"),
            )
            yield PromptSent(prompt_seq=self._prompt_seq, prompts_before=0)
        if ended is None:
            detail = "the agent ended before its sub-agent did"
            yield TurnEnded(outcome=Outcome.PROCESS_DIED, detail=detail)
        else:
            yield _end(ended)

    def _reasons(self) -> tuple[str, ...]:
        said = list_in(self._call.decided, "reasons")
        return tuple(each for each in said if isinstance(each, str)) or ("unknown",)

    def _inputs(self) -> JsonValue:
        event = self._call.any
        return {
            "decided_by": "hook",
            "agent": text_in(event, "agent"),
            "main_session": text_in(event, "session"),
            "call_id": text_in(event, "call_id"),
            "workstream_because": text_in(self._call.decided, "because"),
        }


def _end(ended: dict[str, Any]) -> TurnEnded:
    said, reply = text_in(ended, "outcome"), text_in(ended, "reply")
    outcome = Outcome(said) if said in set(Outcome) else Outcome.UNKNOWN
    if outcome is not Outcome.OK:
        return TurnEnded(outcome=outcome, detail=reply)
    try:
        report = read_report(reply)
    except MalformedReportError:
        report = None
    data: JsonValue = msgspec.to_builtins(report) if report else None
    return TurnEnded(outcome=outcome, report=data)


def _turn_id(event: dict[str, Any]) -> TurnId:
    """Return the id a call's turn has, whoever takes it in."""
    said = "\0".join(text_in(event, name) for name in ("agent", "session", "call_id"))
    return TurnId(f"trn_{hashlib.sha256(said.encode('utf-8', 'surrogatepass')).hexdigest()[:26]}")


def _delegated(place: Place) -> Iterator[Delegated]:
    """Yield the calls in the spool, oldest first as far as the clock was right."""
    events: dict[TurnId, dict[str, dict[str, Any]]] = defaultdict(dict)
    paths: dict[TurnId, list[str]] = defaultdict(list)
    for path in spool.names(place):
        event = _read(path)
        if event is None or not text_in(event, "call_id"):
            continue
        turn_id = _turn_id(event)
        events[turn_id][text_in(event, "kind")] = event
        paths[turn_id].append(path)
    for turn_id, kinds in events.items():
        yield Delegated(kinds, tuple(paths[turn_id]))


def _read(path: str) -> dict[str, Any] | None:
    """Return an event; one that cannot be read is set aside, where `doctor` finds it."""
    try:
        return files.read(path)
    except files.UnreadableError:
        Path(path).replace(path.removesuffix(".json") + spool.SET_ASIDE)
        return None


def _prune(place: Place) -> None:
    told = [path for path in spool.names(place) if path.endswith("-told.json")]
    for path in told[:-TOLD_MAX]:
        files.remove(path)
