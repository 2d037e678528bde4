"""A turn as its caller hears of it: that it has begun, what is to know, what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field, structs

from upthread.core.decision.freshness import NOTHING_KNOWN, Freshness
from upthread.core.decision.handshake import RESUME, because
from upthread.core.decision.words import (
    NOTHING_PRICED,
    RECOGNISED,
    Price,
    Tokens,
    conversation_name,
    cost_in_words,
    decision_line,
)
from upthread.core.events import AgentEvent, TurnParked
from upthread.core.roles.reports import Report
from upthread.core.runs.stops import OURS, Source, shortfall
from upthread.core.text import visible_line
from upthread.core.turns.spent_tokens import NOTHING_SPENT
from upthread.core.types import (
    Conversation,
    Lease,
    Outcome,
    TurnId,
    UpstreamSessionId,
)


class TurnStarted(Struct, frozen=True, kw_only=True):
    """What a person is told when a session is attached. `turn_number` counts from 1.

    `recognition` is set when an interrupted turn is gone on with: complete, incomplete, absent or
    undecidable, as core/turns/recognition.py found it.
    """

    conversation: Conversation
    turn_id: TurnId
    decision: str
    reasons: tuple[str, ...]
    agent: str
    upstream_session_id: UpstreamSessionId
    turn_number: int
    recognition: str = ""
    price: Price = NOTHING_PRICED
    freshness: Freshness = NOTHING_KNOWN

    @property
    def line(self) -> str:
        """The one line that says which decision was taken, and why when it is not the plain one."""
        said = self.conversation
        return decision_line(
            conversation_name(said.key.address, said.instance_name),
            # Whatever was decided at first, a turn that is gone on with is in its own session.
            RESUME if self.recognition else self.decision,
            visible_line(self.upstream_session_id),
            turn_number=self.turn_number,
            because=RECOGNISED.get(self.recognition) or because(self.reasons, self.freshness),
            cost=cost_in_words(self.price),
        )


class Notice(Struct, frozen=True, kw_only=True):
    """Something to know that is no part of the work. `about` names it, for programs."""

    kind: str
    text: str
    about: Mapping[str, str] = field(default_factory=dict[str, str])


class TurnResult(Struct, frozen=True, kw_only=True):
    """What became of a turn, also on failure. `report` is None when none could be read.

    `spent` is what this process spent on it, `source` where its agent's last words are. With
    `is_interrupted` the turn is still open, and the next attempt of its durable step continues it.
    """

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
    is_interrupted: bool = False
    spent: Tokens = NOTHING_SPENT
    source: Source = OURS

    @property
    def is_answered(self) -> bool:
        """Whether the agent did what it was told, as it says, and answered."""
        is_ok = self.parked is None and self.outcome is Outcome.OK
        return is_ok and shortfall(self.outcome, self.detail) is None


class Listener(Struct, frozen=True, kw_only=True):
    """Where progress goes; called on the event loop, so it must not block.

    `cancelled` is told what became of a turn whose caller gave it up, since that gets no result:
    its ids, and what was said so far. `limited` is told of a turn that is parked until a limit has
    passed, and is waited for.
    """

    started: Callable[[TurnStarted], None] = lambda _: None
    event: Callable[[AgentEvent], None] = lambda _: None
    waiting: Callable[[Lease], None] = lambda _: None
    notice: Callable[[Notice], None] = lambda _: None
    cancelled: Callable[[TurnResult], None] = lambda _: None
    limited: Callable[[TurnResult], None] = lambda _: None

    def telling_once(self) -> Listener:
        """Return a listener for many turns that tells the same notice once."""
        told: set[str] = set()

        def notice(each: Notice) -> None:
            if each.text not in told:
                told.add(each.text)
                self.notice(each)

        return structs.replace(self, notice=notice)


SILENT: Final = Listener()
"""Hears nothing."""
