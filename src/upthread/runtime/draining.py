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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from upthread.core import turn as turns
from upthread.core.commands import (
    EndLink,
    OpenConversation,
    OpenLink,
    OpenTurn,
    RecordDecision,
    RecordExamined,
    RecordParts,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import PromptSent, SessionAttached, TurnEnded, TurnEvent, TurnIntended
from upthread.core.examined import ExaminedFile
from upthread.core.types import (
    CHILD_SLOT,
    ContextPart,
    Conversation,
    ConversationId,
    ConversationKey,
    ErasedPart,
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
from upthread.runtime.bindings.claims import is_claimed_by_another, lives
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.runtime.conversation import Conversations
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease
from upthread.runtime.occupying import read_binding
from upthread.runtime.system import System
from upthread.store.base import Store

LEASE_WAIT_S: Final = 10.0
TOLD_MAX: Final = 100
"""How many events of calls that were not decided are kept for `doctor`, the newest."""

MAIN_ROLE: Final = "main"
"""Of an agent's main session, under which calls are kept that are only recorded."""

NO_WORDS: Final = "What was said here was not kept: the agent's own session may have it."
"""Stands where a call's words never came: its agent, or what was to keep them, was killed."""


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
        return self.decided or next(iter(self.events.values()))

    def key(self, project_id: ProjectId) -> ConversationKey:
        """Return the conversation the call belongs to."""
        return ConversationKey(
            project_id=project_id,
            workstream=text_in(self.any, "workstream"),
            role=text_in(self.any, "role"),
            slot=number_in(self.any, "slot"),
        )

    @property
    def child(self) -> str:
        """The session the sub-agent worked in, empty if it got none."""
        said = (text_in(self.events.get(kind, {}), "upstream_session_id") for kind in _TELLING)
        return next(filter(None, said), "")

    @property
    def is_over(self) -> bool:
        """Whether nothing more is coming: it has ended, or its agent is dead.

        Of a call that has ended the words are still to come, from a process of their own.
        """
        if "ended" in self.events:
            return self._is_told("launched", "asked") and self._is_told("ended", "said")
        is_freed = "released" in self.events or "refused" in self.events
        return is_freed or not is_claimed_by_another({"claim": self.any}, "")

    def _is_told(self, kind: str, words: str) -> bool:
        """Return whether an event's words are here, or nobody is left to bring them."""
        event = self.events.get(kind)
        return event is None or words in self.events or not lives(object_in(event, "drain"))


_TELLING: Final = ("ended", "launched", "started")


class Draining:
    """Takes a project's spool into its store."""

    def __init__(
        self, *, store: Store, system: System, leases: Leases, conversations: Conversations
    ) -> None:
        self._store = store
        self._system = system
        self._leases = leases
        self._conversations = conversations

    async def drain(
        self, place: Place, project_id: ProjectId, *, lease_wait_s: float = LEASE_WAIT_S
    ) -> int:
        """Take in what is over; returns how many calls. Raises LeaseHeldError for a busy one."""
        found = await self._system.in_thread(lambda: list(_delegated(place)))
        over = [each for each in found if each.is_over]
        for each in over:
            await self._take_in(each, each.key(project_id), lease_wait_s)
        await self._system.in_thread(lambda: _prune(place))
        return len(over)

    async def drain_one(self, place: Place, key: ConversationKey) -> bool:
        """Take in what is over of one conversation; returns whether nothing more is coming."""
        found = await self._system.in_thread(lambda: list(_delegated(place)))
        mine = [each for each in found if each.key(key.project_id) == key]
        for each in mine:
            if each.is_over:
                await self._take_in(each, key, LEASE_WAIT_S)
        return all(each.is_over for each in mine)

    async def _take_in(self, call: Delegated, key: ConversationKey, lease_wait_s: float) -> None:
        lease = LeaseRequest(
            name=conversation_lease(key.project_id, key.address),
            doing=f"drain {key.address}",
            wait_s=lease_wait_s,
        )
        async with self._leases.held(lease) as fence:
            await self._system.in_thread(lambda: self._record(call, key, fence))
        for path in call.paths:
            files.remove(path)

    def _record(self, call: Delegated, key: ConversationKey, fence: Fence) -> None:
        turn_id = _turn_id(call.any)
        if "refused" in call.events:
            self._refuse(call, key, fence)
            return
        if any(isinstance(each, TurnEnded) for each in self._store.turn_events(turn_id)):
            return  # taken in before, by a drain that died before it removed the files
        conversation = (
            self._child(call, key) if key.slot == CHILD_SLOT else self._conversation(key, fence)
        )
        writes = [
            *self._end_open_turn(conversation),
            *_Recorded(self._store, call, conversation, turn_id, self._system.now_ms()).writes(),
        ]
        self._store.commit(writes, fences=(fence,))

    def _conversation(self, key: ConversationKey, fence: Fence) -> Conversation:
        resolved = self._store.resolve(key)
        if resolved is not None:
            return resolved.conversation
        return self._conversations.mint(key, fences=(fence,))

    def _refuse(self, call: Delegated, key: ConversationKey, fence: Fence) -> None:
        """Keep that a call was refused."""
        event = call.events["refused"]
        reasons = tuple(each for each in list_in(event, "reasons") if isinstance(each, str))
        write = RecordDecision(
            conversation_id=self._conversation(key, fence).conversation_id,
            decision=text_in(event, "decision"),
            reasons=reasons,
            inputs=object_in(event, "inputs"),
            decided_at_ms=number_in(event, "at_ms"),
        )
        self._store.commit((write,), fences=(fence,))

    def _child(self, call: Delegated, key: ConversationKey) -> Conversation:
        """Return where a call is kept that is only recorded: under its main session's own."""
        event = call.any
        agent, session = text_in(event, "agent"), text_in(event, "session")
        main = self._opened(f"{key.workstream}\0{agent}\0{session}", replace(key, role=MAIN_ROLE))
        seed = f"{main.conversation_id}\0{call.child or text_in(event, 'call_id')}"
        words = (call.events.get(kind, {}) for kind in ("said", "asked"))
        role = next(filter(None, (text_in(each, "role") for each in words)), key.role)
        call_id = text_in(event, "call_id")
        return self._opened(seed, replace(key, role=role), parent=main, call_id=call_id)

    def _opened(
        self,
        seed: str,
        key: ConversationKey,
        *,
        parent: Conversation | None = None,
        call_id: str | None = None,
    ) -> Conversation:
        conversation_id = ConversationId(f"con_{_digest(seed)}")
        known = self._store.conversation(conversation_id)
        if known is not None:
            return known
        conversation = Conversation(
            conversation_id=conversation_id,
            key=key,
            generation=1,
            base_name=self._conversations.name_workstream(key.project_id, key.workstream),
            opened_at_ms=self._system.now_ms(),
            parent_conversation_id=parent.conversation_id if parent else None,
            parent_call_id=call_id,
        )
        self._store.commit((OpenConversation(conversation=conversation),))
        return conversation

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
        said, context = self._call.events.get("said", {}), text_in(self._call.decided, "context")
        asked = self._call.events.get("asked", {} if "launched" in self._call.events else said)
        prompt = _part(object_in(asked, "prompt"), context=context) or ContextPart(text=NO_WORDS)
        parts = (ContextPart(text=context), prompt) if context else (prompt,)
        yield self._parts(self._prompt_seq, Speaker.USER, parts)
        reply = _part(object_in(said, "reply"))
        if reply is not None:
            yield self._parts(self._prompt_seq + 1, Speaker.ASSISTANT, (reply,))

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
            condition=text_in(decided, "condition") or None,
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
            said = self._call.events.get("said", {"detail": NO_WORDS})
            yield replace(_end(ended, said), surroundings=self._surroundings(ended))

    def _reasons(self) -> tuple[str, ...]:
        said = list_in(self._call.decided, "reasons")
        return tuple(each for each in said if isinstance(each, str)) or ("unknown",)

    def _surroundings(self, ended: dict[str, Any]) -> JsonValue:
        """Return what the call worked in, as our turns record it; None where it was not told."""
        told = object_in(ended, "surroundings")
        agent, at_ms = text_in(self._call.any, "agent"), number_in(ended, "at_ms")
        return {**told, "agent": agent, "at_ms": at_ms} if told else None

    def _inputs(self) -> JsonValue:
        event = self._call.any
        return {
            **object_in(self._call.decided, "inputs"),
            "decided_by": "hook",
            "agent": text_in(event, "agent"),
            "main_session": text_in(event, "session"),
            "call_id": text_in(event, "call_id"),
            "workstream_because": text_in(self._call.decided, "because"),
        }


def _end(ended: dict[str, Any], said: dict[str, Any]) -> TurnEnded:
    outcome = text_in(ended, "outcome")
    report: JsonValue = object_in(said, "report") or None
    return TurnEnded(
        outcome=Outcome(outcome) if outcome in set(Outcome) else Outcome.UNKNOWN,
        report=report,
        detail=text_in(said, "detail"),
    )


def _part(kept: dict[str, Any], *, context: str = "") -> Part | None:
    """Return a text as it was kept, or its outline; None where there was none.

    An agent may tell a prompt with the context that was put before it, which is kept by itself.
    """
    if "digest" in kept:
        digest = bytes.fromhex(text_in(kept, "digest"))
        return ErasedPart(kind="text", digest=digest, size_bytes=number_in(kept, "size_bytes"))
    text = text_in(kept, "text").removeprefix(f"{context}\n\n" if context else "")
    return TextPart(text=text) if text else None


def _turn_id(event: dict[str, Any]) -> TurnId:
    """Return the id a call's turn has, whoever takes it in."""
    said = "\0".join(text_in(event, name) for name in ("agent", "session", "call_id"))
    return TurnId(f"trn_{_digest(said)}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:26]


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


def is_due(place: Place) -> bool:
    """Return whether a call lies in the spool of which nothing more is coming. Blocking."""
    return any(each.is_over for each in _delegated(place))


def _read(path: str) -> dict[str, Any] | None:
    """Return an event; one that cannot be read is set aside, where `doctor` finds it."""
    try:
        return files.read(path)
    except files.UnreadableError:
        Path(path).replace(path.removesuffix(".json") + spool.SET_ASIDE)
        return None


def _prune(place: Place) -> None:
    """Remove what nobody needs any more: old notes, and what a crash has left half written."""
    files.remove_half_written(spool.directory(place))
    files.remove_half_written(f"{place.project}/bindings")
    for found in Path(place.project, "bindings").glob("*.json"):
        binding = read_binding(str(found))
        is_only_recorded = binding.get("slot") == CHILD_SLOT
        if is_only_recorded and not is_claimed_by_another(binding, ""):
            found.unlink(missing_ok=True)
    told = [path for path in spool.names(place) if path.endswith("-told.json")]
    for path in told[:-TOLD_MAX]:
        files.remove(path)
