"""A turn that an agent drives itself: its own tool made the call, and its hooks say how it goes.

Theory of operation. Each hook is a process of its own, and does one step of a turn: `begin` takes
the conversation's lease, decides and commits the intent; `started` banks the sub-agent's session;
`end` reads what the sub-agent did from the agent's own store and commits it with the turn's end.
The lease is held for the agent's process, named by its pid, start time and boot, and shows no
heartbeat: only the death of that process frees it (ADR 10). A turn whose agent died is an
interrupted turn. Whoever comes next reads the rest from the agent's own store, as after a crash of
upthread (runtime/turns/recovery.py). Everything here is blocking. A step is one commit, after
another where an earlier turn has to be ended or read back first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from upthread.core.agents import AGENTS
from upthread.core.commands import OpenConversation, RecordDecision
from upthread.core.decision.handshake import REFUSE, decide
from upthread.core.decision.model import freshness_in, inputs_from
from upthread.core.decision.words import (
    FIRST,
    FOREIGN_SESSION,
    NAMED,
    RESUME,
    RESUME_WITH_UPDATE,
    UNSEEN,
)
from upthread.core.events import AttachFailed, TurnIntended
from upthread.core.names import key_of
from upthread.core.turns.prompt import context_for
from upthread.core.turns.replayed_history import NOTHING_LACKED, Lacked
from upthread.core.types import (
    CHILD_SLOT,
    MAIN_SLOT,
    ContextPart,
    Conversation,
    ConversationId,
    Decision,
    Fence,
    Holder,
    Lease,
    LeaseClaim,
    Link,
    TurnId,
    UpstreamSessionId,
)
from upthread.core.workstreams import ROLE_UNKNOWN
from upthread.errors import ConflictError, LeaseHeldError
from upthread.runtime.lease import conversation_lease, lease_name_of
from upthread.runtime.record.turn_views import main_session_of, turn_view
from upthread.runtime.turns import beginning
from upthread.runtime.turns.beginning import (
    RESUMING,
    ExternalCalls,
    again,
    call_of,
    digest_of,
    turn_id_of,
)
from upthread.runtime.turns.conversation import SIBLINGS_MAX, Claim
from upthread.runtime.turns.delegation import TellRequest, TurnStarted
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.recovery import past_of, prior_of
from upthread.store.base import Store

RECORDED_ONLY: Final = "recorded_only"
"""The reason of a call that is kept and not continued."""

SENT_BACK: Final = "sent_back"
"""The reason of a call that is refused once, because its sub-agent can be written to."""

_TOLD_BACK: Final = "{} has its history: continue it, and start no new one: {}"


class Begun(Struct, frozen=True, kw_only=True):
    """What was decided on a call. `session` is the one to resume, empty for a new session.

    `started` is for the person; `context` goes before the prompt. A refused call has a `hint`, or
    `told`: the instruction to the model for another call. `in_use` names who works in the role's
    main conversation, where the call got another conversation.
    """

    decision: str
    session: str
    started: TurnStarted
    context: str = ""
    told: str = ""
    hint: str = ""
    in_use: str = ""


class AskedOf(Struct, frozen=True, kw_only=True):
    """What an agent says of a call beside what was asked.

    `busy` are sessions the agent itself is at work in. `reach` words how the model writes to a
    sub-agent of its own main session. `further` are reasons beside those of the handshake.
    """

    busy: frozenset[str] = frozenset()
    reach: Callable[[str], str] | None = None
    further: tuple[str, ...] = ()


class BeginningCalls(ExternalCalls):
    """Begins the turns that an agent drives, in one project."""

    # --- before a call ---------------------------------------------------------------------------

    def begin(self, request: TellRequest, holder: Holder, asked: AskedOf) -> Begun | None:
        """Decide on a call, take its conversation for the agent's process, commit the intent.

        A call that is known is decided again, where the agent has lost the session it was to
        resume; otherwise None. Raises ConflictError where others come first each time, and
        LeaseHeldError where all siblings are in use.
        """
        turn_id = turn_id_of(call_of(request))
        if self.is_known(turn_id):
            return self._decide_again(turn_id, request)
        mine = structs.replace(holder, call=turn_id)
        return again(lambda: self._begin(request, mine, asked))

    def _decide_again(self, turn_id: TurnId, request: TellRequest) -> Begun | None:
        """Decide again on a call whose session the agent says it has lost."""
        live, lost = self.open_turn(turn_id), request.claim.session_lost
        if live is None or live.link is None or lost is None or live.view.sent is not None:
            return None
        stored = live.intended.inputs
        assert isinstance(stored, Mapping)
        was, session = inputs_from(stored), live.link.upstream_session_id
        live.inputs = structs.replace(was, freshness=freshness_in(stored), session_lost=lost)
        live.hold(AttachFailed(upstream_session_id=session, outcome=lost, detail=""))
        live.hold(live.decided_again())
        prompt, context = live.prompt(), self._context(live)
        told, stamp = (ContextPart(text=context),), prompt.upstream_session_id
        parts = live.user_parts(prompt.seq, len(prompt.parts), told, stamp=stamp)
        live.commit_here(writes=(parts,) if context else ())
        return _begun(live, live.intended, context=context)

    def _begin(self, request: TellRequest, holder: Holder, asked: AskedOf) -> Begun:
        in_use = ""
        for mine, claim, lease in self._siblings(request):
            session = claim.link.upstream_session_id if claim.link else ""
            who = request.claim.agent if session in asked.busy else self.holder_of(lease)
            if who:
                in_use = in_use or f"{claim.conversation.key.address} is in use by {who}"
                continue
            begun = self._begin_after(mine, holder, claim, lease, asked)
            return structs.replace(begun, in_use=in_use)
        raise LeaseHeldError(f"{request.claim.address.role}: too many calls at once", holder=in_use)

    def _siblings(self, request: TellRequest) -> Iterator[tuple[TellRequest, Claim, Lease | None]]:
        """Yield the role's main conversation and its siblings: the request for each, its lease."""
        for slot in range(MAIN_SLOT, SIBLINGS_MAX + 1):
            taken = structs.replace(
                request.claim, address=structs.replace(request.claim.address, slot=slot)
            )
            key = key_of(self.project_id, taken.address)
            lease = self.store.lease(conversation_lease(key.project_id, key.address))
            claim = self.conversations.standing(key, ())
            yield structs.replace(request, claim=taken), claim, lease

    def _begin_after(
        self,
        request: TellRequest,
        holder: Holder,
        claim: Claim,
        lease: Lease | None,
        asked: AskedOf,
    ) -> Begun:
        """Begin after the conversation's last turn, which stays open if the call is sent back."""
        live = self.live(request, claim)
        is_open = claim.last is not None and claim.last[1].ended is None
        if asked.reach is not None and is_open:
            decision = beginning.decided(live, NOTHING_LACKED)
            if sent := self._sent_back(live, decision, asked.reach):
                return sent
            if self._was_sent_back(live):
                asked = structs.replace(asked, reach=None)
        return self._begin_in(self._claimed(request, holder, claim, lease), asked)

    def _was_sent_back(self, live: LiveTurn) -> bool:
        """Whether a call was sent back since the last turn moved, or this call, by its words."""
        key, own_id = live.conversation.key, live.conversation_id
        last_id = live.claim.last_id
        last = self.store.turn_events(own_id, last_id) if last_id else ()
        moved_at_ms = last[-1].recorded_at_ms if last else 0
        return any(
            (back.conversation_id == own_id and back.decided_at_ms >= moved_at_ms)
            or _is_unheeded(self.store, back, _words_of(live.request))
            for each in self.store.conversations(key.project_id, key.workstream)
            for back in self.store.refusals(each.conversation_id)
            if each.key.role == key.role and back.reasons[:1] == (SENT_BACK,)
        )

    def _begin_in(self, live: LiveTurn, asked: AskedOf) -> Begun:
        found = beginning.lacked(live)
        if found.turns:
            live = self._read_back(live, found)
        decision = beginning.decided(live, found)
        decision = structs.replace(decision, reasons=(*decision.reasons, *asked.further))
        session = live.current_session if decision.decision in RESUMING else None
        if decision.decision == REFUSE:
            self._refuse(live, decision)
            return structs.replace(_begun(live, decision), hint=decision.hint)
        if asked.reach is not None and (sent := self._sent_back(live, decision, asked.reach)):
            return sent
        return _begun(live, decision, session or "", context=self._intend(live, decision))

    def _sent_back(
        self, live: LiveTurn, decision: Decision, reach: Callable[[str], str]
    ) -> Begun | None:
        """Refuse a call once whose sub-agent the model can write to; None where that is not so.

        A model that delegates again all the same gets a new sub-agent, with the briefing.
        """
        link, inputs, call = live.link, live.inputs, call_of(live.request)
        assert inputs is not None
        is_wanted = live.request.claim.role.continuity == "resume" and not inputs.is_fresh_asked
        if not is_wanted or link is None or main_session_of(self.store, link) != call.main_session:
            return None
        could = decide(structs.replace(inputs, takes_no_session=False))
        if could.decision not in RESUMING or self._was_sent_back(live):
            return None
        told_with = {**decision.inputs, **_words_of(live.request)}
        back = Decision(decision=REFUSE, reasons=(SENT_BACK,), inputs=told_with)
        self._refuse(live, back)
        told = _TOLD_BACK.format(live.conversation.key.role, reach(link.upstream_session_id))
        return structs.replace(_begun(live, back), told=told)

    def would_resume(self, request: TellRequest, conversation: Conversation, link: Link) -> bool:
        """Return whether a session that nobody uses would be resumed now. Changes nothing."""
        if self.holder_of(self.store.lease(lease_name_of(conversation))):
            return False
        live = self.live(request, self.conversations.claim_of(conversation, link, ()))
        return beginning.decided(live, NOTHING_LACKED).decision in RESUMING

    def _claimed(
        self, request: TellRequest, holder: Holder, claim: Claim, lease: Lease | None
    ) -> LiveTurn:
        """Return the turn that is to begin, after the turn before it was ended if it was open.

        Its first commit takes the lease, unless the lease is held already.
        """
        live = self.live(request, claim)
        seen = lease if lease is not None and lease.holder is not None else None
        name = lease_name_of(claim.conversation)
        live.take = (LeaseClaim(name=name, holder=holder, seen=seen),)
        if claim.last is None or claim.last[1].ended is not None:
            return live
        # Ended in a commit of its own, because its actions are read before anything is decided.
        live.take_up(*claim.last)
        beginning.end_open_turn(live)
        live.fences += (Fence(name=name, token=(lease.token if lease else 0) + 1),)
        return self._afresh(live)

    def _leased(self, live: LiveTurn) -> LiveTurn:
        """Return a turn whose lease is held, and no longer taken with its first commit."""
        fences = live.fences
        for each in live.take:
            held = self.store.acquire_lease(each.name, each.holder, seen=each.seen)
            if held is None:
                raise ConflictError(f"{each.name} was taken meanwhile", hint="read it again")
            fences = (*fences, Fence(name=each.name, token=held.token))
        return live.afresh(structs.replace(live.claim, fences=fences))

    def _afresh(self, live: LiveTurn) -> LiveTurn:
        """Return a turn with its conversation read again, under the same lease."""
        return live.afresh(self.conversations.standing(live.conversation.key, live.fences))

    def _read_back(self, live: LiveTurn, found: Lacked) -> LiveTurn:
        """Record what only the agent's session has, under the lease."""
        live = self._leased(live)
        beginning.record_read_back(live, live.claim, found)
        return self._afresh(live)

    def _refuse(self, live: LiveTurn, decision: Decision) -> None:
        """Keep a decision that leads to no turn, where its conversation is known.

        With it goes the lease, where the turn before was ended or read back under it.
        """
        if live.claim.opens:
            return
        write = RecordDecision(
            conversation_id=live.conversation_id,
            decision=decision.decision,
            reasons=decision.reasons,
            inputs=decision.inputs,
            decided_at_ms=self.system.now_ms(),
        )
        self.store.commit((write,), fences=live.fences, give=live.fences)

    def _intend(self, live: LiveTurn, decision: Decision, *, is_told: bool = True) -> str:
        """Commit a turn's intent; returns what goes before its prompt."""
        turn_id = turn_id_of(call_of(live.request))
        intended, prompt, writes = beginning.intent(live, decision, turn_id)
        live.hold(intended)
        live.keep_told(prompt)
        context = self._context(live) if is_told else ""
        if context:
            told = (ContextPart(text=context),)
            stamp = prompt.upstream_session_id
            writes += (live.user_parts(prompt.seq, 1, told, stamp=stamp),)
        live.commit_here(writes=writes)
        return context

    def _context(self, live: LiveTurn) -> str:
        past = past_of(live, prior_of(live), is_prior_injected=live.must_inject)
        context = context_for(
            role=live.role_told, task=live.request.task, decision=live.telling, past=past
        )
        agent = AGENTS.get(live.request.claim.agent)
        # Otherwise our text becomes the title of the sub-agent's session.
        pieces = (context, agent.request_heading if agent and context else "")
        return "\n\n".join(filter(None, pieces))

    # --- a call that names its session -----------------------------------------------------------

    def begin_named(
        self, request: TellRequest, holder: Holder, session: str, *, reasons: tuple[str, ...] = ()
    ) -> Begun | None:
        """Begin a turn in the session that a main session continues by itself.

        None where no conversation goes on in that session, or somebody works in it. `reasons` stand
        in the place of the handshake's.
        """
        turn_id = turn_id_of(call_of(request))
        if self.is_known(turn_id):
            return None
        return again(
            lambda: self._begin_named(
                request, structs.replace(holder, call=turn_id), session, reasons
            )
        )

    def _begin_named(
        self, request: TellRequest, holder: Holder, session: str, reasons: tuple[str, ...]
    ) -> Begun | None:
        owner = self.owner_of(session)
        if owner is None or owner.key.slot == CHILD_SLOT:
            return None
        lease = self.store.lease(lease_name_of(owner))
        claim = self.conversations.standing(owner.key, ())
        is_current = claim.link is not None and claim.link.upstream_session_id == session
        if not is_current or self.holder_of(lease):
            return None
        live = self._claimed(request, holder, claim, lease)
        decision = beginning.decided(live, beginning.lacked(live))
        if decision.decision not in RESUMING:
            why = (NAMED, *decision.reasons)
            decision = structs.replace(decision, decision=RESUME, reasons=why)
        decision = structs.replace(decision, reasons=reasons or decision.reasons)
        self._intend(live, decision, is_told=False)
        return _begun(live, decision, session)

    # --- a call that is kept and not continued ---------------------------------------------------

    def begin_beside(
        self, request: TellRequest, holder: Holder, *, reasons: Sequence[str] = ()
    ) -> None:
        """Keep a call that is not continued, in a conversation under that of its main session."""
        call = call_of(request)
        turn_id = turn_id_of(call)
        if self.is_known(turn_id):
            return
        key = structs.replace(key_of(self.project_id, request.claim.address), slot=CHILD_SLOT)
        main, opens = self.main_of(call.agent, call.main_session, key.workstream)
        child = Conversation(
            conversation_id=ConversationId(f"con_{digest_of(call.main_session, call.call_id)}"),
            key=structs.replace(key, workstream=main.key.workstream, role=key.role or ROLE_UNKNOWN),
            generation=1,
            base_name=main.base_name,
            opened_at_ms=self.system.now_ms(),
            parent_conversation_id=main.conversation_id,
            parent_call_id=call.call_id,
        )
        claim = self.conversations.claim_of(child, None, ())
        claim = structs.replace(claim, opens=(*opens, OpenConversation(conversation=child)))
        live = self.live(request, claim)
        mine = structs.replace(holder, call=turn_id)
        live.take = (LeaseClaim(name=lease_name_of(child), holder=mine),)
        was = RESUME if FOREIGN_SESSION in reasons else FIRST
        decision = Decision(decision=was, reasons=(RECORDED_ONLY, *reasons))
        self._intend(live, decision, is_told=False)

    def begin_unseen(self, request: TellRequest, holder: Holder, session: str) -> None:
        """Begin a call that no hook saw begin, in the conversation that goes on in its session.

        Else where no session stands yet: the session that the role has stays the one to resume.
        """
        mine = structs.replace(holder, call=turn_id_of(call_of(request)))
        again(lambda: self._begin_unseen(request, mine, session))

    def _begin_unseen(self, request: TellRequest, holder: Holder, session: str) -> None:
        for mine, claim, lease in self._siblings(request):
            is_same = claim.link is not None and claim.link.upstream_session_id == session
            if self.holder_of(lease) or (claim.link is not None and not is_same):
                continue
            live = self._claimed(mine, holder, claim, lease)
            decision = Decision(decision=RESUME if is_same else FIRST, reasons=(UNSEEN,))
            self._intend(live, decision, is_told=False)
            return


