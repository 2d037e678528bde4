"""How a turn goes on that an agent drives: its sub-agent's session, its end, what is left of it.

What the sub-agent did is read from the agent's own store, and committed with the turn's end in one
step. Everything here is blocking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from upthread.agents.base import PromptResult
from upthread.core.commands import Write
from upthread.core.decision.rollover import ROLLOVER, Recovery
from upthread.core.events import (
    AgentEvent,
    AgentsCall,
    ChildEnded,
    ChildStarted,
    PromptRecognised,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    TurnEnded,
    TurnParked,
    UsageReported,
)
from upthread.core.quotas import TurnQuota
from upthread.core.turns.recognition import Recognised
from upthread.core.turns.replayed_history import unrecorded
from upthread.core.turns.spent_tokens import recognised_event
from upthread.core.turns.turn import Recognition
from upthread.core.types import Fence, Holder, Lease, LeaseClaim, Outcome, TurnId, UpstreamSessionId
from upthread.errors import ConflictError, FencedError, QuotaExceededError, StoreError
from upthread.runtime.turns.beginning import (
    again,
    attach_external,
    find_child,
    found_child,
    turn_id_of,
)
from upthread.runtime.turns.external_turn import BeginningCalls
from upthread.runtime.turns.live_turn import LiveTurn, end_here, ended_event, parked_event
from upthread.runtime.turns.recovery import (
    examiner_of,
    failure_in_store,
    known_children,
    read_in_store,
    recognised_in_store,
    recorder_of_rest,
    rest_of,
)

PARKS: Final = frozenset({Recovery.WAIT, Recovery.PARK, Recovery.RETRY_ONCE})
"""What is done about an outcome where the turn waits for a person, or for its time."""

SILENT: Final = frozenset({"codex"})
"""Agents that call no hook for a sub-agent that failed; their stores say it."""

CANCELLED: Final = "interrupted by the caller"
NO_CHILD: Final = "the agent began no sub-agent"


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


class ExternalTurns(BeginningCalls):
    """The turns that an agent drives, in one project: they are found, begun, recorded and ended."""

    # --- while it goes on ------------------------------------------------------------------------

    def started(self, call: AgentsCall, session: str, *, is_background: bool = False) -> None:
        """Bank the session that a call's sub-agent works in."""
        again(lambda: self._bank(call, session, is_background=is_background))

    def _bank(self, call: AgentsCall, session: str, *, is_background: bool) -> None:
        live = self.open_turn(turn_id_of(call))
        if live is None or not session:
            return
        attached = live.view.attached
        # Two hooks run at once: that of the start may come after that of the answer.
        is_told = attached is not None and (attached.is_background or not is_background)
        if is_told and attached is not None and attached.upstream_session_id == session:
            return
        writes = attach_external(live, UpstreamSessionId(session), is_background=is_background)
        live.commit_here(writes=writes)

    # --- its end ---------------------------------------------------------------------------------

    def end(self, call: AgentsCall, told: CallEnded) -> LiveTurn | None:
        """Commit what a call's sub-agent did, and how the call ended; returns the turn.

        None for a call that is over already, or was taken over.
        """
        return again(lambda: self._end(call, told))

    def _end(self, call: AgentsCall, told: CallEnded) -> LiveTurn | None:
        live = self.open_turn(turn_id_of(call))
        if live is None:
            return None
        writes: tuple[Write, ...] = ()
        attached = live.view.attached
        if told.session and (attached is None or attached.upstream_session_id != told.session):
            writes = attach_external(live, UpstreamSessionId(told.session))
        if told.outcome is Outcome.CANCELLED and live.view.sent is not None:
            if writes:
                live.commit_here(writes=writes)
            self._give_up(live, TurnEnded(outcome=told.outcome, detail=told.detail or CANCELLED))
            return live
        live.give = live.fences
        if live.view.sent is None:
            detail = told.detail or told.reply or NO_CHILD
            live.commit_here(TurnEnded(outcome=told.outcome, detail=detail), writes=writes)
            return live
        found, result = self._found(live, told)
        done = self._done(live, found)
        sent = live.prompt().sent_text
        live.account.note(result, prompt_characters=len(sent), reply_characters=len(live.reply))
        self._conclude(live, result, (*writes, *done), found)
        return live

    def _found(self, live: LiveTurn, told: CallEnded) -> tuple[Recognised, PromptResult]:
        """Return what the agent's own store has of the turn, and how it ended.

        The reply is the hook's where the store does not have it yet.
        """
        found = recognised_in_store(live)
        if found is None:
            found = Recognised(recognition=Recognition.UNDECIDABLE)
        is_ok = told.outcome is Outcome.OK
        tail = _with_reply(live, found.tail, told.reply if is_ok else "")
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
        return structs.replace(found, tail=tail), result

    def _done(self, live: LiveTurn, found: Recognised) -> tuple[Write, ...]:
        """Return the writes of what the sub-agent did, with the files that it read and wrote."""
        now_ms = self.system.now_ms()
        recorder = recorder_of_rest(live)
        children = known_children(live.store, live.conversation)
        live.recorder = recorder
        live.account.begin(recorder)
        after = live.view.sent.prompt_seq if live.view.sent else 0
        quota = TurnQuota()
        tail = tuple(self._own(live, found.tail))
        known = {child.upstream_session_id for child in children}
        for event in unrecorded(tail, live.messages(after_seq=after), children=known):
            try:
                quota.take(event)
            except QuotaExceededError:
                break  # what it said until then is worth having
            recorder.record(event, at_ms=now_ms)
        said = recorder.finish(at_ms=now_ms)
        examiner = examiner_of(live, unseen_after_ns=found.written_at_ns)
        examiner.notice(said)
        return (*said, *examiner.look(at_ms=now_ms))

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
                    yield structs.replace(event, child_upstream_session_id=None)
                case _:
                    yield event

    def _conclude(
        self, live: LiveTurn, result: PromptResult, writes: Sequence[Write], found: Recognised
    ) -> None:
        """Commit the end, or that the turn is parked: by the table that `tell` goes by."""
        if ROLLOVER[result.outcome].recovery in PARKS:
            # A park has no stamp of the session, which tells that its store was read.
            live.hold(PromptRecognised(recognition=found.recognition))
            because = TurnParked(
                reason=result.outcome, detail=result.detail, reset_at_ms=result.reset_at_ms
            )
            live.commit_here(parked_event(live, because), writes=writes)
            return
        ended = ended_event(live, result, writes=writes)
        end_here(live, ended, writes)

    def cancel_open(self, holder: Holder, main_session: str, *, has_ended: bool = False) -> None:
        """End the calls of a main session that a person broke off, those in the background apart.

        No agent tells of a call that was broken off; the person's next prompt is the sign. With
        `has_ended` the background ends too, where the agent's store says that a person stopped it.
        """
        own = structs.replace(holder, doing="", call=None)
        for their, live, call in self.open_calls():
            theirs = structs.replace(their, doing="", call=None)
            if theirs != own or call.main_session != main_session:
                continue
            attached = live.view.attached
            is_behind = attached is not None and attached.is_background
            if not is_behind or (has_ended and _was_stopped(live, call)):
                find_child(live)
                self._give_up(live, TurnEnded(outcome=Outcome.CANCELLED, detail=CANCELLED))

    def _give_up(self, live: LiveTurn, ended: TurnEnded) -> None:
        live.give = live.fences
        rest = rest_of(live, ended)
        for known in rest.known:
            live.hold(known)
        end_here(live, rest.ended, rest.writes)

    # --- after a crash ---------------------------------------------------------------------------

    def recover_dead(self) -> tuple[str, ...]:
        """Record what agents did that have died, from their own stores; returns what failed.

        A call stays open, as one of ours does: the next prompt of its role ends it.
        """
        faults: list[str] = []
        for lease in self.held_calls():
            assert lease.holder is not None
            try:
                if not self._failed(lease.holder) and self.system.is_dead(lease.holder):
                    self._recover(lease, lease.holder)
            except StoreError as error:
                faults.append(error.message)
            except (ConflictError, FencedError):
                continue  # another process was quicker
        return tuple(faults)

    def _failed(self, holder: Holder) -> bool:
        """End a call that failed without a hook being told; returns whether it did."""
        live = self.open_turn(TurnId(holder.call or ""))
        call = live.intended.call if live else None
        if live is None or call is None or call.agent not in SILENT:
            return False
        failure = failure_in_store(live)
        if failure is not None:
            self.end(call, CallEnded(outcome=failure.outcome, detail=failure.detail))
        return failure is not None

    def _recover(self, lease: Lease, dead: Holder) -> None:
        """Read a call back in one commit, which frees its conversation.

        What cannot be read, or is not there yet, is looked for again by whoever comes next.
        """
        live = self.turn(TurnId(dead.call or ""))
        if live is None:
            return
        writes = found_child(live)
        found = read_in_store(live)
        if found is None:
            return
        done = self._done(live, found)
        assert live.recorder is not None
        live.hold(recognised_event(found.recognition, live.recorder.counted))
        mine = self.system.this_process(f"reading back {dead.doing}")
        live.take = (LeaseClaim(name=lease.name, holder=mine, seen=lease),)
        live.give = (Fence(name=lease.name, token=lease.token + 1),)
        live.commit_here(writes=(*(writes or ()), *done))


