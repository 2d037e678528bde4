"""The totals of a conversation: what its turns came to, added up at the end of each.

With a turn's end is kept what all turns before it came to, so that whoever asks looks at the newest
turns and at no other, however many there were. A turn that has ended never changes, and one that a
newer turn has followed is never gone on with: so what was added up once stays right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

from msgspec import Struct

from upthread.core.decision.price import Tokens
from upthread.core.events import TurnEnded, TurnEvent
from upthread.core.turns import turn as turns
from upthread.core.turns.spent_tokens import NOTHING_SPENT, added, spent_on_turn
from upthread.core.turns.turn import TurnView
from upthread.core.types import Outcome, TurnId

FAILED_KEPT_MAX: Final = 64
"""How many turns that did not end well are named; of more nothing is kept, and all are read."""


class Before(TypedDict):
    """What a turn's end tells of the turns before it."""

    turns_before: int | None
    tokens_before: int
    is_before_estimated: bool
    failed_before: tuple[str, ...]


class Totals(Struct, frozen=True, kw_only=True):
    """What turns came to, oldest first: how many, what they took, and which did not end well."""

    turns: int = 0
    spent: Tokens = NOTHING_SPENT
    failed: tuple[TurnId, ...] = ()

    def and_one(self, turn_id: TurnId, events: Sequence[TurnEvent]) -> Totals:
        """Return the same with the turn that came next."""
        is_well = ended_well(turns.fold(events))
        return Totals(
            turns=self.turns + 1,
            spent=added((self.spent, spent_on_turn(events))),
            failed=self.failed if is_well else (*self.failed, turn_id),
        )

    def as_before(self) -> Before:
        """Return what the end of the turn that comes next keeps of these."""
        is_kept = len(self.failed) <= FAILED_KEPT_MAX
        return {
            "turns_before": self.turns if is_kept else None,
            "tokens_before": self.spent.count if is_kept else 0,
            "is_before_estimated": is_kept and self.spent.is_estimate,
            "failed_before": self.failed if is_kept else (),
        }


NO_TOTALS: Final = Totals()


def totals_before(events: Sequence[TurnEvent]) -> Totals | None:
    """Return what the turns before this one came to, None where its end does not tell."""
    ended = events[-1] if events else None
    if not isinstance(ended, TurnEnded) or ended.turns_before is None:
        return None
    return Totals(
        turns=ended.turns_before,
        spent=Tokens(count=ended.tokens_before, is_estimate=ended.is_before_estimated),
        failed=tuple(map(TurnId, ended.failed_before)),
    )


def ended_well(view: TurnView) -> bool:
    """Return whether a turn came to a good end, and each of its calls to one."""
    ended = view.ended
    is_well = ended is not None and ended.outcome is Outcome.OK and not ended.calls_open
    # Sent twice, it lost its agent or its session in between: what it did until then counts too.
    return is_well and not view.was_sent_again