def _is_unheeded(store: Store, refused: RecordDecision, named: Mapping[str, int]) -> bool:
    """Return whether a refusal's inputs have these members and no turn resumed since. Blocking."""
    inputs = refused.inputs
    if not isinstance(inputs, Mapping) or not named.items() <= inputs.items():
        return False
    known = store.turns(refused.conversation_id)
    later = (each.turn_id for each in known if each.opened_at_ms > refused.decided_at_ms)
    begun = (turn_view(store, refused.conversation_id, each).intended for each in later)
    return not any(each and each.decision in {RESUME, RESUME_WITH_UPDATE} for each in begun)


def _words_of(request: TellRequest) -> dict[str, int]:
    """Return by what a call is known again that was sent back: it comes again with another id."""
    return {"words": int(digest_of(call_of(request).main_session, request.task.text)[:12], 16)}


def _begun(
    live: LiveTurn, decision: Decision | TurnIntended, session: str = "", context: str = ""
) -> Begun:
    assert live.inputs is not None, "it was decided"
    started = TurnStarted(
        conversation=live.conversation,
        turn_id=live.turn_id,
        decision=decision.decision,
        reasons=decision.reasons,
        agent=live.request.claim.agent,
        upstream_session_id=UpstreamSessionId(session),
        turn_number=live.turn_number,
        price=live.inputs.price,
        freshness=live.inputs.freshness,
    )
    return Begun(decision=decision.decision, session=session, started=started, context=context)
