"""The beginning of a turn: what it finds, what is decided, and the intent that is committed.

The same for a prompt that upthread sends and for a call that an agent's own tool makes. Blocking.

A call's turn has the same id in each process that hears of the call: a hook finds in one read which
turn a call is, who holds it, and in which session it works.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from upthread.core.commands import OpenTurn, Write
from upthread.core.context.prior_context import has_prior_context
from upthread.core.decision.handshake import REFUSE, HandshakeInputs, decide
from upthread.core.decision.words import (
    FIRST,
    NOT_FOLLOWED,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    Spending,
    Tokens,
)
from upthread.core.events import SessionAttached, TurnEnded, TurnIntended
from upthread.core.turns.prompt import NEW_SESSION_DECISIONS, wants_fresh, without_fresh
from upthread.core.turns.recognition import CutOffCall
from upthread.core.turns.replayed_history import Lacked
from upthread.core.turns.spent_tokens import cost_of
from upthread.core.turns.turn import TurnState, TurnView
from upthread.core.types import (
    ContextPart,
    Decision,
    Message,
    Outcome,
    Speaker,
    TextPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import StoreError
from upthread.runtime.record.turn_views import totals_of
from upthread.runtime.turns.conversation import Claim
from upthread.runtime.turns.handshake_inputs import Subject, gathered
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.older_record import look, other_profile, read_back
from upthread.runtime.turns.recovery import prior_of, rest_of, sent_event

RESUMING: Final = frozenset({RESUME, RESUME_WITH_UPDATE})

# --- the session of a call: banked once known, or found in its agent's own store ---------------


def attach_external(
    live: LiveTurn,
    session: UpstreamSessionId,
    *,
    is_background: bool = False,
) -> tuple[Write, ...]:
    """Hold the events by which a turn has its session; returns what opens a new link. Blocking.

    The next commit has both: the prompt left when the agent began the session.
    """
    view, agent = live.view, live.request.claim.agent
    live.agent_version = live.agent_version or _version(live)
    is_new = live.link is None or live.link.upstream_session_id != session
    was_new = view.attached is not None and view.attached.how == "new"
    writes = _linked(live, session) if is_new else ()
    live.hold(
        SessionAttached(
            upstream_session_id=session,
            how="new" if is_new or was_new else "resumed",
            agent=agent,
            agent_host=live.host,
            agent_profile=live.request.own_sessions.profile(agent, agent, {}),
            is_background=is_background,
        )
    )
    if live.view.state is TurnState.ATTACHED:
        prior = prior_of(live)
        seq = live.intended.prompt_seq
        told = (part.text for part in live.prompt().parts if isinstance(part, ContextPart))
        is_replay = live.intended.decision == RESUME_WITH_REPLAY
        is_injected = is_replay or any(map(has_prior_context, told))
        live.hold(sent_event(seq, prior, is_injected=is_injected))
    return writes


def _version(live: LiveTurn) -> str:
    call = live.intended.call
    if call is None:
        return ""
    try:
        main = UpstreamSessionId(call.main_session)
        return live.request.own_sessions.version(call.agent, main)
    except StoreError:
        return ""


def _linked(live: LiveTurn, session: UpstreamSessionId) -> tuple[Write, ...]:
    intended = live.intended
    is_begun = live.view.state is not TurnState.INTENDED
    if intended.decision in RESUMING and live.link is not None and not is_begun:
        # The agent began a session of its own in place of the one that it was told of.
        live.hold(structs.replace(intended, decision=FIRST, reasons=(NOT_FOLLOWED,)))
    because = live.intended.reasons[0]
    return live.new_link(session, because=because, ended_because=because)


def find_child(live: LiveTurn) -> None:
    """Attach the sub-agent that nobody saw begin, where its agent's own store has one. Blocking.

    Does nothing for a turn that upthread drives.
    """
    try:
        writes = found_child(live)
    except StoreError:
        return  # the turn stays one of which nobody knows whether its prompt arrived
    if writes is not None:
        live.commit_here(writes=writes)


def found_child(live: LiveTurn) -> tuple[Write, ...] | None:
    """As `find_child`, held for the next commit; returns its writes, None for nothing to write.

    Raises StoreError for a store that cannot be read.
    """
    call = live.view.intended.call if live.view.intended else None
    if call is None or live.view.sent is not None:
        return None
    sought = CutOffCall(agent=call.agent, main_session=call.main_session, call_id=call.call_id)
    found = live.request.own_sessions.of_call(sought)
    session = found.upstream_session_id if found is not None else session_of(live)
    return attach_external(live, session) if session else None


def session_of(live: LiveTurn) -> UpstreamSessionId | None:
    """Return the session that a call works in, or is to resume; None where nobody knows."""
    if live.view.attached is not None:
        return live.view.attached.upstream_session_id
    is_resumed = live.intended.decision in RESUMING
    return live.current_session if is_resumed else None


def end_open_turn(live: LiveTurn) -> bool:
    """Commit the end of a turn that another takes the place of. Blocking.

    Returns whether its prompt was answered to the end all the same, as its agent's store says.
    """
    # A call whose agent died within moments is known to the agent's own store alone.
    find_child(live)
    outcome = live.outcome_of_park if live.view.parked else Outcome.PROCESS_DIED
    ended = TurnEnded(outcome=outcome, detail="interrupted; a new prompt took its place")
    rest = rest_of(live, ended)
    live.commit_here(*rest.known, rest.ended, writes=rest.writes)
    return rest.is_complete


def catch_up(live: LiveTurn) -> None:
    """Record what an agent did that outlived its cancelled turn. Blocking."""
    ended, attached, link = live.view.ended, live.view.attached, live.link
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
    rest = rest_of(live, ended)
    live.store.commit(rest.writes, fences=live.fences)


def looked_at(live: LiveTurn) -> tuple[Lacked, Decision | None]:
    """Return what the record lacks and, where it lacks nothing, what was decided."""
    found = lacked(live)
    return found, None if found.turns else decided_and_meant(live, found)


def lacked(live: LiveTurn) -> Lacked:
    """Return what the record lacks of the session."""
    request, last = live.request, live.claim.last
    # The claim has the last turn as it was found; here it may have been ended since.
    newest = live.view if live.view.events else last[1] if last else None
    return look(live.store, request.own_sessions, live.link, newest, redactor=request.redactor)


def record_read_back(live: LiveTurn, claim: Claim, found: Lacked) -> None:
    """Commit what only the agent's session has. Blocking."""
    writes = read_back(
        live.store,
        claim,
        found,
        new_id=lambda: live.system.new_id("trn"),
        at_ms=live.now_ms(),
    )
    live.commit_here(writes=writes)


