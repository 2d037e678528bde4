"""A turn in the hands of this process: what was asked, what is on record of it, how it is left.

Its events, its view and its messages' numbers move here alone, its tokens in the account, its
permissions in the gate; the decision's inputs are set where the decision is taken
(runtime/turns/beginning.py) and taken again (runtime/turns/turns.py), what streams where it is sent
(runtime/turns/delivery.py). Everybody else reads. Nothing counts before it is committed, so the
view moves with the commit, and in its thread: a caller that is cancelled while it waits for that
thread finds the view as the store has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from msgspec import to_builtins
from msgspec.structs import replace

from upthread.agents.base import OpenRequest, PromptResult
from upthread.core.commands import EndLink, OpenLink, RecordParts, RecordTurnEvent, Write
from upthread.core.context.prior_context import must_inject
from upthread.core.decision.freshness import Freshness
from upthread.core.decision.handshake import decide
from upthread.core.decision.model import freshness_in, price_in
from upthread.core.decision.rollover import is_refused_for_good
from upthread.core.decision.rules import DECIDED_FOR, OLDER_SESSION, SESSION_EMPTY
from upthread.core.decision.words import RESUME, RESUME_WITH_REPLAY, START_FRESH, Tokens, fixed_part
from upthread.core.events import RecoveryStarted, TurnEnded, TurnEvent, TurnIntended, TurnParked
from upthread.core.names import CALLERS_VARIABLE
from upthread.core.redaction.values import has_placeholder
from upthread.core.roles.reports import MalformedReportError, Report, read_report
from upthread.core.roles.role import Role
from upthread.core.runs.stops import ASKED_NOBODY, NO_WORDS, NOTHING_SAID
from upthread.core.turns.recorder import Recorder, calls_open
from upthread.core.turns.spent_tokens import NOTHING_COUNTED, NOTHING_SPENT
from upthread.core.turns.turn import (
    NEW_SESSION_DECISIONS,
    REFUSES_TO_OPEN,
    RESTORED,
    STARTS,
    TurnState,
    TurnView,
    apply,
)
from upthread.core.types import (
    ContextPart,
    Decision,
    Durability,
    Fence,
    LeaseClaim,
    Link,
    Message,
    Outcome,
    Part,
    Speaker,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import StoreError
from upthread.runtime.record.turn_views import refusals_in_row, stamp_at_end, totals_of, wrote
from upthread.runtime.system import System
from upthread.runtime.turns.delegation import Claim, Notice, TellRequest, TurnResult, TurnStarted
from upthread.runtime.turns.recording import Account, Answer, Recording, surroundings
from upthread.store.base import Store

if TYPE_CHECKING:
    from upthread.runtime.permissions import Gate

CANCELLED = "interrupted by the caller"

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


class LiveTurn:
    """The parts of a turn. Every change that matters is committed before it counts."""

    def __init__(self, *, request: TellRequest, claim: Claim, store: Store, system: System) -> None:
        self.request = request
        self.claim = claim
        self.agent = request.agent
        self.own_sessions = request.own_sessions
        self.working_directory = request.open.working_directory
        self.conversation = claim.conversation
        self.conversation_id = claim.conversation.conversation_id
        self.account = Account()
        self.now_ms = system.now_ms
        self.taken_at_ms = system.now_ms()
        # By those who decide and drive:
        self.link: Link | None = claim.link
        self.refused_link: Link | None = None
        self.is_start_due = False
        self.lost_profile = ""
        self.inputs = claim.inputs(request)
        self.environment: Callable[[], Mapping[str, str]] = dict[str, str]
        """The running agent's, as far as it is seen."""
        self.agent_version = ""
        self.reset_at_ms: int | None = None
        # By those who send, and who adopt what came meanwhile:
        self.recorder: Recorder | None = None
        self.counted = NOTHING_COUNTED
        """What the agent's own history counts of the prompt, once it has been read back."""
        self.recording: Recording | None = None
        self.adopted_reply = ""
        self.answer: Answer | None = None
        """The end that the agent came to by itself while its caller gave the turn up."""
        self.interrupted_by: tuple[Outcome, str] | None = None
        """Outcome and detail of an interrupted prompt, whose turn another attempt continues."""
        self.has_unheard = False
        """Whether a turn stands open or unheard before those that were read back."""
        self.store = store
        self.system = system
        # Its events and its messages:
        self.turn_id = TurnId("")
        self.view = TurnView()
        self.fences = (*claim.fences, *request.fences)
        """The leases without which nothing of this turn may be written."""
        self.take: LeaseClaim | None = None
        self.give: tuple[Fence, ...] = ()
        """What the next commit takes and gives, by whoever holds a lease for an agent's process."""
        self.next_seq = claim.messages + 1
        """The number of the next message. Two messages of one number are a loss."""
        self._held: tuple[TurnEvent, ...] = ()
        self.pending: tuple[Write, ...] = ()
        """What is recorded and not committed yet: the next commit has it."""
        self._closed: Recording | None = None
        """Makes more for the next commit, in that commit's thread, where it may look at files."""
        self._told: Message | None = None

    def afresh(self, claim: Claim) -> LiveTurn:
        """Return the turn as it is to begin in its conversation as that stands by now."""
        return LiveTurn(request=self.request, claim=claim, store=self.store, system=self.system)

    @cached_property
    def gate(self) -> Gate:
        """What answers the agent's requests in this turn."""
        from upthread.runtime.permissions import Gate  # noqa: PLC0415  # a hook asks for none

        request = self.request
        return Gate(
            rules=request.settings.permissions,
            ask_person=request.ask_person,
            tree=self.working_directory,
            limits=request.role.limits,
            outward_patterns=request.settings.outward_patterns,
            redactor=request.redactor,
        )

    async def in_thread(self, step: Callable[[LiveTurn, *Given], Result], *given: *Given) -> Result:
        """Do a step of the turn off the event loop: one hop, and one moment of the store."""

        def at_one_moment() -> Result:
            with self.store.moment():
                return step(self, *given)

        return await self.system.in_thread(at_one_moment)

    @property
    def turn_number(self) -> int:
        """Which of the conversation's turns it is, from 1."""
        return self.claim.turns + (self.turn_id != self.claim.last_id)

    @property
    def reply(self) -> str:
        """The reply so far."""
        return self.adopted_reply or (self.recorder.own.reply if self.recorder else "")

    @property
    def has_worked(self) -> bool:
        """Whether the turn may have made a call."""
        # What a process before this one saw of the turn is not in its recorder.
        return self.view.was_sent_again or (
            self.recorder is not None and self.recorder.own.has_worked
        )

    @property
    def is_over(self) -> bool:
        """Whether this process has nothing left to do for the turn."""
        return self.view.is_over or self.interrupted_by is not None

    @property
    def may_be_left_open(self) -> bool:
        """Whether the turn is of a durable step that has an attempt left to continue it."""
        return bool(self.intended.key) and self.view.may_be_continued

    # --- its session ----------------------------------------------------------------------------

    def require_link(self) -> Link:
        assert self.link
        return self.link

    @property
    def current_session(self) -> UpstreamSessionId | None:
        """The upstream session the conversation holds, None before one is known."""
        return self.link.upstream_session_id if self.link else None

    def new_link(self, session: UpstreamSessionId, *, because: str, ended_because: str) -> None:
        """Make another session the current one, and end the link before it. Blocking."""
        if self.link:
            self.add(link_end(self.link, ended_because, self.now_ms()))
        self.link = Link(
            conversation_id=self.conversation_id,
            seq=len(self.store.links(self.conversation_id)) + 1,
            upstream_session_id=session,
            agent=self.agent,
            agent_version=self.agent_version,
            working_directory=self.working_directory,
            opened_because=because,
            opened_at_ms=self.now_ms(),
        )
        self.add(OpenLink(link=self.link))

    @property
    def holds_claimed_link(self) -> bool:
        """Whether the current link is the one the conversation was claimed with."""
        return self.link is not None and self.link == self.claim.link

    @property
    def is_elsewhere(self) -> bool:
        """Whether another agent, or another host, is to go on than the session's."""
        if not self.link or self.link.agent != self.agent:
            return self.link is not None
        # Of the session that was claimed: one that this turn has made since is on this host.
        return self.inputs.other_host is not None and self.holds_claimed_link

    def open_request(self) -> OpenRequest:
        """Return how to start the agent, with this turn answering for permissions."""
        plain = self.request.open
        # A delegation from inside this turn must know which conversations wait for it.
        callers = (*self.request.callers, self.conversation_id)
        return replace(
            plain,
            redactor=self.request.redactor,
            answer_permission=self.gate.answer,
            hold_call=self.gate.hold,
            environment={**plain.environment, CALLERS_VARIABLE: ",".join(callers)},
            title=self.conversation.key.address,
            limits=self.request.role.limits,
        )

    def started(
        self, decision: Decision | TurnIntended, session: str = "", *, recognition: str = ""
    ) -> TurnStarted:
        """Return what a person is told of a decision, and of the session that it is for."""
        return TurnStarted(
            conversation=self.conversation,
            turn_id=self.turn_id,
            decision=decision.decision,
            reasons=decision.reasons,
            agent=self.agent,
            upstream_session_id=UpstreamSessionId(session),
            turn_number=self.turn_number,
            recognition=recognition,
            # One that is gone on with was decided before its session held what it holds now.
            price=self.inputs.price if self.inputs.price.fixed else price_in(decision.inputs),
            freshness=freshness_in(decision.inputs),
        )

    def notice(self, kind: str, text: str, **about: str) -> None:
        """Report a notice to the turn's listener; `about` names its subject, for programs."""
        self.request.listener.notice(Notice(kind=kind, text=text, about=about))

    def taken_up(self, **because: Any) -> RecoveryStarted:
        """Return that this process takes the turn up, for its next commit."""
        holder = self.system.this_process(self.request.doing).in_words()
        return RecoveryStarted(holder=holder, **because)

    def learn(self, **known: Any) -> None:
        """Decide from now on with these inputs as well."""
        self.inputs = replace(self.inputs, **known)

    def decided_again(self) -> TurnIntended:
        """Return the turn's intent as it is decided with what is known by now."""
        decision = decide(self.inputs)
        return replace(
            self.intended,
            decision=decision.decision,
            reasons=decision.reasons,
            inputs=decision.inputs,
        )

    # --- what the session is told ---------------------------------------------------------------

    @property
    def role_told(self) -> Role:
        """The role as the prompt tells it: without instructions where the agent loads its own."""
        role = self.request.role
        return replace(role, instructions="") if self.request.call else role

    @property
    def freshness(self) -> Freshness:
        """What had changed when the turn was decided."""
        return freshness_in(self.intended.inputs)

    @property
    def telling(self) -> str:
        """The decision whose context is due: a session nobody has prompted yet knows nothing."""
        attached = self.view.attached
        if attached and attached.how == RESTORED:
            return RESUME  # a new session was refused as well
        decision = self.intended.decision
        if self.intended.reasons[0] == SESSION_EMPTY and self.claim.link:
            # What the empty session was to be told is due again, with what was said since.
            is_fresh = DECIDED_FOR.get(self.claim.link.opened_because) == START_FRESH
            return START_FRESH if is_fresh else RESUME_WITH_REPLAY
        # A crash between its making and its first prompt leaves such a session behind.
        is_blank = self.holds_claimed_link and not self.claim.is_prompted
        return START_FRESH if is_blank and decision not in NEW_SESSION_DECISIONS else decision

    @property
    def has_last_turn_ended(self) -> bool:
        """Whether the conversation's last turn, as it was claimed, had come to its end."""
        last = self.claim.last
        if not last:
            return True
        is_heard = not (last.was_unheard or last.may_be_unheard)
        return last.ended is not None and not last.was_cut_off and is_heard

    async def is_refused_again(
        self, outcome: Outcome, words: str, *, sends: int, stderr: str = ""
    ) -> bool:
        """Whether the agent refuses the session as before, and no more is tried (ADR 67).

        It refuses to open it, dies of that, or answers the prompt with an error and nothing else.
        `sends` is how often the prompt may have left in this attempt.
        """
        if not self.link or self.has_output(words) or outcome not in REFUSES_TO_OPEN:
            return False
        own, turn_id = self.conversation_id, self.turn_id
        before = await self.system.in_thread(
            lambda: refusals_in_row(self.store, own, turn_id=turn_id, sends=sends)
        )
        is_slow = outcome is Outcome.TIMED_OUT
        return is_refused_for_good(before, words, stderr=stderr, is_slow=is_slow)

    @property
    def is_given_up(self) -> bool:
        """Whether the turn gave its session up, and has no other one yet."""
        view = self.view
        if not view.attach_failed or view.state is not TurnState.INTENDED:
            return False
        has_other = self.current_session not in {None, view.attach_failed.upstream_session_id}
        return not has_other and self.intended.decision in NEW_SESSION_DECISIONS

    def has_output(self, error: str) -> bool:
        """Whether the agent has said or done something since the prompt was sent last.

        `error` is how the prompt failed: an agent may say that as its reply, too.
        """
        told = self.recorder
        return told is not None and (told.has_acted or told.own.reply.strip() not in error)

    @property
    def must_inject(self) -> bool:
        """Whether the session is told what was said before; a briefing takes its place."""
        if self.telling in STARTS:
            return False
        last = self.claim.last.ended if self.claim.last else None
        return must_inject(
            self.request.settings.of_agent(self.agent).inject,
            is_same_session=self.telling not in NEW_SESSION_DECISIONS,
            has_last_turn_ended=self.has_last_turn_ended and not self.has_unheard,
            was_compacted=(last is not None and last.was_compacted)
            or OLDER_SESSION in self.intended.reasons,
            was_silent=last is not None and last.detail == NOTHING_SAID,
        )

    @property
    def host(self) -> str:
        """What this host is called."""
        return self.system.this_process("").host

    # --- its events -------------------------------------------------------------------------------

    def take_up(self, turn_id: TurnId, view: TurnView) -> None:
        """Continue a turn as another process left it; a new turn has an empty view."""
        self.turn_id, self.view = turn_id, view

    @property
    def intended(self) -> TurnIntended:
        """The intent that was committed last; a turn has one before anything else is asked."""
        assert self.view.intended
        return self.view.intended

    @property
    def outcome_of_park(self) -> Outcome:
        """The agent's failure that parked the turn, unknown where it was something else."""
        reason = self.view.parked.reason if self.view.parked else ""
        return Outcome(reason) if reason in set(Outcome) else Outcome.UNKNOWN

    def hold(self, event: TurnEvent) -> None:
        """Append with the next commit: for what a crash may take with it."""
        self._held += (event,)
        self.view = apply(self.view, event)

    def add(self, *writes: Write) -> None:
        """Leave writes to the next commit; the next message follows the ones that they record."""
        self.pending += writes
        for write in writes:
            if isinstance(write, RecordParts) and write.conversation_id == self.conversation_id:
                self.advance_to(write.seq + 1)

    def close_recording(self, *, is_whole: bool = True) -> None:
        """Leave what is recorded of the reply and its files to the next commit.

        Calls without an end get an unknown one if the reply `is_whole`, else they stay open.
        """
        if not self.recording or not self.recorder:
            return
        self.add(*self.recording.close(is_whole=is_whole))
        self._closed = self.recording
        # Some of it is committed: more is written after it.
        self.advance_to(self.recorder.own.next_seq)

    async def commit(self, *events: TurnEvent) -> None:
        """Append, with what belongs to the same moment, in one commit."""
        await self.system.in_thread(lambda: self.commit_here(*events))

    def commit_here(self, *events: TurnEvent) -> None:
        """Append as `commit` does, from within a call that is off the event loop. Blocking."""
        now_ms = self.system.now_ms()
        events = tuple(map(self._with_totals, events))
        # The view counts those that are held as well: they have happened, and are not stored yet.
        committed = self.view.events - len(self._held)
        records = tuple(
            RecordTurnEvent(
                conversation_id=self.conversation_id,
                turn_id=self.turn_id,
                seq=seq,
                event=event,
                recorded_at_ms=now_ms,
                # The end of a turn is synced; it covers all that was committed before it.
                durability=Durability.SYNCED
                if isinstance(event, TurnEnded | TurnParked)
                else Durability.PROCESS,
            )
            for seq, event in enumerate((*self._held, *events), committed + 1)
        )
        # A turn is opened before its first event; all else is older than the event it led to.
        parks = (each for each in events if isinstance(each, TurnParked))
        follow_up = (w for each in parks for w in self.request.at_park(self.turn_id, each))
        examined = self._closed.examined() if self._closed else ()
        batch = (*self.pending, *examined, *records, *follow_up)
        take = (self.take,) if self.take else ()
        self.store.commit(batch, fences=self.fences, take=take, give=self.give)
        # Here and not on the loop: a caller that is cancelled meanwhile must know what is written.
        self._held, self.pending, self._closed = (), (), None
        if self.take:
            self.fences += (self.take.fence,)
        self.take, self.give = None, ()
        for event in events:
            self.view = apply(self.view, event)

    def _with_totals(self, event: TurnEvent) -> TurnEvent:
        """Add to a turn's end what all before it came to: nobody reads them for that again."""
        if not isinstance(event, TurnEnded):
            return event
        before = totals_of(self.store, self.conversation_id, before=self.turn_id)
        return before.kept_in(event)

    # --- its messages -----------------------------------------------------------------------------

    def keep_told(self, message: Message) -> None:
        """Keep the prompt as the person wrote it, once it is committed; the next one follows it."""
        self._told = message
        self.advance_to(message.seq + 1)

    def advance_to(self, seq: int) -> None:
        """Let the next message have this number, unless it has a higher one."""
        # Never back: what was given out may be on record, and a number has one message (S6).
        self.next_seq = max(self.next_seq, seq)

    def next_prompt(self, part: Part) -> Message:
        """Return the next message of the user's, to the session at hand."""
        return Message(
            conversation_id=self.conversation_id,
            seq=self.next_seq,
            speaker=Speaker.USER,
            turn_id=self.turn_id,
            upstream_session_id=self.current_session,
            recorded_at_ms=self.now_ms(),
            parts=(part,),
        )

    def with_context(self, prompt: Message, context: str) -> Message:
        """Return a recorded prompt as it is sent with a context, which is recorded as well."""
        if not context:
            return prompt
        sent = replace(prompt, parts=(*prompt.parts, ContextPart(text=context)))
        self.add(self.recorded(sent, after=len(prompt.parts)))
        return sent

    def recorded(self, prompt: Message, *, after: int = 0) -> RecordParts:
        """Return the write that records the parts of a prompt, those after the first few."""
        return RecordParts(
            conversation_id=self.conversation_id,
            seq=prompt.seq,
            first_ordinal=after,
            speaker=Speaker.USER,
            turn_id=self.turn_id,
            upstream_session_id=prompt.upstream_session_id,
            recorded_at_ms=self.now_ms(),
            parts=prompt.parts[after:],
            durability=self.request.durability,
        )

    def message(self, seq: int) -> Message:
        """Read one message back as it was recorded."""
        found = self.store.messages(self.conversation_id, after_seq=seq - 1, first=1)
        assert found, f"{self.conversation_id} has no message {seq}"
        return found[0]

    def messages(self, *, after_seq: int) -> tuple[Message, ...]:
        """Read the messages of this turn after one of its prompts."""
        found = self.store.messages(self.conversation_id, after_seq=after_seq)
        return tuple(message for message in found if message.turn_id == self.turn_id)

    def prompt(self) -> Message:
        """Return the turn's prompt, as it was written if this process was told it."""
        # What is stored may be redacted; an agent gets a prompt as the person wrote it (ADR 27).
        return self._told or self.message(self.intended.prompt_seq)

    def has_whole_prompt(self) -> bool:
        """Whether the prompt can be sent as it was written: redaction may have taken from it."""
        if self._told:
            return True
        text = self.prompt().text
        return bool(text.strip() and not has_placeholder(text))


