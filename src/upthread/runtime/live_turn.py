"""A turn in the hands of this process: its request, its view, and where its messages go next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from upthread.agents.base import (
    AgentAdapter,
    AgentConnection,
    OpenRequest,
    PermissionAnswer,
    PermissionRequest,
)
from upthread.core import turn as turns
from upthread.core.briefing import BriefingInputs, build_briefing
from upthread.core.catching_up import open_calls
from upthread.core.commands import RecordParts, RecordTurnEvent, Write
from upthread.core.events import (
    AgentEvent,
    ChildStarted,
    SessionAttached,
    TurnEnded,
    TurnEvent,
    TurnIntended,
    TurnParked,
)
from upthread.core.handshake import START_FRESH, HandshakeInputs
from upthread.core.prompt import EFFECTS_HEADING, NEW_SESSION_DECISIONS, Task
from upthread.core.recorder import Recorder, child_conversation
from upthread.core.reports import MalformedReportError, Report, read_report
from upthread.core.stream import INTERRUPTED
from upthread.core.types import (
    Conversation,
    Durability,
    Fence,
    JsonValue,
    Lease,
    Link,
    Message,
    Outcome,
    Part,
    RunId,
    Speaker,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import UpstreamError
from upthread.runtime.attach import Attached
from upthread.runtime.conversation import Claim, ClaimRequest
from upthread.runtime.permissions import NOBODY, PermissionPolicy
from upthread.runtime.recording import Recording
from upthread.runtime.system import System
from upthread.store.base import Store

EARLIER_MESSAGES_MAX = 256
"""How far back prompts are looked for that failed and may yet be in the agent's history."""

KINDS_WITHOUT_EFFECT = frozenset({"read", "search", "think", "fetch"})
"""Kinds of tools, ACP's, that leave the world as it was."""

LAST_REPLY_MESSAGES_MAX = 64
"""How far back a last reply is looked for, tool results counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """What a person is told when a session is attached. `turn_number` counts from 1.

    `recognition` is set when an interrupted turn is gone on with: complete, incomplete, absent or
    undecidable, as core/recognition.py found it.
    """

    conversation: Conversation
    turn_id: TurnId
    decision: str
    reasons: tuple[str, ...]
    agent: str
    upstream_session_id: UpstreamSessionId
    turn_number: int
    recognition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where progress goes; called on the event loop, so it must not block."""

    started: Callable[[TurnStarted], None] = lambda _: None
    event: Callable[[AgentEvent], None] = lambda _: None
    waiting: Callable[[Lease], None] = lambda _: None


def _no_writes(_turn_id: TurnId) -> Sequence[Write]:
    return ()