def decided_and_meant(live: LiveTurn, found: Lacked) -> Decision:
    """Decide, and commit the intent of what is not refused. Blocking."""
    decision = decided(live, found)
    if decision.decision != REFUSE:
        _intend(live, decision)
    return decision


def decided_on_open(live: LiveTurn) -> Decision:
    """As `decided`, before the open turn is ended that the prompt takes the place of."""
    return decided(live, Lacked(other_profile=_elsewhere(live)))


def continued(live: LiveTurn) -> Decision:
    """Decide whether a turn may continue, by its session's profile and by tokens. Blocking."""
    inputs, tokens_max = live.inputs, live.request.options.tokens_max
    assert inputs is not None
    if tokens_max is not None:
        # What a session holds is what the next request of it reads at the least.
        held = live.view.parked.tokens_held if live.view.parked else None
        resume = Tokens(count=held, is_estimate=False) if held is not None else None
        price = structs.replace(inputs.price, resume=resume)
        live.inputs = inputs = structs.replace(inputs, price=price)
        live.account.allowed = allowed(live, tokens_max, RESUME)
    # The turn stays in its session, whatever the role wants of the next prompt.
    return decide(
        structs.replace(
            inputs,
            other_profile=_elsewhere(live),
            spending=live.account.allowed,
            continuity="resume",
            condition_before=None,
        )
    )


