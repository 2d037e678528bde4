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

from upthread.core.commands import OpenTurn
from upthread.core.decision.handshake import REFUSE, RESUME, HandshakeInputs, decide
from upthread.core.decision.price import Spending, Tokens
from upthread.core.decision.words import RECOGNISED
from upthread.core.events import (
    RecoveryStarted,
    TurnEnded,
    TurnIntended,
)
from upthread.core.lazy_dataclass import replace
from upthread.core.text import command
from upthread.core.turns import turn as turns
from upthread.core.turns.prompt import NEW_SESSION_DECISIONS, wants_fresh, without_fresh
from upthread.core.turns.replayed_history import Lacked
from upthread.core.turns.spent_tokens import cost_of, spending_in_words
from upthread.core.turns.turn import Recognition
from upthread.core.types import Decision, Message, Outcome, Speaker, TextPart, TurnId
from upthread.errors import StoreError, UsageError
from upthread.runtime.record.turn_views import spent_in_conversation
from upthread.runtime.system import System
from upthread.runtime.turns.attach import tell_of_lacking
from upthread.runtime.turns.conversation import Claim, Conversations, refused
from upthread.runtime.turns.delegation import TellRequest
from upthread.runtime.turns.executor import Driver
from upthread.runtime.turns.handshake_inputs import Subject, gathered
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.older_record import look, other_profile, read_back
from upthread.runtime.turns.progress import TurnResult
from upthread.runtime.turns.recovery import rest_of
from upthread.store.base import Store

