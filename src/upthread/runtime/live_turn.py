"""A turn in the hands of this process: its request, its view, and where its messages go next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec

from upthread.agents.base import (
    AgentConnection,
    OpenRequest,
    PromptResult,
)
from upthread.core import turn as turns
from upthread.core.commands import RecordParts, RecordTurnEvent, Write
from upthread.core.decisions import freshness_in, price_in
from upthread.core.events import (
    PromptSent,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.freshness import Freshness
from upthread.core.handshake import FIRST, START_FRESH, HandshakeInputs
from upthread.core.price import Tokens
from upthread.core.prior_context import PriorContext, must_inject
from upthread.core.prompt import NEW_SESSION_DECISIONS
from upthread.core.recorder import Recorder
from upthread.core.redaction.placeholder import has_placeholder
from upthread.core.replayed import redacted_history
from upthread.core.reports import MalformedReportError, Report, read_report
from upthread.core.spending import NOTHING_SPENT, Reported, added, spent_on_prompt
from upthread.core.stops import NO_WORDS, NOTHING_SAID
from upthread.core.types import (
    Durability,
    Fence,
    JsonValue,
    Link,
    Message,
    Outcome,
    Part,
    Speaker,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import UpstreamError
from upthread.runtime.attach import Attached
from upthread.runtime.conversation import Claim
from upthread.runtime.delegation import Notice, TellRequest, TurnResult, TurnStarted
from upthread.runtime.gate import Gate
from upthread.runtime.gathering import surroundings
from upthread.runtime.last_words import wrote
from upthread.runtime.recording import Recording
from upthread.runtime.system import System
from upthread.runtime.tree import tree_digest
from upthread.store.base import Store

Result = TypeVar("Result")


class Spent(TypedDict):
    """What a turn's last event tells of its tokens."""

    tokens_spent: int | None
    is_spent_estimated: bool


