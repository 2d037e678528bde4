"""Recovering: a turn whose prompt may have left, gone on with by the agent's own history.

Reply complete: adopted. Prompt there: one continuation. Absent: sent once more. Cannot be told:
parked. What the history shows is judged in core/recognition.py. An agent may outlive us and go on
alone: what it then reports, with an action failed that nobody was there to allow, is not complete.
"""

from __future__ import annotations

from dataclasses import replace

from upthread.agents.base import AgentConnection, PromptResult
from upthread.core.catching_up import attended_calls, unrecorded
from upthread.core.commands import Write
from upthread.core.events import PromptRecognised, PromptSent, TurnParked
from upthread.core.prompt import continuation
from upthread.core.recognition import Recognised, recognise
from upthread.core.turn import UNDECIDABLE, Recognition
from upthread.core.types import ContextPart, Message, Outcome
from upthread.runtime.attach import Attached, attach_with_history
from upthread.runtime.live_turn import LiveTurn
from upthread.runtime.looking_back import (
    earlier_texts,
    effects_of_turn,
    know_children,
    prior_of,
    recorder_of_rest,
)
from upthread.runtime.sending import Answer, Sender
from upthread.runtime.system import System


class Recoverer:
    """Reads the agent's history back and goes on from there."""

    def __init__(self, system: System, sender: Sender) -> None:
        self._system = system
        self._sender = sender

    async def recover(self, live: LiveTurn, connection: AgentConnection) -> Answer | None:
        """Adopt, continue, send again or park; None when nothing was sent.

        Raises UpstreamError for a session that cannot be attached.
        """
        sent = _sent(live)
        current = live.require_link().upstream_session_id
        attached = live.as_recorded(await attach_with_history(connection, current=current))
        message = await live.message(sent.prompt_seq)
        found = await self._recognised(live, attached, message)
        known = PromptRecognised(recognition=found.recognition)
        await live.commit(live.attached_event(connection, attached))
        live.tell_started(recognition=found.recognition)
        if found.recognition is Recognition.COMPLETE:
            await self._adopt(live, found, known)
            return None
        if found.recognition is Recognition.UNDECIDABLE or not live.view.may_send:
            detail = f"{found.recognition} after {live.view.sends} sends"
            await live.commit(known, TurnParked(reason=UNDECIDABLE, detail=detail))
            return None
        if found.recognition is Recognition.ABSENT:
            await live.commit(known, sent)
            return await self._sender.stream(live, connection, message.sent_text)
        return await self._continue(live, connection, message, found)

    async def _recognised(self, live: LiveTurn, attached: Attached, message: Message) -> Recognised:
        """Return what the history says of our prompt.

        What cannot be told counts as cut off once a person said to go on: a continuation is right
        for a prompt that arrived and for one that did not. It tells the actions on record, since
        the history tells none.
        """
        found = Recognised(recognition=Recognition.UNDECIDABLE)
        if attached.history is not None:
            recorded = await live.messages_of_turn(after_seq=_sent(live).prompt_seq)
            found = recognise(
                attached.history,
                sent_text=message.sent_text,
                prompts_before=_sent(live).prompts_before,
                earlier_texts=await earlier_texts(live),
                attended_calls=attended_calls(recorded),
            )
        if found.recognition is Recognition.UNDECIDABLE and live.view.is_person_asked:
            effects = tuple(effect.in_words for effect in await effects_of_turn(live))
            return replace(found, recognition=Recognition.INCOMPLETE, effects=effects)
        return found

    async def _adopt(self, live: LiveTurn, found: Recognised, known: PromptRecognised) -> None:
        writes = await self._record_tail(live, found)
        live.adopted_reply = found.reply
        ended = await live.ended_event(PromptResult(outcome=Outcome.OK))
        follow_up = live.request.at_end(live.turn_id, ended, live.reply)
        await live.commit(known, ended, writes=(*writes, *follow_up))

    async def _continue(
        self, live: LiveTurn, connection: AgentConnection, message: Message, found: Recognised
    ) -> Answer:
        """Send the one continuation, with the actions known of the turn."""
        tail = await self._record_tail(live, found)
        text = continuation(message.sent_text, found.effects, was_unattended=found.was_unattended)
        seq = live.next_seq
        parts = (ContextPart(text=text),)
        writes = (*tail, live.user_parts(seq, 0, parts, stamp=live.current_session))
        again = live.sent_event(
            seq,
            await prior_of(live),
            prompts_before=_sent(live).prompts_before + 1,
            is_injected=False,
        )
        await live.commit(PromptRecognised(recognition=found.recognition), again, writes=writes)
        live.next_seq = seq + 1
        return await self._sender.stream(live, connection, text)

    async def _record_tail(self, live: LiveTurn, found: Recognised) -> tuple[Write, ...]:
        """Return writes for what the agent did before the crash and we had not recorded."""
        messages = await live.messages_of_turn(after_seq=_sent(live).prompt_seq)
        recorder = await recorder_of_rest(live)
        await know_children(live, recorder)
        now_ms = self._system.now_ms()
        for event in unrecorded(found.tail, messages):
            recorder.record(event, at_ms=now_ms)
        writes = recorder.finish(at_ms=now_ms)
        live.advance_past(writes)
        return writes


def _sent(live: LiveTurn) -> PromptSent:
    assert live.view.sent is not None
    return live.view.sent