def link_end(link: Link, because: str, at_ms: int) -> EndLink:
    """Return the write that closes a link."""
    return EndLink(
        conversation_id=link.conversation_id, seq=link.seq, ended_because=because, ended_at_ms=at_ms
    )


# --- how it is left -------------------------------------------------------------------------------


def ended_event(live: LiveTurn, result: PromptResult, *, late_events: int = 0) -> TurnEnded:
    """Return the end of the turn as its prompt ended, with what its session works in now.

    Blocking: asks git.
    """
    recorder, report, fixed = live.recorder, _report(live), _fixed(live)
    here = surroundings(
        working_directory=live.working_directory,
        agent=live.agent,
        agent_version=live.agent_version,
        role=live.request.role,
        at_ms=live.now_ms(),
    )
    digest = ""
    if live.request.is_tree_judged:
        # Starts git, so that only a role that judges a tree loads it.
        from upthread.runtime.working_tree.digest import tree_digest, written  # noqa: PLC0415

        digest = tree_digest(Path(live.working_directory), written(live.request.settings.home))
    ended = TurnEnded(
        outcome=result.outcome,
        report=to_builtins(report) if report else None,
        adopted=bool(live.adopted_reply),
        detail=_detail(live, result),
        tokens_used=recorder.own.tokens_used if recorder else None,
        tokens_window=recorder.own.tokens_window if recorder else None,
        was_compacted=recorder is not None and recorder.own.was_compacted,
        late_events=late_events,
        surroundings=to_builtins(here),
        tree_digest=digest,
        calls_open=calls_open(live.pending),
        tokens_fixed=fixed.count if fixed else None,
        is_fixed_estimated=fixed is not None and fixed.is_estimate,
    )
    return live.account.told_in(ended)