def _no_follow_up(_turn_id: TurnId, _ended: TurnEnded, _reply: str) -> Sequence[Write]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """How the agent is started; see agents.base.OpenRequest."""

    working_directory: str
    stderr_path: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    start_timeout_s: float = 60.0
    prompt_timeout_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TellRequest:
    """One delegation. `at_intent` and `at_end` add a run's writes to the turn's own commits.

    `durability` is what a user message and a tool call are committed with.
    `condition` is the digest of what `resume_if` looks at; `reports` are what a briefing may tell.
    """

    claim: ClaimRequest
    task: Task
    adapter: AgentAdapter
    open: OpenOptions
    permissions: PermissionPolicy
    listener: Listener = field(default_factory=Listener)
    fences: tuple[Fence, ...] = ()
    run_id: RunId | None = None
    is_fresh_asked: bool = False
    condition: str | None = None
    durability: Durability = Durability.PROCESS
    goal: str = ""
    reports: tuple[tuple[str, Report], ...] = ()
    at_intent: Callable[[TurnId], Sequence[Write]] = _no_writes
    at_end: Callable[[TurnId, TurnEnded, str], Sequence[Write]] = _no_follow_up


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What became of a turn, also on failure. `report` is None when none could be read."""

    conversation: Conversation
    turn_id: TurnId
    decision: str
    reasons: tuple[str, ...]
    upstream_session_id: UpstreamSessionId | None
    outcome: Outcome
    reply: str
    report: Report | None
    parked: TurnParked | None
    detail: str
    reset_at_ms: int | None
    turn_number: int


class LiveTurn:
    """The mutable part of a turn. Every change that matters is committed before it counts."""

    def __init__(self, *, request: TellRequest, claim: Claim, store: Store, system: System) -> None:
        self.request = request
        self.claim = claim
        self.conversation = claim.conversation
        self.link: Link | None = claim.link
        self.turn_id = TurnId("")
        self.view = turns.TurnView()
        self.inputs: HandshakeInputs | None = None
        self.next_seq = claim.messages + 1
        self.turn_number = claim.turns
        self.recorder: Recorder | None = None
        self.recording: Recording | None = None
        self.adopted_reply = ""
        self.unanswered: PermissionRequest | None = None
        self.error: UpstreamError | None = None
        self.reset_at_ms: int | None = None
        self._store = store
        self._system = system

    def begin(self, turn_id: TurnId) -> None:
        """Start a new turn after the newest one."""
        self.turn_id = turn_id
        self.view = turns.TurnView()
        self.turn_number = self.claim.turns + 1

    @property
    def fences(self) -> tuple[Fence, ...]:
        """The leases without which nothing of this turn may be written."""
        return (self.claim.fence, *self.request.fences)

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

    async def commit(self, *events: TurnEvent, writes: Sequence[Write] = ()) -> None:
        """Append to the turn's life, with what belongs to the same moment, in one commit."""
        now_ms = self._system.now_ms()
        records = tuple(
            RecordTurnEvent(
                turn_id=self.turn_id,
                seq=self.view.events + 1 + offset,
                event=event,
                recorded_at_ms=now_ms,
                durability=_durability(event),
            )
            for offset, event in enumerate(events)
        )
        # A turn is opened before its first event; all else is older than the event it led to.
        batch = (*writes, *records)

        def write() -> None:
            self._store.commit(batch, fences=self.fences)
            # Here and not below: a caller that is cancelled meanwhile must know what is written.
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

    async def message(self, seq: int) -> Message:
        """Read one message back as it was recorded."""
        conversation_id = self.conversation.conversation_id
        found = await self._system.in_thread(lambda: self._store.message(conversation_id, seq))
        assert found is not None, f"{conversation_id} has no message {seq}"
        return found

    async def messages_of_turn(self, *, after_seq: int) -> tuple[Message, ...]:
        """Read the messages of this turn after one of its prompts."""
        conversation_id = self.conversation.conversation_id
        found = await self._system.in_thread(
            lambda: self._store.messages(conversation_id, after_seq=after_seq)
        )
        return tuple(message for message in found if message.turn_id == self.turn_id)

    async def earlier_texts(self) -> tuple[str, ...]:
        """Read the prompts of earlier turns that failed, as far back as they may matter."""
        return await self._system.in_thread(self._earlier_texts)

    def _earlier_texts(self) -> tuple[str, ...]:
        found = self._store.messages(self.conversation.conversation_id, newest=EARLIER_MESSAGES_MAX)
        asked = [m for m in found if m.speaker is Speaker.USER and m.turn_id != self.turn_id]
        ended = {
            turn_id: turns.fold(self._store.turn_events(turn_id)).ended
            for turn_id in {message.turn_id for message in asked}
        }
        answered = {i for i, end in ended.items() if end and end.outcome is Outcome.OK}
        return tuple(message.sent_text for message in asked if message.turn_id not in answered)

    async def recorder_of_rest(self) -> Recorder:
        """Return a recorder that goes on where recording stopped, knowing the calls left open."""
        messages = await self.messages_of_turn(after_seq=self.require_intended().prompt_seq)
        recorder = Recorder(
            conversation=self.conversation,
            turn_id=self.turn_id,
            link=self.require_link(),
            next_seq=self.next_seq,
            guarantees_owner=True,
            quarantined=await self.quarantined(),
        )
        for part in open_calls(messages):
            recorder.know_open_call(part)
        return recorder

    async def quarantined(self) -> int:
        """Read how many events of this turn are in quarantine."""
        turn_id = self.turn_id
        return len(await self._system.in_thread(lambda: self._store.quarantined(turn_id)))

    async def know_children(self, recorder: Recorder, events: Sequence[AgentEvent]) -> None:
        """Tell a recorder which of the children in a replayed history are recorded already."""
        for event in events:
            if isinstance(event, ChildStarted):
                await self._know_child(recorder, event)

    async def _know_child(self, recorder: Recorder, event: ChildStarted) -> None:
        own = self.conversation
        child = child_conversation(
            own, parent_conversation_id=own.conversation_id, started=event, opened_at_ms=0
        ).conversation_id

        def messages() -> int | None:
            return self._store.message_count(child) if self._store.conversation(child) else None

        count = await self._system.in_thread(messages)
        if count is not None:
            recorder.know_child(event.child_upstream_session_id, child, next_seq=count + 1)

    async def next_link_seq(self) -> int:
        """Return the number of the link that opens next."""
        conversation_id = self.conversation.conversation_id
        return len(await self._system.in_thread(lambda: self._store.links(conversation_id))) + 1

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

    def prompts_before(self) -> int:
        """Return how many prompts the upstream session is known to have answered."""
        return self.claim.prompts.answered if self.holds_claimed_link else 0

    async def effects_so_far(self) -> tuple[str, ...]:
        """Return what this turn is known to have done before its session was lost, in words."""
        messages = await self.messages_of_turn(after_seq=self.require_intended().prompt_seq)
        parts = [part for message in messages for part in message.parts]
        ended = {part.call_id: part.status for part in parts if isinstance(part, ToolResultPart)}
        return tuple(
            f"{part.title}: {ended.get(part.call_id, INTERRUPTED)}"
            for part in parts
            if isinstance(part, ToolCallPart) and part.tool_kind not in KINDS_WITHOUT_EFFECT
        )

    async def briefing(self, decision: str) -> str:
        """Return the briefing for a session that does not know what came before; else empty."""
        if decision not in NEW_SESSION_DECISIONS:
            return ""
        effects = await self.effects_so_far() if self.view.sends else ()
        known = "\n".join([EFFECTS_HEADING, *(f"- {effect}" for effect in effects)])
        pieces = (await self._briefing_of_past(), known if effects else "")
        return "\n\n".join(piece for piece in pieces if piece)

    async def _briefing_of_past(self) -> str:
        if self.turn_number <= 1:
            return ""
        independent = self.request.claim.role.continuity == "fresh"
        goal = self.request.goal or (await self.message(1)).text
        return build_briefing(
            BriefingInputs(
                goal=goal,
                reports=self.request.reports,
                last_reply="" if independent else await self._last_reply(),
            )
        )

    async def _last_reply(self) -> str:
        """Return the newest reply among the last messages; children's are elsewhere."""
        prompt_seq = self.require_intended().prompt_seq
        conversation_id = self.conversation.conversation_id
        earlier = await self._system.in_thread(
            lambda: self._store.messages(conversation_id, newest=LAST_REPLY_MESSAGES_MAX)
        )
        replies = [
            message.text
            for message in earlier
            if message.speaker is Speaker.ASSISTANT and message.seq < prompt_seq and message.text
        ]
        return replies[-1] if replies else ""

    def attached_event(self, connection: AgentConnection, attached: Attached) -> SessionAttached:
        """Return the event that names the session and the process that serves it."""
        process = connection.process
        return SessionAttached(
            upstream_session_id=attached.upstream_session_id,
            how=attached.how,
            agent=self.request.claim.agent,
            agent_pid=process.pid if process else None,
            agent_started_at_ticks=process.started_at_ticks if process else None,
            agent_host=self._system.this_process("").host,
        )

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
            )
        )

    def open_request(self) -> OpenRequest:
        """Return how to start the agent, with this turn answering for permissions."""
        options = self.request.open
        return OpenRequest(
            working_directory=options.working_directory,
            stderr_path=options.stderr_path,
            answer_permission=self._answer_permission,
            environment={**options.environment, **self._calling_environment()},
            start_timeout_s=options.start_timeout_s,
            prompt_timeout_s=options.prompt_timeout_s,
        )

    def _calling_environment(self) -> dict[str, str]:
        """Let a delegation from inside this turn know which conversations wait for it."""
        path = (*self.request.claim.callers, self.conversation.conversation_id)
        return {"UPTHREAD_CALLERS": ",".join(path)}

    async def _answer_permission(self, request: PermissionRequest) -> PermissionAnswer:
        answer = await self.request.permissions.answer(request)
        if answer.answered_by == NOBODY:
            self.unanswered = request
        return answer

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
        )


def _durability(event: TurnEvent) -> Durability:
    """The end of a turn is synced; it covers all that was committed before it."""
    is_end = isinstance(event, TurnEnded | TurnParked)
    return Durability.SYNCED if is_end else Durability.PROCESS
