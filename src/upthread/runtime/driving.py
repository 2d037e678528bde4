"""Driving: one turn, from where it stands to its end, by carrying out what `core.turn` names next.

A session is attached exactly as decided and its id banked before the prompt runs; what the agent
says is recorded while it says it; the outcome and all that follows from it is one commit. A turn
whose prompt may have left is gone on with by what the agent's own history says. What is decided is
in the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import anyio

from upthread.agents.base import AgentConnection, PromptResult
from upthread.core import turn as turns
from upthread.core.catching_up import unrecorded
from upthread.core.commands import EndLink, OpenLink, Write
from upthread.core.events import (
    AttachFailed,
    PromptRecognised,
    PromptSent,
    TurnEnded,
    TurnParked,
)
from upthread.core.handshake import GONE, RESUME, decide
from upthread.core.prompt import context_for, continuation
from upthread.core.recognition import Recognised, recognise
from upthread.core.recorder import Recorder
from upthread.core.turn import Recognition, TurnCommand
from upthread.core.types import (
    ContextPart,
    Link,
    Message,
    Outcome,
    Part,
    UpstreamSessionId,
)
from upthread.errors import FencedError, UpstreamError
from upthread.runtime.attach import Attached, attach, attach_with_history
from upthread.runtime.live_turn import LiveTurn, TurnResult
from upthread.runtime.looking_back import (
    briefing,
    earlier_texts,
    know_children,
    quarantined,
    recorder_of_rest,
)
from upthread.runtime.recording import Recording
from upthread.runtime.system import System
from upthread.store.base import Store
from upthread.tasks import task_group

NOT_KEPT: Final = "the prompt was not sent, and of its text not all was kept: send it again"

CLEAN_UP_S = 15.0
"""How long an interrupted turn may take to cancel its agent and commit its end."""


class Driver:
    """Drives turns that are begun. Every method works on the turn in its hands."""

    def __init__(self, store: Store, system: System) -> None:
        self._store = store
        self._system = system

    async def drive(self, live: LiveTurn) -> TurnResult:
        try:
            async with live.request.adapter.open(live.open_request()) as connection:
                while not live.view.is_over:
                    await self._carry_out(live, connection)
        except UpstreamError as error:
            await self._fail(live, error)
        except anyio.get_cancelled_exc_class():
            await self._cancelled(live)
            raise
        return live.result()

    async def _carry_out(self, live: LiveTurn, connection: AgentConnection) -> None:
        command = turns.NEXT_COMMAND[live.view.state]
        if command is TurnCommand.ATTACH:
            await self._attach(live, connection)
        elif command is TurnCommand.SEND:
            await self._send(live, connection)
        else:
            assert command is TurnCommand.RECOGNISE, command
            await self._recover(live, connection)

    async def _fail(self, live: LiveTurn, error: UpstreamError) -> None:
        """End the turn with the agent's failure; what may have been sent is parked."""
        live.error = error
        if live.view.is_over:
            return
        outcome = Outcome(error.outcome)
        if turns.NEXT_COMMAND[live.view.state] is TurnCommand.RECOGNISE:
            parked = TurnParked(reason=outcome, detail=str(error), reset_at_ms=error.reset_at_ms)
            await live.commit(parked)
            return
        await self._end(live, TurnEnded(outcome=outcome, detail=str(error)))

    async def _cancelled(self, live: LiveTurn) -> None:
        """Commit the end of a turn that a person interrupted, unless it was taken over."""
        with anyio.move_on_after(CLEAN_UP_S, shield=True):
            if live.view.is_over or turns.NEXT_COMMAND[live.view.state] is TurnCommand.RECOGNISE:
                return
            left = live.recording.close() if live.recording else ()
            ended = TurnEnded(outcome=Outcome.CANCELLED, detail="interrupted by the caller")
            try:
                await self._end(live, ended, writes=left)
            except FencedError:
                return  # the holder that took over goes on with the turn; this is why we are here

    async def _end(self, live: LiveTurn, ended: TurnEnded, writes: Sequence[Write] = ()) -> None:
        follow_up = live.request.at_end(live.turn_id, ended, live.reply)
        await live.commit(ended, writes=(*writes, *follow_up))

    # --- attaching -----------------------------------------------------------------------------

    async def _attach(self, live: LiveTurn, connection: AgentConnection) -> None:
        intended = live.view.intended
        assert intended is not None
        decision = RESUME if _is_banked(live) else intended.decision
        try:
            attached = await attach(connection, decision=decision, current=live.current_session)
        except UpstreamError as error:
            await self._decide_again(live, error)
            return
        writes = await self._bank(live, connection, attached) if attached.how == "new" else ()
        await live.commit(live.attached_event(connection, attached), writes=writes)
        live.tell_started()

    async def _decide_again(self, live: LiveTurn, error: UpstreamError) -> None:
        """A session that is gone for certain is closed with its cause; anything else is raised."""
        outcome = Outcome(error.outcome)
        if outcome not in GONE or live.link is None or live.view.sends >= turns.SENDS_MAX:
            raise error
        await self._roll_over(live, outcome, str(error))

    async def _roll_over(
        self, live: LiveTurn, outcome: Outcome, detail: str, *, writes: Sequence[Write] = ()
    ) -> None:
        """Close the link with its cause and decide again, knowing that the session is gone."""
        assert live.link is not None
        assert live.inputs is not None
        now_ms = self._system.now_ms()
        link, live.link = live.link, None
        live.inputs = replace(live.inputs, failed_attach=outcome, current_agent=None)
        decision = decide(live.inputs)
        failed = AttachFailed(
            upstream_session_id=link.upstream_session_id, outcome=outcome, detail=detail
        )
        again = replace(
            live.require_intended(),
            decision=decision.decision,
            reasons=decision.reasons,
            inputs=decision.inputs,
        )
        end = EndLink(
            conversation_id=link.conversation_id,
            seq=link.seq,
            ended_because=outcome,
            ended_at_ms=now_ms,
        )
        await live.commit(failed, again, writes=(*writes, end))
        live.advance_past(writes)

    async def _bank(
        self, live: LiveTurn, connection: AgentConnection, attached: Attached
    ) -> tuple[Write, ...]:
        """Return the writes that close the old link and bank the new upstream id."""
        because = live.require_intended().reasons[0]
        now_ms = self._system.now_ms()
        ends: tuple[Write, ...] = ()
        if live.link is not None:
            ends = (
                EndLink(
                    conversation_id=live.link.conversation_id,
                    seq=live.link.seq,
                    ended_because=because,
                    ended_at_ms=now_ms,
                ),
            )
        live.link = Link(
            conversation_id=live.conversation.conversation_id,
            seq=await live.next_link_seq(),
            upstream_session_id=attached.upstream_session_id,
            agent=live.request.claim.agent,
            agent_version=connection.capabilities.version,
            working_directory=live.request.open.working_directory,
            opened_because=because,
            opened_at_ms=now_ms,
        )
        return (*ends, OpenLink(link=live.link))

    # --- sending -------------------------------------------------------------------------------

    async def _send(self, live: LiveTurn, connection: AgentConnection) -> None:
        if not await live.has_whole_prompt():
            await self._end(live, TurnEnded(outcome=Outcome.UNKNOWN, detail=NOT_KEPT))
            return
        context = context_for(
            role=live.request.claim.role,
            task=live.request.task,
            decision=live.telling,
            briefing=await briefing(live, live.telling),
        )
        message, writes = await self._prompt_message(live, context)
        sent = PromptSent(prompt_seq=message.seq, prompts_before=live.prompts_before())
        await live.commit(sent, writes=writes)
        live.advance_past(writes)
        await self._stream(live, connection, message.sent_text)

    async def _prompt_message(
        self, live: LiveTurn, context: str
    ) -> tuple[Message, tuple[Write, ...]]:
        """Return the message as it is sent, and the writes that complete the record of it."""
        message = await live.prompt()
        if live.view.sends:  # it went to a session that is gone: what is sent now is another one
            text = "\n\n".join(piece for piece in (context, message.text) if piece)
            parts: tuple[Part, ...] = (ContextPart(text=text),)
            write = live.user_parts(live.next_seq, 0, parts, stamp=live.current_session)
            return replace(message, seq=live.next_seq, parts=parts), (write,)
        if not context:
            return message, ()
        parts = (ContextPart(text=context),)
        stamp = message.upstream_session_id
        write = live.user_parts(message.seq, len(message.parts), parts, stamp=stamp)
        return replace(message, parts=(*message.parts, *parts)), (write,)

    async def _stream(self, live: LiveTurn, connection: AgentConnection, text: str) -> None:
        live.recording = recording = await self._recording(live)
        upstream_session_id = live.require_link().upstream_session_id
        results: list[PromptResult] = []
        async with task_group() as tasks:
            tasks.start_soon(recording.keep_flushing)
            results.append(
                await _prompt(connection, upstream_session_id, text, recording=recording)
            )
            tasks.cancel_scope.cancel()
        await self._conclude(live, results[0], recording.close())

    async def _recording(self, live: LiveTurn) -> Recording:
        recorder = Recorder(
            conversation=live.conversation,
            turn_id=live.turn_id,
            link=live.require_link(),
            next_seq=live.next_seq,
            call_durability=live.request.durability,
            quarantined=await quarantined(live) if live.view.sends > 1 else 0,
        )
        await know_children(live, recorder)
        live.recorder = recorder
        return Recording(
            store=self._store,
            system=self._system,
            recorder=recorder,
            fences=live.fences,
            on_event=live.request.listener.event,
        )

    async def _conclude(
        self, live: LiveTurn, result: PromptResult, writes: tuple[Write, ...]
    ) -> None:
        live.reset_at_ms = result.reset_at_ms
        if live.unanswered is not None:
            asked = live.unanswered
            detail = f"{asked.title} ({asked.tool_kind}): nobody was there to allow it"
            await live.commit(TurnParked(reason="permission", detail=detail), writes=writes)
            return
        if result.outcome is Outcome.PROCESS_DIED:
            # What it had done is in its history alone: to be read there before anything is sent.
            parked = TurnParked(reason=Outcome.PROCESS_DIED, detail=result.detail)
            await live.commit(parked, writes=writes)
            return
        if result.outcome in GONE and live.view.sends < turns.SENDS_MAX:
            await self._roll_over(live, result.outcome, result.detail, writes=writes)
            return
        ended = TurnEnded(
            outcome=result.outcome,
            report=live.report_data(),
            detail=result.detail,
            tokens_used=live.recorder.tokens_used if live.recorder else None,
        )
        await self._end(live, ended, writes=writes)

    # --- recovering ----------------------------------------------------------------------------

    async def _recover(self, live: LiveTurn, connection: AgentConnection) -> None:
        """Read the agent's history and adopt, continue, send again or park."""
        sent = live.view.sent
        assert sent is not None
        current = live.require_link().upstream_session_id
        try:
            attached = await attach_with_history(connection, current=current)
        except UpstreamError as error:
            await self._decide_again(live, error)
            return
        attached = live.as_recorded(attached)
        message = await live.message(sent.prompt_seq)
        found = await self._recognised(live, attached, message)
        known = PromptRecognised(recognition=found.recognition)
        await live.commit(live.attached_event(connection, attached))
        live.tell_started(recognition=found.recognition)
        if found.recognition is Recognition.UNDECIDABLE or (
            found.recognition is not Recognition.COMPLETE and live.view.sends >= turns.SENDS_MAX
        ):
            detail = f"{found.recognition} after {live.view.sends} sends"
            await live.commit(known, TurnParked(reason="undecidable", detail=detail))
        elif found.recognition is Recognition.COMPLETE:
            await self._adopt(live, found, known)
        else:
            await self._send_more(live, connection, message, found)

    async def _recognised(self, live: LiveTurn, attached: Attached, message: Message) -> Recognised:
        """Return what the history says of our prompt.

        What cannot be told counts as cut off once a person said to go on: a continuation is right
        for a prompt that arrived and for one that did not.
        """
        sent = live.view.sent
        assert sent is not None
        found = Recognised(recognition=Recognition.UNDECIDABLE)
        if attached.history is not None:
            found = recognise(
                attached.history,
                sent_text=message.sent_text,
                prompts_before=sent.prompts_before,
                earlier_texts=await earlier_texts(live),
            )
        if found.recognition is Recognition.UNDECIDABLE and live.view.is_person_asked:
            return replace(found, recognition=Recognition.INCOMPLETE)
        return found

    async def _adopt(self, live: LiveTurn, found: Recognised, known: PromptRecognised) -> None:
        writes = await self._record_tail(live, found)
        live.adopted_reply = found.reply
        ended = TurnEnded(outcome=Outcome.OK, report=live.report_data(), adopted=True)
        follow_up = live.request.at_end(live.turn_id, ended, live.reply)
        await live.commit(known, ended, writes=(*writes, *follow_up))

    async def _send_more(
        self, live: LiveTurn, connection: AgentConnection, message: Message, found: Recognised
    ) -> None:
        """Send the prompt again if it never arrived, else the one continuation."""
        sent = live.view.sent
        assert sent is not None
        known = PromptRecognised(recognition=found.recognition)
        if found.recognition is Recognition.ABSENT:
            await live.commit(known, sent)
            await self._stream(live, connection, message.sent_text)
            return
        tail = await self._record_tail(live, found)
        text = continuation(message.sent_text, found.effects)
        seq = live.next_seq
        writes = (
            *tail,
            live.user_parts(seq, 0, (ContextPart(text=text),), stamp=live.current_session),
        )
        again = PromptSent(prompt_seq=seq, prompts_before=sent.prompts_before + 1)
        await live.commit(known, again, writes=writes)
        live.next_seq = seq + 1
        await self._stream(live, connection, text)

    async def _record_tail(self, live: LiveTurn, found: Recognised) -> tuple[Write, ...]:
        """Return writes for what the agent did before the crash and we had not recorded."""
        assert live.view.sent is not None
        messages = await live.messages_of_turn(after_seq=live.view.sent.prompt_seq)
        recorder = await recorder_of_rest(live)
        await know_children(live, recorder)
        now_ms = self._system.now_ms()
        for event in unrecorded(found.tail, messages):
            recorder.record(event, at_ms=now_ms)
        writes = recorder.finish(at_ms=now_ms)
        live.advance_past(writes)
        return writes


def _is_banked(live: LiveTurn) -> bool:
    """Whether this turn has made and banked its session already, and the crash came after that."""
    attached = live.view.attached
    return attached is not None and attached.upstream_session_id == live.current_session


async def _prompt(
    connection: AgentConnection,
    upstream_session_id: UpstreamSessionId,
    text: str,
    *,
    recording: Recording,
) -> PromptResult:
    """Prompt, and turn the agent's failure into the outcome it is."""
    try:
        return await connection.prompt(upstream_session_id, text, on_event=recording.take)
    except UpstreamError as error:
        return PromptResult(
            outcome=Outcome(error.outcome), detail=str(error), reset_at_ms=error.reset_at_ms
        )
