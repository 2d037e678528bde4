"""Draining: what hooks have seen, taken from the spool into the store.

A call's events are taken together once it has ended, or whoever made it is dead: until then its
conversation is in use. What was taken in is removed only after the commit; ids follow from the
call's, so taking in the same events again changes nothing. Order is that of the events' kinds,
never of a clock. What was said in a call whose agent was killed, the agent's own store has:
runtime/retrieval.py.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from upthread.core import turn as turns
from upthread.core.commands import (
    OpenConversation,
    RecordDecision,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import TurnEnded
from upthread.core.types import (
    CHILD_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Outcome,
    ProjectId,
    TurnId,
)
from upthread.errors import LeaseHeldError
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import is_claimed_by_another
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place
from upthread.runtime.conversation import Conversations
from upthread.runtime.delegated_turn import Delegated, DelegatedTurn, digest_of, turn_id_of
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease
from upthread.runtime.occupying import read_binding
from upthread.runtime.retrieval import Retrieval
from upthread.runtime.system import System
from upthread.runtime.under_way import CallUnderWay
from upthread.store.base import Store

LEASE_WAIT_S: Final = 10.0
TOLD_MAX: Final = 100
"""How many events of calls that were not decided are kept for `doctor`, the newest."""

CALLS_MAX: Final = 1_000
"""Of how many calls it is known that they were seen to begin, the newest."""

MAIN_ROLE: Final = "main"
"""Of an agent's main session, under which calls are kept that are only recorded."""


class Draining:
    """Takes a project's spool into its store."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        leases: Leases,
        conversations: Conversations,
        retrieval: Retrieval,
    ) -> None:
        self._store = store
        self._retrieval = retrieval
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
            after = found[found.index(each) + 1 :]
            await self._take_in(each, after, each.key(project_id), lease_wait_s)
        await self._system.in_thread(lambda: _prune(place))
        return len(over)

    async def open(self, calls: Sequence[CallUnderWay]) -> None:
        """Open the conversations that calls under way are the first of, and that nobody holds."""
        for key in (call.key for call in calls):
            with contextlib.suppress(LeaseHeldError):
                await self._open(key)

    async def _open(self, key: ConversationKey) -> None:
        if await self._system.in_thread(lambda: self._store.resolve(key)) is not None:
            return
        async with self._leases.held(_lease_of(key, 0.0)) as fence:
            await self._system.in_thread(lambda: self._conversation(key, fence))

    async def drain_one(self, place: Place, key: ConversationKey) -> bool:
        """Take in what is over of one conversation; returns whether nothing more is coming."""
        found = await self._system.in_thread(lambda: list(_delegated(place)))
        mine = [each for each in found if each.key(key.project_id) == key]
        for each in mine:
            if each.is_over:
                after = found[found.index(each) + 1 :]
                await self._take_in(each, after, key, LEASE_WAIT_S)
        return all(each.is_over for each in mine)

    async def _take_in(
        self,
        call: Delegated,
        after: Sequence[Delegated],
        key: ConversationKey,
        lease_wait_s: float,
    ) -> None:
        async with self._leases.held(_lease_of(key, lease_wait_s)) as fence:
            await self._system.in_thread(lambda: self._record(call, after, key, fence))
        for path in call.paths:
            files.remove(path)

    def _record(
        self, call: Delegated, after: Sequence[Delegated], key: ConversationKey, fence: Fence
    ) -> None:
        if "refused" in call.events:
            self._refuse(call, key, fence)
            return
        turn_id = turn_id_of(call.any)
        if any(isinstance(each, TurnEnded) for each in self._store.turn_events(turn_id)):
            return  # taken in before, by a drain that died before it removed the files
        conversation = (
            self._child(call, key) if key.slot == CHILD_SLOT else self._conversation(key, fence)
        )
        found = self._retrieval.find(
            call.cut_off, conversation, lambda session: call.sought(session, after)
        )
        found = self._retrieval.ended_with(found, call.reply, is_answered=call.is_answered)
        recorded = DelegatedTurn(
            store=self._store,
            call=call,
            conversation=conversation,
            turn_id=turn_id,
            now_ms=self._system.now_ms(),
            found=found,
            retrieval=self._retrieval,
        )
        writes = [*self._end_open_turn(conversation), *recorded.writes()]
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
        conversation_id = ConversationId(f"con_{digest_of(seed)}")
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


def _delegated(place: Place) -> Iterator[Delegated]:
    """Yield the calls in the spool, oldest first as far as the clock was right."""
    events: dict[TurnId, dict[str, dict[str, Any]]] = defaultdict(dict)
    paths: dict[TurnId, list[str]] = defaultdict(list)
    for path in spool.names(place):
        event = _read(path)
        if event is None or not text_in(event, "call_id"):
            continue
        turn_id = turn_id_of(event)
        events[turn_id][text_in(event, "kind")] = event
        paths[turn_id].append(path)
    for turn_id, kinds in events.items():
        yield Delegated(kinds, tuple(paths[turn_id]))


def _lease_of(key: ConversationKey, wait_s: float) -> LeaseRequest:
    return LeaseRequest(
        name=conversation_lease(key.project_id, key.address),
        doing=f"drain {key.address}",
        wait_s=wait_s,
    )


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
    seen = sorted(
        Path(place.project, "calls").glob("*.json"), key=lambda path: path.stat().st_mtime
    )
    for old in seen[:-CALLS_MAX]:
        old.unlink(missing_ok=True)
    told = [path for path in spool.names(place) if path.endswith("-told.json")]
    for path in told[:-TOLD_MAX]:
        files.remove(path)