class LiveTurn:
    """The mutable part of a turn. Every change that matters is committed before it counts."""

    def __init__(self, *, request: TellRequest, claim: Claim, store: Store, system: System) -> None:
        self.request = request
        self.claim = claim
        self.conversation = claim.conversation
        self.link: Link | None = claim.link
        self.turn_id = TurnId("")
        self.told: Message | None = None
        """The prompt as the person wrote it, None when another process was told it."""
        self.view = turns.TurnView()
        self._held: tuple[TurnEvent, ...] = ()
        self.inputs: HandshakeInputs | None = None
        self.agent_version = ""
        self.agent_calls_itself = ""
        self.next_seq = claim.messages + 1
        self.turn_number = claim.turns
        self.recorder: Recorder | None = None
        self.recording: Recording | None = None
        self.adopted_reply = ""
        self.needs_new_agent = False
        self.gate = Gate(
            request.permissions,
            outward_patterns=request.outward_patterns,
            redactor=request.redactor,
        )
        self.error: UpstreamError | None = None
        self.reset_at_ms: int | None = None
        self.spent: Tokens | None = None
        self._store = store
        self._system = system
        self._taken_at_ms = system.now_ms()

    def begin(self, turn_id: TurnId) -> None:
        """Start a new turn after the newest one."""
        self.turn_id = turn_id
        self.view = turns.TurnView()
        self.turn_number = self.claim.turns + 1

    @property
    def fences(self) -> tuple[Fence, ...]:
        """The leases without which nothing of this turn may be written."""
        return (*self.claim.fences, *self.request.fences)

    @property
    def reply(self) -> str:
        """The reply so far."""
        return self.adopted_reply or (self.recorder.reply if self.recorder else "")

    def require_link(self) -> Link:
        assert self.link is not None
        return self.link

    def require_intended(self) -> TurnIntended:
        assert self.view.intended is not None
        return self.view.intended

    def hold(self, event: TurnEvent) -> None:
        """Append to the turn's life with the next commit: for what a crash may take with it."""
        self._held += (event,)
        self.view = turns.apply(self.view, event)

    async def commit(self, *events: TurnEvent, writes: Sequence[Write] = ()) -> None:
        """Append to the turn's life, with what belongs to the same moment, in one commit."""
        now_ms = self._system.now_ms()
        committed = self.view.events - len(self._held)
        records = tuple(
            RecordTurnEvent(
                turn_id=self.turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=now_ms,
                durability=_durability(event),
            )
            for seq, event in enumerate((*self._held, *events), committed + 1)
        )
        # A turn is opened before its first event; all else is older than the event it led to.
        parks = (each for each in events if isinstance(each, TurnParked))
        follow_up = (w for each in parks for w in self.request.at_park(self.turn_id, each))
        batch = (*writes, *records, *follow_up)

        def write() -> None:
            self._store.commit(batch, fences=self.fences)
            # Here and not below: a caller that is cancelled meanwhile must know what is written.
            self._held = ()
            for event in events:
                self.view = turns.apply(self.view, event)

        await self._system.in_thread(write)

    @property
    def current_session(self) -> UpstreamSessionId | None:
        """The upstream session the conversation holds, None before one is known."""
        return self.link.upstream_session_id if self.link else None

    def user_parts(
        self,
        seq: int,
        first_ordinal: int,
        parts: tuple[Part, ...],
        *,
        stamp: UpstreamSessionId | None,
    ) -> RecordParts:
        """Return the write that records parts of the user's message; one message has one stamp."""
        return RecordParts(
            conversation_id=self.conversation.conversation_id,
            seq=seq,
            first_ordinal=first_ordinal,
            speaker=Speaker.USER,
            turn_id=self.turn_id,
            upstream_session_id=stamp,
            recorded_at_ms=self._system.now_ms(),
            parts=parts,
            durability=self.request.durability,
        )

    def advance_past(self, writes: Sequence[Write]) -> None:
        """Let the next message follow the ones that these writes record."""
        own = self.conversation.conversation_id
        for write in writes:
            if isinstance(write, RecordParts) and write.conversation_id == own:
                self.next_seq = max(self.next_seq, write.seq + 1)

    async def read(self, query: Callable[[Store], Result]) -> Result:
        """Ask the store something, off the event loop."""
        return await self._system.in_thread(lambda: query(self._store))

    @property
    def freshness(self) -> Freshness:
        """What had changed when the turn was decided."""
        return freshness_in(self.require_intended().inputs)

    def new_nonce(self) -> str:
        """Return a word that no content can have known."""
        return self._system.new_id("prior")

    async def message(self, seq: int) -> Message:
        """Read one message back as it was recorded."""
        conversation_id = self.conversation.conversation_id
        found = await self.read(lambda store: store.message(conversation_id, seq))
        assert found is not None, f"{conversation_id} has no message {seq}"
        return found

    async def prompt(self) -> Message:
        """Return the turn's prompt, as it was written if this process was told it."""
        if self.told is not None:
            return self.told
        return await self.message(self.require_intended().prompt_seq)

    async def has_whole_prompt(self) -> bool:
        """Return whether the prompt can be sent as it was written."""
        text = (await self.prompt()).text
        return self.told is not None or bool(text.strip() and not has_placeholder(text))

    def as_recorded(self, attached: Attached) -> Attached:
        """Return what was attached, its history as it would have been recorded."""
        if attached.history is None or self.request.redactor is None:
            return attached
        return replace(attached, history=redacted_history(attached.history, self.request.redactor))

    async def messages_of_turn(self, *, after_seq: int) -> tuple[Message, ...]:
        """Read the messages of this turn after one of its prompts."""
        conversation_id = self.conversation.conversation_id
        found = await self.read(lambda store: store.messages(conversation_id, after_seq=after_seq))
        return tuple(message for message in found if message.turn_id == self.turn_id)

    async def next_link_seq(self) -> int:
        """Return the number of the link that opens next."""
        conversation_id = self.conversation.conversation_id
        return len(await self.read(lambda store: store.links(conversation_id))) + 1

    @property
    def holds_claimed_link(self) -> bool:
        """Whether the current link is the one the conversation was claimed with."""
        return self.link is not None and self.link == self.claim.link

    @property
    def telling(self) -> str:
        """The decision whose context is due: a session nobody has prompted yet knows nothing."""
        decision = self.require_intended().decision
        is_blank = self.holds_claimed_link and not self.claim.prompts.has_any
        return START_FRESH if is_blank and decision not in NEW_SESSION_DECISIONS else decision

    @property
    def is_elsewhere(self) -> bool:
        """Whether another agent, or another host, is to go on than the session's."""
        if self.link is None or self.link.agent != self.request.claim.agent:
            return self.link is not None
        is_on_other_host = self.inputs is not None and self.inputs.other_host is not None
        return is_on_other_host and self.holds_claimed_link

    @property
    def has_last_turn_ended(self) -> bool:
        """Whether the conversation's last turn, as it was claimed, had come to its end."""
        if self.claim.last is None:
            return True
        last = self.claim.last[1]
        return last.ended is not None and not last.was_cut_off

    @property
    def must_inject(self) -> bool:
        """Whether the session is told what was said before; a briefing takes its place."""
        if self.telling in {FIRST, START_FRESH}:
            return False
        last = self.claim.last[1].ended if self.claim.last else None
        return must_inject(
            self.request.injection,
            is_same_session=self.telling not in NEW_SESSION_DECISIONS,
            has_last_turn_ended=self.has_last_turn_ended,
            was_compacted=last is not None and last.was_compacted,
        )

    def prompts_before(self) -> int:
        """Return how many prompts the upstream session is known to have answered."""
        return self.claim.prompts.answered if self.holds_claimed_link else 0

    def attached_event(self, connection: AgentConnection, attached: Attached) -> SessionAttached:
        """Return the event that names the session and the process that serves it."""
        process = connection.process
        self.agent_version = connection.capabilities.version
        self.agent_calls_itself = connection.capabilities.calls_itself
        return SessionAttached(
            upstream_session_id=attached.upstream_session_id,
            how=attached.how,
            agent=self.request.claim.agent,
            agent_pid=process.pid if process else None,
            agent_started_at_ticks=process.started_at_ticks if process else None,
            agent_host=self._system.this_process("").host,
        )

    def sent_event(
        self, prompt_seq: int, prior: PriorContext, *, prompts_before: int, is_injected: bool
    ) -> PromptSent:
        """Return the event that keeps what leaves, and what was said before it."""
        return PromptSent(
            prompt_seq=prompt_seq,
            prompts_before=prompts_before,
            prior_from_seq=prior.from_seq,
            prior_to_seq=prior.to_seq,
            prior_digest=prior.digest if prior.said else "",
            is_prior_injected=is_injected and bool(prior.said),
        )

    async def ended_event(self, result: PromptResult, *, late_events: int = 0) -> TurnEnded:
        """Return the end of the turn as its prompt ended, with what its session works in now."""
        recorder = self.recorder
        return TurnEnded(
            outcome=result.outcome,
            report=self.report_data(),
            adopted=bool(self.adopted_reply),
            detail=result.detail or self._silence(result.outcome),
            tokens_used=recorder.tokens_used if recorder else None,
            tokens_window=recorder.tokens_window if recorder else None,
            was_compacted=recorder is not None and recorder.was_compacted,
            late_events=late_events,
            surroundings=await self._system.in_thread(self._surroundings),
            tree_digest=await self._system.in_thread(self._tree_digest),
            **self.spending(),
        )

    def _silence(self, outcome: Outcome) -> str:
        """Return what is to be said of a turn that went well and has no word for a reply."""
        if outcome is not Outcome.OK or self.reply.strip():
            return ""
        # What a process before this one saw of the turn is not in its recorder.
        has_worked = self.view.sends > 1 or (self.recorder is not None and self.recorder.has_worked)
        return NO_WORDS if has_worked else NOTHING_SAID

    def note_spent(self, result: PromptResult, *, prompt_characters: int) -> None:
        """Add what a prompt took, as its agent told it."""
        reported = Reported(
            read=result.tokens_in, written=result.tokens_out, held=result.tokens_used
        )
        took = spent_on_prompt(reported, characters=prompt_characters + len(self.reply))
        self.spent = added((self.spent, took)) if self.spent else took

    def spending(self) -> Spent:
        """Return what the turn's last event tells of its tokens."""
        if self.spent is None:
            return {"tokens_spent": None, "is_spent_estimated": False}
        return {
            "tokens_spent": self.spent.count,
            "is_spent_estimated": self.spent.is_estimate,
        }

    def _surroundings(self) -> JsonValue:
        """Return what the session works in, as plain data. Blocking."""
        claim = self.request.claim
        here = surroundings(
            working_directory=self.request.open.working_directory,
            agent=claim.agent,
            agent_version=self.agent_version,
            role=claim.role,
            at_ms=self._system.now_ms(),
        )
        data: JsonValue = msgspec.to_builtins(here)
        return data

    def _tree_digest(self) -> str:
        """Return the digest of what was judged, empty for a turn that judges no tree. Blocking."""
        if not self.request.is_tree_judged:
            return ""
        return tree_digest(Path(self.request.open.working_directory))

    def tell_version(self) -> None:
        """Tell the listener of an agent in another version than was tested.

        Not again while the conversation goes on in the version that was told.
        """
        tested, version = self.request.tested(self.agent_calls_itself), self.agent_version
        text = tested.warning(version) if tested else ""
        was = self.inputs.surroundings if self.inputs else None
        if tested is None or not text or (was and was.agent_version == version):
            return
        agent = self.request.claim.agent
        about = {"agent": agent, "version": version, "tested_with": tested.version}
        self.request.listener.notice(Notice(kind="agent_version", text=text, about=about))

    def tell_started(self, *, recognition: str = "") -> None:
        """Tell the listener what was decided, now that the session is known."""
        intended = self.require_intended()
        self.request.listener.started(
            TurnStarted(
                conversation=self.conversation,
                turn_id=self.turn_id,
                decision=intended.decision,
                reasons=intended.reasons,
                agent=self.request.claim.agent,
                upstream_session_id=self.require_link().upstream_session_id,
                turn_number=self.turn_number,
                recognition=recognition,
                price=price_in(intended.inputs),
                freshness=freshness_in(intended.inputs),
            )
        )

    def open_request(self) -> OpenRequest:
        """Return how to start the agent, with this turn answering for permissions."""
        options = self.request.open
        return OpenRequest(
            working_directory=options.working_directory,
            stderr_path=options.stderr_path,
            redactor=self.request.redactor,
            answer_permission=self.gate.answer,
            environment={**options.environment, **self._calling_environment()},
            start_timeout_s=options.start_timeout_s,
            prompt_timeout_s=options.prompt_timeout_s,
            title=self.conversation.key.address,
        )

    def _calling_environment(self) -> dict[str, str]:
        """Let a delegation from inside this turn know which conversations wait for it."""
        path = (*self.request.claim.callers, self.conversation.conversation_id)
        return {"UPTHREAD_CALLERS": ",".join(path)}

    def report(self) -> Report | None:
        """Return the reply's report, None when there is none that can be read."""
        try:
            return read_report(self.reply)
        except MalformedReportError:
            return None

    def report_data(self) -> JsonValue:
        """Return the report as plain data for the turn's last event."""
        report = self.report()
        data: JsonValue = msgspec.to_builtins(report) if report else None
        return data

    @property
    def outcome_of_park(self) -> Outcome:
        """The agent's failure that parked the turn, unknown where it was something else."""
        known = {outcome.value for outcome in Outcome}
        reason = self.view.parked.reason if self.view.parked else ""
        return Outcome(reason) if reason in known else Outcome.UNKNOWN

    def result(self) -> TurnResult:
        """Return what became of the turn."""
        intended = self.require_intended()
        ended, parked = self.view.ended, self.view.parked
        outcome = ended.outcome if ended else self.outcome_of_park
        detail = ended.detail if ended else parked.detail if parked else ""
        if self.request.redactor is not None:
            detail = self.request.redactor.redact(detail)
        return TurnResult(
            conversation=self.conversation,
            turn_id=self.turn_id,
            decision=intended.decision,
            reasons=intended.reasons,
            upstream_session_id=self.current_session,
            outcome=outcome,
            reply=self.reply,
            report=self.report(),
            parked=parked if ended is None else None,
            detail=detail,
            reset_at_ms=self.reset_at_ms,
            turn_number=self.turn_number,
            spent=self.spent or NOTHING_SPENT,
            source=wrote(self.request.open.stderr_path, self._taken_at_ms),
        )


def _durability(event: TurnEvent) -> Durability:
    """The end of a turn is synced; it covers all that was committed before it."""
    is_end = isinstance(event, TurnEnded | TurnParked)
    return Durability.SYNCED if is_end else Durability.PROCESS
