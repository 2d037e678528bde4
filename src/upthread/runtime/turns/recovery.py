"""Recovery: a turn whose prompt may have left, gone on with by the agent's own history.

Reply complete: adopted. Prompt there: a continuation. Absent: sent again, with what the record has
of the turn. Cannot be told: parked.
What the history shows is judged in core/turns/recognition.py. An agent may outlive us and go on
alone: what it then reports, with an action failed that nobody was there to allow, is not complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from upthread.agents.base import AgentConnection, PromptResult
from upthread.core.commands import Write
from upthread.core.decision.words import RESUME
from upthread.core.events import (
    AgentEvent,
    PromptRecognised,
    PromptSent,
    TurnEnded,
    TurnParked,
    UsageReported,
)
from upthread.core.text import without_mentions
from upthread.core.turns.effects import held
from upthread.core.turns.prompt import (
    EFFECTS_DONE_HEADING,
    continuation,
    effects_block,
    is_continuation,
)
from upthread.core.turns.recognition import (
    CutOffCall,
    Recognised,
    StoredFailure,
    StoredSession,
    recognise,
)
from upthread.core.turns.replayed_history import attended_calls, unrecorded
from upthread.core.turns.spent_tokens import NOTHING_COUNTED, Counted, recognised_event
from upthread.core.turns.turn import HELD_BACK, UNDECIDABLE, Recognition
from upthread.core.types import ContextPart, Message, Outcome, Speaker
from upthread.errors import StoreError
from upthread.runtime.turns.live_turn import LiveTurn
from upthread.runtime.turns.older_record import as_recorded
from upthread.runtime.turns.turn_end import ended_event
from upthread.runtime.turns.turn_history import (
    doubts,
    earlier_prompts,
    effects_before,
    effects_of_turn,
    prior_of,
    recorder_of_rest,
    sent_event,
)

if TYPE_CHECKING:
    from upthread.runtime.turns.delivery import Attached
    from upthread.runtime.turns.live_turn import Answer


async def recover(live: LiveTurn, connection: AgentConnection) -> Answer | None:
    """Adopt, continue, send again or park; None when nothing was sent.

    Raises UpstreamError for a session that cannot be attached.
    """
    from upthread.runtime.turns.delivery import (  # noqa: PLC0415  # a hook attaches nothing
        attach,
        attached_event,
        notify_started,
        stream,
        telling_of_wait,
    )

    current = live.require_link().upstream_session_id
    async with telling_of_wait(live, f"open session {current}"):
        # Of an agent that only resumes nobody can tell whether it got its prompt: the turn
        # parks until a person says to go on.
        attached = await attach(connection, decision=RESUME, current=current, wants_history=True)
    message, found = await live.read(lambda: _recognised(live, attached))
    known = PromptRecognised(recognition=found.recognition)
    # Before anything leaves: whoever takes over from here ends this process first, by its pid.
    await live.commit(attached_event(live, connection, attached))
    notify_started(live, recognition=found.recognition)
    if found.recognition is Recognition.COMPLETE:
        await live.read(lambda: _adopt(live, found))
        return None
    # Never guessed: sent once more, a prompt that had arrived would be carried out twice.
    if found.recognition is Recognition.UNDECIDABLE or not live.view.may_send:
        detail = f"{found.recognition} after {live.view.sends} sends"
        await live.commit(known, TurnParked(reason=UNDECIDABLE, detail=detail))
        return None
    # Where each call is asked about first, what is in doubt is held back at that call instead.
    if not connection.capabilities.can_hold and await live.read(lambda: _holds_back(live, found)):
        return None
    text = await live.read(lambda: _continued(live, message, found))
    return await stream(live, connection, text)


def _adopt(live: LiveTurn, found: Recognised) -> None:
    ended, writes = adopted_end(live, found)
    # With the end, as for a reply that was heard: a run must not wait for one that is there.
    follow_up = live.request.at_end(live.turn_id, ended, live.reply)
    live.commit_here(_known(live, found), ended, writes=(*writes, *follow_up))


def _continued(live: LiveTurn, message: Message, found: Recognised) -> str:
    """Commit a continuation, with the actions known of the turn, and return its text.

    A session that lacks the prompt gets it once more, with the actions of the turn if it has
    any: an agent may store a turn at its end only, and die before.
    """
    is_absent = found.recognition is Recognition.ABSENT
    if is_absent and not effects_of_turn(live):
        # Counted before it leaves: a prompt that ends this process is not sent for ever.
        live.commit_here(_known(live, found), _sent(live))
        return message.sent_text
    tail = tail_writes(live, found)
    effects = _known_effects(live, found)
    # The newest prompt that is no continuation, because those would grow. It may be newer than
    # the turn's first one: a session that was made since was told the role and the past.
    own = live.messages(after_seq=live.intended.prompt_seq - 1)
    sent = [each.sent_text for each in reversed(own) if each.speaker is Speaker.USER]
    # Of a turn that continues another one, its first prompt.
    asked = next((text for text in sent if not is_continuation(text)), sent[-1])
    if asked.startswith(EFFECTS_DONE_HEADING):
        asked = asked.partition("\n\n")[2]  # that list was of then
    text = continuation(asked, effects, was_unattended=found.was_unattended)
    if is_absent and not is_continuation(message.sent_text):
        text = f"{without_mentions(effects_block(effects))}\n\n{asked}"
    seq = live.next_seq
    parts = (ContextPart(text=text),)
    writes = (*tail, live.user_parts(seq, 0, parts, stamp=live.current_session))
    again = sent_event(
        seq,
        prior_of(live),
        # A session that has the prompt needs no past; else it is in the prompt.
        is_injected=is_absent and _sent(live).is_prior_injected,
    )
    live.commit_here(_known(live, found), again, writes=writes)
    live.advance_to(seq + 1)
    return text


def _holds_back(live: LiveTurn, found: Recognised) -> bool:
    """Park the turn for what an agent may do again that neither asks nor tells before it acts.

    It did not ask the last time. What only the agent's history knows is put on record first.
    """
    live.commit_here(writes=tail_writes(live, found))
    parked = parked_unheld(live)
    if parked is None:
        return False
    live.commit_here(_known(live, found), parked)
    return True


def parked_unheld(live: LiveTurn) -> TurnParked | None:
    """Return the park of a turn whose agent may do an action again that it does not ask for."""
    done = held((*effects_before(live), *effects_of_turn(live)))
    unheld = next((effect for effect in done if not effect.was_asked), None)
    return TurnParked(reason=HELD_BACK, detail=unheld.in_words) if unheld else None


def _recognised(live: LiveTurn, attached: Attached) -> tuple[Message, Recognised]:
    """Return the prompt that was sent last, and what the history says of it.

    What cannot be told counts as cut off once a person said to go on: a continuation is right
    for a prompt that arrived and for one that did not.
    """
    message = _prompt_of_session(live)
    found = Recognised(recognition=Recognition.UNDECIDABLE)
    if attached.history is not None:
        found = _judged(live, message, attached.history)
    if found.recognition is Recognition.UNDECIDABLE and live.view.is_person_asked:
        found = structs.replace(found, recognition=Recognition.INCOMPLETE)
    return message, found


def _prompt_of_session(live: LiveTurn) -> Message:
    """Return the prompt that left last for the session: a new one may have refused a later one."""
    last = live.message(_sent(live).prompt_seq)
    own = live.messages(after_seq=live.intended.prompt_seq - 1)
    of_session = [
        each
        for each in own
        if each.speaker is Speaker.USER and each.upstream_session_id == live.current_session
    ]
    return last if last in of_session or not of_session else of_session[-1]


def recognised_in_store(live: LiveTurn) -> Recognised | None:
    """Return what the agent's own store says of the prompt that was sent last, nothing started.

    None where nothing was sent, and where nobody here reads that agent's store. Blocking.
    """
    try:
        return read_in_store(live)
    except StoreError:
        return None  # the person is told why once the record is compared with the session


def read_in_store(live: LiveTurn) -> Recognised | None:
    """As `recognised_in_store`; raises StoreError for a store that cannot be read. Blocking."""
    found = _session_in_store(live)
    if found is None:
        return None
    judged = _judged(live, _prompt_of_session(live), found.events)
    return structs.replace(judged, written_at_ns=found.written_at_ns)


def failure_in_store(live: LiveTurn) -> StoredFailure | None:
    """Return how a call failed, where the agent's store says so and no hook does. Blocking."""
    found = _session_in_store(live)
    return found.failure if found else None