def end_with(live: LiveTurn, result: PromptResult, late_events: int = 0) -> None:
    """Commit the end of a turn as its prompt ended. Blocking."""
    end_here(live, ended_event(live, result, late_events=late_events))


def end_here(live: LiveTurn, ended: TurnEnded) -> None:
    """Commit the end of the turn, with what follows from it. Blocking."""
    live.add(*live.request.at_end(live.turn_id, ended, live.reply))
    # While the session is still known by this, the next prompt need not read it (ADR 88).
    stamped = replace(ended, session_stamp=_stamp(live))
    live.commit_here(stamped)


def _stamp(live: LiveTurn) -> str:
    """Return what the session is known by at the turn's end, empty where that is not known.

    Empty too for one that is to be looked at again: it could not be compared, it lacked turns, or
    nothing was added to it. Its agent may not be able to write its store, and says nothing.
    """
    if not live.link or not live.view.attached:
        return ""
    # With a stamp the next prompt would take what was never compared for the same.
    if live.inputs.not_compared or live.inputs.turns_gone:
        return ""
    try:
        session = live.link.upstream_session_id
        stamp = live.own_sessions.stamp(live.link.agent, session)
    except StoreError:
        return ""  # then it is read before the next prompt, which says what is wrong
    return "" if stamp == stamp_at_end(live.claim.last, session) else stamp


