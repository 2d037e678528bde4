"""Turns: one prompt to one conversation, claimed, decided, its intent committed, then driven.

Before anything is sent: the newest turn is ended or taken over, with the agent that a dead holder
left behind; what only the agent's session has is read back; the handshake decides; the intent is
kept with the person's words. The rest is
`runtime.turns.executor`. What is decided is in the core; what people see, in surfaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from msgspec import structs

from upthread.core.decision.handshake import REFUSE
from upthread.core.decision.words import RECOGNISED
from upthread.core.events import RecoveryStarted, TurnParked
from upthread.core.runs.stops import CUT_OFF
from upthread.core.text import command
from upthread.core.turns import turn as turns
from upthread.core.turns.replayed_history import Lacked
from upthread.core.turns.spent_tokens import spending_in_words
from upthread.core.turns.turn import Recognition
from upthread.core.types import Decision, Outcome, TurnId
from upthread.errors import UsageError
from upthread.runtime.system import System
from upthread.runtime.turns import beginning
from upthread.runtime.turns.attach import tell_of_lacking
from upthread.runtime.turns.conversation import Conversations, refused
from upthread.runtime.turns.delegation import TellRequest
from upthread.runtime.turns.executor import cancel, drive
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.progress import TurnResult
from upthread.runtime.turns.turn_end import result_of
from upthread.store.base import Store

Result = TypeVar("Result")


class Turns:
    """Runs turns on a store and an agent."""

    def __init__(self, store: Store, system: System, conversations: Conversations) -> None:
        self._store = store
        self._system = system
        self._conversations = conversations

    async def tell(self, request: TellRequest) -> TurnResult:
        """Send one prompt to one conversation and return its reply, whatever became of it.

        Raises RefusedError, LeaseHeldError and FencedError; an agent's failure is an outcome.
        """
        async with self._conversations.claimed(request.claim) as claim:
            live = LiveTurn(request=request, claim=claim, store=self._store, system=self._system)
            # In this order: what only the session has belongs after the turn
            # that was cut off, and before the prompt that is numbered next.
            live = await self._end_interrupted(live)
            return await drive(await self._begun(live))

    async def go_on(self, request: TellRequest, turn_id: TurnId | None = None) -> TurnResult:
        """Go on with the conversation's newest turn after a crash, or with a parked one.

        Raises UsageError when there is nothing to go on with, or when the newest turn is not
        `turn_id`.
        """
        async with self._conversations.claimed(request.claim) as claim:
            live = LiveTurn(request=request, claim=claim, store=self._store, system=self._system)
            self._take_over(live, turn_id)
            view = live.view
            is_spent = view.parked is None and view.may_send and not view.may_be_continued
            # Else a step whose attempts are shorter than its agent takes to start never ends.
            if request.options.key and is_spent:
                await live.commit(TurnParked(reason=Outcome.TIMED_OUT, detail=CUT_OFF))
                return result_of(live)
            # Before it is taken up: what is refused stays parked as it was.
            decision = await live.read(lambda: beginning.continued(live))
            await self._require_allowed(live, decision)
            # Before its history is read: an agent that outlived its upthread may still write to it.
            await self._end_leftover_agent(live.view)
            holder = self._system.this_process(request.claim.doing).in_words()
            await live.commit(RecoveryStarted(holder=holder))
            return await drive(live)

    # --- before --------------------------------------------------------------------------------

    def _take_over(self, live: LiveTurn, turn_id: TurnId | None) -> None:
        last = live.claim.last
        address = live.claim.conversation.key.address
        if last is None or last[1].ended or (turn_id is not None and last[0] != turn_id):
            raise UsageError(
                f"{address} has no turn to go on with: its last turn has ended",
                hint=f"look at its reply: {command('upthread', 'show', address)}",
                address=address,
            )
        live.take_up(*last)
        live.inputs = structs.replace(
            live.claim.inputs(live.request.claim), condition_now=live.request.condition
        )

    async def _end_interrupted(self, live: LiveTurn) -> LiveTurn:
        """End a turn that a crash or a park left open: the new prompt takes its place.

        Returns the turn that is to begin: one whose last turn has ended well, where it had.
        """
        if live.claim.last is None:
            return live
        turn_id, view = live.claim.last
        if view.ended is not None:
            if view.was_left_open and view.sent:
                live.take_up(turn_id, view)
                await live.read(lambda: beginning.catch_up(live))
            return live
        decision = await live.read(lambda: beginning.decided_on_open(live))
        # A prompt that is refused leaves the turn open.
        await self._require_allowed(live, decision)
        await self._end_leftover_agent(view)
        live.take_up(turn_id, view)
        if not await live.read(lambda: beginning.end_open_turn(live)):
            return live
        live.notice("reply_taken_over", RECOGNISED[Recognition.COMPLETE])
        claim = await self._conversations.looked_at_again(live.request.claim, live.claim)
        return live.afresh(claim)

    async def _end_leftover_agent(self, view: turns.TurnView) -> None:
        attached = view.attached
        # The same number is another process on another host.
        if attached is None or attached.agent_host != self._system.this_process("").host:
            return
        pid, ticks = attached.agent_pid, attached.agent_started_at_ticks
        if pid is not None and ticks is not None:
            await self._system.end_process_group(pid, ticks)

    # --- the beginning -------------------------------------------------------------------------

    async def _begun(self, live: LiveTurn) -> LiveTurn:
        """Decide how the prompt is to be sent, and commit that it is meant to be.

        In one hop; where the agent's session has what the record lacks, that is read back first.
        Raises RefusedError.
        """
        found, decision = await self._meant(live, lambda: beginning.looked_at(live))
        tell_of_lacking(live, found)
        if decision is None:
            live = again = await self._caught_up(live, found)
            decision = await self._meant(live, lambda: beginning.decided_and_meant(again, found))
        await self._require_allowed(live, decision)
        return live

    async def _meant(self, live: LiveTurn, query: Callable[[], Result]) -> Result:
        """Return what a call returns that may commit the intent, and end a turn so given up."""
        try:
            return await live.read(query)
        except anyio.get_cancelled_exc_class():
            # Committed all the same, unless this is the turn before, which has ended.
            if live.view.intended is not None and not live.view.is_over:
                await cancel(live)
            raise

    async def _caught_up(self, live: LiveTurn, found: Lacked) -> LiveTurn:
        """Read back what only the agent's session has of the conversation."""
        request = live.request
        # Before, since ending the last turn has moved the numbers; after, since reading back has.
        claim = await self._conversations.looked_at_again(request.claim, live.claim)
        await live.read(lambda: beginning.record_read_back(live, claim, found))
        claim = await self._conversations.looked_at_again(request.claim, claim)
        caught_up = live.afresh(claim)
        caught_up.has_unheard = not live.has_last_turn_ended
        return caught_up

    async def _require_allowed(self, live: LiveTurn, decision: Decision) -> None:
        """Raise RefusedError for a decision to refuse, and keep it."""
        if decision.decision != REFUSE:
            return
        await self._conversations.keep_refusal(live.conversation_id, decision)
        spending = live.account.allowed
        tokens = spending_in_words(spending) if spending and spending.is_over else ""
        raise refused(live.conversation.key.address, decision, tokens=tokens)