Result = TypeVar("Result")


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
            # In this order: what only the session has belongs after the turn
            # that was cut off, and before the prompt that is numbered next.
            live = await self._end_interrupted(live)
            return await self._driver.drive(await self._begun(live))

    async def go_on(self, request: TellRequest, turn_id: TurnId | None = None) -> TurnResult:
        """Go on with the conversation's newest turn after a crash, or with a parked one.

        Raises UsageError when there is nothing to go on with, or when the newest turn is not
        `turn_id`.
        """
        async with self._conversations.claimed(request.claim) as claim:
            live = LiveTurn(request=request, claim=claim, store=self._store, system=self._system)
            self._take_over(live, turn_id)
            # Before it is taken up: what is refused stays parked as it was.
            decision = await live.read(lambda store: self._continued(store, live))
            await self._require_allowed(live, decision)
            # Before its history is read: an agent that outlived its upthread may still write to it.
            await self._end_leftover_agent(live.log.view)
            holder = self._system.this_process(request.claim.doing).in_words()
            await live.log.commit(RecoveryStarted(holder=holder))
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
        live.log.take_up(*last)
        live.inputs = replace(
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
                live.log.take_up(turn_id, view)
                await live.read(lambda store: self._catch_up(store, live))
            return live
        decision = await live.read(
            lambda store: self._decided(store, live, Lacked(other_profile=_elsewhere(store, live)))
        )
        # A prompt that is refused leaves the turn open.
        await self._require_allowed(live, decision)
        await self._end_leftover_agent(view)
        live.log.take_up(turn_id, view)
        if not await live.read(lambda store: self._end_open_turn(store, live)):
            return live
        live.notice("reply_taken_over", RECOGNISED[Recognition.COMPLETE])
        claim = await self._conversations.looked_at_again(live.request.claim, live.claim)
        return LiveTurn(request=live.request, claim=claim, store=self._store, system=self._system)

    def _end_open_turn(self, store: Store, live: LiveTurn) -> bool:
        """Commit the end of a turn that another takes the place of. Blocking.

        Returns whether its prompt was answered to the end all the same, as its agent's store says.
        """
        outcome = live.log.outcome_of_park if live.log.view.parked else Outcome.PROCESS_DIED
        ended = TurnEnded(outcome=outcome, detail="interrupted; a new prompt took its place")
        rest = rest_of(store, live, ended, now_ms=self._system.now_ms())
        live.log.commit_here(*rest.known, rest.ended, writes=rest.writes)
        return rest.is_complete

    def _catch_up(self, store: Store, live: LiveTurn) -> None:
        """Record what an agent did that outlived its cancelled turn. Blocking."""
        ended, attached, link = live.log.view.ended, live.log.view.attached, live.link
        session = attached.upstream_session_id if attached else None
        if ended is None or link is None or session != link.upstream_session_id:
            return  # another session has taken its place
        try:
            stamp = live.request.own_sessions.stamp(link.agent, link.upstream_session_id)
        except StoreError:
            return  # the person is told why once the record is compared with the session
        # While it is the same, nothing was added since the turn ended.
        if stamp and stamp == ended.session_stamp:
            return
        rest = rest_of(store, live, ended, now_ms=self._system.now_ms())
        store.commit(rest.writes, fences=live.log.fences)

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
        found, decision = await self._meant(live, lambda store: self._looked_at(store, live))
        tell_of_lacking(live, found)
        if decision is None:
            live = again = await self._caught_up(live, found)
            decision = await self._meant(
                live, lambda store: self._decided_and_meant(store, again, found)
            )
        await self._require_allowed(live, decision)
        return live

    async def _meant(self, live: LiveTurn, query: Callable[[Store], Result]) -> Result:
        """Return what a call returns that may commit the intent, and end a turn so given up."""
        try:
            return await live.read(query)
        except anyio.get_cancelled_exc_class():
            # Committed all the same, unless this is the turn before, which has ended.
            if live.log.view.intended is not None and not live.log.view.is_over:
                await self._driver.cancel(live)
            raise

    def _looked_at(self, store: Store, live: LiveTurn) -> tuple[Lacked, Decision | None]:
        """Return what the record lacks and, where it lacks nothing, what was decided. Blocking."""
        request, claim = live.request, live.claim
        # The claim has the last turn as it was found; here it may have been ended since.
        newest = live.log.view if live.log.view.events else claim.last[1] if claim.last else None
        found = look(store, request.own_sessions, live.link, newest, redactor=request.redactor)
        return found, None if found.turns else self._decided_and_meant(store, live, found)

    async def _caught_up(self, live: LiveTurn, found: Lacked) -> LiveTurn:
        """Read back what only the agent's session has of the conversation."""
        request = live.request
        # Before, since ending the last turn has moved the numbers; after, since reading back has.
        claim = await self._conversations.looked_at_again(request.claim, live.claim)
        await live.read(lambda store: self._read_back(store, live, claim, found))
        claim = await self._conversations.looked_at_again(request.claim, claim)
        return LiveTurn(request=request, claim=claim, store=self._store, system=self._system)

    def _read_back(self, store: Store, live: LiveTurn, claim: Claim, found: Lacked) -> None:
        writes = read_back(
            store,
            claim,
            found,
            new_id=lambda: self._system.new_id("trn"),
            at_ms=self._system.now_ms(),
        )
        store.commit(writes, fences=live.log.fences)

    def _decided_and_meant(self, store: Store, live: LiveTurn, found: Lacked) -> Decision:
        """Decide, and commit the intent of what is not refused. Blocking."""
        decision = self._decided(store, live, found)
        if decision.decision != REFUSE:
            self._intend(live, decision)
        return decision

    def _decided(self, store: Store, live: LiveTurn, found: Lacked) -> Decision:
        """Return how the prompt is to be sent. What is refused leaves all as it was. Blocking."""
        request = live.request
        inputs = replace(
            live.claim.inputs(request.claim),
            is_fresh_asked=wants_fresh(request.task.text) or request.options.is_fresh,
            condition_now=request.condition,
            **found.as_inputs,
        )
        live.inputs = self._gathered(store, live, inputs, is_counted=False)
        decision = decide(live.inputs)
        # What a new session costs is told, and limited, by what its briefing really takes.
        if decision.decision in NEW_SESSION_DECISIONS:
            live.inputs = self._gathered(store, live, inputs, is_counted=True)
            decision = decide(live.inputs)
        tokens_max = request.options.tokens_max
        if tokens_max is not None and decision.decision != REFUSE:
            # Only now, and decided again: what a turn takes at least depends on how it attaches.
            live.account.allowed = self._allowed(store, live, tokens_max, decision.decision)
            live.inputs = replace(live.inputs, spending=live.account.allowed)
            decision = decide(live.inputs)
        return decision

    def _gathered(
        self, store: Store, live: LiveTurn, inputs: HandshakeInputs, *, is_counted: bool
    ) -> HandshakeInputs:
        """Add to the inputs what has changed and what each way would cost. Blocking."""
        request = live.request
        subject = Subject(
            conversation=live.conversation,
            link=live.link,
            role=request.claim.role,
            working_directory=request.open.working_directory,
            settings=request.freshness,
            now_ms=self._system.now_ms(),
            # One that was ended since the claim was made is to be read as it is now.
            newest=None if live.log.view.events else live.claim.newest,
        )
        return gathered(store, inputs, subject, is_counted=is_counted)

    def _intend(self, live: LiveTurn, decision: Decision) -> None:
        """Commit what is meant, with the person's words. Blocking."""
        request = live.request
        live.log.begin(TurnId(self._system.new_id("trn")))
        # `fresh:` is said to upthread, and is no part of what is asked.
        prompt = TextPart(text=without_fresh(request.task.text))
        prompt_seq = live.messages.next_seq
        conversation_id = live.conversation.conversation_id
        intended = TurnIntended(
            decision=decision.decision,
            reasons=decision.reasons,
            prompt_seq=prompt_seq,
            inputs=decision.inputs,
            condition=request.condition,
            key=request.options.key,
        )
        now_ms = self._system.now_ms()
        writes = (
            OpenTurn(
                turn_id=live.log.turn_id,
                conversation_id=conversation_id,
                opened_at_ms=now_ms,
                run_id=request.run_id,
            ),
            live.messages.user_parts(prompt_seq, 0, (prompt,), stamp=live.current_session),
            *request.at_intent(live.log.turn_id),
        )
        live.log.commit_here(intended, writes=writes)
        told = Message(
            conversation_id=conversation_id,
            seq=prompt_seq,
            speaker=Speaker.USER,
            turn_id=live.log.turn_id,
            upstream_session_id=live.current_session,
            recorded_at_ms=now_ms,
            parts=(prompt,),
        )
        # The store may have a redacted one by now; this process sends what it was told.
        live.messages.keep_told(told)

    async def _require_allowed(self, live: LiveTurn, decision: Decision) -> None:
        """Raise RefusedError for a decision to refuse, and keep it."""
        if decision.decision != REFUSE:
            return
        await self._conversations.keep_refusal(live.conversation.conversation_id, decision)
        spending = live.account.allowed
        tokens = spending_in_words(spending) if spending and spending.is_over else ""
        raise refused(live.conversation.key.address, decision, tokens=tokens)

    def _continued(self, store: Store, live: LiveTurn) -> Decision:
        """Decide whether a turn may continue, by its session's profile and by tokens. Blocking."""
        inputs, tokens_max = live.inputs, live.request.options.tokens_max
        assert inputs is not None
        if tokens_max is not None:
            # What a session holds is what the next request of it reads at the least.
            held = live.log.view.parked.tokens_held if live.log.view.parked else None
            resume = Tokens(count=held, is_estimate=False) if held is not None else None
            live.inputs = inputs = replace(inputs, price=replace(inputs.price, resume=resume))
            live.account.allowed = self._allowed(store, live, tokens_max, RESUME)
        # The turn stays in its session, whatever the role wants of the next prompt.
        return decide(
            replace(
                inputs,
                other_profile=_elsewhere(store, live),
                spending=live.account.allowed,
                continuity="resume",
                condition_before=None,
            )
        )

    def _allowed(self, store: Store, live: LiveTurn, tokens_max: int, decision: str) -> Spending:
        """Return what may be spent and was, and what a turn decided so would take at least."""
        assert live.inputs is not None
        count = live.request.spent
        conversation_id = live.conversation.conversation_id
        return Spending(
            tokens_max=tokens_max,
            spent=count() if count else spent_in_conversation(store, conversation_id),
            next_turn=cost_of(decision, live.inputs.price),
        )


def _elsewhere(store: Store, live: LiveTurn) -> str:
    """Return the other profile that has the conversation's session, empty for none. Blocking."""
    return other_profile(store, live.request.own_sessions, live.link)