def _elsewhere(live: LiveTurn) -> str:
    """Return the other profile that has the session, empty for none."""
    return other_profile(live.store, live.request.own_sessions, live.link)


def decided(live: LiveTurn, found: Lacked) -> Decision:
    """Return how the prompt is to be sent. What is refused leaves all as it was. Blocking."""
    request = live.request
    inputs = structs.replace(
        live.claim.inputs(request.claim),
        is_fresh_asked=wants_fresh(request.task.text) or request.options.is_fresh,
        condition_now=request.condition,
        **found.as_inputs,
    )
    live.inputs = _gathered(live, inputs, is_counted=False)
    decision = decide(live.inputs)
    # What a new session costs is told, and limited, by what its briefing really takes.
    if decision.decision in NEW_SESSION_DECISIONS:
        live.inputs = _gathered(live, inputs, is_counted=True)
        decision = decide(live.inputs)
    tokens_max = request.options.tokens_max
    if tokens_max is not None and decision.decision != REFUSE:
        # Only now, and decided again: what a turn takes at least depends on how it attaches.
        live.account.allowed = allowed(live, tokens_max, decision.decision)
        live.inputs = structs.replace(live.inputs, spending=live.account.allowed)
        decision = decide(live.inputs)
    return decision


def _gathered(live: LiveTurn, inputs: HandshakeInputs, *, is_counted: bool) -> HandshakeInputs:
    """Add to the inputs what has changed and what each way would cost. Blocking."""
    request = live.request
    subject = Subject(
        conversation=live.conversation,
        link=live.link,
        role=request.claim.role,
        working_directory=request.open.working_directory,
        agent=inputs.agent,
        settings=request.settings,
        now_ms=live.now_ms(),
    )
    return gathered(live.store, inputs, subject, is_counted=is_counted)


def _intend(live: LiveTurn, decision: Decision) -> None:
    """Commit what is meant, with the person's words."""
    intended, prompt, writes = intent(live, decision)
    live.commit_here(intended, writes=writes)
    # The store may have a redacted one by now; this process sends what it was told.
    live.keep_told(prompt)


def intent(
    live: LiveTurn, decision: Decision, turn_id: TurnId | None = None
) -> tuple[TurnIntended, Message, tuple[Write, ...]]:
    """Begin a turn; returns its first event, its prompt, and the writes that go with the two.

    What mints a new conversation is among them.
    """
    request = live.request
    live.take_up(turn_id or TurnId(live.system.new_id("trn")), TurnView())
    # `fresh:` is said to upthread, and is no part of what is asked.
    prompt = TextPart(text=without_fresh(request.task.text))
    prompt_seq = live.next_seq
    conversation_id = live.conversation_id
    intended = TurnIntended(
        decision=decision.decision,
        reasons=decision.reasons,
        prompt_seq=prompt_seq,
        inputs=decision.inputs,
        condition=request.condition,
        key=request.options.key,
        call=request.call,
    )
    now_ms = live.now_ms()
    opened = OpenTurn(
        turn_id=live.turn_id,
        conversation_id=conversation_id,
        opened_at_ms=now_ms,
        run_id=request.run_id,
    )
    said = live.user_parts(prompt_seq, 0, (prompt,), stamp=live.current_session)
    message = Message(
        conversation_id=conversation_id,
        seq=prompt_seq,
        speaker=Speaker.USER,
        turn_id=live.turn_id,
        upstream_session_id=live.current_session,
        recorded_at_ms=now_ms,
        parts=(prompt,),
    )
    writes = (*live.claim.opens, opened, said, *request.at_intent(live.turn_id))
    return intended, message, writes


def allowed(live: LiveTurn, tokens_max: int, decision: str) -> Spending:
    """Return what may be spent and was, and what a turn decided so would take at least."""
    assert live.inputs is not None
    count = live.request.spent
    return Spending(
        tokens_max=tokens_max,
        spent=count() if count else totals_of(live.store, live.conversation_id).spent,
        next_turn=cost_of(decision, live.inputs.price),
    )
