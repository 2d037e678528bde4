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

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from upthread.agents.base import PromptResult
from upthread.core.agents import AGENTS
from upthread.core.commands import OpenConversation, RecordDecision, Write
from upthread.core.decision.handshake import decide
from upthread.core.decision.model import freshness_in, inputs_from
from upthread.core.decision.rollover import ROLLOVER, Recovery
from upthread.core.decision.words import FIRST, FOREIGN_SESSION, NAMED, REFUSE, RESUME, UNSEEN
from upthread.core.events import (
    AgentEvent,
    AgentsCall,
    AttachFailed,
    ChildEnded,
    ChildStarted,
    PromptRecognised,
    ToolCallUpdated,
    TurnEnded,
    TurnParked,
    UsageReported,
)
from upthread.core.names import ROLE_UNKNOWN, Address, key_of
from upthread.core.quotas import within_quota
from upthread.core.turns.agent_history import NOTHING_LACKED, Recognised, unrecorded
from upthread.core.turns.spent_tokens import recognised_event
from upthread.core.turns.turn import Task
from upthread.core.types import (
    CHILD_SLOT,
    MAIN_SLOT,
    Conversation,
    ConversationId,
    ConversationKey,
    Decision,
    Holder,
    Lease,
    LeaseClaim,
    Link,
    Outcome,
    ProjectId,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import ConflictError, FencedError, LeaseHeldError, StoreError
from upthread.runtime.lease import conversation_lease, holder_in_words, lease_name_of
from upthread.runtime.record.turn_views import main_session_of, turn_view
from upthread.runtime.system import System
from upthread.runtime.turns import beginning
from upthread.runtime.turns.beginning import RESUMING, attach_external, find_child, found_child
from upthread.runtime.turns.delegation import (
    SIBLINGS_MAX,
    Claim,
    Conversations,
    TellRequest,
    TurnStarted,
)
from upthread.runtime.turns.live_turn import CANCELLED, LiveTurn, end_here, end_with, parked_event
from upthread.runtime.turns.recovery import (
    NOTHING_RECOGNISED,
    context_of,
    examiner_of,
    past_of,
    prior_of,
    read_in_store,
    recognised_in_store,
    recorder_of,
    rest_of,
    session_in_store,
    with_reply,
)
from upthread.store.base import Store

TRIES_MAX = 8
"""How often a step is done again that another process came before."""

Given = ParamSpec("Given")
Found = TypeVar("Found")

MAIN_ROLE = "main"
"""The role of an agent's main session, under which calls are kept that are not continued."""

PARKS = frozenset({Recovery.WAIT, Recovery.PARK, Recovery.RETRY_ONCE})
"""What is done about an outcome where the turn waits for a person, or for its time."""

SILENT = frozenset({"codex"})
"""Agents that call no hook for a sub-agent that failed, or was refused; their stores say it."""

NO_CHILD = "the agent began no sub-agent"


class CallEnded(Struct, frozen=True, kw_only=True):
    """How a call ended, as the agent's hook says. `session` is empty where none was named.

    `tokens_window` is the most the session can hold, None where the agent did not say.
    """

    session: str = ""
    outcome: Outcome = Outcome.OK
    reply: str = ""
    detail: str = ""
    reset_at_ms: int | None = None
    tokens_window: int | None = None


def ended_with(session: str, outcome: Outcome, said: str) -> CallEnded:
    """Return an end whose words are the reply where it went well, and otherwise the reason."""
    reply, detail = (said, "") if outcome is Outcome.OK else ("", said)
    return CallEnded(session=session, outcome=outcome, reply=reply, detail=detail)


RECORDED_ONLY = "recorded_only"
"""The reason of a call that is kept and not continued."""

SENT_BACK = "sent_back"
"""The reason of a call that is refused once, because its sub-agent can be written to."""

_TOLD_BACK = "{} has its history: continue it, and start no new one: {}"


class Begun(Struct, frozen=True, kw_only=True):
    """What was decided on a call; the session in `started` is empty for a new session.

    `context` goes before the prompt. A refused call has a `hint`, or `told`: the instruction to the
    model for another call. `in_use` names who works in the role's main conversation, where the call
    got another conversation.
    """

    started: TurnStarted
    context: str = ""
    told: str = ""
    hint: str = ""
    in_use: str = ""


def _again(step: Callable[Given, Found]) -> Callable[Given, Found]:
    """Do a step, from its reads on, until no other process comes first; at last raise that."""

    @wraps(step)
    def tried(*given: Given.args, **named: Given.kwargs) -> Found:
        for _ in range(TRIES_MAX - 1):
            try:
                return step(*given, **named)
            except ConflictError:
                continue
        return step(*given, **named)

    return tried


class ExternalTurns(Struct, frozen=True, kw_only=True):
    """The turns that an agent drives, in one project: they are found, begun, recorded and ended.

    `request_of` makes the request for a call of a role.
    """

    store: Store
    system: System
    conversations: Conversations
    project_id: ProjectId
    request_of: Callable[[Address, Task, AgentsCall], TellRequest]

    def open_turn(self, turn_id: TurnId) -> LiveTurn | None:
        """Return a call's turn under its lease; None for one that is over, or not its any more."""
        live = self.turn(turn_id)
        lease = self.store.lease(lease_name_of(live.conversation)) if live else None
        if not live or not lease or not lease.holder or lease.holder.call != turn_id:
            return None
        live.fences = (lease.fence,)
        return live

    def turn(self, turn_id: TurnId) -> LiveTurn | None:
        """Return a call's turn that is not over, without a lease."""
        conversation = self.store.owner(self.project_id, turn_id=turn_id)
        if not conversation:
            return None
        links = self.store.links(conversation.conversation_id)
        link = links[-1] if links and links[-1].ended_because is None else None
        claim = self.conversations.claim_of(conversation, link)
        last, call = claim.last, claim.last.call if claim.last else None
        if not last or not call or claim.last_id != turn_id or last.is_over:
            return None
        key = conversation.key
        address = Address(workstream=key.workstream, role=key.role, slot=max(key.slot, MAIN_SLOT))
        live = self.live(self.request_of(address, Task(text=""), call), claim)
        live.take_up(turn_id, last)
        # The session of this call may be the first with its agent.
        is_same = link is not None and link.agent == call.agent
        live.agent_version = link.agent_version if link and is_same else ""
        return live

    def is_known(self, call: AgentsCall) -> bool:
        """Return whether a call's turn was begun, however it stands."""
        return self.store.owner(self.project_id, turn_id=turn_id_of(call)) is not None

    def live(self, request: TellRequest, claim: Claim) -> LiveTurn:
        return LiveTurn(request=request, claim=claim, store=self.store, system=self.system)

    def main_of(
        self, agent: str, session: str, workstream: str
    ) -> tuple[Conversation, tuple[Write, ...]]:
        """Return the conversation of a main session, and what opens a new one."""
        main_id = main_id_of(agent, session)
        known = self.store.conversation(main_id)
        if known:
            return known, ()
        key = ConversationKey(
            project_id=self.project_id, workstream=workstream, role=MAIN_ROLE, slot=CHILD_SLOT
        )
        return self.conversations.opening(key, main_id)

    def held_calls(self) -> Iterator[tuple[Lease, Holder, TurnId]]:
        """Yield the leases that agents' processes hold, each with its holder and call's turn."""
        for lease in self.store.held_leases(self.project_id):
            if lease.holder and lease.holder.call is not None:
                yield lease, lease.holder, TurnId(lease.holder.call)

    def open_calls(self) -> Iterator[tuple[Holder, LiveTurn, AgentsCall]]:
        """Yield each open call: who holds it, its turn, and the call."""
        for _, holder, turn_id in self.held_calls():
            live = self.open_turn(turn_id)
            call = live.view.call if live else None
            if live and call:
                yield holder, live, call

    def holder_of(self, lease: Lease | None) -> str:
        """Return who holds a lease and lives, empty for nobody."""
        if not lease or not lease.holder or self.system.is_dead(lease.holder):
            return ""
        return holder_in_words(lease)

    def user_of(self, conversation: Conversation) -> str:
        """Return who holds a conversation and lives, in words; empty for nobody."""
        return self.holder_of(self.store.lease(lease_name_of(conversation)))

    def owner_of(self, session: str) -> Conversation | None:
        """Return the conversation whose newest link holds a session."""
        return self.store.owner(self.project_id, session)

    # --- before a call ---------------------------------------------------------------------------

    @_again
    def begin(self, request: TellRequest) -> Begun | None:
        """Decide on a call, take its conversation for the agent's process, commit the intent.

        A call that is known is decided again, where the agent has lost the session it was to
        resume; otherwise None. Raises ConflictError where others come first each time, and
        LeaseHeldError where all siblings are in use.
        """
        if self.is_known(call_of(request)):
            return self._decide_again(request)
        in_use = ""
        for mine, claim, lease in self._siblings(request):
            session = claim.link.upstream_session_id if claim.link else ""
            who = request.agent if session in request.busy else self.holder_of(lease)
            if who:
                in_use = in_use or f"{claim.conversation.key.address} is in use by {who}"
                continue
            begun = self._begin_after(mine, claim, lease)
            return replace(begun, in_use=in_use)
        raise LeaseHeldError(f"{request.address.role}: too many calls at once", holder=in_use)

    def _decide_again(self, request: TellRequest) -> Begun | None:
        """Decide again on a call whose session the agent says it has lost."""
        live, lost = self.open_turn(turn_id_of(call_of(request))), request.session_lost
        if not live or not live.link or lost is None or live.view.sent:
            return None
        stored = live.intended.inputs
        assert isinstance(stored, Mapping)
        live.inputs, session = inputs_from(stored), live.link.upstream_session_id
        live.learn(freshness=freshness_in(stored), session_lost=lost)
        live.hold(AttachFailed(upstream_session_id=session, outcome=lost, detail=""))
        live.hold(live.decided_again())
        context = self._context(live)
        live.with_context(live.prompt(), context)
        live.commit_here()
        return Begun(started=live.started(live.intended), context=context)

    def _siblings(self, request: TellRequest) -> Iterator[tuple[TellRequest, Claim, Lease | None]]:
        """Yield the role's main conversation and its siblings: the request for each, its lease."""
        for slot in range(MAIN_SLOT, SIBLINGS_MAX + 1):
            taken = replace(request, address=replace(request.address, slot=slot))
            key = key_of(self.project_id, taken.address)
            lease = self.store.lease(conversation_lease(key))
            if lease and lease.holder and lease.holder.call and self._failed(lease.holder.call):
                lease = self.store.lease(lease.name)
            yield taken, self.conversations.standing(key), lease

    def _begin_after(self, request: TellRequest, claim: Claim, lease: Lease | None) -> Begun:
        """Begin after the conversation's last turn, which stays open if the call is sent back."""
        live = self.live(request, claim)
        is_open = claim.last is not None and not claim.last.ended
        if request.reach and is_open:
            decision = beginning.decided(live, NOTHING_LACKED)
            if sent := self._sent_back(live, decision):
                return sent
            if self._was_sent_back(live):
                request = replace(request, reach=None)
        return self._begin_in(self._claimed(request, claim, lease))

    def _was_sent_back(self, live: LiveTurn) -> bool:
        """Whether a call was sent back since the last turn moved, or this call, by its words."""
        key, own_id = live.conversation.key, live.conversation_id
        last_id = live.claim.last_id
        last = self.store.turn_events(own_id, last_id) if last_id else ()
        moved_at_ms = last[-1].recorded_at_ms if last else 0
        return any(
            (back.conversation_id == own_id and back.decided_at_ms >= moved_at_ms)
            or self._is_unheeded(back, _words_of(live.request))
            for each in self.store.conversations(key.project_id, key.workstream)
            for back in self.store.refusals(each.conversation_id)
            if each.key.role == key.role and back.reasons[:1] == (SENT_BACK,)
        )

    def _is_unheeded(self, refused: RecordDecision, named: Mapping[str, int]) -> bool:
        """Return whether a refusal's inputs have these members and no turn resumed since."""
        inputs, own_id = refused.inputs, refused.conversation_id
        if not isinstance(inputs, Mapping) or not named.items() <= inputs.items():
            return False
        known = self.store.turns(own_id)
        later = (each.turn_id for each in known if each.opened_at_ms > refused.decided_at_ms)
        begun = (turn_view(self.store, own_id, each).intended for each in later)
        return not any(each and each.decision in RESUMING for each in begun)

    def _begin_in(self, live: LiveTurn) -> Begun:
        found = beginning.lacked(live)
        if found.turns:
            self._take(live)
            beginning.record_read_back(live, found)
            live = self._afresh(live)
        decision = beginning.decided(live, found)
        decision = replace(decision, reasons=(*decision.reasons, *live.request.further))
        session = live.current_session if decision.decision in RESUMING else None
        if decision.decision == REFUSE:
            self._refuse(live, decision)
            return Begun(started=live.started(decision), hint=decision.hint)
        if sent := self._sent_back(live, decision):
            return sent
        context = self._intend(live, decision)
        return Begun(started=live.started(decision, session or ""), context=context)

    def _sent_back(self, live: LiveTurn, decision: Decision) -> Begun | None:
        """Refuse a call once whose sub-agent the model can write to; None where that is not so.

        A model that delegates again all the same gets a new sub-agent, with the briefing.
        """
        link, inputs, call = live.link, live.inputs, call_of(live.request)
        reach = live.request.reach
        is_wanted = live.request.role.continuity == "resume" and not inputs.is_fresh_asked
        if not reach or not link or not is_wanted:
            return None
        if main_session_of(self.store, link) != call.main_session:
            return None
        could = decide(replace(inputs, takes_no_session=False))
        if could.decision not in RESUMING or self._was_sent_back(live):
            return None
        told_with = {**decision.inputs, **_words_of(live.request)}
        back = Decision(decision=REFUSE, reasons=(SENT_BACK,), inputs=told_with)
        self._refuse(live, back)
        told = _TOLD_BACK.format(live.conversation.key.role, reach(link.upstream_session_id))
        return Begun(started=live.started(back), told=told)

    def would_resume(self, request: TellRequest, conversation: Conversation, link: Link) -> bool:
        """Return whether a session that nobody uses would be resumed now. Changes nothing."""
        if self.user_of(conversation):
            return False
        live = self.live(request, self.conversations.claim_of(conversation, link))
        return beginning.decided(live, NOTHING_LACKED).decision in RESUMING

    def _claimed(self, request: TellRequest, claim: Claim, lease: Lease | None) -> LiveTurn:
        """Return the turn that is to begin, after the turn before it was ended if it was open.

        Its first commit takes the lease, unless the lease is held already.
        """
        live = self.live(request, claim)
        live.take = self._taking(request, claim.conversation, lease)
        if not claim.last or claim.last_id is None or claim.last.ended:
            return live
        # Ended in a commit of its own, because its actions are read before anything is decided.
        live.take_up(claim.last_id, claim.last)
        beginning.end_open_turn(live)
        return self._afresh(live)

    def _taking(
        self, request: TellRequest, conversation: Conversation, lease: Lease | None
    ) -> LeaseClaim:
        """Return what takes a conversation for the process of the agent that makes a call."""
        assert request.holder, "an agent's process makes the call"
        holder = replace(request.holder, call=turn_id_of(call_of(request)))
        return LeaseClaim(name=lease_name_of(conversation), holder=holder, seen=lease)

    def _take(self, live: LiveTurn) -> None:
        """Take the lease now, and no longer with the first commit."""
        if not live.take:
            return
        held = self.store.acquire_lease(live.take.name, live.take.holder, seen=live.take.seen)
        if not held:
            raise ConflictError(f"{live.take.name} was taken meanwhile", hint="read it again")
        live.take, live.fences = None, (*live.fences, held.fence)

    def _afresh(self, live: LiveTurn) -> LiveTurn:
        """Return a turn with its conversation read again, under the same lease."""
        return live.afresh(self.conversations.standing(live.conversation.key, live.fences))

    def _refuse(self, live: LiveTurn, decision: Decision) -> None:
        """Keep a decision that leads to no turn, where its conversation is known.

        With it goes the lease, where the turn before was ended or read back under it.
        """
        if live.claim.opens:
            return
        write = self.conversations.refusal(live.conversation_id, decision)
        self.store.commit((write,), fences=live.fences, give=live.fences)

    def _intend(self, live: LiveTurn, decision: Decision, *, is_told: bool = True) -> str:
        """Commit a turn's intent; returns what goes before its prompt."""
        turn_id = turn_id_of(call_of(live.request))
        intended, prompt = beginning.intent(live, decision, turn_id)
        live.hold(intended)
        live.keep_told(prompt)
        context = self._context(live) if is_told else ""
        live.with_context(prompt, context)
        live.commit_here()
        return context

    def _context(self, live: LiveTurn) -> str:
        context = context_of(live, past_of(live, prior_of(live)))
        agent = AGENTS.get(live.agent)
        # Otherwise our text becomes the title of the sub-agent's session.
        pieces = (context, agent.request_heading if agent and context else "")
        return "\n\n".join(filter(None, pieces))

    # --- a call that names its session -----------------------------------------------------------

    @_again
    def begin_named(
        self, request: TellRequest, session: str, *, reasons: tuple[str, ...] = ()
    ) -> Begun | None:
        """Begin a turn in the session that a main session continues by itself.

        None where no conversation goes on in that session, or somebody works in it. `reasons` stand
        in the place of the handshake's.
        """
        if self.is_known(call_of(request)):
            return None
        owner = self.owner_of(session)
        if not owner or owner.key.slot == CHILD_SLOT:
            return None
        lease = self.store.lease(lease_name_of(owner))
        claim = self.conversations.standing(owner.key)
        is_current = claim.link is not None and claim.link.upstream_session_id == session
        if not is_current or self.holder_of(lease):
            return None
        live = self._claimed(request, claim, lease)
        decision = beginning.decided(live, beginning.lacked(live))
        if decision.decision not in RESUMING:
            why = (NAMED, *decision.reasons)
            decision = replace(decision, decision=RESUME, reasons=why)
        decision = replace(decision, reasons=reasons or decision.reasons)
        self._intend(live, decision, is_told=False)
        return Begun(started=live.started(decision, session))

    # --- a call that is kept and not continued ---------------------------------------------------

    def begin_beside(self, request: TellRequest, *, reasons: Sequence[str] = ()) -> None:
        """Keep a call that is not continued, in a conversation under that of its main session."""
        call = call_of(request)
        if self.is_known(call):
            return
        key = replace(key_of(self.project_id, request.address), slot=CHILD_SLOT)
        main, opens = self.main_of(call.agent, call.main_session, key.workstream)
        child = replace(
            main,
            conversation_id=ConversationId(f"con_{digest_of(call.main_session, call.call_id)}"),
            key=replace(key, workstream=main.key.workstream, role=key.role or ROLE_UNKNOWN),
            opened_at_ms=self.system.now_ms(),
            parent_conversation_id=main.conversation_id,
            parent_call_id=call.call_id,
        )
        claim = self.conversations.claim_of(child, None)
        claim = replace(claim, opens=(*opens, OpenConversation(conversation=child)))
        live = self.live(request, claim)
        live.take = self._taking(request, child, None)
        was = RESUME if FOREIGN_SESSION in reasons else FIRST
        decision = Decision(decision=was, reasons=(RECORDED_ONLY, *reasons))
        self._intend(live, decision, is_told=False)

    @_again
    def begin_unseen(self, request: TellRequest, session: str) -> None:
        """Begin a call that no hook saw begin, in the conversation that goes on in its session.

        Else where no session stands yet: the session that the role has stays the one to resume.
        """
        for mine, claim, lease in self._siblings(request):
            is_same = claim.link is not None and claim.link.upstream_session_id == session
            if self.holder_of(lease) or (claim.link and not is_same):
                continue
            live = self._claimed(mine, claim, lease)
            decision = Decision(decision=RESUME if is_same else FIRST, reasons=(UNSEEN,))
            self._intend(live, decision, is_told=False)
            return

    # --- while it goes on ------------------------------------------------------------------------

    @_again
    def started(self, call: AgentsCall, session: str, *, is_background: bool = False) -> None:
        """Bank the session that a call's sub-agent works in."""
        live = self.open_turn(turn_id_of(call))
        if not live or not session:
            return
        attached = live.view.attached
        # Two hooks run at once: that of the start may come after that of the answer.
        is_told = attached is not None and (attached.is_background or not is_background)
        if is_told and live.view.is_in(session):
            return
        attach_external(live, UpstreamSessionId(session), is_background=is_background)
        live.commit_here()

    # --- its end ---------------------------------------------------------------------------------

    @_again
    def end(self, call: AgentsCall, told: CallEnded) -> LiveTurn | None:
        """Commit what a call's sub-agent did, and how the call ended; returns the turn.

        None for a call that is over already, or was taken over.
        """
        live = self.open_turn(turn_id_of(call))
        if not live:
            return None
        if told.session and not live.view.is_in(told.session):
            attach_external(live, UpstreamSessionId(told.session))
        if told.outcome is Outcome.CANCELLED and live.view.sent:
            self._give_up(live, TurnEnded(outcome=told.outcome, detail=told.detail or CANCELLED))
            return live
        live.give = live.fences
        if not live.view.sent:
            detail = told.detail or told.reply or NO_CHILD
            live.commit_here(TurnEnded(outcome=told.outcome, detail=detail))
            return live
        found, result = self._found(live, told)
        self._record(live, found)
        sent = live.prompt().sent_text
        live.account.note(result, prompt_characters=len(sent), reply_characters=len(live.reply))
        self._conclude(live, result, found)
        return live

    def _found(self, live: LiveTurn, told: CallEnded) -> tuple[Recognised, PromptResult]:
        """Return what the agent's own store has of the turn, and how it ended.

        The reply is the hook's where the store does not have it yet.
        """
        found = recognised_in_store(live) or NOTHING_RECOGNISED
        is_ok = told.outcome is Outcome.OK
        tail = with_reply(live, found.tail, told.reply if is_ok else "")
        if told.tokens_window is not None:
            window = UsageReported(
                upstream_session_id=live.current_session,
                tokens_used=None,
                tokens_window=told.tokens_window,
            )
            tail = (*tail, window)
        result = PromptResult(
            outcome=told.outcome, detail=told.detail, reset_at_ms=told.reset_at_ms
        )
        return replace(found, tail=tail), result

    def _record(self, live: LiveTurn, found: Recognised) -> None:
        """Record what the sub-agent did, with the files that it read and wrote."""
        now_ms = self.system.now_ms()
        recorder = recorder_of(live, is_read_back=True)
        live.recorder = recorder
        live.account.begin(recorder)
        after = live.view.sent.prompt_seq if live.view.sent else 0
        tail = tuple(self._own(live, found.tail))
        recorded = live.messages(after_seq=after)
        for event in within_quota(unrecorded(tail, recorded, children=recorder.known)):
            recorder.record(event, at_ms=now_ms)
        said = recorder.finish(at_ms=now_ms)
        examiner = examiner_of(live, unseen_after_ns=found.written_at_ns)
        live.add(*examiner.with_files(said, at_ms=now_ms))

    def _own(self, live: LiveTurn, tail: Sequence[AgentEvent]) -> Iterator[AgentEvent]:
        """Yield events without the sub-agents that are a conversation of their own."""
        elsewhere: dict[str, bool] = {}

        def is_elsewhere(session: str) -> bool:
            if session not in elsewhere:
                owner = self.owner_of(session)
                elsewhere[session] = owner is not None and owner.parent_conversation_id is None
            return elsewhere[session]

        for event in tail:
            if elsewhere.get(event.upstream_session_id or ""):
                continue
            match event:
                case ChildStarted() | ChildEnded() if is_elsewhere(event.child_upstream_session_id):
                    continue
                case ToolCallUpdated(child_upstream_session_id=str() as child) if is_elsewhere(
                    child
                ):
                    yield replace(event, child_upstream_session_id=None)
                case _:
                    yield event

    def _conclude(self, live: LiveTurn, result: PromptResult, found: Recognised) -> None:
        """Commit the end, or that the turn is parked: by the table that `tell` goes by."""
        if ROLLOVER[result.outcome].recovery in PARKS:
            # A park has no stamp of the session, which tells that its store was read.
            live.hold(PromptRecognised(recognition=found.recognition))
            because = TurnParked(
                reason=result.outcome, detail=result.detail, reset_at_ms=result.reset_at_ms
            )
            live.commit_here(parked_event(live, because))
            return
        end_with(live, result)

    def cancel_open(self, holder: Holder, main_session: str, *, has_ended: bool = False) -> None:
        """End the calls of a main session that a person broke off, those in the background apart.

        No agent tells of a call that was broken off; the person's next prompt is the sign. With
        `has_ended` the background ends too, where the agent's store says that a person stopped it.
        """
        own = replace(holder, doing="", call=None)
        for their, live, call in self.open_calls():
            theirs = replace(their, doing="", call=None)
            if theirs != own or call.main_session != main_session:
                continue
            attached = live.view.attached
            is_behind = attached is not None and attached.is_background
            if not live.view.sent and self._failed(live.turn_id):
                continue
            if not is_behind or (has_ended and _was_stopped(live, call)):
                find_child(live)
                self._give_up(live, TurnEnded(outcome=Outcome.CANCELLED, detail=CANCELLED))

    def _give_up(self, live: LiveTurn, ended: TurnEnded) -> None:
        live.give = live.fences
        end_here(live, rest_of(live, ended))

    # --- after a crash ---------------------------------------------------------------------------

    def recover_dead(self) -> tuple[str, ...]:
        """Record what agents did that have died, from their own stores; returns what failed.

        A call stays open, as one of ours does: the next prompt of its role ends it.
        """
        faults: list[str] = []
        for lease, holder, turn_id in tuple(self.held_calls()):
            try:
                if not self._failed(turn_id) and self.system.is_dead(holder):
                    self._recover(turn_id, lease, holder)
            except StoreError as error:
                faults.append(error.message)
            except (ConflictError, FencedError):
                continue  # another process was quicker
        return tuple(faults)

    def _failed(self, turn_id: str) -> bool:
        """End a call that failed, or was refused, without a hook; returns whether it did."""
        live = self.open_turn(TurnId(turn_id))
        call = live.view.call if live else None
        if not live or not call or call.agent not in SILENT:
            return False
        found = session_in_store(live) or live.own_sessions.of_call(call)
        if not found or not found.failure:
            return False
        self.end(call, CallEnded(outcome=found.failure.outcome, detail=found.failure.detail))
        return True

    def _recover(self, turn_id: TurnId, lease: Lease, dead: Holder) -> None:
        """Read a call back in one commit, which frees its conversation.

        What cannot be read, or is not there yet, is looked for again by whoever comes next.
        """
        live = self.turn(turn_id)
        if not live:
            return
        found_child(live)
        found = read_in_store(live)
        if not found:
            return
        self._record(live, found)
        assert live.recorder
        live.hold(recognised_event(found.recognition, live.recorder.counted))
        mine = self.system.this_process(f"reading back {dead.doing}")
        live.take = LeaseClaim(name=lease.name, holder=mine, seen=lease)
        live.give = (live.take.fence,)
        live.commit_here()


def main_id_of(agent: str, main_session: str) -> ConversationId:
    """Return the id of the conversation that stands for an agent's main session."""
    return ConversationId(f"con_{digest_of(agent, main_session)}")


def turn_id_of(call: AgentsCall) -> TurnId:
    """Return the id of a call's turn: the same in each process that hears of the call."""
    return TurnId(f"trn_{digest_of(call.agent, call.main_session, call.call_id)}")


def digest_of(*words: str) -> str:
    """Return what words come to in an id."""
    text = "\0".join(words)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:26]


def call_of(request: TellRequest) -> AgentsCall:
    """Return the agent's call that a request is made of."""
    assert request.call, "a turn of an agent's own has the call that began it"
    return request.call


def _words_of(request: TellRequest) -> dict[str, int]:
    """Return by what a call is known again that was sent back: it comes again with another id."""
    return {"words": int(digest_of(call_of(request).main_session, request.task.text)[:12], 16)}


def _was_stopped(live: LiveTurn, call: AgentsCall) -> bool:
    """Return whether a person stopped a call's main session, as its store says. Blocking."""
    try:
        main = UpstreamSessionId(call.main_session)
        found = live.own_sessions.read(call.agent, main, call.agent)
    except StoreError:
        return False
    return bool(found and found.failure and found.failure.outcome is Outcome.CANCELLED)