def parked_event(live: LiveTurn, because: TurnParked) -> TurnParked:
    """Return why the turn is parked, with what it took and what its session holds."""
    held = live.recorder.own.tokens_used if live.recorder else None
    return live.account.told_in(replace(because, tokens_held=held))


def result_of(live: LiveTurn) -> TurnResult:
    """Return what became of the turn, for its caller."""
    intended, view = live.intended, live.view
    ended, parked = view.ended, view.parked
    outcome, detail = live.interrupted_by or (live.outcome_of_park, parked.detail if parked else "")
    if ended:
        outcome, detail = ended.outcome, ended.detail
    # As it is on record: an agent's words about its failure may quote a secret (ADR 61).
    if live.request.redactor:
        detail = live.request.redactor.redact(detail)
    return TurnResult(
        conversation=live.conversation,
        turn_id=live.turn_id,
        decision=intended.decision,
        reasons=intended.reasons,
        upstream_session_id=live.current_session,
        outcome=outcome,
        reply=live.reply,
        report=_report(live),
        parked=None if ended else parked,
        detail=detail,
        is_interrupted=live.interrupted_by is not None,
        reset_at_ms=live.reset_at_ms,
        turn_number=live.turn_number,
        spent=live.account.spent or NOTHING_SPENT,
        source=wrote(live.request.open.stderr_path, live.taken_at_ms),
    )