def _was_stopped(live: LiveTurn, call: AgentsCall) -> bool:
    """Return whether a person stopped a call's main session, as its store says. Blocking."""
    try:
        main = UpstreamSessionId(call.main_session)
        found = live.request.own_sessions.read(call.agent, main, call.agent)
    except StoreError:
        return False
    return bool(found and found.failure and found.failure.outcome is Outcome.CANCELLED)


def _with_reply(live: LiveTurn, tail: Sequence[AgentEvent], reply: str) -> tuple[AgentEvent, ...]:
    """Return what a turn did with its reply, which the agent's store may not have yet.

    Calls without an end are left out then: they have ended, and their ends are not written yet.
    """
    redactor = live.request.redactor
    text = "".join(event.text for event in tail if isinstance(event, TextReceived))
    said = redactor.redact(reply) if redactor else reply
    if not reply or reply in text or said in text:
        return tuple(tail)
    ended = {
        event.call_id
        for event in tail
        if isinstance(event, ToolCallUpdated) and event.status in {"completed", "failed"}
    }
    kept = (
        event
        for event in tail
        if not isinstance(event, ToolCallAnnounced | ToolCallUpdated) or event.call_id in ended
    )
    return (*kept, TextReceived(upstream_session_id=live.current_session, text=reply))