def _session_in_store(live: LiveTurn) -> StoredSession | None:
    """Return the session that the prompt went to, or its call's, as the agent's store has it."""
    link, call = live.link, live.view.intended.call if live.view.intended else None
    if link is None or live.view.sent is None:
        return None
    own, session = live.request.own_sessions, link.upstream_session_id
    if call is None:
        return own.read(link.agent, session, link.agent)
    main, call_id = call.main_session, call.call_id
    return own.of_call(
        CutOffCall(agent=link.agent, main_session=main, call_id=call_id, session=session)
    )


def _judged(live: LiveTurn, message: Message, history: Sequence[AgentEvent]) -> Recognised:
    recorded = live.messages(after_seq=message.seq)
    earlier, has_older = earlier_prompts(live)
    return recognise(
        as_recorded(history, live.request.redactor),
        sent_text=message.sent_text,
        earlier=earlier,
        has_older=has_older,
        attended_calls=attended_calls(recorded),
    )


def adopted_end(live: LiveTurn, found: Recognised) -> tuple[TurnEnded, tuple[Write, ...]]:
    """Return the end of a turn whose reply was found whole, and what goes with it. Blocking."""
    writes = tail_writes(live, found)
    live.adopted_reply = found.reply
    adopted = PromptResult(outcome=Outcome.OK)
    return ended_event(live, adopted, writes=writes), writes