def _report(live: LiveTurn) -> Report | None:
    """Return the reply's report, None when there is none that can be read."""
    try:
        return read_report(live.reply)
    except MalformedReportError:
        return None


def _detail(live: LiveTurn, result: PromptResult) -> str:
    """Return what is to be said of how a turn ended, also of one that has no word for a reply."""
    if result.outcome is not Outcome.OK or live.reply.strip():
        return result.detail
    if live.recorder and live.recorder.asked:
        return f"{ASKED_NOBODY}{live.recorder.asked}"
    return result.detail or (NO_WORDS if live.has_worked else NOTHING_SAID)


def _fixed(live: LiveTurn) -> Tokens | None:
    """Return what the agent reads before our words: seen in a new session, else as it was known."""
    view, recorder, price = live.view, live.recorder, price_in(live.intended.inputs)
    is_new = view.attached is not None and view.attached.how == "new"
    if view.sends != 1 or not recorder or (price.fixed and not is_new):
        return price.fixed
    sent = live.account.prompt_characters
    held = recorder.own.tokens_used
    if first_read := recorder.counted.usage.first_read:
        # While nobody knows the part, the price of a session is that of our words in it.
        before = 0 if is_new or not price.resume else price.resume.count
        part = fixed_part(first_read - before, characters=sent, is_estimate=not is_new)
        return part if first_read > 2 * before else None
    # A summary is shorter than what was read at first, and tells nothing of it.
    if held is None or recorder.own.was_compacted or not is_new:
        return None
    # What a session holds has its reply in it; what its first request read has not.
    return fixed_part(held, characters=sent + len(live.reply), is_estimate=True)
