"""The intake: what hooks have seen, taken from the spool into the store.

A call's events are taken together once it has ended, or whoever made it is dead: until then its
conversation is in use. What was taken in is removed only after the commit; ids follow from the
call's, so taking in the same events again changes nothing. Order is that of the events' kinds,
never of a clock. A call whose words are still to come is waited for by those after it in its
conversation: turns stand in the order they were decided in. What was said in a call whose agent was
killed, the agent's own store has: runtime/hooked/retrieval.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from upthread.core.commands import (
    OpenConversation,
    RecordDecision,
    RecordTurnEvent,
    Write,
)
from upthread.core.events import TurnEnded
from upthread.core.lazy_dataclass import replace
from upthread.core.turns import turn as turns
from upthread.core.types import (
    CHILD_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Fence,
    Outcome,
    ProjectId,
)
from upthread.errors import LeaseHeldError
from upthread.runtime.bindings import files, spool
from upthread.runtime.bindings.claims import is_claimed_by_another
from upthread.runtime.bindings.light_json import list_in, number_in, object_in, text_in
from upthread.runtime.bindings.places import Place, read_binding
from upthread.runtime.hooked import unread
from upthread.runtime.hooked.delegated_call import Delegated, digest_of, turn_id_of
from upthread.runtime.hooked.delegated_turn import DelegatedTurn
from upthread.runtime.hooked.retrieval import Retrieval, Retrieved
from upthread.runtime.hooked.spooled import calls_in, next_of, with_words
from upthread.runtime.hooked.under_way import CallUnderWay
from upthread.runtime.lease import LeaseRequest, Leases, conversation_lease
from upthread.runtime.record.turn_views import totals_of
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import Conversations
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
        self.moved: set[str] = set()
        """The workstreams that something was taken into; cleared by whoever publishes them."""

    async def drain(
        self, place: Place, project_id: ProjectId, *, lease_wait_s: float | None = None
    ) -> int:
        """Take in what is over; returns how many calls. Raises LeaseHeldError for a busy one.

        A lease is waited for so long, LEASE_WAIT_S by default.
        """
        wait_s = LEASE_WAIT_S if lease_wait_s is None else lease_wait_s
        found = await self._system.in_thread(lambda: list(calls_in(place)))
        over = list(next_of(found))
        waiting: set[tuple[str, str, int]] = set()
        for each in over:
            after = found[found.index(each) + 1 :]
            if each.whose in waiting or not await self._take_in(
                place, each, after, each.key(project_id), wait_s
            ):
                # A later call of the same conversation would else be recorded before this one.
                waiting.add(each.whose)
        await self._system.in_thread(lambda: _prune(place))
        # Last: a store that was locked a moment ago may be readable by now.
        for each in await self._system.in_thread(lambda: list(unread.unread_calls(place))):
            await self._look_again(each, each.key(project_id), wait_s)
        return len(over)

    async def _look_again(self, call: Delegated, key: ConversationKey, lease_wait_s: float) -> None:
        """Look for what could not be read when a call was taken in."""
        self.moved.add(key.workstream)
        async with self._leases.held(_lease_of(key, lease_wait_s)) as fence:
            is_over = await self._system.in_thread(lambda: self._read_again(call, key, fence))
        if is_over:
            for path in call.paths:
                files.remove(path)

    async def open(self, calls: Sequence[CallUnderWay]) -> None:
        """Open the conversations that calls under way are the first of, and that nobody holds."""
        for key in (call.key for call in calls):
            # Whoever holds it is opening it, or has: the look that asked need not wait.
            with contextlib.suppress(LeaseHeldError):
                await self._open(key)

    async def _open(self, key: ConversationKey) -> None:
        if await self._system.in_thread(lambda: self._store.resolve(key)) is not None:
            return
        async with self._leases.held(_lease_of(key, 0.0)) as fence:
            await self._system.in_thread(lambda: self._conversation(key, fence))

    async def drain_one(self, place: Place, key: ConversationKey) -> bool:
        """Take in what is over of one conversation; returns whether nothing more is coming."""
        found = await self._system.in_thread(lambda: list(calls_in(place)))
        mine = [each for each in found if each.key(key.project_id) == key]
        for each in next_of(mine):
            after = found[found.index(each) + 1 :]
            if not await self._take_in(place, each, after, key, LEASE_WAIT_S):
                return False
        return all(each.is_over for each in mine)

    async def _take_in(
        self,
        place: Place,
        call: Delegated,
        after: Sequence[Delegated],
        key: ConversationKey,
        lease_wait_s: float,
    ) -> bool:
        """Record a call; returns False where it is not over: its words are still to come."""
        self.moved.add(key.workstream)
        async with self._leases.held(_lease_of(key, lease_wait_s)) as fence:
            # Under the lease: another process may have taken it in since the spool was read.
            whole = await self._system.in_thread(lambda: with_words(place, call))
            if not whole.is_over:
                return False  # its end came since the spool was read
            await self._system.in_thread(lambda: self._record(place, whole, after, key, fence))
        # Only now that it is committed: killed before this, the next drain finds it on record.
        for path in whole.paths:
            files.remove(path)
        return True

    def _record(
        self,
        place: Place,
        call: Delegated,
        after: Sequence[Delegated],
        key: ConversationKey,
        fence: Fence,
    ) -> None:
        if "refused" in call.events:
            self._refuse(call, key, fence)
            return
        turn_id = turn_id_of(call.any)
        if any(isinstance(each, TurnEnded) for each in self._store.turn_events(turn_id)):
            return  # taken in before, by a drain that died before it removed the files
        conversation = self._of(call, key, fence)
        found = self._retrieval.find(
            call.cut_off, conversation, lambda session: call.sought(session, after)
        )
        found = self._retrieval.ended_with(found, call.reply, is_answered=call.is_answered)
        if unread.is_unread(call, found):
            # Before the commit: after it, a crash would leave nobody to look for the rest.
            unread.keep(place, call)
        recorded = self._turn(call, conversation, found)
        # With the turn that comes after it: once that is the newest, nobody would end this one.
        own = self._with_totals(conversation, recorded.writes())
        self._store.commit([*self._end_open_turn(conversation), *own], fences=(fence,))

    def _read_again(self, call: Delegated, key: ConversationKey, fence: Fence) -> bool:
        """Record what is found of a call by now; returns whether it is to be looked for no more.

        What was found after a later turn would stand in that turn's place: it is left alone.
        """
        turn_id, conversation = turn_id_of(call.any), self._of(call, key, fence)
        (newest,) = self._store.turns(conversation.conversation_id, newest=1) or (None,)
        if newest is None or newest.turn_id != turn_id:
            return True
        found = self._retrieval.find(
            call.cut_off,
            conversation,
            lambda session: call.sought(session, ()),
            apart_from=turn_id,
        )
        writes = self._turn(call, conversation, found).later_writes()
        if writes:
            self._store.commit(writes, fences=(fence,))
        is_unread = unread.is_unread(call, found)
        return not is_unread or unread.has_waited_long(call, self._system.now_ms())

    def _turn(self, call: Delegated, conversation: Conversation, found: Retrieved) -> DelegatedTurn:
        return DelegatedTurn(
            store=self._store,
            call=call,
            conversation=conversation,
            turn_id=turn_id_of(call.any),
            now_ms=self._system.now_ms(),
            found=found,
            retrieval=self._retrieval,
        )

    def _of(self, call: Delegated, key: ConversationKey, fence: Fence) -> Conversation:
        is_child = key.slot == CHILD_SLOT
        return self._child(call, key) if is_child else self._conversation(key, fence)

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
        # From the call's own ids, so that taking in the same events again opens nothing twice.
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

    def _with_totals(self, conversation: Conversation, writes: Iterable[Write]) -> Iterator[Write]:
        """Add to the end of a turn what all before it came to, as our own turns have it."""
        for write in writes:
            event = write.event if isinstance(write, RecordTurnEvent) else None
            if isinstance(write, RecordTurnEvent) and isinstance(event, TurnEnded):
                before = totals_of(self._store, conversation.conversation_id)
                yield structs.replace(write, event=structs.replace(event, **before.as_before()))
            else:
                yield write

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


def _lease_of(key: ConversationKey, wait_s: float) -> LeaseRequest:
    return LeaseRequest(
        # Not `occupies`, which turns set: it would drain the spool first, and this is the drain.
        name=conversation_lease(key.project_id, key.address),
        doing=f"drain {key.address}",
        wait_s=wait_s,
    )


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
    # A person has been told of these; what was not told yet is kept, however old.
    told = [path for path in spool.names(place) if path.endswith("-told.json")]
    for path in told[:-TOLD_MAX]:
        files.remove(path)