class Rest(Struct, frozen=True):
    """What is recorded of a turn that nobody goes on with: its end, and what only its agent knew.

    `known` is what became of its prompt, where the agent's own store says it.
    """

    known: tuple[PromptRecognised, ...]
    ended: TurnEnded
    writes: tuple[Write, ...]

    @property
    def is_complete(self) -> bool:
        """Whether its prompt was answered to the end all the same."""
        return self.ended.outcome is Outcome.OK


def rest_of(live: LiveTurn, ended: TurnEnded) -> Rest:
    """Return the end of a turn that nobody goes on with, as its agent's own store has it. Blocking.

    `ended` is how it ends where its reply is not known to be complete.
    """
    found = recognised_in_store(live)
    if found is not None and found.recognition is Recognition.COMPLETE:
        # Whole, with its report: a run that the turn is a step of looks at how it ended.
        adopted, writes = adopted_end(live, found)
        return Rest((_known(live, found),), adopted, writes)
    if live.link is None:
        return Rest((), ended, ())
    # Calls without an end get an unknown one: no provider takes a history with an open call.
    judged = found or Recognised(recognition=Recognition.UNDECIDABLE)
    writes = tail_writes(live, judged)
    return Rest((_known(live, judged),) if found else (), ended, writes)


def _known(live: LiveTurn, found: Recognised) -> PromptRecognised:
    """Return what a history says of the turn's prompt, once the history has been recorded."""
    # What this process counted itself comes with the turn's end.
    counted = live.counted if live.account.spent is None else NOTHING_COUNTED
    return recognised_event(found.recognition, counted)


def tail_writes(live: LiveTurn, found: Recognised) -> tuple[Write, ...]:
    """Return writes for what the agent did before the crash and we had not recorded. Blocking."""
    sent = live.view.sent
    messages = live.messages(after_seq=sent.prompt_seq) if sent else ()
    # Goes on with the calls that the crash left open: their results may be in the history only.
    recorder = recorder_of_rest(live)
    for event in unrecorded(found.tail, messages):
        recorder.record(event, at_ms=live.now_ms())
    # A history that came otherwise than from the store may count nothing: Codex's does not.
    is_stored = bool(found.written_at_ns)
    live.counted = recorder.counted if is_stored else _counted_in_store(live)
    writes = recorder.finish(at_ms=live.now_ms())
    live.advance_past(writes)
    return writes


def _counted_in_store(live: LiveTurn) -> Counted:
    """Return what the agent's own store counts of the prompt that was sent last. Blocking."""
    found, counted = recognised_in_store(live), NOTHING_COUNTED
    for event in found.tail if found else ():
        if isinstance(event, UsageReported):
            is_own = event.upstream_session_id == live.current_session
            counted = counted.and_one(event, is_own=is_own)
    return counted


def _known_effects(live: LiveTurn, found: Recognised) -> tuple[str, ...]:
    """Return the actions known, in words: those on record, then what only the history tells.

    The record has what each was; a history may tell no more than the tool's name, or nothing.
    """
    recorded = (*doubts(live), *effects_of_turn(live))
    statuses = {call_id: status for call_id, _, status in found.effects}
    on_record = {effect.call_id for effect in recorded}
    told = [f"{title}: {status}" for id_, title, status in found.effects if id_ not in on_record]
    known = (each.with_outcome(statuses.get(each.call_id, each.state)) for each in recorded)
    return (*known, *told)


def _sent(live: LiveTurn) -> PromptSent:
    assert live.view.sent is not None
    return live.view.sent
