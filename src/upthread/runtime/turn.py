"""Turns: one prompt to one conversation, claimed, decided, its intent committed, then driven.

Before anything is sent: the newest turn is ended or taken over, with the agent that a dead holder
left behind; the handshake decides; the intent is kept with the person's words. The rest is
`runtime.driving`. What is decided is in the core; what people see, in surfaces.
"""

from __future__ import annotations

from dataclasses import replace

import anyio

from upthread.core import turn as turns
from upthread.core.commands import OpenTurn, Write
from upthread.core.events import (
    RecoveryStarted,
    TurnEnded,
    TurnIntended,
)
from upthread.core.handshake import REFUSE, HandshakeInputs, decide
from upthread.core.price import Spending
from upthread.core.prompt import wants_fresh, without_fresh
from upthread.core.shell import command
from upthread.core.spending import cost_of, spending_in_words
from upthread.core.types import Message, Outcome, Speaker, TextPart, TurnId
from upthread.errors import UsageError
from upthread.runtime.conversation import Conversations, refused
from upthread.runtime.delegation import TellRequest, TurnResult
from upthread.runtime.driving import Driver
from upthread.runtime.gathering import Subject, gathered
from upthread.runtime.live_turn import LiveTurn
from upthread.runtime.looking_back import recorder_of_rest
from upthread.runtime.spending import spent_in_conversation
from upthread.runtime.system import System
from upthread.store.base import Store


class Turns:
    """Runs turns on a store and an agent."""

    def __init__(self, store: Store, system: System, conversations: Conversations) -> None:
        self._store = store
        self._system = system
        self._conversations = conversations
        self._driver = Driver(store, system)

    async def tell(self, request: TellRequest) -> TurnResult:
        """Send one prompt to one conversation and return its reply, whatever became of it.

        Raises RefusedError, LeaseHeldError and FencedError; an agent's failure is an outcome.
        """
        async with self._conversations.claimed(request.claim) as claim:
            live = LiveTurn(request=request, claim=claim, store=self._store, system=self._system)
            await self._end_interrupted(live)
            try:
                await self._intend(live)
            except anyio.get_cancelled_exc_class():
                if live.view.intended is not None:  # it was committed all the same
                    await self._driver.cancel(live)
                raise
            return await self._driver.drive(live)

    async def go_on(self, request: TellRequest, turn_id: TurnId | None = None) -> TurnResult:
        """Go on with the conversation's newest turn after a crash, or with a parked one.

        Raises UsageError when there is nothing to go on with, or when the newest turn is not
        `turn_id`.
        """
        async with self._conversations.claimed(request.claim) as claim:
            live = LiveTurn(request=request, claim=claim, store=self._store, system=self._system)
            self._take_over(live, turn_id)
            await self._end_leftover_agent(live.view)
            holder = self._system.this_process(request.claim.doing).in_words()
            await live.commit(RecoveryStarted(holder=holder))
            return await self._driver.drive(live)

    # --- before --------------------------------------------------------------------------------

    def _take_over(self, live: LiveTurn, turn_id: TurnId | None) -> None:
        last = live.claim.last
        address = live.claim.conversation.key.address
        if last is None or last[1].ended or (turn_id is not None and last[0] != turn_id):
            raise UsageError(
                f"{address} has no turn to go on with",
                hint=f'send a prompt: {command("upthread", "tell", address)} "…"',
                address=address,
            )
        live.turn_id, live.view = last
        live.inputs = replace(
            live.claim.inputs(live.request.claim), condition_now=live.request.condition
        )

    async def _end_interrupted(self, live: LiveTurn) -> None:
        """End a turn that a crash or a park left open: the new prompt takes its place."""
        if live.claim.last is None:
            return
        turn_id, view = live.claim.last
        if view.ended is not None:
            return
        await self._end_leftover_agent(view)
        live.turn_id, live.view = turn_id, view
        outcome = live.outcome_of_park if view.parked else Outcome.PROCESS_DIED
        detail = "interrupted; a new prompt took its place"
        writes: tuple[Write, ...] = ()
        if live.link is not None:
            rest = await recorder_of_rest(live)
            writes = rest.finish(at_ms=self._system.now_ms())
        await live.commit(TurnEnded(outcome=outcome, detail=detail), writes=writes)
        live.advance_past(writes)

    async def _end_leftover_agent(self, view: turns.TurnView) -> None:
        attached = view.attached
        if (
            attached is None
            or attached.agent_pid is None
            or attached.agent_started_at_ticks is None
        ):
            return
        if attached.agent_host == self._system.this_process("").host:
            await self._system.end_process_group(
                attached.agent_pid, attached.agent_started_at_ticks
            )

    async def _intend(self, live: LiveTurn) -> None:
        request = live.request
        live.begin(TurnId(self._system.new_id("trn")))
        prompt = TextPart(text=without_fresh(request.task.text))
        inputs = replace(
            live.claim.inputs(request.claim),
            is_fresh_asked=wants_fresh(request.task.text) or request.is_fresh_asked,
            condition_now=request.condition,
        )
        live.inputs = await self._gathered(live, inputs)
        decision = decide(live.inputs)
        if request.tokens_max is not None and decision.decision != REFUSE:
            live.inputs = await self._with_spending(live, request.tokens_max, decision.decision)
            decision = decide(live.inputs)
        if decision.decision == REFUSE:
            await self._conversations.keep_refusal(live.conversation.conversation_id, decision)
            spending = live.inputs.spending
            tokens = spending_in_words(spending) if spending else ""
            raise refused(live.conversation.key.address, decision, tokens=tokens)
        prompt_seq = live.next_seq
        conversation_id = live.conversation.conversation_id
        intended = TurnIntended(
            decision=decision.decision,
            reasons=decision.reasons,
            prompt_seq=prompt_seq,
            inputs=decision.inputs,
            condition=request.condition,
        )
        now_ms = self._system.now_ms()
        writes = (
            OpenTurn(
                turn_id=live.turn_id,
                conversation_id=conversation_id,
                opened_at_ms=now_ms,
                run_id=request.run_id,
            ),
            live.user_parts(prompt_seq, 0, (prompt,), stamp=live.current_session),
            *request.at_intent(live.turn_id),
        )
        await live.commit(intended, writes=writes)
        live.told = Message(
            conversation_id=conversation_id,
            seq=prompt_seq,
            speaker=Speaker.USER,
            turn_id=live.turn_id,
            upstream_session_id=live.current_session,
            recorded_at_ms=now_ms,
            parts=(prompt,),
        )
        live.next_seq = prompt_seq + 1

    async def _with_spending(
        self, live: LiveTurn, tokens_max: int, decision: str
    ) -> HandshakeInputs:
        """Add to the inputs what was spent, and what a turn decided so would take at least."""
        assert live.inputs is not None
        conversation_id = live.conversation.conversation_id
        count = live.request.spent
        spent = await live.read(
            lambda store: count() if count else spent_in_conversation(store, conversation_id)
        )
        next_turn = cost_of(decision, live.inputs.price)
        spending = Spending(tokens_max=tokens_max, spent=spent, next_turn=next_turn)
        return replace(live.inputs, spending=spending)

    async def _gathered(self, live: LiveTurn, inputs: HandshakeInputs) -> HandshakeInputs:
        """Add to the inputs what has changed and what each way would cost."""
        request = live.request
        subject = Subject(
            conversation=live.conversation,
            link=live.link,
            role=request.claim.role,
            working_directory=request.open.working_directory,
            settings=request.freshness,
            now_ms=self._system.now_ms(),
        )
        return await live.read(lambda store: gathered(store, inputs, subject))
