"""A turn in the hands of this process: what was asked, what it works on, and how it stands.

Each part has one owner that writes to it: its events and view the log, its messages and their
numbers `messages`, its tokens the account, its permissions the gate; the decision's inputs are set
where it is taken (runtime/turns/turns.py) and taken again (runtime/turns/executor.py), what streams
by the sender. Everybody else reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from upthread.agents.base import OpenRequest
from upthread.core.actors import CALLERS_VARIABLE
from upthread.core.context.prior_context import must_inject
from upthread.core.decision.freshness import Freshness
from upthread.core.decision.handshake import FIRST, START_FRESH, HandshakeInputs
from upthread.core.decision.model import freshness_in
from upthread.core.runs.stops import NOTHING_SAID
from upthread.core.turns.prompt import NEW_SESSION_DECISIONS
from upthread.core.turns.recorder import Recorder
from upthread.core.types import Link, UpstreamSessionId
from upthread.runtime.cost.account import Account
from upthread.runtime.permissions.gate import Gate
from upthread.runtime.permissions.held_call_sources import reader_in
from upthread.runtime.system import System
from upthread.runtime.turns.conversation import Claim
from upthread.runtime.turns.delegation import TellRequest
from upthread.runtime.turns.recorder import Recording
from upthread.runtime.turns.turn_record import TurnLog, TurnMessages
from upthread.store.base import Store

Result = TypeVar("Result")


class LiveTurn:
    """The parts of a turn. Every change that matters is committed before it counts."""

    def __init__(self, *, request: TellRequest, claim: Claim, store: Store, system: System) -> None:
        self.request = request
        self.claim = claim
        self.conversation = claim.conversation
        self.log = TurnLog(store, system, request, claim)
        self.messages = TurnMessages(store, system, claim, self.log, durability=request.durability)
        self.gate = Gate(
            request.permissions,
            outward_patterns=request.outward_patterns,
            redactor=request.redactor,
            look=partial(reader_in, request.open.working_directory),
        )
        self.account = Account()
        self.taken_at_ms = system.now_ms()
        # By those who decide and drive:
        self.link: Link | None = claim.link
        self.inputs: HandshakeInputs | None = None
        self.agent_version = ""
        self.reset_at_ms: int | None = None
        # By those who send, and who adopt what came meanwhile:
        self.recorder: Recorder | None = None
        self.recording: Recording | None = None
        self.adopted_reply = ""
        self._store = store
        self._system = system

    async def read(self, query: Callable[[Store], Result]) -> Result:
        """Ask the store all that is to be known next, off the event loop: one hop, one moment."""
        return await self._system.in_thread(lambda: query(self._store))

    @property
    def turn_number(self) -> int:
        """Which of the conversation's turns it is, from 1."""
        return self.claim.turns + (self.log.turn_id != self.claim.last_id)

    @property
    def reply(self) -> str:
        """The reply so far."""
        return self.adopted_reply or (self.recorder.reply if self.recorder else "")

    @property
    def has_worked(self) -> bool:
        """Whether the turn may have made a call."""
        # What a process before this one saw of the turn is not in its recorder.
        is_sent_again = self.log.view.sends > 1
        return is_sent_again or (self.recorder is not None and self.recorder.has_worked)

    # --- its session ----------------------------------------------------------------------------

    def require_link(self) -> Link:
        assert self.link is not None
        return self.link

    @property
    def current_session(self) -> UpstreamSessionId | None:
        """The upstream session the conversation holds, None before one is known."""
        return self.link.upstream_session_id if self.link else None

    @property
    def holds_claimed_link(self) -> bool:
        """Whether the current link is the one the conversation was claimed with."""
        return self.link is not None and self.link == self.claim.link

    @property
    def is_elsewhere(self) -> bool:
        """Whether another agent, or another host, is to go on than the session's."""
        if self.link is None or self.link.agent != self.request.claim.agent:
            return self.link is not None
        is_on_other_host = self.inputs is not None and self.inputs.other_host is not None
        # Of the session that was claimed: one that this turn has made since is on this host.
        return is_on_other_host and self.holds_claimed_link

    def open_request(self) -> OpenRequest:
        """Return how to start the agent, with this turn answering for permissions."""
        options = self.request.open
        # A delegation from inside this turn must know which conversations wait for it.
        callers = (*self.request.claim.callers, self.conversation.conversation_id)
        return OpenRequest(
            working_directory=options.working_directory,
            stderr_path=options.stderr_path,
            redactor=self.request.redactor,
            answer_permission=self.gate.answer,
            hold_call=self.gate.hold,
            environment={**options.environment, CALLERS_VARIABLE: ",".join(callers)},
            start_timeout_s=options.start_timeout_s,
            prompt_timeout_s=options.prompt_timeout_s,
            title=self.conversation.key.address,
            limits=self.request.claim.role.limits,
        )

    # --- what the session is told ---------------------------------------------------------------

    @property
    def freshness(self) -> Freshness:
        """What had changed when the turn was decided."""
        return freshness_in(self.log.intended.inputs)

    @property
    def telling(self) -> str:
        """The decision whose context is due: a session nobody has prompted yet knows nothing."""
        decision = self.log.intended.decision
        # A crash between its making and its first prompt leaves such a session behind.
        is_blank = self.holds_claimed_link and not self.claim.prompts.has_any
        return START_FRESH if is_blank and decision not in NEW_SESSION_DECISIONS else decision

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
            was_silent=last is not None and last.detail == NOTHING_SAID,
        )

    def prompts_before(self) -> int:
        """Return how many prompts the upstream session is known to have answered."""
        # A session of this turn's own making has answered none of the earlier prompts.
        return self.claim.prompts.answered if self.holds_claimed_link else 0

    @property
    def host(self) -> str:
        """What this host is called."""
        return self._system.this_process("").host

    def new_nonce(self) -> str:
        """Return a word that no content can have known."""
        return self._system.new_id("prior")
